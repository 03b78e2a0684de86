/*
 * What `state diff` finds between two checkpoints.
 */
#include "state_make.h"

/* --- two states ----------------------------------------------------------- */

static void
expect_diff(const char *a, const char *b, struct state_ask ask,
            const char *want)
{
    struct state_diff d;
    struct look la, lb;
    struct state_view *const views[2] = {&la.view, &lb.view};

    look_open(&la, a);
    look_open(&lb, b);
    assert_int_equal(state_diff(views, &ask, &la.text, &d, &err), 0);
    buf_addf(&la.text, "%u %u %u\n", (unsigned)d.only_a, (unsigned)d.only_b,
             (unsigned)d.changed);
    assert_string_equal(buf_cstr(&la.text), want);
    look_close(&la);
    look_close(&lb);
}

static void
a_difference_is_missing_added_or_changed(void **state)
{
    static const char *const other[] = {
        "{\"k\":\"a\",\"v\":2.5,\"ts\":1000}",
        "{\"k\":\"a\",\"v\":4,\"ts\":3000}",
        "{\"k\":\"c\",\"v\":4,\"ts\":3000}",
    };
    char *a = make(hopping, 1999, three, 3), *b = make(hopping, 1999, other, 3);

    (void)state;
    expect_diff(a, b, (struct state_ask){0},
                "~ agg {\"k\":\"a\"} [0, 4000) {\"a\":2.75,\"n\":2} -> "
                "{\"a\":3.25,\"n\":2}\n"
                "~ agg {\"k\":\"a\"} [2000, 6000) {\"a\":3.0,\"n\":1} -> "
                "{\"a\":4.0,\"n\":1}\n"
                "- agg {\"k\":\"b\"} [0, 4000) {\"a\":1.0,\"n\":1}\n"
                "+ agg {\"k\":\"c\"} [0, 4000) {\"a\":4.0,\"n\":1}\n"
                "+ agg {\"k\":\"c\"} [2000, 6000) {\"a\":4.0,\"n\":1}\n"
                "1 2 2\n");
    expect_diff(a, b,
                (struct state_ask){.step = "agg", .limit = 1, .json = true},
                "{\"diff\":\"changed\",\"step\":\"agg\",\"key\":{\"k\":\"a\"},"
                "\"window_start\":0,\"window_end\":4000,"
                "\"a\":{\"a\":2.75,\"n\":2},\"b\":{\"a\":3.25,\"n\":2}}\n"
                "1 2 2\n");
    expect_diff(a, a, (struct state_ask){0}, "0 0 0\n");
    remove_dir(a);
    remove_dir(b);
    free(a);
    free(b);
}

/* Of all key groups, and where two states have not the same groups. */
static void
differences_are_found_in_every_key_group(void **state)
{
    static const char middle[] =
        "x:key_by \"k\":window(s.tumbling \"4s\")\n"
        ":aggregate({ n = s.count() }, { name = \"agg\" })\n";
    struct maker m[3];
    char json[64], *dirs[3];
    size_t i, k;

    (void)state;
    for (k = 0; k < 3; k++) {
        key_groups = k == 1 ? 16 : 8;
        maker_init(&m[k], middle);
        for (i = 0; i < (k == 2 ? 1 : MANY); i++) {
            (void)snprintf(json, sizeof json, "{\"k\":%zu,\"ts\":0}", i);
            add(&m[k], json);
        }
        dirs[k] = keep(&m[k], (struct kept_entry){.fired = {WM_NONE}});
    }
    key_groups = 8;
    expect_diff(dirs[0], dirs[1], (struct state_ask){0}, "0 0 0\n");
    expect_diff(dirs[2], dirs[0], (struct state_ask){.limit = 1},
                "+ agg {\"k\":1} [0, 4000) {\"n\":1}\n0 499 0\n");
    expect_diff(dirs[1], dirs[2], (struct state_ask){.limit = 1},
                "- agg {\"k\":1} [0, 4000) {\"n\":1}\n499 0 0\n");
    for (k = 0; k < 3; k++) {
        remove_dir(dirs[k]);
        free(dirs[k]);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_difference_is_missing_added_or_changed),
        cmocka_unit_test(differences_are_found_in_every_key_group),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
