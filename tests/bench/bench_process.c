/*
 * What a process function's call costs, and state and timers in it, on top of
 * a bare call. Prints one line a figure, asserts nothing.
 *
 * usage: bench_process [CALLS]      (2000000)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/hash.h"
#include "core/kstate.h"
#include "format/json.h"
#include "script/script.h"

enum { KEYS = 1000 };

static unsigned long calls = 2000000;
static struct err err;

static const char head[] =
    "local s = require 'streamlua'\n"
    "local job = s.job 't'\n"
    "local state = { v = s.value_state(), m = s.map_state(),\n"
    "  l = s.list_state(), n = s.aggregating_state(s.count()),\n"
    "  t = s.value_state() }\n"
    "local src = job:source('in', s.stdin()):event_time { field = 'ts' }\n";

static const struct {
    const char *what, *body;
} cases[] = {
    {"bare call", ""},
    {"a field", "local x = e.v"},
    {"value get", "local x = ctx.state.v:get()"},
    {"value set", "ctx.state.v:set(1)"},
    {"value get and set", "local v = ctx.state.v v:set((v:get() or 0) + 1)"},
    {"value get and set, a string",
     "local v = ctx.state.v v:set(v:get() or 'abcdefghijklmnopqrst')"},
    {"value get and set, a table of two",
     "local v = ctx.state.v local t = v:get() or { a = 0, b = 1.5 } "
     "t.a = t.a + 1 v:set(t)"},
    {"map get and put",
     "local m = ctx.state.m m:put('k', (m:get 'k' or 0) + 1)"},
    {"aggregating add", "ctx.state.n:add(e)"},
    {"event timer, register and delete",
     "ctx:register_event_timer(5) ctx:delete_event_timer(5)"},
    {"key", "local k = ctx:key()"},
    {"emit a record", "ctx:emit(e)"},
    {"emit a table of two", "ctx:emit { a = 1, b = 'x' }"},
};

enum { CASES = sizeof cases / sizeof cases[0] };

/* Time of the processor, so that other load shows less. */
static double
now(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void
must(int r)
{
    if (r == 0)
        return;
    (void)fprintf(stderr, "%s %s\n", err.where, err.msg);
    exit(1);
}

static struct script *
load(struct opt *none, struct opt *nil)
{
    struct script_conf conf = {.path = "job.lua", .params = none, .args = nil};
    struct script *s;
    struct buf text;
    size_t i;

    buf_init(&text);
    buf_adds(&text, head);
    for (i = 0; i < CASES; i++)
        buf_addf(&text,
                 "src:key_by 'k':process { name = 'p%zu', state = state,\n"
                 "  on_record = function(e, ctx) %s end,\n"
                 "  on_timer = function() end }"
                 ":sink('out%zu', s.blackhole())\n",
                 i, cases[i].body, i);
    buf_adds(&text, "return job\n");
    conf.text = buf_cstr(&text);
    conf.text_len = text.len;
    must(script_load(&conf, &s, &err));
    buf_fini(&text);
    return s;
}

static const struct opt *
step_of(const struct script *s, size_t i)
{
    const struct opt *o = opt_get(script_job(s), "steps")->first;
    char name[16];

    (void)snprintf(name, sizeof name, "p%zu", i);
    while (!opt_is(o, "name", name))
        o = o->next;
    return o;
}

struct bench {
    struct script *s;
    struct kstate *state;
    struct script_process *sp;
    struct batch in, out;
    struct reader *reader;
    struct buf keys[KEYS];
};

/* Seconds of one call. */
static double
run(struct bench *b)
{
    unsigned long i;
    double begun = now();

    for (i = 0; i < calls; i++) {
        const struct buf *key = &b->keys[i % KEYS];

        kstate_key(b->state, key->data, (uint32_t)key->len,
                   hash_key(key->data, key->len));
        kstate_now(b->state, 1, KSTATE_NO_TIME);
        kstate_begin(b->state);
        must(script_process_record(b->sp, false, &b->in.recs[0], b->reader,
                                   &err));
        kstate_commit(b->state);
        if (b->out.n >= 512)
            batch_clear(&b->out);
    }
    return (now() - begun) / (double)calls;
}

static double
one(struct bench *b, size_t i, struct aggset *count)
{
    struct kstate_handle handles[] = {
        {.name = "l", .kind = KSTATE_LIST, .ttl_ms = -1},
        {.name = "m", .kind = KSTATE_MAP, .ttl_ms = -1},
        {.name = "n", .kind = KSTATE_AGG, .ttl_ms = -1, .set = count},
        {.name = "t", .kind = KSTATE_VALUE, .ttl_ms = -1},
        {.name = "v", .kind = KSTATE_VALUE, .ttl_ms = -1},
    };
    struct script_process_conf conf = {.opts = step_of(b->s, i),
                                       .step = "p",
                                       .handles = handles,
                                       .handle_count = 5,
                                       .outs = &b->out,
                                       .event_time = true};
    double t;

    must(kstate_number(handles, 5, NULL, &err));
    b->state = kstate_new(handles, 5);
    conf.state = b->state;
    must(script_process_new(b->s, &conf, &b->sp, &err));
    (void)run(b);
    t = run(b);
    script_process_free(&b->sp);
    kstate_free(&b->state);
    batch_clear(&b->out);
    return t;
}

int
main(int argc, char **argv)
{
    static const char json[] = "{\"k\":\"abc\",\"v\":17,\"ts\":1}";
    struct opt none = {.type = OPT_MAP}, nil = {.type = OPT_LIST};
    const struct opt *handles;
    struct aggset *count;
    struct opt list, agg;
    struct bench b = {0};
    struct rec r = {.val = json,
                    .val_len = sizeof json - 1,
                    .kind = REC_OBJECT,
                    .flags = REC_HAS_TS,
                    .ts = 1};
    double bare = 0, t;
    size_t i;

    if (argc > 1)
        calls = strtoul(argv[1], NULL, 10);
    b.s = load(&none, &nil);
    b.reader = reader_new();
    batch_init(&b.in);
    batch_init(&b.out);
    (void)batch_add_copy(&b.in, &r);
    for (i = 0; i < KEYS; i++) {
        buf_init(&b.keys[i]);
        key_put_int(&b.keys[i], (int64_t)i);
    }
    handles = opt_get(step_of(b.s, 0), "state");
    agg = *opt_get(opt_at(handles, 2), "agg");
    agg.next = NULL;
    list = (struct opt){.type = OPT_LIST, .len = 1, .first = &agg};
    must(aggset_new(&list, json_key_encode, NULL, NULL, &count, &err));
    for (i = 0; i < CASES; i++) {
        t = one(&b, i, count) * 1e9;
        bare = i == 0 ? t : bare;
        (void)printf("%-40s %8.1f ns %+8.1f\n", cases[i].what, t, t - bare);
        (void)fflush(stdout);
    }
    return 0;
}
