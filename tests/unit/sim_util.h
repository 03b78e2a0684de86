/*
 * Helpers of the tests of a job in a box: a job from its text, and what its
 * sinks got as sorted lines. A failure of the machine fails the test with its
 * message.
 */
#ifndef TESTS_SIM_UTIL_H
#define TESTS_SIM_UTIL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "testing/sim.h"

static struct err err;

struct box_rig {
    struct sim_conf conf;
    struct sim *sim;
    char file[256];
    char *lines; /* of rig_take() */
};

static inline void
ok(int r)
{
    if (r != 0)
        fail_msg("%d: %s: %s\n%s", r, err.where, err.msg, err.trace);
}

static inline void
rig_file(struct box_rig *r, const char *text)
{
    static int number;
    FILE *f;

    memset(r, 0, sizeof *r);
    (void)snprintf(r->file, sizeof r->file, "%s/sim-%ld-%d.lua",
                   getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp",
                   (long)getpid(), ++number);
    f = fopen(r->file, "w");
    assert_non_null(f);
    (void)fputs(text, f);
    assert_int_equal(fclose(f), 0);
    r->conf = (struct sim_conf){.file = r->file, .seed = 1, .parallelism = 2};
}

/* A job from its whole text, in a box. */
static inline void
rig_up(struct box_rig *r, const char *text)
{
    rig_file(r, text);
    ok(sim_new(&r->conf, &r->sim, &err));
}

static inline void
rig_down(struct box_rig *r)
{
    sim_free(&r->sim);
    (void)unlink(r->file);
    free(r->lines);
    r->lines = NULL;
}

static inline int
rig_try(struct box_rig *r, const char *source, int32_t partition,
        const char *json)
{
    struct sim_record rec = {.value = json,
                             .value_len = json != NULL ? strlen(json) : 0,
                             .partition = partition};

    return sim_push(r->sim, source, &rec, &err);
}

static inline void
rig_push(struct box_rig *r, const char *json)
{
    ok(rig_try(r, "in", 0, json));
}

static inline int
rig_cmp(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The rows of a sink since the last look, sorted, a line each. */
static inline const char *
rig_take(struct box_rig *r, const char *sink)
{
    struct sim_row *rows;
    struct arena a;
    uint32_t i, n;
    char **texts;
    struct buf b;

    arena_init(&a);
    buf_init(&b);
    ok(sim_take(r->sim, sink, &a, &rows, &n, &err));
    texts = calloc(n + 1u, sizeof *texts);
    for (i = 0; i < n; i++)
        texts[i] = (char *)(uintptr_t)rows[i].json;
    qsort(texts, n, sizeof *texts, rig_cmp);
    for (i = 0; i < n; i++)
        buf_addf(&b, "%s\n", texts[i]);
    free(r->lines);
    r->lines = strdup(buf_cstr(&b));
    free(texts);
    buf_fini(&b);
    arena_fini(&a);
    return r->lines;
}

#define expect(r, sink, text) assert_string_equal(rig_take(r, sink), text)

#endif
