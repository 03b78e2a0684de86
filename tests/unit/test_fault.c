/* Fault points: the n-th hit of a name, and no other. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fault.h"

static void
only_the_nth_hit_is_true(void **state)
{
    int i;

    (void)state;
    fault_setup("a=3,b=1");
    for (i = 1; i <= 6; i++)
        assert_int_equal(fault_check("a"), i == 3);
    assert_true(fault_check("b"));
    assert_false(fault_check("b"));
    assert_false(fault_check("c"));
}

static void
a_plus_goes_on_from_the_nth_hit(void **state)
{
    int i;

    (void)state;
    fault_setup("a=2+");
    for (i = 1; i <= 6; i++)
        assert_int_equal(fault_check("a"), i >= 2);
}

static void
an_exclamation_mark_kills_the_process(void **state)
{
    int status = 0;
    pid_t pid;

    (void)state;
    fault_setup("a=2!");
    pid = fork();
    if (pid == 0) {
        (void)fault_check("a");
        (void)fault_check("a");
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGKILL);
}

static void
malformed_entries_are_ignored(void **state)
{
    (void)state;
    fault_setup("a,=1,b=0,c=x,d=1z,,e=1");
    assert_false(fault_check("a"));
    assert_false(fault_check("b"));
    assert_false(fault_check("c"));
    assert_false(fault_check("d"));
    assert_true(fault_check("e"));
    fault_setup(NULL);
    assert_false(fault_check("e"));
}

static void
points_are_live_in_test_mode_only(void **state)
{
    (void)state;
    fault_setup("a=1");
#ifdef STREAMLUA_TEST_MODE
    assert_true(fault_hit("a"));
#else
    assert_false(fault_hit("a"));
    assert_true(fault_check("a")); /* the call above did not count */
#endif
    fault_setup(NULL);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_nth_hit_is_true),
        cmocka_unit_test(a_plus_goes_on_from_the_nth_hit),
        cmocka_unit_test(an_exclamation_mark_kills_the_process),
        cmocka_unit_test(malformed_entries_are_ignored),
        cmocka_unit_test(points_are_live_in_test_mode_only),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
