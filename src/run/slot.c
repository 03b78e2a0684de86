#include "run/slot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "run/job.h"

enum { WAIT_MAX_MS = 1000, TICK_MS = 5 };

static void
on_wakeup(struct ev_loop *loop, ev_async *w, int events)
{
    (void)loop;
    (void)w;
    (void)events;
}

static void
on_timer(struct ev_loop *loop, ev_timer *w, int events)
{
    (void)loop;
    (void)w;
    (void)events;
}

int
slot_init(struct slot *s, struct job *job, uint32_t index, struct err *e)
{
    memset(s, 0, sizeof *s);
    s->job = job;
    s->index = index;
    s->loop = ev_loop_new(EVFLAG_AUTO);
    if (s->loop == NULL)
        return err_set(e, ERR_INTERNAL, "cannot make an event loop");
    ev_async_init(&s->wakeup, on_wakeup);
    ev_async_start(s->loop, &s->wakeup);
    ev_timer_init(&s->timer, on_timer, 0., 0.);
    return 0;
}

void
slot_fini(struct slot *s)
{
    if (s->loop != NULL)
        ev_loop_destroy(s->loop);
    free(s->subtasks);
    memset(s, 0, sizeof *s);
}

void
slot_add(struct slot *s, struct subtask *st)
{
    s->subtasks =
        mem_realloc(s->subtasks, (s->count + 1u) * sizeof(struct subtask *));
    s->subtasks[s->count++] = st;
    st->slot = s;
}

void
slot_wake(void *arg)
{
    struct slot *s = arg;

    ev_async_send(s->loop, &s->wakeup);
}

static void
add_time(_Atomic int64_t *c, int64_t ns)
{
    atomic_store_explicit(c, atomic_load_explicit(c, memory_order_relaxed) + ns,
                          memory_order_relaxed);
}

static void
sleep_for(struct slot *s, int64_t ms)
{
    if (ms <= 0) {
        (void)ev_run(s->loop, EVRUN_NOWAIT);
        return;
    }
    ev_now_update(s->loop);
    ev_timer_set(&s->timer, (double)ms / 1000.0, 0.);
    ev_timer_start(s->loop, &s->timer);
    (void)ev_run(s->loop, EVRUN_ONCE);
    ev_timer_stop(s->loop, &s->timer);
}

struct turn { /* one round over the subtasks */
    int64_t now_ns, wait_ms;
    bool worked, tick, all_done;
};

static int
run_subtask(struct slot *s, struct subtask *st, struct turn *t, struct err *e)
{
    int64_t began = t->now_ns;
    int r;

    st->ops.env.now_ms = began / 1000000;
    subtask_pump(st);
    r = subtask_step(st, &t->wait_ms, e);
    if (r >= 0 && t->tick) {
        int rc = subtask_tick(st, r == STEP_IDLE, &t->wait_ms, e);

        if (rc != 0)
            return rc;
    }
    if (r < 0)
        return r;
    t->now_ns = clock_mono_ns();
    if (r == STEP_WORKED) {
        t->worked = true;
        add_time(&st->busy_ns, t->now_ns - began);
    }
    if (!atomic_load_explicit(&st->done, memory_order_relaxed))
        t->all_done = false;
    (void)s;
    return r;
}

/* The time asleep is idle or backpressured, by what each subtask said. */
static void
rest(struct slot *s, const int *results, const struct turn *t)
{
    int64_t from = clock_mono_ns(), ns;
    uint32_t i;

    sleep_for(s, t->wait_ms);
    ns = clock_mono_ns() - from;
    for (i = 0; i < s->count; i++)
        add_time(results[i] == STEP_BLOCKED ? &s->subtasks[i]->blocked_ns
                                            : &s->subtasks[i]->idle_ns,
                 ns);
}

static int
loop(struct slot *s, int *results, struct err *e)
{
    int64_t last_tick = 0;

    while (!atomic_load_explicit(&s->stop, memory_order_relaxed)) {
        struct turn t = {.now_ns = clock_mono_ns(),
                         .wait_ms = WAIT_MAX_MS,
                         .all_done = true};
        uint32_t i;

        t.tick = t.now_ns - last_tick >= TICK_MS * 1000000;
        if (t.tick)
            last_tick = t.now_ns;
        for (i = 0; i < s->count; i++) {
            int r = run_subtask(s, s->subtasks[i], &t, e);

            if (r < 0)
                return r;
            results[i] = r;
        }
        if (t.all_done)
            return 0;
        if (t.worked)
            continue;
        if (!t.tick) { /* look at the clock once before sleeping */
            last_tick = 0;
            continue;
        }
        rest(s, results, &t);
        last_tick = 0;
    }
    return 0;
}

static void *
slot_main(void *arg)
{
    struct slot *s = arg;
    int *results = mem_zalloc((s->count + 1u) * sizeof *results);
    char name[16];
    struct err e;

    err_clear(&e);
    (void)snprintf(name, sizeof name, "slot-%u", s->index);
    (void)pthread_setname_np(pthread_self(), name);
    if (loop(s, results, &e) != 0)
        job_failed(s->job, &e);
    free(results);
    atomic_store(&s->ended, true);
    job_wake(s->job);
    return NULL;
}

int
slot_start(struct slot *s, struct err *e)
{
    if (pthread_create(&s->thread, NULL, slot_main, s) != 0)
        return err_set(e, ERR_INTERNAL, "cannot start a thread");
    s->started = true;
    return 0;
}

void
slot_join(struct slot *s)
{
    if (s->started)
        (void)pthread_join(s->thread, NULL);
    s->started = false;
}
