/*
 * The equality rule, all of it: every kind of directory against every kind of
 * marker, for both lineages and every flag. The tables are written from the
 * rule (DESIGN section 9, rule 4; API.md section 9.1), not from the code.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "run/decide.h"

enum dir { EMPTY, FIRST_REDO, AT_N, AT_N_REDO, DIRS };
enum mark { NONE, BEHIND, EQUAL, NEXT, AHEAD, MARKS };

enum { N = 5 };

/* No flag, the own lineage, and the job had this prefix before.
 * R run, D discard the redo, C complete it, X refuse, '-' cannot be. */
static const char rule[DIRS][MARKS + 1] = {
    /* of NONE, BEHIND, EQUAL, NEXT, AHEAD */
    [EMPTY] = "R-RXX",
    [FIRST_REDO] = "D-DCX",
    [AT_N] = "XXRXX",
    [AT_N_REDO] = "XXDCX",
};

struct situation {
    enum dir dir;
    enum mark mark;
    bool other_lineage, had_txn, damaged, has_target;
    bool other_prefix; /* the redo was written under another one */
    bool other_owner;  /* the marker is not of the redo's own attempt */
    enum conn_recover recover;
};

static bool
has_redo(const struct situation *s)
{
    return s->dir == FIRST_REDO || s->dir == AT_N_REDO;
}

/* What the flags allow beyond the rule, and what other things forbid. */
static char
expected(const struct situation *s)
{
    char want = rule[s->dir][s->mark];

    if (want == 'C' && s->other_owner && !s->damaged)
        want = 'X'; /* another attempt was committed, a copy's perhaps */

    if (!s->has_target) /* no sink asks for a marker */
        return has_redo(s) ? 'D' : 'R';
    if (has_redo(s) && s->other_prefix) /* its marker is elsewhere */
        return s->recover == RECOVER_REWIND ? 'D' : 'X';
    if (s->mark == NONE)
        return s->dir == AT_N && (!s->had_txn || s->recover == RECOVER_FRESH)
                   ? 'R'
               : s->dir == AT_N_REDO && s->recover == RECOVER_FRESH ? 'D'
                                                                    : want;
    if (s->dir == EMPTY &&
        (s->recover == RECOVER_FRESH || s->recover == RECOVER_DISCARD))
        return 'R';
    if (s->other_lineage)
        return 'X';
    if (s->recover == RECOVER_REWIND && s->dir != EMPTY &&
        (s->mark == AHEAD || s->mark == NEXT) && want == 'X')
        return has_redo(s) ? 'D' : 'R';
    if (want == 'C' && s->damaged)
        return 'X';
    return want;
}

static uint64_t
complete_of(const struct situation *s)
{
    return s->dir == AT_N || s->dir == AT_N_REDO ? N : 0;
}

static uint64_t
marker_of(const struct situation *s)
{
    return complete_of(s) + (uint64_t)s->mark - EQUAL;
}

static struct decide_in
input_of(const struct situation *s)
{
    struct decide_in in = {.job = "ledger",
                           .dir = "data/ledger",
                           .has_target = s->has_target,
                           .store_had_target = s->had_txn,
                           .recover = s->recover,
                           .redo_other_target = s->other_prefix,
                           .redo_owner = s->other_owner ? "here:7 cafe"
                                         : has_redo(s) ? "elsewhere:42 0badcafe"
                                                       : ""};

    in.store.complete = complete_of(s);
    in.store.pending = has_redo(s) ? complete_of(s) + 1 : 0;
    in.store.pending_damaged = s->damaged;
    memset(in.store.lineage, 0x11, sizeof in.store.lineage);
    if (s->mark != NONE) {
        in.marker.found = true;
        in.marker.round = marker_of(s);
        memset(in.marker.lineage, s->other_lineage ? 0x22 : 0x11,
               sizeof in.marker.lineage);
        (void)snprintf(in.marker.owner, sizeof in.marker.owner,
                       "elsewhere:42 0badcafe");
    }
    return in;
}

static char
letter(enum decision d)
{
    static const char letters[] = {[DECIDE_RUN] = 'R',
                                   [DECIDE_COMPLETE] = 'C',
                                   [DECIDE_DISCARD] = 'D',
                                   [DECIDE_REFUSE] = 'X'};

    return letters[d];
}

static void
assert_refusal(const struct situation *s, const struct err *e)
{
    char number[32];
    bool damage =
        s->damaged && s->mark == NEXT && !s->other_lineage && !s->other_prefix;

    assert_int_equal(e->code, damage ? ERR_IO : ERR_CONFIG);
    assert_true(e->hint[0] != '\0');
    assert_non_null(strstr(e->msg, "job ledger"));
    assert_non_null(strstr(e->msg, "data/ledger"));
    if (damage)
        return;
    (void)snprintf(number, sizeof number, "has checkpoint %d",
                   (int)complete_of(s));
    assert_non_null(strstr(e->msg, number));
    if (s->mark == NONE)
        (void)snprintf(number, sizeof number, "marker in Kafka is none");
    else
        (void)snprintf(number, sizeof number, "is checkpoint %d",
                       (int)marker_of(s));
    assert_non_null(strstr(e->msg, number));
}

static void
check(const struct situation *s)
{
    struct decide_in in = input_of(s);
    char got, want = expected(s);
    struct err e;

    err_clear(&e);
    got = letter(decide(&in, &e));
    if (got != want)
        print_message("dir %d marker %d other %d,%d had %d damaged %d has %d "
                      "recover %d: %c, want %c\n",
                      (int)s->dir, (int)s->mark, s->other_lineage,
                      s->other_owner, s->had_txn, s->damaged, s->has_target,
                      (int)s->recover, got, want);
    assert_int_equal(got, want);
    if (want == 'X')
        assert_refusal(s, &e);
    else
        assert_int_equal(e.code, 0);
}

/* Bits of `n`: the flags of a situation. */
static void
check_flags(struct situation *s)
{
    unsigned n;
    int recover;

    for (n = 0; n < 64; n++)
        for (recover = RECOVER_NOT; recover <= RECOVER_DISCARD; recover++) {
            s->other_lineage = (n & 1) != 0;
            s->had_txn = (n & 2) != 0;
            s->damaged = (n & 4) != 0;
            s->has_target = (n & 8) != 0;
            s->other_owner = (n & 16) != 0;
            s->other_prefix = (n & 32) != 0;
            s->recover = (enum conn_recover)recover;
            if ((s->damaged || s->other_owner || s->other_prefix) &&
                !has_redo(s))
                continue;
            check(s);
        }
}

static void
every_combination_is_decided_by_the_rule(void **state)
{
    struct situation s;
    int d, m;

    (void)state;
    for (d = 0; d < DIRS; d++)
        for (m = 0; m < MARKS; m++) {
            if (rule[d][m] == '-')
                continue;
            memset(&s, 0, sizeof s);
            s.dir = (enum dir)d;
            s.mark = (enum mark)m;
            check_flags(&s);
        }
}

/* Said for itself, since a round would be doubled in silence. */
static void
a_redo_without_any_marker_is_not_discarded_under_another_prefix(void **state)
{
    const struct situation s = {
        .dir = AT_N_REDO, .mark = NONE, .has_target = true, .had_txn = false};

    (void)state;
    check(&s);
    assert_int_equal(expected(&s), 'X');
}

static void
a_refusal_says_who_wrote_the_marker_and_both_lineages(void **state)
{
    const struct situation s = {.dir = AT_N_REDO,
                                .mark = AHEAD,
                                .has_target = true,
                                .had_txn = true,
                                .other_lineage = true};
    struct decide_in in = input_of(&s);
    struct err e;

    (void)state;
    err_clear(&e);
    assert_int_equal(decide(&in, &e), DECIDE_REFUSE);

    assert_non_null(strstr(e.msg, "elsewhere:42"));
    assert_non_null(strstr(e.msg, "11111111"));
    assert_non_null(strstr(e.msg, "22222222"));
    assert_non_null(strstr(e.msg, "a redo of 6"));
}

/* A Lua sink's target that keeps no token knows neither lineage nor attempt:
 * numbers alone decide. */
static void
numbers_alone_decide_where_the_target_keeps_no_token(void **state)
{
    static const struct {
        enum dir dir;
        enum mark mark;
        enum conn_recover recover;
        char want;
    } cases[] = {
        {EMPTY, NONE, RECOVER_NOT, 'R'},
        {EMPTY, EQUAL, RECOVER_NOT, 'R'},
        {EMPTY, AHEAD, RECOVER_NOT, 'X'},
        {EMPTY, AHEAD, RECOVER_DISCARD, 'R'},
        {EMPTY, AHEAD, RECOVER_FRESH, 'R'},
        {FIRST_REDO, NONE, RECOVER_NOT, 'D'},
        {FIRST_REDO, NEXT, RECOVER_NOT, 'C'},
        {AT_N, NONE, RECOVER_NOT, 'X'},
        {AT_N, BEHIND, RECOVER_NOT, 'X'},
        {AT_N, EQUAL, RECOVER_NOT, 'R'},
        {AT_N, NEXT, RECOVER_NOT, 'X'},
        {AT_N, AHEAD, RECOVER_REWIND, 'R'},
        {AT_N_REDO, EQUAL, RECOVER_NOT, 'D'},
        {AT_N_REDO, NEXT, RECOVER_NOT, 'C'},
        {AT_N_REDO, AHEAD, RECOVER_NOT, 'X'},
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct situation s = {.dir = cases[i].dir,
                              .mark = cases[i].mark,
                              .has_target = true,
                              .had_txn = true,
                              .other_lineage = true,
                              .other_owner = true,
                              .recover = cases[i].recover};
        struct decide_in in = input_of(&s);
        struct err e;

        err_clear(&e);
        in.sink = "balances";
        in.numbers_only = true;
        assert_int_equal(letter(decide(&in, &e)), cases[i].want);
        if (cases[i].want != 'X')
            continue;
        assert_int_equal(e.code, ERR_CONFIG);
        assert_non_null(strstr(e.msg, "last_round of balances is "));
        assert_null(strstr(e.msg, "Kafka"));
        assert_null(strstr(e.msg, "22222222"));
        assert_true(e.hint[0] != '\0');
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_combination_is_decided_by_the_rule),
        cmocka_unit_test(
            a_redo_without_any_marker_is_not_discarded_under_another_prefix),
        cmocka_unit_test(a_refusal_says_who_wrote_the_marker_and_both_lineages),
        cmocka_unit_test(numbers_alone_decide_where_the_target_keeps_no_token),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
