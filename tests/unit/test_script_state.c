/* State of functions as bytes: what goes in comes out, as text too; damage. */
#include "base/hash.h"
#include "script_job.h"

static struct err err;

struct rig {
    struct job_of job;
    struct kstate *state;
    struct kstate_handle handles[1];
    struct script_process *sp;
    struct batch out;
    struct buf key; /* the state borrows it */
};

/* A step with the value state `v`; `code` is its on_record. */
static void
rig_up(struct rig *g, const char *code)
{
    struct script_process_conf conf;
    char text[4096];

    memset(g, 0, sizeof *g);
    (void)snprintf(text, sizeof text,
                   "local s = require 'streamlua'\n"
                   "local job = s.job 't'\n"
                   "job:source('in', s.stdin()):key_by 'k':process {\n"
                   "  state = { v = s.value_state() },\n"
                   "  on_record = function(e, ctx) local v = ctx.state.v\n"
                   "%s end }\n"
                   "  :sink('out', s.stdout())\n"
                   "return job\n",
                   code);
    job_load_text(&g->job, text);
    g->handles[0] =
        (struct kstate_handle){.name = "v", .kind = KSTATE_VALUE, .ttl_ms = -1};
    assert_int_equal(kstate_number(g->handles, 1, NULL, &err), 0);
    g->state = kstate_new(g->handles, 1);
    buf_init(&g->key);
    key_put_str(&g->key, "a", 1);
    kstate_key(g->state, g->key.data, (uint32_t)g->key.len,
               hash_key(g->key.data, g->key.len));
    kstate_now(g->state, KSTATE_NO_TIME, KSTATE_NO_TIME);
    batch_init(&g->out);
    conf = (struct script_process_conf){
        .opts = job_step(g->job.s, "process"),
        .step = "p",
        .state = g->state,
        .handles = g->handles,
        .handle_count = 1,
        .outs = &g->out,
    };
    assert_int_equal(script_process_new(g->job.s, &conf, &g->sp, &err), 0);
}

static void
rig_down(struct rig *g)
{
    script_process_free(&g->sp);
    kstate_free(&g->state);
    batch_fini(&g->out);
    buf_fini(&g->key);
    job_free(&g->job);
}

static void
call(struct rig *g, const char *json)
{
    job_record(&g->job, json);
    if (script_process_record(g->sp, false, &g->job.rec, g->job.reader, &err) !=
        0)
        fail_msg("%s: %s", err.where, err.msg);
}

static const char everything[] =
    "v:set { [1] = true, [2] = { a = 1, b = -1.5, c = 'x\"', d = {} },\n"
    "  [3] = s.list {}, [4] = s.null, [5] = { 1, { 2.0 } }, [6] = false,\n"
    "  [7] = math.mininteger }";

static void
what_is_kept_is_shown_as_json(void **state)
{
    struct buf out;
    const void *bytes;
    uint32_t len;
    struct rig g;

    (void)state;
    rig_up(&g, everything);
    call(&g, "{\"k\":1}");
    bytes = kstate_value_get(g.state, 0, &len);
    assert_non_null(bytes);
    buf_init(&out);
    assert_int_equal(script_state_json(bytes, len, &out, &err), 0);
    assert_string_equal(
        buf_cstr(&out),
        "[true,{\"a\":1,\"b\":-1.5,\"c\":\"x\\\"\",\"d\":{}},[],null,"
        "[1,[2.0]],false,-9223372036854775808]");
    buf_fini(&out);
    rig_down(&g);
}

/* Every cut, and every byte that is another, gives text or ERR_IO. */
static void
damaged_bytes_are_refused_and_never_read_beyond(void **state)
{
    uint32_t len, i, refused = 0;
    const char *bytes;
    struct buf out;
    struct rig g;
    char *copy;

    (void)state;
    rig_up(&g, everything);
    call(&g, "{\"k\":1}");
    bytes = kstate_value_get(g.state, 0, &len);
    buf_init(&out);
    buf_adds(&out, "before");
    for (i = 0; i < len; i++) {
        copy = malloc(i + 1); /* of its size, for the sanitizer */
        memcpy(copy, bytes, i);
        assert_int_equal(script_state_json(copy, i, &out, &err), ERR_IO);
        assert_string_equal(buf_cstr(&out), "before");
        free(copy);
    }
    for (i = 0; i < len; i++) {
        copy = malloc(len);
        memcpy(copy, bytes, len);
        copy[i] = (char)(copy[i] ^ 0x55);
        refused += script_state_json(copy, len, &out, &err) != 0;
        out.len = 6;
        free(copy);
    }
    assert_true(refused > len / 4);
    buf_fini(&out);
    rig_down(&g);
}

static void
damaged_state_is_an_error_of_the_call(void **state)
{
    struct rig g;

    (void)state;
    rig_up(&g, "return v:get()");
    assert_int_equal(kstate_value_set(g.state, 0, "t-\3", 3, &err), 0);
    job_record(&g.job, "{\"k\":1}");
    assert_int_equal(
        script_process_record(g.sp, false, &g.job.rec, g.job.reader, &err),
        ERR_RECORD);
    assert_non_null(strstr(err.msg, "state v: damaged"));
    rig_down(&g);
}

/* The same data give the same bytes, whatever the order Lua keeps keys in. */
static void
equal_data_are_equal_bytes(void **state)
{
    uint32_t len, first_len;
    const char *bytes;
    struct buf first;
    struct rig g;
    int i;

    (void)state;
    rig_up(&g, "local t = {}\n"
               "for i = 1, 40 do t['k' .. (i * e.n % 41)] = i * e.n % 41 end\n"
               "v:set(t)");
    call(&g, "{\"k\":1,\"n\":1}");
    bytes = kstate_value_get(g.state, 0, &first_len);
    buf_init(&first);
    buf_add(&first, bytes, first_len);
    for (i = 2; i < 12; i++) {
        char json[40];

        (void)snprintf(json, sizeof json, "{\"k\":1,\"n\":%d}", i);
        call(&g, json);
        bytes = kstate_value_get(g.state, 0, &len);
        assert_int_equal(len, first_len);
        assert_memory_equal(bytes, first.data, len);
    }
    buf_fini(&first);
    rig_down(&g);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_kept_is_shown_as_json),
        cmocka_unit_test(damaged_bytes_are_refused_and_never_read_beyond),
        cmocka_unit_test(damaged_state_is_an_error_of_the_call),
        cmocka_unit_test(equal_data_are_equal_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
