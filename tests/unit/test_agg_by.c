/* min_by, max_by, first, last: who wins, and every tie. */
#include "agg_util.h"

struct fixture {
    struct arena arena;
    struct aggset *set;
    void *block;
};

/* `names`: NULL for one field, else a comma-free list of one-letter names. */
static void
begin(struct fixture *f, const char *fn, const char *names)
{
    bool by = strcmp(fn, "min_by") == 0 || strcmp(fn, "max_by") == 0;
    int count = names != NULL ? (int)strlen(names) : 1;
    struct opt *list, *call, *what;

    arena_init(&f->arena);
    list = opt_new_list(&f->arena);
    call = util_call(&f->arena, list, fn, by ? 1 + count : 1);
    if (names != NULL) {
        what = opt_new_list(&f->arena);
        for (; *names != '\0'; names++)
            opt_add(&f->arena, what, NULL, opt_new_str(&f->arena, names, 1));
        opt_add(&f->arena, call, "what", what);
        what = opt_new(&f->arena);
        what->type = OPT_BOOL;
        what->i = 1;
        opt_add(&f->arena, call, "what_list", what);
    }
    f->set = util_set(list);
    f->block = util_block(f->set);
}

static void
end(struct fixture *f)
{
    util_drop(f->set, f->block);
    aggset_free(&f->set);
    arena_fini(&f->arena);
}

struct event {
    const char *topic;
    int32_t partition;
    int64_t offset, ts;
    struct val x, what;
};

static void
add(struct fixture *f, void *block, const struct event *v)
{
    struct rec r = {.topic = topic_register(v->topic),
                    .partition = v->partition,
                    .offset = v->offset,
                    .ts = v->ts,
                    .flags = REC_HAS_TS};
    struct val args[2] = {v->x, v->what};
    struct err e;

    err_clear(&e);
    assert_int_equal(aggset_add(f->set, block, args, &r, &e), 0);
}

#define I(n)                                                                   \
    {                                                                          \
        .type = VAL_INT, .u.i = (n)                                            \
    }
#define D(n)                                                                   \
    {                                                                          \
        .type = VAL_DBL, .u.d = (n)                                            \
    }
#define S(t)                                                                   \
    {                                                                          \
        .type = VAL_STR, .len = sizeof(t) - 1, .u.s = (t)                      \
    }
#define L(t)                                                                   \
    {                                                                          \
        .type = VAL_LIST, .len = sizeof(t) - 1, .u.s = (t)                     \
    }
#define NUL                                                                    \
    {                                                                          \
        .type = VAL_NULL                                                       \
    }

struct row {
    const char *fn, *want;
    struct event v[4];
    size_t n;
};

static const struct row rows[] = {
    {"first", "first=null", {{"t", 0, 0, 0, NUL, NUL}}, 1},
    {"first",
     "first=2",
     {{"t", 0, 9, 1, I(2), NUL},
      {"t", 0, 1, 5, I(1), NUL},
      {"t", 0, 0, 0, NUL, NUL}},
     3},
    {"last",
     "last=1",
     {{"t", 0, 9, 1, I(2), NUL},
      {"t", 0, 1, 5, I(1), NUL},
      {"t", 0, 10, 9, NUL, NUL}},
     3},
    /* Negative times come first. */
    {"first",
     "first=\"a\"",
     {{"t", 0, 0, 1, S("b"), NUL}, {"t", 0, 1, -1, S("a"), NUL}},
     2},
    /* Same time: topic by name (registered in the other order), partition,
     * offset. */
    {"first",
     "first=3",
     {{"zz", 0, 0, 1, I(1), NUL},
      {"m", 1, 0, 1, I(2), NUL},
      {"aa", 7, 9, 1, I(3), NUL}},
     3},
    {"last",
     "last=1",
     {{"zz", 0, 0, 1, I(1), NUL},
      {"m", 1, 0, 1, I(2), NUL},
      {"aa", 7, 9, 1, I(3), NUL}},
     3},
    {"first",
     "first=2",
     {{"t", 1, 0, 1, I(1), NUL}, {"t", 0, 9, 1, I(2), NUL}},
     2},
    {"last",
     "last=2",
     {{"t", 0, 3, 1, I(1), NUL}, {"t", 0, 9, 1, I(2), NUL}},
     2},
    /* Same origin: smaller value in the order of keys; int, then -0.0. */
    {"first",
     "first=1",
     {{"t", 0, 0, 1, D(1.0), NUL}, {"t", 0, 0, 1, I(1), NUL}},
     2},
    {"first",
     "first=-0.0",
     {{"t", 0, 0, 1, D(0.0), NUL}, {"t", 0, 0, 1, D(-0.0), NUL}},
     2},
    {"first",
     "first=0",
     {{"t", 0, 0, 1, D(-0.0), NUL}, {"t", 0, 0, 1, I(0), NUL}},
     2},
    {"last",
     "last=0.0",
     {{"t", 0, 0, 1, D(0.0), NUL}, {"t", 0, 0, 1, I(0), NUL}},
     2},
    {"first",
     "first=true",
     {{"t", 0, 0, 1, I(0), NUL},
      {"t", 0, 0, 1, {.type = VAL_BOOL, .u.b = true}, NUL}},
     2},
    {"last",
     "last=[2]",
     {{"t", 0, 0, 1, L("[2]"), NUL}, {"t", 0, 0, 1, S("zz"), NUL}},
     2},
    {"last",
     "last=[NaN]*",
     {{"t", 0, 0, 1, L("[NaN]"), NUL}, {"t", 0, 0, 1, L("[9]"), NUL}},
     2},
    {"min_by",
     "min_by=\"lo\"",
     {{"t", 0, 0, 9, I(2), S("hi")},
      {"t", 0, 1, 8, D(1.5), S("lo")},
      {"t", 0, 2, 1, NUL, S("none")}},
     3},
    {"max_by",
     "max_by=null",
     {{"t", 0, 0, 9, I(2), NUL}, {"t", 0, 1, 8, D(1.5), S("lo")}},
     2},
    {"max_by",
     "max_by=\"a name of some length\"",
     {{"t", 0, 0, 9, S("b"), S("a name of some length")},
      {"t", 0, 1, 8, S("a"), S("another name")}},
     2},
    /* Ties of x, 1 = 1.0: earlier time, then origin, then smaller value. */
    {"max_by",
     "max_by=\"early\"",
     {{"t", 0, 9, 1, D(1.0), S("early")}, {"t", 0, 0, 2, I(1), S("a")}},
     2},
    {"min_by",
     "min_by=\"p0\"",
     {{"t", 1, 0, 1, I(1), S("p1")}, {"t", 0, 9, 1, I(1), S("p0")}},
     2},
    {"max_by",
     "max_by=\"a\"",
     {{"t", 0, 0, 1, I(1), S("b")}, {"t", 0, 0, 1, D(1.0), S("a")}},
     2},
    {"max_by",
     "max_by=null",
     {{"t", 0, 0, 1, I(1), S("b")}, {"t", 0, 0, 1, I(1), NUL}},
     2},
    {"min_by",
     "min_by=7",
     {{"t", 0, 0, 1, I(1), D(7.0)}, {"t", 0, 0, 1, I(1), I(7)}},
     2},
};

static void
winners_are_as_promised_in_any_order(void **state)
{
    size_t i, k, turn;

    (void)state;
    (void)topic_register("zz");
    (void)topic_register("m");
    (void)topic_register("aa");
    for (i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (turn = 0; turn < rows[i].n * 2; turn++) {
            struct fixture f;

            begin(&f, rows[i].fn, NULL);
            for (k = 0; k < rows[i].n; k++) {
                size_t at = (k + turn) % rows[i].n;

                add(&f, f.block,
                    &rows[i].v[turn >= rows[i].n ? rows[i].n - 1 - at : at]);
            }
            assert_string_equal(util_text(f.set, f.block), rows[i].want);
            end(&f);
        }
}

static void
several_fields_give_a_map_in_their_order(void **state)
{
    struct fixture f;
    struct rec r = {0};
    struct err e;
    struct val low[] = {val_int(1), util_sv("x\"y"), val_nil()};
    struct val high[] = {val_int(2), util_sv("z"), val_dbl(2.0)};

    (void)state;
    begin(&f, "max_by", "zb");
    assert_string_equal(util_text(f.set, f.block), "max_by=null");
    assert_int_equal(aggset_add(f.set, f.block, low, &r, &e), 0);
    assert_string_equal(util_text(f.set, f.block),
                        "max_by={\"z\":\"x\\\"y\",\"b\":null}");
    assert_int_equal(aggset_add(f.set, f.block, high, &r, &e), 0);
    assert_string_equal(util_text(f.set, f.block),
                        "max_by={\"z\":\"z\",\"b\":2.0}");
    end(&f);
}

static void
the_topic_travels_by_name(void **state)
{
    struct event a = {"by-name", 0, 0, 1, I(1), NUL};
    struct fixture f;
    struct buf b;
    void *other;

    (void)state;
    begin(&f, "first", NULL);
    add(&f, f.block, &a);
    buf_init(&b);
    assert_int_equal(aggset_encode(f.set, f.block, &b, NULL), 0);
    assert_non_null(memmem(b.data, b.len, "by-name", 7));
    other = util_block(f.set);
    assert_int_equal(aggset_decode(f.set, other, b.data, b.len, NULL), 0);
    assert_string_equal(util_text(f.set, other), "first=1");
    util_drop(f.set, other);
    buf_fini(&b);
    end(&f);
}

static void
wrong_values_are_refused(void **state)
{
    struct val nan_what[] = {val_int(1), val_dbl(0.0 / 0.0)};
    struct val list_x[] = {util_json(VAL_LIST, "[1]"), val_int(1)};
    struct val str[] = {util_sv("s"), val_int(1)};
    struct val num[] = {val_int(1), val_int(1)};
    struct rec r = {0};
    struct fixture f, g;
    struct err e;

    (void)state;
    begin(&f, "min_by", NULL);
    begin(&g, "min_by", NULL);
    assert_int_equal(aggset_add(f.set, f.block, nan_what, &r, &e), ERR_RECORD);
    assert_int_equal(e.cause, CAUSE_TYPE);
    assert_int_equal(aggset_add(f.set, f.block, list_x, &r, &e), ERR_RECORD);
    assert_string_equal(e.msg, "min_by(a): expected a number or a string, "
                               "got list [1]");
    assert_int_equal(aggset_add(f.set, f.block, str, &r, &e), 0);
    assert_int_equal(aggset_add(f.set, f.block, num, &r, &e), ERR_RECORD);
    assert_int_equal(aggset_add(g.set, g.block, num, &r, &e), 0);
    assert_int_equal(aggset_merge(f.set, f.block, g.block, &e), ERR_RECORD);
    assert_int_equal(e.cause, CAUSE_TYPE);
    assert_string_equal(util_text(f.set, f.block), "min_by=!type");
    assert_string_equal(util_text(g.set, g.block), "min_by=null");
    end(&f);
    end(&g);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(winners_are_as_promised_in_any_order),
        cmocka_unit_test(several_fields_give_a_map_in_their_order),
        cmocka_unit_test(the_topic_travels_by_name),
        cmocka_unit_test(wrong_values_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
