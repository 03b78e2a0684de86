/*
 * Helpers of the tests of script/: a job file of one step, and its function
 * called on a record given as JSON. Included by one test program at a time.
 */
#ifndef TESTS_UNIT_SCRIPT_JOB_H
#define TESTS_UNIT_SCRIPT_JOB_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "format/json.h"
#include "format/reader.h"
#include "script/script.h"

struct job_of { /* a loaded job and the memory of its last result */
    struct script *s;
    struct reader *reader;
    struct arena in, out;
    struct rec rec; /* the record given */
    struct rec res; /* the record made */
    struct err e;
    int func;
};

static inline const struct opt *
job_step(const struct script *s, const char *kind)
{
    const struct opt *steps = opt_get(script_job(s), "steps"), *o;

    for (o = steps->first; o != NULL; o = o->next)
        if (opt_is(o, "kind", kind))
            return o;
    return NULL;
}

/* Load a whole file. */
static inline void
job_load_text(struct job_of *j, const char *text)
{
    static struct opt none = {.type = OPT_MAP}, nil = {.type = OPT_LIST};
    struct script_conf conf = {.path = "job.lua",
                               .text = text,
                               .text_len = strlen(text),
                               .params = &none,
                               .args = &nil};

    memset(j, 0, sizeof *j);
    arena_init(&j->in);
    arena_init(&j->out);
    j->reader = reader_new();
    if (script_load(&conf, &j->s, &j->e) != 0)
        fail_msg("%s: %s", j->e.where, j->e.msg);
}

/* Load `in`, one step `kind(code)`, `out`; code may use s. */
static inline void
job_load(struct job_of *j, const char *kind, const char *code)
{
    char text[8192];

    (void)snprintf(text, sizeof text,
                   "local s = require 'streamlua'\n"
                   "local job = s.job 't'\n"
                   "job:source('in', s.stdin()):%s(\n"
                   "%s\n"
                   "):sink('out', s.stdout())\n"
                   "return job\n",
                   kind, code);
    job_load_text(j, text);
    j->func = opt_func(job_step(j->s, kind), "func");
    assert_true(j->func > 0);
}

static inline void
job_free(struct job_of *j)
{
    script_free(&j->s);
    reader_free(&j->reader);
    arena_fini(&j->in);
    arena_fini(&j->out);
}

static inline void
job_record(struct job_of *j, const char *json)
{
    size_t len = strlen(json);

    arena_reset(&j->in);
    memset(&j->rec, 0, sizeof j->rec);
    if (json_check(arena_dup(&j->in, json, len), len, false, &j->rec, &j->e) !=
        0)
        fail_msg("%s", j->e.msg);
    j->rec.topic = topic_register("stdin");
    j->rec.offset = 17;
    j->rec.ts = 1000;
    j->rec.flags = REC_HAS_TS;
    j->rec.wm = 5;
}

/* Map a record; NULL if it failed (the reason is in j->e). */
static inline const char *
job_map(struct job_of *j, const char *json)
{
    job_record(j, json);
    arena_reset(&j->out);
    if (script_map(j->s, j->func, &j->rec, j->reader, &j->out, &j->res,
                   &j->e) != 0)
        return NULL;
    if (j->res.val == NULL)
        return "(absent)";
    return arena_dup(&j->out, j->res.val, j->res.val_len);
}

#endif
