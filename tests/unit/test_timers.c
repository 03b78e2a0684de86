/*
 * Timers and what they are made of: the index of entries, lazy sorting, and
 * the queue in order of time and key.
 */
#include "agg_util.h"
#include "base/mem.h"
#include "core/timers.h"

enum { KEYS = 300, STEPS = 40000, MANY = 60000 };

/* ---- the index ---- */

struct thing {
    struct entry e;
    uint32_t no;
    bool in;
};

static bool
same_no(const struct entry *en, const void *arg)
{
    return ((const struct thing *)en)->no == *(const uint32_t *)arg;
}

/* Things whose hashes agree in many bits, at either end. */
static void
fill_things(struct thing *t, uint32_t n)
{
    uint32_t i;

    for (i = 0; i < n; i++) {
        uint32_t h = (uint32_t)hash_splitmix(i);

        t[i].no = i;
        t[i].in = false;
        t[i].e.hash = i % 4 == 0   ? h
                      : i % 4 == 1 ? h & 0xffff0000u
                      : i % 4 == 2 ? h & 0x3ffu
                                   : h | 0xfffff000u;
    }
}

static void
what_is_in_the_index_is_found_whatever_else_comes_and_goes(void **state)
{
    static struct thing t[MANY];
    struct index_iter it;
    struct entry_index x;
    uint32_t i, step;
    size_t n = 0, seen;

    (void)state;
    (void)util_seed();
    fill_things(t, MANY);
    index_init(&x);
    for (step = 0; step < 4 * MANY; step++) {
        bool grow = step < 2 * MANY;
        uint32_t no = util_below(MANY);

        if (t[no].in && (!grow || util_below(4) == 0)) {
            index_remove(&x, &t[no].e);
            t[no].in = false;
            n--;
        } else if (!t[no].in && (grow || util_below(8) == 0)) {
            index_add(&x, &t[no].e);
            t[no].in = true;
            n++;
        }
    }
    assert_int_equal(x.count, n);
    for (i = 0; i < MANY; i++)
        assert_ptr_equal(index_find(&x, t[i].e.hash, same_no, &i),
                         t[i].in ? &t[i].e : NULL);
    memset(&it, 0, sizeof it);
    for (seen = 0; index_next(&x, &it) != NULL; seen++)
        ;
    assert_int_equal(seen, n);
    index_fini(&x);
    assert_int_equal(x.bytes, 0);
}

static void
a_walk_that_removes_all_misses_none(void **state)
{
    static struct thing t[MANY];
    struct index_iter it = {0};
    struct entry_index x;
    struct entry *en;
    uint32_t i;

    (void)state;
    fill_things(t, MANY);
    index_init(&x);
    for (i = 0; i < MANY; i++)
        index_add(&x, &t[i].e);
    while ((en = index_next(&x, &it)) != NULL) {
        index_remove(&x, en);
        index_gone(&x, &it);
    }

    assert_int_equal(x.count, 0);
    assert_int_equal(x.bytes, 0);
}

/* ---- sorting ---- */

struct word {
    struct entry e;
    char text[40];
};

static const char *
word_key(const void *arg, const struct entry *en, uint32_t *ret_len)
{
    (void)arg;
    *ret_len = en->extra;
    return ((const struct word *)en)->text;
}

static int
word_cmp(const void *a, const void *b)
{
    const struct word *x = *(struct word *const *)a;
    const struct word *y = *(struct word *const *)b;

    return key_cmp(x->text, x->e.extra, y->text, y->e.extra);
}

static void
entries_come_sorted_as_far_as_asked(void **state)
{
    static struct word w[5000];
    static struct word *want[5000];
    struct entry_sort s;
    uint32_t n, i, round;

    (void)state;
    (void)util_seed();
    sort_init(&s, word_key, NULL);
    for (round = 0; round < 60; round++) {
        n = round < 20 ? round : 1 + util_below(5000);
        sort_clear(&s);
        for (i = 0; i < n; i++) {
            /* Long common beginnings; zeros; some are others' beginnings. */
            uint32_t len = util_below(30);

            memset(w[i].text, round % 3 == 0 ? 0 : 'a', sizeof w[i].text);
            while (len > 0 && util_below(3) != 0)
                w[i].text[util_below(len)] = (char)util_below(4);
            w[i].e.extra = len;
            want[i] = &w[i];
            sort_add(&s, &w[i].e);
        }
        qsort(want, n, sizeof want[0], word_cmp);
        sort_begin(&s);
        for (i = 0; i < n; i += 1 + util_below(5)) {
            sort_upto(&s, i);
            assert_int_equal(
                word_cmp(&want[i],
                         &(struct word *){(struct word *)s.items[i].en}),
                0);
        }
    }
    sort_fini(&s);
}

/* ---- the queue ---- */

struct tkey {
    struct entry e;
    char text[32];
};

static struct tkey tkeys[KEYS];

static void
make_keys(void)
{
    uint32_t i;

    for (i = 0; i < KEYS; i++) {
        int n = snprintf(tkeys[i].text, sizeof tkeys[i].text,
                         "the-same-begin-%u", i * 7919 % KEYS);

        tkeys[i].e.extra = (uint32_t)n;
        tkeys[i].e.hash = (uint32_t)hash_splitmix(i);
    }
}

struct want {
    int64_t ts;
    struct tkey *key;
};

static struct want wants[STEPS];
static size_t want_n;

static bool
want_less(const struct want *a, const struct want *b)
{
    if (a->ts != b->ts)
        return a->ts < b->ts;
    return key_cmp(a->key->text, a->key->e.extra, b->key->text,
                   b->key->e.extra) < 0;
}

/* The place of the first one up to limit, or want_n. */
static size_t
want_first(int64_t limit)
{
    size_t i, best = want_n;

    for (i = 0; i < want_n; i++)
        if (wants[i].ts <= limit &&
            (best == want_n || want_less(&wants[i], &wants[best])))
            best = i;
    return best;
}

static void
expect_first(struct timers *t, int64_t limit)
{
    struct timer *tm = timers_due(t, limit);
    size_t at = want_first(limit);

    if (at == want_n) {
        assert_null(tm);
        return;
    }
    assert_non_null(tm);
    assert_int_equal(tm->ts, wants[at].ts);
    assert_ptr_equal(tm->key, &wants[at].key->e);
    timers_unlink(t, tm);
    timers_drop(t, tm);
    wants[at] = wants[--want_n];
}

static int64_t
any_ts(int64_t wm)
{
    switch (util_below(12)) {
    case 0:
        return util_below(2) == 0 ? INT64_MIN : INT64_MAX;
    case 1:
        return (int64_t)util_rand();
    case 2:
        return wm + (int64_t)util_below(3600000);
    case 3:
        return wm - (int64_t)util_below(50);
    default:
        return wm + (int64_t)util_below(300);
    }
}

static void
add_or_remove(struct timers *t, int64_t wm)
{
    struct tkey *key = &tkeys[util_below(KEYS)];
    int64_t ts = any_ts(wm);
    struct timer *tm;
    size_t i = want_n;

    if (want_n != 0 && util_below(4) == 0) {
        i = util_below((uint32_t)want_n);
        key = wants[i].key;
        ts = wants[i].ts;
    } else {
        for (i = 0; i < want_n; i++)
            if (wants[i].ts == ts && wants[i].key == key)
                break;
    }
    tm = timers_find(t, &key->e, ts);
    if (i == want_n) {
        assert_null(tm);
        (void)timers_add(t, &key->e, ts);
        wants[want_n++] = (struct want){ts, key};
        return;
    }
    assert_non_null(tm);
    timers_unlink(t, tm);
    if (util_below(3) == 0) { /* it was a mistake */
        timers_link(t, tm);
        return;
    }
    timers_drop(t, tm);
    wants[i] = wants[--want_n];
}

static void
timers_come_in_order_of_time_and_key(void **state)
{
    int64_t wm = 1700000000000, bound;
    struct timers t;
    uint32_t step;

    (void)state;
    (void)util_seed();
    make_keys();
    want_n = 0;
    timers_init(&t, offsetof(struct tkey, text));
    for (step = 0; step < STEPS; step++) {
        uint32_t what = util_below(100);

        if (what < 50 && want_n < 600) {
            add_or_remove(&t, wm);
        } else if (what < 95) {
            expect_first(&t, util_below(50) == 0 ? wm - 100 : wm);
        } else {
            wm += util_below(20) == 0 ? (int64_t)util_below(4000000)
                                      : (int64_t)util_below(100);
        }
        assert_int_equal(timers_count(&t), want_n);
        assert_int_equal(timers_bound(&t, &bound), want_n != 0);
        if (want_n != 0)
            assert_true(bound <= wants[want_first(INT64_MAX)].ts);
    }
    while (want_n != 0)
        expect_first(&t, INT64_MAX);
    assert_null(timers_due(&t, INT64_MAX));
    timers_fini(&t);
}

static void
timers_for_the_past_come_in_order_too(void **state)
{
    struct timers t;
    uint32_t round, i;

    (void)state;
    (void)util_seed();
    make_keys();
    want_n = 0;
    timers_init(&t, offsetof(struct tkey, text));
    assert_null(timers_due(&t, 100000));
    for (round = 0; round < 20; round++) {
        for (i = 0; i < 600; i++) {
            struct tkey *key = &tkeys[util_below(KEYS)];
            int64_t ts = (int64_t)util_below(100000);

            if (timers_find(&t, &key->e, ts) != NULL)
                continue;
            (void)timers_add(&t, &key->e, ts);
            wants[want_n++] = (struct want){ts, key};
        }
        for (i = 0; i < 300; i++) {
            size_t at = util_below((uint32_t)want_n);
            struct timer *tm = timers_find(&t, &wants[at].key->e, wants[at].ts);

            timers_unlink(&t, tm);
            timers_drop(&t, tm);
            wants[at] = wants[--want_n];
        }
        while (want_n != 0)
            expect_first(&t, 100000);
    }
    assert_null(timers_due(&t, 100000));
    timers_fini(&t);
}

static void
the_bound_is_the_first_timer_once_it_is_near(void **state)
{
    struct timers t;
    int64_t bound;

    (void)state;
    make_keys();
    timers_init(&t, offsetof(struct tkey, text));
    assert_false(timers_bound(&t, &bound));
    (void)timers_add(&t, &tkeys[0].e, 1700000000000);
    assert_null(timers_due(&t, 1699999999999));

    assert_true(timers_bound(&t, &bound));

    assert_int_equal(bound, 1700000000000);
    timers_fini(&t);
}

static void
a_timer_takes_about_sixty_bytes(void **state)
{
    struct timers t;
    uint32_t i;

    (void)state;
    make_keys();
    timers_init(&t, offsetof(struct tkey, text));
    assert_null(timers_due(&t, 1700000000000));
    for (i = 0; i < 1000000; i++)
        (void)timers_add(&t, &tkeys[i % KEYS].e,
                         1700000000001 + (int64_t)(i / KEYS));

    assert_in_range(timers_bytes(&t), 1000000 * 48u, 1000000 * 68u);

    timers_fini(&t);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            what_is_in_the_index_is_found_whatever_else_comes_and_goes),
        cmocka_unit_test(a_walk_that_removes_all_misses_none),
        cmocka_unit_test(entries_come_sorted_as_far_as_asked),
        cmocka_unit_test(timers_come_in_order_of_time_and_key),
        cmocka_unit_test(timers_for_the_past_come_in_order_too),
        cmocka_unit_test(the_bound_is_the_first_timer_once_it_is_near),
        cmocka_unit_test(a_timer_takes_about_sixty_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
