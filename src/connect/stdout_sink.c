/*
 * stdout sink: tasks hand whole lines to one writer thread.
 *
 * A slot must not wait for whoever reads stdout, and lines of tasks must not
 * mix. So a task encodes into a chunk of its own and gives the chunk away at
 * the end of a batch; the writer thread takes chunks in order and writes
 * each whole. A task with CHUNKS_BYTES on the way is not ready, so memory is
 * bounded when the reader is slow.
 *
 *   chunk: task fills -> queue -> writer -> task's spare list -> task fills
 *
 * Threads: a chunk has one owner at a time; the two lists are atomic stacks
 * taken whole. Two stdout sinks have two writers, which hold `medium` for a
 * chunk, so their lines do not mix either.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/mem.h"
#include "connect/connect.h"
#include "connect/out_line.h"

enum {
    CHUNK_BYTES = 128 << 10, /* given away before the end of a batch */
    CHUNKS_BYTES = 1 << 20,  /* on the way: the task is not ready */
    CHUNKS_KEPT = 8,
    CLOSE_SECONDS = 5 /* a writer that is stuck is left behind */
};

struct chunk {
    struct chunk *next;
    struct sink_task *task;
    struct buf text;
};

struct sink {
    const struct opt *opts;        /* the plan's, outlives the sink */
    _Atomic(struct chunk *) queue; /* newest first */
    sem_t work;                    /* posted for each chunk, and to end */
    pthread_t writer;
    atomic_bool quit;
    atomic_int failure;      /* errno of the first failed write, or 0 */
    atomic_bool told;        /* EPIPE was reported */
    char *header;            /* CSV, with newline; the writer's after start */
    struct sink_task *tasks; /* all ever made; freed at close */
};

struct sink_task {
    struct sink *sink;
    struct sink_task *next;
    struct encoder *encoder;
    struct chunk *fill;            /* being filled, or NULL */
    struct chunk *kept;            /* taken from spare, not yet used */
    _Atomic(struct chunk *) spare; /* written, for reuse */
    atomic_size_t waiting;         /* bytes given away, not yet written */
    atomic_bool wants_wake;        /* a call answered "not now" */
    atomic_bool freed, in_wake;
    conn_wake_f *wake;
    void *wake_arg;
};

static void
push(_Atomic(struct chunk *) *list, struct chunk *c)
{
    c->next = atomic_load(list);
    while (!atomic_compare_exchange_weak(list, &c->next, c)) {
    }
}

static void
free_chunks(struct chunk *c)
{
    while (c != NULL) {
        struct chunk *next = c->next;

        buf_fini(&c->text);
        free(c);
        c = next;
    }
}

/*
 * Several sinks may write to stdout: each chunk goes out whole. It is not the
 * lock of the stream, which the end of a process takes: a stuck writer must
 * not hold up an end at once.
 */
static pthread_mutex_t medium = PTHREAD_MUTEX_INITIALIZER;

/* Write all of it; @return 0 or an errno. */
static int
write_all(const char *p, size_t len)
{
    while (len > 0) {
        ssize_t n = fault_hit("stdout_write") ? (errno = ENOSPC, -1)
                                              : write(STDOUT_FILENO, p, len);

        if (n < 0 && errno == EAGAIN) { /* someone made it non-blocking */
            struct pollfd fd = {.fd = STDOUT_FILENO, .events = POLLOUT};

            (void)poll(&fd, 1, -1);
            continue;
        }
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno;
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

static void
write_chunk(struct sink *s, const struct chunk *c)
{
    int why = 0;

    if (atomic_load(&s->failure) != 0)
        return; /* dropped; the task was or will be told */
    (void)pthread_mutex_lock(&medium);
    if (s->header != NULL) {
        why = write_all(s->header, strlen(s->header));
        free(s->header);
        s->header = NULL;
    }
    if (why == 0)
        why = write_all(c->text.data, c->text.len);
    (void)pthread_mutex_unlock(&medium);
    if (why != 0)
        atomic_store(&s->failure, why);
}

/* Tell a task that asked. task_free() waits for in_wake, so that nobody is
 * woken who is gone: both sides use sequentially consistent atomics. */
static void
wake_task(struct sink_task *t)
{
    atomic_store(&t->in_wake, true);
    if (!atomic_load(&t->freed) && t->wake != NULL)
        t->wake(t->wake_arg);
    atomic_store(&t->in_wake, false);
}

static void
finish_chunk(struct sink *s, struct chunk *c)
{
    struct sink_task *t = c->task;
    size_t len = c->text.len;
    size_t before;

    buf_clear(&c->text);
    push(&t->spare, c);
    before = atomic_fetch_sub(&t->waiting, len);
    if (atomic_load(&s->failure) != 0 || before == len ||
        (before >= CHUNKS_BYTES && before - len < CHUNKS_BYTES))
        if (atomic_exchange(&t->wants_wake, false))
            wake_task(t);
}

static void *
write_loop(void *arg)
{
    struct sink *s = arg;

    for (;;) {
        bool quit = atomic_load(&s->quit); /* before the queue is taken */
        struct chunk *c = atomic_exchange(&s->queue, NULL);
        struct chunk *oldest = NULL;

        if (c == NULL) {
            if (quit)
                return NULL;
            while (sem_wait(&s->work) != 0) {
            }
            continue;
        }
        while (c != NULL) { /* newest first becomes oldest first */
            struct chunk *next = c->next;

            c->next = oldest;
            oldest = c;
            c = next;
        }
        while (oldest != NULL) {
            struct chunk *next = oldest->next;

            write_chunk(s, oldest);
            finish_chunk(s, oldest);
            oldest = next;
        }
    }
}

static int
open_sink(const struct conn_env *env, struct sink **ret, struct err *e)
{
    struct sink *s = mem_zalloc(sizeof *s);
    sigset_t all, old;
    int r;

    s->opts = env->opts;
    (void)sem_init(&s->work, 0, 0);
    /* With SIGPIPE blocked in the writer, EPIPE comes as an errno. */
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    r = pthread_create(&s->writer, NULL, write_loop, s);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (r != 0) {
        (void)sem_destroy(&s->work);
        free(s);
        return err_set(e, ERR_INTERNAL, "cannot start a thread: %s",
                       strerror(r));
    }
    *ret = s;
    return 0;
}

static void
set_header(struct sink *s, const struct encoder *encoder)
{
    const char *header = encoder_header(encoder);
    struct buf b;

    if (header == NULL || s->header != NULL)
        return;
    buf_init(&b);
    buf_adds(&b, header);
    buf_addc(&b, '\n');
    s->header = mem_strdup(buf_cstr(&b));
    buf_fini(&b);
}

static int
new_task(struct sink *s, const struct conn_task *conf, struct sink_task **ret,
         struct err *e)
{
    struct sink_task *t = mem_zalloc(sizeof *t);
    int r = encoder_new(s->opts, &t->encoder, e);

    if (r < 0) {
        free(t);
        return r;
    }
    set_header(s, t->encoder); /* the queue is still empty */
    t->sink = s;
    t->wake = conf->wake;
    t->wake_arg = conf->wake_arg;
    t->next = s->tasks;
    s->tasks = t;
    *ret = t;
    return 0;
}

/* Set wants_wake first and look again, so that no wake is missed. */
static bool
is_ready(struct sink_task *t)
{
    if (atomic_load(&t->waiting) < CHUNKS_BYTES)
        return true;
    atomic_store(&t->wants_wake, true);
    return atomic_load(&t->waiting) < CHUNKS_BYTES;
}

static void
give_away(struct sink_task *t)
{
    struct chunk *c = t->fill;

    if (c == NULL || c->text.len == 0)
        return;
    t->fill = NULL;
    (void)atomic_fetch_add(&t->waiting, c->text.len);
    push(&t->sink->queue, c);
    (void)sem_post(&t->sink->work);
}

/* A written chunk or a new one. Only a few are kept, since each may have
 * grown: CHUNKS_BYTES bounds what they hold, not how many they are. */
static struct chunk *
get_chunk(struct sink_task *t)
{
    struct chunk *c, *last;
    int i;

    if (t->kept == NULL) {
        t->kept = last = atomic_exchange(&t->spare, NULL);
        for (i = 1; last != NULL && i < CHUNKS_KEPT; i++)
            last = last->next;
        if (last != NULL) {
            free_chunks(last->next);
            last->next = NULL;
        }
    }
    c = t->kept;
    if (c != NULL) {
        t->kept = c->next;
    } else {
        c = mem_zalloc(sizeof *c);
        c->task = t;
    }
    return c;
}

static int
check(struct sink *s, struct err *e)
{
    int why = atomic_load(&s->failure);
    int r;

    if (why == 0 || (why == EPIPE && atomic_exchange(&s->told, true)))
        return 0;
    r = err_set(e, ERR_IO, "cannot write to stdout: %s", strerror(why));
    if (why == EPIPE && e != NULL)
        e->flags |= ERR_FATAL;
    return r;
}

static int
write_record(struct sink_task *t, const struct rec *r, const char *key,
             uint32_t key_len, uint64_t *ret_bytes, struct err *e)
{
    size_t from;
    int got;

    if (t->fill == NULL)
        t->fill = get_chunk(t);
    from = t->fill->text.len;
    got = out_line(t->encoder, r, key, key_len, &t->fill->text, e);
    if (got < 0)
        return got;
    *ret_bytes = t->fill->text.len - from;
    if (t->fill->text.len < CHUNK_BYTES)
        return 0;
    give_away(t);
    return check(t->sink, e);
}

static int
batch_end(struct sink_task *t, struct err *e)
{
    give_away(t);
    return check(t->sink, e);
}

/*
 * Done means written: a round acknowledges what was flushed. A failure is
 * looked for behind `waiting`, since the writer sets it before it counts the
 * chunk as gone.
 */
static int
flush(struct sink_task *t, struct err *e)
{
    int r;

    give_away(t);
    if (atomic_load(&t->waiting) != 0) {
        atomic_store(&t->wants_wake, true);
        if (atomic_load(&t->waiting) != 0) {
            r = check(t->sink, e);
            return r < 0 ? r : ERR_AGAIN;
        }
    }
    return check(t->sink, e);
}

/* The memory stays until close: the writer may still hold chunks of it. */
static void
free_task(struct sink_task **t)
{
    if (*t == NULL)
        return;
    atomic_store(&(*t)->freed, true);
    while (atomic_load(&(*t)->in_wake))
        (void)sched_yield();
    encoder_free(&(*t)->encoder);
    free_chunks((*t)->fill);
    free_chunks((*t)->kept);
    (*t)->fill = (*t)->kept = NULL;
    *t = NULL;
}

static void
close_sink(struct sink **s)
{
    struct timespec until;
    struct sink_task *t, *next;

    if (*s == NULL)
        return;
    atomic_store(&(*s)->quit, true);
    (void)sem_post(&(*s)->work);
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += CLOSE_SECONDS;
    if (pthread_timedjoin_np((*s)->writer, NULL, &until) != 0) {
        /* Nobody reads stdout. The writer keeps what it uses. */
        (void)pthread_detach((*s)->writer);
        *s = NULL;
        return;
    }
    for (t = (*s)->tasks; t != NULL; t = next) {
        next = t->next;
        free_chunks(atomic_load(&t->spare));
        free(t);
    }
    (void)sem_destroy(&(*s)->work);
    free((*s)->header);
    free(*s);
    *s = NULL;
}

const struct sink_type stdout_sink_type = {
    .name = "stdout",
    .open = open_sink,
    .task_new = new_task,
    .ready = is_ready,
    .write = write_record,
    .batch_end = batch_end,
    .flush = flush,
    .task_free = free_task,
    .close = close_sink,
};
