/* queue sink: keeps rows as JSON, with the round that first holds them. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "format/format.h"
#include "plan/plan.h"
#include "testing/queue.h"

struct sink {
    struct queue_set *set;
    const char *name;
    const struct opt *opts; /* the plan's, outlives the sink */
    bool encodes;           /* rows must fit the job's format */
    uint64_t round;         /* the one it begins from */
};

struct sink_task {
    struct sink *sink;
    struct queue_sink *queue;
    struct encoder *encoder; /* or NULL */
    struct buf text;
    uint64_t round; /* of the rows that come */
};

static int
open_sink(const struct conn_env *env, struct sink **ret, struct err *e)
{
    struct sink *s = mem_zalloc(sizeof *s);

    (void)e;
    s->set = env->box;
    s->name = env->step;
    s->opts = env->opts;
    s->round = env->ckpt->round;
    /* What failed is written whatever the format is. */
    s->encodes = opt_str(env->opts, "format", NULL) != NULL &&
                 strcmp(env->step, PLAN_QUARANTINE) != 0;
    queue_add_sink(s->set, env->step, opt_str(env->opts, "format", "json"));
    *ret = s;
    return 0;
}

static void
free_task(struct sink_task **t)
{
    if (*t == NULL)
        return;
    encoder_free(&(*t)->encoder);
    buf_fini(&(*t)->text);
    free(*t);
    *t = NULL;
}

static int
new_task(struct sink *s, const struct conn_task *conf, struct sink_task **ret,
         struct err *e)
{
    struct sink_task *t = mem_zalloc(sizeof *t);
    int r = 0;

    (void)conf;
    t->sink = s;
    t->queue = queue_find_sink(s->set, s->name);
    t->round = s->round + 1;
    if (s->encodes)
        r = encoder_new(s->opts, &t->encoder, e);
    if (r != 0)
        free_task(&t);
    *ret = t;
    return r;
}

static void
put_fields(const struct rec *r, struct buf *b)
{
    switch ((enum rec_kind)r->kind) {
    case REC_OBJECT:
        buf_add(b, r->val, r->val_len);
        break;
    case REC_VALUE:
        buf_adds(b, "{\"value\":");
        buf_add(b, r->val, r->val_len);
        buf_addc(b, '}');
        break;
    case REC_TEXT:
        buf_adds(b, "{\"value\":");
        json_put_str(b, r->val, r->val_len);
        buf_addc(b, '}');
        break;
    case REC_TOMBSTONE:
        if (r->val != NULL)
            buf_add(b, r->val, r->val_len);
        else
            buf_adds(b, "null");
        break;
    }
}

static int
write_record(struct sink_task *t, const struct rec *r, const char *key,
             uint32_t key_len, uint64_t *ret_bytes, struct err *e)
{
    struct queue_sink *q = t->queue;
    struct queue_row *row;
    bool null;
    int rc;

    if (t->encoder != NULL) {
        buf_clear(&t->text);
        rc = encoder_encode(t->encoder, r, key, key_len, &t->text, &null, e);
        if (rc != 0)
            return rc;
        *ret_bytes = t->text.len;
    }
    buf_clear(&t->text);
    put_fields(r, &t->text);
    mem_grow(&q->rows, &q->cap, q->count + 1, sizeof *q->rows);
    row = &q->rows[q->count++];
    *row = (struct queue_row){.round = t->round,
                              .tombstone = r->kind == REC_TOMBSTONE,
                              .has_ts = (r->flags & REC_HAS_TS) != 0,
                              .has_key = key != NULL,
                              .ts = r->ts,
                              .key = queue_bytes(key, key_len),
                              .json = queue_bytes(t->text.data, t->text.len),
                              .key_len = key_len,
                              .json_len = t->text.len};
    return 0;
}

static int
do_nothing(struct sink_task *t, struct err *e)
{
    (void)t;
    (void)e;
    return 0;
}

static int
snapshot(struct sink_task *t, uint64_t round, struct buf *out, struct err *e)
{
    (void)out;
    (void)e;
    if (round != SNAPSHOT_END)
        t->round = round + 1;
    return 0;
}

static void
close_sink(struct sink **s)
{
    free(*s);
    *s = NULL;
}

const struct sink_type queue_sink_type = {
    .name = "queue",
    .open = open_sink,
    .task_new = new_task,
    .write = write_record,
    .batch_end = do_nothing,
    .flush = do_nothing,
    .snapshot = snapshot,
    .task_free = free_task,
    .close = close_sink,
};
