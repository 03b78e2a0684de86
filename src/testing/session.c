#include "testing/session.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"
#include "script/test.h"
#include "testing/compare.h"
#include "testing/coverage.h"
#include "testing/payload.h"
#include "testing/rows.h"
#include "testing/value.h"

/*
 * A job's error does not end the case: it waits for t:expect_error. Whatever
 * else is called meanwhile fails the case with the message of the error, as
 * does the end of the case. The first failure of a case is the one that is
 * told, whatever the case does with the Lua error that comes of it.
 */

struct session {
    struct session_conf conf;
    struct sim *sim;
    struct script *reloaded; /* the job after a reload; or NULL */
    uint64_t random;
    bool ended;   /* the input is */
    bool failed;  /* why is written */
    bool erred;   /* `error` waits to be looked at */
    bool refused; /* ... it is a reload's, the job goes on */
    struct err error;
    char error_where[ERR_WHERE_MAX]; /* the step of the case */
    struct buf why;
};

/* One call of a case. */
struct call {
    struct session *s;
    const struct opt *args;
    const char *where;
    struct arena *a;
    const struct opt *ret;
    struct err *e;
};

int
session_new(const struct session_conf *conf, struct session **ret,
            struct err *e)
{
    const struct variant *v = &conf->variant;
    struct session *s = mem_zalloc(sizeof *s);
    struct sim_conf sim = {.file = conf->job,
                           .params = conf->params,
                           .parallelism = v->parallelism,
                           .strategy = v->strategy,
                           .seed = v->seed,
                           .unsafe = conf->unsafe,
                           .deadline_ns =
                               clock_real_ns() + conf->timeout_ms * 1000000};
    int r;

    s->conf = *conf;
    s->random = v->seed;
    buf_init(&s->why);
    if (conf->coverage != NULL) {
        sim.line = coverage_line;
        sim.line_arg = conf->coverage;
    }
    r = sim_new(&sim, &s->sim, e);
    if (r != 0) {
        session_free(&s);
        return r;
    }
    *ret = s;
    return 0;
}

void
session_free(struct session **ps)
{
    struct session *s = *ps;

    if (s == NULL)
        return;
    *ps = NULL;
    sim_free(&s->sim);
    script_free(&s->reloaded);
    buf_fini(&s->why);
    free(s);
}

/* ---- failing ---- */

/* Write down why the case fails, unless it has failed before.
 * @return ERR_FAIL, for the Lua error that ends the case. */
static int
fail(struct session *s, const char *where, struct err *e, const char *text)
{
    if (!s->failed) {
        buf_addf(&s->why, "%s: %s\n", where, text);
        s->failed = true;
    }
    return err_set(e, ERR_FAIL, "%.200s", text);
}

/* The lines of an error as a user sees it. */
static void
put_error(struct buf *out, const struct err *e)
{
    buf_adds(out, "the job failed: ");
    if (e->where[0] != '\0')
        buf_addf(out, "%s: ", e->where);
    buf_adds(out, e->msg);
    if (e->cause != CAUSE_NONE)
        buf_addf(out, " (%s)", err_cause_name(e->cause));
    if (e->hint[0] != '\0')
        buf_addf(out, "\nhint: %s", e->hint);
}

static int
fail_by_error(struct session *s, struct err *e)
{
    struct buf text;
    int r;

    buf_init(&text);
    if (s->refused)
        buf_addf(&text, "the reload was refused: %s%s%s", s->error.where,
                 s->error.where[0] != '\0' ? ": " : "", s->error.msg);
    else
        put_error(&text, &s->error);
    r = fail(s, s->error_where, e, buf_cstr(&text));
    buf_fini(&text);
    return r;
}

/* ---- steps ---- */

static uint64_t
draw(struct session *s)
{
    s->random = hash_splitmix(s->random);
    return s->random;
}

/* What sim_*() gave for a step of the case: an error of the job waits. */
static int
take_result(struct call *c, int r, const struct err *e)
{
    struct session *s = c->s;

    if (r == 0)
        return 0;
    if (r == ERR_USAGE) {
        *c->e = *e;
        return r;
    }
    s->erred = true;
    s->refused = false;
    s->error = *e;
    (void)snprintf(s->error_where, sizeof s->error_where, "%s", c->where);
    return 0;
}

/* The end of a step: with faults, the process ends and another goes on. */
static int
end_step(struct call *c, int r, const struct err *e)
{
    struct session *s = c->s;
    enum faults faults = s->conf.variant.faults;
    struct err fault;

    if (take_result(c, r, e) != 0)
        return c->e->code;
    if (faults == FAULTS_NONE || s->erred || s->ended)
        return 0;
    if (faults == FAULTS_MIXED)
        faults = draw(s) % 2 == 0 ? FAULTS_RESTART : FAULTS_CRASH;
    err_clear(&fault);
    if (faults == FAULTS_RESTART)
        r = sim_restart(s->sim, 0, &fault);
    else
        r = sim_crash(s->sim, &fault);
    return take_result(c, r, &fault);
}

static int
call_push(struct call *c)
{
    const struct opt *value = opt_get(c->args, "value");
    const char *source = opt_str(c->args, "source", "");
    struct sim_record r = {.headers = opt_get(c->args, "headers")};
    const struct opt *key = opt_get(c->args, "key");
    const struct opt *ts = opt_get(c->args, "timestamp");
    struct buf payload, key_text;
    struct err e;
    int rc;

    buf_init(&payload);
    buf_init(&key_text);
    err_clear(&e);
    rc = payload_put(c->s->sim, c->s->conf.script, source, value, &payload,
                     c->e);
    if (rc == 0 && key != NULL)
        rc = payload_put_key(key, &key_text, c->e);
    if (rc != 0)
        goto end;
    if (value != NULL) {
        r.value = buf_cstr(&payload);
        r.value_len = payload.len;
    }
    if (key != NULL) {
        r.key = buf_cstr(&key_text);
        r.key_len = key_text.len;
    }
    r.has_ts = ts != NULL;
    r.ts = opt_int(c->args, "timestamp", 0);
    r.partition = (int32_t)opt_int(c->args, "partition", 0);
    rc = sim_push(c->s->sim, source, &r, &e);
    rc = end_step(c, rc, &e);
end:
    buf_fini(&payload);
    buf_fini(&key_text);
    return rc;
}

static int
call_advance_watermark(struct call *c)
{
    struct err e;
    int r = sim_advance_watermark(c->s->sim, opt_int(c->args, "ms", 0), &e);

    return end_step(c, r, &e);
}

static int
call_advance_time(struct call *c)
{
    struct err e;
    int r = sim_advance_time(c->s->sim, opt_int(c->args, "ms", 0), &e);

    return end_step(c, r, &e);
}

static int
call_idle(struct call *c)
{
    struct err e;
    int r = sim_idle(c->s->sim, opt_str(c->args, "source", ""),
                     (int32_t)opt_int(c->args, "partition", 0), &e);

    return end_step(c, r, &e);
}

static int
call_end_of_input(struct call *c)
{
    struct err e;
    int r;

    c->s->ended = true;
    r = sim_end_of_input(c->s->sim, &e);
    return end_step(c, r, &e);
}

static int
call_crash(struct call *c)
{
    struct err e;
    int r = sim_crash(c->s->sim, &e);

    return take_result(c, r, &e);
}

static int
call_restart(struct call *c)
{
    struct err e;
    int r = sim_restart(c->s->sim, (uint32_t)opt_int(c->args, "parallelism", 0),
                        &e);

    return take_result(c, r, &e);
}

/* From now on records are encoded for the sources of this file, which the
 * machine has taken. */
static void
follow_reload(struct session *s, const char *path)
{
    struct script_conf conf = {
        .path = path, .params = s->conf.params, .unsafe = s->conf.unsafe};
    struct script *script;
    struct err ignored;
    char *text;

    if (script_read_file(path, &text, &conf.text_len, &ignored) != 0)
        return;
    conf.text = text;
    if (script_load(&conf, &script, &ignored) == 0) {
        script_free(&s->reloaded);
        s->reloaded = script;
        s->conf.script = script;
    }
    free(text);
}

static int
call_reload(struct call *c)
{
    struct session *s = c->s;
    const char *path = opt_str(c->args, "path", "");
    struct buf full;
    struct err e;
    int r;

    buf_init(&full);
    buf_addf(&full, "%s%s", path[0] == '/' ? "" : s->conf.dir, path);
    if (s->conf.coverage != NULL)
        coverage_file(s->conf.coverage, buf_cstr(&full));
    r = sim_reload(s->sim, buf_cstr(&full), &e);
    if (r == 0)
        follow_reload(s, buf_cstr(&full));
    r = r == 0 ? end_step(c, 0, &e) : take_result(c, r, &e);
    if (s->erred)
        s->refused = s->error.code == ERR_JOBFILE;
    buf_fini(&full);
    return r;
}

/* ---- looks ---- */

static int
call_expect(struct call *c)
{
    const struct compare_conf conf = {
        .ordered = opt_bool(c->args, "ordered", false),
        .subset = opt_bool(c->args, "subset", false)};
    struct rows_conf how = {.sim = c->s->sim,
                            .sink = opt_str(c->args, "sink", ""),
                            .meta = opt_bool(c->args, "meta", false)};
    const char *file = opt_str(c->args, "file", NULL);
    const struct opt *want = opt_get(c->args, "rows");
    struct opt *got, *read;
    struct buf diff, text;
    int r;

    r = rows_take(&how, c->a, &got, c->e);
    if (r != 0)
        return r;
    buf_init(&diff);
    buf_init(&text);
    if (file != NULL) {
        buf_addf(&text, "%s%s", file[0] == '/' ? "" : c->s->conf.dir, file);
        file = arena_strdup(c->a, buf_cstr(&text));
        buf_clear(&text);
        if (c->s->conf.update) {
            r = rows_write_file(file, got, conf.ordered, c->e);
            goto end;
        }
        r = rows_read_file(file, c->a, &read, c->e);
        if (r != 0)
            goto end;
        want = read;
    }
    if (!compare_rows(want, got, &conf, &diff)) {
        buf_addf(&text,
                 "the rows of \"%s\" are not those expected%s%s: ", how.sink,
                 file != NULL ? " in " : "", file != NULL ? file : "");
        buf_add(&text, diff.data, diff.len - 1);
        r = fail(c->s, c->where, c->e, buf_cstr(&text));
    }
end:
    buf_fini(&diff);
    buf_fini(&text);
    return r;
}

static int
call_take(struct call *c)
{
    struct rows_conf how = {
        .sim = c->s->sim, .sink = opt_str(c->args, "sink", ""), .meta = true};
    struct opt *rows;
    int r = rows_take(&how, c->a, &rows, c->e);

    c->ret = rows;
    return r;
}

static int
call_counter(struct call *c)
{
    int64_t n;
    int r = sim_counter(c->s->sim, opt_str(c->args, "step", ""),
                        opt_str(c->args, "name", ""), &n, c->e);

    if (r == 0)
        c->ret = opt_new_int(c->a, n);
    return r;
}

static int
call_now(struct call *c)
{
    c->ret = opt_new_int(c->a, sim_now(c->s->sim));
    return 0;
}

static int
call_state(struct call *c)
{
    const struct opt *key = opt_get(c->args, "key");
    const struct opt *start = opt_get(c->args, "start");
    struct opt *lines;
    struct buf text, out;
    int r;

    buf_init(&text);
    buf_init(&out);
    value_put(&text, key);
    r = sim_state(c->s->sim, opt_str(c->args, "step", ""), buf_cstr(&text),
                  start == NULL ? NULL : &start->i, &out, c->e);
    if (r == 0)
        r = rows_read(out.data, out.len, c->a, &lines, c->e);
    if (r == 0)
        c->ret = lines;
    buf_fini(&text);
    buf_fini(&out);
    return r;
}

/* ---- errors ---- */

static void
add_text(struct call *c, struct opt *map, const char *name, const char *text)
{
    opt_add(c->a, map, name, opt_new_str(c->a, text, strlen(text)));
}

static int
call_take_error(struct call *c)
{
    struct session *s = c->s;
    struct opt *map;

    if (!s->erred)
        return 0;
    s->erred = false;
    map = opt_new_map(c->a);
    add_text(c, map, "cause",
             s->refused                     ? "refused"
             : s->error.cause != CAUSE_NONE ? err_cause_name(s->error.cause)
                                            : "failed");
    add_text(c, map, "text", s->error.msg);
    add_text(c, map, "where", s->error.where);
    c->ret = map;
    return 0;
}

static int
call_fail(struct call *c)
{
    const char *more = opt_str(c->args, "more", NULL);
    struct buf text;
    int r;

    buf_init(&text);
    buf_adds(&text, opt_str(c->args, "text", ""));
    if (more != NULL)
        buf_addf(&text, "\n  the error: %s", more);
    r = fail(c->s, c->where, c->e, buf_cstr(&text));
    buf_fini(&text);
    return r;
}

static const struct {
    const char *name;
    int (*f)(struct call *c);
} calls[] = {
    {"push", call_push},
    {"advance_watermark", call_advance_watermark},
    {"advance_time", call_advance_time},
    {"idle", call_idle},
    {"end_of_input", call_end_of_input},
    {"crash", call_crash},
    {"restart", call_restart},
    {"reload", call_reload},
    {"expect", call_expect},
    {"take", call_take},
    {"counter", call_counter},
    {"state", call_state},
    {"now", call_now},
    {"take_error", call_take_error},
    {"fail", call_fail},
};

int
session_call(void *arg, const char *call, const struct opt *args,
             const char *where, struct arena *a, const struct opt **ret,
             struct err *e)
{
    struct call c = {.s = arg, .args = args, .where = where, .a = a, .e = e};
    struct opt sorted = *args; /* the arguments are the call's own */
    bool error_call =
        strcmp(call, "take_error") == 0 || strcmp(call, "fail") == 0;
    size_t i;
    int r;

    err_clear(e);
    if (c.s->failed)
        return err_set(e, ERR_FAIL, "the case has failed");
    if (c.s->erred && !error_call)
        return fail_by_error(c.s, e);
    value_sort(&sorted);
    c.args = &sorted;
    for (i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        if (strcmp(calls[i].name, call) != 0)
            continue;
        r = calls[i].f(&c);
        *ret = c.ret;
        return r;
    }
    return err_set(e, ERR_INTERNAL, "the engine has no call %s for tests",
                   call);
}

const char *
session_end(struct session *s, const struct err *e)
{
    struct err ignored;

    if (!s->failed && s->erred)
        (void)fail_by_error(s, &ignored);
    if (!s->failed && e != NULL)
        (void)fail(s, e->where, &ignored, e->msg);
    return s->failed ? buf_cstr(&s->why) : NULL;
}
