/* sink: decides key and headers, encodes where asked, flushes for marks. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "format/format.h"
#include "format/json.h"
#include "op/op.h"
#include "op/quarantine.h"

enum key_kind { KEY_DEFAULT, KEY_NONE, KEY_FIELD, KEY_FIELDS, KEY_FUNC };

struct key_column {
    const char *name;
    size_t name_len;
    struct op_field field;
};

struct header {
    const char *name, *text; /* text: constant, or NULL */
    size_t name_len, text_len;
    int func;
};

struct op_sink {
    struct op op;
    const struct sink_type *type;
    struct sink_task *task;
    struct encoder *encoder; /* raw_payload sinks only */
    enum key_kind key_kind;
    struct op_field key_field;
    struct key_column *cols;
    uint32_t col_count;
    struct header *headers;
    uint32_t header_count;
    int partition_func, topic_func;
    struct buf key, payload;
    struct arena arena;
    struct batch waiting; /* records whose topic is being looked for */
    bool has_held;        /* a mark behind them */
    bool forwarded;       /* it went to the quarantine */
    struct mark held;
};

static void
put_text(struct buf *b, const struct val *v)
{
    bool ext;

    if (v->type == VAL_STR)
        buf_add(b, v->u.s, v->len);
    else
        json_put_val(b, v, &ext);
}

static int
fields_key(struct op_sink *s, const struct rec *r, struct err *e)
{
    struct val v;
    bool ext;
    uint32_t i;
    int rc;

    buf_addc(&s->key, '{');
    for (i = 0; i < s->col_count; i++) {
        const struct key_column *c = &s->cols[i];

        rc = op_field_get(&s->op, &c->field, r, &s->arena, &v, e);
        if (rc != 0)
            return rc;
        if (v.type == VAL_NIL)
            continue;
        json_put_name(&s->key, c->name, c->name_len);
        json_put_val(&s->key, &v, &ext);
    }
    buf_addc(&s->key, '}');
    return 0;
}

/* The message key of a record. @param ret NULL for none. */
static int
message_key(struct op_sink *s, const struct rec *r, const char **ret,
            size_t *ret_len, struct err *e)
{
    struct val v;
    int rc;

    *ret = NULL;
    *ret_len = 0;
    switch (s->key_kind) {
    case KEY_NONE:
        return 0;
    case KEY_DEFAULT:
        *ret = r->key;
        *ret_len = r->key_len;
        return 0;
    case KEY_FIELD:
    case KEY_FUNC:
        rc = op_field_get(&s->op, &s->key_field, r, &s->arena, &v, e);
        if (rc != 0)
            return rc;
        if (val_is_null(&v))
            return 0;
        buf_clear(&s->key);
        put_text(&s->key, &v);
        break;
    case KEY_FIELDS:
        buf_clear(&s->key);
        rc = fields_key(s, r, e);
        if (rc != 0)
            return rc;
        break;
    }
    *ret = s->key.data != NULL ? s->key.data : "";
    *ret_len = s->key.len;
    return 0;
}

static int
header_value(struct op_sink *s, const struct header *h, const struct rec *r,
             struct rec_header *ret, struct err *e)
{
    struct buf b;
    struct val v;
    int rc;

    ret->name = h->name;
    ret->name_len = (uint32_t)h->name_len;
    if (h->func == 0) {
        ret->value = h->text;
        ret->value_len = (uint32_t)h->text_len;
        return 0;
    }
    rc = script_value(s->op.env->script, h->func, r, s->op.reader, &s->arena,
                      &v, e);
    if (rc != 0 || val_is_null(&v))
        return rc;
    buf_init(&b);
    put_text(&b, &v);
    ret->value = arena_dup(&s->arena, b.data, b.len);
    ret->value_len = (uint32_t)b.len;
    buf_fini(&b);
    return 0;
}

/* The input's headers, then the sink's own. */
static int
add_headers(struct op_sink *s, struct rec *r, struct err *e)
{
    const struct rec_headers *own;
    struct rec_headers *all;
    uint32_t had, i;
    int rc;

    if (s->encoder == NULL && s->header_count == 0)
        return 0; /* nobody looks */
    own = rec_headers(r, &s->arena);
    r->headers = own;
    if (s->header_count == 0)
        return 0;
    had = own != NULL ? own->count : 0;
    all = rec_headers_new(&s->arena, had + s->header_count);
    for (i = 0; i < had; i++)
        all->items[i] = own->items[i];
    for (i = 0; i < s->header_count; i++) {
        rc = header_value(s, &s->headers[i], r, &all->items[had + i], e);
        if (rc != 0)
            return rc;
    }
    r->headers = all;
    return 0;
}

/* The topic that the function names. @return also ERR_AGAIN. */
static int
choose_topic(struct op_sink *s, const struct rec *r, uint32_t *ret,
             struct err *e)
{
    struct val v;
    int rc;

    *ret = 0;
    if (s->topic_func == 0)
        return 0;
    rc = script_value(s->op.env->script, s->topic_func, r, s->op.reader,
                      &s->arena, &v, e);
    if (rc != 0)
        return rc;
    if (v.type != VAL_STR)
        return err_record(e, CAUSE_ENCODE,
                          "topic: the function must return a string");
    return s->type->topic(s->task, v.u.s, v.len, ret, e);
}

static int
choose_partition(struct op_sink *s, const struct rec *r, uint32_t topic,
                 int32_t *ret, struct err *e)
{
    int32_t n;
    struct val v;
    int rc;

    *ret = -1;
    if (s->partition_func == 0 || s->type->partitions == NULL)
        return 0;
    n = s->type->partitions(s->task, topic);
    rc = script_value_with(s->op.env->script, s->partition_func, r,
                           s->op.reader, n, &s->arena, &v, e);
    if (rc != 0)
        return rc;
    if (v.type != VAL_INT || v.u.i < 0 || v.u.i >= n)
        return err_record(e, CAUSE_ENCODE,
                          "partition: expected an integer "
                          "from 0 to %d",
                          n - 1);
    *ret = (int32_t)v.u.i;
    return 0;
}

static int
write_raw(struct op_sink *s, const struct rec *r, const char *key,
          size_t key_len, struct err *e)
{
    struct sink_message m = {.key = key, .key_len = (uint32_t)key_len};
    bool null = false;
    int rc = choose_topic(s, r, &m.topic, e);

    if (rc == 0)
        rc = choose_partition(s, r, m.topic, &m.partition, e);
    if (rc != 0)
        return rc;
    buf_clear(&s->payload);
    rc = encoder_encode(s->encoder, r, key, key_len, &s->payload, &null, e);
    if (rc != 0)
        return rc;
    if (!null) {
        m.val = s->payload.data != NULL ? s->payload.data : "";
        m.val_len = (uint32_t)s->payload.len;
    }
    count_add(&s->op.count->bytes_out, m.val_len + m.key_len);
    return s->type->write_raw(s->task, r, &m, e);
}

static int
put_record(struct op_sink *s, struct rec *r, struct err *e)
{
    const char *key;
    size_t key_len;
    uint64_t bytes = 0;
    int rc = message_key(s, r, &key, &key_len, e);

    if (rc == 0)
        rc = add_headers(s, r, e);
    if (rc != 0)
        return rc;
    if (s->encoder != NULL)
        return write_raw(s, r, key, key_len, e);
    rc = s->type->write(s->task, r, key, (uint32_t)key_len, &bytes, e);
    count_add(&s->op.count->bytes_out, bytes);
    return rc;
}

/* The quarantine's: what came, or a line that says all about it. */
static int
put_failed(struct op_sink *s, const struct rec *r, struct err *e)
{
    struct sink_message m = {.key = r->key,
                             .key_len = r->key_len,
                             .val = r->val,
                             .val_len = r->val == NULL ? 0 : r->val_len,
                             .partition = -1};
    struct rec line = *r;
    uint64_t bytes = m.key_len + m.val_len;
    int rc;

    if (s->type->raw_payload) {
        rc = s->type->write_raw(s->task, r, &m, e);
    } else {
        buf_clear(&s->payload);
        quarantine_line(s->op.env->plan, r, &s->payload);
        buf_reserve(&s->payload, REC_PAD);
        line.kind = REC_OBJECT;
        line.flags = REC_HAS_TS;
        line.val = s->payload.data;
        line.val_len = (uint32_t)s->payload.len;
        rc = s->type->write(s->task, &line, r->key, r->key_len, &bytes, e);
    }
    count_add(&s->op.count->bytes_out, rc == 0 ? bytes : 0);
    return rc;
}

/* Write the records from `from` on. @param ret where it ended: b->n, or at
 * one whose topic is being looked for. */
static int
put_records(struct op_sink *s, struct batch *b, uint32_t from, uint32_t *ret,
            struct err *e)
{
    struct op *op = &s->op;
    uint32_t i;
    int r;

    if (op->env->script != NULL)
        script_set_step(op->env->script, op->step->name);
    if (s->key_kind > KEY_NONE)
        reader_load(op->reader, b);
    arena_reset(&s->arena);
    for (i = from; i < b->n; i++) {
        /* It gets headers of its own, and may be written once more. */
        struct rec rec = b->recs[i];

        r = op->step->quarantine ? put_failed(s, &rec, e)
                                 : put_record(s, &rec, e);
        if (r == ERR_AGAIN)
            break;
        if (r != 0) {
            r = op_fail(op, &b->recs[i], e);
            if (r != 0)
                return r;
            continue;
        }
        count_add(&op->count->records_out, 1);
    }
    *ret = i;
    r = s->type->batch_end(s->task, e);
    return r != 0 ? op_fail(op, NULL, e) : 0;
}

/* Keep records until their topic is there: the subtask gets no message
 * meanwhile, but the one at hand may bring more. */
static void
keep(struct op_sink *s, const struct batch *b, uint32_t from)
{
    uint32_t i;

    for (i = from; i < b->n; i++) {
        struct rec *r = batch_add_copy(&s->waiting, &b->recs[i]);

        r->row = NULL;
        r->row_n = 0;
    }
    s->op.pending = true;
}

static int
sink_batch(struct op *op, struct batch *b, struct err *e)
{
    struct op_sink *s = (struct op_sink *)(void *)op;
    uint32_t done = 0;
    int r = 0;

    count_add(&op->count->records_in, b->n);
    if (s->waiting.n == 0)
        r = put_records(s, b, 0, &done, e);
    if (r == 0 && done < b->n)
        keep(s, b, done);
    return r;
}

/* Try those that wait again. @return 1 if some still do, 0, < 0 error. */
static int
put_waiting(struct op_sink *s, struct err *e)
{
    struct batch *b = &s->waiting;
    uint32_t done = 0;
    int r = b->n == 0 ? 0 : put_records(s, b, 0, &done, e);

    if (r != 0 || b->n == 0)
        return r;
    if (done == b->n) {
        batch_clear(b);
        return 0;
    }
    b->n -= done; /* the bytes stay until all are written */
    memmove(b->recs, b->recs + done, b->n * sizeof *b->recs);
    return 1;
}

static int
give_flushed(struct op_sink *s, struct err *e)
{
    uint64_t round =
        s->held.kind == MARK_BARRIER ? s->held.round : SNAPSHOT_END;
    struct snapshot *snap = snapshot_new(round);
    int r = 0;

    if (s->type->snapshot != NULL)
        r = s->type->snapshot(s->task, round, &snap->blob, e);
    if (r == 0)
        op_give(&s->op, &snap);
    snapshot_free(&snap);
    return r;
}

static int
sink_resume(struct op *op, struct err *e)
{
    struct op_sink *s = (struct op_sink *)(void *)op;
    int r = put_waiting(s, e);

    if (r < 0)
        return r; /* reported */
    if (r != 0)
        return 0; /* still pending; woken when there is news */
    if (!s->has_held) {
        op->pending = false;
        return 0;
    }
    if (!s->forwarded) { /* behind what failed of those that waited */
        s->forwarded = true;
        r = op_forward(op, &s->held, e);
        if (r != 0)
            return r;
    }
    r = s->type->flush(s->task, e);
    if (r == ERR_AGAIN)
        return 0;
    if (r == 0)
        r = give_flushed(s, e);
    if (r != 0)
        return op_fail(op, NULL, e) != 0 ? e->code : 0;
    s->has_held = op->pending = false;
    return 0;
}

static int
sink_mark(struct op *op, const struct mark *m, struct err *e)
{
    struct op_sink *s = (struct op_sink *)(void *)op;

    if (m->kind == MARK_WATERMARK)
        atomic_store_explicit(&op->count->watermark, m->wm,
                              memory_order_relaxed);
    if (m->kind != MARK_BARRIER && m->kind != MARK_END)
        return op_forward(op, m, e); /* to the quarantine, if there is one */
    s->held = *m;
    s->has_held = op->pending = true;
    s->forwarded = s->waiting.n == 0;
    return s->forwarded ? op_forward(op, m, e) : 0;
}

int
op_sink_commit(struct op *op, const struct conn_round *round, struct err *e)
{
    struct op_sink *s = (struct op_sink *)(void *)op;

    return s->type->commit(s->task, round, e);
}

static bool
sink_ready(struct op *op)
{
    struct op_sink *s = (struct op_sink *)(void *)op;

    return s->type->ready == NULL || s->type->ready(s->task);
}

/* Out of input: hand on what was gathered, for latency. A subtask with
 * pending work gets no ticks. */
static int
sink_tick(struct op *op, bool idle, int64_t *ret_wait, struct err *e)
{
    struct op_sink *s = (struct op_sink *)(void *)op;
    int r;

    (void)ret_wait;
    if (!idle)
        return 0;
    r = s->type->batch_end(s->task, e);
    if (r == 0 && s->type->idle != NULL)
        r = s->type->idle(s->task, e);
    return r != 0 ? op_fail(op, NULL, e) : 0;
}

static void
sink_free(struct op *op)
{
    struct op_sink *s = (struct op_sink *)(void *)op;

    if (s->task != NULL)
        s->type->task_free(&s->task);
    encoder_free(&s->encoder);
    free(s->cols);
    free(s->headers);
    buf_fini(&s->key);
    buf_fini(&s->payload);
    batch_fini(&s->waiting);
    arena_fini(&s->arena);
}

static int
init_key(struct op_sink *s, const struct opt *key, struct err *e)
{
    const struct opt *cols = opt_get(key, "cols"), *c;
    int r = 0;

    if (key == NULL || opt_is(key, "kind", "none"))
        s->key_kind = KEY_NONE;
    else if (opt_is(key, "kind", "default"))
        s->key_kind = KEY_DEFAULT;
    else if (opt_is(key, "kind", "fields"))
        s->key_kind = KEY_FIELDS;
    else
        s->key_kind = opt_is(key, "kind", "func") ? KEY_FUNC : KEY_FIELD;
    if (s->key_kind >= KEY_FIELD && s->key_kind != KEY_FIELDS)
        return op_field_init(&s->op, key, &s->key_field, e);
    if (s->key_kind != KEY_FIELDS || cols == NULL)
        return 0;
    s->cols = mem_zalloc((cols->len + 1) * sizeof *s->cols);
    for (c = cols->first; c != NULL && r == 0; c = c->next) {
        struct key_column *col = &s->cols[s->col_count++];

        col->name = opt_str(c, "name", "");
        col->name_len = strlen(col->name);
        r = op_field_init(&s->op, c, &col->field, e);
    }
    return r;
}

static void
init_headers(struct op_sink *s, const struct opt *headers)
{
    const struct opt *h;

    if (headers == NULL || headers->first == NULL)
        return;
    s->headers = mem_zalloc((headers->len + 1) * sizeof *s->headers);
    for (h = headers->first; h != NULL; h = h->next)
        s->headers[s->header_count++] = (struct header){
            .name = h->name,
            .name_len = strlen(h->name),
            .text = h->type == OPT_STR ? h->s : NULL,
            .text_len = h->type == OPT_STR ? h->len : 0,
            .func = h->type == OPT_FUNC ? (int)h->i : 0,
        };
}

int
op_sink_new(struct op_env *env, const struct plan_step *step,
            struct reader *reader, struct op **ret, struct err *e)
{
    static const struct op_type type = {.batch = sink_batch,
                                        .mark = sink_mark,
                                        .resume = sink_resume,
                                        .tick = sink_tick,
                                        .ready = sink_ready,
                                        .free = sink_free};
    const struct opt *conn = opt_get(step->opts, "conn");
    struct op_sink *s = mem_zalloc(sizeof *s);
    struct conn_task conf = {.subtask = env->subtask,
                             .wake = env->wake,
                             .wake_arg = env->wake_arg,
                             .script = env->script,
                             .call = script_call_index};
    int r;

    op_init(&s->op, &type, env, step);
    s->op.reader = reader;
    batch_init(&s->waiting);
    s->type = env->job->sink_types[step->index];
    s->topic_func = opt_func(conn, "topic_func");
    s->partition_func = opt_func(conn, "partition");
    init_headers(s, opt_get(conn, "headers"));
    r = init_key(s, opt_get(conn, "key"), e);
    if (r == 0 && s->type->raw_payload && !step->quarantine)
        r = encoder_new(conn, &s->encoder, e);
    if (r == 0)
        r = s->type->task_new(env->job->sinks[step->index], &conf, &s->task, e);
    *ret = &s->op;
    if (r != 0)
        op_free(ret);
    return r;
}
