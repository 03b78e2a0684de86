#include "base/clock.h"

#include <stdatomic.h>
#include <time.h>

/* Virtual monotonic time is that far ahead of virtual wall time: 0 stands for
 * "never" in some places. */
#define VIRTUAL_START_MS INT64_C(1000000000)

/* Virtual wall time in ms; below 0: real time. Relaxed: it is set while the
 * threads that read it rest, and guards nothing. */
static _Atomic int64_t virtual_ms = -1;

static int64_t
read_ns(clockid_t id)
{
    struct timespec t;

    (void)clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t
clock_wall_ms(void)
{
    int64_t ms = atomic_load_explicit(&virtual_ms, memory_order_relaxed);

    return __builtin_expect(ms >= 0, 0) ? ms
                                        : read_ns(CLOCK_REALTIME) / 1000000;
}

int64_t
clock_mono_ns(void)
{
    int64_t ms = atomic_load_explicit(&virtual_ms, memory_order_relaxed);

    return __builtin_expect(ms >= 0, 0) ? (ms + VIRTUAL_START_MS) * 1000000
                                        : read_ns(CLOCK_MONOTONIC);
}

int64_t
clock_mono_ms(void)
{
    return clock_mono_ns() / 1000000;
}

int64_t
clock_real_ns(void)
{
    return read_ns(CLOCK_MONOTONIC);
}

int64_t
clock_cpu_ns(void)
{
    return read_ns(CLOCK_PROCESS_CPUTIME_ID);
}

void
clock_set_virtual(int64_t wall_ms)
{
    atomic_store_explicit(&virtual_ms, wall_ms, memory_order_relaxed);
}

void
clock_set_real(void)
{
    clock_set_virtual(-1);
}
