/*
 * Test helper of the connector tests: options from JSON, tasks by hand.
 *
 * Used by tests/unit/test_{file_source,file_sink,generator,stdio}.c; static
 * inline functions, so that each program has its own. {"func":n} in the text
 * is the user function number n. Any failure fails the test at once.
 */
#ifndef TESTS_CONNECT_HELP_H
#define TESTS_CONNECT_HELP_H

#include <dirent.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "connect/connect.h"
#include "format/json.h"

static inline struct opt *
help_opt_val(struct arena *a, const struct val *v)
{
    struct opt *o = opt_new(a);
    struct json_walk w;
    struct val name, value;
    struct err e;

    switch (v->type) {
    case VAL_INT:
    case VAL_BOOL:
        o->type = v->type == VAL_INT ? OPT_INT : OPT_BOOL;
        o->i = v->type == VAL_INT ? v->u.i : v->u.b;
        return o;
    case VAL_DBL:
        o->type = OPT_DBL;
        o->d = v->u.d;
        return o;
    case VAL_STR:
        return opt_new_str(a, v->u.s, v->len);
    case VAL_LIST:
    case VAL_MAP:
        break;
    default:
        return o;
    }
    o->type = v->type == VAL_LIST ? OPT_LIST : OPT_MAP;
    json_walk_init(&w, v->u.s, v->len, BIGINT_ERROR, a);
    while (json_walk_next(&w, &name, &value, NULL, NULL, &e) == 1)
        opt_add(a, o,
                o->type == OPT_MAP ? arena_dup(a, name.u.s, name.len) : NULL,
                help_opt_val(a, &value));
    if (o->type == OPT_MAP && opt_get(o, "func") != NULL && o->len == 1) {
        o->i = opt_get(o, "func")->i;
        o->type = OPT_FUNC;
    }
    return o;
}

/* The option tree of a JSON text. */
static inline const struct opt *
help_opts(struct arena *a, const char *text)
{
    struct buf padded;
    struct val v;
    struct err e;

    buf_init(&padded);
    buf_adds(&padded, text);
    buf_reserve(&padded, REC_PAD);
    text = arena_dup(a, padded.data, padded.len);
    if (json_value(text, padded.len, BIGINT_ERROR, a, &v, &e) != 0)
        fail_msg("options: %s: %s", text, e.msg);
    buf_fini(&padded);
    return help_opt_val(a, &v);
}

/* What a connector is opened with. */
static inline struct conn_env
help_env(struct arena *a, const char *opts, uint32_t parallelism)
{
    return (struct conn_env){.job = "t",
                             .step = "in",
                             .place = "job.lua:2",
                             .opts = help_opts(a, opts),
                             .job_opts = opt_new_map(a),
                             .cli = opt_new_map(a),
                             .parallelism = parallelism,
                             .src = 5};
}

/* Room for one more blob of a round; help_blobs_free() frees them all. */
static inline struct buf *
help_blobs_add(struct step_blobs *b)
{
    b->blobs = mem_realloc(b->blobs, (b->count + 1u) * sizeof *b->blobs);
    buf_init(&b->blobs[b->count]);
    return &b->blobs[b->count++];
}

static inline void
help_blobs_free(struct step_blobs *b)
{
    while (b->count > 0)
        buf_fini(&b->blobs[--b->count]);
    free(b->blobs);
    b->blobs = NULL;
}

/* A wake counted by a semaphore. */
static inline void
help_wake(void *arg)
{
    (void)sem_post(arg);
}

static inline bool
help_wait(sem_t *wakes, int seconds)
{
    struct timespec until;

    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += seconds;
    return sem_timedwait(wakes, &until) == 0;
}

/* A new directory; help_dir_remove() frees the name, too. */
static inline char *
help_dir_make(void)
{
    const char *tmp = getenv("TMPDIR");
    char name[512];

    (void)snprintf(name, sizeof name, "%s/streamlua-test-XXXXXX",
                   tmp != NULL ? tmp : "/tmp");
    if (mkdtemp(name) == NULL)
        fail_msg("cannot make %s", name);
    return mem_strdup(name);
}

static inline char *
help_path(struct arena *a, const char *dir, const char *name)
{
    size_t len = strlen(dir) + strlen(name) + 2;
    char *path = arena_alloc(a, len);

    (void)snprintf(path, len, "%s/%s", dir, name);
    return path;
}

static inline void
help_remove_tree(const char *path)
{
    struct dirent *entry;
    struct arena a;
    DIR *dir = opendir(path);

    arena_init(&a);
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        char *full = help_path(&a, path, entry->d_name);

        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (unlink(full) != 0)
            help_remove_tree(full);
    }
    if (dir != NULL)
        (void)closedir(dir);
    (void)rmdir(path);
    arena_fini(&a);
}

static inline void
help_dir_remove(char **dir)
{
    help_remove_tree(*dir);
    free(*dir);
    *dir = NULL;
}

static inline void
help_file(const char *dir, const char *name, const void *bytes, size_t len)
{
    struct arena a;
    FILE *f;

    arena_init(&a);
    f = fopen(help_path(&a, dir, name), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
    arena_fini(&a);
}

/* Append the bytes of a file to `out`; fails if there is none. */
static inline void
help_read(const char *dir, const char *name, struct buf *out)
{
    char block[65536];
    struct arena a;
    size_t n;
    FILE *f;

    arena_init(&a);
    f = fopen(help_path(&a, dir, name), "rb");
    if (f == NULL)
        fail_msg("no file %s in %s", name, dir);
    while ((n = fread(block, 1, sizeof block, f)) > 0)
        buf_add(out, block, n);
    (void)fclose(f);
    arena_fini(&a);
}

/* Names in a directory but "." and "..", sorted, one a line. */
static inline void
help_list(const char *dir, struct buf *out)
{
    struct dirent **names;
    int i, n = scandir(dir, &names, NULL, alphasort);

    for (i = 0; i < n; i++) {
        if (strcmp(names[i]->d_name, ".") != 0 &&
            strcmp(names[i]->d_name, "..") != 0) {
            buf_adds(out, names[i]->d_name);
            buf_addc(out, '\n');
        }
        free(names[i]);
    }
    if (n >= 0)
        free(names);
}

#endif
