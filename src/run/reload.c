#include "run/reload.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "run/control.h"
#include "run/job.h"

enum {
    /* A version is on probation for so many records, or for so long: then its
     * first round is due, whatever the interval of checkpoints is. */
    PROBATION_RECORDS = 1000,
    PROBATION_MS = 1000,
    THREAD_END_MS = 10000, /* at the end of the process */
};

/* ------------------------------------------------------------- versions */

void
reload_init(struct run *run)
{
    struct reload *r = &run->reload;
    const struct run_conf *conf = run->conf;

    if (r->next != NULL || r->history.count != 0)
        return;
    r->next = version_new(conf->file, conf->params);
    r->next->parallelism = conf->parallelism;
    r->next->allow_loss = conf->allow_state_loss;
    script_files_add(r->next->files, SCRIPT_FILE_JOB, conf->file, conf->text,
                     conf->text_len);
    r->watch.on = conf->watch && strcmp(conf->file, "-") != 0;
}

struct version *
reload_version(const struct run *run)
{
    const struct reload *r = &run->reload;

    if (r->state == RELOAD_PROBATION || r->history.count == 0)
        return r->next;
    return history_top(&r->history);
}

uint64_t
reload_number(const struct run *run)
{
    const struct version *v = reload_version(run);

    return v != NULL ? v->number : 0;
}

bool
reload_is_news(const struct run *run)
{
    const struct reload *r = &run->reload;

    return run->opens == 0 ||
           (r->state == RELOAD_PROBATION && !r->at_start && !r->opened);
}

bool
reload_on_probation(const struct run *run)
{
    return run->reload.state == RELOAD_PROBATION && !run->reload.at_start;
}

bool
reload_is_swapping(const struct run *run)
{
    return run->reload.state == RELOAD_SWAPPING;
}

/* From now on the files of what runs are watched, and of what did not. */
static void
watch_all(struct run *run)
{
    struct reload *r = &run->reload;

    if (!r->watch.on)
        return;
    watch_set(&r->watch, reload_version(run)->files, clock_mono_ms());
    if (r->tried != NULL)
        watch_add(&r->watch, r->tried->files);
}

static void
forget_tried(struct reload *r)
{
    version_free(&r->tried);
}

/* ------------------------------------------------------------- the start */

/* A checkpoint of before there were reloads has the text of its job file. */
static void
adopt_code(struct reload *r, const struct home *h)
{
    struct version *v = version_new(r->next->path, NULL);

    script_files_add(v->files, SCRIPT_FILE_JOB, r->next->path, h->code.data,
                     h->code.len);
    script_files_seal(v->files);
    history_push(&r->history, &v);
}

/* Whether the texts are those of the checkpoint. */
static bool
is_same_code(const struct reload *r, const struct home *h)
{
    const struct script_file *is = version_text(r->next);

    if (h->reloads.len == 0)
        return is->len == h->code.len &&
               memcmp(is->text, h->code.data, is->len) == 0;
    return version_hash(r->next) == version_hash(history_top(&r->history));
}

static int
refuse_bad(const struct run *run, struct err *e)
{
    (void)err_set(e, ERR_CONFIG,
                  "this text was rolled back; checkpoint %" PRIu64
                  " runs another one (reload %" PRIu64 ")",
                  run->home.status.complete,
                  history_top(&run->reload.history)->number);
    err_hint(e, "correct it, or give --accept-code to run it all the same");
    err_where(e, "%s", run->reload.next->path);
    return ERR_CONFIG;
}

int
reload_look(struct run *run, bool fresh, struct err *e)
{
    struct reload *r = &run->reload;
    struct home *h = &run->home;
    int rc = 0;

    script_files_seal(r->next->files);
    if (!fresh && h->reloads.len != 0)
        rc = history_get(h->reloads.data, h->reloads.len, &r->history, e);
    else if (!fresh)
        adopt_code(r, h);
    if (rc != 0 || fresh || r->history.count == 0) {
        if (rc == 0)
            history_push(&r->history, &r->next);
    } else if (is_same_code(r, h)) {
        r->next->number = history_top(&r->history)->number;
        history_retop(&r->history, &r->next);
    } else if (!run->conf->accept_code &&
               history_is_bad(&r->history, version_hash(r->next))) {
        rc = refuse_bad(run, e);
    } else {
        r->next->number = ++r->history.attempts;
        r->state = RELOAD_PROBATION;
        r->at_start = true;
        r->from_round = h->status.complete;
        r->began_ms = clock_mono_ms();
    }
    buf_fini(&h->reloads);
    buf_fini(&h->code);
    h->started = true;
    if (rc == 0)
        watch_all(run);
    return rc;
}

void
reload_say_start(struct job *j)
{
    struct reload *r = &j->run->reload;

    if (r->state != RELOAD_PROBATION || !r->at_start || j->run->opens != 0)
        return;
    buf_clear(&r->short_table);
    plan_fit_summary(&j->fit, &r->short_table);
    log_line(LOG_INFO,
             "%s differs from the code in checkpoint %" PRIu64
             ": reload %" PRIu64 " at start%s%s",
             r->next->path, j->run->home.status.complete, r->next->number,
             r->short_table.len > 0 ? ": " : "", buf_cstr(&r->short_table));
}

/* ---------------------------------------------------------- the answers */

static void
put_text(struct buf *b, const char *name, const char *text)
{
    json_put_name(b, name, strlen(name));
    json_put_str(b, text, strlen(text));
}

static void
answer(struct reload *r, bool accepted, uint64_t number, const char *message)
{
    struct buf b;

    if (r->req == NULL)
        return;
    buf_init(&b);
    buf_addf(
        &b, "{\"ok\":true,\"accepted\":%s,\"dry_run\":%s,\"reload\":%" PRIu64,
        accepted ? "true" : "false", r->dry_run ? "true" : "false", number);
    put_text(&b, "table", buf_cstr(&r->table));
    put_text(&b, "message", message);
    buf_addc(&b, '}');
    control_reply(&r->req, b.data, b.len);
    buf_fini(&b);
}

/* Nothing is under way any more. */
static void
rest(struct reload *r)
{
    r->state = RELOAD_NONE;
    r->back = r->dry_run = r->at_start = r->wanted = r->undecided = false;
    r->opened_ms = 0;
    r->stay = 0;
    buf_clear(&r->table);
    buf_clear(&r->short_table);
}

static void
put_error(struct buf *b, const struct err *e)
{
    buf_addf(b, "%s%s%s", e->where, e->where[0] != '\0' ? ": " : "", e->msg);
}

/* The job runs on as it was. */
static void
refuse(struct run *run, const struct err *e)
{
    struct reload *r = &run->reload;
    uint64_t still = history_top(&r->history)->number;
    uint64_t number = r->next != NULL ? r->next->number : 0;
    struct buf b;

    buf_init(&b);
    if (r->dry_run)
        buf_adds(&b, "a reload would be refused: ");
    else
        buf_addf(&b, "reload %" PRIu64 " refused: ", number);
    put_error(&b, e);
    if (!r->dry_run) {
        buf_addf(&b, "; still running reload %" PRIu64, still);
        log_line(LOG_WARN, "%s", buf_cstr(&b));
        if (e->hint[0] != '\0')
            log_line(LOG_WARN, "hint: %s", e->hint);
    }
    if (e->hint[0] != '\0')
        buf_addf(&b, "\nhint: %s", e->hint);
    answer(r, false, number, buf_cstr(&b));
    buf_fini(&b);
    if (!r->dry_run && r->next != NULL) {
        forget_tried(r);
        script_files_seal(r->next->files);
        r->tried = r->next;
        r->next = NULL;
    }
    version_free(&r->next);
    rest(r);
    watch_all(run);
}

static void
refuse_text(struct run *run, const char *text)
{
    struct err e;

    err_clear(&e);
    (void)err_set(&e, ERR_TEMP, "%s", text);
    refuse(run, &e);
}

/* --------------------------------------------------------------- asking */

void
reload_ask(struct run *run)
{
    run->reload.asked = true;
}

static void
wake(void *arg)
{
    struct run *run = arg;

    ev_async_send(run->loop, &run->wakeup);
}

/* Prepare r->next. */
static void
begin(struct job *j)
{
    struct run *run = j->run;
    struct reload *r = &run->reload;
    struct prepare *p = &r->prepare;
    struct err e;

    err_clear(&e);
    r->began_ms = clock_mono_ms();
    if (!r->dry_run) {
        r->next->number = ++r->history.attempts;
        r->dirty = true;
        log_line(LOG_INFO, "reload %" PRIu64 "%s: loading %s", r->next->number,
                 r->back ? " (rollback)" : "", r->next->path);
    }
    prepare_note_plan(p, j->plan);
    p->conf = run->conf;
    p->version = r->next;
    p->wake = wake;
    p->arg = run;
    r->state = RELOAD_PREPARING;
    if (prepare_start(p, &e) == 0)
        return;
    p->version = NULL;
    prepare_fini(p);
    refuse(run, &e);
}

/* By signal or watch: the file of the version that runs, as it is now. */
static void
begin_asked(struct job *j)
{
    struct reload *r = &j->run->reload;
    const struct version *top = history_top(&r->history);

    r->asked = false;
    if (strcmp(top->path, "-") == 0) {
        log_line(LOG_WARN, "the job file came from stdin: there is nothing to "
                           "reload");
        return;
    }
    r->next = version_new(top->path, top->params);
    r->next->parallelism = top->parallelism;
    begin(j);
}

/* Files were touched: it counts if what was tried last reads otherwise. */
static void
look_at_files(struct run *run, int64_t now_ms)
{
    struct reload *r = &run->reload;
    const struct version *last =
        r->tried != NULL ? r->tried : history_top(&r->history);

    if (r->state == RELOAD_NONE && watch_look(&r->watch, now_ms) &&
        version_differs(last))
        reload_ask(run);
}

/* The file a verb names: as the job names it, if it is that one. */
static const char *
name_file(const struct version *top, const char *file, char real[PATH_MAX])
{
    char own[PATH_MAX];

    if (file == NULL)
        return top->path;
    if (realpath(file, real) != NULL && realpath(top->path, own) != NULL &&
        strcmp(real, own) == 0)
        return top->path;
    return file;
}

static int
check_request(const struct job *j, const struct opt *ask, struct err *e)
{
    const struct reload *r = &j->run->reload;
    const char *file = opt_str(ask, "file", NULL);
    int64_t wide = opt_int(ask, "parallelism", 0);

    if (j->plan == NULL || !atomic_load(&j->running))
        return err_set(e, ERR_TEMP,
                       "the job is starting again; try again later");
    if (r->state != RELOAD_NONE)
        return err_set(e, ERR_TEMP,
                       "a reload of job %s is under way; try again later",
                       j->plan->name);
    if (j->stopping)
        return err_set(e, ERR_TEMP, "job %s is stopping", j->plan->name);
    if (file != NULL && file[0] != '/')
        return err_set(e, ERR_USAGE,
                       "reload: \"file\" must be an absolute path");
    if (wide < 0 || wide > INT16_MAX + 1)
        return err_set(e, ERR_USAGE, "reload: bad \"parallelism\"");
    if (file == NULL && opt_is(ask, "verb", "reload") &&
        strcmp(history_top(&r->history)->path, "-") == 0)
        return err_set(e, ERR_USAGE,
                       "the job file came from stdin: name a file");
    if (opt_is(ask, "verb", "rollback") && history_below(&r->history) == NULL)
        return err_set(e, ERR_FAIL,
                       "job %s has no version before reload %" PRIu64
                       " to roll back to",
                       j->plan->name, history_top(&r->history)->number);
    return 0;
}

bool
reload_request(struct job *j, struct control_req *req)
{
    struct reload *r = &j->run->reload;
    const struct opt *ask = control_request(req);
    const struct version *top;
    char real[PATH_MAX];
    struct err e;
    bool back = opt_is(ask, "verb", "rollback");

    if (!back && !opt_is(ask, "verb", "reload"))
        return false;
    err_clear(&e);
    if (check_request(j, ask, &e) != 0) {
        control_refuse(&req, &e);
        return true;
    }
    top = history_top(&r->history);
    if (back) {
        r->next = version_dup(history_below(&r->history), 0);
    } else {
        r->next =
            version_new(name_file(top, opt_str(ask, "file", NULL), real), NULL);
        r->next->parallelism = top->parallelism;
    }
    version_set_params(r->next, back ? r->next->params : top->params,
                       opt_get(ask, "set"));
    if (opt_int(ask, "parallelism", 0) > 0)
        r->next->parallelism = (uint32_t)opt_int(ask, "parallelism", 0);
    r->next->allow_loss = opt_bool(ask, "allow_state_loss", false);
    r->back = back;
    r->dry_run = opt_bool(ask, "dry_run", false);
    r->req = req;
    begin(j);
    return true;
}

/* ------------------------------------------------------------- going on */

static void
take_prepared(struct job *j)
{
    struct reload *r = &j->run->reload;
    struct prepare *p = &r->prepare;
    struct err e = p->err;
    int code = p->code;

    buf_clear(&r->table);
    buf_add(&r->table, p->table.data, p->table.len);
    buf_clear(&r->short_table);
    buf_add(&r->short_table, p->short_table.data, p->short_table.len);
    p->version = NULL; /* it stays r->next */
    prepare_fini(p);
    if (code != 0) {
        e.code = code;
        refuse(j->run, &e);
    } else if (r->dry_run) {
        answer(r, true, 0, "");
        version_free(&r->next);
        rest(r);
    } else {
        r->state = RELOAD_READY;
    }
}

/* The sources stop; what was read goes into a last round. */
static void
begin_swap(struct job *j)
{
    struct reload *r = &j->run->reload;
    struct err e;

    err_clear(&e);
    if (j->run->savepoint.state != SAVEPOINT_NONE)
        return;
    (void)fault_hit("reload_swap");
    if (!j->plan->checkpoint && job_carry(j, &e) != 0) {
        refuse(j->run, &e);
        return;
    }
    r->state = RELOAD_SWAPPING;
    job_stop(j);
}

static uint64_t
records_read(const struct job *j)
{
    const struct plan *p = j->plan;
    struct step_sums s;
    uint64_t n = 0;
    uint32_t i;

    for (i = 0; i < p->step_count; i++)
        if (p->steps[i].kind == STEP_SOURCE) {
            step_sums(j, p->steps[i].logical, &s);
            n += s.records_in -
                 count_get(&j->run->base[p->steps[i].logical].records_in);
        }
    return n;
}

void
reload_opened(struct run *run)
{
    run->reload.opened = true;
    run->reload.wanted = false; /* what was asked of an attempt ended with it */
}

static void
watch_probation(struct job *j, int64_t now_ms)
{
    struct reload *r = &j->run->reload;

    if (r->opened_ms == 0)
        r->opened_ms = now_ms;
    if (r->wanted || (now_ms - r->opened_ms < PROBATION_MS &&
                      records_read(j) < PROBATION_RECORDS))
        return;
    r->wanted = true;
    rounds_wanted(j);
}

/* Behind a rollback, a job without checkpoints makes one more round: what its
 * sources held to go back to is not needed any more. */
static void
want_settled(struct job *j)
{
    struct reload *r = &j->run->reload;

    if (j->plan->checkpoint || !j->rounds.enabled || r->wanted)
        return;
    r->wanted = true;
    rounds_wanted(j);
}

void
reload_tick(struct job *j, int64_t now_ms)
{
    struct reload *r = &j->run->reload;

    switch (r->state) {
    case RELOAD_NONE:
        want_settled(j);
        look_at_files(j->run, now_ms);
        if (r->asked && !j->stopping)
            begin_asked(j);
        break;
    case RELOAD_PREPARING:
        if (prepare_is_done(&r->prepare))
            take_prepared(j);
        break;
    case RELOAD_READY:
        if (j->stopping)
            refuse_text(j->run, "the job is stopping");
        else
            begin_swap(j);
        break;
    case RELOAD_SWAPPING:
        break;
    case RELOAD_PROBATION:
        watch_probation(j, now_ms);
        break;
    }
}

void
reload_give_up(struct job *j)
{
    if (!reload_is_swapping(j->run))
        return;
    refuse_text(j->run, "the job is stopping");
    j->stop_mono_ms = clock_mono_ms();
}

void
reload_failed(struct job *j)
{
    struct err e = j->failure.err;

    if (!reload_is_swapping(j->run))
        return;
    (void)err_context(&e, "the job failed before the swap");
    refuse(j->run, &e);
    j->stopping = false;
}

/* ------------------------------------------------------------- the swap */

void
reload_swap(struct run *run)
{
    struct reload *r = &run->reload;

    (void)fault_hit("reload_swapped");
    r->state = RELOAD_PROBATION;
    r->at_start = r->wanted = r->opened = false;
    r->opened_ms = 0;
    r->from_round = run->home.status.complete;
    counters_keep(run, &r->kept);
}

void
reload_fill_round(struct job *j, struct buf *out)
{
    struct reload *r = &j->run->reload;

    if (j->described && !r->dirty)
        return;
    history_put(&r->history, r->state == RELOAD_PROBATION ? r->next : NULL,
                r->state == RELOAD_PROBATION && r->back, out);
    r->dirty = false;
}

static void
accept(struct run *run, uint64_t round)
{
    struct reload *r = &run->reload;
    uint64_t number = r->next->number;
    struct buf b;

    (void)fault_hit("reload_accepted");
    if (r->back)
        history_back(&r->history, &r->next);
    else
        history_push(&r->history, &r->next);
    buf_init(&b);
    buf_addf(&b, "reload %" PRIu64 " accepted", number);
    if (!run->home.temporary)
        buf_addf(&b, " at checkpoint %" PRIu64, round);
    buf_addf(&b, " in %lld ms%s%s", (long long)(clock_mono_ms() - r->began_ms),
             r->short_table.len > 0 ? ": " : "", buf_cstr(&r->short_table));
    log_line(LOG_INFO, "%s", buf_cstr(&b));
    answer(r, true, number, buf_cstr(&b));
    buf_fini(&b);
    counters_forget(&r->kept);
    forget_tried(r);
    rest(r);
    watch_all(run);
}

void
reload_completed(struct job *j, uint64_t round)
{
    struct reload *r = &j->run->reload;

    if (r->state == RELOAD_PROBATION)
        accept(j->run, round);
    if (j->plan->checkpoint || r->state == RELOAD_SWAPPING)
        return;
    r->wanted = false;
    job_carry_no_more(j);
}

/* ----------------------------------------------------------- rolling back */

/* Rows that a sink wrote on its own, which nobody takes back. */
static uint64_t
rows_that_stay(const struct job *j)
{
    uint64_t n = 0;
    struct step_sums s;
    uint32_t i;

    for (i = 0; j->built && i < j->plan->step_count; i++) {
        const struct plan_step *st = &j->plan->steps[i];

        if (st->kind != STEP_SINK ||
            (j->plan->checkpoint && plan_sink_commits(st->opts)))
            continue;
        step_sums(j, st->logical, &s);
        n += s.records_out - count_get(&j->run->base[st->logical].records_out);
    }
    return n;
}

bool
reload_asks(struct job *j)
{
    struct run *run = j->run;
    struct reload *r = &run->reload;

    if (r->undecided || !j->built || run->stop_signal != 0 ||
        run->home.store == NULL)
        return false;
    store_status(run->home.store, &run->home.status);
    if (run->home.status.pending == 0)
        return false;
    r->undecided = true;
    r->failure = j->failure.err;
    r->stay = rows_that_stay(j);
    log_line(LOG_WARN,
             "reload %" PRIu64
             " failed during the commit of checkpoint %" PRIu64
             ": what became of it is asked first",
             r->next->number, run->home.status.pending);
    return true;
}

int
reload_decided(struct run *run, struct err *e)
{
    struct reload *r = &run->reload;

    if (!r->undecided)
        return 0;
    r->undecided = false;
    if (run->home.status.complete > r->from_round) {
        accept(run, run->home.status.complete);
        return 0;
    }
    *e = r->failure;
    return e->code;
}

bool
reload_rolls_back(struct job *j)
{
    struct run *run = j->run;
    struct reload *r = &run->reload;
    struct version *top = history_top(&r->history);
    uint64_t stay;
    struct buf b;

    if (r->state != RELOAD_PROBATION || r->at_start || !j->has_failure ||
        run->stop_signal != 0)
        return false;
    if (run->home.store != NULL)
        store_status(run->home.store, &run->home.status);
    if (run->home.status.complete > r->from_round) {
        accept(run, run->home.status.complete); /* the failure came behind */
        return false;
    }
    (void)fault_hit("reload_rollback");
    stay = rows_that_stay(j) + r->stay;
    buf_init(&b);
    buf_addf(&b, "reload %" PRIu64 " rolled back to %" PRIu64 ": ",
             r->next->number, top->number);
    put_error(&b, &j->failure.err);
    log_line(LOG_WARN, "%s", buf_cstr(&b));
    if (stay != 0)
        log_line(LOG_WARN,
                 "%" PRIu64 " rows of reload %" PRIu64
                 " stay in sinks that do not commit",
                 stay, r->next->number);
    answer(r, false, r->next->number, buf_cstr(&b));
    buf_fini(&b);
    if (version_hash(r->next) != version_hash(top)) /* but its parameters */
        history_add_bad(&r->history, version_hash(r->next));
    r->dirty = true;
    forget_tried(r);
    r->tried = r->next;
    r->next = NULL;
    counters_restore(run, &r->kept);
    rest(r);
    watch_all(run);
    return true;
}

bool
reload_end(struct run *run)
{
    struct reload *r = &run->reload;

    if (r->state == RELOAD_PREPARING &&
        !prepare_end(&r->prepare, THREAD_END_MS))
        return false;
    if (r->prepare.version != NULL) {
        r->prepare.version = NULL;
        prepare_fini(&r->prepare);
    }
    version_free(&r->next);
    forget_tried(r);
    history_fini(&r->history);
    counters_forget(&r->kept);
    buf_fini(&r->table);
    buf_fini(&r->short_table);
    watch_fini(&r->watch);
    return true;
}
