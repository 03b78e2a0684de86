/*
 * What reading four columns costs, in ns per record: by a learned layout and
 * by the scanner. Prints figures; not a test.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "core/rec.h"
#include "format/json.h"
#include "format/reader.h"

enum { RECORDS = 2000, ROUNDS = 500, BEST_OF = 5 };

static const char *const columns[] = {"tenant_id", "metric_name", "value",
                                      "ts"};

static int64_t
now_ns(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* Events of about 147 bytes; `shapes` different orders of members. */
static void
make(struct batch *b, unsigned shapes)
{
    char text[512];
    uint32_t i;

    for (i = 0; i < RECORDS; i++) {
        struct rec *r = batch_add(b);
        unsigned shape = shapes > 1 ? (unsigned)rand() % shapes : 0;
        int n = snprintf(
            text, sizeof text,
            "{\"tenant_id\":\"tenant-%d\",%.*s\"metric_name\":\"cpu.%d\","
            "\"dimensions\":{\"host\":\"h%d\",\"dc\":\"eu-%d\"},"
            "\"value\":%d.%02d,\"user\":\"user-%d\",\"ts\":%" PRId64 "}",
            rand() % 100, (int)shape, "          ", rand() % 100, rand() % 50,
            rand() % 3, rand() % 1000, rand() % 100, rand() % 10000,
            1700000000000 + i * INT64_C(17));

        r->val = arena_dup(&b->arena, text, (size_t)n);
        r->val_len = (uint32_t)n;
        r->kind = REC_OBJECT;
    }
}

static void
run(const char *what, unsigned shapes)
{
    struct batch b;
    struct reader *r = reader_new();
    struct reader_stats st;
    struct err e;
    int64_t best = INT64_MAX, t;
    uint32_t i, col, round, k;

    batch_init(&b);
    make(&b, shapes);
    for (i = 0; i < sizeof columns / sizeof *columns; i++)
        if (reader_column(r, columns[i], strlen(columns[i]), &col, &e) != 0)
            abort();
    for (k = 0; k < BEST_OF; k++) {
        t = now_ns();
        for (round = 0; round < ROUNDS / BEST_OF; round++) {
            for (i = 0; i < b.n; i++)
                b.recs[i].row = NULL;
            reader_load(r, &b);
        }
        t = now_ns() - t;
        best = t < best ? t : best;
    }
    reader_stats(r, &st);
    printf("%-24s %6.1f ns/record  %5.1f%% by layout  %u bytes\n", what,
           (double)best / (RECORDS * (double)(ROUNDS / BEST_OF)),
           100.0 * (double)st.layout_hits / (double)st.records,
           b.recs[0].val_len);
    reader_free(&r);
    batch_fini(&b);
}

static void
run_check(const char *what, bool validate)
{
    struct batch b;
    struct err e;
    int64_t best = INT64_MAX, t;
    uint32_t i, round;

    batch_init(&b);
    make(&b, 1);
    for (round = 0; round < ROUNDS; round++) {
        t = now_ns();
        for (i = 0; i < b.n; i++)
            if (json_check(b.recs[i].val, b.recs[i].val_len, validate,
                           &b.recs[i], &e) != 0)
                abort();
        t = now_ns() - t;
        best = t < best ? t : best;
    }
    printf("%-24s %6.1f ns/record\n", what, (double)best / RECORDS);
    batch_fini(&b);
}

int
main(void)
{
    srand(1);
    run_check("check, ends and UTF-8", false);
    run_check("check, validate", true);
    run("one shape", 1);
    run("four shapes", 4);
    run("ten shapes (scanner)", 10);
    return 0;
}
