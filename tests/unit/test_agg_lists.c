/*
 * Aggregates that keep records or values: top_n, collect, records; where.
 */
#include <math.h>

#include "agg_util.h"
#include "core/agg_records.h"
#include "core/agg_top.h"

enum { RECORDS = 60, ROUNDS = 200 };

struct input {
    struct rec rec;
    struct val by;
};

static struct arena arena;

static int
setup(void **state)
{
    (void)state;
    arena_init(&arena);
    return 0;
}

static int
teardown(void **state)
{
    (void)state;
    arena_fini(&arena);
    return 0;
}

static void
set_int(struct opt *call, const char *name, int64_t i)
{
    struct opt *o = opt_new(&arena);

    o->type = OPT_INT;
    o->i = i;
    opt_add(&arena, call, name, o);
}

static void
set_bool(struct opt *call, const char *name, bool b)
{
    struct opt *o = opt_new(&arena);

    o->type = OPT_BOOL;
    o->i = b;
    opt_add(&arena, call, name, o);
}

static struct aggset *
top_set(int64_t n, bool desc, bool ties)
{
    struct opt *list = opt_new_list(&arena);
    struct opt *call = util_call(&arena, list, "top_n", 1);

    set_int(call, "n", n);
    set_bool(call, "desc", desc);
    set_bool(call, "ties", ties);
    return util_set(list);
}

static struct aggset *
one_set(const char *fn, int nargs, int64_t limit)
{
    struct opt *list = opt_new_list(&arena);
    struct opt *call = util_call(&arena, list, fn, nargs);

    if (limit > 0)
        set_int(call, "limit", limit);
    return util_set(list);
}

/* Records that often tie, in value, time, origin or all of them. */
static void
draw(struct input *in, uint32_t n)
{
    uint16_t topics[2] = {topic_register("z"), topic_register("a")};
    char text[16];
    uint32_t i;

    for (i = 0; i < n; i++) {
        struct input *x = &in[i];

        memset(&x->rec, 0, sizeof x->rec);
        x->by = util_below(3) == 0 ? val_dbl((double)util_below(20) / 2)
                                   : val_int(util_below(10));
        (void)snprintf(text, sizeof text, "{\"i\":%u}", util_below(30));
        x->rec.kind = REC_OBJECT;
        x->rec.val = arena_strdup(&arena, text);
        x->rec.val_len = (uint32_t)strlen(text);
        x->rec.ts = util_below(4);
        x->rec.topic = topics[util_below(2)];
        x->rec.partition = (int32_t)util_below(2);
        x->rec.offset = util_below(3);
        x->rec.flags = REC_HAS_TS;
    }
}

/* Add the records in random order to random parts, and merge these; some of
 * them have been through bytes or copied. */
static void *
scatter(const struct aggset *s, const struct input *in, uint32_t n)
{
    void *parts[4];
    uint32_t order[RECORDS], i, k;
    struct err e;
    struct buf b;

    for (i = 0; i < 4; i++)
        parts[i] = util_block(s);
    for (i = 0; i < n; i++) {
        k = util_below(i + 1);
        order[i] = order[k];
        order[k] = i;
    }
    for (i = 0; i < n; i++) {
        const struct input *x = &in[order[i]];

        assert_int_equal(
            aggset_add(s, parts[util_below(4)], &x->by, &x->rec, &e), 0);
    }
    buf_init(&b);
    for (i = 1; i < 4; i++) {
        void *moved = malloc(s->size);

        if (util_below(2) == 0) {
            assert_int_equal(aggset_dup(s, parts[i], moved, &e), 0);
        } else {
            buf_clear(&b);
            aggset_init(s, moved);
            assert_int_equal(aggset_encode(s, parts[i], &b, &e), 0);
            assert_int_equal(aggset_decode(s, moved, b.data, b.len, &e), 0);
        }
        assert_int_equal(aggset_merge(s, parts[0], moved, &e), 0);
        util_drop(s, moved);
        util_drop(s, parts[i]);
    }
    buf_fini(&b);
    return parts[0];
}

/* ---- top_n ---- */

static bool sort_desc;

static int
best_first(const void *pa, const void *pb)
{
    const struct input *a = pa, *b = pb;
    double x = a->by.type == VAL_INT ? (double)a->by.u.i : a->by.u.d;
    double y = b->by.type == VAL_INT ? (double)b->by.u.i : b->by.u.d;

    if (x != y)
        return (x < y ? -1 : 1) * (sort_desc ? -1 : 1);
    return kept_cmp(&a->rec, &b->rec);
}

static double
number(const struct input *x)
{
    return x->by.type == VAL_INT ? (double)x->by.u.i : x->by.u.d;
}

static void
top_n_keeps_the_best_whatever_the_order_and_the_parts(void **state)
{
    struct input in[RECORDS];
    uint32_t round;

    (void)state;
    (void)util_seed();
    for (round = 0; round < ROUNDS; round++) {
        uint32_t limit = 1 + util_below(round % 2 == 0 ? 3 : 40), n, i, want;
        uint32_t have = 1 + util_below(RECORDS), rank = 0;
        bool ties = util_below(2) == 0;
        struct aggset *s;
        struct kept *const *at;
        void *block;

        sort_desc = util_below(2) == 0;
        s = top_set(limit, sort_desc, ties);
        draw(in, have);

        block = scatter(s, in, have);

        qsort(in, have, sizeof in[0], best_first);
        want = limit < have ? limit : have;
        while (ties && want < have &&
               number(&in[want]) == number(&in[limit - 1]))
            want++;
        at = agg_top_get(&s->aggs[0], block, &n);
        assert_int_equal(n, want);
        for (i = 0; i < n; i++) {
            uint32_t place = i + 1;

            while (ties && place > 1 &&
                   number(&in[place - 2]) == number(&in[i]))
                place--;
            rank = agg_top_rank(&s->aggs[0], at, i, rank);
            assert_int_equal(rank, place);
            assert_int_equal(kept_cmp(&at[i]->rec, &in[i].rec), 0);
        }
        util_drop(s, block);
        aggset_free(&s);
    }
}

static void
top_n_takes_one_type_and_no_nil(void **state)
{
    struct aggset *s = top_set(2, true, false);
    void *block = util_block(s), *other = util_block(s);
    struct input in;
    struct buf b;
    struct val text = util_sv("a"), nil = val_nil(), nan = val_dbl(NAN);
    uint32_t n;
    struct err e;

    (void)state;
    draw(&in, 1);
    assert_int_equal(aggset_add(s, block, &nil, &in.rec, &e), 0);
    (void)agg_top_get(&s->aggs[0], block, &n);
    assert_int_equal(n, 0);
    assert_int_equal(aggset_add(s, block, &in.by, &in.rec, &e), 0);

    assert_int_equal(aggset_add(s, block, &text, &in.rec, &e), ERR_RECORD);
    assert_int_equal(e.cause, CAUSE_TYPE);
    assert_string_equal(e.msg, "top_n(a): cannot compare numbers and strings");
    assert_int_equal(aggset_add(s, block, &nan, &in.rec, &e), ERR_RECORD);
    assert_int_equal(e.cause, CAUSE_TYPE);
    (void)agg_top_get(&s->aggs[0], block, &n);
    assert_int_equal(n, 1);

    assert_int_equal(aggset_add(s, other, &text, &in.rec, &e), 0);
    assert_int_equal(aggset_merge(s, block, other, &e), ERR_RECORD);
    assert_true(agg_top_is_mixed(&s->aggs[0], block));
    assert_int_equal(aggset_add(s, block, &text, &in.rec, &e), 0);
    assert_string_equal(util_text(s, block), "top_n=!type");
    buf_init(&b); /* and stays so, through bytes too */
    assert_int_equal(aggset_encode(s, block, &b, &e), 0);
    assert_int_equal(aggset_decode(s, other, b.data, b.len, &e), 0);
    assert_true(agg_top_is_mixed(&s->aggs[0], other));
    buf_fini(&b);
    util_drop(s, other);
    util_drop(s, block);
    aggset_free(&s);
}

/* ---- kept records ---- */

static void
a_kept_record_comes_back_with_key_headers_and_flags(void **state)
{
    struct rec_headers *h = rec_headers_new(&arena, 2);
    struct aggset *s = one_set("records", 0, 0);
    void *block = util_block(s), *back = util_block(s);
    struct rec r = {.val = "{\"a\":1.50}",
                    .val_len = 10,
                    .key = "k",
                    .key_len = 1,
                    .headers = h,
                    .ts = -5,
                    .offset = 7,
                    .partition = 3,
                    .topic = topic_register("in"),
                    .kind = REC_OBJECT,
                    .flags = REC_HAS_TS | REC_BIGINT_STRING};
    struct kept *const *at;
    struct buf b;
    struct err e;
    size_t cut;
    uint32_t n;

    (void)state;
    h->items[0] = (struct rec_header){"x", "y", 1, 1};
    h->items[1] = (struct rec_header){"null", NULL, 4, 0};
    assert_int_equal(aggset_add(s, block, NULL, &r, &e), 0);
    buf_init(&b);
    assert_int_equal(aggset_encode(s, block, &b, &e), 0);
    assert_int_equal(aggset_decode(s, back, b.data, b.len, &e), 0);

    at = agg_records_get(&s->aggs[0], back, &n);

    assert_int_equal(n, 1);
    assert_int_equal(kept_cmp(&at[0]->rec, &r), 0);
    assert_memory_equal(at[0]->rec.val, "{\"a\":1.50}", 10);
    assert_memory_equal(at[0]->rec.key, "k", 1);
    assert_int_equal(at[0]->rec.flags, r.flags);
    assert_int_equal(at[0]->rec.headers->count, 2);
    assert_memory_equal(at[0]->rec.headers->items[0].value, "y", 1);
    assert_null(at[0]->rec.headers->items[1].value);
    for (cut = 4; cut < b.len; cut++) { /* no prefix is taken for the whole */
        void *bad = util_block(s);
        uint32_t len = (uint32_t)cut - 4;

        memcpy(b.data, &len, 4);
        assert_int_equal(aggset_decode(s, bad, b.data, cut, &e), ERR_IO);
        util_drop(s, bad);
    }
    buf_fini(&b);
    util_drop(s, back);
    util_drop(s, block);
    aggset_free(&s);
}

static void
records_stand_by_time_then_origin_whatever_the_order(void **state)
{
    struct input in[RECORDS];
    struct aggset *s = one_set("records", 0, 0);
    uint32_t round;

    (void)state;
    (void)util_seed();
    for (round = 0; round < ROUNDS / 4; round++) {
        uint32_t have = 1 + util_below(RECORDS), n, i;
        struct kept *const *at;
        void *block;

        draw(in, have);
        block = scatter(s, in, have);
        at = agg_records_get(&s->aggs[0], block, &n);
        assert_int_equal(n, have);
        for (i = 1; i < n; i++)
            assert_true(kept_cmp(&at[i - 1]->rec, &at[i]->rec) <= 0);
        assert_true(aggset_heap(s, block) > n * sizeof(struct kept));
        util_drop(s, block);
    }
    aggset_free(&s);
}

/* ---- collect ---- */

static void
collect_lists_values_by_time_then_origin_then_value(void **state)
{
    struct input in[RECORDS];
    struct aggset *s = one_set("collect", 1, 1000);
    uint32_t round;

    (void)state;
    (void)util_seed();
    for (round = 0; round < ROUNDS / 4; round++) {
        uint32_t have = 1 + util_below(RECORDS);
        void *a, *b;
        char *first;

        draw(in, have);
        a = scatter(s, in, have);
        b = scatter(s, in, have);
        first = strdup(util_text(s, a));
        assert_string_equal(util_text(s, b), first);
        free(first);
        util_drop(s, a);
        util_drop(s, b);
    }
    {
        struct rec r[3] = {{.ts = 2, .offset = 1}, {.ts = 1}, {.ts = 2}};
        struct val v[4] = {val_int(1), util_sv("b"), val_bool(true), val_nil()};
        void *block = util_block(s);
        struct err e;
        int i;

        assert_string_equal(util_text(s, block), "collect=null");
        for (i = 0; i < 3; i++)
            assert_int_equal(aggset_add(s, block, &v[i], &r[i], &e), 0);
        assert_int_equal(aggset_add(s, block, &v[3], &r[0], &e), 0);
        assert_string_equal(util_text(s, block), "collect=[\"b\",true,1]");
        util_drop(s, block);
    }
    aggset_free(&s);
}

static void
collect_over_its_limit_fails_whatever_the_parts(void **state)
{
    struct input in[RECORDS];
    struct aggset *s = one_set("collect", 1, 20);
    uint32_t round;

    (void)state;
    (void)util_seed();
    for (round = 0; round < ROUNDS / 4; round++) {
        void *block;

        draw(in, RECORDS);
        block = scatter(s, in, 21 + util_below(30));
        assert_string_equal(util_text(s, block), "collect=!overflow");
        util_drop(s, block);
        block = scatter(s, in, 20);
        assert_non_null(strchr(util_text(s, block), '['));
        util_drop(s, block);
    }
    aggset_free(&s);
}

/* ---- where ---- */

/* Whatever the parts: added, merged, copied or from bytes. */
static void
records_over_their_bound_are_given_up_and_known_to_be(void **state)
{
    struct aggset *s = one_set("records", 0, 0);
    struct input in[RECORDS];
    uint32_t n, round;

    (void)state;
    (void)util_seed();
    draw(in, RECORDS);
    for (round = 0; round < ROUNDS / 10; round++) {
        void *all = scatter(s, in, RECORDS);
        size_t full = aggset_heap(s, all);

        assert_false(agg_records_is_over(&s->aggs[0], all));
        assert_true(full > 2048);
        agg_records_bound(s, 1024);
        util_drop(s, all);
        all = scatter(s, in, RECORDS);
        assert_true(agg_records_is_over(&s->aggs[0], all));
        assert_int_equal(aggset_heap(s, all), 0);
        (void)agg_records_get(&s->aggs[0], all, &n);
        assert_int_equal(n, 0);
        util_drop(s, all);
        all = scatter(s, in, 3);
        assert_false(agg_records_is_over(&s->aggs[0], all));
        util_drop(s, all);
        agg_records_bound(s, (size_t)1 << 30);
    }
    aggset_free(&s);
}

static void
a_skipped_aggregate_does_not_see_the_record(void **state)
{
    struct opt *list = opt_new_list(&arena);
    struct opt *where = opt_new(&arena);
    struct aggset *s;
    struct val v[2] = {val_int(3), val_int(4)};
    struct rec r = {.ts = 1};
    struct err e;
    void *block;

    (void)state;
    where->type = OPT_FUNC;
    where->i = 1;
    (void)util_call(&arena, list, "sum", 1);
    opt_add(&arena, util_call(&arena, list, "count", 0), "where", where);
    (void)util_call(&arena, list, "max", 1);
    s = util_set(list);
    block = util_block(s);

    assert_int_equal(aggset_add(s, block, v, &r, &e), 0);
    s->aggs[1].skip = true;
    assert_int_equal(aggset_add(s, block, v, &r, &e), 0);
    s->aggs[0].skip = true;
    s->aggs[1].skip = false;
    assert_int_equal(aggset_add(s, block, v, &r, &e), 0);

    assert_string_equal(util_text(s, block), "sum=6 count=2 max=4");
    util_drop(s, block);
    aggset_free(&s);
}

/* ---- times ---- */

static void
times_of_a_block_go_with_it(void **state)
{
    struct opt *list = opt_new_list(&arena);
    struct aggset *s;
    void *a, *b, *back;
    struct buf bytes;
    struct err e;

    (void)state;
    (void)util_call(&arena, list, "sum", 1);
    s = util_set(list);
    aggset_keep_times(s);
    a = util_block(s);
    b = util_block(s);
    back = util_block(s);
    aggset_touch(s, a, 7);
    aggset_touch(s, a, 3);
    aggset_touch(s, b, 20);
    aggset_touch(s, b, 9);

    assert_int_equal(aggset_merge(s, a, b, &e), 0);
    buf_init(&bytes);
    assert_int_equal(aggset_encode(s, a, &bytes, &e), 0);
    assert_int_equal(aggset_decode(s, back, bytes.data, bytes.len, &e), 0);

    assert_int_equal(aggset_times(back)->first, 7);
    assert_int_equal(aggset_times(back)->last, 20);
    assert_int_equal(aggset_decode(s, b, bytes.data, 15, &e), ERR_IO);
    buf_fini(&bytes);
    util_drop(s, back);
    util_drop(s, b);
    util_drop(s, a);
    aggset_free(&s);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(top_n_keeps_the_best_whatever_the_order_and_the_parts),
        cmocka_unit_test(top_n_takes_one_type_and_no_nil),
        cmocka_unit_test(a_kept_record_comes_back_with_key_headers_and_flags),
        cmocka_unit_test(records_stand_by_time_then_origin_whatever_the_order),
        cmocka_unit_test(collect_lists_values_by_time_then_origin_then_value),
        cmocka_unit_test(collect_over_its_limit_fails_whatever_the_parts),
        cmocka_unit_test(records_over_their_bound_are_given_up_and_known_to_be),
        cmocka_unit_test(a_skipped_aggregate_does_not_see_the_record),
        cmocka_unit_test(times_of_a_block_go_with_it),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
