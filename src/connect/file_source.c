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
 *
 * After a restore a file goes on at its position; one that was read to its
 * end is ended at once unless it has grown. Before the first block the bytes
 * around the position are looked at, and a CSV header is read again.
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
#include "connect/file_position.h"
#include "connect/intake.h"

enum { OPEN_FILES_MAX = 64 }; /* of a task; more are opened for each turn */

struct source {
    struct file_list list;
    struct file_positions positions; /* of the round it begins from */
    bool restored;
    bool header;            /* each file begins with a CSV header */
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
    bool discovered; /* came while the job was down */
    bool resumed;    /* begins at a restored position, not yet looked at */
    bool complete;   /* everything before that position was the whole file */
    bool skipping;   /* `pos` lies in a line that was too long */
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

static void
close_source(struct source **s)
{
    if (*s == NULL)
        return;
    file_list_fini(&(*s)->list);
    file_positions_fini(&(*s)->positions);
    free(*s);
    *s = NULL;
}

/* List the files and find the positions of those that were read. A path
 * that names nothing any more is told as the files that are gone. */
static int
find_files(struct source *s, const struct conn_env *env, struct err *e)
{
    int listed = file_list_make(opt_str(env->opts, "path", ""), &s->list, e);
    struct err gone;
    int r;

    if (env->restored == NULL)
        return listed;
    s->restored = true;
    err_clear(&gone);
    r = file_positions_read(env->restored, &s->list, &s->positions, &gone);
    if (r == 0)
        return listed;
    *e = gone;
    return r;
}

static int
open_source(const struct conn_env *env, struct source **ret, struct err *e)
{
    struct source *s = mem_zalloc(sizeof *s);
    int r = find_files(s, env, e);

    if (r < 0) {
        (void)err_context(e, "source %s", env->step);
        err_where(e, "%s", env->place != NULL ? env->place : "");
        close_source(&s);
        return r;
    }
    s->opts = env->opts;
    s->header = opt_is(env->opts, "format", "csv") &&
                opt_bool(env->opts, "header", false);
    s->parallelism = env->parallelism;
    s->src = env->src;
    *ret = s;
    return 0;
}

static void
init_part(const struct source *s, struct file_part *p,
          const struct file_entry *entry)
{
    const struct file_position *at =
        file_positions_find(&s->positions, entry->path);

    p->entry = entry;
    p->topic = topic_register(entry->path);
    p->fd = -1;
    p->discovered = s->restored && at == NULL;
    if (at == NULL)
        return;
    p->pos = at->pos;
    p->resumed = at->pos > 0;
    p->complete = at->ended;
    p->skipping = at->skipping;
    p->ended = at->pos == entry->size;
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
    for (i = conf->subtask; i < s->list.count; i += s->parallelism)
        init_part(s, &t->parts[n++], &s->list.files[i]);
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

/*
 * Read the CSV header of a file whose position lies behind it. It is the
 * first line that is none of the bad ones, as when the file was begun; the
 * bad ones were told then.
 */
static int
reread_header(struct source_task *t, struct file_part *p, struct err *e)
{
    struct lines *lines = &t->intake.lines;
    struct line line;
    struct arena a;
    int r = ERR_RECORD;

    lines_start(lines, 0);
    arena_init(&a);
    while (r == ERR_RECORD && lines_offset(lines) < p->pos) {
        bool eof = lines_end_offset(lines) >= p->entry->size;
        enum line_result found = lines_next(lines, eof, &line);
        struct rec rec = {0};

        if (found == LINE_OK) {
            arena_reset(&a);
            r = decoder_decode(p->decoder, line.bytes, line.len, &a, &rec, e);
        } else if (found == LINE_NONE) {
            r = read_block(t, p, e);
            r = r == 0 ? ERR_RECORD : r;
        }
    }
    arena_fini(&a);
    return r == ERR_RECORD || r >= 0 ? 0 : r;
}

static int
changed(const struct file_part *p, const char *how, struct err *e)
{
    int r = err_set(e, ERR_IO, "'%s' was changed since the checkpoint: %s",
                    p->entry->path, how);

    err_hint(e, "put the file back as it was, or start anew with --fresh");
    return r;
}

/*
 * Look at the bytes around a restored position: in front of it a line ends.
 * A file that was read to its end may have ended without a newline; if it
 * has grown, the newline must have come first.
 */
static int
resume(struct source_task *t, struct file_part *p, struct err *e)
{
    char at[3];
    ssize_t n;

    p->resumed = false;
    do
        n = pread(p->fd, at, sizeof at, p->pos - 1);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return err_set(e, ERR_IO, "cannot read '%s': %s", p->entry->path,
                       strerror(errno));
    if (n == 0)
        return changed(p, "it became shorter", e);
    if (at[0] != '\n' && !p->skipping) {
        if (!p->complete)
            return changed(p, "no line ends at the position", e);
        if (n > 1 && at[1] == '\n')
            p->pos += 1;
        else if (n > 2 && at[1] == '\r' && at[2] == '\n')
            p->pos += 2;
        else
            return changed(p, "its last line went on", e);
    }
    return t->source->header ? reread_header(t, p, e) : 0;
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

    if (!t->in_block) {
        lines_start(lines, p->pos);
        lines->skipping = p->skipping;
    }
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
    p->skipping = lines->skipping;
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
        if (r == 0 && p->resumed)
            r = resume(t, p, e);
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
        ev->discovered = t->parts[t->added].discovered;
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

static int
snapshot(struct source_task *t, struct buf *out, struct err *e)
{
    uint32_t i;

    (void)e;
    file_position_begin(out, t->count);
    for (i = 0; i < t->count; i++) {
        const struct file_part *p = &t->parts[i];
        struct file_position at = {
            .path = p->entry->path,
            .pos = p->pos,
            /* A position at the end may not have been found out yet. */
            .ended = p->ended || p->pos >= p->entry->size,
            .skipping = p->skipping};

        file_position_put(out, &at);
    }
    return 0;
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

const struct source_type file_source_type = {
    .name = "file",
    .open = open_source,
    .task_new = new_task,
    .poll = poll_task,
    .stop = stop,
    .snapshot = snapshot,
    .task_free = free_task,
    .close = close_source,
};
