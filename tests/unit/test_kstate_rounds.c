/* Rounds of keyed state, its handles over time, the form in the store. */
#include "kstate_util.h"

/* ---- rounds ---- */

static void
a_round_has_only_what_changed(void **state)
{
    struct kstate *k = fresh();
    struct snapshot *s;
    uint32_t i;
    char text[16];

    (void)state;
    for (i = 0; i < 10000; i++) {
        (void)snprintf(text, sizeof text, "%u", i);
        enter(k, 1);
        put_text(k, M, text, "v");
        add_text(k, L, "element of a list");
        enter(k, i + 10);
        set_text(k, V, text);
    }
    s = kstate_freeze(k, 1);
    while (kstate_save(k, 100))
        ;
    assert_in_range(s->puts, 20010, 20100);
    snapshot_free(&s);
    enter(k, 1);
    put_text(k, M, "77", "w");
    assert_true(remove_text(k, M, "78"));
    add_text(k, L, "element of a list");
    enter(k, 20);
    (void)get_text(k, V);
    enter(k, 21);
    set_text(k, V, "x");

    s = kstate_freeze(k, 2);
    while (kstate_save(k, 100))
        ;

    assert_int_equal(s->puts, 3);
    assert_int_equal(s->dels, 1);
    assert_true(s->changes.len < 6000);
    snapshot_free(&s);
    kstate_free(&k);
}

static void
changes_while_a_round_is_saved_belong_to_the_next(void **state)
{
    struct kstate *k = fresh(), *back;
    struct disk d = {.n = 0};
    struct snapshot *s;

    (void)state;
    enter(k, 1);
    fill(k);
    s = kstate_freeze(k, 1);
    enter(k, 1);
    kstate_begin(k);
    spoil(k);
    kstate_commit(k);
    enter(k, 2);
    set_text(k, V, "later");
    while (kstate_save(k, 1))
        ;
    disk_apply(&d, &s);
    back = restored(&d);
    enter(back, 1);
    expect_filled(back);
    enter(back, 2);
    assert_string_equal(get_text(back, V), "none");
    kstate_free(&back);

    round_to(&d, k, 2);
    back = restored(&d);
    enter(back, 1);
    assert_string_equal(get_text(back, V),
                        "three, and much longer than it was");
    assert_string_equal(map_text(back, M), "d=4");
    assert_string_equal(list_text(back, L), "q");
    assert_int_equal(kstate_timers(back, KSTATE_EVENT), 1);
    assert_int_equal(kstate_timers(back, KSTATE_PROCESSING), 1);
    kstate_free(&back);
    disk_fini(&d);
    kstate_free(&k);
}

/* All there is of key 1, in one call; key 2 by its age. */
static void
what_is_removed_is_deleted_by_the_next_round(void **state)
{
    struct kstate *k = fresh();
    struct disk d = {.n = 0};

    (void)state;
    enter(k, 1);
    fill(k);
    enter(k, 2);
    set_text(k, W, "w");
    put_text(k, N, "n", "1");
    add_text(k, Q, "q");
    round_to(&d, k, 1);
    assert_int_equal(d.n, 9);
    enter(k, 1);
    kstate_begin(k);
    kstate_clear(k, V);
    kstate_clear(k, W);
    assert_true(remove_text(k, M, "a"));
    assert_true(remove_text(k, M, "b"));
    kstate_clear(k, L);
    assert_true(kstate_timer_delete(k, KSTATE_EVENT, 50));
    kstate_commit(k);
    while (kstate_clean(k, 1100, KSTATE_NO_TIME, 3))
        ;
    assert_int_equal(kstate_keys(k), 0);
    round_to(&d, k, 2);

    assert_int_equal(d.n, 0);

    disk_fini(&d);
    kstate_free(&k);
}

static void
what_no_round_has_is_not_deleted(void **state)
{
    struct kstate *k = fresh();
    struct snapshot *s;

    (void)state;
    enter(k, 1);
    fill(k);
    kstate_begin(k);
    kstate_clear(k, V);
    kstate_clear(k, W);
    kstate_clear(k, M);
    kstate_clear(k, L);
    assert_true(kstate_timer_delete(k, KSTATE_EVENT, 50));
    kstate_commit(k);

    s = kstate_freeze(k, 1);

    assert_false(kstate_save(k, 100));
    assert_int_equal(s->puts + s->dels, 0);
    snapshot_free(&s);
    kstate_free(&k);
}

/* ---- handles over time ---- */

static void
handles_keep_their_ids_by_name(void **state)
{
    struct kstate_handle now[3] = {
        {.name = "new", .kind = KSTATE_VALUE, .ttl_ms = -1},
        {.name = "m", .kind = KSTATE_MAP, .ttl_ms = -1},
        {.name = "v", .kind = KSTATE_VALUE, .ttl_ms = -1}};
    struct kstate *k = fresh();
    struct kstate_blob past;
    struct blob_reader r;
    struct disk d = {.n = 0};
    struct buf blob;
    struct err e;

    (void)state;
    buf_init(&blob);
    err_clear(&e);
    enter(k, 1);
    fill(k);
    round_to(&d, k, 1);
    kstate_put(k, &blob);
    kstate_free(&k);
    r = blob_read(&blob);
    assert_int_equal(kstate_blob_read(&r, &past, &e), 0);
    assert_true(blob_done(&r));
    assert_int_equal(past.keys, 1);
    assert_int_equal(past.timers[KSTATE_EVENT], 1);
    assert_int_equal(kstate_number(now, 3, &past, &e), 0);
    k = kstate_new(now, 3);
    kstate_track(k, MAX_PAR);
    disk_load(&d, k, 0, 1);
    enter(k, 1);

    assert_string_equal(get_text(k, 0), "none");
    assert_string_equal(map_text(k, 1), "a=1 b=2");
    assert_string_equal(get_text(k, 2), "one");
    round_to(&d, k, 2); /* what belongs to no handle is gone */
    assert_int_equal(d.n, 4);
    now[2].kind = KSTATE_LIST;
    assert_int_equal(kstate_number(now, 3, &past, &e), ERR_CONFIG);
    assert_string_equal(e.msg, "state 'v' is a list state, and the checkpoint "
                               "has it as a value state");
    kstate_blob_fini(&past);
    buf_fini(&blob);
    disk_fini(&d);
    kstate_free(&k);
}

static void
a_damaged_blob_is_refused(void **state)
{
    struct kstate *k = fresh();
    struct kstate_blob past;
    struct buf blob;
    struct err e;
    size_t len;

    (void)state;
    buf_init(&blob);
    kstate_put(k, &blob);
    for (len = 0; len < blob.len; len++) {
        struct buf part = {.data = blob.data, .len = len, .cap = len};
        struct blob_reader r = blob_read(&part);

        assert_int_equal(kstate_blob_read(&r, &past, &e), ERR_IO);
        kstate_blob_fini(&past);
    }
    buf_fini(&blob);
    kstate_free(&k);
}

/* ---- the store's form ---- */

static void
damaged_entries_are_refused(void **state)
{
    struct kstate *k = fresh(), *back = fresh();
    struct disk d = {.n = 0};
    struct err e;
    size_t i, at;
    uint32_t bad = 0;

    (void)state;
    enter(k, 1);
    fill(k);
    put_text(k, N, "a", "1");
    round_to(&d, k, 1);
    for (i = 0; i < d.n; i++) {
        struct kstate_entry v = disk_entry(&d.at[i]);
        uint32_t heads = d.at[i].ns[0] == 0x10 + N ? 10 : 2;

        if (d.at[i].ns[0] < 0x10)
            heads = 1;
        for (at = 0; at < heads; at++, bad++) { /* cut */
            v.value_len = at;
            assert_int_equal(kstate_load(back, &v, &e), ERR_IO);
        }
        v.value_len = d.at[i].value_len;
        d.at[i].value[0] ^= 0x40; /* another version */
        assert_int_equal(kstate_load(back, &v, &e), ERR_IO);
        d.at[i].value[0] ^= 0x40;
        if (d.at[i].ns[0] == 0x10 + M || d.at[i].ns[0] == 0x10 + L) {
            v.key_len = 3;
            assert_int_equal(kstate_load(back, &v, &e), ERR_IO);
            v.key_len = 4;
            assert_int_equal(kstate_load(back, &v, &e), ERR_IO);
        }
    }
    assert_in_range(bad, 10, 40);
    assert_int_equal(kstate_timers(back, KSTATE_EVENT), 0);
    disk_fini(&d);
    kstate_free(&back);
    kstate_free(&k);
}

static void
an_entry_that_is_there_twice_is_refused(void **state)
{
    struct kstate *k = fresh(), *back;
    struct disk d = {.n = 0};
    struct err e;
    size_t i;

    (void)state;
    enter(k, 1);
    fill(k);
    round_to(&d, k, 1);
    back = restored(&d);
    for (i = 0; i < d.n; i++) {
        struct kstate_entry v = disk_entry(&d.at[i]);

        assert_int_equal(kstate_load(back, &v, &e), ERR_IO);
    }
    disk_fini(&d);
    kstate_free(&back);
    kstate_free(&k);
}

static void
tools_can_read_what_is_stored(void **state)
{
    struct kstate *k = fresh();
    struct disk d = {.n = 0};
    struct key key = key_of(1);
    struct kstate_bytes b;
    size_t i, seen = 0;
    struct err e;

    (void)state;
    enter(k, 1);
    set_text(k, W, "value");
    put_text(k, M, "part", "map value");
    add_text(k, L, "x");
    add_text(k, L, "yy");
    (void)kstate_timer_add(k, KSTATE_PROCESSING, -5);
    round_to(&d, k, 1);
    for (i = 0; i < d.n; i++) {
        struct kstate_entry v = disk_entry(&d.at[i]);
        int id = kstate_stored_id(v.ns);
        struct kstate_stored s;

        assert_int_equal(
            kstate_stored_read(
                &v, id < 0 ? KSTATE_VALUE : util_handles[id].kind, &s, &e),
            0);
        assert_int_equal(s.key.len, key.len);
        assert_memory_equal(s.key.p, key.bytes, key.len);
        if (id < 0) {
            assert_int_equal(s.what, KSTATE_IS_TIMER);
            assert_int_equal(s.clock, KSTATE_PROCESSING);
            assert_int_equal(s.ts, -5);
            seen |= 1;
        } else if (id == W) {
            assert_int_equal(s.time, 1000);
            assert_memory_equal(s.value.p, "value", s.value.len);
            seen |= 2;
        } else if (id == M) {
            assert_int_equal(s.time, KSTATE_NO_TIME);
            assert_memory_equal(s.part.p, "part", 4);
            assert_memory_equal(s.value.p, "map value", s.value.len);
            seen |= 4;
        } else {
            assert_int_equal(id, L);
            assert_int_equal(kstate_stored_element(&s, &b, &e), 1);
            assert_memory_equal(b.p, "x", 1);
            assert_int_equal(kstate_stored_element(&s, &b, &e), 1);
            assert_int_equal(b.len, 2);
            assert_int_equal(kstate_stored_element(&s, &b, &e), 0);
            seen |= 8;
        }
    }
    assert_int_equal(seen, 15);
    disk_fini(&d);
    kstate_free(&k);
}

/* ---- another value than the store has ---- */

static int
shout(void *arg, const struct kstate_bytes *old, struct buf *out, struct err *e)
{
    (void)arg;
    (void)e;
    buf_add(out, old->p, old->len);
    buf_addc(out, '!');
    return 0;
}

/* As disk_load() of all, each value with a mark behind it. */
static void
load_shouted(const struct disk *d, struct kstate *k)
{
    struct kstate_stored s;
    struct buf text;
    struct err e;
    size_t i;

    buf_init(&text);
    for (i = 0; i < d->n; i++) {
        struct kstate_entry v = disk_entry(&d->at[i]);
        int id = kstate_stored_id(v.ns);

        if (id >= 0) {
            assert_int_equal(
                kstate_stored_read(&v, util_handles[id].kind, &s, &e), 0);
            buf_clear(&text);
            assert_int_equal(kstate_stored_rewrite(&s, shout, NULL, &text, &e),
                             0);
            v.value = text.data;
            v.value_len = text.len;
            v.changed = true;
        }
        assert_int_equal(kstate_load(k, &v, &e), 0);
    }
    buf_fini(&text);
}

static void
rewritten_entries_are_in_the_next_round_with_their_times(void **state)
{
    struct kstate *k = fresh(), *back;
    struct disk d = {.n = 0};
    struct snapshot *s;

    (void)state;
    enter(k, 1);
    fill(k);
    put_text(k, N, "n", "1");
    add_text(k, Q, "q");
    round_to(&d, k, 1);
    kstate_free(&k);

    k = fresh();
    load_shouted(&d, k);
    s = kstate_freeze(k, 2);
    while (kstate_save(k, 7))
        ;
    assert_int_equal(s->puts, 7); /* all but the timer */
    disk_apply(&d, &s);
    s = kstate_freeze(k, 3);
    while (kstate_save(k, 7))
        ;
    assert_int_equal(s->puts, 0);
    snapshot_free(&s);
    back = restored(&d);

    kstate_now(back, 1099, 1099); /* written at 1000, ttl 100 */
    enter(back, 1);
    assert_string_equal(get_text(back, V), "one!");
    assert_string_equal(get_text(back, W),
                        "a text of more than sixteen bytes!");
    assert_string_equal(map_text(back, M), "a=1! b=2!");
    assert_string_equal(list_text(back, L), "x! y!");
    assert_string_equal(map_text(back, N), "n=1!");
    assert_string_equal(list_text(back, Q), "q!");
    kstate_now(back, 1100, 1100);
    assert_string_equal(get_text(back, W), "none");
    assert_string_equal(map_text(back, N), "");
    assert_string_equal(list_text(back, Q), "");
    kstate_free(&back);
    kstate_free(&k);
    disk_fini(&d);
}

static void
a_rewritten_entry_that_goes_before_the_round_is_deleted(void **state)
{
    struct kstate *k = fresh();
    struct disk d = {.n = 0};

    (void)state;
    enter(k, 1);
    set_text(k, V, "v");
    put_text(k, M, "a", "1");
    add_text(k, L, "x");
    round_to(&d, k, 1);
    kstate_free(&k);

    k = fresh();
    load_shouted(&d, k);
    enter(k, 1);
    kstate_clear(k, V);
    kstate_clear(k, M);
    kstate_clear(k, L);
    round_to(&d, k, 2);

    assert_int_equal(d.n, 0);
    kstate_free(&k);
    disk_fini(&d);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_round_has_only_what_changed),
        cmocka_unit_test(changes_while_a_round_is_saved_belong_to_the_next),
        cmocka_unit_test(what_is_removed_is_deleted_by_the_next_round),
        cmocka_unit_test(what_no_round_has_is_not_deleted),
        cmocka_unit_test(handles_keep_their_ids_by_name),
        cmocka_unit_test(a_damaged_blob_is_refused),
        cmocka_unit_test(damaged_entries_are_refused),
        cmocka_unit_test(an_entry_that_is_there_twice_is_refused),
        cmocka_unit_test(tools_can_read_what_is_stored),
        cmocka_unit_test(
            rewritten_entries_are_in_the_next_round_with_their_times),
        cmocka_unit_test(
            a_rewritten_entry_that_goes_before_the_round_is_deleted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
