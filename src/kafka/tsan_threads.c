/*
 * C11 threads on top of POSIX threads, for builds with ThreadSanitizer only.
 *
 * The distribution's librdkafka makes its threads with thrd_create() and
 * locks with mtx_lock(). ThreadSanitizer of gcc 12 and clang 14 knows neither:
 * the first free() in such a thread ends the program. These definitions come
 * before those of the C library and lead to calls it does know. The types are
 * the same in glibc (asserted below). Nothing of this is in other builds.
 */
#include "kafka/tsan_threads.h"

#if TSAN_THREADS

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <threads.h>

static_assert(sizeof(thrd_t) == sizeof(pthread_t), "thrd_t");
static_assert(sizeof(mtx_t) == sizeof(pthread_mutex_t), "mtx_t");
static_assert(sizeof(cnd_t) == sizeof(pthread_cond_t), "cnd_t");

int tsan_threads_here = 1;

struct start {
    thrd_start_t func;
    void *arg;
};

static pthread_mutex_t *
mutex(mtx_t *m)
{
    return (pthread_mutex_t *)(void *)m;
}

static pthread_cond_t *
cond(cnd_t *c)
{
    return (pthread_cond_t *)(void *)c;
}

static int
result(int r)
{
    switch (r) {
    case 0:
        return thrd_success;
    case ETIMEDOUT:
        return thrd_timedout;
    case EBUSY:
        return thrd_busy;
    case ENOMEM:
        return thrd_nomem;
    default:
        return thrd_error;
    }
}

static void *
start_main(void *arg)
{
    struct start s = *(struct start *)arg;

    free(arg);
    return (void *)(intptr_t)s.func(s.arg);
}

int
thrd_create(thrd_t *thread, thrd_start_t func, void *arg)
{
    struct start *s = malloc(sizeof *s);
    int r;

    if (s == NULL)
        return thrd_nomem;
    s->func = func;
    s->arg = arg;
    r = pthread_create((pthread_t *)thread, NULL, start_main, s);
    if (r != 0)
        free(s);
    return result(r);
}

int
thrd_join(thrd_t thread, int *res)
{
    void *value = NULL;
    int r = pthread_join((pthread_t)thread, &value);

    if (r == 0 && res != NULL)
        *res = (int)(intptr_t)value;
    return result(r);
}

int
thrd_detach(thrd_t thread)
{
    return result(pthread_detach((pthread_t)thread));
}

int
mtx_init(mtx_t *m, int type)
{
    pthread_mutexattr_t attr;
    int r;

    (void)pthread_mutexattr_init(&attr);
    if (type & mtx_recursive)
        (void)pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
    r = pthread_mutex_init(mutex(m), &attr);
    (void)pthread_mutexattr_destroy(&attr);
    return result(r);
}

int
mtx_lock(mtx_t *m)
{
    return result(pthread_mutex_lock(mutex(m)));
}

int
mtx_trylock(mtx_t *m)
{
    return result(pthread_mutex_trylock(mutex(m)));
}

int
mtx_unlock(mtx_t *m)
{
    return result(pthread_mutex_unlock(mutex(m)));
}

void
mtx_destroy(mtx_t *m)
{
    (void)pthread_mutex_destroy(mutex(m));
}

int
cnd_init(cnd_t *c)
{
    return result(pthread_cond_init(cond(c), NULL));
}

int
cnd_wait(cnd_t *c, mtx_t *m)
{
    return result(pthread_cond_wait(cond(c), mutex(m)));
}

int
cnd_timedwait(cnd_t *c, mtx_t *m, const struct timespec *until)
{
    return result(pthread_cond_timedwait(cond(c), mutex(m), until));
}

int
cnd_signal(cnd_t *c)
{
    return result(pthread_cond_signal(cond(c)));
}

int
cnd_broadcast(cnd_t *c)
{
    return result(pthread_cond_broadcast(cond(c)));
}

void
cnd_destroy(cnd_t *c)
{
    (void)pthread_cond_destroy(cond(c));
}

#else

/* ISO C wants a declaration in every unit. */
extern int tsan_threads_absent;

#endif
