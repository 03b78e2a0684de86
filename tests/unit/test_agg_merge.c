/*
 * Every aggregate is a function of the multiset: whatever the order, the
 * parts, the merges, the copies and the trips through bytes, the result text
 * is the same.
 */
#include <math.h>

#include "agg_util.h"

enum { ARGS = 2, EVENTS_MAX = 700, PARTS_MAX = 6, TOPICS = 3 };

struct event {
    struct val x, what;
    struct rec r;
};

static struct event events[EVENTS_MAX];
static uint32_t event_count;

/* One set with all number aggregates. Arguments: a is x, b is what. */
static struct aggset *
number_set(struct arena *a)
{
    static const char *const fns[] = {
        "count",      "sum",
        "sum",        "avg",
        "min",        "max",
        "var_pop",    "var_samp",
        "stddev_pop", "stddev_samp",
        "first",      "last",
        "distinct",   "count_distinct",
    };
    struct opt *list = opt_new_list(a), *call, *what, *q;
    size_t i;

    for (i = 0; i < sizeof fns / sizeof fns[0]; i++) {
        call = util_call(a, list, fns[i], 1);
        if (i == 2)
            util_str(a, call, "as", "float");
        else
            util_str(a, call, "overflow", "string");
    }
    (void)util_call(a, list, "min_by", 2);
    call = util_call(a, list, "max_by", 2);
    what = opt_new_list(a);
    opt_add(a, what, NULL, opt_new_str(a, "w", 1));
    opt_add(a, call, "what", what);
    q = opt_new(a);
    q->type = OPT_BOOL;
    q->i = 1;
    opt_add(a, call, "what_list", q);
    call = util_call(a, list, "percentile", 1);
    q = opt_new_list(a);
    opt_add(a, q, NULL, util_dbl(a, 0.5));
    opt_add(a, q, NULL, util_dbl(a, 0.99));
    opt_add(a, q, NULL, util_dbl(a, 0.01));
    opt_add(a, call, "q", q);
    return util_set(list);
}

/* The same for strings: what takes any value, and min and max. */
static struct aggset *
string_set(struct arena *a)
{
    static const char *const fns[] = {
        "count", "min", "max", "first", "last", "distinct", "count_distinct"};
    struct opt *list = opt_new_list(a);
    size_t i;

    for (i = 0; i < sizeof fns / sizeof fns[0]; i++)
        (void)util_call(a, list, fns[i], 1);
    (void)util_call(a, list, "min_by", 2);
    (void)util_call(a, list, "max_by", 2);
    return util_set(list);
}

static struct val
random_string(void)
{
    static const char *const texts[] = {
        "",
        "a",
        "b",
        "longer than eight bytes",
        "longer than eight bytez",
        "12345678",
        "\xc3\xa9",
        "\xff\xfe",
    };

    return util_sv(texts[util_below(sizeof texts / sizeof texts[0])]);
}

static struct val
random_any(void)
{
    switch (util_below(8)) {
    case 0:
        return val_nil();
    case 1:
        return random_string();
    case 2:
        return val_bool(util_below(2) != 0);
    case 3:
        return util_json(VAL_LIST, util_below(2) != 0 ? "[1,2,3]" : "[NaN]");
    case 4:
        return util_json(VAL_MAP, "{\"a\":1,\"b\":2,\"c\":3}");
    default:
        return util_number();
    }
}

/* Few different times and origins, so that ties are common. */
static void
random_events(bool strings)
{
    static const char *const topics[TOPICS] = {"t-c", "t-a", "t-b"};
    static const uint32_t counts[] = {3, 20, 64, 70, 256, 300, EVENTS_MAX};
    uint32_t i, limit = counts[util_below(sizeof counts / sizeof counts[0])];
    bool small = util_below(2) != 0;

    event_count = util_below(limit + 1);
    for (i = 0; i < event_count; i++) {
        struct event *v = &events[i];

        memset(v, 0, sizeof *v);
        if (util_below(10) == 0)
            v->x.type = util_below(2) != 0 ? VAL_NIL : VAL_NULL;
        else if (strings)
            v->x = random_string();
        else
            v->x = small ? val_dbl((double)util_below(400) / 4) : util_number();
        v->what = random_any();
        v->r.ts = (int64_t)util_below(4) - 2;
        v->r.topic = topic_register(topics[util_below(TOPICS)]);
        v->r.partition = (int32_t)util_below(2);
        v->r.offset = util_below(8);
    }
}

static void
shuffle(void)
{
    uint32_t i;

    for (i = event_count; i > 1; i--) {
        uint32_t k = util_below(i);
        struct event t = events[i - 1];

        events[i - 1] = events[k];
        events[k] = t;
    }
}

static void
add(const struct aggset *s, void *block, const struct event *v)
{
    struct val args[AGG_ARGS_MAX * 2];
    struct err e;
    uint32_t i;

    for (i = 0; i < s->count; i++) {
        args[s->aggs[i].first_arg] = v->x;
        if (s->aggs[i].nargs == ARGS)
            args[s->aggs[i].first_arg + 1] = v->what;
    }
    err_clear(&e);
    if (aggset_add(s, block, args, &v->r, &e) != 0)
        fail_msg("%s", e.msg);
}

/* The block as it was, moved through bytes or a copy. */
static void *
disturb(const struct aggset *s, void *block)
{
    struct buf b;
    struct err e;
    void *to;

    if (util_below(2) == 0) {
        to = malloc(s->size);
        assert_int_equal(aggset_dup(s, block, to, &e), 0);
    } else {
        buf_init(&b);
        to = util_block(s);
        assert_int_equal(aggset_encode(s, block, &b, &e), 0);
        assert_int_equal(aggset_decode(s, to, b.data, b.len, &e), 0);
        buf_fini(&b);
    }
    util_drop(s, block);
    return to;
}

static char *
plain_result(const struct aggset *s)
{
    void *block = util_block(s);
    char *text;
    uint32_t i;

    for (i = 0; i < event_count; i++)
        add(s, block, &events[i]);
    text = strdup(util_text(s, block));
    util_drop(s, block);
    return text;
}

static char *
scattered_result(const struct aggset *s)
{
    void *part[PARTS_MAX];
    uint32_t parts = 1 + util_below(PARTS_MAX), i, k;
    struct err e;
    char *text;

    for (i = 0; i < parts; i++)
        part[i] = util_block(s);
    for (i = 0; i < event_count; i++) {
        k = util_below(parts);
        add(s, part[k], &events[i]);
        if (util_below(40) == 0)
            part[k] = disturb(s, part[k]);
    }
    while (parts > 1) {
        i = util_below(parts);
        parts--;
        if (i == parts)
            i = 0;
        err_clear(&e);
        if (aggset_merge(s, part[i], part[parts], &e) != 0)
            fail_msg("%s", e.msg);
        assert_int_equal(aggset_heap(s, part[parts]), 0);
        /* What was consumed is a neutral element. */
        assert_int_equal(aggset_merge(s, part[i], part[parts], &e), 0);
        util_drop(s, part[parts]);
        if (util_below(3) == 0)
            part[i] = disturb(s, part[i]);
    }
    text = strdup(util_text(s, part[0]));
    util_drop(s, part[0]);
    return text;
}

static void
check_sets(struct aggset *(*make)(struct arena *), bool strings, int rounds)
{
    struct arena arena;
    struct aggset *s;
    int round, turn;

    (void)util_seed();
    arena_init(&arena);
    s = make(&arena);
    for (round = 0; round < rounds; round++) {
        char *want;

        random_events(strings);
        want = plain_result(s);
        for (turn = 0; turn < 4; turn++) {
            char *got;

            shuffle();
            got = turn == 0 ? plain_result(s) : scattered_result(s);
            assert_string_equal(got, want);
            free(got);
        }
        free(want);
    }
    aggset_free(&s);
    arena_fini(&arena);
}

static void
numbers_in_any_order_and_parts(void **state)
{
    (void)state;
    check_sets(number_set, false, 250);
}

static void
strings_in_any_order_and_parts(void **state)
{
    (void)state;
    check_sets(string_set, true, 250);
}

/* Any cut or changed byte is refused or gives an accumulator that works. */
static void
damaged_bytes_do_no_harm(void **state)
{
    struct arena arena;
    struct aggset *s;
    struct buf b, out;
    struct err e;
    int round;

    (void)state;
    (void)util_seed();
    arena_init(&arena);
    s = number_set(&arena);
    buf_init(&b);
    buf_init(&out);
    for (round = 0; round < 3000; round++) {
        void *block = util_block(s), *other = util_block(s);
        uint32_t i;
        size_t len;

        if (round % 50 == 0)
            random_events(false);
        for (i = 0; i < event_count && i < 300; i++)
            add(s, block, &events[i]);
        buf_clear(&b);
        assert_int_equal(aggset_encode(s, block, &b, &e), 0);
        len = b.len;
        if (round % 2 == 0)
            len = util_below((uint32_t)b.len);
        else
            b.data[util_below((uint32_t)b.len)] ^= (char)(1 + util_below(255));
        err_clear(&e);
        if (aggset_decode(s, other, b.data, len, &e) == 0) {
            (void)util_text(s, other);
            if (aggset_merge(s, other, block, &e) != 0)
                assert_int_equal(e.code, ERR_RECORD);
            buf_clear(&out);
            assert_int_equal(aggset_encode(s, other, &out, &e), 0);
        } else
            assert_int_equal(e.code, ERR_IO);
        util_drop(s, block);
        util_drop(s, other);
    }
    buf_fini(&b);
    buf_fini(&out);
    aggset_free(&s);
    arena_fini(&arena);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_in_any_order_and_parts),
        cmocka_unit_test(strings_in_any_order_and_parts),
        cmocka_unit_test(damaged_bytes_do_no_harm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
