/*
 * File sink: each task writes parts of its own, which appear when complete.
 *
 *   state of a part   file                                    next
 *   open              .part-<subtask>-<seq>.<x>.inprogress    closed by size,
 *                     (buffered, written by the task)         age, or the end
 *   closed            the same, waiting in the sink's list    published
 *   published         part-<subtask>-<seq>.<x>, synced        the reader's
 *
 * A part is opened with its first record, so empty output makes none. While
 * there are no checkpoints, closed parts are published by the coordinator's
 * tick, off the slots, and by committed(final), which also closes the open
 * ones. Closing the sink without it (a failed job) leaves parts that were
 * not complete as they are, under their name in progress.
 *
 * Numbers go on from the highest part present, of any subtask and also in
 * progress, so nothing is overwritten.
 */
#include <assert.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/mem.h"
#include "connect/connect.h"
#include "connect/out_line.h"

enum {
    BUFFER_BYTES = 256 << 10,
    NAME_SIZE = 64,
    CLOSED_MAX = 32 /* waiting parts; a task that makes more publishes them */
};

#define IN_PROGRESS ".inprogress"

struct part {
    struct part *next;
    int fd;
    char name[NAME_SIZE]; /* "part-0-000017.jsonl" */
};

struct sink {
    char *path;
    const struct opt *opts; /* the plan's, outlives the sink */
    int dir_fd;
    int64_t roll_size, roll_ms;
    uint64_t first_seq;
    uint32_t parallelism;
    struct sink_task **tasks;      /* by subtask; NULL = none or freed */
    _Atomic(struct part *) closed; /* stack, taken whole */
    atomic_uint closed_count;
    struct part *left; /* open parts of freed tasks; coordinator */
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
};

static void
temp_name(const struct part *p, char out[NAME_SIZE + 16])
{
    (void)snprintf(out, NAME_SIZE + 16, ".%s" IN_PROGRESS, p->name);
}

static int
io_error(const struct sink *s, const char *what, const char *name, int why,
         struct err *e)
{
    return err_set(e, ERR_IO, "cannot %s '%s/%s': %s", what, s->path, name,
                   strerror(why));
}

/* Make the directory and those above it. */
static int
make_dir(const char *path, struct err *e)
{
    char *copy, *at;
    struct stat st;
    int r = 0;

    if (*path == '\0')
        return err_set(e, ERR_IO, "the path of the directory is empty");
    copy = mem_strdup(path);
    for (at = copy + 1; r == 0; at++) {
        char c = *at;

        if (c != '/' && c != '\0')
            continue;
        *at = '\0';
        if (mkdir(copy, 0777) != 0 && errno != EEXIST && stat(copy, &st) != 0)
            r = err_set(e, ERR_IO, "cannot make the directory '%s': %s", copy,
                        strerror(errno));
        *at = c;
        if (c == '\0')
            break;
    }
    free(copy);
    return r;
}

/* The number in "[.]part-<subtask>-<seq>.…"; false if it is another name. */
static bool
read_seq(const char *name, uint64_t *ret)
{
    uint64_t seq = 0;

    name += *name == '.';
    if (strncmp(name, "part-", 5) != 0 || !isdigit((unsigned char)name[5]))
        return false;
    name += 5 + strspn(name + 5, "0123456789");
    if (*name != '-' || !isdigit((unsigned char)name[1]))
        return false;
    for (name++; isdigit((unsigned char)*name); name++) {
        if (seq > UINT64_MAX / 100)
            return false;
        seq = seq * 10 + (uint64_t)(*name - '0');
    }
    *ret = seq;
    return *name == '.';
}

static int
find_first_seq(struct sink *s, struct err *e)
{
    DIR *dir = opendir(s->path);
    struct dirent *entry;
    uint64_t seq;

    if (dir == NULL)
        return err_set(e, ERR_IO, "cannot open '%s': %s", s->path,
                       strerror(errno));
    while ((entry = readdir(dir)) != NULL)
        if (read_seq(entry->d_name, &seq) && seq >= s->first_seq)
            s->first_seq = seq + 1;
    (void)closedir(dir);
    s->dir_fd = open(s->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->dir_fd == -1)
        return err_set(e, ERR_IO, "cannot open '%s': %s", s->path,
                       strerror(errno));
    if (faccessat(s->dir_fd, ".", W_OK | X_OK, 0) != 0)
        return err_set(e, ERR_IO, "cannot write to '%s': %s", s->path,
                       strerror(errno));
    return 0;
}

static void
free_sink(struct sink *s)
{
    if (s->dir_fd != -1)
        (void)close(s->dir_fd);
    free(s->tasks);
    free(s->path);
    free(s);
}

static int
open_sink(const struct conn_env *env, struct sink **ret, struct err *e)
{
    const struct opt *roll = opt_get(env->opts, "roll");
    struct sink *s = mem_zalloc(sizeof *s);
    int r;

    s->path = mem_strdup(opt_str(env->opts, "path", "."));
    s->opts = env->opts;
    s->dir_fd = -1;
    s->roll_size = opt_int(roll, "size", INT64_C(128) << 20);
    s->roll_ms = opt_int(roll, "interval_ms", 60000);
    s->parallelism = env->parallelism;
    s->first_seq = 1; /* the first part is 000001 */
    s->tasks = mem_zalloc(env->parallelism * sizeof(void *));
    r = make_dir(s->path, e);
    if (r == 0)
        r = find_first_seq(s, e);
    if (r < 0) {
        (void)err_context(e, "sink %s", env->step);
        err_where(e, "%s", env->place != NULL ? env->place : "");
        free_sink(s);
        return r;
    }
    *ret = s;
    return 0;
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
    t->seq = s->first_seq;
    t->subtask = conf->subtask;
    t->wake = conf->wake;
    t->wake_arg = conf->wake_arg;
    s->tasks[conf->subtask] = t;
    *ret = t;
    return 0;
}

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
            return io_error(t->sink, "write", t->part->name, errno, e);
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
    struct part *p = mem_zalloc(sizeof *p);
    char temp[NAME_SIZE + 16];

    (void)snprintf(p->name, sizeof p->name, "part-%" PRIu32 "-%06" PRIu64 ".%s",
                   t->subtask, t->seq, encoder_suffix(t->encoder));
    temp_name(p, temp);
    p->fd = openat(t->sink->dir_fd, temp,
                   O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (p->fd == -1) {
        int r = io_error(t->sink, "make", temp, errno, e);

        free(p);
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

/* Sync, rename, and free a closed part; on failure it stays in progress. */
static int
publish(struct sink *s, struct part *p, struct err *e)
{
    char temp[NAME_SIZE + 16];
    int r = 0;

    temp_name(p, temp);
    if (fault_hit("file_sink_sync"))
        errno = EIO, r = -1;
    else
        r = fsync(p->fd);
    if (r != 0)
        r = io_error(s, "sync", temp, errno, e);
    if (close(p->fd) != 0 && r == 0)
        r = io_error(s, "close", temp, errno, e);
    if (r == 0 && faccessat(s->dir_fd, p->name, F_OK, 0) == 0)
        r = io_error(s, "rename to", p->name, EEXIST, e);
    if (r == 0 && renameat(s->dir_fd, temp, s->dir_fd, p->name) != 0)
        r = io_error(s, "rename", temp, errno, e);
    free(p);
    return r;
}

/* Publish a list; all of it is freed, the first error counts. */
static int
publish_list(struct sink *s, struct part *list, struct err *e)
{
    bool any = list != NULL;
    int r = 0;

    while (list != NULL) {
        struct part *next = list->next;
        int got = publish(s, list, r == 0 ? e : NULL);

        r = r == 0 ? got : r;
        list = next;
    }
    if (any && r == 0 && fsync(s->dir_fd) != 0 && errno != EINVAL)
        r = err_set(e, ERR_IO, "cannot sync '%s': %s", s->path,
                    strerror(errno));
    return r;
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

/* Close the open part of a task: everything is in the file. */
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
    atomic_store(&t->opened_ms, 0);
    (void)atomic_fetch_add(&s->closed_count, 1);
    p->next = atomic_load(&s->closed);
    while (!atomic_compare_exchange_weak(&s->closed, &p->next, p)) {
    }
    /* Small parts made faster than the tick comes would use up the open
     * files; then the task waits for the disk itself. */
    if (atomic_load(&s->closed_count) > CLOSED_MAX)
        return publish_closed(s, e);
    return 0;
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

    (void)round;
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

static void
free_task(struct sink_task **t)
{
    struct sink *s;

    if (*t == NULL)
        return;
    s = (*t)->sink;
    if ((*t)->part != NULL) {
        /* An error was told by an earlier call, or the job has failed. */
        int r = write_out(*t, NULL);
        struct part *p = (*t)->part;

        if (r == 0) {
            p->next = s->left;
            s->left = p;
        } else {
            (void)close(p->fd);
            free(p);
        }
    }
    s->tasks[(*t)->subtask] = NULL;
    encoder_free(&(*t)->encoder);
    buf_fini(&(*t)->text);
    free(*t);
    *t = NULL;
}

static void
close_list(struct part *p)
{
    while (p != NULL) {
        struct part *next = p->next;

        (void)close(p->fd);
        free(p);
        p = next;
    }
}

static void
close_sink(struct sink **s)
{
    if (*s == NULL)
        return;
    /* A part that was closed is complete, also in a job that failed. */
    (void)publish_closed(*s, NULL);
    close_list((*s)->left);
    free_sink(*s);
    *s = NULL;
}

const struct sink_type file_sink_type = {
    .name = "file",
    .open = open_sink,
    .task_new = new_task,
    .ready = is_ready,
    .write = write_record,
    .batch_end = batch_end,
    .flush = flush,
    .committed = committed,
    .tick = tick,
    .task_free = free_task,
    .close = close_sink,
};
