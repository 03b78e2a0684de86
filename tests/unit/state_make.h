/*
 * Checkpoints for the tests of `state`, made here as operators make them:
 * accumulators of a real job file, put into a store by key group. And a look
 * at them, as the verb takes it.
 */
#ifndef TESTS_STATE_MAKE_H
#define TESTS_STATE_MAKE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/hash.h"
#include "base/mem.h"
#include "core/winstate.h"
#include "format/json.h"
#include "main/state_diff.h"
#include "main/state_open.h"
#include "main/state_print.h"
#include "plan/fit.h"
#include "run/control.h"
#include "inspect/rows.h"
#include "store_util.h"

enum { ROUND = 7, ARGS_MAX = 8, MANY = 500 };

static const char head[] =
    "local s = require \"streamlua\"\n"
    "local job = s.job(\"t\", { max_parallelism = %d })\n"
    "local list = s.aggregator { args = { \"v\" },\n"
    "  init = function() return {} end,\n"
    "  add = function(a, v) a[#a + 1] = v; return a end,\n"
    "  merge = function(a, b) for _, v in ipairs(b) do a[#a + 1] = v end\n"
    "    return a end,\n"
    "  result = function(a) local n = 0\n"
    "    for _, v in ipairs(a) do n = n + v end return n end }\n"
    "local x = job:source(\"in\", s.kafka { topic = \"x\", start = "
    "\"earliest\",\n"
    "  bootstrap_servers = \"x\" }):event_time { field = \"ts\" }\n";
static int key_groups = 8;
static const char tail[] = ":sink(\"out\", s.stdout())\nreturn job\n";

/* --- making a checkpoint -------------------------------------------------- */

struct maker {
    struct arena arena;
    char *text; /* the job file */
    struct script *script;
    struct plan *plan;
    const struct plan_step *step;
    struct aggset *set;
    struct window_spec window;
    struct winstate *state;
};

static inline void
maker_init(struct maker *m, const char *middle)
{
    struct script_conf sc = {.path = "t.lua", .load_timeout_ms = 5000};
    struct plan_conf pc = {.cores = 1};
    struct buf b;
    uint32_t i;

    memset(m, 0, sizeof *m);
    arena_init(&m->arena);
    buf_init(&b);
    buf_addf(&b, head, key_groups);
    buf_addf(&b, "%s%s", middle, tail);
    m->text = mem_strdup(buf_cstr(&b));
    buf_fini(&b);
    sc.text = m->text;
    sc.text_len = strlen(m->text);
    sc.params = opt_new_map(&m->arena);
    sc.args = opt_new_list(&m->arena);
    assert_int_equal(script_load(&sc, &m->script, &err), 0);
    assert_int_equal(script_test_laws(m->script, &err), 0);
    assert_int_equal(plan_build(script_job(m->script), &pc, &m->plan, &err), 0);
    for (i = 0; i < m->plan->step_count; i++)
        if (m->plan->steps[i].kind == STEP_GLOBAL ||
            m->plan->steps[i].kind == STEP_AGGREGATE)
            m->step = &m->plan->steps[i];
    assert_int_equal(aggset_new(opt_get(m->step->opts, "aggs"), json_key_encode,
                                script_agg, m->script, &m->set, &err),
                     0);
    window_spec_init(&m->window, m->step->opts);
    if (!m->set->mergeable)
        window_spec_keep_whole(&m->window);
    m->state = winstate_new(&m->window, m->set);
    winstate_track(m->state, m->plan->max_parallelism);
}

static inline void
maker_fini(struct maker *m)
{
    winstate_free(&m->state);
    aggset_free(&m->set);
    plan_free(&m->plan);
    script_free(&m->script);
    free(m->text);
    arena_fini(&m->arena);
}

static inline struct val
val_of(const struct opt *o)
{
    if (o == NULL)
        return val_nil();
    if (o->type == OPT_INT)
        return val_int(o->i);
    if (o->type == OPT_DBL)
        return val_dbl(o->d);
    return val_str(o->s, (uint32_t)o->len);
}

/* Add a record, `{"k":…,"v":…,"ts":…}`, to its window or slice. */
static inline void
add(struct maker *m, const char *json)
{
    struct partial p = {.first = WINDOW_FIRST_ALL};
    struct val args[ARGS_MAX], part;
    const struct opt *agg, *arg, *c;
    struct window_place place;
    struct table_entry *en;
    struct rec r = {0};
    struct opt *o;
    struct buf key;
    uint32_t n = 0;

    assert_int_equal(control_read(json, strlen(json), &m->arena, &o, &err), 0);
    buf_init(&key);
    for (c = opt_get(m->step->opts, "key")->first; c != NULL; c = c->next) {
        part = val_of(opt_get(o, opt_str(c, "field", "")));
        assert_true(key_put_scalar(&key, &part));
    }
    for (agg = opt_get(m->step->opts, "aggs")->first; agg != NULL;
         agg = agg->next) {
        arg = opt_get(agg, "args");
        for (arg = arg != NULL ? arg->first : NULL; arg; arg = arg->next)
            args[n++] = val_of(opt_get(o, opt_str(arg, "field", "")));
    }
    r.ts = opt_int(o, "ts", 0);
    window_place(&m->window, r.ts, WM_NONE, &place);
    p.hash = hash_key(key.data, key.len);
    p.key = key.data;
    p.key_len = (uint32_t)key.len;
    p.slice = place.slice;
    assert_int_equal(winstate_upsert(m->state, &p, &en, &err), 0);
    assert_int_equal(aggset_add(m->set, en->block, args, &r, &err), 0);
    en->count++;
    buf_fini(&key);
}

static inline void
put_changes(struct store *s, uint32_t op, const struct snapshot *snap)
{
    struct snapshot_change ch;
    size_t at = 0;

    while (snapshot_next(snap, &at, &ch) == 1) {
        struct store_key k = {.op = op,
                              .group = ch.key.group,
                              .ns = ch.key.ns,
                              .ns_len = ch.key.ns_len,
                              .key = ch.key.key,
                              .key_len = ch.key.key_len};

        assert_false(ch.del);
        assert_int_equal(store_round_put(s, &k, ch.value, ch.value_len, &err),
                         0);
    }
}

/* What else there is to a checkpoint. */
struct kept_entry {
    int64_t fired[2];        /* watermark of each subtask */
    uint32_t subtasks;       /* 0: one */
    const char *code;        /* NULL: the job's own */
    const struct plan *plan; /* NULL: the job's own */
};

static inline void
put_blobs(struct store *s, struct maker *m, const struct kept_entry *k)
{
    static const char meta[] = "{\"version\":1,\"file\":\"t.lua\"}";
    const char *code = k->code != NULL ? k->code : m->text;
    struct winstate *empty;
    struct buf blobs[2], out;
    struct step_blobs step = {.step = (char *)(uintptr_t)m->step->name,
                              .count = k->subtasks != 0 ? k->subtasks : 1,
                              .blobs = blobs};
    uint32_t i;
    struct restored all = {.round = ROUND,
                           .max_parallelism = m->plan->max_parallelism,
                           .steps = &step,
                           .step_count = 1};

    buf_init(&out);
    for (i = 0; i < 2; i++) {
        empty = winstate_new(&m->window, m->set);
        winstate_set_fired(empty, k->fired[i]);
        buf_init(&blobs[i]);
        winstate_put(empty, &blobs[i]);
        winstate_free(&empty);
    }
    restored_put(&all, &out);
    assert_int_equal(store_round_blob(s, "steps", out.data, out.len, &err), 0);
    buf_clear(&out);
    plan_state_put(k->plan != NULL ? k->plan : m->plan, &out);
    assert_int_equal(store_round_blob(s, "plan", out.data, out.len, &err), 0);
    assert_int_equal(store_round_blob(s, "code", code, strlen(code), &err), 0);
    assert_int_equal(store_round_blob(s, "meta", meta, sizeof meta - 1, &err),
                     0);
    buf_fini(&blobs[0]);
    buf_fini(&blobs[1]);
    buf_fini(&out);
}

/* Keep what was added. @return its directory; the maker is at its end. */
static inline char *
keep(struct maker *m, struct kept_entry k)
{
    char *dir = temp_dir();
    struct store_opts o = {.dir = dir, .create = true};
    struct snapshot *snap = winstate_freeze(m->state, ROUND);
    struct store *s;
    uint32_t op;

    while (winstate_save(m->state, 1000))
        ;
    assert_int_equal(store_open(&o, &s, &err), 0);
    assert_int_equal(store_round_begin(s, ROUND, &err), 0);
    assert_int_equal(store_round_operator(s, m->step->name,
                                          strlen(m->step->name), &op, &err),
                     0);
    put_changes(s, op, snap);
    put_blobs(s, m, &k);
    assert_int_equal(store_round_write(s, STORE_COMPLETE, &err), 0);
    store_close(&s);
    snapshot_free(&snap);
    maker_fini(m);
    return dir;
}

static inline char *
make(const char *middle, int64_t fired, const char *const *records, size_t n)
{
    struct maker m;
    size_t i;

    maker_init(&m, middle);
    for (i = 0; i < n; i++)
        add(&m, records[i]);
    return keep(&m, (struct kept_entry){.fired = {fired}});
}

/* --- looking -------------------------------------------------------------- */

struct look {
    struct cli cli;
    struct state_view view;
    struct state_step step;
    struct state_rows rows;
    struct buf text; /* the lines that state --json prints */
};

static inline void
look_open(struct look *l, const char *dir)
{
    char verb[] = "state", form[] = "scan", *argv[] = {verb, verb, form};

    memset(l, 0, sizeof *l);
    buf_init(&l->text);
    assert_int_equal(cli_parse(3, argv, &l->cli, &err), 0);
    if (state_open(&l->cli, dir, &l->view, &err) != 0)
        fail_msg("%s", err.msg);
    assert_int_equal(l->view.round, ROUND);
    assert_int_equal(state_view_step(&l->view, "agg", &l->step, &err), 0);
}

static inline void
look_close(struct look *l)
{
    state_rows_fini(&l->rows);
    state_step_close(&l->step);
    state_view_close(&l->view);
    cli_fini(&l->cli);
    buf_fini(&l->text);
}

static inline void
put_rows(struct look *l)
{
    size_t i;

    state_rows_sort(&l->rows);
    buf_clear(&l->text);
    for (i = 0; i < l->rows.n; i++) {
        buf_addc(&l->text, '{');
        state_put_head(&l->text, &l->step, &l->rows.items[i]);
        state_put_value(&l->text, &l->rows.items[i]);
        buf_adds(&l->text, "}\n");
    }
}

static inline void
look_scan(struct look *l, const char *dir, size_t limit)
{
    struct state_pick all;

    look_open(l, dir);
    if (state_step_open(&l->step, &err) != 0)
        fail_msg("%s", err.msg);
    all = state_pick_all(&l->view);
    state_rows_init(&l->rows, limit);
    if (state_rows_read(&l->step, &all, &l->rows, &err) != 0)
        fail_msg("%s", err.msg);
    put_rows(l);
}

static inline void
expect_scan(char *dir, const char *want)
{
    struct look l;

    look_scan(&l, dir, 0);
    assert_string_equal(buf_cstr(&l.text), want);
    look_close(&l);
    remove_dir(dir);
    free(dir);
}

#define ROW(k, start, end, value)                                              \
    "{\"step\":\"agg\",\"key\":{\"k\":" k "},\"window_start\":" #start         \
    ",\"window_end\":" #end ",\"value\":" value "}\n"

static const char hopping[] =
    "x:key_by \"k\":window(s.hopping(\"4s\", \"2s\"))\n"
    ":aggregate({ n = s.count(), a = s.avg \"v\" }, { name = \"agg\" })\n";
static const char *const three[] = {
    "{\"k\":\"b\",\"v\":1,\"ts\":1000}",
    "{\"k\":\"a\",\"v\":2.5,\"ts\":1000}",
    "{\"k\":\"a\",\"v\":3,\"ts\":3000}",
};

#endif
