/*
 * What the store costs: a large first round, rounds of dirty keys, merging,
 * opening, restoring, copying. Prints one line a figure, asserts nothing.
 *
 * usage: bench_store DIR [KEYS] [DIRTY]      (1000000 and 100000)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"
#include "state/store.h"

enum { GROUPS = 128, ROUNDS = 10, VALUE = 48 };

static struct err err;
static unsigned long keys = 1000000, dirty = 100000;

static double
now(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void
must(int r)
{
    if (r >= 0)
        return;
    (void)fprintf(stderr, "%s\n", err.msg);
    exit(1);
}

static void
say(const char *what, double value, const char *unit)
{
    (void)printf("%-44s %12.3f %s\n", what, value, unit);
    (void)fflush(stdout);
}

/* Keys as an aggregate has them: a window's start, then some text. */
static void
put(struct store *s, uint32_t op, unsigned long i, uint64_t version)
{
    char key[32], value[VALUE];
    uint64_t h = hash_splitmix(i), window = h % 4;
    struct store_key k = {.op = op, .ns = &window, .ns_len = 8, .key = key};

    k.group = (uint16_t)(h >> 32 & (GROUPS - 1));
    k.key_len = (size_t)snprintf(key, sizeof key, "tenant-%lu", i);
    memset(value, (int)version, sizeof value);
    must(store_round_put(s, &k, value, sizeof value, &err));
}

/* One round. @return seconds of the write alone. */
static double
round_of(struct store *s, uint64_t n, unsigned long count, double *ret_put)
{
    double t0 = now(), t1, t2;
    unsigned long i;
    uint32_t op;

    must(store_round_begin(s, n, &err));
    must(store_round_operator(s, "agg", 3, &op, &err));
    for (i = 0; i < count; i++)
        put(s, op, count == keys ? i : hash_splitmix(n * count + i) % keys, n);
    must(store_round_blob(s, "positions", "p", 1, &err));
    t1 = now();
    must(store_round_write(s, 0, &err));
    t2 = now();
    must(store_round_complete(s, n, 0, &err));
    *ret_put = t1 - t0;
    return t2 - t1;
}

static double
merge_all(struct store *s, double *ret_longest)
{
    double t0 = now(), t;
    int r;

    *ret_longest = 0;
    do {
        t = now();
        r = store_merge(s, 10000, &err);
        must(r);
        if (now() - t > *ret_longest)
            *ret_longest = now() - t;
    } while (r == 1);
    return now() - t0;
}

static unsigned long
scan_all(struct store *s)
{
    struct store_reader *r = NULL;
    struct store_scan *c = NULL;
    struct store_key k;
    const void *v;
    size_t len;
    unsigned long n = 0;
    uint32_t op = 0;
    int rc;

    must(store_reader_new(s, &r, &err));
    must(store_reader_begin(r, STORE_VIEW_COMPLETE, &err));
    (void)store_reader_find(r, "agg", 3, &op);
    must(store_scan_open(r, op, 0, UINT16_MAX, &c, &err));
    while ((rc = store_scan_next(c, &k, &v, &len, &err)) == 1)
        n++;
    must(rc);
    store_scan_close(&c);
    store_reader_free(&r);
    return n;
}

static void
rounds(struct store *s)
{
    double put, sum = 0, worst = 0, puts = 0, longest;
    uint64_t n;

    for (n = 2; n < 2 + ROUNDS; n++) {
        double t = round_of(s, n, dirty, &put);

        sum += t;
        puts += put;
        worst = t > worst ? t : worst;
    }
    say("dirty round, gathering", puts / ROUNDS, "s");
    say("dirty round, sort + append + sync", sum / ROUNDS, "s");
    say("dirty round, worst", worst, "s");
    say("append", (double)dirty * ROUNDS / sum / 1e6, "M entries/s");
    say("scan over base and 10 segments", (double)scan_all(s), "entries");
    sum = merge_all(s, &longest);
    say("merge of 10 rounds", (double)dirty * ROUNDS / sum / 1e6,
        "M changes/s");
    say("merge, longest step of 10,000", longest, "s");
}

static void
random_gets(struct store *s)
{
    struct store_reader *r = NULL;
    double t = now();
    unsigned long i, n = 200000;
    uint32_t op = 0;

    must(store_reader_new(s, &r, &err));
    must(store_reader_begin(r, STORE_VIEW_COMPLETE, &err));
    (void)store_reader_find(r, "agg", 3, &op);
    for (i = 0; i < n; i++) {
        unsigned long which = hash_splitmix(i) % keys;
        char key[32];
        uint64_t h = hash_splitmix(which), window = h % 4;
        struct store_key k = {.op = op, .ns = &window, .ns_len = 8, .key = key};
        const void *v;
        size_t len;

        k.group = (uint16_t)(h >> 32 & (GROUPS - 1));
        k.key_len = (size_t)snprintf(key, sizeof key, "tenant-%lu", which);
        must(store_reader_get(r, &k, &v, &len, &err));
    }
    say("random get", (double)n / (now() - t) / 1e6, "M/s");
    store_reader_free(&r);
}

static void
copy(struct store *s, const char *dir)
{
    struct store_copy *c = NULL;
    char to[4200];
    double t = now();
    int r;

    (void)snprintf(to, sizeof to, "%s/savepoint", dir);
    must(store_copy_begin(s, to, NULL, &c, &err));
    while ((r = store_copy_step(c, 50000, &err)) == 1)
        continue;
    must(r);
    store_copy_free(&c);
    say("savepoint, checked, per million keys",
        (now() - t) / (double)keys * 1e6, "s");
}

int
main(int argc, char **argv)
{
    struct store_opts o = {.create = true};
    struct store_status st;
    struct store *s = NULL;
    struct rusage u;
    char dir[4096];
    double t, put, longest;

    if (argc < 2) {
        (void)fprintf(stderr, "usage: bench_store DIR [KEYS] [DIRTY]\n");
        return 64;
    }
    if (argc > 2)
        keys = strtoul(argv[2], NULL, 10);
    if (argc > 3)
        dirty = strtoul(argv[3], NULL, 10);
    (void)snprintf(dir, sizeof dir, "%s/bench-store-%ld", argv[1],
                   (long)getpid());
    o.dir = dir;
    must(store_open(&o, &s, &err));
    t = round_of(s, 1, keys, &put);
    say("first round, gathering", put, "s");
    say("first round, sort + append + sync", t, "s");
    t = merge_all(s, &longest);
    say("first merge", (double)keys / t / 1e6, "M entries/s");
    rounds(s);
    random_gets(s);
    copy(s, dir);
    store_close(&s);
    t = now();
    must(store_open(&o, &s, &err));
    say("open: every byte checked, per million keys",
        (now() - t) / (double)keys * 1e6, "s");
    store_status(s, &st);
    say("file", (double)st.file_bytes / 1048576, "MiB");
    say("free in it", (double)st.free_bytes / 1048576, "MiB");
    t = now();
    (void)scan_all(s);
    say("restore scan, per million keys", (now() - t) / (double)keys * 1e6,
        "s");
    store_close(&s);
    (void)getrusage(RUSAGE_SELF, &u);
    say("peak resident memory", (double)u.ru_maxrss / 1024, "MiB");
    (void)printf("left behind: %s\n", dir);
    return 0;
}
