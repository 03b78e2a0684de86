/*
 * The coordinator's loop and the entrance run_job().
 *
 * | state     | leaves it when                                             |
 * | running   | all subtasks done, a failure, a signal, until-idle reached |
 * | stopping  | drained, a second signal or the stop timeout (end at once) |
 * | finishing | the last round is complete                                 |
 * | failing   | at once: slots stop where they are                         |
 * | waiting   | a retriable failure: the back-off is over, or a signal     |
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "kafka/kafka.h"
#include "run/control.h"
#include "run/job.h"
#include "run/recover.h"

enum {
    TICK_MS = 20,
    CONNECTOR_TICK_MS = 100,
    CKPT_END_MS = 5000,
    CKPT_LOOK_MS = 100,
    SAME_SIGNAL_MS = 50 /* timeout(1) signals the process, then its group */
};

static void
stop_slots(struct job *j)
{
    uint32_t i;

    for (i = 0; i < j->slot_count; i++)
        atomic_store(&j->slots[i].stop, true);
    job_wake_slots(j);
}

void
job_stop(struct job *j)
{
    uint32_t i;

    if (j->stopping)
        return;
    j->stopping = true;
    j->stop_mono_ms = clock_mono_ms();
    atomic_store(&j->ops.stopped, true);
    /* A restart that did not come so far has no sources. */
    for (i = 0; j->ops.sources != NULL && i < j->plan->step_count; i++)
        if (j->ops.sources[i] != NULL)
            j->ops.source_types[i]->stop(j->ops.sources[i]);
    job_wake_slots(j);
}

/* A second signal, or no end in time: leave now, without a final round. */
static void
end_at_once(struct job *j, const char *why)
{
    int code = j->run->stop_signal == SIGINT ? 130 : 143;
    struct err e;

    progress_clear(j);
    log_line(LOG_WARN, "%s: ended without finishing what was read", why);
    err_clear(&e);
    (void)summary_write(j, code, &e);
    /* No fflush: the writer of stdout may hold its lock for ever. */
    _exit(code);
}

static void
on_signal(struct ev_loop *loop, ev_signal *w, int events)
{
    struct job *j = w->data;
    struct buf b;

    (void)loop;
    (void)events;
    if (w->signum == SIGUSR1) {
        buf_init(&b);
        summary_put(j, &b, 0);
        buf_addc(&b, '\n');
        (void)!write(STDERR_FILENO, b.data, b.len);
        buf_fini(&b);
        return;
    }
    if (w->signum == SIGHUP) {
        reload_ask(j->run);
        return;
    }
    if (j->run->stop_signal != 0 &&
        clock_mono_ms() - j->run->stop_signal_ms < SAME_SIGNAL_MS)
        return;
    if (j->run->stop_signal != 0) {
        j->run->stop_signal = w->signum;
        end_at_once(j, "second signal");
    }
    j->run->stop_signal = w->signum;
    j->run->stop_signal_ms = clock_mono_ms();
    log_line(LOG_INFO, "%s: stopping, what was read is finished first",
             w->signum == SIGINT ? "SIGINT" : "SIGTERM");
    reload_give_up(j);
    job_stop(j);
}

static void
on_wakeup(struct ev_loop *loop, ev_async *w, int events)
{
    (void)w;
    (void)events;
    ev_break(loop, EVBREAK_ONE);
}

static void
on_tick(struct ev_loop *loop, ev_timer *w, int events)
{
    (void)w;
    (void)events;
    ev_break(loop, EVBREAK_ONE);
}

static int
tick_connectors(struct job *j, struct err *e)
{
    uint32_t i;
    int r = 0;

    for (i = 0; i < j->plan->step_count && r == 0; i++) {
        struct op_job *o = &j->ops;

        if (o->sources[i] != NULL && o->source_types[i]->tick != NULL)
            r = o->source_types[i]->tick(o->sources[i], e);
        else if (o->sinks[i] != NULL && o->sink_types[i]->tick != NULL)
            r = o->sink_types[i]->tick(o->sinks[i], e);
        if (r != 0 && e->where[0] == '\0')
            err_where(e, "%s", j->plan->steps[i].place);
    }
    return r;
}

/* --until-idle: sources at their end and nothing moved for that long. */
static void
check_idle(struct job *j, int64_t now_ms)
{
    uint32_t i, k;

    if (j->conf->until_idle_ms < 0 || j->stopping)
        return;
    for (i = 0; i < j->plan->chain_count; i++)
        for (k = 0; k < j->plan->chains[i].parallelism; k++) {
            struct subtask *st = &j->subtasks[i][k];

            if (st->input_count == 0 && !atomic_load(&st->at_end) &&
                !atomic_load(&st->done))
                return;
            if (now_ms - atomic_load(&st->active_ms) < j->conf->until_idle_ms)
                return;
        }
    log_line(LOG_INFO, "idle for %lld ms: stopping",
             (long long)j->conf->until_idle_ms);
    job_stop(j);
}

static void
check_stop_timeout(struct job *j, int64_t now_ms)
{
    if (!j->stopping || reload_is_swapping(j->run) ||
        now_ms - j->stop_mono_ms < j->conf->stop_timeout_ms)
        return;
    if (j->run->stop_signal == 0)
        j->run->stop_signal = SIGTERM;
    end_at_once(j, "the stop timeout has passed");
}

static int
do_tick(struct job *j, int64_t *last_connectors, struct err *e)
{
    int64_t now_ms = clock_mono_ms();
    int r;

    job_watch_scripts(j);
    if (now_ms - *last_connectors >= CONNECTOR_TICK_MS) {
        *last_connectors = now_ms;
        r = tick_connectors(j, e);
        if (r != 0)
            return r;
    }
    check_idle(j, now_ms);
    if (j->conf->progress)
        progress_draw(j, now_ms);
    check_stop_timeout(j, now_ms);
    r = rounds_tick(&j->rounds, now_ms, e);
    if (r == 0)
        (void)savepoint_tick(j, false);
    if (r == 0)
        reload_tick(j, now_ms);
    return r;
}

static const int signal_numbers[] = {SIGTERM, SIGINT, SIGUSR1, SIGHUP};

enum { SIGNALS = sizeof signal_numbers / sizeof *signal_numbers };

/* A reload that is asked for while nobody looks at events. */
static volatile sig_atomic_t hangup;

static void
note_hangup(int signum)
{
    (void)signum;
    hangup = 1;
}

/* A broker may be waited for now: a question, or a reload, must not end the
 * job before it has begun. */
static void
ignore_questions(void)
{
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGUSR1, SIG_IGN);
    (void)signal(SIGHUP, note_hangup);
}

/* A signal to stop, while the job is opened again for other code: it stops in
 * order once it runs. A second one ends the process, as ever. */
static volatile sig_atomic_t stop_noted;
static volatile int64_t stop_noted_ms;

static void
note_stop(int signum)
{
    int64_t now_ms = clock_mono_ms();

    if (stop_noted == 0)
        stop_noted_ms = now_ms;
    else if (now_ms - stop_noted_ms >= SAME_SIGNAL_MS)
        _exit(128 + signum);
    stop_noted = signum;
}

static void
start_events(struct run *run, struct job *j)
{
    int noted = stop_noted;
    size_t i;

    if (hangup != 0)
        reload_ask(run);
    hangup = 0;
    if (ev_is_active(&run->tick))
        return;
    ev_timer_init(&run->tick, on_tick, TICK_MS / 1000., TICK_MS / 1000.);
    ev_timer_start(run->loop, &run->tick);
    for (i = 0; i < SIGNALS; i++) {
        ev_signal_init(&run->signals[i], on_signal, signal_numbers[i]);
        run->signals[i].data = j;
        ev_signal_start(run->loop, &run->signals[i]);
    }
    stop_noted = 0;
    if (noted != 0)
        (void)raise(noted);
}

/* While the job is opened again nobody looks at events: a signal to stop
 * must end the process then, as it does before the first start. */
static void
stop_events(struct run *run)
{
    size_t i;

    if (!ev_is_active(&run->tick))
        return;
    ev_timer_stop(run->loop, &run->tick);
    for (i = 0; i < SIGNALS; i++)
        ev_signal_stop(run->loop, &run->signals[i]);
    ignore_questions();
}

/* Before it is opened again for other code. @return false: a signal to stop
 * came before that, and was heard. */
static bool
stop_events_for_swap(struct run *run)
{
    sigset_t all, old;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    if (ev_is_active(&run->tick)) /* not so if an attempt did not open */
        (void)ev_run(run->loop, EVRUN_NOWAIT);
    if (run->stop_signal == 0) {
        stop_events(run);
        (void)signal(SIGTERM, note_stop);
        (void)signal(SIGINT, note_stop);
    }
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    return run->stop_signal == 0;
}

static bool
slots_ended(const struct job *j)
{
    uint32_t i;

    for (i = 0; i < j->slot_count; i++)
        if (j->slots[i].started && !atomic_load(&j->slots[i].ended))
            return false;
    return true;
}

/* One may still be in a call of user code: the watchdog ends it, and a second
 * signal is heard meanwhile. */
static void
join_slots(struct job *j)
{
    uint32_t i;

    while (!slots_ended(j)) {
        (void)ev_run(j->run->loop, 0);
        job_watch_scripts(j);
    }
    for (i = 0; i < j->slot_count; i++)
        slot_join(&j->slots[i]);
}

void
job_loop(struct job *j)
{
    int64_t last_connectors = 0;
    struct err e;

    err_clear(&e);
    while (!job_is_done(j)) {
        (void)ev_run(j->run->loop, 0);
        if (atomic_load(&j->failing))
            break;
        if (atomic_load(&j->pipe_closed)) {
            reload_give_up(j);
            job_stop(j);
        }
        if (do_tick(j, &last_connectors, &e) != 0) {
            job_failed(j, &e);
            break;
        }
    }
    if (atomic_load(&j->failing))
        stop_slots(j);
    join_slots(j);
    if (atomic_load(&j->failing))
        target_cancel(&j->target);
}

static int
start_slots(struct job *j, struct err *e)
{
    sigset_t all, old;
    uint32_t i;
    int r = 0;

    /* Signals are the coordinator's. */
    (void)sigfillset(&all);
    (void)sigdelset(&all, SIGSEGV);
    (void)sigdelset(&all, SIGBUS);
    (void)sigdelset(&all, SIGFPE);
    (void)sigdelset(&all, SIGABRT);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    for (i = 0; i < j->slot_count && r == 0; i++)
        r = slot_start(&j->slots[i], e);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    return r;
}

static void
report(const struct job *j)
{
    const struct op_failure *f = &j->failure;
    struct log_record lr = {
        .step = f->step,
        .step_place = f->place,
        .topic = f->has_record ? f->topic : NULL,
        .partition = f->partition,
        .offset = f->offset,
        .key = f->has_key ? f->key : NULL,
        .key_len = f->key_len,
        .timestamp = f->timestamp,
        .has_timestamp = f->has_timestamp,
        .value = f->has_value ? f->value : NULL,
        .value_len = f->value_len,
    };

    log_error(&f->err, true, j->has_record ? &lr : NULL);
}

/* The last round, waited for with an ear for a second signal. */
static void
finish_rounds(struct job *j, struct err *e)
{
    int r;

    for (;;) {
        r = rounds_final(&j->rounds, e);
        if (r <= 0)
            break;
        (void)ev_run(j->run->loop, 0);
        job_watch_scripts(j);
        check_stop_timeout(j, clock_mono_ms());
    }
    if (r < 0)
        job_failed(j, e);
    while (r == 0 && savepoint_tick(j, true)) {
        (void)ev_run(j->run->loop, 0);
        check_stop_timeout(j, clock_mono_ms());
    }
}

/* How the attempt ended, once nothing runs any more. @return exit code. */
static int
ended(struct job *j)
{
    progress_clear(j);
    if (j->has_failure) {
        report(j);
        return err_exit_code(j->failure.err.code);
    }
    if (!j->pipe_closed)
        return 0;
    log_line(LOG_INFO, "stdout was closed by its reader: stopped");
    return j->plan->bounded ? 0 : 74;
}

/* Options of the job that a later version acts on. */
static void
say_idle_options(const struct job *j)
{
    const struct opt *idle = opt_get(opt_get(j->plan->job, "options"), "idle");
    const struct opt *o = idle != NULL ? idle->first : NULL;
    struct buf b;

    if (o == NULL)
        return;
    buf_init(&b);
    for (; o != NULL; o = o->next)
        buf_addf(&b, "%s%s", b.len > 0 ? ", " : "", o->s);
    log_line(LOG_WARN, "without effect in this version: %s", buf_cstr(&b));
    buf_fini(&b);
}

static void
say_at_start(struct job *j)
{
    struct run *run = j->run;

    if (run->opens != 0 && run->restarts == run->said_restarts)
        return; /* a reload: it says so itself */
    run->said_restarts = run->restarts;
    if (run->restarts != 0)
        log_line(LOG_INFO, "restart %u: goes on from checkpoint %llu",
                 run->restarts, (unsigned long long)run->home.status.complete);
    else if (run->restored != 0)
        log_line(LOG_INFO, "goes on from checkpoint %llu",
                 (unsigned long long)run->restored);
    if (run->restarts == 0)
        say_idle_options(j);
}

int
run_refuse(const struct run_conf *conf, const struct err *e)
{
    int code = err_exit_code(e->code);

    log_error(e, false, NULL);
    summary_write_failed(conf, NULL, clock_wall_ms(), e, code);
    return code;
}

/* A client that did not close within its time must not hold the exit. */
static int
leave(struct run *run, int code)
{
    control_free(&run->control);
    home_close(&run->home);
    run_free_counters(run);
    if (kafka_left_behind()) {
        (void)fflush(NULL);
        _exit(code);
    }
    ev_loop_destroy(run->loop);
    return code;
}

/* Open the job and run it to its end or failure. @return whether it opened. */
static bool
attempt(struct job *j, struct run *run)
{
    struct err e;
    int r;

    err_clear(&e);
    r = job_open(j, run, &e);
    if (r == 0 && j->already_done)
        return true;
    if (r == 0)
        r = savepoint_serve(j, &e);
    if (r == 0) {
        reload_opened(run);
        say_at_start(j);
        start_events(run, j);
        atomic_store(&j->running, true);
        r = start_slots(j, &e);
    }
    if (r != 0) {
        job_failed(j, &e);
        stop_slots(j); /* those that did start */
        return false;
    }
    job_loop(j);
    /* Whoever closed stdout stopped a bounded job as SIGTERM does; another
     * one ends with an error, and with what its last round holds. */
    if (!j->has_failure && (!atomic_load(&j->pipe_closed) || j->plan->bounded))
        finish_rounds(j, &e);
    atomic_store(&j->running, false);
    if (j->has_failure)
        savepoint_failed(j, &j->failure.err);
    return true;
}

/* Back off before the next attempt. @return false if a signal says stop. */
static bool
back_off(struct job *j, int64_t wait_ms)
{
    int64_t until = clock_mono_ms() + wait_ms;
    struct err *e = &j->failure.err;

    log_line(LOG_WARN, "%s%s%s; restart %u in %lld ms", e->where,
             e->where[0] != '\0' ? ": " : "", e->msg, j->run->restarts,
             (long long)wait_ms);
    start_events(j->run, j);
    while (j->run->stop_signal == 0 && clock_mono_ms() < until)
        (void)ev_run(j->run->loop, 0);
    return j->run->stop_signal == 0;
}

/* A commit that waits for its broker holds the next start up. Where signals
 * are heard, one more to stop ends the process meanwhile. */
static void
await_ckpt(struct job *j)
{
    int64_t told_ms = clock_mono_ms();

    while (!ckpt_end(&j->ckpt, CKPT_LOOK_MS)) {
        if (ev_is_active(&j->run->tick))
            (void)ev_run(j->run->loop, EVRUN_NOWAIT);
        check_stop_timeout(j, clock_mono_ms());
        if (clock_mono_ms() - told_ms < CKPT_END_MS)
            continue;
        told_ms = clock_mono_ms();
        log_line(LOG_WARN,
                 "the next start waits for the end of checkpoint %llu: its "
                 "commit has no answer yet",
                 (unsigned long long)j->rounds.current);
    }
}

static int
open_run(struct run *run, const struct run_conf *conf, struct err *e)
{
    run->conf = conf;
    run->started_ms = clock_wall_ms();
    run->started_mono_ms = clock_mono_ms();
    run->loop = ev_default_loop(EVFLAG_AUTO);
    if (run->loop == NULL)
        return err_set(e, ERR_INTERNAL, "cannot make an event loop");
    ev_async_init(&run->wakeup, on_wakeup);
    ev_async_start(run->loop, &run->wakeup);
    ignore_questions();
    return 0;
}

/* It never ran: what the user is told is about the start. */
static int
not_opened(struct job *j, struct run *run)
{
    const struct err *e = &j->failure.err;
    int code = err_exit_code(e->code);

    log_error(e, e->code != ERR_JOBFILE && e->code != ERR_USAGE, NULL);
    summary_write_failed(run->conf, j->plan != NULL ? j->plan->name : NULL,
                         run->started_ms, e, code);
    return code;
}

static int
finished_before(struct job *j, struct err *e)
{
    int r = summary_write(j, 0, e);

    if (r != 0)
        log_error(e, true, NULL);
    return r != 0 ? err_exit_code(r) : 0;
}

/* What the job wrote while it failed is its last checkpoint all the same: the
 * summary says what the next start will say. A commit may hang, though. */
static void
end_ckpt(struct job *j, struct run *run)
{
    run->commit_hangs = !ckpt_end(&j->ckpt, CKPT_END_MS);
    if (run->commit_hangs || run->home.store == NULL)
        return;
    store_status(run->home.store, &run->home.status);
    if (run->next_round != 0 && run->next_round == run->home.status.complete)
        run_note_round(run);
}

/* Whether the attempt ended for other code, which the next one has: the new
 * version, or the one of before, if the new one failed. No restart is used up,
 * and signals are heard all the time. */
static bool
has_other_code(struct job *j)
{
    struct run *run = j->run;

    if (!j->has_failure && reload_is_swapping(run)) {
        await_ckpt(j);
        if (!stop_events_for_swap(run))
            return false;
        job_close(j);
        reload_swap(run);
        return true;
    }
    reload_failed(j);
    if (!j->has_failure || !reload_on_probation(run) || recover_is_retriable(j))
        return false;
    await_ckpt(j);
    if (!stop_events_for_swap(run))
        return false;
    if (!reload_asks(j) && !reload_rolls_back(j))
        return false;
    report(j);
    job_close(j);
    return true;
}

static int
run_attempts(struct job *j, struct run *run, struct err *e)
{
    bool opened, down = false; /* asked to stop during the back-off */
    int64_t wait_ms;
    int code, r;

    for (;;) {
        opened = attempt(j, run);
        if (j->already_done && opened)
            return finished_before(j, e);
        if (!opened && run->opens == 0 && !j->built)
            return not_opened(j, run);
        if (has_other_code(j)) {
            run->opens++;
            continue;
        }
        if (!recover_may_restart(j, &wait_ms))
            break;
        down = !back_off(j, wait_ms);
        if (down)
            break;
        stop_events(run);
        await_ckpt(j);
        job_close(j);
        run->opens++;
    }
    end_ckpt(j, run);
    recover_judge_fencing(j);
    code = ended(j);
    if (down)
        code = 128 + run->stop_signal;
    r = j->plan != NULL ? summary_write(j, code, e) : 0;
    if (r != 0) {
        log_error(e, true, NULL);
        code = code != 0 ? code : err_exit_code(r);
    }
    return code;
}

int
run_job(const struct run_conf *conf, struct err *e)
{
    static struct run run; /* one a process */
    static struct job j;   /* large */
    int code;

    err_clear(e);
    if (open_run(&run, conf, e) != 0) {
        log_error(e, true, NULL);
        return err_exit_code(e->code);
    }
    code = run_attempts(&j, &run, e);
    if (!reload_end(&run) || run.commit_hangs ||
        !ckpt_end(&j.ckpt, CKPT_END_MS)) {
        /* A commit waits for a broker that is away; the marker will say
         * what became of it. */
        (void)fflush(NULL);
        _exit(code);
    }
    job_close(&j);
    return leave(&run, code);
}
