/*
 * Which lines of a Lua text can be executed.
 */
#include "script/test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"

enum { LINES = 2000 };

static bool known[LINES];

static void
put(void *arg, int line)
{
    (void)arg;
    assert_in_range(line, 1, LINES - 1);
    known[line] = true;
}

/* The lines of `text` must be those of `want`, "1 2 5 ". */
static void
expect(const char *text, const char *want)
{
    struct buf out;
    struct err e;
    int i;

    memset(known, 0, sizeof known);
    assert_int_equal(script_lines(text, strlen(text), put, NULL, &e), 0);
    buf_init(&out);
    for (i = 0; i < LINES; i++)
        if (known[i])
            buf_addf(&out, "%d ", i);
    assert_string_equal(buf_cstr(&out), want);
    buf_fini(&out);
}

static void
comments_blank_lines_and_ends_cannot_be_executed(void **state)
{
    (void)state;
    expect("-- a comment\n"
           "\n"
           "local a = 1\n"
           "if a then\n"
           "  a = 2\n"
           "else\n"
           "  a = 3\n"
           "end\n",
           "3 4 5 7 ");
}

/* Lua makes a function, and returns it, on the line of its `end`. */
static void
functions_that_nothing_calls_have_lines_too(void **state)
{
    (void)state;
    expect("local M = {}\n"
           "function M.f(x)\n"
           "  return function()\n"
           "    return x\n"
           "  end\n"
           "end\n"
           "return M\n",
           "1 2 4 5 6 7 ");
}

static void
a_function_of_one_line_is_a_line(void **state)
{
    (void)state;
    expect("return { f = function(e) return e.a end }\n", "1 ");
}

static void
a_line_for_the_shell_is_no_line(void **state)
{
    (void)state;
    expect("#!/usr/bin/env lua\nlocal a = 1\n", "2 ");
    expect("\xEF\xBB\xBF#!/usr/bin/env lua\nlocal a = 1\n", "2 ");
    expect("\xEF\xBB\xBFlocal a = 1\n", "1 ");
}

/* More than 127 lines apart, lines are kept another way. */
static void
lines_far_apart_are_found(void **state)
{
    struct buf text;
    int i;

    (void)state;
    buf_init(&text);
    buf_adds(&text, "local a = 1\n");
    for (i = 2; i < 1500; i++)
        buf_addc(&text, '\n');
    buf_adds(&text, "a = 'text that is longer than forty bytes, which Lua "
                    "keeps another way' .. 1.5\nreturn a\n");
    expect(buf_cstr(&text), "1 1500 1501 ");
    buf_fini(&text);
}

static void
many_instructions_keep_their_lines(void **state)
{
    struct buf text, want;
    int i;

    (void)state;
    buf_init(&text);
    buf_init(&want);
    buf_adds(&text, "local t = {}\n");
    buf_adds(&want, "1 ");
    for (i = 2; i < 700; i++) {
        buf_addf(&text, "t[%d] = function() return %d end\n", i, i);
        buf_addf(&want, "%d ", i);
    }
    expect(buf_cstr(&text), buf_cstr(&want));
    buf_fini(&text);
    buf_fini(&want);
}

static void
what_does_not_compile_is_refused(void **state)
{
    struct err e;

    (void)state;
    assert_int_equal(script_lines("local = 1", 9, put, NULL, &e), ERR_JOBFILE);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comments_blank_lines_and_ends_cannot_be_executed),
        cmocka_unit_test(functions_that_nothing_calls_have_lines_too),
        cmocka_unit_test(a_function_of_one_line_is_a_line),
        cmocka_unit_test(a_line_for_the_shell_is_no_line),
        cmocka_unit_test(lines_far_apart_are_found),
        cmocka_unit_test(many_instructions_keep_their_lines),
        cmocka_unit_test(what_does_not_compile_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
