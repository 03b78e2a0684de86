/*
 * stdin source: one partition, read by subtask 0, offsets are byte offsets.
 *
 * The slot reads only when poll(2) says that a read will not block. When
 * there is nothing, it arms a watcher thread, which sleeps in poll(2) and
 * calls wake. A regular file always has something and needs no watcher.
 *
 *   state      event given       next
 *   new        SOURCE_ADDED      reading
 *   reading    SOURCE_BATCH      reading; ended at the end of input
 *   reading    SOURCE_NONE       reading (watcher armed)
 *   ended      SOURCE_PART_END   closed
 *   closed     SOURCE_END        (for ever)
 *
 * A job without checkpoints may be reloaded all the same: the next source of
 * the process then begins at the offset of the last round. The bytes from
 * there on that were read already are in `held`, which outlives the sources:
 * what a source had not given when it ended, and, from a restored start until
 * committed() says that nobody goes back, all that was read.
 *
 * After stop() nothing more is read; whole lines already read are given,
 * since nobody could read them again, and then the state is closed.
 */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/mem.h"
#include "connect/connect.h"
#include "connect/intake.h"

enum source_state { STATE_NEW, STATE_READING, STATE_ENDED, STATE_CLOSED };

enum {
    HELD_MAX = 64 << 20, /* more is not read before committed() */
    HELD_WAIT_MS = 20
};

/* Bytes of stdin that the next source may have to read again. The slot's of
 * subtask 0 while it runs; before and after, the coordinator's. */
static struct {
    struct buf bytes;
    size_t at; /* of them, given to this source again already */
    bool all;  /* what is read is added */
    bool skipping;
    struct buf head; /* the first line, for CSV with a header */
    bool has_head, quoted;
} held;

struct source {
    const struct opt *opts; /* the plan's, outlives the source */
    uint16_t src;
    bool regular;                  /* stdin is a file: reads never wait */
    bool header;                   /* CSV: the first line names the columns */
    int64_t start;                 /* offset of a restored round, -1: none */
    atomic_bool stopped, accepted; /* accepted: nobody goes back */
    conn_wake_f *wake;             /* of subtask 0; set before slots start */
    void *wake_arg;
};

struct source_task {
    struct source *source;
    enum source_state state;
    struct intake intake;
    struct decoder *decoder;
    uint16_t topic;
    bool eof;
    bool reads; /* it is subtask 0 */
    /* The watcher, in subtask 0 only. */
    bool watching;
    pthread_t watcher;
    int arm_fd; /* eventfd: written to arm the watcher or to end it */
    atomic_bool quit;
};

static int64_t
restored_offset(const struct step_blobs *b)
{
    int64_t most = b != NULL ? 0 : -1;
    uint32_t i;

    /* Only one subtask has read anything. */
    for (i = 0; b != NULL && i < b->count; i++) {
        struct buf text;
        int64_t n;

        buf_init(&text);
        buf_add(&text, b->blobs[i].data, b->blobs[i].len);
        n = strtoll(buf_cstr(&text), NULL, 10);
        buf_fini(&text);
        most = n > most ? n : most;
    }
    return most;
}

static int
open_source(const struct conn_env *env, struct source **ret, struct err *e)
{
    struct source *s;
    struct stat st;

    if (fstat(STDIN_FILENO, &st) != 0)
        return err_set(e, ERR_IO, "source %s: cannot read stdin: %s", env->step,
                       strerror(errno));
    s = mem_zalloc(sizeof *s);
    s->opts = env->opts;
    s->src = env->src;
    s->regular = S_ISREG(st.st_mode);
    s->header = opt_is(env->opts, "format", "csv") &&
                opt_bool(env->opts, "header", false);
    s->start = restored_offset(env->restored);
    *ret = s;
    return 0;
}

/* Wait to be armed, then for input, then wake the slot; until told to end. */
static void *
watch(void *arg)
{
    struct source_task *t = arg;
    struct pollfd fds[2] = {{.fd = t->arm_fd, .events = POLLIN},
                            {.fd = STDIN_FILENO, .events = POLLIN}};
    bool armed = false;
    uint64_t n;

    while (!atomic_load(&t->quit)) {
        fds[0].revents = fds[1].revents = 0;
        if (poll(fds, armed ? 2 : 1, -1) < 0)
            continue; /* EINTR; all else is tried again */
        if (fds[0].revents != 0 &&
            read(t->arm_fd, &n, sizeof n) == (ssize_t)sizeof n)
            armed = true;
        if (fds[1].revents != 0) {
            armed = false;
            t->source->wake(t->source->wake_arg);
        }
    }
    return NULL;
}

static void
arm(struct source_task *t)
{
    uint64_t one = 1;

    if (t->watching)
        (void)!write(t->arm_fd, &one, sizeof one);
}

static int
start_watcher(struct source_task *t, struct err *e)
{
    sigset_t all, old;
    int r;

    t->arm_fd = eventfd(0, EFD_CLOEXEC);
    if (t->arm_fd == -1)
        return err_set(e, ERR_IO, "cannot make an eventfd: %s",
                       strerror(errno));
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    r = pthread_create(&t->watcher, NULL, watch, t);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (r != 0)
        return err_set(e, ERR_INTERNAL, "cannot start a thread: %s",
                       strerror(r));
    t->watching = true;
    return 0;
}

/* What was read and not given is the next source's. */
static void
hold_rest(struct source_task *t)
{
    const struct lines *l = &t->intake.lines;
    struct buf rest;

    if (held.all && !atomic_load(&t->source->accepted)) {
        held.at = 0; /* from the restored offset again */
        return;
    }
    buf_init(&rest);
    buf_add(&rest, l->data + l->start, l->end - l->start);
    buf_add(&rest, held.bytes.data + held.at, held.bytes.len - held.at);
    buf_fini(&held.bytes);
    held.bytes = rest;
    held.at = 0;
    held.skipping = l->skipping;
}

static void
free_task(struct source_task **t)
{
    if (*t == NULL)
        return;
    if ((*t)->reads)
        hold_rest(*t);
    if ((*t)->watching) {
        atomic_store(&(*t)->quit, true);
        arm(*t);
        (void)pthread_join((*t)->watcher, NULL);
    }
    if ((*t)->arm_fd != -1)
        (void)close((*t)->arm_fd);
    intake_fini(&(*t)->intake);
    decoder_free(&(*t)->decoder);
    free(*t);
    *t = NULL;
}

/* Begin behind what was read: with the columns that the header named. */
static int
resume(struct source_task *t, struct err *e)
{
    struct rec rec = {0};
    struct buf line;
    struct arena a;
    int r = 0;

    lines_start(&t->intake.lines, t->source->start);
    t->intake.lines.skipping = held.skipping;
    held.all = true;
    if (!t->source->header || !held.has_head || t->source->start == 0)
        return 0;
    buf_init(&line);
    arena_init(&a);
    buf_add(&line, held.head.data, held.head.len);
    buf_reserve(&line, REC_PAD);
    memset(line.data + line.len, 0, REC_PAD);
    r = decoder_decode(t->decoder, line.data, line.len, &a, &rec, e);
    arena_fini(&a);
    buf_fini(&line);
    return r < 0 && r != ERR_RECORD ? r : 0;
}

static int
new_task(struct source *s, const struct conn_task *conf,
         struct source_task **ret, struct err *e)
{
    struct source_task *t = mem_zalloc(sizeof *t);
    int r = 0;

    t->source = s;
    t->arm_fd = -1;
    intake_init(&t->intake, s->opts);
    if (conf->subtask != 0) {
        t->state = STATE_CLOSED;
        *ret = t;
        return 0;
    }
    s->wake = conf->wake;
    s->wake_arg = conf->wake_arg;
    t->topic = topic_register("stdin");
    r = decoder_new(s->opts, true, &t->decoder, e);
    if (r == 0 && s->start >= 0)
        r = resume(t, e);
    t->reads = r == 0;
    if (r == 0 && !s->regular && s->wake != NULL)
        r = start_watcher(t, e);
    if (r < 0)
        free_task(&t);
    else
        *ret = t;
    return r;
}

/* Keep the first line; a newline in quotes does not end it. */
static void
note_head(const char *bytes, size_t n)
{
    size_t i;

    for (i = 0; i < n && !held.has_head; i++) {
        if (bytes[i] == '"')
            held.quoted = !held.quoted;
        held.has_head =
            (bytes[i] == '\n' && !held.quoted) || held.head.len == LINE_CUT;
        if (!held.has_head && bytes[i] != '\r')
            buf_addc(&held.head, bytes[i]);
    }
}

/* Give bytes again that were read before. @return how many. */
static size_t
read_held(char *to, size_t room)
{
    size_t n = held.bytes.len - held.at;

    n = n < room ? n : room;
    if (n > 0)
        memcpy(to, held.bytes.data + held.at, n);
    held.at += n;
    return n;
}

/* Nobody goes back any more: what was given is not held. */
static void
forget_held(void)
{
    struct buf rest;

    held.all = false;
    buf_init(&rest);
    buf_add(&rest, held.bytes.data + held.at, held.bytes.len - held.at);
    buf_fini(&held.bytes);
    held.bytes = rest;
    held.at = 0;
}

/* @return 1 if bytes or the end came, 0 if there is nothing now, 2 if it must
 * be asked again. */
static int
read_some(struct source_task *t, struct err *e)
{
    struct pollfd fd = {.fd = STDIN_FILENO, .events = POLLIN};
    size_t room;
    ssize_t n;
    char *to;

    if (held.all && atomic_load(&t->source->accepted))
        forget_held();
    to = lines_space(&t->intake.lines, &room);
    if (held.at < held.bytes.len) {
        lines_filled(&t->intake.lines, read_held(to, room));
        return 1;
    }
    if (held.all && held.bytes.len >= HELD_MAX)
        return 2;
    if (!t->source->regular && poll(&fd, 1, 0) == 0)
        return 0;
    n = read(STDIN_FILENO, to, room);
    if (fault_hit("stdin_read")) {
        n = -1;
        errno = EIO;
    }
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return 0;
    if (n < 0)
        return err_set(e, ERR_IO, "cannot read stdin: %s", strerror(errno));
    if (t->source->header && !held.has_head)
        note_head(to, (size_t)n);
    if (held.all) {
        buf_add(&held.bytes, to, (size_t)n);
        held.at = held.bytes.len;
    }
    lines_filled(&t->intake.lines, (size_t)n);
    t->eof = n == 0;
    return 1;
}

static int
poll_reading(struct source_task *t, struct batch *b, uint32_t max,
             struct source_event *ev, struct err *e)
{
    struct intake_from from = {t->decoder, t->topic, t->source->src};
    bool stopped = atomic_load(&t->source->stopped);

    for (;;) {
        int r = intake_batch(&t->intake, &from, t->eof, b, max, ev, e);

        if (r < 0)
            return r;
        if (b->n > 0) {
            ev->kind = SOURCE_BATCH;
            return 0;
        }
        if (stopped || t->eof) {
            ev->kind = stopped ? SOURCE_END : SOURCE_PART_END;
            t->state = STATE_CLOSED;
            return 0;
        }
        r = read_some(t, e);
        if (r < 0)
            return r;
        if (r == 0)
            arm(t);
        if (r == 2)
            ev->wait_ms = HELD_WAIT_MS;
        if (r == 0 || r == 2) {
            ev->kind = SOURCE_NONE;
            return 0;
        }
    }
}

static int
poll_task(struct source_task *t, struct batch *b, uint32_t max,
          struct source_event *ev, struct err *e)
{
    assert(max > 0);
    memset(ev, 0, sizeof *ev);
    ev->wait_ms = -1;
    switch (t->state) {
    case STATE_NEW:
        ev->kind = SOURCE_ADDED;
        ev->topic = t->topic;
        t->state = STATE_READING;
        return 0;
    case STATE_READING:
        return poll_reading(t, b, max, ev, e);
    default:
        ev->kind = SOURCE_END;
        return 0;
    }
}

static void
stop(struct source *s)
{
    atomic_store(&s->stopped, true);
    if (s->wake != NULL)
        s->wake(s->wake_arg);
}

static int
snapshot(struct source_task *t, struct buf *out, struct err *e)
{
    (void)e;
    json_put_int(out, lines_offset(&t->intake.lines));
    return 0;
}

static int
committed(struct source *s, const struct buf *blobs, uint32_t count, bool final,
          struct err *e)
{
    (void)blobs;
    (void)count;
    (void) final; /* the next source begins there */
    (void)e;
    atomic_store(&s->accepted, true);
    return 0;
}

static void
close_source(struct source **s)
{
    free(*s);
    *s = NULL;
}

const struct source_type stdin_source_type = {
    .name = "stdin",
    .open = open_source,
    .task_new = new_task,
    .poll = poll_task,
    .stop = stop,
    .snapshot = snapshot,
    .committed = committed,
    .task_free = free_task,
    .close = close_source,
};
