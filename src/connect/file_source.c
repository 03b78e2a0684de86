/*
 * File source: every file is a partition, read by one task in blocks.
 *
 *   state of a file     event given          next
 *   new                 SOURCE_ADDED         reading
 *   reading             SOURCE_BATCH         reading, or ended at its size
 *   ended               SOURCE_PART_END      closed
 *   all closed          SOURCE_END           (for ever)
 *
 * Files of a task take turns, a block each, so that the watermarks of files
 * written side by side stay together. All of them share one block; what is
 * left of a line at the end of a turn is read again at the next.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/mem.h"
#include "connect/connect.h"
#include "connect/file_list.h"
#include "connect/intake.h"

enum { OPEN_FILES_MAX = 64 }; /* of a task; more are opened for each turn */

struct source {
    struct file_list list;
    const struct opt *opts; /* the plan's, outlives the source */
    uint32_t parallelism;
    uint16_t src;
    atomic_bool stopped;
};

struct file_part {
    const struct file_entry *entry;
    struct decoder *decoder; /* NULL before the first block and after end */
    int fd;                  /* -1 = closed */
    int64_t pos;             /* offset of the first line not yet given */
    uint16_t topic;
    bool ended, closed;
};

struct source_task {
    struct source *source;
    struct file_part *parts;
    uint32_t count;
    uint32_t added;  /* parts announced */
    uint32_t closed; /* parts whose end was announced */
    uint32_t turn;   /* part whose turn it is */
    bool in_block;   /* the block holds bytes of parts[turn] */
    bool gave;       /* the turn has given a record */
    struct intake intake;
};

static int
open_source(const struct conn_env *env, struct source **ret, struct err *e)
{
    const char *path = opt_str(env->opts, "path", "");
    struct source *s = mem_zalloc(sizeof *s);
    int r = file_list_make(path, &s->list, e);

    if (r < 0) {
        (void)err_context(e, "source %s", env->step);
        err_where(e, "%s", env->place != NULL ? env->place : "");
        file_list_fini(&s->list);
        free(s);
        return r;
    }
    s->opts = env->opts;
    s->parallelism = env->parallelism;
    s->src = env->src;
    *ret = s;
    return 0;
}

static int
new_task(struct source *s, const struct conn_task *conf,
         struct source_task **ret, struct err *e)
{
    struct source_task *t = mem_zalloc(sizeof *t);
    uint32_t i, n = 0;

    (void)e;
    assert(conf->subtask < s->parallelism);
    t->source = s;
    t->parts = mem_zalloc((s->list.count + 1u) * sizeof *t->parts);
    for (i = conf->subtask; i < s->list.count; i += s->parallelism) {
        t->parts[n].entry = &s->list.files[i];
        t->parts[n].topic = topic_register(s->list.files[i].path);
        t->parts[n++].fd = -1;
    }
    t->count = n;
    intake_init(&t->intake, s->opts);
    *ret = t;
    return 0;
}

static int
open_part(const struct source *s, struct file_part *p, struct err *e)
{
    struct stat st;

    if (p->decoder == NULL) {
        int r = decoder_new(s->opts, true, &p->decoder, e);

        if (r < 0)
            return r;
    }
    if (p->fd != -1)
        return 0;
    p->fd = open(p->entry->path, O_RDONLY | O_CLOEXEC);
    if (p->fd == -1 || fstat(p->fd, &st) != 0)
        return err_set(e, ERR_IO, "cannot open '%s': %s", p->entry->path,
                       strerror(errno));
    if (st.st_dev != p->entry->dev || st.st_ino != p->entry->ino)
        return err_set(e, ERR_IO, "'%s' was replaced while it was read",
                       p->entry->path);
    (void)posix_fadvise(p->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    return 0;
}

static void
close_part(struct file_part *p)
{
    if (p->fd != -1)
        (void)close(p->fd);
    p->fd = -1;
}

/* Read behind what the block holds; nothing at the end of the file. */
static int
read_block(struct source_task *t, struct file_part *p, struct err *e)
{
    int64_t at = lines_end_offset(&t->intake.lines);
    int64_t left = p->entry->size - at;
    size_t room;
    char *to = lines_space(&t->intake.lines, &room);
    ssize_t n = -1;

    if (left <= 0)
        return 0;
    if ((int64_t)room > left)
        room = (size_t)left;
    if (fault_hit("file_source_read"))
        errno = EIO;
    else
        do
            n = pread(p->fd, to, room, at);
        while (n < 0 && errno == EINTR);
    if (n < 0)
        return err_set(e, ERR_IO, "cannot read '%s': %s", p->entry->path,
                       strerror(errno));
    if (n == 0)
        return err_set(e, ERR_IO,
                       "'%s' became shorter while it was read (%" PRId64
                       " of %" PRId64 " bytes)",
                       p->entry->path, at, p->entry->size);
    lines_filled(&t->intake.lines, (size_t)n);
    return 0;
}

/* Give the turn to the next part that has something left. */
static void
next_turn(struct source_task *t)
{
    uint32_t i;

    if (t->count > OPEN_FILES_MAX)
        close_part(&t->parts[t->turn]);
    for (i = 0; i < t->count; i++) {
        t->turn = (t->turn + 1) % t->count;
        if (!t->parts[t->turn].closed)
            break;
    }
    t->in_block = t->gave = false;
}

/* Add records of one part to `b`, reading on until there is one. */
static int
fill(struct source_task *t, struct file_part *p, struct batch *b, uint32_t max,
     struct source_event *ev, struct err *e)
{
    struct lines *lines = &t->intake.lines;
    struct intake_from from = {p->decoder, p->topic, t->source->src};
    int r = 0;

    if (!t->in_block)
        lines_start(lines, p->pos);
    t->in_block = true;
    while (b->n == 0) {
        bool eof = lines_end_offset(lines) >= p->entry->size;

        r = intake_batch(&t->intake, &from, eof, b, max, ev, e);
        if (r < 0)
            return r;
        p->ended = eof && r == 0;
        if (b->n > 0 || p->ended)
            break;
        if (t->gave && t->closed + 1 < t->count && !lines->skipping)
            break; /* the block is used up: the next part's turn */
        r = read_block(t, p, e);
        if (r < 0)
            return r;
    }
    p->pos = lines_offset(lines);
    t->gave = t->gave || b->n > 0;
    return 0;
}

static int
poll_part(struct source_task *t, struct batch *b, uint32_t max,
          struct source_event *ev, struct err *e)
{
    for (;;) {
        struct file_part *p = &t->parts[t->turn];
        int r;

        ev->part = t->turn;
        if (p->ended) {
            ev->kind = SOURCE_PART_END;
            p->closed = true;
            t->closed++;
            close_part(p);
            decoder_free(&p->decoder);
            next_turn(t);
            return 0;
        }
        r = open_part(t->source, p, e);
        if (r == 0)
            r = fill(t, p, b, max, ev, e);
        if (r < 0)
            return r;
        if (b->n > 0) {
            ev->kind = SOURCE_BATCH;
            return 0;
        }
        if (!p->ended)
            next_turn(t);
    }
}

static int
poll_task(struct source_task *t, struct batch *b, uint32_t max,
          struct source_event *ev, struct err *e)
{
    memset(ev, 0, sizeof *ev);
    ev->wait_ms = -1;
    if (atomic_load(&t->source->stopped) || t->closed == t->count) {
        ev->kind = SOURCE_END;
        return 0;
    }
    if (t->added < t->count) {
        ev->kind = SOURCE_ADDED;
        ev->topic = t->parts[t->added].topic;
        ev->part = t->added++;
        return 0;
    }
    return poll_part(t, b, max, ev, e);
}

static void
stop(struct source *s)
{
    atomic_store(&s->stopped, true);
}

/* {"path":offset,...}: the first byte of each file that was not given. */
static int
snapshot(struct source_task *t, struct buf *out, struct err *e)
{
    uint32_t i;

    (void)e;
    buf_addc(out, '{');
    for (i = 0; i < t->count; i++) {
        const char *path = t->parts[i].entry->path;

        json_put_name(out, path, strlen(path));
        json_put_int(out, t->parts[i].pos);
    }
    buf_addc(out, '}');
    return 0;
}

static int
tick(struct source *s, struct err *e)
{
    (void)s;
    (void)e;
    return 0;
}

static int64_t
lag(struct source *s)
{
    (void)s;
    return -1;
}

static void
free_task(struct source_task **t)
{
    uint32_t i;

    if (*t == NULL)
        return;
    for (i = 0; i < (*t)->count; i++) {
        close_part(&(*t)->parts[i]);
        decoder_free(&(*t)->parts[i].decoder);
    }
    intake_fini(&(*t)->intake);
    free((*t)->parts);
    free(*t);
    *t = NULL;
}

static void
close_source(struct source **s)
{
    if (*s == NULL)
        return;
    file_list_fini(&(*s)->list);
    free(*s);
    *s = NULL;
}

const struct source_type file_source_type = {
    .name = "file",
    .open = open_source,
    .task_new = new_task,
    .poll = poll_task,
    .stop = stop,
    .snapshot = snapshot,
    .tick = tick,
    .lag = lag,
    .task_free = free_task,
    .close = close_source,
};
