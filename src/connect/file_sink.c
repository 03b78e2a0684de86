/*
 * File sink: each task writes parts of its own, which appear when complete.
 *
 *   state of a part   file in progress                      next
 *   open              buffered, written by the task         closed by size,
 *                                                           age, or the end
 *   closed            whole                                 see below
 *   published         renamed, synced                       the reader's
 *
 * Without checkpoints closed parts are published by the coordinator's tick,
 * off the slots, and by committed(final), which also closes the open ones.
 * With them a part belongs to the first round behind its closing:
 *
 *   snapshot (slot)      names the open part with its length and the closed
 *                        ones; these go to `sealed`, their names to `unsynced`
 *   prepare (checkpoint  syncs what is in `unsynced`, by name, while tasks
 *   thread)              write on
 *   committed            publishes what is sealed for this round or an
 *   (coordinator)        earlier one, then replaces the marker
 *
 * A task at the end of its input closes its part, which then belongs to the
 * first round behind the last barrier that the task gave. Closing the sink
 * publishes nothing then: a part that no complete round names is cut or
 * removed by the next start (file_restore.h).
 *
 * A part is opened with its first record, so empty output makes none.
 * Numbers go on from the highest part present, of any subtask and also in
 * progress, so nothing is overwritten.
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/hash.h"
#include "base/mem.h"
#include "connect/connect.h"
#include "connect/file_restore.h"
#include "connect/out_line.h"

enum {
    BUFFER_BYTES = 256 << 10,
    CLOSED_MAX = 32 /* open files of closed parts, see close_part() */
};

typedef _Atomic(struct part *) part_stack; /* taken whole */

struct sink {
    struct part_dir dir;
    const struct opt *opts; /* the plan's, outlives the sink */
    int64_t roll_size, roll_ms;
    uint32_t parallelism;
    struct sink_task **tasks; /* by subtask; NULL = none or freed */
    struct part *left;        /* parts of freed tasks; coordinator */
    /* without checkpoints */
    part_stack closed;
    atomic_uint closed_count;
    /* with checkpoints */
    bool in_rounds;
    uint8_t lineage[CONN_LINEAGE_SIZE];
    struct file_start start; /* what tasks begin with */
    part_stack sealed;       /* from snapshot() to committed() */
    part_stack unsynced;     /* from snapshot() to prepare(); names only */
    struct part *waiting;    /* sealed for a later round; coordinator */
    uint64_t round;          /* it begins from */
};

struct sink_task {
    struct sink *sink;
    struct encoder *encoder;
    struct part *part; /* open, or NULL */
    struct buf text;   /* encoded, not yet written */
    int64_t size;      /* of the part with what is buffered */
    uint64_t seq;      /* of the next part */
    uint32_t subtask;
    conn_wake_f *wake;
    void *wake_arg;
    /* When the part was opened, monotonic ms, 0 = none open. Read by the
     * tick to wake a task whose part is old; only a hint, so relaxed. */
    atomic_int_fast64_t opened_ms;
    /* with checkpoints */
    struct part *closed;  /* since the last snapshot */
    unsigned closed_open; /* of them, those whose file is open */
    uint64_t last_round;  /* whose barrier it gave last */
    uint64_t format;      /* of its parts */
};

static void
push(part_stack *s, struct part *p)
{
    p->next = atomic_load(s);
    while (!atomic_compare_exchange_weak(s, &p->next, p)) {
    }
}

static void
add_list(struct part **to, struct part *list)
{
    while (*to != NULL)
        to = &(*to)->next;
    *to = list;
}

/* --------------------------------------------------------------- the sink */

/* Publish a list; all of it is freed, the first error counts. */
static int
publish_list(struct sink *s, struct part *list, struct err *e)
{
    bool any = list != NULL;
    struct part *p;
    int r = 0;

    for (p = list; p != NULL; p = p->next) {
        int got = part_publish(&s->dir, p, r == 0 ? e : NULL);

        r = r == 0 ? got : r;
    }
    part_free_list(&list);
    return any && r == 0 ? part_dir_sync(&s->dir, e) : r;
}

static int
publish_closed(struct sink *s, struct err *e)
{
    struct part *list = atomic_exchange(&s->closed, NULL);
    struct part *p;

    for (p = list; p != NULL; p = p->next)
        (void)atomic_fetch_sub(&s->closed_count, 1);
    return publish_list(s, list, e);
}

static void
close_sink(struct sink **sp)
{
    struct sink *s = *sp;
    struct part *list;

    *sp = NULL;
    if (s == NULL)
        return;
    /* Without checkpoints a part that was closed is complete, also in a job
     * that failed. */
    (void)publish_closed(s, NULL);
    list = atomic_exchange(&s->sealed, NULL);
    part_free_list(&list);
    list = atomic_exchange(&s->unsynced, NULL);
    part_free_list(&list);
    part_free_list(&s->waiting);
    part_free_list(&s->left);
    file_start_fini(&s->start);
    part_dir_close(&s->dir);
    free(s->tasks);
    free(s);
}

/* part_found_f */
static int
find_seq(void *arg, const struct part_found *f, struct err *e)
{
    uint64_t *next = arg;

    (void)e;
    if (f->seq >= *next)
        *next = f->seq + 1;
    return 0;
}

static int
open_dir(struct sink *s, const struct conn_env *env, struct err *e)
{
    const char *path = opt_str(env->opts, "path", ".");
    char *where;
    int r = 0;

    if (s->in_rounds && env->ckpt->finished && access(path, F_OK) != 0)
        return 0; /* whoever reads it took it away */
    if (s->in_rounds) {
        where = part_dir_where(path);
        r = file_restore_check_path(env, where, e);
        free(where);
    }
    if (r == 0)
        r = part_dir_open(path, &s->dir, e);
    if (r == 0 && !s->in_rounds) {
        s->start.next_seq = 1; /* the first part is 000001 */
        return part_dir_scan(&s->dir, find_seq, &s->start.next_seq, e);
    }
    if (r == 0)
        r = part_dir_lock(&s->dir, e);
    return r == 0 ? file_restore(env, &s->dir, &s->start, e) : r;
}

static int
open_sink(const struct conn_env *env, struct sink **ret, struct err *e)
{
    const struct opt *roll = opt_get(env->opts, "roll");
    struct sink *s = mem_zalloc(sizeof *s);
    int r;

    s->opts = env->opts;
    s->dir.fd = -1;
    s->roll_size = opt_int(roll, "size", INT64_C(128) << 20);
    s->roll_ms = opt_int(roll, "interval_ms", 60000);
    s->parallelism = env->parallelism;
    s->tasks = mem_zalloc(env->parallelism * sizeof(void *));
    s->in_rounds = env->ckpt != NULL;
    if (s->in_rounds) {
        memcpy(s->lineage, env->ckpt->lineage, sizeof s->lineage);
        s->round = env->ckpt->round;
    }
    r = open_dir(s, env, e);
    if (r < 0) {
        (void)err_context(e, "sink %s", env->step);
        err_where(e, "%s", env->place != NULL ? env->place : "");
        close_sink(&s);
        return r;
    }
    *ret = s;
    return 0;
}

/* A hash of what the lines of a part look like: a part is gone on with by a
 * task whose lines look alike. */
static uint64_t
format_of(const struct encoder *encoder)
{
    const char *header = encoder_header(encoder);
    struct buf b;
    uint64_t h;

    buf_init(&b);
    buf_addf(&b, "%s\n%s", encoder_suffix(encoder),
             header != NULL ? header : "");
    h = hash_key(b.data, b.len);
    buf_fini(&b);
    return h;
}

/* Take what the round before left to this subtask. */
static void
take_start(struct sink_task *t)
{
    struct sink *s = t->sink;
    struct part_resumed *from = &s->start.resumed[t->subtask];
    struct part *p = from->part;

    from->part = NULL;
    if (p != NULL && from->format == t->format) {
        t->part = p;
        t->size = p->size;
        atomic_store(&t->opened_ms, clock_mono_ms());
    } else if (p != NULL) {
        t->closed = p;
        t->closed_open = 1;
    }
    if (t->subtask == 0) {
        add_list(&t->closed, s->start.closed);
        s->start.closed = NULL;
    }
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
    assert(conf->subtask < s->parallelism);
    t->sink = s;
    t->seq = s->start.next_seq;
    t->subtask = conf->subtask;
    t->wake = conf->wake;
    t->wake_arg = conf->wake_arg;
    s->tasks[conf->subtask] = t;
    if (s->in_rounds) {
        t->last_round = s->round;
        t->format = format_of(t->encoder);
        take_start(t);
    }
    *ret = t;
    return 0;
}

/* --------------------------------------------------------------- one task */

static bool
is_ready(struct sink_task *t)
{
    (void)t;
    return true;
}

static int
write_out(struct sink_task *t, struct err *e)
{
    const char *p = t->text.data;
    size_t left = t->text.len;

    while (left > 0) {
        ssize_t n = fault_hit("file_sink_write") ? (errno = ENOSPC, -1)
                                                 : write(t->part->fd, p, left);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return part_error(&t->sink->dir, "write", t->part->name, e);
        p += n;
        left -= (size_t)n;
    }
    buf_clear(&t->text);
    return 0;
}

static int
open_part(struct sink_task *t, struct err *e)
{
    const char *header = encoder_header(t->encoder);
    char name[PART_NAME_SIZE];
    struct part *p;
    int r;

    (void)snprintf(name, sizeof name, "part-%" PRIu32 "-%06" PRIu64 ".%s",
                   t->subtask, t->seq, encoder_suffix(t->encoder));
    p = part_new(name);
    r = part_create(&t->sink->dir, p, e);
    if (r < 0) {
        part_free_list(&p);
        return r;
    }
    t->part = p;
    t->seq++;
    t->size = 0;
    atomic_store(&t->opened_ms, clock_mono_ms());
    if (header != NULL) {
        buf_adds(&t->text, header);
        buf_addc(&t->text, '\n');
        t->size = (int64_t)t->text.len;
    }
    return 0;
}

/*
 * Close the open part of a task: everything is in the file. Small parts made
 * faster than the tick or a round comes would use up the open files; then
 * the task waits for the disk itself.
 */
static int
close_part(struct sink_task *t, struct err *e)
{
    struct sink *s = t->sink;
    struct part *p = t->part;
    int r;

    if (p == NULL)
        return 0;
    r = write_out(t, e);
    if (r < 0)
        return r;
    t->part = NULL;
    p->size = t->size;
    atomic_store(&t->opened_ms, 0);
    if (!s->in_rounds) {
        (void)atomic_fetch_add(&s->closed_count, 1);
        push(&s->closed, p);
        return atomic_load(&s->closed_count) > CLOSED_MAX ? publish_closed(s, e)
                                                          : 0;
    }
    p->next = t->closed;
    t->closed = p;
    if (++t->closed_open <= CLOSED_MAX)
        return 0;
    t->closed_open = 0;
    for (; p != NULL && r == 0; p = p->next)
        if (p->fd != -1)
            r = part_sync(&s->dir, p, e);
    return r;
}

static int
write_record(struct sink_task *t, const struct rec *r, const char *key,
             uint32_t key_len, uint64_t *ret_bytes, struct err *e)
{
    size_t from = t->text.len;
    size_t len;
    int got;

    /* The part is opened behind the encoding, so that a record which cannot
     * be written makes none; a header then has to go in front. */
    got = out_line(t->encoder, r, key, key_len, &t->text, e);
    if (got < 0)
        return got;
    len = t->text.len - from;
    if (t->part == NULL) {
        struct buf first = t->text;

        assert(from == 0);
        buf_init(&t->text);
        got = open_part(t, e);
        if (got == 0)
            buf_add(&t->text, first.data, len);
        buf_fini(&first);
        if (got < 0)
            return got;
    }
    t->size += (int64_t)len;
    *ret_bytes = len;
    if (t->size >= t->sink->roll_size)
        return close_part(t, e);
    return t->text.len >= BUFFER_BYTES ? write_out(t, e) : 0;
}

static bool
is_old(const struct sink_task *t)
{
    int64_t opened = (int64_t)atomic_load(&t->opened_ms);

    return opened != 0 && clock_mono_ms() - opened >= t->sink->roll_ms;
}

static int
batch_end(struct sink_task *t, struct err *e)
{
    return is_old(t) ? close_part(t, e) : 0;
}

static int
flush(struct sink_task *t, struct err *e)
{
    return t->part != NULL ? write_out(t, e) : 0;
}

static void
free_task(struct sink_task **tp)
{
    struct sink_task *t = *tp;
    struct sink *s;

    *tp = NULL;
    if (t == NULL)
        return;
    s = t->sink;
    if (t->part != NULL) {
        /* An error was told by an earlier call, or the job has failed. */
        int r = write_out(t, NULL);

        t->part->size = t->size;
        if (r == 0 || s->in_rounds)
            add_list(&s->left, t->part);
        else
            part_free_list(&t->part);
    }
    add_list(&s->left, t->closed);
    s->tasks[t->subtask] = NULL;
    encoder_free(&t->encoder);
    buf_fini(&t->text);
    free(t);
}

/* ----------------------------------------------------------------- rounds */

/* The notes of one snapshot. */
struct notes {
    struct part_note *items;
    uint32_t count;
    size_t cap;
};

static void
add_note(struct notes *to, const struct part *p, int64_t size, uint64_t round)
{
    struct part_note *n;

    mem_grow(&to->items, &to->cap, to->count + 1u, sizeof *to->items);
    n = &to->items[to->count++];
    memcpy(n->name, p->name, sizeof n->name);
    n->size = size;
    n->round = round;
}

static void
seal_closed(struct sink_task *t, uint64_t round, struct notes *to)
{
    struct part *p = t->closed, *next;

    t->closed = NULL;
    t->closed_open = 0;
    for (; p != NULL; p = next) {
        next = p->next;
        p->round = round;
        add_note(to, p, p->size, round);
        if (p->fd != -1)
            push(&t->sink->unsynced, part_new(p->name));
        push(&t->sink->sealed, p);
    }
}

static int
snapshot(struct sink_task *t, uint64_t round, struct buf *out, struct err *e)
{
    bool end = round == SNAPSHOT_END;
    struct sink *s = t->sink;
    struct file_note note = {.path = s->dir.path, .format = t->format};
    struct notes notes = {0};
    int r = end && s->in_rounds ? close_part(t, e) : 0;

    if (r != 0 || !s->in_rounds)
        return r;
    assert(t->text.len == 0); /* flushed */
    seal_closed(t, end ? t->last_round + 1 : round, &notes);
    if (t->part != NULL) {
        t->part->kept = t->size;
        add_note(&notes, t->part, t->size, 0);
        push(&s->unsynced, part_new(t->part->name));
    }
    note.next_seq = t->seq;
    note.parts = notes.items;
    note.count = notes.count;
    file_note_put(out, &note);
    free(notes.items);
    if (!end)
        t->last_round = round;
    return 0;
}

/* The files are opened anew: tasks may close theirs meanwhile. */
static int
prepare(struct sink *s, struct err *e)
{
    struct part *list = atomic_exchange(&s->unsynced, NULL);
    /* A closed part may be synced already, and its name is not. */
    bool any = list != NULL || atomic_load(&s->sealed) != NULL;
    struct part *p;
    int r = 0;

    for (p = list; p != NULL && r == 0; p = p->next)
        r = part_sync(&s->dir, p, e);
    part_free_list(&list);
    return any && r == 0 ? part_dir_sync(&s->dir, e) : r;
}

/* What was sealed for `round` or an earlier one. */
static struct part *
take_sealed(struct sink *s, uint64_t round)
{
    struct part *p, *next, *ret = NULL, *later = NULL;

    add_list(&s->waiting, atomic_exchange(&s->sealed, NULL));
    for (p = s->waiting; p != NULL; p = next) {
        struct part **to = p->round <= round ? &ret : &later;

        next = p->next;
        p->next = *to;
        *to = p;
    }
    s->waiting = later;
    return ret;
}

/* The job ends, and this part is not whole in its last round: what is in it
 * is published, the rest will be made again. */
static int
settle(struct sink *s, struct part *p, struct err *e)
{
    int r;

    if (p->fd != -1)
        (void)close(p->fd);
    p->fd = -1;
    if (p->kept == 0)
        return part_remove(&s->dir, p->name, e);
    r = part_resume(&s->dir, p, p->kept, e);
    return r == 0 ? part_publish(&s->dir, p, e) : r;
}

static int
settle_all(struct sink *s, struct err *e)
{
    struct part *p;
    uint32_t i;
    int r = 0;

    for (i = 0; i < s->parallelism; i++)
        if (s->tasks[i] != NULL) {
            add_list(&s->left, s->tasks[i]->part);
            add_list(&s->left, s->tasks[i]->closed);
            s->tasks[i]->part = s->tasks[i]->closed = NULL;
            buf_clear(&s->tasks[i]->text);
        }
    add_list(&s->left, s->waiting);
    s->waiting = NULL;
    for (p = s->left; p != NULL && r == 0; p = p->next)
        r = settle(s, p, e);
    part_free_list(&s->left);
    return r == 0 ? part_dir_sync(&s->dir, e) : r;
}

static int
committed_round(struct sink *s, uint64_t round, bool final, struct err *e)
{
    struct file_marker m = {.round = round, .final = final};
    int r = publish_list(s, take_sealed(s, round), e);

    if (r == 0 && final)
        r = settle_all(s, e);
    if (r != 0)
        return r;
    memcpy(m.lineage, s->lineage, sizeof m.lineage);
    return file_marker_write(&s->dir, &m, e);
}

/* --------------------------------------------------- the coordinator's calls
 */

static int
tick(struct sink *s, struct err *e)
{
    uint32_t i;

    for (i = 0; i < s->parallelism; i++) {
        struct sink_task *t = s->tasks[i];

        if (t != NULL && t->wake != NULL && is_old(t))
            t->wake(t->wake_arg);
    }
    return publish_closed(s, e);
}

static int
committed(struct sink *s, uint64_t round, bool final, struct err *e)
{
    struct part *left;
    uint32_t i;
    int r = 0;

    if (s->in_rounds)
        return committed_round(s, round, final, e);
    if (!final)
        return publish_closed(s, e);
    for (i = 0; i < s->parallelism && r == 0; i++)
        if (s->tasks[i] != NULL)
            r = close_part(s->tasks[i], e);
    if (r == 0)
        r = publish_closed(s, e);
    if (r < 0)
        return r;
    left = s->left;
    s->left = NULL;
    return publish_list(s, left, e);
}

const struct sink_type file_sink_type = {
    .name = "file",
    .open = open_sink,
    .task_new = new_task,
    .ready = is_ready,
    .write = write_record,
    .batch_end = batch_end,
    .flush = flush,
    .snapshot = snapshot,
    .prepare = prepare,
    .committed = committed,
    .tick = tick,
    .task_free = free_task,
    .close = close_sink,
};
