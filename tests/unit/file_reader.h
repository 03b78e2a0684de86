/*
 * Helper of the tests of the file source: runs of it, and what they give.
 *
 * Used by tests/unit/test_file_{source,restore}.c. Any failure fails the
 * test at once.
 */
#ifndef TESTS_UNIT_FILE_READER_H
#define TESTS_UNIT_FILE_READER_H

#include <inttypes.h>

#include "base/hash.h"
#include "connect_help.h"

/* What one task gave: "path@offset:bytes" a line, in the order given. */
struct given {
    struct buf text;
    uint32_t added, discovered, ended, records, bad;
    enum err_cause cause; /* of the last bad one */
    char msg[256];
};

struct run {
    struct arena a;
    struct conn_env env;

    struct source *s;
    struct source_task *t;
    struct given g;
};

static inline int
open_from(struct run *r, const struct step_blobs *from, const char *opts,
          uint32_t parallelism, struct err *e)
{
    memset(r, 0, sizeof *r);
    arena_init(&r->a);
    r->env = help_env(&r->a, opts, parallelism);
    r->env.restored = from;
    err_clear(e);
    return file_source_type.open(&r->env, &r->s, e);
}

static inline int
open_run(struct run *r, const char *opts, uint32_t parallelism, struct err *e)
{
    return open_from(r, NULL, opts, parallelism, e);
}

/* Options with a format and `dir`/`name` as the path. */
static inline const char *
opts_for(struct arena *a, const char *dir, const char *name, const char *more)
{
    struct buf b;
    const char *text;

    buf_init(&b);
    buf_addf(&b, "{\"path\":\"%s%s%s\"%s}", dir, *name != '\0' ? "/" : "", name,
             more);
    text = arena_dup(a, b.data, b.len);
    buf_fini(&b);
    return text;
}

static inline void
task(struct run *r, uint32_t subtask)
{
    struct conn_task conf = {.subtask = subtask};
    struct err e;

    if (r->t != NULL)
        file_source_type.task_free(&r->t);
    assert_int_equal(file_source_type.task_new(r->s, &conf, &r->t, &e), 0);
}

static inline void
take(struct run *r, const struct batch *b, const struct source_event *ev,
     const char *dir)
{
    uint32_t i;

    assert_true(b->n > 0);
    for (i = 0; i < b->n; i++) {
        const struct rec *rec = &b->recs[i];
        const char *path = topic_name(rec->topic);

        assert_int_equal(rec->partition, 0);
        assert_int_equal(rec->src, 5);
        assert_int_equal(rec->topic, b->recs[0].topic);
        assert_memory_equal(path, dir, strlen(dir));
        buf_addf(&r->g.text, "%s@%" PRId64 ":", path + strlen(dir),
                 rec->offset);
        buf_add(&r->g.text, rec->val, rec->val_len);
        buf_addc(&r->g.text, '\n');
    }
    r->g.records += b->n;
    r->g.bad += ev->bad_count;
    for (i = 0; i < ev->bad_count; i++) {
        assert_true(ev->bad[i].index < b->n);
        assert_true(i == 0 || ev->bad[i].index > ev->bad[i - 1].index);
        r->g.cause = ev->bad[i].cause;
        (void)snprintf(r->g.msg, sizeof r->g.msg, "%s", ev->bad[i].msg);
    }
}

/* Poll at most `polls` times; @return whether the task has ended. */
static inline bool
poll_some(struct run *r, const char *dir, uint32_t max, int polls)
{
    struct source_event ev = {.kind = SOURCE_NONE};
    struct batch b;
    struct err e;

    batch_init(&b);
    while (polls-- != 0 && ev.kind != SOURCE_END) {
        batch_clear(&b);
        if (file_source_type.poll(r->t, &b, max, &ev, &e) != 0)
            fail_msg("%s", e.msg);
        assert_true(b.n <= max);
        assert_int_not_equal(ev.kind, SOURCE_NONE);
        if (ev.kind == SOURCE_BATCH)
            take(r, &b, &ev, dir);
        r->g.added += ev.kind == SOURCE_ADDED;
        r->g.discovered += ev.kind == SOURCE_ADDED && ev.discovered;
        r->g.ended += ev.kind == SOURCE_PART_END;
    }
    batch_fini(&b);
    return ev.kind == SOURCE_END;
}

static inline void
close_run(struct run *r)
{
    buf_fini(&r->g.text);
    if (r->t != NULL)
        file_source_type.task_free(&r->t);
    file_source_type.close(&r->s);
    arena_fini(&r->a);
}

/* Everything that `opts` gives with one task. */
static inline void
run_all(struct run *r, const char *dir, const char *name, const char *more,
        uint32_t max)
{
    struct arena a;
    struct err e;

    arena_init(&a);
    if (open_run(r, opts_for(&a, dir, name, more), 1, &e) != 0)
        fail_msg("%s", e.msg);
    arena_fini(&a);
    task(r, 0);
    assert_true(poll_some(r, dir, max, -1));
}

#define RAW ",\"format\":\"raw\""
#define HEADER ",\"format\":\"csv\",\"header\":true"

/* Add the snapshot of the task to those of the round. */
static inline void
keep(struct run *r, struct step_blobs *blobs)
{
    struct err e;

    assert_int_equal(file_source_type.snapshot(r->t, help_blobs_add(blobs), &e),
                     0);
}

/* Read `polls` events of `dir`/`name` with one task, and keep the round. */
static inline void
read_some(struct step_blobs *blobs, const char *dir, const char *name,
          const char *more, int polls)
{
    struct arena a;
    struct run r;
    struct err e;

    arena_init(&a);
    if (open_run(&r, opts_for(&a, dir, name, more), 1, &e) != 0)
        fail_msg("%s", e.msg);
    task(&r, 0);
    (void)poll_some(&r, dir, 1, polls);
    keep(&r, blobs);
    close_run(&r);
    arena_fini(&a);
}

/* What a job that goes on from `blobs` gives; or its error at open. */
static inline int
read_on(struct run *r, const struct step_blobs *blobs, const char *dir,
        const char *name, const char *more, struct err *e)
{
    struct arena a;
    int got;

    arena_init(&a);
    got = open_from(r, blobs, opts_for(&a, dir, name, more), 1, e);
    arena_fini(&a);
    if (got != 0) {
        arena_fini(&r->a);
        return got;
    }
    task(r, 0);
    assert_true(poll_some(r, dir, 100, -1));
    return 0;
}

/* Append a file of random lines and what is expected of it. */
static inline void
random_file(uint64_t *seed, const char *name, struct buf *bytes,
            struct buf *want)
{
    uint32_t lines, k;

    *seed = hash_splitmix(*seed);
    lines = (uint32_t)(*seed % 400);
    for (k = 0; k < lines; k++) {
        size_t len, i, from = bytes->len;

        *seed = hash_splitmix(*seed);
        len = *seed % (*seed % 97 == 0 ? 700000 : *seed % 5 == 0 ? 5000 : 60);
        buf_addf(want, "%s@%zu:", name, from);
        for (i = 0; i < len; i++)
            buf_addc(bytes, (char)('a' + (i * 7 + k) % 26));
        buf_add(want, bytes->data + from, len);
        buf_addc(want, '\n');
        if (k + 1 < lines || len == 0 || *seed % 2 == 0)
            buf_addc(bytes, '\n');
    }
}

/* The lines of `text` that begin with `name`. */
static inline void
lines_of(struct buf *text, const char *name, struct buf *out)
{
    const char *p = text->data, *end = p + text->len;

    while (p < end) {
        const char *nl = memchr(p, '\n', (size_t)(end - p)) + 1;

        if (strncmp(p, name, strlen(name)) == 0)
            buf_add(out, p, (size_t)(nl - p));
        p = nl;
    }
}

#endif
