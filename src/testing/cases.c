#include "testing/cases.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"
#include "script/test.h"
#include "testing/coverage.h"
#include "testing/find.h"
#include "testing/session.h"

enum {
    CASE_TIMEOUT_MS = 10000,
    VARIANTS_LEAST = 4, /* seeds are added until there are so many */
    VARIANTS_MAX = 2 * 3 * 2 * VARIANTS_LEAST
};

struct runner {
    const struct cases_conf *conf;
    struct coverage *coverage;
    const char *path; /* of the test file */
    char *dir;        /* its folder with '/', or "" */
    struct script *test;
    struct session *session; /* of the case that runs now */
    size_t ran;              /* cases, and files that did not load */
};

/* The job of a case. */
struct job {
    char *path;
    const struct opt *params;
    struct script *script;
};

static int
forward_call(void *arg, const char *call, const struct opt *args,
             const char *where, struct arena *a, const struct opt **ret,
             struct err *e)
{
    struct runner *run = arg;

    return session_call(run->session, call, args, where, a, ret, e);
}

/* ---- loading ---- */

static int
load_script(struct script_conf *conf, struct script **ret, struct err *e)
{
    char *text = NULL;
    int r;

    r = script_read_file(conf->path, &text, &conf->text_len, e);
    if (r != 0)
        return r;
    conf->text = text;
    r = script_load(conf, ret, e);
    free(text);
    return r;
}

static int
load_job(struct runner *run, const struct opt *spec, struct job *ret,
         struct err *e)
{
    const char *path = opt_str(spec, "path", "");
    struct script_conf conf = {.unsafe = run->conf->unsafe};
    struct buf full;
    int r;

    buf_init(&full);
    buf_addf(&full, "%s%s", path[0] == '/' ? "" : run->dir, path);
    ret->path = mem_strdup(buf_cstr(&full));
    buf_fini(&full);
    ret->params = opt_get(spec, "set");
    conf.path = ret->path;
    conf.params = ret->params;
    r = load_script(&conf, &ret->script, e);
    if (r == 0 && run->coverage != NULL)
        coverage_file(run->coverage, ret->path);
    return r;
}

static void
free_job(struct job *j)
{
    script_free(&j->script);
    free(j->path);
}

/* ---- variants ---- */

static bool
has_aggregate(const struct script *job)
{
    const struct opt *steps = opt_get(script_job(job), "steps"), *s;

    for (s = steps == NULL ? NULL : steps->first; s != NULL; s = s->next)
        if (opt_is(s, "kind", "aggregate"))
            return true;
    return false;
}

/* Every parallelism with every strategy, a seed for each; where that is
 * little, with more seeds; with faults all of it once more with faults. */
static unsigned
make_variants(const struct runner *run, const struct opt *one,
              const struct job *job, struct variant ret[VARIANTS_MAX])
{
    static const uint32_t usual[] = {1, 2, 4};
    uint32_t own = (uint32_t)opt_int(opt_get(one, "job"), "parallelism", 0);
    const uint32_t *par = usual;
    bool agg = has_aggregate(job->script);
    unsigned n = 0, plain, i, p, par_count = 3;

    if (own > 0 || opt_int(opt_get(script_job(job->script), "options"),
                           "parallelism", 0) > 0) {
        par = &own; /* 0: the job's own */
        par_count = 1;
    }
    while (n < VARIANTS_LEAST)
        for (p = 0; p < par_count; p++)
            for (i = 0; i < (agg ? 2u : 1u); i++)
                ret[n++] =
                    (struct variant){.parallelism = par[p],
                                     .strategy = !agg     ? SIM_AS_PLANNED
                                                 : i == 0 ? SIM_ONE_PHASE
                                                          : SIM_TWO_PHASE};
    plain = n;
    if (opt_bool(one, "faults", false))
        for (i = 0; i < plain; i++) {
            ret[n] = ret[i];
            ret[n++].faults = FAULTS_RESTART + i % 3;
        }
    for (i = 0; i < n; i++)
        ret[i].seed = hash_splitmix(run->conf->seed ^ hash_splitmix(i));
    return n;
}

static void
put_variant(const struct runner *run, const struct variant *v, struct buf *out)
{
    static const char *const said[] = {
        [FAULTS_NONE] = "",
        [FAULTS_RESTART] = ", a restart after each step",
        [FAULTS_CRASH] = ", a crash after each step",
        [FAULTS_MIXED] = ", a restart or a crash after each step"};

    buf_adds(out, "with ");
    if (v->parallelism > 0)
        buf_addf(out, "parallelism %" PRIu32, v->parallelism);
    else
        buf_adds(out, "the job's parallelism");
    if (v->strategy != SIM_AS_PLANNED)
        buf_addf(out, ", %s phase%s",
                 v->strategy == SIM_ONE_PHASE ? "one" : "two",
                 v->strategy == SIM_ONE_PHASE ? "" : "s");
    buf_adds(out, said[v->faults]);
    buf_addf(out, "; repeat with --seed %" PRIu64 "\n", run->conf->seed);
}

/* ---- cases ---- */

static int64_t
now_ms(void)
{
    return clock_real_ns() / 1000000;
}

/* "FILE:LINE: message", and what to try. */
static void
put_error(struct buf *out, const struct err *e)
{
    if (e->where[0] != '\0')
        buf_addf(out, "%s: ", e->where);
    buf_addf(out, "%s\n", e->msg);
    if (e->hint[0] != '\0')
        buf_addf(out, "hint: %s\n", e->hint);
}

/* Run a case once. @return whether it passed; else `why` says. */
static bool
run_variant(struct runner *run, const struct opt *one,
            const struct session_conf *conf, struct buf *why)
{
    const char *text;
    struct err e;
    int r;

    err_clear(&e);
    if (session_new(conf, &run->session, &e) != 0) {
        buf_addf(why, "%s: ", opt_str(one, "place", ""));
        put_error(why, &e);
        return false;
    }
    r = script_test_run(run->test, opt_func(one, "run"), conf->timeout_ms, &e);
    text = session_end(run->session, r == 0 ? NULL : &e);
    if (text != NULL)
        buf_adds(why, text);
    session_free(&run->session);
    return text == NULL;
}

static void
run_variants(struct runner *run, const struct opt *one, const struct job *job,
             struct buf *why)
{
    struct variant all[VARIANTS_MAX];
    unsigned n = make_variants(run, one, job, all), i;
    struct session_conf conf = {
        .dir = run->dir,
        .job = job->path,
        .params = job->params,
        .script = job->script,
        .unsafe = run->conf->unsafe,
        .timeout_ms = opt_int(one, "timeout_ms", CASE_TIMEOUT_MS)};

    for (i = 0; i < n; i++) {
        conf.variant = all[i];
        conf.update = run->conf->update && i == 0;
        conf.coverage = i == 0 ? run->coverage : NULL;
        if (!run_variant(run, one, &conf, why)) {
            put_variant(run, &all[i], why);
            return;
        }
    }
}

static void
run_case(struct runner *run, const struct opt *one)
{
    int64_t began = now_ms();
    struct job job = {0};
    struct buf why;
    struct err e;

    buf_init(&why);
    if (load_job(run, opt_get(one, "job"), &job, &e) != 0) {
        buf_addf(&why, "%s: ", opt_str(opt_get(one, "job"), "place", ""));
        put_error(&why, &e);
    } else {
        run_variants(run, one, &job, &why);
    }
    run->ran++;
    report_case(run->conf->report, opt_str(one, "name", ""), now_ms() - began,
                why.len > 0 ? buf_cstr(&why) : NULL);
    free_job(&job);
    buf_fini(&why);
}

/* A fault that is not one case's. */
static void
report_fault(struct runner *run, const char *name, const struct err *e)
{
    struct buf why;

    buf_init(&why);
    put_error(&why, e);
    report_case(run->conf->report, name, 0, buf_cstr(&why));
    buf_fini(&why);
    run->ran++;
}

static void
run_cases(struct runner *run)
{
    const struct opt *cases = opt_get(script_job(run->test), "cases"), *c;

    for (c = cases->first; c != NULL; c = c->next)
        if (run->conf->filter == NULL ||
            strstr(opt_str(c, "name", ""), run->conf->filter) != NULL)
            run_case(run, c);
}

static void
run_file(struct runner *run, const char *path)
{
    struct script_conf conf = {.path = path,
                               .unsafe = run->conf->unsafe,
                               .seed = run->conf->seed,
                               .test_call = forward_call,
                               .test_arg = run};
    const char *slash = strrchr(path, '/');
    struct err e;

    report_file(run->conf->report, path);
    run->path = path;
    run->dir = mem_dup(path, slash == NULL ? 0 : (size_t)(slash + 1 - path));
    if (load_script(&conf, &run->test, &e) != 0)
        report_fault(run, path, &e);
    else
        run_cases(run);
    script_free(&run->test);
    free(run->dir);
    run->dir = NULL;
}

static void
run_path(struct runner *run, const char *path)
{
    char **files = NULL;
    size_t count = 0, i;
    struct err e;

    err_clear(&e);
    if (find_tests(path, &files, &count, &e) != 0) {
        report_file(run->conf->report, path);
        report_fault(run, path, &e);
        return;
    }
    for (i = 0; i < count; i++)
        run_file(run, files[i]);
    find_free(&files, count);
}

static int
write_coverage(const struct runner *run, struct err *e)
{
    struct buf text;
    FILE *f;
    bool ok;
    int r;

    buf_init(&text);
    r = coverage_put(run->coverage, &text, e);
    if (r == 0) {
        f = fopen(run->conf->coverage, "wbe");
        ok = f != NULL && fwrite(text.data, 1, text.len, f) == text.len;
        if (f != NULL && fclose(f) != 0)
            ok = false;
        if (!ok)
            r = err_set(e, ERR_IO, "cannot write the coverage to '%s': %s",
                        run->conf->coverage, strerror(errno));
    }
    buf_fini(&text);
    return r;
}

int
cases_run(const struct cases_conf *conf, struct err *e)
{
    struct runner run = {.conf = conf};
    unsigned i;
    int r = 0;

    if (conf->coverage != NULL)
        run.coverage = coverage_new();
    if (conf->path_count == 0)
        run_path(&run, ".");
    for (i = 0; i < conf->path_count; i++)
        run_path(&run, conf->paths[i]);
    if (run.ran == 0) {
        report_file(conf->report, "--filter");
        (void)err_set(e, ERR_USAGE, "no case has \"%s\" in its name",
                      conf->filter == NULL ? "" : conf->filter);
        report_fault(&run, "--filter", e);
    }
    if (run.coverage != NULL)
        r = write_coverage(&run, e);
    coverage_free(&run.coverage);
    return r;
}
