#include "run/box.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"

enum { WATCH_NS = 20 * 1000 * 1000 };

struct box {
    struct run run;
    struct job job;
    bool open;
    pthread_t watchdog;
    bool watching;
    pthread_mutex_t lock; /* `job` is the watchdog's while it holds it */
    pthread_cond_t more;
    /* under the lock */
    bool stop, built;
};

static void
on_wakeup(struct ev_loop *loop, ev_async *w, int events)
{
    (void)w;
    (void)events;
    ev_break(loop, EVBREAK_ONE);
}

static void *
watchdog_main(void *arg)
{
    struct box *b = arg;
    struct timespec t;

    (void)pthread_mutex_lock(&b->lock);
    while (!b->stop) {
        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        t.tv_nsec += WATCH_NS;
        if (t.tv_nsec >= 1000000000) {
            t.tv_nsec -= 1000000000;
            t.tv_sec++;
        }
        (void)pthread_cond_timedwait(&b->more, &b->lock, &t);
        if (b->built)
            job_watch_scripts(&b->job);
    }
    (void)pthread_mutex_unlock(&b->lock);
    return NULL;
}

int
box_new(const struct run_conf *conf, struct box **ret, struct err *e)
{
    struct box *b = mem_zalloc(sizeof *b);
    struct run *run = &b->run;
    pthread_condattr_t attr;

    (void)pthread_mutex_init(&b->lock, NULL);
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&b->more, &attr);
    (void)pthread_condattr_destroy(&attr);
    run->conf = conf;
    run->started_ms = clock_wall_ms();
    run->started_mono_ms = clock_mono_ms();
    run->loop = ev_loop_new(EVFLAG_AUTO);
    if (run->loop != NULL) {
        ev_async_init(&run->wakeup, on_wakeup);
        ev_async_start(run->loop, &run->wakeup);
        b->watching = pthread_create(&b->watchdog, NULL, watchdog_main, b) == 0;
    }
    if (!b->watching) {
        box_free(&b);
        return err_set(e, ERR_INTERNAL, "cannot make a box for the job");
    }
    *ret = b;
    return 0;
}

static void
let_watch(struct box *b, bool on)
{
    (void)pthread_mutex_lock(&b->lock);
    b->built = on;
    (void)pthread_mutex_unlock(&b->lock);
}

int
box_open(struct box *b, struct err *e)
{
    int r;

    b->open = true;
    r = job_open(&b->job, &b->run, e);
    if (r == 0)
        let_watch(b, true);
    return r;
}

void
box_close(struct box *b)
{
    struct run *run = &b->run;

    if (!b->open)
        return;
    b->open = false;
    let_watch(b, false);
    job_close(&b->job);
    home_close(&run->home);
    run->restarts++;
    run->opens++;
}

void
box_set_parallelism(struct box *b, uint32_t parallelism)
{
    reload_version(&b->run)->parallelism = parallelism;
}

int
box_prepare(struct box *b, const char *file, struct err *e)
{
    struct reload *r = &b->run.reload;
    const struct version *top = history_top(&r->history);
    struct prepare *p = &r->prepare;
    int rc;

    r->next = version_new(file, top->params);
    r->next->parallelism = top->parallelism;
    r->next->number = ++r->history.attempts;
    r->dirty = true;
    r->began_ms = clock_mono_ms();
    prepare_note_plan(p, b->job.plan);
    p->conf = b->run.conf;
    p->version = r->next;
    rc = prepare_now(p, e);
    p->version = NULL; /* it stays r->next */
    prepare_fini(p);
    if (rc != 0)
        version_free(&r->next);
    return rc;
}

void
box_swap(struct box *b)
{
    reload_swap(&b->run);
}

bool
box_rolls_back(struct box *b)
{
    return reload_rolls_back(&b->job);
}

struct job *
box_job(struct box *b)
{
    return &b->job;
}

void
box_wait(struct box *b)
{
    (void)ev_run(b->run.loop, 0);
}

void
box_free(struct box **bp)
{
    struct box *b = *bp;

    *bp = NULL;
    if (b == NULL)
        return;
    box_close(b);
    if (b->watching) {
        (void)pthread_mutex_lock(&b->lock);
        b->stop = true;
        (void)pthread_cond_signal(&b->more);
        (void)pthread_mutex_unlock(&b->lock);
        (void)pthread_join(b->watchdog, NULL);
    }
    (void)reload_end(&b->run);
    run_free_counters(&b->run);
    if (b->run.loop != NULL)
        ev_loop_destroy(b->run.loop);
    (void)pthread_cond_destroy(&b->more);
    (void)pthread_mutex_destroy(&b->lock);
    free(b);
}
