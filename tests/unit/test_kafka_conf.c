/* Client properties and options: what a job may say, without a broker. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kafka/client.h"
#include "kafka/kafka.h"
#include "kafka/props.h"

struct fix {
    struct arena a;
    struct opt *opts, *job, *cli;
    struct conn_env env;
    struct err e;
};

static struct opt *
str(struct fix *f, const char *s)
{
    return opt_new_str(&f->a, s, strlen(s));
}

static void
fix_init(struct fix *f)
{
    memset(f, 0, sizeof *f);
    arena_init(&f->a);
    f->opts = opt_new_map(&f->a);
    f->job = opt_new_map(&f->a);
    f->cli = opt_new_map(&f->a);
    opt_add(&f->a, f->opts, "topic", str(f, "events"));
    opt_add(&f->a, f->opts, "start", str(f, "earliest"));
    f->env = (struct conn_env){.job = "j",
                               .step = "events",
                               .place = "job.lua:6",
                               .opts = f->opts,
                               .job_opts = f->job,
                               .cli = f->cli,
                               .parallelism = 1};
}

static void
add_prop(struct fix *f, struct opt *in, const char *group, const char *name,
         struct opt *value)
{
    struct opt *m = (struct opt *)(uintptr_t)opt_get(in, group);

    if (m == NULL) {
        m = opt_new_map(&f->a);
        opt_add(&f->a, in, group, m);
    }
    opt_add(&f->a, m, name, value);
}

static void
says(const struct err *e, const char *text)
{
    if (strstr(e->msg, text) == NULL && strstr(e->hint, text) == NULL)
        fail_msg("no \"%s\" in: %s (%s)", text, e->msg, e->hint);
}

static void
names_of_librdkafka_pass(void **state)
{
    static const char *const good[] = {"linger.ms",
                                       "batch.size",
                                       "compression.codec",
                                       "compression.type",
                                       "security.protocol",
                                       ("max.in.flight.requests.per."
                                        "connection"),
                                       "queued.max.messages.kbytes"};
    struct err e;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_int_equal(props_check(good[i], &e), 0);
}

static void
names_the_engine_owns_say_what_to_use(void **state)
{
    static const char *const bad[][2] = {
        {"group.id", "`group`"},
        {"enable.auto.commit", "positions are kept"},
        {"auto.offset.reset", "`start`"},
        {"isolation.level", "`isolation`"},
        {"transactional.id", "`transactional_id_prefix`"},
        {"partitioner", "`partition`"},
        {"acks", "`delivery`"},
        {"bootstrap.servers", "`bootstrap_servers`"},
        {"error_cb", "pointer"},
    };
    struct err e;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(props_check(bad[i][0], &e), ERR_JOBFILE);
        says(&e, bad[i][0]);
        says(&e, bad[i][1]);
    }
}

static void
names_of_the_java_client_are_explained(void **state)
{
    static const char *const bad[][2] = {
        {"fetch.max.wait.ms", "fetch.wait.max.ms"},
        {"max.poll.records", "batches"},
        {"sasl.jaas.config", "sasl.username"},
        {"ssl.truststore.location", "ssl.ca.location"},
        {"key.serializer", "`key`"},
        {"buffer.memory", "queue.buffering.max.kbytes"},
        {"max.request.size", "message.max.bytes"},
    };
    struct err e;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(props_check(bad[i][0], &e), ERR_JOBFILE);
        says(&e, "Java");
        says(&e, bad[i][1]);
    }
}

static void
unknown_name_brings_the_nearest(void **state)
{
    struct err e;

    (void)state;
    assert_int_equal(props_check("linger.mss", &e), ERR_JOBFILE);
    says(&e, "did you mean \"linger.ms\"");
    assert_int_equal(props_check("compresion.codec", &e), ERR_JOBFILE);
    says(&e, "did you mean \"compression.codec\"");
    assert_int_equal(props_check("zzzzzzzzzzzzzzzzzz", &e), ERR_JOBFILE);
    assert_null(strstr(e.msg, "did you mean"));
}

static void
distance_is_that_of_single_edits(void **state)
{
    (void)state;
    assert_int_equal(props_distance("abc", "abc", 9), 0);
    assert_int_equal(props_distance("abc", "abd", 9), 1);
    assert_int_equal(props_distance("abc", "ab", 9), 1);
    assert_int_equal(props_distance("", "abc", 9), 3);
    assert_int_equal(props_distance("kitten", "sitting", 9), 3);
    assert_int_equal(props_distance("abc", "xyzuvw", 2), 2);
}

static void
bad_property_of_the_job_has_its_place(void **state)
{
    struct fix f;

    (void)state;
    fix_init(&f);
    add_prop(&f, f.opts, "properties", "lingerr.ms", opt_new_int(&f.a, 5));
    assert_int_equal(kafka_check(&f.env, true, &f.e), ERR_JOBFILE);
    says(&f.e, "linger.ms");
    assert_string_equal(f.e.where, "job.lua:6");
    arena_fini(&f.a);
}

static void
bad_value_is_told_with_the_name(void **state)
{
    struct fix f;

    (void)state;
    fix_init(&f);
    add_prop(&f, f.job, "properties", "compression.codec", str(&f, "zip"));
    assert_int_equal(kafka_check(&f.env, true, &f.e), ERR_JOBFILE);
    says(&f.e, "compression.codec");
    says(&f.e, "zip");
    arena_fini(&f.a);

    fix_init(&f);
    add_prop(&f, f.opts, "properties", "linger.ms", opt_new_map(&f.a));
    assert_int_equal(kafka_check(&f.env, true, &f.e), ERR_JOBFILE);
    says(&f.e, "must be a string");
    arena_fini(&f.a);
}

static void
bad_flag_is_a_usage_error(void **state)
{
    struct fix f;

    (void)state;
    fix_init(&f);
    add_prop(&f, f.cli, "X", "group.id", str(&f, "g"));
    assert_int_equal(kafka_check(&f.env, false, &f.e), ERR_USAGE);
    assert_int_equal(f.e.code, ERR_USAGE);
    says(&f.e, "-X: ");
    arena_fini(&f.a);
}

static void
flag_overrides_step_overrides_job(void **state)
{
    struct fix f;
    rd_kafka_conf_t *conf;
    struct client *c;
    char text[64];
    size_t size = sizeof text;

    (void)state;
    fix_init(&f);
    opt_add(&f.a, f.job, "bootstrap_servers", str(&f, "job:1"));
    opt_add(&f.a, f.opts, "bootstrap_servers", str(&f, "step:1"));
    add_prop(&f, f.job, "properties", "client.id", str(&f, "job"));
    add_prop(&f, f.job, "properties", "linger.ms", opt_new_int(&f.a, 7));
    add_prop(&f, f.opts, "properties", "client.id", str(&f, "step"));
    add_prop(&f, f.cli, "X", "client.id", str(&f, "flag"));
    c = client_new(CLIENT_PRODUCER, &f.env);
    assert_int_equal(client_conf(c, &f.env, &conf, &f.e), 0);
    assert_string_equal(c->servers, "step:1");
    assert_int_equal(rd_kafka_conf_get(conf, "client.id", text, &size),
                     RD_KAFKA_CONF_OK);
    assert_string_equal(text, "flag");
    size = sizeof text;
    (void)rd_kafka_conf_get(conf, "linger.ms", text, &size);
    assert_string_equal(text, "7");
    assert_true(client_is_set(&f.env, "linger.ms"));
    assert_false(client_is_set(&f.env, "batch.size"));
    rd_kafka_conf_destroy(conf);
    client_close(&c);

    opt_add(&f.a, f.cli, "bootstrap_servers", str(&f, "flag:1"));
    c = client_new(CLIENT_PRODUCER, &f.env);
    assert_string_equal(c->servers, "flag:1");
    client_close(&c);
    arena_fini(&f.a);
}

static void
no_brokers_is_a_configuration_error(void **state)
{
    struct source *s = NULL;
    struct fix f;

    (void)state;
    fix_init(&f);
    assert_int_equal(kafka_source_type.open(&f.env, &s, &f.e), ERR_CONFIG);
    says(&f.e, "--bootstrap-servers");
    assert_null(s);
    arena_fini(&f.a);
}

static void
start_policy_must_be_one(void **state)
{
    struct fix f;

    (void)state;
    fix_init(&f);
    assert_int_equal(kafka_check(&f.env, false, &f.e), 0);
    f.opts->first->next->s = "erliest";
    assert_int_equal(kafka_check(&f.env, false, &f.e), ERR_JOBFILE);
    says(&f.e, "committed-or-earliest");
    assert_string_equal(f.e.where, "job.lua:6");
    arena_fini(&f.a);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_librdkafka_pass),
        cmocka_unit_test(names_the_engine_owns_say_what_to_use),
        cmocka_unit_test(names_of_the_java_client_are_explained),
        cmocka_unit_test(unknown_name_brings_the_nearest),
        cmocka_unit_test(distance_is_that_of_single_edits),
        cmocka_unit_test(bad_property_of_the_job_has_its_place),
        cmocka_unit_test(bad_value_is_told_with_the_name),
        cmocka_unit_test(bad_flag_is_a_usage_error),
        cmocka_unit_test(flag_overrides_step_overrides_job),
        cmocka_unit_test(no_brokers_is_a_configuration_error),
        cmocka_unit_test(start_policy_must_be_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
