/* Option trees: what is absent or of another type reads as the default. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/opts.h"

static struct opt *
tree(struct arena *a)
{
    struct opt *o = opt_new_map(a), *list = opt_new_list(a), *c;

    opt_add(a, o, "n", opt_new_int(a, 7));
    opt_add(a, o, "s", opt_new_str(a, "text", 4));
    c = opt_new(a);
    c->type = OPT_BOOL;
    c->i = 1;
    opt_add(a, o, "b", c);
    c = opt_new(a);
    c->type = OPT_DBL;
    c->d = 0.5;
    opt_add(a, o, "d", c);
    c = opt_new(a);
    c->type = OPT_FUNC;
    c->i = 3;
    opt_add(a, o, "f", c);
    opt_add(a, list, NULL, opt_new_int(a, 1));
    opt_add(a, list, NULL, opt_new_str(a, "x", 1));
    opt_add(a, o, "l", list);
    return o;
}

static void
members_read_by_name_and_type(void **state)
{
    struct arena a;
    const struct opt *o;

    (void)state;
    arena_init(&a);
    o = tree(&a);
    assert_int_equal(opt_int(o, "n", 1), 7);
    assert_true(opt_dbl(o, "n", 1) == 7.0);
    assert_true(opt_dbl(o, "d", 1) == 0.5);
    assert_true(opt_bool(o, "b", false));
    assert_string_equal(opt_str(o, "s", ""), "text");
    assert_int_equal(opt_func(o, "f"), 3);
    assert_true(opt_is(o, "s", "text"));
    assert_int_equal(opt_get(o, "l")->len, 2);
    assert_int_equal(opt_at(opt_get(o, "l"), 0)->i, 1);
    assert_string_equal(opt_at(opt_get(o, "l"), 1)->s, "x");
    arena_fini(&a);
}

static void
absent_or_other_types_read_as_the_default(void **state)
{
    struct arena a;
    const struct opt *o;

    (void)state;
    arena_init(&a);
    o = tree(&a);
    assert_null(opt_get(o, "x"));
    assert_null(opt_get(NULL, "x"));
    assert_null(opt_get(opt_get(o, "n"), "x"));
    assert_null(opt_at(opt_get(o, "l"), 2));
    assert_null(opt_at(NULL, 0));
    assert_int_equal(opt_int(o, "s", -1), -1);
    assert_int_equal(opt_int(o, "d", -1), -1);
    assert_int_equal(opt_int(NULL, "n", -1), -1);
    assert_true(opt_dbl(o, "s", 2.5) == 2.5);
    assert_false(opt_bool(o, "n", false));
    assert_null(opt_str(o, "n", NULL));
    assert_int_equal(opt_func(o, "n"), 0);
    assert_false(opt_is(o, "x", "text"));
    arena_fini(&a);
}

static void
trees_are_written_as_json_in_their_order(void **state)
{
    struct arena a;
    struct buf b;

    (void)state;
    arena_init(&a);
    buf_init(&b);
    opt_put_json(&b, tree(&a));
    assert_string_equal(buf_cstr(&b),
                        "{\"n\":7,\"s\":\"text\",\"b\":true,\"d\":0.5,"
                        "\"f\":{\"func\":3},\"l\":[1,\"x\"]}");
    buf_clear(&b);
    opt_put_json(&b, NULL);
    assert_string_equal(buf_cstr(&b), "null");
    buf_fini(&b);
    arena_fini(&a);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_read_by_name_and_type),
        cmocka_unit_test(absent_or_other_types_read_as_the_default),
        cmocka_unit_test(trees_are_written_as_json_in_their_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
