/*
 * What the tests of script/ share: load a job from a text.
 */
#ifndef TESTS_UNIT_SCRIPT_UTIL_H
#define TESTS_UNIT_SCRIPT_UTIL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "script/script.h"

/* The first lines of most jobs; what follows begins on line 4. */
#define JOB_HEAD                                                               \
    "local s = require \"streamlua\"\n"                                        \
    "local job = s.job(\"t\")\n"                                               \
    "local st = job:source(\"in\", s.stdin())\n"
#define JOB_END "\nreturn job\n"

static inline struct script_conf
conf_of(const char *text)
{
    return (struct script_conf){
        .path = "job.lua", .text = text, .text_len = strlen(text), .seed = 1};
}

/* Load; fails the test if it does not load. */
static inline struct script *
load_ok(const struct script_conf *conf)
{
    struct script *s;
    struct err e;

    s = NULL;
    err_clear(&e);
    if (script_load(conf, &s, &e) != 0)
        fail_msg("%s: %s\n%s", e.where, e.msg, conf->text);
    return s;
}

/* Load what must not load: code and "where: message". */
static inline void
load_fails(const struct script_conf *conf, int code, const char *expected)
{
    char text[ERR_WHERE_MAX + ERR_MSG_MAX + 2];
    struct script *s;
    struct err e;
    int r;

    s = NULL;
    err_clear(&e);
    r = script_load(conf, &s, &e);
    script_free(&s);
    if (e.where[0] != '\0')
        (void)snprintf(text, sizeof text, "%s: %s", e.where, e.msg);
    else
        (void)snprintf(text, sizeof text, "%s", e.msg);
    if (r != code || strstr(text, expected) != text)
        fail_msg("expected %d \"%s\"\ngot %d \"%s\"\n%s", code, expected, r,
                 text, conf->text);
}

/* What a job file may not say. */
struct refusal {
    const char *code;     /* line 4 of the file */
    const char *expected; /* begin of the message */
};

/* Each fails with its message. */
static inline void
expect_refusals(const struct refusal *list, size_t n)
{
    struct script_conf conf;
    char text[2048];
    size_t i;

    for (i = 0; i < n; i++) {
        (void)snprintf(text, sizeof text, "%s%s\n%s", JOB_HEAD, list[i].code,
                       JOB_END);
        conf = conf_of(text);
        load_fails(&conf, ERR_JOBFILE, list[i].expected);
    }
}

#endif
