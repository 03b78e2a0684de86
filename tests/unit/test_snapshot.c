/* What a round keeps of an operator: changes in order, blobs and damage. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/snapshot.h"

enum { CHANGES = 30000 }; /* several buffers */

static uint32_t
value_len(uint32_t i)
{
    return i % 7 == 0 ? 0 : i * 37 % 300;
}

static void
changes_come_back_in_order_however_many_they_are(void **state)
{
    struct snapshot *s = snapshot_new(3);
    struct snapshot_change c;
    size_t at = 0, bytes = 0;
    char value[300];
    uint32_t i;

    (void)state;
    assert_int_equal(snapshot_bytes(s), 0);
    assert_int_equal(snapshot_next(s, &at, &c), 0);
    for (i = 0; i < CHANGES; i++) {
        struct snapshot_key k = {.group = (uint16_t)(i % 100),
                                 .ns_len = 4,
                                 .key_len = i % 5 == 0 ? 0 : 4,
                                 .ns = "name",
                                 .key = &i};

        if (i % 3 == 0) {
            snapshot_del(s, &k);
            continue;
        }
        snapshot_put_begin(s, &k);
        memset(value, (int)i, sizeof value);
        buf_add(&s->changes, value, value_len(i));
        snapshot_put_end(s);
        bytes += value_len(i);
    }
    assert_true(s->full_count > 1);
    assert_true(snapshot_bytes(s) > bytes);
    assert_int_equal(s->puts + s->dels, CHANGES);

    for (at = 0, i = 0; i < CHANGES; i++) {
        assert_int_equal(snapshot_next(s, &at, &c), 1);
        assert_int_equal(c.key.group, i % 100);
        assert_memory_equal(c.key.ns, "name", 4);
        assert_int_equal(c.key.key_len, i % 5 == 0 ? 0 : 4);
        assert_memory_equal(c.key.key, &i, c.key.key_len);
        assert_int_equal(c.del, i % 3 == 0);
        assert_int_equal(c.value_len, c.del ? 0 : value_len(i));
        memset(value, (int)i, sizeof value);
        assert_memory_equal(c.value, value, c.value_len);
    }
    assert_int_equal(snapshot_next(s, &at, &c), 0);
    snapshot_free(&s);
    assert_null(s);
}

static void
put_restored(struct buf *out)
{
    struct buf blobs[3] = {{.len = 0}};
    struct step_blobs steps[2] = {
        {.step = (char *)(uintptr_t) "in", .count = 2, .blobs = blobs},
        {.step = (char *)(uintptr_t) "agg", .count = 1, .blobs = blobs + 2}};
    struct restored r = {.round = UINT64_C(1) << 40,
                         .max_parallelism = 128,
                         .steps = steps,
                         .step_count = 2};
    int i;

    buf_adds(&blobs[0], "positions");
    buf_adds(&blobs[2], "slices");
    restored_put(&r, out);
    for (i = 0; i < 3; i++)
        buf_fini(&blobs[i]);
}

static void
blobs_of_a_round_come_back_by_step(void **state)
{
    const struct step_blobs *b;
    struct restored r;
    struct buf bytes;
    struct err e;

    (void)state;
    buf_init(&bytes);
    put_restored(&bytes);
    assert_int_equal(restored_read(bytes.data, bytes.len, &r, &e), 0);

    assert_int_equal(r.round, UINT64_C(1) << 40);
    assert_int_equal(r.max_parallelism, 128);
    b = restored_find(&r, "in");
    assert_non_null(b);
    assert_int_equal(b->count, 2);
    assert_int_equal(b->blobs[0].len, 9);
    assert_memory_equal(b->blobs[0].data, "positions", 9);
    assert_int_equal(b->blobs[1].len, 0);
    b = restored_find(&r, "agg");
    assert_non_null(b);
    assert_memory_equal(b->blobs[0].data, "slices", 6);
    assert_null(restored_find(&r, "new"));
    assert_null(restored_find(NULL, "in"));
    restored_forget(&r, "agg");
    assert_null(restored_find(&r, "agg"));
    restored_fini(&r);
    buf_fini(&bytes);
}

static void
damaged_blobs_are_refused(void **state)
{
    struct restored r;
    struct buf bytes;
    struct err e;
    size_t len;

    (void)state;
    buf_init(&bytes);
    put_restored(&bytes);
    for (len = bytes.len; len-- > 0;) {
        assert_int_equal(restored_read(bytes.data, len, &r, &e), ERR_IO);
        restored_fini(&r);
    }
    buf_addc(&bytes, 0);
    assert_int_equal(restored_read(bytes.data, bytes.len, &r, &e), ERR_IO);
    restored_fini(&r);
    buf_fini(&bytes);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changes_come_back_in_order_however_many_they_are),
        cmocka_unit_test(blobs_of_a_round_come_back_by_step),
        cmocka_unit_test(damaged_blobs_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
