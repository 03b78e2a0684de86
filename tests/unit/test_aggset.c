/* Sets of aggregates: building, all or nothing, custom types, bytes. */
#include "agg_util.h"

/* A custom aggregator that keeps the sum of a in heap memory and fails at
 * 13; after a failure it is as before, as types must be. */
struct heavy {
    int64_t *sum;
};

static int live; /* heap pieces */

static uint32_t
heavy_size(const struct agg *a)
{
    (void)a;
    return sizeof(struct heavy) + 1; /* the set rounds up */
}

static void
heavy_init(const struct agg *a, void *acc)
{
    struct heavy *h = acc;

    (void)a;
    h->sum = calloc(1, sizeof *h->sum);
    live++;
}

static int
heavy_add(const struct agg *a, void *acc, const struct val *args,
          const struct rec *r, struct err *e)
{
    struct heavy *h = acc;

    (void)a;
    (void)r;
    if (args[0].u.i == 13)
        return err_record(e, CAUSE_USER_ERROR, "unlucky");
    *h->sum += args[0].u.i;
    return 0;
}

static int
heavy_add_never_14(const struct agg *a, void *acc, const struct val *args,
                   const struct rec *r, struct err *e)
{
    if (args[0].u.i == 14)
        return err_record(e, CAUSE_USER_ERROR, "14");
    return heavy_add(a, acc, args, r, e);
}

static int
heavy_merge(const struct agg *a, void *acc, void *from, struct err *e)
{
    struct heavy *h = acc, *other = from;
    int64_t sum = *other->sum;

    (void)a;
    *other->sum = 0;
    if (sum == 99)
        return err_record(e, CAUSE_USER_ERROR, "no merge with 99");
    *h->sum += sum;
    return 0;
}

static int
heavy_result(const struct agg *a, const void *acc, struct buf *out, bool *ext,
             struct err *e)
{
    (void)a;
    (void)ext;
    (void)e;
    json_put_int(out, *((const struct heavy *)acc)->sum);
    return 0;
}

static int
heavy_encode(const struct agg *a, const void *acc, struct buf *out,
             struct err *e)
{
    (void)a;
    (void)e;
    buf_add(out, ((const struct heavy *)acc)->sum, sizeof(int64_t));
    return 0;
}

static int
heavy_decode(const struct agg *a, void *acc, const char *bytes, size_t len,
             struct err *e)
{
    (void)a;
    (void)e;
    assert_int_equal(len, sizeof(int64_t));
    memcpy(((struct heavy *)acc)->sum, bytes, len);
    return 0;
}

static void
heavy_fini(const struct agg *a, void *acc)
{
    struct heavy *h = acc;

    (void)a;
    free(h->sum);
    h->sum = NULL;
    live--;
}

static const struct agg_type heavy_type = {
    .name = "heavy",
    .size = heavy_size,
    .init = heavy_init,
    .add = heavy_add,
    .merge = heavy_merge,
    .result = heavy_result,
    .encode = heavy_encode,
    .decode = heavy_decode,
    .fini = heavy_fini,
};

static struct agg_type picky_type;

static int
make_custom(void *arg, struct agg *a, struct err *e)
{
    (void)arg;
    (void)e;
    picky_type = heavy_type;
    picky_type.add = heavy_add_never_14;
    a->type = opt_is(a->opts, "label", "picky") ? &picky_type : &heavy_type;
    return 0;
}

static struct opt *
custom_call(struct arena *a, struct opt *list, const char *label)
{
    struct opt *call = util_call(a, list, "custom", 1);

    util_str(a, call, "label", label);
    return call;
}

/* heavy, sum, picky, count(a), min */
static struct aggset *
mixed_set(struct arena *a)
{
    struct opt *list = opt_new_list(a);
    struct aggset *s = NULL;
    struct err e;

    (void)custom_call(a, list, "heavy");
    (void)util_call(a, list, "sum", 1);
    (void)custom_call(a, list, "picky");
    (void)util_call(a, list, "count", 1);
    (void)util_call(a, list, "min", 1);
    assert_int_equal(aggset_new(list, util_encode, make_custom, NULL, &s, &e),
                     0);
    assert_int_equal(s->customs, 2);
    assert_int_equal(s->nargs, 5);
    assert_false(s->movable);
    return s;
}

static int
add(struct aggset *s, void *block, const struct val *v, struct err *e)
{
    struct rec r = {0};

    err_clear(e);
    return aggset_add(s, block, v, &r, e);
}

static void
a_failing_record_changes_nothing(void **state)
{
    struct val one[5] = {val_int(1), val_int(1), val_int(1), val_int(1),
                         val_int(1)};
    struct val v[5];
    struct arena a;
    struct aggset *s;
    struct err e;
    void *block;

    (void)state;
    arena_init(&a);
    s = mixed_set(&a);
    block = util_block(s);
    assert_int_equal(add(s, block, one, &e), 0);

    /* The last built-in refuses: neither custom nor built-in has it. */
    memcpy(v, one, sizeof v);
    v[4] = util_sv("x");
    assert_int_equal(add(s, block, v, &e), ERR_RECORD);
    assert_int_equal(e.cause, CAUSE_TYPE);
    assert_string_equal(util_text(s, block),
                        "custom=1 sum=1 custom=1 count=1 min=1");

    /* The first, the second custom one fails. */
    memcpy(v, one, sizeof v);
    v[0] = val_int(13);
    assert_int_equal(add(s, block, v, &e), ERR_RECORD);
    memcpy(v, one, sizeof v);
    v[2] = val_int(14);
    assert_int_equal(add(s, block, v, &e), ERR_RECORD);
    assert_int_equal(e.cause, CAUSE_USER_ERROR);
    assert_string_equal(util_text(s, block),
                        "custom=1 sum=1 custom=1 count=1 min=1");
    util_drop(s, block);
    aggset_free(&s);
    assert_int_equal(live, 0);
    arena_fini(&a);
}

static void
a_failing_merge_consumes_its_source(void **state)
{
    struct val v[5] = {val_int(99), val_int(5), val_int(7), val_int(1),
                       val_int(-2)};
    struct arena a;
    struct aggset *s;
    struct err e;
    void *block, *from;

    (void)state;
    arena_init(&a);
    s = mixed_set(&a);
    block = util_block(s);
    from = util_block(s);
    assert_int_equal(add(s, from, v, &e), 0);
    err_clear(&e);
    assert_int_equal(aggset_merge(s, block, from, &e), ERR_RECORD);
    assert_string_equal(e.msg, "no merge with 99");
    assert_string_equal(util_text(s, block),
                        "custom=0 sum=5 custom=7 count=1 min=-2");
    assert_string_equal(util_text(s, from),
                        "custom=0 sum=null custom=0 count=0 min=null");
    util_drop(s, block);
    util_drop(s, from);
    aggset_free(&s);
    assert_int_equal(live, 0);
    arena_fini(&a);
}

static void
bytes_of_a_list_that_grew_are_those_of_the_old_one(void **state)
{
    static uint32_t order[] = {4, 0, 1, 2, 3};
    const struct agg_places places = {order, 5, 2};
    struct val v[5] = {val_int(3), val_dbl(1.5), val_int(4), val_nil(),
                       util_sv("x")};
    struct arena a;
    struct aggset *s;
    struct err e;
    struct buf b;
    void *block, *back;
    size_t len, whole = 0;

    (void)state;
    arena_init(&a);
    s = mixed_set(&a);
    aggset_set_places(s, &places);
    block = util_block(s);
    assert_int_equal(add(s, block, v, &e), 0);
    buf_init(&b);
    assert_int_equal(aggset_encode(s, block, &b, &e), 0);
    util_drop(s, block);

    for (len = 0; len <= b.len; len++) {
        back = util_block(s);
        if (aggset_decode(s, back, b.data, len, &e) == 0)
            assert_string_equal(
                util_text(s, back),
                ++whole == 1 ? "custom=3 sum=null custom=0 count=0 min=\"x\""
                : whole == 2 ? "custom=3 sum=1.5 custom=0 count=0 min=\"x\""
                             : "custom=3 sum=1.5 custom=4 count=0 min=\"x\"");
        util_drop(s, back);
    }
    assert_int_equal(whole, 4); /* with 2, 3, 4 and all places */
    buf_fini(&b);
    aggset_free(&s);
    assert_int_equal(live, 0);
    arena_fini(&a);
}

static void
bytes_of_what_is_gone_are_skipped_and_no_more_written(void **state)
{
    static uint32_t before[] = {4, 0, 1, 2, 3},
                    after[] = {AGG_NONE, 0, 1, AGG_NONE, 3, 2, 4};
    const struct agg_places was = {before, 5, 2}, is = {after, 7, 2};
    struct val v[5] = {val_int(3), val_dbl(1.5), val_int(4), val_nil(),
                       util_sv("what a string it is")};
    struct arena a;
    struct aggset *s;
    struct err e;
    struct buf old, b;
    void *block, *back;

    (void)state;
    arena_init(&a);
    s = mixed_set(&a);
    aggset_set_places(s, &was);
    block = util_block(s);
    assert_int_equal(add(s, block, v, &e), 0);
    buf_init(&old);
    buf_init(&b);
    assert_int_equal(aggset_encode(s, block, &old, &e), 0);
    util_drop(s, block);

    aggset_set_places(s, &is);
    back = util_block(s);
    assert_int_equal(aggset_decode(s, back, old.data, old.len, &e), 0);
    assert_string_equal(util_text(s, back),
                        "custom=3 sum=1.5 custom=0 count=0 min=null");
    assert_int_equal(aggset_encode(s, back, &b, &e), 0);
    assert_null(memmem(b.data, b.len, "what a string", 13));
    util_drop(s, back);
    back = util_block(s);
    assert_int_equal(aggset_decode(s, back, b.data, b.len, &e), 0);
    assert_string_equal(util_text(s, back),
                        "custom=3 sum=1.5 custom=0 count=0 min=null");
    util_drop(s, back);
    back = util_block(s);
    assert_int_equal(aggset_decode(s, back, b.data, 3, &e), ERR_IO);
    util_drop(s, back);
    buf_fini(&old);
    buf_fini(&b);
    aggset_free(&s);
    assert_int_equal(live, 0);
    arena_fini(&a);
}

static void
copies_and_bytes_are_deep(void **state)
{
    struct val v[5] = {val_int(3), val_dbl(1e300), val_int(4), val_nil(),
                       util_sv("a string on the heap")};
    const char *want = "custom=3 sum=1e+300 custom=4 count=0 "
                       "min=\"a string on the heap\"";
    struct arena a;
    struct aggset *s;
    struct err e;
    struct buf b;
    void *block, *copy, *back;
    size_t len;

    (void)state;
    arena_init(&a);
    s = mixed_set(&a);
    block = util_block(s);
    assert_int_equal(add(s, block, v, &e), 0);
    copy = malloc(s->size);
    assert_int_equal(aggset_dup(s, block, copy, &e), 0);
    buf_init(&b);
    assert_int_equal(aggset_encode(s, block, &b, &e), 0);
    util_drop(s, block);
    assert_string_equal(util_text(s, copy), want);
    util_drop(s, copy);
    back = util_block(s);
    assert_int_equal(aggset_decode(s, back, b.data, b.len, &e), 0);
    assert_string_equal(util_text(s, back), want);
    util_drop(s, back);

    for (len = 0; len < 4; len++) {
        back = util_block(s);
        assert_int_equal(aggset_decode(s, back, b.data, len, &e), ERR_IO);
        util_drop(s, back);
    }
    back = util_block(s);
    buf_addc(&b, 0);
    assert_int_equal(aggset_decode(s, back, b.data, b.len, &e), ERR_IO);
    util_drop(s, back);
    buf_fini(&b);
    aggset_free(&s);
    assert_int_equal(live, 0);
    arena_fini(&a);
}

static void
accumulators_are_aligned(void **state)
{
    struct arena a;
    struct opt *list;
    struct aggset *s = NULL;
    struct err e;
    uint32_t i;

    (void)state;
    arena_init(&a);
    list = opt_new_list(&a);
    (void)custom_call(&a, list, "heavy");
    (void)util_call(&a, list, "sum", 1);
    assert_int_equal(aggset_new(list, util_encode, make_custom, NULL, &s, &e),
                     0);
    for (i = 0; i < s->count; i++)
        assert_int_equal(s->aggs[i].offset % 8, 0);
    aggset_free(&s);
    aggset_free(&s);
    arena_fini(&a);
}

static void
bad_calls_are_refused_with_their_place(void **state)
{
    static const struct {
        const char *fn;
        int nargs;
        const char *option, *text, *message;
    } bad[] = {
        {"summ", 1, NULL, NULL, "unknown aggregate function \"summ\""},
        {"sum", 0, NULL, NULL, "sum: wrong number of arguments (0)"},
        {"count", 2, NULL, NULL, "count: wrong number of arguments (2)"},
        {"min_by", 1, NULL, NULL, "min_by: wrong number of arguments (1)"},
        {"sum", 1, "overflow", "wrap",
         "sum: overflow must be \"error\", \"float\" or \"string\", got "
         "\"wrap\""},
        {"sum", 1, "as", "int", "sum: as must be \"float\", got \"int\""},
        {"custom", 1, NULL, NULL, "a custom aggregator needs a script"},
        {"percentile", 1, NULL, NULL, "percentile: q must be a number"},
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct arena a;
        struct opt *list, *call;
        struct aggset *s = NULL;
        struct err e;

        arena_init(&a);
        list = opt_new_list(&a);
        (void)util_call(&a, list, "distinct", 1);
        call = util_call(&a, list, bad[i].fn, bad[i].nargs);
        if (bad[i].option != NULL)
            util_str(&a, call, bad[i].option, bad[i].text);
        err_clear(&e);
        assert_int_equal(aggset_new(list, util_encode, NULL, NULL, &s, &e),
                         ERR_JOBFILE);
        assert_string_equal(e.msg, bad[i].message);
        assert_string_equal(e.where, "job.lua:7");
        assert_null(s);
        arena_fini(&a);
    }
}

static void
every_function_is_found_by_name(void **state)
{
    static const char *const fns[] = {
        "count",      "sum",        "avg",         "min",      "max",
        "min_by",     "max_by",     "first",       "last",     "var_pop",
        "var_samp",   "stddev_pop", "stddev_samp", "distinct", "count_distinct",
        "percentile",
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof fns / sizeof fns[0]; i++) {
        const struct agg_type *t = agg_type_find(fns[i]);

        assert_non_null(t);
        assert_string_equal(t->name, fns[i]);
        assert_true(t->movable);
    }
    assert_null(agg_type_find("custom"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failing_record_changes_nothing),
        cmocka_unit_test(a_failing_merge_consumes_its_source),
        cmocka_unit_test(bytes_of_a_list_that_grew_are_those_of_the_old_one),
        cmocka_unit_test(bytes_of_what_is_gone_are_skipped_and_no_more_written),
        cmocka_unit_test(copies_and_bytes_are_deep),
        cmocka_unit_test(accumulators_are_aligned),
        cmocka_unit_test(bad_calls_are_refused_with_their_place),
        cmocka_unit_test(every_function_is_found_by_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
