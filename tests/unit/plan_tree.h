/*
 * Test helper: option trees from a short text, and plans from them.
 *
 * The text is JSON with two liberties: strings may stand in single quotes,
 * member names may be bare, and @7 is the user function number 7. Used by
 * tests/unit/test_plan_*.c only; static functions, so that each test program
 * has its own. A malformed text fails the test at once.
 */
#ifndef TESTS_PLAN_TREE_H
#define TESTS_PLAN_TREE_H

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/opts.h"
#include "plan/plan.h"

struct tree_text {
    struct arena *a;
    const char *at;
};

static struct opt *tree_value(struct tree_text *t);

static void
tree_blank(struct tree_text *t)
{
    while (isspace((unsigned char)*t->at) || *t->at == ',')
        t->at++;
}

static const char *
tree_word(struct tree_text *t, size_t *len)
{
    char quote = *t->at == '\'' || *t->at == '"' ? *t->at++ : '\0';
    const char *begin = t->at;

    while (*t->at != '\0' &&
           (quote != '\0' ? *t->at != quote
                          : isalnum((unsigned char)*t->at) || *t->at == '_'))
        t->at++;
    *len = (size_t)(t->at - begin);
    if (quote != '\0') {
        assert_int_equal(*t->at, quote);
        t->at++;
    }
    return begin;
}

static struct opt *
tree_children(struct tree_text *t, struct opt *parent, char end)
{
    const char *name;
    size_t len;

    t->at++;
    for (tree_blank(t); *t->at != end; tree_blank(t)) {
        if (*t->at == '\0')
            fail_msg("tree: no %c at the end", end);
        name = NULL;
        if (parent->type == OPT_MAP) {
            name = tree_word(t, &len);
            name = arena_dup(t->a, name, len);
            tree_blank(t);
            assert_int_equal(*t->at, ':');
            t->at++;
        }
        opt_add(t->a, parent, name, tree_value(t));
    }
    t->at++;
    return parent;
}

static struct opt *
tree_number(struct tree_text *t)
{
    char *end, *end_int;
    double d = strtod(t->at, &end);
    long long i = strtoll(t->at, &end_int, 10);
    struct opt *o = opt_new_int(t->a, i);

    if (end == t->at)
        fail_msg("tree: no value at: %.40s", t->at);
    if (end != end_int) {
        o->type = OPT_DBL;
        o->d = d;
    }
    t->at = end;
    return o;
}

static struct opt *
tree_value(struct tree_text *t)
{
    struct opt *o;
    const char *s;
    size_t len;

    tree_blank(t);
    if (*t->at == '{')
        return tree_children(t, opt_new_map(t->a), '}');
    if (*t->at == '[')
        return tree_children(t, opt_new_list(t->a), ']');
    if (*t->at == '\'' || *t->at == '"') {
        s = tree_word(t, &len);
        return opt_new_str(t->a, s, len);
    }
    if (*t->at == '@') {
        t->at++;
        o = tree_number(t);
        o->type = OPT_FUNC;
        return o;
    }
    if (isalpha((unsigned char)*t->at)) {
        s = tree_word(t, &len);
        o = opt_new(t->a);
        if (strncmp(s, "null", 4) != 0) {
            o->type = OPT_BOOL;
            o->i = strncmp(s, "true", 4) == 0;
        }
        return o;
    }
    return tree_number(t);
}

/* A plan or the error of a text, with all they live in. */
struct tree {
    struct arena a;
    struct opt *job;
    struct plan *p; /* NULL if refused */
    int code;
    struct err e;
};

static void
tree_build(struct tree *t, const struct plan_conf *conf, const char *text)
{
    struct tree_text tt;

    memset(t, 0, sizeof *t);
    arena_init(&t->a);
    tt.a = &t->a;
    tt.at = text;
    t->job = tree_value(&tt);
    err_clear(&t->e);
    t->code = plan_build(t->job, conf, &t->p, &t->e);
}

static void
tree_free(struct tree *t)
{
    plan_free(&t->p);
    arena_fini(&t->a);
}

/* Build what must be a plan. */
static const struct plan *
tree_plan(struct tree *t, const struct plan_conf *conf, const char *text)
{
    tree_build(t, conf, text);
    if (t->code != 0)
        fail_msg("refused: %s: %s", t->e.where, t->e.msg);
    return t->p;
}

/* Build what must be refused with this code, place and message. */
static inline void
tree_refused(const struct plan_conf *conf, const char *text, int code,
             const char *where, const char *msg)
{
    struct tree t;

    tree_build(&t, conf, text);
    assert_int_equal(t.code, code);
    assert_null(t.p);
    assert_string_equal(t.e.msg, msg);
    assert_string_equal(t.e.where, where);
    tree_free(&t);
}

/* The step called `name` of kind `kind`. */
static inline const struct plan_step *
tree_step(const struct plan *p, const char *name, enum step_kind kind)
{
    uint32_t i;

    for (i = 0; i < p->step_count; i++)
        if (p->steps[i].kind == kind && strcmp(p->steps[i].name, name) == 0)
            return &p->steps[i];
    fail_msg("no %s %s", plan_kind_name(kind), name);
    return NULL;
}

/* Whether one of the step's reasons is `text`. */
static inline bool
tree_has_why(const struct plan_step *s, const char *text)
{
    uint32_t i;

    for (i = 0; s->why[i] != NULL; i++)
        if (strcmp(s->why[i], text) == 0)
            return true;
    return false;
}

#endif
