/*
 * Keys without window: a row for each changed key, ttl, rounds, restores and
 * a bounded memory, against a plain model.
 */
#include "winstate_util.h"

enum { KEYS = 60, STEPS = 3000, RUNS = 24, TTL = 100 };

struct key { /* what the model has of it */
    int64_t count, sum, max, last;
    bool changed;
};

struct run {
    struct window_spec spec;
    struct aggset *set;
    struct winstate *w;
    struct items disk;
    struct key keys[KEYS];
    struct rows rows;
    size_t budget;
    uint64_t round, durable, expired;
    int64_t now, mono;
    bool quiet; /* nothing happens while a round is saved */
};

static void
open_state(struct run *r)
{
    const struct entry_store store = {.arg = &r->disk,
                                         .last_group = MAX_PAR - 1,
                                         .get = disk_get,
                                         .walk = disk_walk,
                                         .renew = disk_renew};

    r->w = winstate_new(&r->spec, r->set);
    winstate_track(r->w, MAX_PAR);
    if (r->budget != 0)
        winstate_cache(r->w, r->budget, &store);
}

static void
record(struct run *r)
{
    uint32_t i = util_below(KEYS);
    struct key *k = &r->keys[i];
    int64_t ts = r->now + util_below(20), v = (int64_t)util_below(1000) - 500;
    struct val vals[2] = {val_int(v), val_int(v)};
    char key[16];
    uint32_t len = (uint32_t)snprintf(key, sizeof key, "key-%u", i);
    struct partial p = {.hash = hash_key(key, len),
                        .first = WINDOW_FIRST_ALL,
                        .key = key,
                        .key_len = len,
                        .count = 1};
    struct table_entry *en;
    struct err e;

    if (k->count > 0 && k->last <= ts - TTL)
        k->count = 0;
    k->sum = k->count > 0 ? k->sum + v : v;
    k->max = k->count > 0 && k->max > v ? k->max : v;
    k->last = k->count > 0 && k->last > ts ? k->last : ts;
    k->count++;
    k->changed = true;

    if (util_below(2) == 0) { /* as in one phase */
        assert_int_equal(winstate_upsert(r->w, &p, &en, &e), 0);
        winstate_renew(r->w, en, ts);
        assert_int_equal(aggset_add(r->set, en->block, vals, NULL, &e), 0);
        aggset_touch(r->set, en->block, ts);
        en->count++;
        return;
    }
    p.block = util_block(r->set);
    assert_int_equal(aggset_add(r->set, p.block, vals, NULL, &e), 0);
    aggset_touch(r->set, p.block, ts);
    {
        void *block = p.block;

        assert_int_equal(winstate_merge(r->w, &p, &e), 0);
        free(block);
    }
}

/* Rows of exactly the keys that changed, and what they are. */
static void
flush(struct run *r)
{
    uint32_t i, n = 0;

    items_clear(&r->rows.list);
    winstate_flush_late(r->w);
    rows_fire(r->w, &r->rows);

    for (i = 0; i < KEYS; i++) {
        struct key *k = &r->keys[i];
        char name[24], want[64];
        struct item *got;
        size_t len;

        memset(name, 0, 8);
        len = 8 + (size_t)snprintf(name + 8, 16, "key-%u", i);
        got = items_find(&r->rows.list, name, len);
        assert_int_equal(got != NULL, k->changed);
        if (got == NULL)
            continue;
        n++;
        (void)snprintf(want, sizeof want, "sum=%lld max=%lld",
                       (long long)k->sum, (long long)k->max);
        assert_int_equal(got->value_len, strlen(want));
        assert_memory_equal(got->value, want, got->value_len);
        k->changed = false;
    }
    assert_int_equal(r->rows.list.n, n);
    assert_false(winstate_has_late(r->w));
}

static void
expire(struct run *r, uint32_t max)
{
    uint64_t before = winstate_keys(r->w);
    struct err e;

    assert_in_range(winstate_expire(r->w, r->now, r->mono, max, &e), 0, 1);
    if (winstate_keys(r->w) < before)
        r->expired += before - winstate_keys(r->w);
}

static void
save_round(struct run *r)
{
    struct snapshot *s;

    flush(r);
    s = winstate_freeze(r->w, ++r->round);
    while (winstate_save(r->w, 1 + util_below(5))) {
        if (!r->quiet && util_below(2) == 0)
            record(r);
        if (!r->quiet && util_below(4) == 0)
            expire(r, 1 + util_below(20));
    }
    disk_apply(&r->disk, s);
    r->durable = r->round;
    snapshot_free(&s);
}

/* A new state takes back what the disk has. */
static void
restore(struct run *r)
{
    size_t i;

    save_round(r);
    flush(r); /* changed while it was saved: not in the round */
    save_round(r);
    flush(r);
    save_round(r);
    if (winstate_has_late(r->w))
        return; /* changed again: another time */
    winstate_free(&r->w);
    open_state(r);
    if (r->budget != 0 && util_below(2) == 0) {
        winstate_adopt(r->w, 0, WINDOW_FIRST_ALL, r->disk.n);
        return;
    }
    for (i = 0; i < r->disk.n; i++) {
        const struct item *x = &r->disk.at[i];
        struct winstate_entry v = {.ns = x->name + 2,
                                   .key = x->name + 18,
                                   .key_len = (uint32_t)x->name_len - 18,
                                   .value = x->value,
                                   .value_len = x->value_len,
                                   .fired = WM_NONE};
        struct err e;

        v.hash = hash_key(v.key, v.key_len);
        assert_int_equal(winstate_load(r->w, &v, &e), 0);
    }
}

static void
run_one(struct run *r, size_t budget)
{
    uint32_t i;

    memset(r->keys, 0, sizeof r->keys);
    r->budget = budget;
    r->now = r->mono = 0;
    r->round = r->durable = r->expired = 0;
    open_state(r);
    for (i = 0; i < STEPS; i++) {
        uint32_t what = util_below(100);

        if (what < 70)
            record(r);
        else if (what < 80)
            flush(r);
        else if (what < 90)
            expire(r, 1 + util_below(40));
        else if (what < 94)
            r->now += util_below(what == 90 ? 2 * TTL : 20);
        else if (what < 97)
            r->mono += util_below(20000);
        else if (what < 99)
            save_round(r);
        else
            restore(r);
        if (r->budget != 0)
            (void)winstate_trim(r->w, r->durable, 1 + util_below(30));
    }
    flush(r);
}

static void
finish(struct run *r)
{
    winstate_free(&r->w);
    items_fini(&r->disk);
    items_fini(&r->rows.list);
}

static void
start(struct run *r, struct arena *a)
{
    memset(r, 0, sizeof *r);
    r->spec = (struct window_spec){
        .kind = WINDOW_GLOBAL, .updating = true, .ttl = TTL};
    r->set = util_set(sum_and_max(a));
    aggset_keep_times(r->set);
    r->rows.set = r->set;
    r->rows.append = true;
}

static void
each_changed_key_gives_its_row_through_ttl_rounds_and_restores(void **state)
{
    struct arena a;
    struct run r;
    uint64_t expired = 0;
    int i;

    (void)state;
    (void)util_seed();
    arena_init(&a);
    start(&r, &a);
    for (i = 0; i < RUNS; i++) {
        run_one(&r, i % 2 == 0 ? 0 : 3000 + util_below(6000));
        expired += r.expired;
        finish(&r);
    }
    assert_true(expired > 0);
    aggset_free(&r.set);
    arena_fini(&a);
}

static void
keys_that_ended_leave_memory_and_disk(void **state)
{
    struct arena a;
    struct run r;
    struct err e;
    uint32_t i;

    (void)state;
    (void)util_seed();
    arena_init(&a);
    start(&r, &a);
    r.quiet = true;
    open_state(&r);
    for (i = 0; i < 500; i++)
        record(&r);
    save_round(&r);
    assert_true(r.disk.n > KEYS / 2);
    flush(&r);

    r.now += 3 * TTL;
    while (winstate_expire(r.w, r.now, r.mono, 7, &e) == 1)
        continue;
    save_round(&r);

    assert_int_equal(winstate_keys(r.w), 0);
    assert_int_equal(r.disk.n, 0);
    finish(&r);
    aggset_free(&r.set);
    arena_fini(&a);
}

static void
keys_that_ended_leave_the_store_of_a_bounded_memory(void **state)
{
    struct arena a;
    struct run r;
    struct err e;
    size_t before;
    uint32_t i;

    (void)state;
    (void)util_seed();
    arena_init(&a);
    start(&r, &a);
    r.budget = 100000;
    r.quiet = true;
    open_state(&r);
    for (i = 0; i < 500; i++)
        record(&r);
    save_round(&r);
    winstate_free(&r.w);
    open_state(&r);
    before = r.disk.n;
    winstate_adopt(r.w, 0, WINDOW_FIRST_ALL, before);
    r.now += 3 * TTL;
    record(&r); /* one begins anew, in memory */
    flush(&r);

    while (winstate_expire(r.w, r.now, r.mono, 7, &e) == 1)
        continue;
    save_round(&r);

    assert_true(before > KEYS / 2);
    assert_in_range(r.disk.n, 1, 4);
    finish(&r);
    aggset_free(&r.set);
    arena_fini(&a);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            each_changed_key_gives_its_row_through_ttl_rounds_and_restores),
        cmocka_unit_test(keys_that_ended_leave_memory_and_disk),
        cmocka_unit_test(keys_that_ended_leave_the_store_of_a_bounded_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
