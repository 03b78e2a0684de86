/*
 * Test files: Lua that drives a job under `streamlua test`.
 *
 * A test file is loaded by script_load() as a job file is (same libraries, same
 * seals, same caps); script_conf.test_call makes it one. Its tree lists cases:
 * { cases = [ { name, place, faults, job, run, ... } ] }, made by
 * lua/streamlua/testfile.lua. What a case asks of the machine goes through one
 * call by name; what the calls mean is said in testing/session.c.
 *
 * Thread: one, the owner of the script.
 */
#ifndef SCRIPT_TEST_H
#define SCRIPT_TEST_H

#include "script/script.h"

/* Values that stand for others: OPT_FUNC with one of these in `i`. */
enum script_test_mark {
    TEST_ANY = 1,   /* equals everything that is there */
    TEST_APPROX,    /* list of value and distance */
    TEST_TOMBSTONE, /* list of one map: the fields */
};
/* An OPT_MAP of no members with this in `i` came from {}, which may as well
 * be a list. */
enum { TEST_EMPTY = 1 };

/**
 * Call the function of a case.
 * @param func OPT_FUNC `run` of the case. @param limit_ms how long it may
 *        take, of which the time in test_call is a part.
 * @return 0, or ERR_RECORD with where and trace.
 */
MUST_USE int script_test_run(struct script *s, int func, int64_t limit_ms,
                             struct err *e);

/**
 * The lines of a Lua text that can be executed.
 * @param put called for each, in no order, maybe more than once.
 * @return 0 or ERR_JOBFILE: the text does not compile, or this Lua's bytecode
 *         is not known here. @thread any.
 */
MUST_USE int script_lines(const char *text, size_t len,
                          void (*put)(void *arg, int line), void *arg,
                          struct err *e);

#endif
