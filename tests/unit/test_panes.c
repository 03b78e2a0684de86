/*
 * Count windows against plain lists: every size and slide, panes or whole
 * windows, records that are refused, rounds in between.
 */
#include "agg_util.h"
#include "core/panes.h"

enum { RUNS = 300, RECORDS = 200 };

struct adding {
    const struct aggset *inner;
    struct val v;
};

static int
add(void *arg, void *block, struct err *e)
{
    const struct adding *a = arg;

    return aggset_add(a->inner, block, &a->v, NULL, e);
}

/* Through bytes and back, or not. */
static void *
kept(const struct aggset *s, void *block)
{
    void *back;
    struct buf b;
    struct err e;

    if (util_below(10) != 0)
        return block;
    back = util_block(s);
    buf_init(&b);
    assert_int_equal(aggset_encode(s, block, &b, &e), 0);
    assert_int_equal(aggset_decode(s, back, b.data, b.len, &e), 0);
    buf_fini(&b);
    util_drop(s, block);
    return back;
}

static void
run_one(struct aggset *inner, uint32_t size, uint32_t slide)
{
    struct aggset *s = panes_new(inner, size, slide);
    void *block = util_block(s);
    int64_t vals[RECORDS];
    uint32_t n = 0, i, k, full = 0;
    struct err e;

    for (i = 0; i < RECORDS; i++) {
        struct adding a = {.inner = inner,
                           .v = val_int((int64_t)util_below(1000) - 500)};
        void *got = NULL;
        int64_t sum = 0;
        char want[40];
        int r;

        if (util_below(8) == 0)
            a.v = util_sv("no number");
        block = kept(s, block);
        r = panes_add(s, block, add, &a, &got, &e);
        if (a.v.type == VAL_STR) {
            assert_int_equal(r, ERR_RECORD);
            assert_null(got);
            continue;
        }
        assert_int_equal(r, 0);
        vals[n++] = a.v.u.i;
        if (n < size || (n - size) % slide != 0) {
            assert_null(got);
            continue;
        }
        for (k = n - size; k < n; k++)
            sum += vals[k];
        (void)snprintf(want, sizeof want, "sum=%lld", (long long)sum);
        assert_non_null(got);
        assert_string_equal(util_text(inner, got), want);
        full++;
    }
    assert_int_equal(panes_records(block), n);
    assert_int_equal(panes_open(s, block), (n + slide - 1) / slide - full);
    util_drop(s, block);
    aggset_free(&s);
}

static void
each_window_has_the_last_records_of_its_key(void **state)
{
    struct arena a;
    struct opt *list;
    struct aggset *inner;
    int i;

    (void)state;
    (void)util_seed();
    arena_init(&a);
    list = opt_new_list(&a);
    (void)util_call(&a, list, "sum", 1);
    inner = util_set(list);
    for (i = 0; i < RUNS; i++) {
        uint32_t size = 1 + util_below(i % 2 == 0 ? 8 : 60);
        uint32_t slide = util_below(2) == 0 ? size : 1 + util_below(size);

        inner->mergeable = util_below(2) == 0;
        run_one(inner, size, slide);
    }
    aggset_free(&inner);
    arena_fini(&a);
}

static void
damaged_windows_are_refused(void **state)
{
    struct arena a;
    struct opt *list;
    struct aggset *inner, *s, *other;
    struct adding one;
    struct buf b;
    struct err e;
    void *block, *got;
    size_t cut;

    (void)state;
    arena_init(&a);
    list = opt_new_list(&a);
    (void)util_call(&a, list, "sum", 1);
    inner = util_set(list);
    s = panes_new(inner, 4, 2);
    other = panes_new(inner, 3, 3);
    block = util_block(s);
    one = (struct adding){.inner = inner, .v = val_int(1)};
    assert_int_equal(panes_add(s, block, add, &one, &got, &e), 0);
    buf_init(&b);
    assert_int_equal(aggset_encode(s, block, &b, &e), 0);
    util_drop(s, block);

    for (cut = 4; cut < b.len; cut++) {
        uint32_t len = (uint32_t)cut - 4;
        char bytes[256];

        memcpy(bytes, b.data, b.len);
        memcpy(bytes, &len, 4);
        block = util_block(s);
        assert_int_equal(aggset_decode(s, block, bytes, cut, &e), ERR_IO);
        util_drop(s, block);
    }
    block = util_block(other); /* those of another window */
    assert_int_equal(aggset_decode(other, block, b.data, b.len, &e), ERR_IO);
    util_drop(other, block);
    buf_fini(&b);
    aggset_free(&other);
    aggset_free(&s);
    aggset_free(&inner);
    arena_fini(&a);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_window_has_the_last_records_of_its_key),
        cmocka_unit_test(damaged_windows_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
