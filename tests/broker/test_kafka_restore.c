/*
 * A Kafka source that begins from a round: its positions, whatever became of
 * the topic and of the number of tasks meanwhile.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "drive.h"
#include "kafka/kafka.h"
#include "kt.h"

enum { LONG = 30000, PARTS_MAX = 8 };

static const char *servers;

/* "PARTITION:NUMBER" into each partition, numbers from `from`. */
static void
fill(const char *topic, int parts, int from, int count)
{
    rd_kafka_t *rk = kt_producer(servers, NULL, NULL);
    int i, p;

    for (i = from; i < from + count; i++)
        for (p = 0; p < parts; p++) {
            char text[32];

            (void)snprintf(text, sizeof text, "%d:%d", p, i);
            kt_puts(rk, topic, p, text);
        }
    kt_close(&rk);
}

static void
source_of(struct drive *d, const char *topic, uint32_t tasks, const char *start)
{
    drive_init(d, servers, tasks);
    drive_str(d, "topic", topic);
    drive_str(d, "start", start);
    drive_str(d, "group", topic);
    drive_bounded(d);
}

static void
ok(struct drive *d, int r)
{
    if (r != 0)
        fail_msg("%d %s (%s)", r, d->err.msg, d->err.hint);
}

static void
says(const struct drive *d, const char *text)
{
    if (strstr(d->err.msg, text) == NULL && strstr(d->err.hint, text) == NULL)
        fail_msg("no \"%s\" in: %s (%s)", text, d->err.msg, d->err.hint);
}

/* Read `count` records of a topic and keep the positions. */
static void
read_some(const char *topic, uint32_t tasks, size_t count,
          struct step_blobs *ret)
{
    struct drive d;

    source_of(&d, topic, tasks, "earliest");
    d.max = 7;
    ok(&d, drive_open_source(&d));
    ok(&d, drive_read(&d, count, LONG));
    drive_snapshot(&d, ret);
    (void)drive_close(&d);
}

/* Open with positions; the error, or 0, stays in d. */
static int
restore(struct drive *d, const char *topic, uint32_t tasks,
        const struct step_blobs *b)
{
    source_of(d, topic, tasks, "latest");
    d->env.restored = b;
    return drive_open_source(d);
}

/* The next number of each partition is one more than the last seen. */
static void
follow(const struct drive *d, int next[PARTS_MAX])
{
    size_t i;

    for (i = 0; i < d->count; i++) {
        char want[32];
        int p = d->recs[i].partition;

        (void)snprintf(want, sizeof want, "%d:%d", p, next[p]++);
        assert_string_equal(d->recs[i].val, want);
    }
}

static void
goes_on_where_it_was_with_another_number_of_tasks(void **state)
{
    static const uint32_t tasks[] = {2, 3, 1, 5};
    const char *topic = drive_topic("rescale");
    struct step_blobs b = {.count = 0};
    int next[PARTS_MAX] = {0};
    size_t i;

    (void)state;
    kt_create(servers, topic, 4, NULL);
    fill(topic, 4, 0, 100);
    for (i = 0; i < 4; i++) {
        struct drive d;

        if (i == 0)
            source_of(&d, topic, tasks[i], "earliest");
        else
            source_of(&d, topic, tasks[i], "latest");
        d.env.restored = i == 0 ? NULL : &b;
        d.max = 7;
        ok(&d, drive_open_source(&d));
        ok(&d, drive_read(&d, i == 3 ? 0 : 70, LONG));
        assert_int_equal(d.discovered, 0);
        follow(&d, next);
        drive_blobs_fini(&b);
        drive_snapshot(&d, &b);
        (void)drive_close(&d);
    }
    drive_blobs_fini(&b);
    for (i = 0; i < 4; i++)
        assert_int_equal(next[i], 100);
}

static void
positions_win_over_committed_offsets(void **state)
{
    const char *topic = drive_topic("group");
    struct step_blobs b;
    struct drive d;

    (void)state;
    kt_create(servers, topic, 1, NULL);
    fill(topic, 1, 0, 20);
    read_some(topic, 1, 7, &b);
    kt_commit(servers, topic, topic, 15, "");
    source_of(&d, topic, 1, "committed");
    d.env.restored = &b;
    ok(&d, drive_open_source(&d));
    ok(&d, drive_read(&d, 0, LONG));
    assert_int_equal(d.count, 13);
    assert_string_equal(d.recs[0].val, "0:7");
    drive_commit(&d); /* for lag tools */
    (void)drive_close(&d);
    drive_blobs_fini(&b);

    source_of(&d, topic, 1, "committed");
    ok(&d, drive_open_source(&d));
    ok(&d, drive_read(&d, 0, LONG));
    assert_int_equal(d.count, 0);
    (void)drive_close(&d);
}

static void
partition_that_came_meanwhile_is_read_from_its_beginning(void **state)
{
    const char *topic = drive_topic("grown");
    struct step_blobs b;
    struct drive d;

    (void)state;
    kt_create(servers, topic, 1, NULL);
    fill(topic, 1, 0, 10);
    read_some(topic, 1, 10, &b);
    kt_grow(servers, topic, 3);
    while (kt_partitions(servers, topic) < 3)
        ;
    fill(topic, 3, 10, 5);
    ok(&d, restore(&d, topic, 2, &b));
    ok(&d, drive_read(&d, 0, LONG));
    assert_int_equal(d.count, 15);
    assert_int_equal(d.added, 3);
    assert_int_equal(d.discovered, 2);
    (void)drive_close(&d);
    drive_blobs_fini(&b);
}

static void
partition_at_its_end_is_told_as_ended_at_once(void **state)
{
    const char *topic = drive_topic("atend");
    struct step_blobs b;
    struct source_event ev;
    struct batch batch;
    struct drive d;
    int i;

    (void)state;
    kt_create(servers, topic, 2, NULL);
    fill(topic, 2, 0, 10);
    read_some(topic, 1, 0, &b);
    fill(topic, 1, 10, 1);
    ok(&d, restore(&d, topic, 1, &b));
    batch_init(&batch);
    for (i = 0; i < 3; i++) /* nothing is fetched for that */
        ok(&d, kafka_source_type.poll(d.tasks[0], &batch, 7, &ev, &d.err));
    batch_fini(&batch);
    assert_int_equal(ev.kind, SOURCE_PART_END);
    ok(&d, drive_read(&d, 0, LONG));
    assert_int_equal(d.count, 1);
    assert_string_equal(d.recs[0].val, "0:10");
    assert_int_equal(d.part_ends, 1);
    assert_true(d.ended[0]);
    (void)drive_close(&d);
    drive_blobs_fini(&b);
}

static void
beginning_stays_the_beginning_and_marks_are_kept(void **state)
{
    const char *topic = drive_topic("begin");
    struct step_blobs a, b;
    struct drive d;

    (void)state;
    kt_create(servers, topic, 2, NULL);
    source_of(&d, topic, 1, "earliest");
    ok(&d, drive_open_source(&d));
    drive_snapshot(&d, &a); /* nothing was read */
    (void)drive_close(&d);
    fill(topic, 2, 0, 10);
    ok(&d, restore(&d, topic, 1, &a));
    ok(&d, drive_read(&d, 0, LONG));
    assert_int_equal(d.count, 20);
    drive_blobs_fini(&a);
    drive_snapshot(&d, &a);
    (void)drive_close(&d);

    /* A life in which nothing is read forgets nothing. */
    ok(&d, restore(&d, topic, 1, &a));
    drive_snapshot(&d, &b);
    (void)drive_close(&d);
    assert_int_equal(a.blobs[0].len, b.blobs[0].len);
    assert_memory_equal(a.blobs[0].data, b.blobs[0].data, a.blobs[0].len);
    drive_blobs_fini(&a);
    drive_blobs_fini(&b);
}

static void
position_in_front_of_the_log_is_refused(void **state)
{
    const char *topic = drive_topic("trimmed");
    struct step_blobs b;
    struct drive d;

    (void)state;
    kt_create(servers, topic, 1, NULL);
    fill(topic, 1, 0, 20);
    read_some(topic, 1, 7, &b);
    kt_trim(servers, topic, 0, 12);
    assert_int_equal(restore(&d, topic, 1, &b), ERR_CONFIG);
    says(&d, "position 7");
    says(&d, "begins at 12: 5 offsets were not read");
    says(&d, "--fresh");
    (void)drive_close(&d);
    drive_blobs_fini(&b);
}

static void
topic_made_again_is_refused_shorter_longer_or_narrower(void **state)
{
    const char *topic = drive_topic("again");
    struct step_blobs b;
    struct drive d;

    (void)state;
    kt_create(servers, topic, 2, NULL);
    fill(topic, 2, 0, 20);
    read_some(topic, 1, 0, &b);

    kt_delete(servers, topic);
    assert_int_equal(restore(&d, topic, 1, &b), ERR_CONFIG);
    says(&d, "of which the checkpoint holds positions (partition 0: 20)");
    (void)drive_close(&d);

    kt_create(servers, topic, 1, NULL);
    fill(topic, 1, 0, 20);
    assert_int_equal(restore(&d, topic, 1, &b), ERR_CONFIG);
    says(&d, "position 20 of partition 1, but there are 1 partitions");
    (void)drive_close(&d);

    kt_delete(servers, topic);
    kt_create(servers, topic, 2, NULL);
    fill(topic, 2, 0, 10);
    assert_int_equal(restore(&d, topic, 1, &b), ERR_CONFIG);
    says(&d, "position 20 of");
    says(&d, "beyond the end of the partition, 10");
    (void)drive_close(&d);

    fill(topic, 2, 10, 30);
    assert_int_equal(restore(&d, topic, 1, &b), ERR_CONFIG);
    says(&d, "is not the one it was: record 19 of partition");
    says(&d, "--fresh");
    (void)drive_close(&d);
    drive_blobs_fini(&b);
}

static void
damaged_positions_are_an_error_of_the_checkpoint(void **state)
{
    const char *topic = drive_topic("damaged");
    struct step_blobs b;
    struct drive d;

    (void)state;
    kt_create(servers, topic, 1, NULL);
    fill(topic, 1, 0, 3);
    read_some(topic, 1, 3, &b);
    b.blobs[0].len--;
    assert_int_equal(restore(&d, topic, 1, &b), ERR_IO);
    says(&d, "subtask 0 of 1");
    (void)drive_close(&d);
    drive_blobs_fini(&b);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goes_on_where_it_was_with_another_number_of_tasks),
        cmocka_unit_test(positions_win_over_committed_offsets),
        cmocka_unit_test(
            partition_that_came_meanwhile_is_read_from_its_beginning),
        cmocka_unit_test(partition_at_its_end_is_told_as_ended_at_once),
        cmocka_unit_test(beginning_stays_the_beginning_and_marks_are_kept),
        cmocka_unit_test(position_in_front_of_the_log_is_refused),
        cmocka_unit_test(
            topic_made_again_is_refused_shorter_longer_or_narrower),
        cmocka_unit_test(damaged_positions_are_an_error_of_the_checkpoint),
    };

    servers = drive_servers();
    return cmocka_run_group_tests_name("kafka_restore", tests, NULL, NULL);
}
