/*
 * Test helper: what a job was, what it is, and what plan_fit_check() says.
 *
 * Steps of small jobs as macros over plan_tree.h, and a fixture of both. Used
 * by test_plan_fit.c and test_plan_state.c; static functions, so that each
 * has its own.
 */
#ifndef TESTS_FIT_TREE_H
#define TESTS_FIT_TREE_H

#include "plan_tree.h"

#include "plan/fit.h"

#define OPTIONS "parallelism:2"
#define IN                                                                     \
    "{kind:'source', name:'in', place:'j.lua:1', connector:'kafka',"           \
    " conn:{topic:['t','u']}}"
#define FILES(name, line, path)                                                \
    "{kind:'source', name:'" name "', place:'j.lua:" line "',"                 \
    " connector:'file', conn:{path:'" path "'}}"
#define TIME(name, line, rest)                                                 \
    "{kind:'event_time', name:'" name "', place:'j.lua:" line "', " rest "}"
#define AGG(name, line, rest)                                                  \
    "{kind:'aggregate', name:'" name "', place:'j.lua:" line "', " rest "}"
#define KEY "key:[{name:'a', field:'a'}, {name:'k', func:@3}], "
#define MINUTE                                                                 \
    "window:{kind:'tumbling', size_ms:60000, slide_ms:60000, offset_ms:0,"     \
    " place:'j.lua:7'}, lateness_ms:0, "
#define COUNT "{name:'n', fn:'count', args:[], place:'j.lua:8'}"
#define P99                                                                    \
    "{name:'p', fn:'percentile', args:[{field:'v'}], q:0.99, q_text:'0.99',"   \
    " error:0.01, place:'j.lua:8'}"
#define CUSTOM                                                                 \
    "{name:'c', fn:'custom', label:'c', args:[{field:'v'}], init:@1, add:@2,"  \
    " result:@4, place:'j.lua:9'}"
#define SINK(line, step)                                                       \
    "{kind:'sink', name:'out', place:'j.lua:" line "', connector:'stdout',"    \
    " inputs:[{step:" step "}]}"
#define PARTS(name, line, path)                                                \
    "{kind:'sink', name:'" name "', place:'j.lua:" line "',"                   \
    " connector:'file', conn:{path:'" path "'}, inputs:[{step:1}]}"

#define TAP(name, step)                                                        \
    "{kind:'sink', name:'" name "', place:'j.lua:9', connector:'blackhole',"   \
    " inputs:[{step:" step "}]}"

/* in -> time -> aggregate -> out, with one place left open. */
#define ONE(agg) IN TIME("time", "2", "inputs:[{step:1}]") agg SINK("9", "3")
#define NAMED(key, window, aggs)                                               \
    ONE(AGG("w", "5", key window "aggs:[" aggs "], inputs:[{step:2}]"))

struct fixture {
    struct tree was, is;
    struct buf state;
    struct plan_fit fit;
    struct err e;
    int code;
};

static inline void
build(struct tree *t, const char *name, const char *options, const char *steps)
{
    struct buf job;

    buf_init(&job);
    buf_addf(&job,
             "{name:'%s', file:'j.lua', place:'j.lua:1', options:{%s},"
             " steps:[%s]}",
             name, options, steps);
    (void)tree_plan(t, NULL, buf_cstr(&job));
    buf_fini(&job);
}

static inline void
describe(struct fixture *f, const char *options, const char *steps)
{
    build(&f->was, "t", options, steps);
    buf_init(&f->state);
    plan_state_put(f->was.p, &f->state);
}

static inline void
compare(struct fixture *f, unsigned flags)
{
    err_clear(&f->e);
    f->code = plan_fit_check(f->is.p, f->state.data, f->state.len, flags,
                             &f->fit, &f->e);
}

/* A state made by the steps `was`, met by a plan of the steps `is`. */
static inline void
meet(struct fixture *f, const char *was, const char *is, unsigned flags)
{
    describe(f, OPTIONS, was);
    build(&f->is, "t", OPTIONS, is);
    compare(f, flags);
}

static inline void
end(struct fixture *f)
{
    plan_fit_fini(&f->fit);
    buf_fini(&f->state);
    tree_free(&f->was);
    tree_free(&f->is);
}

#endif
