/*
 * Trees of steps with state, for the plan's tests: pieces of a job as the
 * builder would give it, and what is asked of the plan made of them.
 *
 * Included by test_plan_stateful.c and test_plan_quarantine.c only. One
 * thread; a plan lives until tree_free().
 */
#ifndef TESTS_STATEFUL_TREE_H
#define TESTS_STATEFUL_TREE_H

#include "plan_tree.h"

#define AT(line) "place:'j.lua:" line "'"
#define IN                                                                     \
    "{kind:'source', name:'in', " AT("1") ", connector:'kafka',"               \
                                          " conn:{topic:'t'}}"
#define TIME "{kind:'event_time', name:'time', " AT("2") ", inputs:[{step:1}]}"
#define KEY "key:[{name:'k', field:'k'}], key_place:'j.lua:3', on_null:'skip', "
#define PROCESS(rest)                                                          \
    "{kind:'process', name:'p', " AT("5") ", " KEY "on_record:@1," rest        \
                                          " inputs:[{step:2}]}"
#define DEDUP                                                                  \
    "{kind:'dedup', name:'d', " AT(                                            \
        "5") ", " KEY "keep:'first', ttl_ms:3600000, inputs:[{step:2}]}"
#define AGG(name, line, window, input, rest)                                   \
    "{kind:'aggregate', name:'" name                                           \
    "', " AT(line) ", " KEY "window:{" window                                  \
                   ", place:'j.lua:4'}, lateness_ms:0, " rest                  \
                   " inputs:[{step:" input "}]}"
#define MINUTE "kind:'tumbling', size_ms:60000, slide_ms:60000, offset_ms:0"
#define COUNT "aggs:[{name:'n', fn:'count', args:[]}],"
#define ROWS(rows, agg) "rows:'" rows "', aggs:[" agg "],"
#define TOP_N                                                                  \
    ROWS("ranked",                                                             \
         "{name:'top_n', fn:'top_n', args:[{field:'v'}], n:2, desc:true,"      \
         " ties:false}")
#define ON_WINDOW                                                              \
    ROWS("window", "{name:'window', fn:'records', func:@7, args:[]}")
#define SINK(name, line, inputs)                                               \
    "{kind:'sink', name:'" name                                                \
    "', " AT(line) ", connector:'blackhole',"                                  \
                   " conn:{format:'json'}, inputs:" inputs "}"
#define OUT(step) SINK("out", "9", "[{step:" step "}]")

static inline const struct plan *
build(struct tree *t, const char *options, const char *steps)
{
    static const struct plan_conf conf = {.parallelism = 4, .cores = 2};
    const struct plan *p;
    struct buf job;

    buf_init(&job);
    buf_addf(&job, "{name:'t', file:'j.lua', options:{%s}, steps:[%s]}",
             options, steps);
    p = tree_plan(t, &conf, buf_cstr(&job));
    buf_fini(&job);
    return p;
}

static inline void
refuse(const char *options, const char *steps, const char *where,
       const char *msg)
{
    struct buf job;

    buf_init(&job);
    buf_addf(&job, "{name:'t', file:'j.lua', options:{%s}, steps:[%s]}",
             options, steps);
    tree_refused(NULL, buf_cstr(&job), ERR_JOBFILE, where, msg);
    buf_fini(&job);
}

static inline const struct plan_edge *
input(const struct plan *p, const struct plan_step *s, uint32_t i)
{
    assert_true(i < s->in_count);
    return &p->edges[s->in[i]];
}

static inline void
says(const struct plan *p, void (*form)(const struct plan *, struct buf *),
     const char *text)
{
    struct buf out;

    buf_init(&out);
    form(p, &out);
    if (strstr(buf_cstr(&out), text) == NULL)
        fail_msg("no '%s' in:\n%s", text, buf_cstr(&out));
    buf_fini(&out);
}

#endif
