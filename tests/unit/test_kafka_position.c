/* Positions of a Kafka source as bytes and as text. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "kafka/position.h"

static uint64_t seed;

static uint64_t
draw(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

static void
what_is_put_is_read_back(void **state)
{
    struct position in[50], out;
    struct buf b;
    char names[50][60];
    size_t at = 0;
    int i;

    (void)state;
    buf_init(&b);
    position_put_head(&b);
    for (i = 0; i < 50; i++) {
        size_t len = draw() % 50;

        memset(names[i], 'a' + i % 26, len);
        in[i] =
            (struct position){.topic = names[i],
                              .topic_len = len,
                              .partition = (int32_t)(draw() & INT32_MAX),
                              .next = (int64_t)(draw() >> (draw() % 64)) - 2,
                              .last = {.offset = (int64_t)draw(),
                                       .ts = (int64_t)draw(),
                                       .hash = draw()}};
        position_put(&b, &in[i]);
    }

    for (i = 0; i < 50; i++) {
        assert_int_equal(position_next(b.data, b.len, &at, &out), 1);
        assert_int_equal(out.topic_len, in[i].topic_len);
        assert_memory_equal(out.topic, names[i], out.topic_len);
        assert_int_equal(out.partition, in[i].partition);
        assert_int_equal(out.next, in[i].next);
        assert_memory_equal(&out.last, &in[i].last, sizeof out.last);
    }
    assert_int_equal(position_next(b.data, b.len, &at, &out), 0);
    buf_fini(&b);
}

static void
cut_or_foreign_bytes_are_refused(void **state)
{
    struct position p = {.topic = "events", .topic_len = 6, .next = 5};
    struct position out;
    struct buf b;
    size_t len;

    (void)state;
    buf_init(&b);
    position_put_head(&b);
    position_put(&b, &p);
    for (len = 0; len < b.len; len++) {
        size_t at = 0;
        int want = len == 4 ? 0 : -1;

        assert_int_equal(position_next(b.data, len, &at, &out), want);
    }
    b.data[3]++; /* another version */
    len = 0;
    assert_int_equal(position_next(b.data, b.len, &len, &out), -1);
    buf_fini(&b);
}

static void
mark_survives_as_text(void **state)
{
    struct position_mark m = {
        .offset = INT64_MAX, .ts = INT64_MIN, .hash = UINT64_MAX};
    struct position_mark out;
    char text[POSITION_MARK_MAX];

    (void)state;
    position_mark_text(&m, text);
    assert_true(strlen(text) < POSITION_MARK_MAX - 1);
    assert_true(position_mark_read(text, strlen(text), &out));
    assert_memory_equal(&m, &out, sizeof m);
}

static void
foreign_metadata_is_no_mark(void **state)
{
    static const char *const bad[] = {"",
                                      "x",
                                      "streamlua 1 5",
                                      "streamlua 2 5 6 7",
                                      "streamlua 1 5 6 7 8",
                                      "streamlua 1 -5 6 7"};
    struct position_mark out;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(position_mark_read(bad[i], strlen(bad[i]), &out));
    assert_false(position_mark_read(NULL, 0, &out));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_put_is_read_back),
        cmocka_unit_test(cut_or_foreign_bytes_are_refused),
        cmocka_unit_test(mark_survives_as_text),
        cmocka_unit_test(foreign_metadata_is_no_mark),
    };

    seed = (uint64_t)time(NULL) | 1;
    print_message("seed %" PRIu64 "\n", seed);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
