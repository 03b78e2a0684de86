/*
 * Generator: the records are those of API.md section 3, computed here once
 * more in the plainest way.
 */
#include <inttypes.h>
#include <math.h>

#include "base/clock.h"
#include "base/hash.h"
#include "connect/gen.h"
#include "connect_help.h"

/* The contract's words, without the engine's tables and shortcuts. */
static uint64_t
M(uint64_t x)
{
    uint64_t z = x + UINT64_C(0x9E3779B97F4A7C15);

    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

static uint64_t
draw(uint64_t seed, uint64_t i, uint64_t f)
{
    return M(M(M(seed) ^ i) ^ f);
}

static double
unit(uint64_t u)
{
    return (double)(u >> 11) * pow(2, -53);
}

static int
zipf(uint64_t u, int n, double exponent)
{
    double whole = 0, sum = 0;
    int k;

    for (k = 1; k <= n; k++)
        whole += pow(k, -exponent);
    for (k = 1; k < n; k++) {
        sum += pow(k, -exponent);
        if (sum >= unit(u) * whole)
            break;
    }
    return k;
}

static void
hex(uint64_t u, int len, char *out)
{
    int i;

    for (i = 0; i < len; i++) {
        if (i > 0 && i % 16 == 0)
            u = M(u);
        (void)snprintf(out + i, 2, "%x",
                       (unsigned)(u >> (60 - 4 * (i % 16))) & 15u);
    }
}

static const char all_kinds[] =
    "[{\"name\":\"a\",\"gen\":{\"kind\":\"int\",\"a\":-5,\"b\":5}},"
    "{\"name\":\"b\",\"gen\":{\"kind\":\"float\",\"a\":-1.5,\"b\":2.25}},"
    "{\"name\":\"c\",\"gen\":{\"kind\":\"choice\",\"values\":[\"x\",1,null]}},"
    "{\"name\":\"d\",\"gen\":{\"kind\":\"zipf\",\"n\":1000,\"exponent\":1.5}},"
    "{\"name\":\"e\",\"gen\":{\"kind\":\"hex\",\"len\":37}},"
    "{\"name\":\"f\",\"gen\":{\"kind\":\"sequence\",\"from\":10,\"step\":-3}},"
    "{\"name\":\"g\",\"gen\":{\"kind\":\"time\",\"start\":1700000000000,"
    "\"step\":20}},"
    "{\"name\":\"h\",\"gen\":{\"kind\":\"cycle\",\"values\":[\"p\",\"q\\\"\"]}}"
    ","
    "{\"name\":\"i\",\"gen\":{\"kind\":\"const\",\"value\":{\"k\":[1,2.5]}}},"
    "{\"name\":\"j\",\"gen\":{\"kind\":\"sequence\",\"from\":0.5,\"step\":1}},"
    "{\"name\":\"k\",\"gen\":{\"kind\":\"zipf\",\"n\":1,\"exponent\":0}}]";

/* The record as the contract words it; fields a to k have ranks 0 to 10. */
static void
expected(uint64_t seed, int64_t i, struct buf *out)
{
    static const char *const choices[] = {"\"x\"", "1", "null"};
    static const char *const cycle[] = {"\"p\"", "\"q\\\"\""};
    char digits[64] = "", b[NUM_TEXT_MAX], j[NUM_TEXT_MAX];
    uint64_t u = (uint64_t)i;

    (void)num_text_double(-1.5 + (2.25 - -1.5) * unit(draw(seed, u, 1)), b);
    (void)num_text_double(0.5 + (double)i, j);
    hex(draw(seed, u, 4), 37, digits);
    buf_addf(out,
             "{\"a\":%d,\"b\":%s,\"c\":%s,\"d\":%d,\"e\":\"%s\",\"f\":%" PRId64
             ",\"g\":%" PRId64 ",\"h\":%s,\"i\":{\"k\":[1,2.5]},\"j\":%s,"
             "\"k\":1}",
             -5 + (int)(draw(seed, u, 0) % 11), b,
             choices[draw(seed, u, 2) % 3], zipf(draw(seed, u, 3), 1000, 1.5),
             digits, 10 - 3 * i, INT64_C(1700000000000) + 20 * i, cycle[i % 2],
             j);
}

static void
every_template_draws_what_the_contract_says(void **state)
{
    static const uint64_t seeds[] = {1, 0, 42, UINT64_MAX};
    struct gen_call call = {0};
    struct arena a;
    struct buf got, want;
    struct gen *g = NULL;
    struct err e;
    size_t s;
    int64_t i;

    (void)state;
    arena_init(&a);
    buf_init(&got);
    buf_init(&want);
    for (s = 0; s < sizeof seeds / sizeof *seeds; s++) {
        assert_int_equal(gen_new(help_opts(&a, all_kinds), seeds[s], &g, &e),
                         0);
        for (i = 0; i < 3000; i++) {
            bool ext = false;

            buf_clear(&got);
            buf_clear(&want);
            assert_int_equal(gen_put(g, (uint64_t)i, &call, &got, &ext, &e), 0);
            expected(seeds[s], i, &want);
            if (got.len != want.len ||
                memcmp(got.data, want.data, got.len) != 0)
                fail_msg("record %" PRId64 " is %s, not %s", i, buf_cstr(&got),
                         buf_cstr(&want));
            assert_true(got.len <= gen_size_max(g));
            assert_false(ext);
        }
        gen_free(&g);
    }
    buf_fini(&got);
    buf_fini(&want);
    arena_fini(&a);
}

static void
zipf_is_the_smallest_rank_for_any_size_and_exponent(void **state)
{
    uint64_t random = 99;
    struct arena a;
    struct buf got;
    int round, i;

    (void)state;
    print_message("seed %" PRIu64 "\n", random);
    arena_init(&a);
    buf_init(&got);
    for (round = 0; round < 60; round++) {
        int n = 1 + (int)((random = M(random)) % 400);
        double exponent = unit(random = M(random)) * 4;
        struct gen_call call = {0};
        struct gen *g = NULL;
        char text[256], want[64];
        struct err e;
        bool ext = false;

        (void)snprintf(text, sizeof text,
                       "[{\"name\":\"z\",\"gen\":{\"kind\":\"zipf\",\"n\":%d,"
                       "\"exponent\":%.17g}}]",
                       n, exponent);
        assert_int_equal(gen_new(help_opts(&a, text), 3, &g, &e), 0);
        for (i = 0; i < 500; i++) {
            buf_clear(&got);
            assert_int_equal(gen_put(g, (uint64_t)i, &call, &got, &ext, &e), 0);
            (void)snprintf(want, sizeof want, "{\"z\":%d}",
                           zipf(draw(3, (uint64_t)i, 0), n, exponent));
            assert_string_equal(buf_cstr(&got), want);
        }
        gen_free(&g);
    }
    buf_fini(&got);
    arena_fini(&a);
}

static void
fields_are_written_in_byte_order_of_names(void **state)
{
    struct gen_call call = {0};
    struct arena a;
    struct buf got;
    struct gen *g = NULL;
    struct err e;
    bool ext = false;
    char want[128];

    (void)state;
    arena_init(&a);
    buf_init(&got);
    /* Ranks: B 0, a 1, a.b 2, ab 3. */
    assert_int_equal(
        gen_new(help_opts(&a, "[{\"name\":\"ab\",\"gen\":{\"kind\":\"const\","
                              "\"value\":true}},"
                              "{\"name\":\"a\",\"gen\":{\"kind\":\"int\","
                              "\"a\":0,\"b\":1000}},"
                              "{\"name\":\"a.b\",\"gen\":{\"kind\":\"const\","
                              "\"value\":null}},"
                              "{\"name\":\"B\",\"gen\":{\"kind\":\"const\","
                              "\"value\":\"\"}}]"),
                1, &g, &e),
        0);
    assert_int_equal(gen_put(g, 7, &call, &got, &ext, &e), 0);
    (void)snprintf(want, sizeof want,
                   "{\"B\":\"\",\"a\":%d,\"a.b\":null,\"ab\":true}",
                   (int)(draw(1, 7, 1) % 1001));
    assert_string_equal(buf_cstr(&got), want);
    gen_free(&g);
    buf_clear(&got);
    assert_int_equal(gen_new(NULL, 1, &g, &e), 0);
    assert_int_equal(gen_put(g, 7, &call, &got, &ext, &e), 0);
    assert_string_equal(buf_cstr(&got), "{}");
    gen_free(&g);
    buf_fini(&got);
    arena_fini(&a);
}

static void
the_whole_int_range_is_one_draw(void **state)
{
    struct gen_call call = {0};
    struct arena a;
    struct buf got;
    struct gen *g = NULL;
    struct err e;
    bool ext = false;
    char want[128];

    (void)state;
    arena_init(&a);
    buf_init(&got);
    assert_int_equal(
        gen_new(help_opts(&a, "[{\"name\":\"a\",\"gen\":{\"kind\":\"int\","
                              "\"a\":-9223372036854775808,"
                              "\"b\":9223372036854775807}}]"),
                1, &g, &e),
        0);
    assert_int_equal(gen_put(g, 3, &call, &got, &ext, &e), 0);
    (void)snprintf(want, sizeof want, "{\"a\":%" PRId64 "}",
                   (int64_t)(draw(1, 3, 0) + ((uint64_t)1 << 63)));
    assert_string_equal(buf_cstr(&got), want);
    gen_free(&g);
    buf_fini(&got);
    arena_fini(&a);
}

static void
unusable_templates_are_refused_with_their_field(void **state)
{
    static const char *const bad[] = {
        "[{\"name\":\"q\",\"gen\":{\"kind\":\"dice\"}}]",
        "[{\"name\":\"q\",\"gen\":{\"kind\":\"cycle\",\"values\":[]}}]",
        "[{\"name\":\"q\",\"gen\":{\"kind\":\"int\",\"a\":2,\"b\":1}}]",
        "[{\"name\":\"q\",\"gen\":{\"kind\":\"zipf\",\"n\":0}}]",
        "[{\"name\":\"q\",\"gen\":{\"kind\":\"hex\",\"len\":-1}}]",
    };
    struct arena a;
    size_t i;

    (void)state;
    arena_init(&a);
    for (i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct gen *g = NULL;
        struct err e;

        err_clear(&e);
        assert_int_equal(gen_new(help_opts(&a, bad[i]), 1, &g, &e),
                         ERR_JOBFILE);
        assert_null(g);
        assert_non_null(strstr(e.msg, "field q: "));
    }
    arena_fini(&a);
}

/* --- the source ----------------------------------------------------------- */

static int
square(void *script, int func, int64_t arg, struct arena *a, struct val *ret,
       struct err *e)
{
    int *calls = script;

    (void)a;
    ++*calls;
    if (func == 2)
        return err_record(e, CAUSE_USER_ERROR, "no record %d", (int)arg);
    *ret = arg % 3 == 2 ? val_nil() : val_int(arg * arg);
    return 0;
}

struct seen {
    int64_t *next; /* of each partition */
    uint64_t records, bytes, batches, nones;
    uint32_t added, ended, bad;
    struct buf text; /* of the records in order, if wanted */
    bool want_text;
};

static void
check_batch(const struct source_event *ev, const struct batch *b,
            struct seen *seen, int64_t partitions)
{
    uint32_t i;

    assert_true(b->n > 0);
    for (i = 0; i < b->n; i++) {
        const struct rec *r = &b->recs[i];

        assert_int_equal(r->offset, seen->next[r->partition]);
        assert_int_equal(r->offset % partitions, r->partition);
        assert_int_equal(r->partition, b->recs[0].partition);
        assert_string_equal(topic_name(r->topic), "in");
        assert_int_equal(r->src, 5);
        assert_int_equal(r->kind, REC_OBJECT);
        assert_int_equal(r->val[0], '{');
        assert_int_equal(r->val[r->val_len - 1], '}');
        seen->next[r->partition] += partitions;
        if (seen->want_text)
            buf_add(&seen->text, r->val, r->val_len);
    }
    seen->records += b->n;
    seen->bytes += ev->bytes;
    seen->batches++;
    seen->bad += ev->bad_count;
}

/* Poll a task to its end, or until it has nothing to give. */
static enum source_event_kind
run_task(struct source_task *t, uint32_t max, struct seen *seen,
         int64_t partitions)
{
    struct source_event ev;
    struct batch b;
    struct err e;

    batch_init(&b);
    do {
        batch_clear(&b);
        assert_int_equal(generator_source_type.poll(t, &b, max, &ev, &e), 0);
        assert_true(b.n <= max);
        if (ev.kind == SOURCE_BATCH)
            check_batch(&ev, &b, seen, partitions);
        seen->added += ev.kind == SOURCE_ADDED;
        seen->ended += ev.kind == SOURCE_PART_END;
    } while (ev.kind != SOURCE_END && ev.kind != SOURCE_NONE);
    batch_fini(&b);
    return ev.kind;
}

static void
record_i_belongs_to_partition_i_mod_n(void **state)
{
    static const uint32_t parallelisms[] = {1, 2, 4, 9};
    int64_t next[7];
    struct arena a;
    size_t p;
    int64_t k;

    (void)state;
    arena_init(&a);
    for (p = 0; p < 4; p++) {
        struct conn_env env = help_env(
            &a,
            "{\"count\":10000,\"partitions\":7,\"fields\":[{\"name\":\"i\","
            "\"gen\":{\"kind\":\"sequence\"}}]}",
            parallelisms[p]);
        struct seen seen = {.next = next};
        struct source *s = NULL;
        struct err e;
        uint32_t i;

        for (k = 0; k < 7; k++)
            next[k] = k;
        assert_int_equal(generator_source_type.open(&env, &s, &e), 0);
        for (i = 0; i < parallelisms[p]; i++) {
            struct conn_task conf = {.subtask = i};
            struct source_task *t = NULL;

            assert_int_equal(generator_source_type.task_new(s, &conf, &t, &e),
                             0);
            assert_int_equal(run_task(t, 100 + i, &seen, 7), SOURCE_END);
            generator_source_type.task_free(&t);
        }
        assert_int_equal(seen.records, 10000);
        assert_int_equal(seen.added, 7);
        assert_int_equal(seen.ended, 7);
        for (k = 0; k < 7; k++)
            assert_true(next[k] >= 10000);
        generator_source_type.close(&s);
        assert_null(s);
    }
    arena_fini(&a);
}

static void
functions_get_the_index_and_nil_leaves_the_field_out(void **state)
{
    int calls = 0;
    int64_t next = 0;
    struct arena a;
    struct conn_env env;
    struct conn_task conf = {.script = &calls, .call = square};
    struct seen seen = {.next = &next, .want_text = true};
    struct source *s = NULL;
    struct source_task *t = NULL;
    struct err e;

    (void)state;
    arena_init(&a);
    env = help_env(&a,
                   "{\"count\":5,\"fields\":["
                   "{\"name\":\"a\",\"gen\":{\"kind\":\"func\","
                   "\"func\":{\"func\":1}}},"
                   "{\"name\":\"b\",\"gen\":{\"kind\":\"sequence\"}}]}",
                   1);
    assert_int_equal(generator_source_type.open(&env, &s, &e), 0);
    assert_int_equal(generator_source_type.task_new(s, &conf, &t, &e), 0);
    assert_int_equal(run_task(t, 100, &seen, 1), SOURCE_END);
    assert_string_equal(buf_cstr(&seen.text),
                        "{\"a\":0,\"b\":0}{\"a\":1,\"b\":1}{\"b\":2}"
                        "{\"a\":9,\"b\":3}{\"a\":16,\"b\":4}");
    assert_int_equal(calls, 5);
    buf_fini(&seen.text);
    generator_source_type.task_free(&t);
    generator_source_type.close(&s);
    arena_fini(&a);
}

static void
a_failing_function_costs_its_record_only(void **state)
{
    int calls = 0;
    int64_t next = 0;
    struct arena a;
    struct conn_env env;
    struct conn_task conf = {.script = &calls, .call = square};
    struct seen seen = {.next = &next};
    struct source *s = NULL;
    struct source_task *t = NULL;
    struct err e;

    (void)state;
    arena_init(&a);
    env = help_env(&a,
                   "{\"count\":4,\"fields\":[{\"name\":\"a\",\"gen\":"
                   "{\"kind\":\"func\",\"func\":{\"func\":2}}}]}",
                   1);
    assert_int_equal(generator_source_type.open(&env, &s, &e), 0);
    assert_int_equal(generator_source_type.task_new(s, &conf, &t, &e), 0);
    assert_int_equal(run_task(t, 100, &seen, 1), SOURCE_END);
    assert_int_equal(seen.records, 4);
    assert_int_equal(seen.bad, 4);
    generator_source_type.task_free(&t);
    generator_source_type.close(&s);
    arena_fini(&a);
}

static void
a_rate_holds_back_what_is_not_due(void **state)
{
    int64_t next[2] = {0, 1};
    struct arena a;
    struct conn_env env;
    struct conn_task conf = {0};
    struct seen seen = {.next = next};
    struct source *s = NULL;
    struct source_task *t = NULL;
    struct err e;
    int64_t began;

    (void)state;
    arena_init(&a);
    env = help_env(&a, "{\"count\":50,\"rate\":500,\"partitions\":2}", 1);
    assert_int_equal(generator_source_type.open(&env, &s, &e), 0);
    assert_int_equal(generator_source_type.task_new(s, &conf, &t, &e), 0);
    began = clock_mono_ms();
    while (run_task(t, 1000, &seen, 2) != SOURCE_END) {
        /* Record i is not given before i / rate seconds have gone by. */
        int64_t now = clock_mono_ms() - began;

        assert_true((int64_t)seen.records <= now / 2 + 2);
        seen.nones++;
    }
    assert_int_equal(seen.records, 50);
    assert_true(clock_mono_ms() - began >= 97);
    assert_true(seen.nones > 0);
    generator_source_type.task_free(&t);
    generator_source_type.close(&s);
    arena_fini(&a);
}

static void
stopping_wakes_and_ends_an_endless_generator(void **state)
{
    int64_t next = 0;
    struct arena a;
    struct conn_env env;
    sem_t wakes;
    struct conn_task conf = {.wake = help_wake, .wake_arg = &wakes};
    struct seen seen = {.next = &next};
    struct source *s = NULL;
    struct source_task *t = NULL;
    struct step_blobs blobs = {0};
    struct err e;

    (void)state;
    arena_init(&a);
    (void)sem_init(&wakes, 0, 0);
    env = help_env(&a, "{\"rate\":0.001}", 1);
    assert_int_equal(generator_source_type.open(&env, &s, &e), 0);
    assert_int_equal(generator_source_type.task_new(s, &conf, &t, &e), 0);
    assert_int_equal(run_task(t, 10, &seen, 1), SOURCE_NONE);
    assert_int_equal(seen.records, 1);

    generator_source_type.stop(s);

    assert_true(help_wait(&wakes, 10));
    assert_int_equal(run_task(t, 10, &seen, 1), SOURCE_END);
    assert_int_equal(seen.records, 1);
    assert_int_equal(
        generator_source_type.snapshot(t, help_blobs_add(&blobs), &e), 0);
    generator_source_type.task_free(&t);
    generator_source_type.close(&s);

    /* The one record is not given again, and the rate begins anew. */
    env.restored = &blobs;
    assert_int_equal(generator_source_type.open(&env, &s, &e), 0);
    assert_int_equal(generator_source_type.task_new(s, &conf, &t, &e), 0);
    assert_int_equal(run_task(t, 10, &seen, 1), SOURCE_NONE);
    assert_int_equal(seen.records, 2);
    generator_source_type.task_free(&t);
    generator_source_type.close(&s);
    help_blobs_free(&blobs);
    (void)sem_destroy(&wakes);
    arena_fini(&a);
}

static void
bounded_without_a_count_is_a_wrong_call(void **state)
{
    struct arena a;
    struct conn_env env;
    struct source *s = NULL;
    struct opt *cli, *yes;
    struct err e;

    (void)state;
    arena_init(&a);
    env = help_env(&a, "{\"rate\":5}", 1);
    cli = opt_new_map(&a);
    yes = opt_new(&a);
    yes->type = OPT_BOOL;
    yes->i = 1;
    opt_add(&a, cli, "bounded", yes);
    env.cli = cli;
    err_clear(&e);
    assert_int_equal(generator_source_type.open(&env, &s, &e), ERR_USAGE);
    assert_int_equal(err_exit_code(e.code), 64);
    assert_non_null(strstr(e.msg, "count"));
    assert_string_equal(e.where, "job.lua:2");
    arena_fini(&a);
}

/* Poll all tasks of a generator some times, and keep the round. */
static void
run_some(const struct conn_env *env, uint64_t *seed, struct seen *seen,
         struct step_blobs *blobs)
{
    struct source_event ev;
    struct source *s = NULL;
    struct batch b;
    struct err e;
    uint32_t i;

    batch_init(&b);
    if (generator_source_type.open(env, &s, &e) != 0)
        fail_msg("%s", e.msg);
    for (i = 0; i < env->parallelism; i++) {
        struct conn_task conf = {.subtask = i};
        struct source_task *t = NULL;
        uint64_t polls;

        assert_int_equal(generator_source_type.task_new(s, &conf, &t, &e), 0);
        *seed = hash_splitmix(*seed);
        for (polls = *seed % 40; polls > 0; polls--) {
            batch_clear(&b);
            assert_int_equal(
                generator_source_type.poll(t, &b, 1 + i * 7, &ev, &e), 0);
            if (ev.kind == SOURCE_BATCH)
                check_batch(&ev, &b, seen, 7);
            seen->ended += ev.kind == SOURCE_PART_END;
        }
        assert_int_equal(
            generator_source_type.snapshot(t, help_blobs_add(blobs), &e), 0);
        generator_source_type.task_free(&t);
    }
    generator_source_type.close(&s);
    batch_fini(&b);
}

static void
any_number_of_tasks_goes_on_where_the_others_were(void **state)
{
    static const char opts[] =
        "{\"count\":3000,\"partitions\":7,\"fields\":[{\"name\":\"i\","
        "\"gen\":{\"kind\":\"sequence\"}}]}";
    int64_t next[7] = {0, 1, 2, 3, 4, 5, 6};
    struct seen seen = {.next = next};
    struct step_blobs from = {0};
    uint64_t seed = 11;
    struct arena a;
    int round, k;

    (void)state;
    print_message("seed %" PRIu64 "\n", seed);
    arena_init(&a);
    for (round = 0; seen.records < 3000; round++) {
        struct step_blobs now = {0};
        struct conn_env env = help_env(&a, opts, 1 + (uint32_t)(seed % 9));

        assert_true(round < 1000);
        env.restored = round > 0 ? &from : NULL;
        /* check_batch() wants every index behind the one before. */
        run_some(&env, &seed, &seen, &now);
        help_blobs_free(&from);
        from = now;
    }
    assert_int_equal(seen.records, 3000);
    for (k = 0; k < 7; k++)
        assert_true(next[k] >= 3000);
    help_blobs_free(&from);
    arena_fini(&a);
}

static void
another_number_of_partitions_does_not_fit_the_state(void **state)
{
    static const char *const others[] = {"{\"partitions\":1}",
                                         "{\"partitions\":3}"};
    struct step_blobs blobs = {0};
    struct conn_task conf = {0};
    struct source *s = NULL;
    struct source_task *t = NULL;
    struct conn_env env;
    struct arena a;
    struct err e;
    size_t i;

    (void)state;
    arena_init(&a);
    env = help_env(&a, "{\"partitions\":2}", 1);
    assert_int_equal(generator_source_type.open(&env, &s, &e), 0);
    assert_int_equal(generator_source_type.task_new(s, &conf, &t, &e), 0);
    assert_int_equal(
        generator_source_type.snapshot(t, help_blobs_add(&blobs), &e), 0);
    generator_source_type.task_free(&t);
    generator_source_type.close(&s);
    for (i = 0; i < 2; i++) {
        env = help_env(&a, others[i], 1);
        env.restored = &blobs;
        err_clear(&e);
        assert_int_equal(generator_source_type.open(&env, &s, &e), ERR_JOBFILE);
        assert_non_null(strstr(e.msg, "has 2 partitions"));
        assert_non_null(strstr(e.hint, "partitions=2"));
        assert_string_equal(e.where, "job.lua:2");
        assert_null(s);
    }
    help_blobs_free(&blobs);
    arena_fini(&a);
}

static void
damaged_positions_are_refused(void **state)
{
    struct step_blobs blobs = {0};
    struct conn_task conf = {0};
    struct source *s = NULL;
    struct source_task *t = NULL;
    struct conn_env env;
    struct arena a;
    struct err e;
    struct buf *b;

    (void)state;
    arena_init(&a);
    env = help_env(&a, "{\"partitions\":2}", 1);
    assert_int_equal(generator_source_type.open(&env, &s, &e), 0);
    assert_int_equal(generator_source_type.task_new(s, &conf, &t, &e), 0);
    b = help_blobs_add(&blobs);
    assert_int_equal(generator_source_type.snapshot(t, b, &e), 0);
    generator_source_type.task_free(&t);
    generator_source_type.close(&s);
    env.restored = &blobs;
    buf_addc(b, 0);
    assert_int_equal(generator_source_type.open(&env, &s, &e), ERR_IO);
    for (b->len--; b->len > 0;) {
        b->len--;
        assert_int_equal(generator_source_type.open(&env, &s, &e), ERR_IO);
    }
    help_blobs_free(&blobs);
    arena_fini(&a);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_template_draws_what_the_contract_says),
        cmocka_unit_test(zipf_is_the_smallest_rank_for_any_size_and_exponent),
        cmocka_unit_test(fields_are_written_in_byte_order_of_names),
        cmocka_unit_test(the_whole_int_range_is_one_draw),
        cmocka_unit_test(unusable_templates_are_refused_with_their_field),
        cmocka_unit_test(record_i_belongs_to_partition_i_mod_n),
        cmocka_unit_test(functions_get_the_index_and_nil_leaves_the_field_out),
        cmocka_unit_test(a_failing_function_costs_its_record_only),
        cmocka_unit_test(a_rate_holds_back_what_is_not_due),
        cmocka_unit_test(stopping_wakes_and_ends_an_endless_generator),
        cmocka_unit_test(bounded_without_a_count_is_a_wrong_call),
        cmocka_unit_test(any_number_of_tasks_goes_on_where_the_others_were),
        cmocka_unit_test(another_number_of_partitions_does_not_fit_the_state),
        cmocka_unit_test(damaged_positions_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
