/*
 * What functions say: whether a step's code changed, and the text of migrate.
 */
#include "tests/unit/script_util.h"

/* The step called `name`. */
static const struct opt *
step_of(const struct script *s, const char *name)
{
    const struct opt *o = opt_get(script_job(s), "steps")->first;

    while (o != NULL && !opt_is(o, "name", name))
        o = o->next;
    assert_non_null(o);
    return o;
}

/* The code of filter "f" in a job with `head` above it. */
static void
code_of(const char *head, const char *filter, char out[32])
{
    struct script_conf conf;
    struct script *s;
    char text[2048];

    (void)snprintf(text, sizeof text,
                   JOB_HEAD "%s\nst:filter(%s, { name = 'f' })\n"
                            "  :sink('out', s.stdout())" JOB_END,
                   head, filter);
    conf = conf_of(text);
    s = load_ok(&conf);
    (void)snprintf(out, 32, "%s", opt_str(step_of(s, "f"), "code", "none"));
    script_free(&s);
}

struct change {
    const char *head_a, *a, *head_b, *b;
};

static void
comments_blanks_and_places_are_no_change(void **state)
{
    static const struct change list[] = {
        {"", "function(e) return e.v > 1 end", "-- a comment\n\n",
         "function ( e )\n --[[ long\n]] return e.v>1 -- so\nend"},
        {"local n = 3", "function(e) return e.v > n end", "local n =\n 3",
         "function(e) return e.v > n end"},
        {"local t = { a = 1, b = { 2 }, c = 3 }",
         "function(e) return t[e.k] end", "local t = { c = 3, b = {2}, a = 1 }",
         "function(e) return t[e.k] end"},
        {"local function g(x) return x and g end",
         "function(e) return g(e.v) end",
         "local function g(x) -- again\n return x and g end",
         "function(e) return g(e.v) end"},
    };
    char a[32], b[32];
    size_t i;

    (void)state;
    for (i = 0; i < sizeof list / sizeof list[0]; i++) {
        code_of(list[i].head_a, list[i].a, a);
        code_of(list[i].head_b, list[i].b, b);
        assert_string_equal(a, b);
        assert_int_equal(strlen(a), 16);
    }
}

static void
text_and_what_it_holds_are_a_change(void **state)
{
    static const struct change list[] = {
        {"", "function(e) return e.v > 1 end", "",
         "function(e) return e.v > 2 end"},
        {"", "function(e) return e.v == 'a  b' end", "",
         "function(e) return e.v == 'a b' end"},
        {"local n = 3", "function(e) return e.v > n end", "local n = 3.0",
         "function(e) return e.v > n end"},
        {"local t = { a = 1 }", "function(e) return t[e.k] end",
         "local t = { a = 2 }", "function(e) return t[e.k] end"},
        {"local function g(x) return x end", "function(e) return g(e.v) end",
         "local function g(x) return not x end",
         "function(e) return g(e.v) end"},
        {"local m = { f = function() return 1 end, migrate = function() end }",
         "function(e) return m.f() end",
         "local m = { f = function() return 2 end, migrate = function() end }",
         "function(e) return m.f() end"},
        {"local m = { f = function() return 1 end }",
         "function(e) return m.f() end",
         "local m = { f = function() return 2 end }",
         "function(e) return m.f() end"},
    };
    char a[32], b[32];
    size_t i;

    (void)state;
    for (i = 0; i < sizeof list / sizeof list[0]; i++) {
        code_of(list[i].head_a, list[i].a, a);
        code_of(list[i].head_b, list[i].b, b);
        assert_string_not_equal(a, b);
        assert_int_equal(strlen(a), 16);
        assert_int_equal(strlen(b), 16);
    }
}

static void
what_cannot_be_read_is_said(void **state)
{
    char code[32];

    (void)state;
    code_of("", "load 'return true'", code);
    assert_int_equal(code[0], '?');
    code_of("local t = {} for i = 1, 300 do t[i] = i end",
            "function(e) return t[e.v] end", code);
    assert_int_equal(code[0], '?');
    code_of("local t = { [true] = 1 }", "function(e) return t[e.v] end", code);
    assert_int_equal(code[0], '?');
}

/* The migrate_text of value state "v" declared so. */
static void
text_of(const char *head, const char *handle, char out[32])
{
    struct script_conf conf;
    const struct opt *o;
    struct script *s;
    char text[2048];

    (void)snprintf(text, sizeof text,
                   JOB_HEAD "%s\nst:key_by('k'):process { name = 'p',\n"
                            "on_record = function() end, state = { v = %s } }\n"
                            "  :sink('out', s.stdout())" JOB_END,
                   head, handle);
    conf = conf_of(text);
    s = load_ok(&conf);
    o = opt_at(opt_get(step_of(s, "p"), "state"), 0);
    (void)snprintf(out, 32, "%s", opt_str(o, "migrate_text", "none"));
    script_free(&s);
}

#define OLD "function(old) return old + 1 end"

static void
the_text_of_migrate_is_its_own_whatever_stands_beside_it(void **state)
{
    static const char *const same[][2] = {
        {"", "s.value_state { migrate = " OLD " }"},
        {"", "s.value_state { ttl = '1h', migrate = " OLD ", }"},
        {"", "s.value_state {\n migrate = function(old) -- plus one\n"
             "return old + 1\nend }"},
        {"local f = " OLD, "s.value_state { migrate = f }"},
        {"local f, g = print, " OLD, "s.value_state { migrate = g }"},
        {"local function wrap(t) t.migrate = " OLD " return t end",
         "s.value_state(wrap {})"},
        {"local o = { add = function() end, migrate = " OLD " }",
         "s.value_state { migrate = o.migrate }"},
    };
    static const char *const other[][2] = {
        {"", "s.value_state { migrate = function(old) return old + 2 end }"},
        {"", "s.value_state { migrate = function(x) return x + 1 end }"},
    };
    char first[32], text[32];
    size_t i;

    (void)state;
    text_of("", "s.value_state { migrate = " OLD " }", first);
    assert_int_equal(strlen(first), 16);
    for (i = 0; i < sizeof same / sizeof same[0]; i++) {
        text_of(same[i][0], same[i][1], text);
        assert_string_equal(text, first);
    }
    for (i = 0; i < sizeof other / sizeof other[0]; i++) {
        text_of(other[i][0], other[i][1], text);
        assert_string_not_equal(text, first);
    }
    text_of("", "s.value_state()", text);
    assert_string_equal(text, "none");
}

/* A hash of process "p" with this option of its value state. */
static void
hash_of(const char *option, const char *name, char out[32])
{
    struct script_conf conf;
    struct script *s;
    char text[2048];

    (void)snprintf(text, sizeof text,
                   JOB_HEAD "local function two() return 2 end\n"
                            "st:key_by('k'):process { name = 'p',\n"
                            "state = { a = s.value_state { %s } },\n"
                            "on_record = function() two() end }\n"
                            "  :sink('out', s.stdout())" JOB_END,
                   option);
    conf = conf_of(text);
    s = load_ok(&conf);
    (void)snprintf(out, 32, "%s", opt_str(step_of(s, "p"), name, "none"));
    script_free(&s);
}

static void
the_core_of_a_step_is_its_code_without_migrate(void **state)
{
    char with[32], without[32], core[32];

    (void)state;
    /* Both hold `two`, which counts once in a step. */
    hash_of("migrate = function() return two() end", "code", with);
    hash_of("migrate = function() return two() end", "core", core);
    hash_of("", "code", without);
    assert_int_equal(strlen(core), 16);
    assert_string_equal(core, without);
    assert_string_not_equal(with, without);
    hash_of("", "core", core);
    assert_string_equal(core, "none");
}

static void
a_migrate_whose_text_is_unclear_is_refused(void **state)
{
    struct script_conf conf = conf_of(
        JOB_HEAD "local f, g = function(o) return 1 end, function(o) return 2 "
                 "end\nst:key_by('k'):process { on_record = function() end,\n"
                 "state = { v = s.value_state { migrate = g } } }"
                 ":sink('out', s.stdout())" JOB_END);

    (void)state;
    load_fails(&conf, ERR_JOBFILE,
               "job.lua:6: migrate: the text of the function cannot be told");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comments_blanks_and_places_are_no_change),
        cmocka_unit_test(text_and_what_it_holds_are_a_change),
        cmocka_unit_test(what_cannot_be_read_is_said),
        cmocka_unit_test(the_core_of_a_step_is_its_code_without_migrate),
        cmocka_unit_test(
            the_text_of_migrate_is_its_own_whatever_stands_beside_it),
        cmocka_unit_test(a_migrate_whose_text_is_unclear_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
