#include "script/test.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "script/script_impl.h"

/*
 * The watchdog of a program of one thread: a timer signals the thread, and
 * the handler does what the watchdog of a running job does from outside. Time
 * is real time, whatever the job's clock says. Where no timer can be made,
 * calls are not bounded.
 */

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

enum { TICK_NS = 20 * 1000000 };

static timer_t timer;
static bool running;
/* The handler's own: the call it saw last, and since when. */
static uint32_t seen_seq;
static int64_t seen_since;

static void
on_tick(int number)
{
    struct script *s = script_current;
    int64_t now = clock_real_ns();
    int saved = errno;
    uint32_t seq;

    (void)number;
    if (s == NULL)
        return;
    seq = atomic_load_explicit(&s->call_seq, memory_order_relaxed);
    if (seq != seen_seq || (seq & 1u) == 0) {
        seen_seq = seq;
        seen_since = now;
    } else if (now - seen_since > s->call_timeout_ns) {
        script_interrupt(s);
    }
    errno = saved;
}

void
script_guard(bool on)
{
    struct itimerspec often = {.it_interval = {.tv_nsec = TICK_NS},
                               .it_value = {.tv_nsec = TICK_NS}};
    struct sigevent event;
    struct sigaction sa;

    if (running) {
        (void)timer_delete(timer);
        running = false;
    }
    if (!on)
        return;
    memset(&sa, 0, sizeof sa);
    sa.sa_handler = on_tick;
    sa.sa_flags = SA_RESTART;
    (void)sigaction(SIGVTALRM, &sa, NULL);
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = SIGVTALRM;
    event.sigev_notify_thread_id = gettid();
    running = timer_create(CLOCK_MONOTONIC, &event, &timer) == 0;
    if (running)
        (void)timer_settime(timer, 0, &often, NULL);
}
