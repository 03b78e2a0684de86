#include "inspect/view.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "core/panes.h"
#include "core/winstate.h"
#include "format/json.h"
#include "plan/fit.h"
#include "run/control.h"
#include "inspect/keyed.h"

enum { LOAD_TIMEOUT_MS = 5000 };

/* --- opening -------------------------------------------------------------- */

/* @return 1, 0 it is not there, ERR_IO. */
static int
read_blob(struct state_view *v, const char *name, const char **ret,
          size_t *ret_len, struct err *e)
{
    const void *bytes;
    int r = store_reader_blob(v->reader, name, &bytes, ret_len, e);

    if (r == 1)
        *ret = arena_dup(&v->arena, bytes, *ret_len);
    return r;
}

static int
read_blobs(struct state_view *v, struct err *e)
{
    const char *text = NULL;
    struct opt *meta;
    size_t len;
    int r;

    r = read_blob(v, "steps", &text, &len, e);
    if (r == 1)
        r = restored_read(text, len, &v->restored, e) == 0 ? 1 : e->code;
    if (r == 1)
        r = read_blob(v, "plan", &text, &len, e);
    if (r == 1)
        r = plan_state_read(text, len, &v->arena, &v->plan, e) == 0 ? 1
                                                                    : e->code;
    if (r == 1)
        r = read_blob(v, "code", &v->code, &v->code_len, e);
    if (r == 1)
        r = read_blob(v, "meta", &text, &len, e);
    if (r == 1) {
        r = control_read(text, len, &v->arena, &meta, e) == 0 ? 1 : ERR_IO;
        v->meta = meta;
    }
    if (r == 0)
        return err_set(e, ERR_IO, "it lacks what describes the job");
    v->max_parallelism = v->restored.max_parallelism;
    if (r == 1)
        r = read_blob(v, "reloads", &text, &len, e);
    if (r == 1)
        r = history_get(text, len, &v->history, e);
    return r < 0 ? r : 0;
}

static void
init(struct state_view *v, const struct state_code *code, const char *path,
     const char *name)
{
    memset(v, 0, sizeof *v);
    v->code_conf = *code;
    v->path = mem_strdup(path);
    v->name = mem_strdup(name);
    arena_init(&v->arena);
    v->scratch = &v->arena;
}

static int
read_view(struct state_view *v, struct err *e)
{
    int r;

    r = store_reader_new(v->store, &v->reader, e);
    if (r == 0)
        r = store_reader_begin(v->reader, STORE_VIEW_COMPLETE, e);
    if (r != 0)
        return r;
    v->round = store_reader_round(v->reader);
    if (v->round != 0 && read_blobs(v, e) != 0)
        return err_context(e, "'%s', checkpoint %" PRIu64, v->path, v->round);
    return 0;
}

int
state_view_open(const struct state_code *code, const char *path,
                const char *name, struct state_view *ret, struct err *e)
{
    struct store_opts o = {.dir = path, .read_only = true};
    int r;

    init(ret, code, path, name);
    r = store_open(&o, &ret->store, e);
    if (r != 0)
        return r;
    store_status(ret->store, &ret->status);
    return read_view(ret, e);
}

int
state_view_attach(const struct state_code *code, struct store *store,
                  const char *path, const char *name, struct state_view *ret,
                  struct err *e)
{
    init(ret, code, path, name);
    ret->store = store;
    ret->borrowed = true;
    return read_view(ret, e);
}

void
state_view_close(struct state_view *v)
{
    store_reader_free(&v->reader);
    if (!v->borrowed)
        store_close(&v->store);
    restored_fini(&v->restored);
    history_fini(&v->history);
    arena_fini(&v->arena);
    free(v->path);
    free(v->name);
    v->path = v->name = NULL;
}

/* --- steps ---------------------------------------------------------------- */

static bool
is_listed(const struct state_step *steps, size_t n, const char *name)
{
    size_t i;

    for (i = 0; i < n; i++)
        if (strcmp(steps[i].name, name) == 0)
            return true;
    return false;
}

struct state_step *
state_view_steps(struct state_view *v, size_t *ret_count)
{
    const struct opt *list = opt_get(v->plan, "steps"), *o;
    size_t ops = store_reader_operator_count(v->reader), n = 0, i;
    struct state_step *s = arena_alloc(
        &v->arena, (ops + (list != NULL ? list->len : 0) + 1) * sizeof *s);

    for (o = list != NULL ? list->first : NULL; o != NULL; o = o->next) {
        if (!opt_is(o, "kind", "aggregate") && !state_is_keyed(o))
            continue;
        s[n] = (struct state_step){
            .view = v, .name = opt_str(o, "name", ""), .desc = o};
        s[n].known = store_reader_find(v->reader, s[n].name, strlen(s[n].name),
                                       &s[n].op);
        n++;
    }
    for (i = 0; i < ops; i++) {
        struct store_operator op;

        store_reader_operator(v->reader, i, &op);
        if (is_listed(s, n, op.name))
            continue;
        s[n++] = (struct state_step){
            .view = v, .name = op.name, .known = true, .op = op.op};
    }
    *ret_count = n;
    return s;
}

int
state_view_step(struct state_view *v, const char *name, struct state_step *ret,
                struct err *e)
{
    struct state_step *all;
    struct buf names;
    size_t n, i;
    int r = 0;

    all = state_view_steps(v, &n);
    for (i = 0; i < n; i++)
        if (strcmp(all[i].name, name) == 0) {
            *ret = all[i];
            return 0;
        }
    buf_init(&names);
    for (i = 0; i < n; i++)
        buf_addf(&names, "%s%s", i > 0 ? ", " : "", all[i].name);
    if (n == 0)
        r = err_set(e, ERR_USAGE, "no step of %s keeps keyed state", v->name);
    else
        r = err_set(e, ERR_USAGE,
                    "step \"%s\" keeps no keyed state in %s; those that do: %s",
                    name, v->name, buf_cstr(&names));
    buf_fini(&names);
    return r;
}

/* --- a step's aggregates -------------------------------------------------- */

/* Shows accumulators as they are, where the job's own code is not to be had.
 * It has no merge, so the windows must be whole. */
static const char plain_code[] =
    "local s = require \"streamlua\"\n"
    "local job = s.job \"plain\"\n"
    "local plain = s.aggregator { init = function() end,\n"
    "  add = function(a) return a end, result = function(a) return a end }\n"
    "job:source(\"in\", s.stdin()):key_by {}:window(s.global())\n"
    "   :aggregate({ plain = plain }, { name = \"plain\" })\n"
    "   :sink(\"out\", s.blackhole())\n"
    "return job\n";

/* The aggregates of step `name` in a loaded job; NULL if it has none. */
static const struct opt *
find_aggs(const struct script *s, const char *name)
{
    const struct opt *o = opt_get(script_job(s), "steps");

    for (o = o != NULL ? o->first : NULL; o != NULL; o = o->next)
        if (opt_is(o, "kind", "aggregate") && opt_is(o, "name", name))
            return opt_get(o, "aggs");
    return NULL;
}

/* Whether `aggs` has an aggregate of every name that `was` has. */
static bool
has_all(const struct opt *aggs, const struct opt *was)
{
    const struct opt *o, *a;

    for (o = was->first; o != NULL; o = o->next) {
        for (a = aggs != NULL ? aggs->first : NULL; a != NULL; a = a->next)
            if (opt_is(a, "name", opt_str(o, "name", "")))
                break;
        if (a == NULL)
            return false;
    }
    return true;
}

static int
load_code(struct state_step *s, struct err *e)
{
    const struct state_view *v = s->view;
    struct script_conf sc = {.path = opt_str(v->meta, "file", "job.lua"),
                             .text = v->code,
                             .text_len = v->code_len,
                             .params = v->code_conf.params,
                             .args = v->code_conf.args,
                             .unsafe = v->code_conf.unsafe,
                             .load_timeout_ms = LOAD_TIMEOUT_MS};
    const struct version *version = history_top(&v->history);
    int r;

    /* As it was loaded then, whatever became of its modules since. */
    if (version != NULL) {
        sc.files = version->files;
        if (!v->code_conf.given)
            sc.params = version->params;
    }
    r = script_load(&sc, &s->script, e);
    if (r == 0)
        r = script_test_laws(s->script, e);
    if (r == 0 &&
        !has_all(find_aggs(s->script, s->name), opt_get(s->desc, "aggs")))
        r = err_set(e, ERR_JOBFILE, "its step %s is another one", s->name);
    return r;
}

static int
load_plain(struct state_step *s, struct err *e)
{
    struct script_conf sc = {.path = "plain.lua",
                             .text = plain_code,
                             .text_len = sizeof plain_code - 1,
                             .load_timeout_ms = LOAD_TIMEOUT_MS};

    script_free(&s->script);
    sc.params = opt_new_map(s->view->scratch);
    sc.args = opt_new_list(s->view->scratch);
    return script_load(&sc, &s->script, e);
}

/* agg_custom_f over load_plain(): arg is the script. */
static int
plain_agg(void *arg, struct agg *a, struct err *e)
{
    struct script *s = arg;

    if (opt_is(a->opts, "fn", "custom")) /* reduce holds a plain record */
        a->opts = opt_at(find_aggs(s, "plain"), 0);
    return script_agg(s, a, e);
}

static bool
has_custom(const struct opt *aggs, bool *ret_merge)
{
    bool found = false;
    const struct opt *o;

    for (o = aggs->first; o != NULL; o = o->next)
        if (opt_is(o, "fn", "custom") || opt_is(o, "fn", "reduce")) {
            found = true;
            *ret_merge = *ret_merge || opt_is(o, "fn", "reduce") ||
                         opt_func(o, "merge") != 0;
        }
    return found;
}

/* The set of `aggs`, whose accumulators lie as the description says. */
static int
new_set(struct state_step *s, const struct opt *aggs, agg_custom_f *custom,
        struct err *e)
{
    const struct opt *window = opt_get(s->desc, "window");
    struct agg_places places;
    int r = aggset_new(aggs, json_key_encode, custom, s->script, &s->set, e);

    if (r != 0)
        return r;
    if (s->window.updating)
        aggset_keep_times(s->set);
    plan_state_places(s->desc, aggs, s->view->scratch, &places);
    aggset_set_places(s->set, &places);
    if (opt_is(window, "kind", "count")) {
        s->inner = s->set;
        s->set = panes_new(s->inner, (uint64_t)opt_int(window, "size", 1),
                           (uint64_t)opt_int(window, "slide", 1));
    }
    return 0;
}

/* The job's code could not be had: go on without, or say why not. */
static int
go_plain(struct state_step *s, const struct opt *aggs, bool merge,
         struct err *e)
{
    bool sliced = merge && s->window.kind == WINDOW_HOPPING;
    struct err why = *e;
    int r;

    if (e->code != ERR_JOBFILE &&
        (e->code != ERR_USAGE || s->view->code_conf.given))
        return e->code;
    if (sliced) {
        (void)err_context(e,
                          "the windows of %s are put together by the job's "
                          "code, which does not load",
                          s->name);
        e->code = ERR_JOBFILE;
        return e->code;
    }
    log_line(LOG_WARN,
             "custom aggregates of %s are shown as plain accumulators: the "
             "job's code does not load: %s%s%.200s",
             s->name, why.where, why.where[0] != '\0' ? ": " : "", why.msg);
    r = load_plain(s, e);
    return r != 0 ? r : new_set(s, aggs, plain_agg, e);
}

static int
make_set(struct state_step *s, struct err *e)
{
    const struct opt *aggs = opt_get(s->desc, "aggs");
    bool merge = false;
    int r;

    if (aggs == NULL)
        return err_set(e, ERR_IO, "the description of step %s is damaged",
                       s->name);
    if (!has_custom(aggs, &merge))
        return new_set(s, aggs, NULL, e);
    r = load_code(s, e);
    if (r != 0)
        return go_plain(s, aggs, merge, e);
    return new_set(s, find_aggs(s->script, s->name), script_agg, e);
}

/* How far the subtasks were: windows up to there have fired. */
static int
read_fired(struct state_step *s, struct err *e)
{
    const struct step_blobs *b = restored_find(&s->view->restored, s->name);
    uint32_t i;

    if (b == NULL || b->count == 0)
        return err_set(e, ERR_IO, "it lacks the watermarks of step %s",
                       s->name);
    s->fired = mem_zalloc(b->count * sizeof *s->fired);
    s->fired_count = b->count;
    for (i = 0; i < b->count; i++) {
        struct winstate_blob w;
        int r = winstate_blob_read(&b->blobs[i], &w, e);

        s->fired[i] = w.fired;
        winstate_blob_fini(&w);
        if (r != 0)
            return r;
    }
    return 0;
}

int
state_step_open(struct state_step *s, struct err *e)
{
    int r;

    if (s->desc == NULL)
        return err_set(e, ERR_CONFIG,
                       "step %s is not in the plan of the checkpoint, so "
                       "nothing says what its entries mean",
                       s->name);
    if (state_is_keyed(s->desc))
        return state_keyed_open(s, e);
    window_spec_init(&s->window, s->desc);
    r = make_set(s, e);
    if (r != 0)
        return r;
    if (!s->set->mergeable)
        window_spec_keep_whole(&s->window);
    return read_fired(s, e);
}

void
state_step_close(struct state_step *s)
{
    state_keyed_close(s);
    aggset_free(&s->set);
    aggset_free(&s->inner);
    script_free(&s->script);
    free(s->fired);
    s->fired = NULL;
}
