/*
 * Keyed state that is larger than memory: what leaves, what comes back, and
 * what the store must not be asked for.
 */
#include "kstate_util.h"

enum { MANY = 5000, BUDGET = 64 << 10 };

static struct disk disk;
static uint64_t rounds;

static struct kstate *
state_of(const struct kstate_handle *handles, uint32_t n, size_t budget)
{
    struct kstate *k = kstate_new(handles, n);
    struct entry_store st = disk_store(&disk);

    kstate_track(k, MAX_PAR);
    kstate_cache(k, budget, &st);
    return k;
}

static struct kstate_handle
value_handle(int64_t ttl)
{
    return (struct kstate_handle){
        .name = "v", .kind = KSTATE_VALUE, .ttl_ms = ttl};
}

static struct kstate_handle
map_handle(int64_t ttl)
{
    return (struct kstate_handle){
        .name = "m", .kind = KSTATE_MAP, .id = 1, .ttl_ms = ttl};
}

static struct kstate_handle
list_handle(void)
{
    return (struct kstate_handle){
        .name = "l", .kind = KSTATE_LIST, .ttl_ms = -1};
}

/* A round that is durable, then everything goes that may: twice around. */
static void
empty(struct kstate *k)
{
    int i;

    round_to(&disk, k, ++rounds);
    for (i = 0; i < 100; i++)
        (void)kstate_trim(k, rounds, MANY);
}

static void
store_keys(struct kstate *k, uint32_t from, uint32_t to)
{
    uint32_t i;

    for (i = from; i < to; i++) {
        char text[40];

        (void)snprintf(text, sizeof text, "the value of customer %u", i);
        enter(k, i);
        set_text(k, 0, text);
        if (i % 500 == 499)
            empty(k);
    }
    empty(k);
}

static void
check_filled(struct kstate *k, uint32_t n)
{
    uint32_t i;

    for (i = 0; i < n; i++) {
        char text[40];

        (void)snprintf(text, sizeof text, "the value of customer %u", i);
        enter(k, i);
        assert_string_equal(get_text(k, 0), text);
        if (i % 500 == 499)
            (void)kstate_trim(k, rounds, MANY);
    }
}

static void
done(struct kstate **k)
{
    struct err e;

    err_clear(&e);
    if (kstate_check(*k, &e) != 0)
        fail_msg("%s", e.msg);
    kstate_free(k);
    disk_fini(&disk);
}

static const char *
item(uint32_t i)
{
    static char text[40];

    (void)snprintf(text, sizeof text, "item-%05u", i);
    return text;
}

static void
fill_map(struct kstate *k, uint32_t n)
{
    uint32_t i;

    enter(k, 1);
    for (i = 0; i < n; i++)
        put_text(k, 0, item(i), "here");
    empty(k);
}

static uint32_t
walk_map(struct kstate *k, char *last)
{
    struct kstate_bytes key, value;
    struct kstate_iter i;
    uint32_t n = 0;

    kstate_map_begin(k, 0, &i);
    for (last[0] = '\0'; kstate_map_next(k, &i, &key, &value); n++) {
        char text[40];

        (void)snprintf(text, sizeof text, "%.*s", (int)key.len,
                       (const char *)key.p);
        assert_true(strcmp(last, text) < 0);
        memcpy(last, text, sizeof text);
    }
    return n;
}

/* Sweep in pieces until there is no more to do now. @return the pieces. */
static uint32_t
sweep(struct kstate *k, uint32_t piece)
{
    uint32_t n = 0;
    struct err e;
    int r;

    err_clear(&e);
    while ((r = kstate_sweep(k, piece, &e)) == 1)
        n++;
    if (r != 0)
        fail_msg("%s", e.msg);
    return n;
}

/* ---- tests ---- */

static void
memory_stays_within_the_budget_and_all_comes_back(void **state)
{
    struct kstate_handle h = value_handle(-1);
    struct kstate *k = state_of(&h, 1, BUDGET);

    (void)state;
    store_keys(k, 0, MANY);
    assert_true(kstate_bytes(k) < BUDGET);
    assert_int_equal(kstate_keys(k), MANY);
    check_filled(k, MANY);
    assert_true(kstate_bytes(k) < BUDGET + 500 * 200);
    done(&k);
}

static void
a_key_that_is_nowhere_is_seldom_asked_for(void **state)
{
    struct kstate_handle h = value_handle(-1);
    struct kstate *k = state_of(&h, 1, BUDGET * 2);
    uint32_t i;

    (void)state;
    store_keys(k, 0, MANY);
    disk.asked = 0;
    for (i = 0; i < MANY; i++) {
        enter(k, MANY + i);
        assert_string_equal(get_text(k, 0), "none");
    }
    assert_true(disk.asked < MANY / 20);
    assert_int_equal(kstate_keys(k), MANY);
    done(&k);
}

static void
what_was_deleted_does_not_come_back_before_the_round_is_durable(void **state)
{
    struct kstate_handle h = value_handle(-1);
    struct kstate *k = state_of(&h, 1, 1);
    struct snapshot *s;
    int i;

    (void)state;
    enter(k, 1);
    set_text(k, 0, "old");
    empty(k);
    enter(k, 1);
    assert_string_equal(get_text(k, 0), "old");
    kstate_clear(k, 0);
    for (i = 0; i < 3; i++)
        (void)kstate_trim(k, rounds, 10);
    enter(k, 1);
    assert_string_equal(get_text(k, 0), "none");
    s = kstate_freeze(k, rounds + 1);
    while (kstate_save(k, 1))
        ;
    for (i = 0; i < 3; i++)
        (void)kstate_trim(k, rounds, 10);
    enter(k, 1);
    assert_string_equal(get_text(k, 0), "none");
    (void)kstate_trim(k, rounds, 10);
    assert_int_equal(kstate_keys(k), 0);

    disk_apply(&disk, &s);
    rounds++;
    for (i = 0; i < 3; i++)
        (void)kstate_trim(k, rounds, 10);
    enter(k, 1);
    assert_string_equal(get_text(k, 0), "none");
    assert_int_equal(disk.n, 0);
    done(&k);
}

static void
an_entry_of_a_map_is_read_without_the_others(void **state)
{
    struct kstate_handle h = map_handle(-1);
    struct kstate *k = state_of(&h, 1, BUDGET);
    struct kstate_bytes key = text_bytes("item-01234");
    uint32_t len;

    (void)state;
    fill_map(k, MANY);
    assert_true(kstate_bytes(k) < BUDGET);
    disk.asked = disk.given = 0;
    enter(k, 1);
    assert_non_null(kstate_map_get(k, 0, &key, &len));
    assert_int_equal(disk.given, 1);
    key = text_bytes("item-99999");
    assert_false(kstate_map_has(k, 0, &key));
    done(&k);
}

static void
a_walk_merges_memory_and_store_in_order(void **state)
{
    struct kstate_handle h = map_handle(-1);
    struct kstate *k = state_of(&h, 1, BUDGET);
    char last[40];

    (void)state;
    fill_map(k, 1000);
    enter(k, 1);
    kstate_begin(k);
    put_text(k, 0, "item-00000x", "new");
    put_text(k, 0, "item-99999", "new");
    put_text(k, 0, "item-00500", "changed");
    assert_true(remove_text(k, 0, "item-00001"));
    assert_true(remove_text(k, 0, "item-00999"));
    assert_int_equal(walk_map(k, last), 1000);
    assert_string_equal(last, "item-99999");
    kstate_undo(k);
    enter(k, 1);
    kstate_begin(k);
    assert_int_equal(walk_map(k, last), 1000);
    assert_string_equal(last, "item-00999");
    kstate_commit(k);
    assert_true(kstate_bytes(k) < BUDGET + 1000);
    done(&k);
}

/* What a walk gives when items it has not come to are removed, removed and
 * put again, or put anew is what it gives where all is in memory: */
static uint32_t
walk_and_write(struct kstate *k, char *last)
{
    struct kstate_bytes key, value;
    struct kstate_iter i;
    uint32_t n = 0;

    kstate_map_begin(k, 0, &i);
    for (last[0] = '\0'; kstate_map_next(k, &i, &key, &value); n++) {
        char text[40];

        (void)snprintf(text, sizeof text, "%.*s", (int)key.len,
                       (const char *)key.p);
        assert_true(strcmp(last, text) < 0);
        memcpy(last, text, sizeof text);
        assert_true(value.len == 4 || strncmp(text, "item-00500", 10) == 0);
        if (strcmp(text, "item-00010") == 0) {
            assert_true(remove_text(k, 0, "item-00011"));
            put_text(k, 0, "item-00011", "again"); /* it is another one */
            put_text(k, 0, "item-00012x", "new");
            assert_true(remove_text(k, 0, "item-00013"));
            put_text(k, 0, "item-00500", "changed");
            assert_true(remove_text(k, 0, "item-00010")); /* where it stands */
            put_text(k, 0, "item-00010", "again");
            assert_true(remove_text(k, 0, "item-00005")); /* behind it */
            put_text(k, 0, "item-00005", "again");
        }
        assert_string_not_equal(text, "item-00011");
    }
    return n;
}

static void
a_walk_does_not_give_what_was_removed_and_put_again_during_it(void **state)
{
    static const size_t budgets[] = {1, BUDGET / 4, 1 << 24};
    struct kstate_handle h = map_handle(-1);
    char last[40];
    size_t i;

    (void)state;
    for (i = 0; i < sizeof budgets / sizeof *budgets; i++) {
        struct kstate *k = state_of(&h, 1, budgets[i]);
        int round;

        fill_map(k, 1000);
        for (round = 0; round < 2; round++) {
            enter(k, 1);
            kstate_begin(k);
            assert_int_equal(walk_and_write(k, last), 998);
            assert_string_equal(last, "item-00999");
            assert_int_equal(walk_map(k, last), 1000);
            kstate_undo(k); /* and all of it is undone */
        }
        enter(k, 1);
        kstate_begin(k);
        assert_int_equal(walk_and_write(k, last), 998);
        kstate_commit(k);
        for (round = 0; round < 2; round++) {
            enter(k, 1);
            kstate_begin(k);
            assert_int_equal(walk_map(k, last), 1000);
            kstate_commit(k);
            empty(k);
            assert_int_equal(disk.n, 1000);
        }
        done(&k);
    }
}

/* The store has the first one until the round that deletes it is durable. */
static void
an_item_removed_put_and_removed_again_does_not_come_back(void **state)
{
    struct kstate_handle h = map_handle(-1);
    struct kstate *k = state_of(&h, 1, 1);
    struct kstate_bytes key = text_bytes("item-00007");
    struct snapshot *s;
    int i;

    (void)state;
    fill_map(k, 20);
    enter(k, 1);
    assert_true(remove_text(k, 0, "item-00007"));
    put_text(k, 0, "item-00007", "again");
    assert_true(remove_text(k, 0, "item-00007"));
    assert_false(kstate_map_has(k, 0, &key));
    for (i = 0; i < 3; i++)
        (void)kstate_trim(k, rounds, 10);
    enter(k, 1);
    assert_false(kstate_map_has(k, 0, &key));
    s = kstate_freeze(k, rounds + 1);
    while (kstate_save(k, 1))
        ;
    for (i = 0; i < 3; i++)
        (void)kstate_trim(k, rounds, 10);
    enter(k, 1);
    assert_false(kstate_map_has(k, 0, &key));
    disk_apply(&disk, &s);
    rounds++;
    for (i = 0; i < 3; i++)
        (void)kstate_trim(k, rounds, 10);
    enter(k, 1);
    assert_false(kstate_map_has(k, 0, &key));
    assert_int_equal(disk.n, 19);
    done(&k);
}

static void
clearing_a_map_deletes_what_only_the_store_has(void **state)
{
    struct kstate_handle h = map_handle(-1);
    struct kstate *k = state_of(&h, 1, 1);
    char last[40];

    (void)state;
    fill_map(k, 300);
    assert_int_equal(disk.n, 300);
    enter(k, 1);
    kstate_begin(k);
    kstate_clear(k, 0);
    assert_int_equal(walk_map(k, last), 0);
    kstate_undo(k);
    enter(k, 1);
    kstate_begin(k);
    assert_int_equal(walk_map(k, last), 300);
    kstate_clear(k, 0);
    put_text(k, 0, "item-00007", "anew");
    assert_int_equal(walk_map(k, last), 1);
    kstate_commit(k);
    empty(k);
    assert_int_equal(disk.n, 1);
    enter(k, 1);
    kstate_begin(k);
    assert_int_equal(walk_map(k, last), 1);
    kstate_undo(k);
    done(&k);
}

static void
a_list_comes_back_whole_and_one_beyond_half_the_budget_is_refused(void **state)
{
    struct kstate_handle h = list_handle();
    struct kstate *k = state_of(&h, 1, 4 * BUDGET);
    char bytes[1000] = {0};
    struct kstate_iter i;
    struct kstate_bytes b;
    uint32_t n = 0;
    struct err e;
    int r = 0;

    (void)state;
    err_clear(&e);
    while (r == 0 && n < 10000) {
        enter(k, 1);
        r = kstate_list_add(k, 0, bytes, sizeof bytes, &e);
        n += r == 0;
        if (n % 50 == 0)
            empty(k);
    }
    assert_int_equal(r, ERR_RECORD);
    assert_non_null(strstr(e.msg, "list state 'l'"));
    assert_true((size_t)n * sizeof bytes > BUDGET &&
                (size_t)n * sizeof bytes < 4 * BUDGET);
    enter(k, 2);
    assert_int_equal(kstate_list_add(k, 0, bytes, 1, &e), 0);
    empty(k);
    enter(k, 1);
    kstate_list_begin(k, 0, &i);
    while (kstate_list_next(k, &i, &b))
        n--;
    assert_int_equal(n, 0);
    done(&k);
}

/* Elements of a chunk each, too: it is bytes that count. */
static void
a_list_of_large_elements_is_refused_beyond_half_the_budget(void **state)
{
    enum { LARGE = 20000 };
    struct kstate_handle h = list_handle();
    struct kstate *k = state_of(&h, 1, 4 * BUDGET);
    char *bytes = mem_zalloc(LARGE);
    uint32_t n = 0;
    struct err e;
    int r = 0;

    (void)state;
    err_clear(&e);
    for (; r == 0 && n < 100; n += r == 0) {
        enter(k, 1);
        r = kstate_list_add(k, 0, bytes, LARGE, &e);
    }
    assert_int_equal(r, ERR_RECORD);
    assert_true(n * (size_t)LARGE <= 2 * BUDGET);
    enter(k, 1);
    kstate_clear(k, 0);
    assert_int_equal(kstate_list_add(k, 0, bytes, LARGE, &e), 0);
    free(bytes);
    done(&k);
}

/* What accumulators own counts and leaves, in a call, after it, undone. */
static void
sets_of_accumulators_count_as_state_and_leave_it(void **state)
{
    struct kstate_handle h = {
        .name = "a", .kind = KSTATE_AGG, .id = 2, .ttl_ms = -1};
    struct arena arena;
    struct aggset *set;
    struct opt *list;
    struct kstate *k;
    size_t empty_bytes, full;
    uint32_t i;

    (void)state;
    arena_init(&arena);
    list = opt_new_list(&arena);
    (void)util_call(&arena, list, "count_distinct", 1);
    h.set = set = util_set(list);
    k = state_of(&h, 1, BUDGET);
    empty_bytes = kstate_bytes(k);
    for (i = 0; i < 2 * MANY; i++) {
        struct val v = val_int(i);
        struct err e;

        enter(k, 1);
        kstate_begin(k);
        assert_int_equal(kstate_agg_add(k, 0, &v, NULL, &e), 0);
        if (i % 1000 != 0)
            kstate_commit(k);
        else
            kstate_undo(k);
        i += i < MANY ? 99 : 0;
    }
    full = kstate_bytes(k);
    assert_true(full > empty_bytes + MANY * sizeof(int64_t));
    empty(k);
    assert_true(kstate_bytes(k) < BUDGET / 2);
    enter(k, 1);
    kstate_clear(k, 0);
    empty(k);
    assert_true(kstate_bytes(k) < BUDGET / 2);
    done(&k);
    aggset_free(&set);
    arena_fini(&arena);
}

static void
what_expired_in_the_store_is_deleted_in_pieces(void **state)
{
    struct kstate_handle h[] = {value_handle(1000), map_handle(1000)};
    struct kstate *k = state_of(h, 2, BUDGET);
    uint32_t i;

    (void)state;
    for (i = 0; i < 1000; i++) {
        kstate_now(k, 1000 + i, 0);
        enter(k, i);
        set_text(k, 0, "v");
        put_text(k, 1, "a", "b");
    }
    empty(k);
    assert_int_equal(disk.n, 2000);
    while (kstate_clean(k, 2500, KSTATE_NO_TIME, 100))
        ;
    assert_true(sweep(k, 50) >= 1000 / 50);
    assert_true(disk.n == 2000); /* a round does not delete all at once */
    empty(k);
    (void)sweep(k, 50);
    empty(k);
    assert_int_equal(disk.n, 2 * 499); /* those of 1501 and later */

    disk.asked = 0;
    for (i = 0; i < 400; i++) { /* the filter has forgotten them */
        enter(k, i);
        assert_string_equal(get_text(k, 0), "none");
    }
    assert_true(disk.asked < 40);
    assert_true(kstate_keys(k) > 480 && kstate_keys(k) < 520); /* about */
    kstate_now(k, 2400, 0);
    enter(k, 900);
    assert_string_equal(get_text(k, 0), "v");
    done(&k);
}

static void
what_the_store_has_without_a_time_counts_from_the_first_pass(void **state)
{
    struct kstate_handle h = value_handle(-1);
    struct kstate *k = state_of(&h, 1, 1);
    int64_t now;

    (void)state;
    enter(k, 1);
    set_text(k, 0, "v");
    empty(k);
    kstate_free(&k);
    h = value_handle(1000);
    k = state_of(&h, 1, 1);
    disk_load(&disk, k, 0, 1);
    for (now = 5000; now <= 7000; now += 500) {
        assert_int_equal(disk.n, now < 6500 ? 1 : 0);
        while (kstate_clean(k, now, KSTATE_NO_TIME, 10))
            ;
        (void)sweep(k, 10);
        empty(k);
    }
    done(&k);
}

static void
a_restore_leaves_in_the_store_what_memory_has_no_room_for(void **state)
{
    struct kstate_handle h = value_handle(-1);
    struct kstate *k = state_of(&h, 1, BUDGET);

    (void)state;
    store_keys(k, 0, MANY);
    kstate_free(&k);
    k = state_of(&h, 1, BUDGET);
    disk_load(&disk, k, 0, 1);
    assert_true(kstate_bytes(k) < BUDGET);
    assert_int_equal(kstate_keys(k), MANY);
    check_filled(k, MANY);
    done(&k);
}

static void
timers_stay_and_find_the_state_of_their_key(void **state)
{
    struct kstate_handle h = value_handle(-1);
    struct kstate *k = state_of(&h, 1, 1);
    int64_t ts;

    (void)state;
    enter(k, 1);
    set_text(k, 0, "a value that is longer than a cell");
    assert_true(kstate_timer_add(k, KSTATE_EVENT, 10));
    empty(k);
    disk.given = 0;
    assert_true(kstate_timer_next(k, KSTATE_EVENT, 10, &ts));
    assert_string_equal(get_text(k, 0), "a value that is longer than a cell");
    assert_int_equal(disk.given, 1);
    done(&k);
}

static void
too_many_changes_want_a_round_and_then_wait_for_it(void **state)
{
    struct kstate_handle h = value_handle(-1);
    struct kstate *k = state_of(&h, 1, BUDGET);
    struct snapshot *s;
    uint32_t i;

    (void)state;
    for (i = 0; i < 450; i++) {
        enter(k, i);
        set_text(k, 0, "v");
    }
    assert_int_equal(kstate_trim(k, 0, MANY), ROOM_WANT_ROUND);
    assert_int_equal(kstate_trim(k, 0, MANY), ROOM_ENOUGH);
    s = kstate_freeze(k, ++rounds);
    for (; i < 1000; i++) {
        enter(k, i);
        set_text(k, 0, "v");
    }
    assert_int_equal(kstate_trim(k, rounds - 1, MANY), ROOM_WAIT);
    while (kstate_save(k, 100))
        ;
    assert_int_equal(kstate_trim(k, rounds - 1, MANY), ROOM_WAIT);
    disk_apply(&disk, &s);
    (void)kstate_trim(k, rounds, MANY);
    (void)kstate_trim(k, rounds, MANY);
    assert_int_equal(kstate_trim(k, rounds, MANY), ROOM_ENOUGH);
    done(&k);
}

static int
broken_get(void *arg, const struct snapshot_key *k, const void **ret,
           size_t *ret_len, struct err *e)
{
    (void)arg;
    (void)k;
    (void)ret;
    (void)ret_len;
    return err_set(e, ERR_IO, "page 7 is damaged");
}

static void
a_store_that_cannot_be_read_is_said(void **state)
{
    struct kstate_handle h = value_handle(-1);
    struct kstate *k = kstate_new(&h, 1);
    struct entry_store st = disk_store(&disk);
    struct err e;

    (void)state;
    kstate_track(k, MAX_PAR);
    st.get = broken_get;
    kstate_cache(k, 1, &st);
    enter(k, 1);
    set_text(k, 0, "v");
    empty(k);
    assert_int_equal(kstate_check(k, &e), 0);
    enter(k, 1);
    assert_string_equal(get_text(k, 0), "none");
    assert_int_equal(kstate_check(k, &e), ERR_IO);
    assert_string_equal(e.msg, "page 7 is damaged");
    kstate_free(&k);
    disk_fini(&disk);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_stays_within_the_budget_and_all_comes_back),
        cmocka_unit_test(a_key_that_is_nowhere_is_seldom_asked_for),
        cmocka_unit_test(
            what_was_deleted_does_not_come_back_before_the_round_is_durable),
        cmocka_unit_test(an_entry_of_a_map_is_read_without_the_others),
        cmocka_unit_test(a_walk_merges_memory_and_store_in_order),
        cmocka_unit_test(
            a_walk_does_not_give_what_was_removed_and_put_again_during_it),
        cmocka_unit_test(
            an_item_removed_put_and_removed_again_does_not_come_back),
        cmocka_unit_test(clearing_a_map_deletes_what_only_the_store_has),
        cmocka_unit_test(
            a_list_comes_back_whole_and_one_beyond_half_the_budget_is_refused),
        cmocka_unit_test(
            a_list_of_large_elements_is_refused_beyond_half_the_budget),
        cmocka_unit_test(sets_of_accumulators_count_as_state_and_leave_it),
        cmocka_unit_test(what_expired_in_the_store_is_deleted_in_pieces),
        cmocka_unit_test(
            what_the_store_has_without_a_time_counts_from_the_first_pass),
        cmocka_unit_test(
            a_restore_leaves_in_the_store_what_memory_has_no_room_for),
        cmocka_unit_test(timers_stay_and_find_the_state_of_their_key),
        cmocka_unit_test(too_many_changes_want_a_round_and_then_wait_for_it),
        cmocka_unit_test(a_store_that_cannot_be_read_is_said),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
