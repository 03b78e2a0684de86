#include "testing/sim.h"

#include <errno.h>
#include <ftw.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "testing/sim_impl.h"

/* ---- making and freeing ---- */

enum { DIR_MAX = 4096 };

/* The directory, for sim_remove_left(): while it is being made, or files in it,
 * that one waits; once it has begun, nothing more is made (sim_making()). */
static char left_dir[DIR_MAX];
static _Atomic enum { LEFT_NONE, LEFT_MAKING, LEFT_THERE } left_state;
static atomic_bool ending;

static void
stay_if_ending(int state)
{
    if (!atomic_load(&ending))
        return;
    atomic_store(&left_state, state);
    for (;;)
        (void)pause();
}

void
sim_making(bool on)
{
    if (on)
        atomic_store(&left_state, LEFT_MAKING);
    stay_if_ending(LEFT_THERE);
    if (!on)
        atomic_store(&left_state, LEFT_THERE);
}

static int
make_dir(struct sim *s, struct err *e)
{
    const char *tmp = getenv("TMPDIR");
    char path[DIR_MAX];
    int n;

    /* In memory, if there is such a place. */
    if (tmp == NULL || tmp[0] == '\0')
        tmp = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    n = snprintf(path, sizeof path, "%s/streamlua-test-XXXXXX", tmp);
    atomic_store(&left_state, LEFT_MAKING);
    stay_if_ending(LEFT_NONE);
    if (n < 0 || (size_t)n >= sizeof path || mkdtemp(path) == NULL) {
        atomic_store(&left_state, LEFT_NONE);
        return err_set(e, ERR_IO, "cannot make a directory in '%s': %s", tmp,
                       strerror(errno));
    }
    memcpy(left_dir, path, strlen(path) + 1);
    atomic_store(&left_state, LEFT_THERE);
    s->dir = mem_strdup(path);
    return 0;
}

static int
remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st;
    (void)kind;
    (void)ftw;
    (void)remove(path);
    return 0;
}

static void
remove_dir(const char *dir)
{
    (void)nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

void
sim_remove_left(void)
{
    const struct timespec a_bit = {.tv_nsec = 1000000};

    atomic_store(&ending, true);
    while (atomic_load(&left_state) == LEFT_MAKING)
        (void)nanosleep(&a_bit, NULL);
    if (atomic_load(&left_state) == LEFT_THERE)
        remove_dir(left_dir);
}

static const char *
strategy_name(enum sim_strategy s)
{
    switch (s) {
    case SIM_ONE_PHASE:
        return "ONE_PHASE";
    case SIM_TWO_PHASE:
        return "TWO_PHASE";
    case SIM_AS_PLANNED:
        break;
    }
    return NULL;
}

static int
read_job(struct sim *s, struct err *e)
{
    size_t len;
    int r = script_read_file(s->conf.file, &s->text, &len, e);

    if (r != 0)
        return r;
    s->run_conf.file = s->conf.file;
    s->run_conf.text = s->text;
    s->run_conf.text_len = len;
    return 0;
}

static const struct opt no_options = {.type = OPT_MAP};

static void
fill_conf(struct sim *s)
{
    s->run_box = (struct run_box){
        .source = &queue_source_type,
        .sink = &queue_sink_type,
        .arg = &s->queues,
        .seed = s->conf.seed,
        .strategy = strategy_name(s->conf.strategy),
        .line = s->conf.line,
        .line_arg = s->conf.line_arg,
    };
    s->run_conf = (struct run_conf){
        .params = s->conf.params,
        .args = s->conf.args,
        .cli = &no_options,
        .parallelism = s->conf.parallelism,
        .until_idle_ms = -1,
        .data_dir = s->dir,
        .unsafe = s->conf.unsafe,
        .box = &s->run_box,
    };
}

int
sim_new(const struct sim_conf *conf, struct sim **ret, struct err *e)
{
    struct sim *s = mem_zalloc(sizeof *s);
    int r;

    s->conf = *conf;
    queue_set_init(&s->queues, conf->seed);
    err_clear(&s->failure);
    clock_set_virtual(0);
    r = make_dir(s, e);
    if (r == 0) {
        fill_conf(s);
        r = read_job(s, e);
    }
    if (r == 0)
        r = box_new(&s->run_conf, &s->box, e);
    if (r == 0)
        r = sim_open(s, e);
    if (r != 0)
        sim_free(&s);
    *ret = s;
    return r;
}

void
sim_free(struct sim **sp)
{
    struct sim *s = *sp;

    *sp = NULL;
    if (s == NULL)
        return;
    box_free(&s->box);
    queue_set_fini(&s->queues);
    if (s->dir != NULL) {
        stay_if_ending(LEFT_THERE);
        remove_dir(s->dir);
        atomic_store(&left_state, LEFT_NONE);
    }
    clock_set_real();
    free(s->subtasks);
    free(s->order);
    free(s->dir);
    free(s->text);
    free(s);
}

/* ---- names ---- */

const char *
sim_source_format(const struct sim *s, const char *name)
{
    const struct queue_source *q = queue_find_source(&s->queues, name);

    return q != NULL ? q->format : NULL;
}

const char *
sim_sink_format(const struct sim *s, const char *name)
{
    const struct queue_sink *q = queue_find_sink(&s->queues, name);

    return q != NULL ? q->format : NULL;
}

static void
put_name(struct buf *out, size_t from, const char *name)
{
    if (out->len != from)
        buf_adds(out, ", ");
    buf_adds(out, name);
}

void
sim_put_names(const struct sim *s, bool sinks, struct buf *out)
{
    const struct queue_set *q = &s->queues;
    size_t i, from = out->len;

    for (i = 0; !sinks && i < q->source_count; i++)
        if (q->sources[i]->live)
            put_name(out, from, q->sources[i]->name);
    for (i = 0; sinks && i < q->sink_count; i++)
        if (q->sinks[i]->live)
            put_name(out, from, q->sinks[i]->name);
}

int64_t
sim_now(const struct sim *s)
{
    return s->now;
}

static int
no_source(const struct sim *s, const char *name, struct err *e)
{
    struct buf b;

    buf_init(&b);
    sim_put_names(s, false, &b);
    (void)err_set(e, ERR_USAGE, "the job has no source \"%s\"; it has: %s",
                  name, buf_cstr(&b));
    buf_fini(&b);
    return ERR_USAGE;
}

/* ---- input ---- */

int
sim_check_open(const struct sim *s, struct err *e)
{
    if (sim_failed(s, e) != 0)
        return e->code;
    if (s->finished)
        return err_set(e, ERR_USAGE, "the job has ended with its input");
    return 0;
}

static int
find_source(const struct sim *s, const char *name, int32_t partition,
            struct queue_source **ret, struct err *e)
{
    int r = sim_check_open(s, e);

    if (r != 0)
        return r;
    *ret = queue_find_source(&s->queues, name);
    if (*ret == NULL)
        return no_source(s, name, e);
    if (partition < 0 || partition >= QUEUE_PARTITIONS_MAX)
        return err_set(e, ERR_USAGE, "partition %d is not from 0 to %d",
                       (int)partition, QUEUE_PARTITIONS_MAX - 1);
    return 0;
}

/* What was put into the queues is one call: let the job have it. */
static int
give(struct sim *s, struct err *e)
{
    clock_set_virtual(s->now);
    s->queues.limit = s->queues.seq;
    s->dirty = true;
    return sim_settle(s, e);
}

static const struct rec_headers *
copy_headers(struct arena *a, const struct opt *list)
{
    struct rec_headers *h;
    const struct opt *o;
    uint32_t i = 0;

    if (list == NULL || list->len == 0)
        return NULL;
    h = rec_headers_new(a, (uint32_t)list->len);
    for (o = list->first; o != NULL; o = o->next, i++) {
        const struct opt *name = opt_at(o, 0), *value = opt_at(o, 1);

        if (name != NULL && name->type == OPT_STR) {
            h->items[i].name = arena_dup(a, name->s, name->len);
            h->items[i].name_len = (uint32_t)name->len;
        }
        if (value != NULL && value->type == OPT_STR) {
            h->items[i].value = arena_dup(a, value->s, value->len);
            h->items[i].value_len = (uint32_t)value->len;
        }
    }
    return h;
}

int
sim_push(struct sim *s, const char *source, const struct sim_record *r,
         struct err *e)
{
    struct queue_source *q;
    struct queue_entry *en;
    int rc = find_source(s, source, r->partition, &q, e);

    if (rc != 0)
        return rc;
    s->queues.seq++;
    en = queue_append(&s->queues,
                      queue_part(&s->queues, q, r->partition, s->now),
                      QUEUE_RECORD, s->now);
    if (r->value != NULL)
        en->value = queue_bytes(r->value, r->value_len);
    if (r->key != NULL)
        en->key = queue_bytes(r->key, r->key_len);
    en->value_len = r->value != NULL ? r->value_len : 0;
    en->key_len = r->key != NULL ? r->key_len : 0;
    en->has_ts = r->has_ts;
    en->ts = r->ts;
    en->headers = copy_headers(&s->queues.arena, r->headers);
    return give(s, e);
}

int
sim_advance_watermark(struct sim *s, int64_t ms, struct err *e)
{
    struct queue_set *q = &s->queues;
    size_t i, k;
    int r = sim_check_open(s, e);

    if (r != 0)
        return r;
    q->seq++;
    for (i = 0; i < q->source_count; i++) {
        struct queue_source *from = q->sources[i];

        if (!from->live)
            continue;
        if (from->part_count == 0)
            (void)queue_part(q, from, 0, s->now);
        for (k = 0; k < from->part_count; k++)
            queue_append(q, &from->parts[k], QUEUE_WATERMARK, s->now)->wm = ms;
    }
    return give(s, e);
}

int
sim_idle(struct sim *s, const char *source, int32_t partition, struct err *e)
{
    struct queue_source *q;
    int r = find_source(s, source, partition, &q, e);

    if (r != 0)
        return r;
    s->queues.seq++;
    (void)queue_append(&s->queues, queue_part(&s->queues, q, partition, s->now),
                       QUEUE_IDLE, s->now);
    return give(s, e);
}

int
sim_end_of_input(struct sim *s, struct err *e)
{
    struct queue_set *q = &s->queues;
    size_t i;
    int r = sim_check_open(s, e);

    if (r != 0)
        return r;
    q->seq++;
    for (i = 0; i < q->source_count; i++)
        if (q->sources[i]->ended == 0)
            q->sources[i]->ended = q->seq;
    r = give(s, e);
    return r != 0 ? r : sim_finish(s, e);
}

/* The clock stops at each timer on the way, which may be very many. */
static int
check_deadline(const struct sim *s, int64_t to, struct err *e)
{
    if (s->conf.deadline_ns == 0 || clock_real_ns() < s->conf.deadline_ns)
        return 0;
    (void)err_set(e, ERR_USAGE,
                  "the time of the case is over, with the clock at %lld of "
                  "%lld ms",
                  (long long)s->now, (long long)to);
    err_hint(e, "timers on the way are many: move the clock by less, or set "
                "the option timeout of test.case");
    return ERR_USAGE;
}

/* Before time moves, what came must be in a round: read again later, it would
 * meet another time. And so must what the move did. */
int
sim_advance_time(struct sim *s, int64_t ms, struct err *e)
{
    int64_t to, left, step;
    int r = sim_check_open(s, e);

    if (r != 0)
        return r;
    if (ms < 0 || __builtin_add_overflow(s->now, ms, &to))
        return err_set(e, ERR_USAGE, "time cannot move by %lld ms",
                       (long long)ms);
    r = sim_round(s, e);
    while (r == 0 && s->now < to) {
        left = to - s->now;
        step = s->wait > 1 ? s->wait : 1;
        s->now += step < left ? step : left;
        s->dirty = true;
        clock_set_virtual(s->now);
        r = sim_settle(s, e);
        if (r == 0 && s->now < to)
            r = check_deadline(s, to, e);
    }
    return r != 0 ? r : sim_round(s, e);
}

/* ---- the end of the process ---- */

static int
reopen(struct sim *s, struct err *e)
{
    sim_close(s);
    return sim_open(s, e);
}

int
sim_restart(struct sim *s, uint32_t parallelism, struct err *e)
{
    int r = 0;

    if (s->finished)
        return 0; /* it would not run again */
    if (s->failure.code == 0)
        r = sim_round(s, e);
    if (r != 0)
        return r;
    if (parallelism != 0)
        box_set_parallelism(s->box, parallelism);
    return reopen(s, e);
}

int
sim_crash(struct sim *s, struct err *e)
{
    if (sim_failed(s, e) != 0)
        return e->code;
    return s->finished ? 0 : reopen(s, e);
}

/* Whatever it is that the new code lacks, the old one goes on. */
static int
refused(struct err *e)
{
    if (e->code != ERR_INTERNAL)
        e->code = ERR_JOBFILE;
    return e->code;
}

/* A version is accepted with its first round, so one is taken at once: what
 * fails behind it is a failure of the job. */
int
sim_reload(struct sim *s, const char *file, struct err *e)
{
    struct err why;
    int r = 0;

    if (s->finished)
        return sim_check_open(s, e);
    if (s->failure.code == 0)
        r = sim_round(s, e);
    if (r != 0)
        return r;
    if (box_prepare(s->box, file, e) != 0)
        return refused(e);
    sim_close(s);
    box_swap(s->box);
    r = sim_open(s, e);
    s->dirty = true;
    if (r == 0)
        r = sim_round(s, e);
    if (r == 0 || !box_rolls_back(s->box))
        return r;
    why = *e;
    r = reopen(s, e);
    if (r != 0)
        return r;
    *e = why;
    return refused(e);
}
