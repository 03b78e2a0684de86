/* Places: the line of a step's own name, wherever it stands. */
#include "script_util.h"

struct step_place {
    const char *name, *place;
};

static void
expect_places(const char *text, const struct step_place *want)
{
    const struct opt *steps, *step;
    struct script_conf conf;
    struct script *s;
    const char *name;
    size_t i;

    conf = conf_of(text);
    s = load_ok(&conf);
    steps = opt_get(script_job(s), "steps");
    for (i = 0; want[i].name != NULL; i++) {
        for (step = steps->first; step != NULL; step = step->next) {
            name = opt_str(step, "name", "");
            if (strcmp(name, want[i].name) == 0)
                break;
        }
        if (step == NULL)
            fail_msg("no step %s", want[i].name);
        assert_string_equal(opt_str(step, "place", ""), want[i].place);
    }
    script_free(&s);
}

static void
chain_gives_each_step_its_own_line(void **state)
{
    (void)state;
    expect_places(JOB_HEAD "st:event_time { field = \"ts\" }\n"
                           "  :map(function(e)\n"
                           "     return e\n"
                           "   end)\n"
                           "  :filter(function(e) return true end)\n"
                           "  :key_by \"k\"\n"
                           "  :window(s.tumbling \"1m\")\n"
                           "  :aggregate { n = s.count(),\n"
                           "               m = s.sum \"v\" }\n"
                           "  :sink(\"out\", s.stdout())" JOB_END,
                  (const struct step_place[]){{"in", "job.lua:3"},
                                              {"event_time-1", "job.lua:4"},
                                              {"map-1", "job.lua:5"},
                                              {"filter-1", "job.lua:8"},
                                              {"aggregate-1", "job.lua:11"},
                                              {"out", "job.lua:13"},
                                              {NULL, NULL}});
}

static void
comments_strings_and_long_strings_do_not_count(void **state)
{
    (void)state;
    expect_places(JOB_HEAD "st -- :map(\n"
                           "  --[[ :map(\n"
                           "  :map( ]]\n"
                           "  :map(function(e) e.s = \":map(\" .. [==[\n"
                           "    :map( ]] ]==]; return e end)\n"
                           "  :map -- here\n"
                           "  (function(e) return e end)" JOB_END,
                  (const struct step_place[]){{"map-1", "job.lua:7"},
                                              {"map-2", "job.lua:9"},
                                              {NULL, NULL}});
}

static void
chains_within_chains_and_on_one_line_keep_apart(void **state)
{
    (void)state;
    expect_places(JOB_HEAD "local id = function(e) return e end\n"
                           "local a, b = st:map(id)\n"
                           "  :filter(id), st:map(id)\n"
                           "  :filter(id)\n"
                           "a:union(b\n"
                           "    :map(id)\n"
                           "    :map(id))\n"
                           "  :map(id)" JOB_END,
                  (const struct step_place[]){{"map-1", "job.lua:5"},
                                              {"filter-1", "job.lua:6"},
                                              {"map-2", "job.lua:6"},
                                              {"filter-2", "job.lua:7"},
                                              {"map-3", "job.lua:9"},
                                              {"map-4", "job.lua:10"},
                                              {"map-5", "job.lua:11"},
                                              {NULL, NULL}});
}

static void
steps_made_in_loops_and_helpers_have_the_line_of_their_code(void **state)
{
    (void)state;
    expect_places(JOB_HEAD "local function twice(x)\n"
                           "  return x\n"
                           "    :map(function(e) return e end)\n"
                           "end\n"
                           "for i = 1, 2 do\n"
                           "  st = twice(st):filter(function(e) return i end)\n"
                           "end" JOB_END,
                  (const struct step_place[]){{"map-1", "job.lua:6"},
                                              {"filter-1", "job.lua:9"},
                                              {"map-2", "job.lua:6"},
                                              {"filter-2", "job.lua:9"},
                                              {NULL, NULL}});
}

static void
windows_keys_and_aggregators_have_places_of_their_own(void **state)
{
    const struct opt *step;
    struct script_conf conf;
    struct script *s;

    (void)state;
    conf = conf_of(JOB_HEAD "local sum = s.sum \"v\"\n"
                            "st:key_by \"k\"\n"
                            "  :window(s.global())\n"
                            "  :aggregate {\n"
                            "    n = s.count(),\n"
                            "    v = sum }" JOB_END);
    s = load_ok(&conf);
    step = opt_at(opt_get(script_job(s), "steps"), 1);

    assert_string_equal(opt_str(step, "key_place", ""), "job.lua:5");
    assert_string_equal(opt_str(opt_get(step, "window"), "place", ""),
                        "job.lua:6");
    assert_string_equal(opt_str(step, "place", ""), "job.lua:7");
    assert_string_equal(opt_str(opt_at(opt_get(step, "aggs"), 0), "place", ""),
                        "job.lua:8");
    assert_string_equal(opt_str(opt_at(opt_get(step, "aggs"), 1), "place", ""),
                        "job.lua:4");
    script_free(&s);
}

static void
errors_of_steps_name_the_line_of_the_step(void **state)
{
    struct script_conf conf;

    (void)state;
    conf = conf_of(JOB_HEAD "st\n"
                            "  :map(function(e) return e end)\n"
                            "  :filtr(function(e) return e end)" JOB_END);
    load_fails(&conf, ERR_JOBFILE,
               "job.lua:6: stream has no step \"filtr\"; did you mean "
               "\"filter\"?");
    conf = conf_of(JOB_HEAD "st:key_by \"k\"\n"
                            "  :window(s.tumbling \"1m\",\n"
                            "     { latenes = 1 })" JOB_END);
    load_fails(&conf, ERR_JOBFILE,
               "job.lua:5: window: unknown option \"latenes\"; did you mean "
               "\"lateness\"? allowed: lateness, late_output, name");
}

static void
long_paths_are_shown_whole(void **state)
{
    struct script_conf conf;

    (void)state;
    conf = conf_of(JOB_HEAD "st:filtr()" JOB_END);
    conf.path = "/a/very/long/path/that/is/longer/than/what/lua/shows/of/it/"
                "and/still/goes/on/job.lua";
    load_fails(&conf, ERR_JOBFILE,
               "/a/very/long/path/that/is/longer/than/what/lua/shows/of/it/"
               "and/still/goes/on/job.lua:4: stream has no step");
    conf = conf_of(JOB_HEAD "local t = nil\nlocal x = t.y" JOB_END);
    conf.path = "/a/very/long/path/that/is/longer/than/what/lua/shows/of/it/"
                "and/still/goes/on/job.lua";
    load_fails(&conf, ERR_JOBFILE,
               "/a/very/long/path/that/is/longer/than/what/lua/shows/of/it/"
               "and/still/goes/on/job.lua:5: attempt to index a nil value");
}

static void
places_hold_when_the_engine_reads_its_lua_from_a_folder(void **state)
{
    const char *srcdir;
    char dir[512];

    (void)state;
    srcdir = getenv("srcdir");
    (void)snprintf(dir, sizeof dir, "%s/lua", srcdir == NULL ? "." : srcdir);
    assert_int_equal(setenv("STREAMLUA_LUA_DIR", dir, 1), 0);
    chain_gives_each_step_its_own_line(state);
    errors_of_steps_name_the_line_of_the_step(state);
    assert_int_equal(unsetenv("STREAMLUA_LUA_DIR"), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chain_gives_each_step_its_own_line),
        cmocka_unit_test(comments_strings_and_long_strings_do_not_count),
        cmocka_unit_test(chains_within_chains_and_on_one_line_keep_apart),
        cmocka_unit_test(
            steps_made_in_loops_and_helpers_have_the_line_of_their_code),
        cmocka_unit_test(windows_keys_and_aggregators_have_places_of_their_own),
        cmocka_unit_test(errors_of_steps_name_the_line_of_the_step),
        cmocka_unit_test(long_paths_are_shown_whole),
        cmocka_unit_test(
            places_hold_when_the_engine_reads_its_lua_from_a_folder),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
