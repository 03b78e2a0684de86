#include "drive.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "kafka/kafka.h"

static void
wake(void *arg)
{
    struct drive *d = arg;

    (void)pthread_mutex_lock(&d->lock);
    d->woken = true;
    (void)pthread_cond_signal(&d->cond);
    (void)pthread_mutex_unlock(&d->lock);
}

/* Sleep until a wake, at most 100 ms as the coordinator's tick. */
static void
wait_wake(struct drive *d)
{
    struct timespec until;

    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 100000000L;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_nsec -= 1000000000L;
        until.tv_sec++;
    }
    (void)pthread_mutex_lock(&d->lock);
    while (!d->woken)
        if (pthread_cond_timedwait(&d->cond, &d->lock, &until) == ETIMEDOUT)
            break;
    d->woken = false;
    (void)pthread_mutex_unlock(&d->lock);
}

void
drive_init(struct drive *d, const char *servers, uint32_t parallelism)
{
    memset(d, 0, sizeof *d);
    arena_init(&d->arena);
    (void)pthread_mutex_init(&d->lock, NULL);
    (void)pthread_cond_init(&d->cond, NULL);
    d->opts = opt_new_map(&d->arena);
    d->cli = opt_new_map(&d->arena);
    d->job = opt_new_map(&d->arena);
    d->max = 500;
    opt_add(&d->arena, d->job, "bootstrap_servers",
            opt_new_str(&d->arena, servers, strlen(servers)));
    opt_add(&d->arena, d->cli, "connect_timeout_ms",
            opt_new_int(&d->arena, 20000));
    d->env = (struct conn_env){.job = "test",
                               .step = "events",
                               .place = "job.lua:6",
                               .opts = d->opts,
                               .job_opts = d->job,
                               .cli = d->cli,
                               .parallelism = parallelism,
                               .src = 3};
}

void
drive_str(struct drive *d, const char *name, const char *value)
{
    opt_add(&d->arena, d->opts, name,
            opt_new_str(&d->arena, value, strlen(value)));
}

void
drive_int(struct drive *d, const char *name, int64_t value)
{
    opt_add(&d->arena, d->opts, name, opt_new_int(&d->arena, value));
}

static struct opt *
map_of(struct drive *d, struct opt *in, const char *name)
{
    struct opt *m = (struct opt *)(uintptr_t)opt_get(in, name);

    if (m != NULL)
        return m;
    m = opt_new_map(&d->arena);
    opt_add(&d->arena, in, name, m);
    return m;
}

void
drive_prop(struct drive *d, const char *name, const char *value)
{
    opt_add(&d->arena, map_of(d, d->opts, "properties"), name,
            opt_new_str(&d->arena, value, strlen(value)));
}

void
drive_table(struct drive *d, const char *name, const char *what, int64_t value)
{
    opt_add(&d->arena, map_of(d, d->opts, name), what,
            opt_new_int(&d->arena, value));
}

void
drive_offset(struct drive *d, const char *name, int32_t partition,
             const char *text, int64_t value)
{
    struct opt *m = map_of(d, map_of(d, d->opts, name), "offsets");
    char key[16];

    (void)snprintf(key, sizeof key, "%" PRId32, partition);
    opt_add(&d->arena, m, key,
            text == NULL ? opt_new_int(&d->arena, value)
                         : opt_new_str(&d->arena, text, strlen(text)));
}

void
drive_bounded(struct drive *d)
{
    struct opt *b = opt_new(&d->arena);

    b->type = OPT_BOOL;
    b->i = 1;
    opt_add(&d->arena, d->cli, "bounded", b);
}

int
drive_open_source(struct drive *d)
{
    uint32_t i;
    int r = kafka_source_type.open(&d->env, &d->source, &d->err);

    for (i = 0; r == 0 && i < d->env.parallelism; i++) {
        struct conn_task conf = {.subtask = i, .wake = wake, .wake_arg = d};

        r = kafka_source_type.task_new(d->source, &conf, &d->tasks[i], &d->err);
    }
    return r;
}

int
drive_open_sink(struct drive *d)
{
    uint32_t i;
    int r = kafka_sink_type.open(&d->env, &d->sink, &d->err);

    for (i = 0; r == 0 && i < d->env.parallelism; i++) {
        struct conn_task conf = {.subtask = i, .wake = wake, .wake_arg = d};

        r = kafka_sink_type.task_new(d->sink, &conf, &d->outs[i], &d->err);
    }
    return r;
}

static char *
copy(const char *s, uint32_t len)
{
    return s == NULL ? NULL : mem_dup(s, len);
}

static char *
copy_headers(const struct rec_headers *h)
{
    struct buf b;
    uint32_t i;
    char *text;

    if (h == NULL)
        return NULL;
    buf_init(&b);
    for (i = 0; i < h->count; i++) {
        buf_add(&b, h->items[i].name, h->items[i].name_len);
        buf_addc(&b, '=');
        if (h->items[i].value == NULL)
            buf_adds(&b, "<null>");
        else
            buf_add(&b, h->items[i].value, h->items[i].value_len);
        buf_addc(&b, ';');
    }
    text = mem_strdup(buf_cstr(&b));
    buf_fini(&b);
    return text;
}

static void
take(struct drive *d, const struct batch *b)
{
    uint32_t i;

    for (i = 0; i < b->n; i++) {
        const struct rec *r = &b->recs[i];
        struct drive_rec *to;

        mem_grow(&d->recs, &d->cap, d->count + 1, sizeof *d->recs);
        to = &d->recs[d->count++];
        *to = (struct drive_rec){.key = copy(r->key, r->key_len),
                                 .val = copy(r->val, r->val_len),
                                 .key_len = r->key_len,
                                 .val_len = r->val_len,
                                 .ts = r->ts,
                                 .offset = r->offset,
                                 .partition = r->partition,
                                 .kind = r->kind,
                                 .flags = r->flags,
                                 .topic = r->topic,
                                 .headers =
                                     copy_headers(rec_headers(r, &d->arena))};
    }
}

/* One poll of one task. */
static int
poll_task(struct drive *d, uint32_t i, struct batch *b, bool *idle)
{
    struct source_event ev;
    int r;

    batch_clear(b);
    r = kafka_source_type.poll(d->tasks[i], b, d->max, &ev, &d->err);
    if (r != 0)
        return r;
    *idle = ev.kind == SOURCE_NONE && ev.wait_ms != 0;
    if (ev.kind == SOURCE_BATCH)
        take(d, b);
    if (ev.kind == SOURCE_ADDED)
        d->added++;
    if (ev.kind == SOURCE_ADDED && ev.discovered)
        d->discovered++;
    if (ev.kind == SOURCE_AT_END)
        d->at_end++;
    if (ev.kind == SOURCE_PART_END)
        d->part_ends++;
    if (ev.kind == SOURCE_END)
        d->ended[i] = true;
    return 0;
}

int
drive_read(struct drive *d, size_t count, int64_t ms)
{
    int64_t until = clock_mono_ms() + ms, tick_at = 0;
    struct batch b;
    int r = 0;

    batch_init(&b);
    while (r == 0 && (count == 0 || d->count < count)) {
        bool all_idle = true, all_ended = true, idle = true;
        uint32_t i;

        for (i = 0; r == 0 && i < d->env.parallelism; i++) {
            if (d->ended[i])
                continue;
            r = poll_task(d, i, &b, &idle);
            all_ended = all_ended && d->ended[i];
            all_idle = all_idle && idle;
        }
        if (r != 0 || all_ended)
            break;
        if (all_idle)
            wait_wake(d);
        if (clock_mono_ms() >= tick_at) {
            r = kafka_source_type.tick(d->source, &d->err);
            tick_at = clock_mono_ms() + 100;
        }
        if (r == 0 && clock_mono_ms() > until)
            r = 1;
    }
    batch_fini(&b);
    return r;
}

void
drive_commit(struct drive *d)
{
    struct buf blobs[DRIVE_TASKS_MAX];
    uint32_t i;

    for (i = 0; i < d->env.parallelism; i++) {
        buf_init(&blobs[i]);
        (void)kafka_source_type.snapshot(d->tasks[i], &blobs[i], &d->err);
    }
    (void)kafka_source_type.committed(d->source, blobs, d->env.parallelism,
                                      true, &d->err);
    for (i = 0; i < d->env.parallelism; i++)
        buf_fini(&blobs[i]);
}

void
drive_snapshot(struct drive *d, struct step_blobs *ret)
{
    uint32_t i;

    ret->step = mem_strdup(d->env.step);
    ret->count = d->env.parallelism;
    ret->blobs = mem_zalloc(ret->count * sizeof *ret->blobs);
    for (i = 0; i < ret->count; i++) {
        buf_init(&ret->blobs[i]);
        (void)kafka_source_type.snapshot(d->tasks[i], &ret->blobs[i], &d->err);
    }
}

void
drive_blobs_fini(struct step_blobs *b)
{
    uint32_t i;

    for (i = 0; i < b->count; i++)
        buf_fini(&b->blobs[i]);
    free(b->blobs);
    free(b->step);
}

int
drive_flush(struct drive *d, int64_t ms)
{
    int64_t until = clock_mono_ms() + ms;

    for (;;) {
        bool again = false;
        uint32_t i;

        for (i = 0; i < d->env.parallelism; i++) {
            int r = kafka_sink_type.flush(d->outs[i], &d->err);

            if (r == ERR_AGAIN)
                again = true;
            else if (r != 0)
                return r;
        }
        if (!again)
            return 0;
        if (clock_mono_ms() > until)
            return 1;
        wait_wake(d);
    }
}

int
drive_write(struct drive *d, uint32_t task, const struct rec *r,
            const struct sink_message *m)
{
    while (!kafka_sink_type.ready(d->outs[task]))
        wait_wake(d);
    return kafka_sink_type.write_raw(d->outs[task], r, m, &d->err);
}

int64_t
drive_close(struct drive *d)
{
    int64_t start = clock_mono_ms();
    uint32_t i;
    size_t k;

    (void)alarm(10);
    for (i = 0; i < d->env.parallelism; i++) {
        kafka_source_type.task_free(&d->tasks[i]);
        kafka_sink_type.task_free(&d->outs[i]);
    }
    kafka_source_type.close(&d->source);
    kafka_sink_type.close(&d->sink);
    (void)alarm(0);
    for (k = 0; k < d->count; k++) {
        free(d->recs[k].key);
        free(d->recs[k].val);
        free(d->recs[k].headers);
    }
    free(d->recs);
    arena_fini(&d->arena);
    (void)pthread_mutex_destroy(&d->lock);
    (void)pthread_cond_destroy(&d->cond);
    return clock_mono_ms() - start;
}

const char *
drive_servers(void)
{
    const char *s = getenv("STREAMLUA_TEST_BROKER");

    if (s == NULL || s[0] == '\0') {
        (void)fprintf(stderr, "skipped: STREAMLUA_TEST_BROKER is not set\n");
        _exit(77);
    }
    return s;
}

const char *
drive_topic(const char *base)
{
    static char names[16][80];
    static unsigned n;
    char *name = names[n % 16];

    (void)snprintf(name, sizeof names[0], "%s-%ld-%u", base, (long)getpid(), n);
    n++;
    return name;
}

bool
drive_broker(const char *verb)
{
    const char *dir = getenv("STREAMLUA_TEST_BROKER_DIR");
    const char *tool = getenv("STREAMLUA_TEST_BROKER_TOOL");
    char cmd[1024];

    if (dir == NULL || tool == NULL)
        return false;
    (void)snprintf(cmd, sizeof cmd, "'%s' %s '%s' >/dev/null", tool, verb, dir);
    return system(cmd) == 0;
}

/* Until no thread of the process runs. */
static void
await_stopped(long pid)
{
    char path[64], line[256];
    const char *state;
    FILE *f;
    int i;

    (void)snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    for (i = 0; i < 5000; i++) {
        f = fopen(path, "r");
        if (f == NULL)
            return;
        if (fgets(line, sizeof line, f) == NULL)
            line[0] = '\0';
        (void)fclose(f);
        state = strrchr(line, ')');
        if (state != NULL && state[1] != '\0' && state[2] == 'T')
            return;
        (void)poll(NULL, 0, 1);
    }
}

bool
drive_signal(int sig)
{
    const char *dir = getenv("STREAMLUA_TEST_BROKER_DIR");
    char path[512], text[32] = "";
    FILE *f;
    long pid;

    if (dir == NULL)
        return false;
    (void)snprintf(path, sizeof path, "%s/pid", dir);
    f = fopen(path, "r");
    if (f == NULL)
        return false;
    if (fgets(text, sizeof text, f) == NULL)
        text[0] = '\0';
    (void)fclose(f);
    pid = strtol(text, NULL, 10);
    if (pid <= 1 || kill((pid_t)pid, sig) != 0)
        return false;
    if (sig == SIGSTOP) /* else it answers for a while on a busy machine */
        await_stopped(pid);
    return true;
}
