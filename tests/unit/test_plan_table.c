/*
 * What each kind of change keeps: every row of the table in doc/changes.md is
 * a change here, with the verdict that the table gives it.
 */
#include <stdio.h>

#include "fit_tree.h"

#define FILTER(name, line, code, from)                                         \
    "{kind:'filter', name:'" name "', place:'j.lua:" line "', code:'" code     \
    "', func:@1, inputs:[{step:" from "}]}"
#define KEYED(line, rest)                                                      \
    "{kind:'aggregate', name:'w', place:'j.lua:" line "', " rest "}"
/* in, w, out, with w behind step 1. */
#define W(rest) IN KEYED("5", rest ", inputs:[{step:1}]") SINK("9", "2")
#define GLOBAL "window:{kind:'global'}, lateness_ms:0, "
#define AGGS(list) "aggs:[" list "]"
#define BASE KEY GLOBAL AGGS(COUNT "," CUSTOM)
#define CUSTOM_ARGS(rest)                                                      \
    "{name:'c', fn:'custom', label:'c', args:[{field:'u'}], init:@1, add:@2,"  \
    " result:@4, place:'j.lua:9'" rest "}"
#define MIGRATE(text) ", migrate:@9, migrate_text:'" text "'"
#define PROC(state)                                                            \
    IN "{kind:'process', name:'w', place:'j.lua:5', " KEY "state:[" state      \
       "], on_record:@1, inputs:[{step:1}]}" SINK("9", "2")
#define PROC_CODE(state, code)                                                 \
    IN "{kind:'process', name:'w', place:'j.lua:5', " KEY "state:[" state      \
       "], " code ", on_record:@1, inputs:[{step:1}]}" SINK("9", "2")
#define HANDLE(name, kind, ttl, rest)                                          \
    "{name:'" name "', kind:'" kind "', ttl_ms:" ttl rest "}"
#define DEDUP(ttl)                                                             \
    IN "{kind:'dedup', name:'w', place:'j.lua:5', " KEY "keep:'first',"        \
       " ttl_ms:" ttl ", inputs:[{step:1}]}" SINK("9", "2")
#define AUTO2(a, b)                                                            \
    IN "{kind:'aggregate', name:'aggregate-1', auto:true, place:'j.lua:5',"    \
       " key:[{name:'" a "', field:'" a "'}], " GLOBAL                         \
       AGGS(COUNT) ", inputs:[{step:1}]}"                                      \
                   "{kind:'aggregate', name:'aggregate-2', auto:true, "        \
                   "place:'j.lua:6',"                                          \
                   " key:[{name:'" b "', field:'" b "'}], " GLOBAL             \
                   AGGS(COUNT) ", inputs:[{step:1}]}" SINK("9", "2")           \
                       TAP("tap", "3")
#define TOPICS(list)                                                           \
    "{kind:'source', name:'in', place:'j.lua:1', connector:'kafka',"           \
    " conn:{topic:[" list "]}}" SINK("9", "1")
#define NULLS(on_null)                                                         \
    W("key:[{name:'a', field:'a'}], on_null:'" on_null "', " GLOBAL AGGS(COUNT))

struct row {
    const char *change; /* as doc/changes.md says it */
    const char *verdict;
    const char *step; /* whose verdict it is */
    const char *was, *is;
    const char *why;           /* begin of the reason */
    const char *was_job, *job; /* options; NULL: the usual ones */
    const char *name;          /* of the job; NULL: "t" */
};

static const struct row rows[] = {
    {"nothing", "kept", "w", W(BASE), W(BASE), "", NULL, NULL, NULL},
    {"functions of a step without state", "changed code", "f",
     IN FILTER("f", "2", "aa", "1") SINK("9", "2"),
     IN FILTER("f", "2", "bb", "1") SINK("9", "2"), "its functions changed",
     NULL, NULL, NULL},
    {"functions of a step with state", "changed code", "w",
     W(BASE ", code:'aa'"), W(BASE ", code:'bb'"), "its functions changed",
     NULL, NULL, NULL},
    {"functions whose text cannot be read", "kept", "f",
     IN FILTER("f", "2", "?aa", "1") SINK("9", "2"),
     IN FILTER("f", "2", "?bb", "1") SINK("9", "2"),
     "its functions may have changed", NULL, NULL, NULL},
    {"`filter`, `map`, `flat_map`, `select`, `split` added", "new", "f",
     IN SINK("9", "1"), IN FILTER("f", "2", "aa", "1") SINK("9", "2"), "", NULL,
     NULL, NULL},
    {"`filter`, `map`, `flat_map`, `select`, `split` removed", "removed", "f",
     IN FILTER("f", "2", "aa", "1") SINK("9", "2"), IN SINK("9", "1"), "", NULL,
     NULL, NULL},
    {"`filter`, `map`, `flat_map`, `select`, `split` moved", "kept", "f",
     IN FILTER("f", "2", "aa", "1") FILTER("g", "3", "bb", "2") SINK("9", "3"),
     IN FILTER("g", "2", "bb", "1") FILTER("f", "3", "aa", "2") SINK("9", "3"),
     "", NULL, NULL, NULL},
    {"options of a step or a sink", "changed code", "tap",
     IN "{kind:'sink', name:'tap', place:'j.lua:9', connector:'kafka',"
        " conn:{topic:'a'}, inputs:[{step:1}]}",
     IN "{kind:'sink', name:'tap', place:'j.lua:9', connector:'kafka',"
        " conn:{topic:'b'}, inputs:[{step:1}]}",
     "its options changed", NULL, NULL, NULL},
    {"`lateness`, `on_null`, `on_error`", "changed code", "w", NULLS("skip"),
     NULLS("fail"), "its options changed", NULL, NULL, NULL},
    {"`ttl` of a state handle or of `dedup`", "changed code", "w", DEDUP("-1"),
     DEDUP("1000"), "its options changed", NULL, NULL, NULL},
    {"`parallelism`, `slots`", "kept", "w", W(BASE), W(BASE),
     "parallelism was 2, is 4", NULL, "parallelism:4", NULL},
    {"`mini_batch`, `checkpoint`, `restart` and other options of the job",
     "kept", "w", W(BASE), W(BASE), "", NULL,
     "parallelism:2, mini_batch:{size:7}", NULL},
    {"a sink added", "new", "tap", IN SINK("9", "1"),
     IN SINK("9", "1") TAP("tap", "1"), "", NULL, NULL, NULL},
    {"a sink removed, but for file sinks", "removed", "tap",
     IN SINK("9", "1") TAP("tap", "1"), IN SINK("9", "1"), "", NULL, NULL,
     NULL},
    {"a source or a step with state added", "new", "w", IN SINK("9", "1"),
     W(BASE), "", NULL, NULL, NULL},
    {"a topic of a source added", "changed code", "in", TOPICS("'t'"),
     TOPICS("'t', 'u'"), "its options changed", NULL, NULL, NULL},
    {"an aggregate added to a step", "changed code", "w",
     W(KEY GLOBAL AGGS(COUNT)), W(BASE),
     "c added: it begins empty in the windows that are open", NULL, NULL, NULL},
    {"aggregates in another order", "changed code", "w", W(BASE),
     W(KEY GLOBAL AGGS(CUSTOM "," COUNT)), "its options changed", NULL, NULL,
     NULL},
    {"a state handle added", "changed code", "w",
     PROC(HANDLE("v", "value", "-1", "")),
     PROC(HANDLE("u", "value", "-1", "") "," HANDLE("v", "value", "-1", "")),
     "state u added: it begins empty", NULL, NULL, NULL},
    {"`args` of an aggregator that has `migrate`", "kept, migrated", "w",
     W(BASE), W(KEY GLOBAL AGGS(COUNT "," CUSTOM_ARGS(MIGRATE("m")))),
     "c through migrate", NULL, NULL, NULL},
    {"`migrate` of an aggregator or state handle, new or with another text",
     "kept, migrated", "w", PROC(HANDLE("v", "value", "-1", MIGRATE("m"))),
     PROC(HANDLE("v", "value", "-1", MIGRATE("n"))), "v through migrate", NULL,
     NULL, NULL},
    {"`value`, `reducing` and an aggregator's state for one another, with "
     "`migrate`",
     "kept, migrated", "w", PROC(HANDLE("v", "value", "-1", "")),
     PROC(HANDLE("v", "reducing", "-1", ", func:@3" MIGRATE("m"))),
     "v through migrate", NULL, NULL, NULL},
    {"`migrate` taken out, and nothing else of the step changed",
     "changed code", "w",
     PROC_CODE(HANDLE("v", "value", "-1", MIGRATE("m")), "code:'b', core:'a'"),
     PROC_CODE(HANDLE("v", "value", "-1", ""), "code:'a'"),
     "its functions changed", NULL, NULL, NULL},
    {"`migrate` taken out, and other functions of the step changed",
     "state loss", "w",
     PROC_CODE(HANDLE("v", "value", "-1", MIGRATE("m")), "code:'b', core:'a'"),
     PROC_CODE(HANDLE("v", "value", "-1", ""), "code:'c'"),
     "state v has no migrate any more", NULL, NULL, NULL},
    {"an aggregate removed", "state loss", "w", W(BASE),
     W(KEY GLOBAL AGGS(COUNT)),
     "aggregate c removed: its part is given up, the others are kept", NULL,
     NULL, NULL},
    {"the arguments of an aggregate", "state loss", "w", W(BASE),
     W(KEY GLOBAL AGGS(COUNT "," CUSTOM_ARGS(""))),
     "arguments of aggregate c changed", NULL, NULL, NULL},
    {"the key fields of a step", "state loss", "w", W(BASE),
     W("key:[{name:'b', field:'b'}], " GLOBAL AGGS(COUNT "," CUSTOM)),
     "key changed from [a, k=lua] to [b]", NULL, NULL, NULL},
    {"the window of a step", "state loss", "w", W(BASE),
     W(KEY "window:{kind:'none'}, ttl_ms:-1, " AGGS(COUNT "," CUSTOM)),
     "window changed from global", NULL, NULL, NULL},
    {"the kind of a state handle", "state loss", "w",
     PROC(HANDLE("v", "value", "-1", "")),
     PROC(HANDLE("v", "map", "-1", MIGRATE("m"))),
     "state v changed from value to map", NULL, NULL, NULL},
    {"a state handle removed", "state loss", "w",
     PROC(HANDLE("u", "value", "-1", "") "," HANDLE("v", "value", "-1", "")),
     PROC(HANDLE("v", "value", "-1", "")), "state u removed", NULL, NULL, NULL},
    {"a step with state removed, or its name given to another kind",
     "state loss", "w", W(BASE), IN SINK("9", "1"),
     "aggregate removed (j.lua:5)", NULL, NULL, NULL},
    {"a source removed, or its connector changed", "state loss", "f",
     IN FILES("f", "2", "d") SINK("9", "1") TAP("tap", "2"), IN SINK("9", "1"),
     "source removed (j.lua:2)", NULL, NULL, NULL},
    {"a topic of a source removed", "state loss", "in", TOPICS("'t', 'u'"),
     TOPICS("'t'"), "topic u removed", NULL, NULL, NULL},
    {"a file sink removed", "state loss", "p",
     IN PARTS("p", "3", "d") SINK("4", "1"), IN SINK("4", "1"),
     "sink removed (j.lua:3)", NULL, NULL, NULL},
    {"the directory of a file sink", "refused", "p", IN PARTS("p", "3", "d"),
     IN PARTS("p", "3", "e"), "the directory of a file sink is fixed", NULL,
     NULL, NULL},
    {"steps with state and automatic names added, removed or moved", "refused",
     "aggregate-1", AUTO2("a", "b"), AUTO2("b", "a"), "name it first", NULL,
     NULL, NULL},
    {"the name of the job", "refused", "(job)", IN SINK("9", "1"),
     IN SINK("9", "1"), "the state is of job \"t\"", NULL, NULL, "u"},
    {"`max_parallelism`", "refused", "(job)", IN SINK("9", "1"),
     IN SINK("9", "1"), "max_parallelism is 256", NULL,
     "parallelism:2, max_parallelism:256", NULL},
};

static const struct fit_step *
find(const struct fixture *f, const char *name)
{
    uint32_t i;

    for (i = 0; i < f->fit.count; i++)
        if (strcmp(f->fit.steps[i].step, name) == 0)
            return &f->fit.steps[i];
    return NULL;
}

static void
meet_row(struct fixture *f, const struct row *r, unsigned flags)
{
    describe(f, r->was_job != NULL ? r->was_job : OPTIONS, r->was);
    build(&f->is, r->name != NULL ? r->name : "t",
          r->job != NULL ? r->job : OPTIONS, r->is);
    compare(f, flags);
}

static void
each_row_has_the_verdict_of_the_table(void **state)
{
    const struct fit_step *s;
    const char *reason;
    struct fixture f;
    bool bad;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct row *r = &rows[i];

        meet_row(&f, r, 0);
        s = find(&f, r->step);
        if (s == NULL)
            fail_msg("%s: no row of %s", r->change, r->step);
        if (strcmp(plan_fit_word(s->verdict), r->verdict) != 0)
            fail_msg("%s: %s %s, not %s", r->change, r->step,
                     plan_fit_word(s->verdict), r->verdict);
        reason = s->why[0] != '\0' ? s->why : s->note;
        if (strstr(reason, r->why) != reason ||
            (r->why[0] == '\0') != (reason[0] == '\0'))
            fail_msg("%s: \"%s\", not \"%s\"", r->change, reason, r->why);
        bad = s->verdict == FIT_LOST || s->verdict == FIT_REFUSED;
        assert_int_equal(f.code, bad ? ERR_JOBFILE : 0);
        end(&f);

        meet_row(&f, r, FIT_ALLOW_LOSS);
        bad = strcmp(r->verdict, "refused") == 0;
        assert_int_equal(f.code, bad ? ERR_JOBFILE : 0);
        end(&f);
    }
}

/* The page has each row once, word by word, and no other. */
static void
the_page_has_these_rows_and_no_others(void **state)
{
    const char *srcdir = getenv("srcdir");
    char path[512], line[1024], expected[1024];
    size_t n = 0;
    FILE *in;

    (void)state;
    (void)snprintf(path, sizeof path, "%s/doc/changes.md",
                   srcdir != NULL ? srcdir : ".");
    in = fopen(path, "r");
    assert_non_null(in);
    while (fgets(line, sizeof line, in) != NULL &&
           strcmp(line, "## State loss\n") != 0) {
        if (line[0] != '|' || line[1] == '-' ||
            strncmp(line, "| change |", 10) == 0)
            continue;
        if (n == sizeof rows / sizeof rows[0])
            fail_msg("a row that is not tested: %s", line);
        (void)snprintf(expected, sizeof expected, "| %s | %s |", rows[n].change,
                       rows[n].verdict);
        if (strncmp(line, expected, strlen(expected)) != 0)
            fail_msg("expected %s\ngot %s", expected, line);
        n++;
    }
    (void)fclose(in);
    assert_int_equal(n, sizeof rows / sizeof rows[0]);
}

/* ---- how it is printed ---- */

static void
table_summary_and_json_tell_all_steps(void **state)
{
    struct fixture f;
    struct buf out;

    (void)state;
    meet(&f,
         IN FILTER("f", "2", "aa", "1") KEYED("5", BASE ", inputs:[{step:2}]")
             FILTER("g", "7", "cc", "3") SINK("9", "4"),
         IN FILTER("f", "2", "bb", "1") KEYED("5", BASE ", inputs:[{step:2}]")
             SINK("9", "3"),
         0);
    assert_int_equal(f.code, 0);
    buf_init(&out);
    plan_fit_table(&f.fit, &out);
    assert_string_equal(buf_cstr(&out),
                        "STEP  KIND       VERDICT       WHY\n"
                        "in    source     kept\n"
                        "f     filter     changed code  its functions changed\n"
                        "w     aggregate  kept\n"
                        "out   sink       kept\n"
                        "g     filter     removed\n");
    buf_clear(&out);
    plan_fit_summary(&f.fit, &out);
    assert_string_equal(buf_cstr(&out), "kept w; changed f; removed g");
    buf_clear(&out);
    plan_fit_json(&f.fit, &out);
    assert_non_null(strstr(buf_cstr(&out),
                           "[{\"step\":\"in\",\"kind\":\"source\","
                           "\"verdict\":\"kept\",\"why\":\"\"},"
                           "{\"step\":\"f\",\"kind\":\"filter\","
                           "\"verdict\":\"changed code\","
                           "\"why\":\"its functions changed\"},"));
    end(&f);

    meet(&f, IN SINK("9", "1"), IN SINK("9", "1"), 0);
    buf_clear(&out);
    plan_fit_summary(&f.fit, &out);
    assert_string_equal(buf_cstr(&out), "nothing changed");
    end(&f);
    buf_fini(&out);
}

/* As the program before wrote it: no hashes, no list of others. */
static void
a_description_of_before_is_kept_without_guesses(void **state)
{
    static const char before[] =
        "{\"version\":1,\"job\":\"t\",\"max_parallelism\":128,\"steps\":["
        "{\"name\":\"in\",\"kind\":\"source\",\"auto\":false,"
        "\"place\":\"j.lua:1\",\"parallelism\":2,\"from\":[],"
        "\"connector\":\"kafka\",\"topic\":[\"t\",\"u\"]},"
        "{\"name\":\"w\",\"kind\":\"aggregate\",\"auto\":false,"
        "\"place\":\"j.lua:5\",\"parallelism\":2,\"from\":[\"in\"],"
        "\"key\":[{\"name\":\"a\",\"field\":\"a\"}],"
        "\"window\":{\"kind\":\"global\"},\"lateness_ms\":0,"
        "\"aggs\":[{\"name\":\"n\",\"fn\":\"count\",\"args\":[]}]},"
        "{\"name\":\"out\",\"kind\":\"sink\",\"auto\":false,"
        "\"place\":\"j.lua:9\",\"parallelism\":2,\"from\":[\"w\"],"
        "\"connector\":\"stdout\"}]}";
    struct fixture f;
    struct buf out;

    (void)state;
    buf_init(&f.state);
    buf_adds(&f.state, before);
    build(&f.was, "t", OPTIONS, IN SINK("9", "1"));
    build(&f.is, "t", OPTIONS,
          IN FILTER("f", "2", "bb", "1")
              KEYED("5", "key:[{name:'a', field:'a'}], " GLOBAL AGGS(
                             COUNT) ", code:'aa', inputs:[{step:2}]")
                  SINK("9", "3"));
    compare(&f, 0);
    assert_int_equal(f.code, 0);

    buf_init(&out);
    plan_fit_summary(&f.fit, &out);
    assert_string_equal(buf_cstr(&out), "kept w");
    assert_non_null(strstr(find(&f, "f")->note, "noted no such steps"));
    assert_string_equal(find(&f, "w")->note, "");
    buf_fini(&out);
    end(&f);
}

static const bool *
migrates(const struct fixture *f, const char *name)
{
    uint32_t i = 0;

    while (strcmp(f->is.p->steps[i].name, name) != 0)
        i++;
    return f->is.p->steps[i].migrates;
}

static void
steps_know_what_passes_through_migrate(void **state)
{
    struct fixture f;

    (void)state;
    meet(&f, W(BASE), W(KEY GLOBAL AGGS(COUNT "," CUSTOM_ARGS(MIGRATE("m")))),
         0);
    assert_int_equal(f.code, 0);
    assert_non_null(migrates(&f, "w"));
    assert_false(migrates(&f, "w")[0]);
    assert_true(migrates(&f, "w")[1]);
    assert_null(migrates(&f, "in"));
    end(&f);

    meet(&f, W(KEY GLOBAL AGGS(COUNT "," CUSTOM_ARGS(MIGRATE("m")))),
         W(KEY GLOBAL AGGS(COUNT "," CUSTOM_ARGS(MIGRATE("m")))), 0);
    assert_int_equal(f.code, 0);
    assert_null(migrates(&f, "w"));
    end(&f);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_row_has_the_verdict_of_the_table),
        cmocka_unit_test(the_page_has_these_rows_and_no_others),
        cmocka_unit_test(table_summary_and_json_tell_all_steps),
        cmocka_unit_test(a_description_of_before_is_kept_without_guesses),
        cmocka_unit_test(steps_know_what_passes_through_migrate),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
