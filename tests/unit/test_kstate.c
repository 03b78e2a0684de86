/* The keyed state of functions, promise by promise. */
#include "kstate_util.h"

/* ---- values and keys ---- */

static void
a_value_is_read_as_it_was_set(void **state)
{
    static const size_t sizes[] = {0, 1, 16, 17, 5000};
    struct kstate *k = fresh();
    char bytes[5000];
    uint32_t len, i;

    (void)state;
    memset(bytes, 'x', sizeof bytes);
    enter(k, 1);
    assert_null(kstate_value_get(k, V, &len));
    for (i = 0; i < 5; i++) {
        const void *p;

        assert_int_equal(kstate_value_set(k, V, bytes, sizes[i], NULL), 0);
        p = kstate_value_get(k, V, &len);
        assert_non_null(p);
        assert_int_equal(len, sizes[i]);
        assert_memory_equal(p, bytes, len);
        /* What was read of the state may be set again. */
        assert_int_equal(kstate_value_set(k, V, p, len, NULL), 0);
        assert_memory_equal(kstate_value_get(k, V, &len), bytes, sizes[i]);
    }
    enter(k, 2);
    assert_string_equal(get_text(k, V), "none");
    enter(k, 1);
    kstate_clear(k, V);
    assert_string_equal(get_text(k, V), "none");
    kstate_free(&k);
}

static void
a_key_without_state_takes_no_memory(void **state)
{
    struct kstate *k = fresh();
    size_t before = kstate_bytes(k);
    uint32_t i;

    (void)state;
    for (i = 0; i < 1000; i++) {
        enter(k, i);
        set_text(k, V, "some text that is not short");
        put_text(k, M, "a", "1");
        add_text(k, L, "b");
        (void)kstate_timer_add(k, KSTATE_EVENT, i);
    }
    assert_int_equal(kstate_keys(k), 1000);
    assert_true(kstate_bytes(k) > before + 100000);
    for (i = 0; i < 1000; i++) {
        enter(k, i);
        kstate_begin(k);
        kstate_clear(k, V);
        assert_true(remove_text(k, M, "a"));
        kstate_clear(k, L);
        assert_true(kstate_timer_delete(k, KSTATE_EVENT, i));
        kstate_commit(k);
    }
    enter(k, 5000);

    assert_int_equal(kstate_keys(k), 0);
    assert_in_range(kstate_bytes(k), before, before + 50000);

    kstate_free(&k);
}

static void
what_is_too_large_is_refused(void **state)
{
    struct kstate *k = fresh();
    struct kstate_bytes key = {NULL, KEY_SIZE_MAX + 1}, v = {"x", 1};
    char *large = calloc(1, KSTATE_VALUE_MAX + 1);
    struct err e;

    (void)state;
    enter(k, 1);
    err_clear(&e);
    assert_int_equal(kstate_value_set(k, V, large, KSTATE_VALUE_MAX + 1, &e),
                     ERR_RECORD);
    assert_non_null(strstr(e.msg, "'v'"));
    assert_int_equal(kstate_list_add(k, L, large, KSTATE_VALUE_MAX + 1, NULL),
                     ERR_RECORD);
    key.p = large;
    assert_int_equal(kstate_map_put(k, M, &key, &v, &e), ERR_RECORD);
    enter(k, 2);

    assert_int_equal(kstate_keys(k), 0);

    free(large);
    kstate_free(&k);
}

/* ---- undo ---- */

static void
undo_leaves_everything_as_it_was(void **state)
{
    struct kstate *k = fresh();
    struct disk d = {.n = 0};

    (void)state;
    enter(k, 1);
    fill(k);
    kstate_begin(k);
    spoil(k);
    kstate_undo(k);
    expect_filled(k);

    round_to(&d, k, 1); /* and when rounds have it */
    enter(k, 1);
    kstate_begin(k);
    spoil(k);
    kstate_undo(k);
    expect_filled(k);
    round_to(&d, k, 2);
    kstate_free(&k);
    k = restored(&d);
    enter(k, 1);
    expect_filled(k);
    disk_fini(&d);
    kstate_free(&k);
}

static void
a_walk_after_an_undo_finds_what_was_there(void **state)
{
    struct kstate *k = fresh();

    (void)state;
    enter(k, 1);
    fill(k);
    kstate_begin(k);
    assert_true(remove_text(k, M, "a"));
    assert_string_equal(map_text(k, M), "b=2");
    kstate_undo(k);

    assert_string_equal(map_text(k, M), "a=1 b=2");

    kstate_free(&k);
}

static void
undo_of_a_new_key_leaves_no_key(void **state)
{
    struct kstate *k = fresh();

    (void)state;
    enter(k, 7);
    kstate_begin(k);
    fill(k);
    kstate_undo(k);
    enter(k, 8);

    assert_int_equal(kstate_keys(k), 0);

    kstate_free(&k);
}

/* ---- maps and lists ---- */

static void
a_large_map_is_walked_in_order_while_it_changes(void **state)
{
    enum { ENTRIES = 50000 };

    struct kstate *k = fresh();
    struct kstate_bytes key, value, last = {"", 0};
    struct kstate_iter i;
    uint32_t n, seen = 0;
    char text[16];

    (void)state;
    enter(k, 1);
    for (n = 0; n < ENTRIES; n++) {
        (void)snprintf(text, sizeof text, "%u", n * 7919 % ENTRIES);
        put_text(k, M, text, text);
    }
    kstate_begin(k);
    kstate_map_begin(k, M, &i);
    while (kstate_map_next(k, &i, &key, &value)) {
        if (seen++ > 0)
            assert_true(key_cmp(last.p, last.len, key.p, key.len) < 0);
        last = key;
        if (key.len == 5)
            assert_true(kstate_map_remove(k, M, &key));
        if (seen == 10) {
            put_text(k, M, "zzz", "did not exist");
            assert_true(remove_text(k, M, "9999"));
        }
    }
    kstate_commit(k);

    assert_int_equal(seen, ENTRIES - 1);
    kstate_map_begin(k, M, &i);
    for (seen = 0; kstate_map_next(k, &i, &key, &value); seen++)
        assert_true(key.len < 5);
    assert_int_equal(seen, 10000 - 1 + 1);
    kstate_free(&k);
}

static void
a_walk_ends_when_its_map_or_list_is_cleared(void **state)
{
    struct kstate *k = fresh();
    struct kstate_bytes key, value;
    struct kstate_iter m, l;

    (void)state;
    enter(k, 1);
    fill(k);
    kstate_begin(k);
    kstate_map_begin(k, M, &m);
    kstate_list_begin(k, L, &l);
    assert_true(kstate_map_next(k, &m, &key, &value));
    assert_true(kstate_list_next(k, &l, &value));
    kstate_clear(k, M);
    kstate_clear(k, L);
    put_text(k, M, "z", "new");
    add_text(k, L, "new");

    assert_false(kstate_map_next(k, &m, &key, &value));
    assert_false(kstate_list_next(k, &l, &value));

    kstate_commit(k);
    kstate_free(&k);
}

/* ---- time to live ---- */

static void
what_has_expired_is_not_returned(void **state)
{
    struct kstate *k = fresh();
    struct kstate_bytes b = text_bytes("old");
    uint32_t len;

    (void)state;
    enter(k, 1);
    set_text(k, W, "w");
    put_text(k, N, "old", "1");
    kstate_now(k, 1050, 0);
    put_text(k, N, "new", "2");
    kstate_now(k, 1099, 0);
    assert_string_equal(get_text(k, W), "w");
    assert_string_equal(map_text(k, N), "new=2 old=1");

    kstate_now(k, 1100, 0);

    assert_string_equal(get_text(k, W), "none");
    assert_string_equal(map_text(k, N), "new=2");
    assert_null(kstate_map_get(k, N, &b, &len));
    assert_false(kstate_map_has(k, N, &b));
    kstate_free(&k);
}

static void
reading_extends_where_it_shall(void **state)
{
    struct kstate *k = fresh();

    (void)state;
    enter(k, 1);
    set_text(k, W, "w");
    set_text(k, R, "r");
    kstate_now(k, 1060, 0);
    (void)get_text(k, W);
    (void)get_text(k, R);
    kstate_now(k, 1120, 0);

    assert_string_equal(get_text(k, W), "none");
    assert_string_equal(get_text(k, R), "r");

    kstate_free(&k);
}

static void
cleaning_frees_what_has_expired_in_bounded_pieces(void **state)
{
    struct kstate *k = fresh();
    size_t before = kstate_bytes(k);
    uint32_t i, pieces = 0;
    char text[16];

    (void)state;
    for (i = 0; i < 3000; i++) {
        enter(k, i);
        set_text(k, W, "expires, and is longer than a cell");
    }
    enter(k, 5000);
    for (i = 0; i < 3000; i++) {
        (void)snprintf(text, sizeof text, "%u", i);
        put_text(k, N, text, "expires");
    }
    enter(k, 5001);
    set_text(k, V, "stays");
    while (kstate_clean(k, 1100, KSTATE_NO_TIME, 10))
        pieces++;

    assert_in_range(pieces, 600, 700);
    assert_int_equal(kstate_keys(k), 1);
    assert_in_range(kstate_bytes(k), before, before + 60000);
    kstate_free(&k);
}

static void
the_end_of_the_input_expires_nothing(void **state)
{
    struct kstate *k = fresh();

    (void)state;
    enter(k, 1);
    set_text(k, W, "w");
    while (kstate_clean(k, INT64_MAX, KSTATE_NO_TIME, 10))
        ;

    assert_int_equal(kstate_keys(k), 1);

    kstate_free(&k);
}

static void
rounds_delete_what_has_expired(void **state)
{
    struct kstate *k = fresh();
    struct disk d = {.n = 0};

    (void)state;
    enter(k, 1);
    set_text(k, W, "w");
    put_text(k, N, "a", "1");
    add_text(k, Q, "x");
    round_to(&d, k, 1);
    assert_int_equal(d.n, 3);
    enter(k, 1);
    set_text(k, W, "w2");
    put_text(k, N, "a", "2");
    add_text(k, Q, "y");
    enter(k, 2);
    set_text(k, W, "never saved");
    (void)kstate_clean(k, 1100, KSTATE_NO_TIME, 0); /* says the time only */
    round_to(&d, k, 2);
    round_to(&d, k, 3);

    assert_int_equal(d.n, 0);
    assert_int_equal(kstate_keys(k), 0);
    disk_fini(&d);
    kstate_free(&k);
}

static void
the_ttl_may_be_another_in_the_next_run(void **state)
{
    struct kstate_handle h[H_COUNT];
    struct kstate *k = fresh();
    struct disk d = {.n = 0};

    (void)state;
    enter(k, 1);
    set_text(k, V, "had no ttl");
    set_text(k, W, "w");
    set_text(k, R, "r");
    put_text(k, N, "a", "1");
    round_to(&d, k, 1);
    kstate_free(&k);
    memcpy(h, util_handles, sizeof h);
    h[V].ttl_ms = 50;
    h[W].ttl_ms = 30;
    h[R].ttl_clock = KSTATE_PROCESSING;
    h[N].ttl_ms = -1;
    k = kstate_new(h, H_COUNT);
    kstate_track(k, MAX_PAR);
    disk_load(&d, k, 0, 1);
    enter(k, 1);

    kstate_now(k, 1030, 77000);
    assert_string_equal(get_text(k, V), "had no ttl"); /* counts from here */
    assert_string_equal(get_text(k, W), "none");
    assert_string_equal(get_text(k, R), "r");
    kstate_now(k, 1079, 77099);
    assert_string_equal(get_text(k, V), "had no ttl");
    assert_string_equal(get_text(k, R), "r");
    kstate_now(k, 1080, 77199);
    assert_string_equal(get_text(k, V), "none");
    assert_string_equal(get_text(k, R), "none");
    kstate_now(k, 99999, 0);
    assert_string_equal(map_text(k, N), "a=1");
    disk_fini(&d);
    kstate_free(&k);
}

/* ---- timers ---- */

static void
a_timer_fires_once_with_its_key(void **state)
{
    struct kstate *k = fresh();
    struct disk d = {.n = 0};
    struct key key = key_of(4);
    const void *p;
    uint32_t len;
    int64_t ts;

    (void)state;
    enter(k, 4);
    assert_true(kstate_timer_add(k, KSTATE_EVENT, 500));
    assert_false(kstate_timer_add(k, KSTATE_EVENT, 500));
    assert_true(kstate_timer_add(k, KSTATE_PROCESSING, 500));
    round_to(&d, k, 1);
    assert_int_equal(d.n, 2);
    assert_false(kstate_timer_next(k, KSTATE_EVENT, 499, &ts));
    assert_true(kstate_timer_next(k, KSTATE_EVENT, 500, &ts));
    assert_int_equal(ts, 500);
    p = kstate_current(k, &len);
    assert_int_equal(len, key.len);
    assert_memory_equal(p, key.bytes, len);
    kstate_begin(k);
    set_text(k, V, "fired");
    assert_true(kstate_timer_add(k, KSTATE_EVENT, 100)); /* past: fires next */
    kstate_commit(k);
    assert_true(kstate_timer_next(k, KSTATE_EVENT, 500, &ts));
    assert_int_equal(ts, 100);
    kstate_begin(k);
    kstate_undo(k);
    assert_false(kstate_timer_next(k, KSTATE_EVENT, 500, &ts));

    round_to(&d, k, 2);
    assert_int_equal(d.n, 2); /* the value, the other clock's timer */
    disk_fini(&d);
    kstate_free(&k);
}

static void
timers_of_the_final_firing_are_counted_only(void **state)
{
    struct kstate *k = fresh();
    int64_t ts;
    uint32_t i;

    (void)state;
    for (i = 0; i < 100; i++) {
        enter(k, i);
        assert_true(kstate_timer_add(k, KSTATE_EVENT, i));
        assert_true(kstate_timer_add(k, KSTATE_PROCESSING, i));
    }
    kstate_timers_refuse(k, KSTATE_EVENT);
    for (i = 0; kstate_timer_next(k, KSTATE_EVENT, INT64_MAX, &ts); i++) {
        kstate_begin(k);
        assert_false(kstate_timer_add(k, KSTATE_EVENT, ts + 1));
        if (i % 2 == 0)
            kstate_commit(k);
        else
            kstate_undo(k);
    }

    assert_int_equal(i, 100);
    assert_int_equal(kstate_timers_refused(k, KSTATE_EVENT), 50);
    assert_int_equal(kstate_timers_discard(k, KSTATE_PROCESSING, 30), 30);
    assert_int_equal(kstate_timers_discard(k, KSTATE_PROCESSING, 1000), 70);
    assert_int_equal(kstate_keys(k), 0);
    kstate_free(&k);
}

/* ---- accumulators that cannot be saved ---- */

static bool refuse;

static uint32_t
odd_size(const struct agg *a)
{
    (void)a;
    return 8;
}

static void
odd_init(const struct agg *a, void *acc)
{
    (void)a;
    memset(acc, 0, 8);
}

static int
odd_add(const struct agg *a, void *acc, const struct val *args,
        const struct rec *r, struct err *e)
{
    (void)a;
    (void)r;
    (void)e;
    *(int64_t *)acc += args[0].u.i;
    return 0;
}

static int
odd_encode(const struct agg *a, const void *acc, struct buf *out, struct err *e)
{
    (void)a;
    if (refuse)
        return err_record(e, CAUSE_USER_ERROR, "a function is no data");
    buf_add(out, acc, 8);
    return 0;
}

static int
odd_decode(const struct agg *a, void *acc, const char *bytes, size_t len,
           struct err *e)
{
    (void)a;
    if (len != 8)
        return err_set(e, ERR_IO, "damaged");
    memcpy(acc, bytes, 8);
    return 0;
}

static const struct agg_type odd_type = {.name = "odd",
                                         .size = odd_size,
                                         .init = odd_init,
                                         .add = odd_add,
                                         .encode = odd_encode,
                                         .decode = odd_decode};

static int
odd_custom(void *arg, struct agg *a, struct err *e)
{
    (void)arg;
    (void)e;
    a->type = &odd_type;
    return 0;
}

static int
get_sum(struct kstate *k, int64_t *ret, struct err *e)
{
    const void *block = NULL;
    int r = kstate_agg_get(k, 0, &block, e);

    *ret = block != NULL ? *(const int64_t *)block : -1;
    return r;
}

static void
accumulators_that_cannot_be_saved_are_lost_aloud(void **state)
{
    struct kstate_handle h = {.name = "a", .kind = KSTATE_AGG, .ttl_ms = -1};
    struct aggset *set = NULL;
    struct disk d = {.n = 0};
    struct arena arena;
    struct opt *list;
    struct kstate *k;
    struct err e;
    int64_t sum;
    int run;

    (void)state;
    arena_init(&arena);
    list = opt_new_list(&arena);
    (void)util_call(&arena, list, "custom", 1);
    assert_int_equal(aggset_new(list, util_encode, odd_custom, NULL, &set, &e),
                     0);
    h.set = set;
    k = kstate_new(&h, 1);
    kstate_track(k, MAX_PAR);
    enter(k, 1);
    kstate_begin(k);
    add_int(k, 0, 40);
    add_int(k, 0, 2);
    kstate_commit(k);
    assert_int_equal(get_sum(k, &sum, &e), 0);
    assert_int_equal(sum, 42);
    refuse = true;
    round_to(&d, k, 1);
    refuse = false;
    for (run = 0; run < 2; run++) { /* here, and where it is restored */
        struct val one = val_int(1);

        enter(k, 1);
        err_clear(&e);
        assert_int_equal(get_sum(k, &sum, &e), ERR_RECORD);
        assert_int_equal(e.cause, CAUSE_USER_ERROR);
        assert_non_null(strstr(e.msg, "state 'a' is lost"));
        assert_int_equal(kstate_agg_add(k, 0, &one, NULL, &e), ERR_RECORD);
        kstate_begin(k);
        kstate_clear(k, 0);
        kstate_undo(k);
        assert_int_equal(get_sum(k, &sum, &e), ERR_RECORD);
        if (run == 0) {
            kstate_free(&k);
            k = kstate_new(&h, 1);
            kstate_track(k, MAX_PAR);
            disk_load(&d, k, 0, 1);
        }
    }
    kstate_clear(k, 0);
    add_int(k, 0, 5);
    assert_int_equal(get_sum(k, &sum, &e), 0);
    assert_int_equal(sum, 5);
    kstate_free(&k);
    disk_fini(&d);
    aggset_free(&set);
    arena_fini(&arena);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_is_read_as_it_was_set),
        cmocka_unit_test(a_key_without_state_takes_no_memory),
        cmocka_unit_test(what_is_too_large_is_refused),
        cmocka_unit_test(undo_leaves_everything_as_it_was),
        cmocka_unit_test(a_walk_after_an_undo_finds_what_was_there),
        cmocka_unit_test(undo_of_a_new_key_leaves_no_key),
        cmocka_unit_test(a_large_map_is_walked_in_order_while_it_changes),
        cmocka_unit_test(a_walk_ends_when_its_map_or_list_is_cleared),
        cmocka_unit_test(what_has_expired_is_not_returned),
        cmocka_unit_test(reading_extends_where_it_shall),
        cmocka_unit_test(cleaning_frees_what_has_expired_in_bounded_pieces),
        cmocka_unit_test(the_end_of_the_input_expires_nothing),
        cmocka_unit_test(rounds_delete_what_has_expired),
        cmocka_unit_test(the_ttl_may_be_another_in_the_next_run),
        cmocka_unit_test(a_timer_fires_once_with_its_key),
        cmocka_unit_test(timers_of_the_final_firing_are_counted_only),
        cmocka_unit_test(accumulators_that_cannot_be_saved_are_lost_aloud),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
