/* select: projection, rename, computed columns; keeps the values' bytes. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "format/json.h"
#include "op/op.h"

struct column {
    const char *name;
    size_t name_len;
    struct op_field field;
};

struct op_select {
    struct op op;
    struct column *cols;
    uint32_t count;
    struct buf buf;
    struct arena arena;
};

static int
put_column(struct op_select *s, const struct column *c, const struct rec *r,
           bool *ext, struct err *e)
{
    const char *raw = NULL;
    struct val v;
    size_t len = 0;
    int ret;

    if (c->field.func == 0) {
        ret = reader_raw(s->op.reader, r, c->field.column, &raw, &len, e);
        if (ret != 0 || raw == NULL)
            return ret;
        json_put_name(&s->buf, c->name, c->name_len);
        buf_add(&s->buf, raw, len);
        return 0;
    }
    ret = op_field_get(&s->op, &c->field, r, &s->arena, &v, e);
    if (ret != 0 || v.type == VAL_NIL)
        return ret;
    json_put_name(&s->buf, c->name, c->name_len);
    json_put_val(&s->buf, &v, ext);
    return 0;
}

static int
project(struct op_select *s, struct rec *r, struct arena *a, struct err *e)
{
    bool ext = (r->flags & REC_EXT) != 0;
    uint32_t i;
    int ret;

    buf_clear(&s->buf);
    arena_reset(&s->arena);
    buf_addc(&s->buf, '{');
    for (i = 0; i < s->count; i++) {
        ret = put_column(s, &s->cols[i], r, &ext, e);
        if (ret != 0)
            return ret;
    }
    buf_addc(&s->buf, '}');
    r->val = arena_dup(a, s->buf.data, s->buf.len);
    r->val_len = (uint32_t)s->buf.len;
    r->kind = REC_OBJECT;
    r->flags = (uint8_t)((r->flags & ~(REC_EXT | REC_RAW)) | REC_OWNED |
                         (ext ? REC_EXT : 0));
    return 0;
}

static int
select_batch(struct op *op, struct batch *b, struct err *e)
{
    struct op_select *s = (struct op_select *)(void *)op;
    uint32_t i, n = 0;
    int r;

    count_add(&op->count->records_in, b->n);
    if (op->env->script != NULL)
        script_set_step(op->env->script, op->step->name);
    reader_load(op->reader, b);
    for (i = 0; i < b->n; i++) {
        struct rec *rec = &b->recs[i];

        if (rec->kind != REC_TOMBSTONE) {
            r = project(s, rec, &b->arena, e);
            if (r != 0) {
                r = op_fail(op, rec, e);
                if (r != 0)
                    return r;
                continue;
            }
        }
        rec->row = NULL; /* the next segment has a reader of its own */
        rec->row_n = 0;
        b->recs[n++] = *rec;
    }
    b->n = n;
    count_add(&op->count->records_out, n);
    return op_emit(&op->out, b, e);
}

static void
select_free(struct op *op)
{
    struct op_select *s = (struct op_select *)(void *)op;

    free(s->cols);
    buf_fini(&s->buf);
    arena_fini(&s->arena);
}

int
op_select_new(struct op_env *env, const struct plan_step *step,
              struct reader *reader, struct op **ret, struct err *e)
{
    static const struct op_type type = {.batch = select_batch,
                                        .free = select_free};
    const struct opt *cols = opt_get(step->opts, "cols"), *c;
    struct op_select *s = mem_zalloc(sizeof *s);
    int r = 0;

    op_init(&s->op, &type, env, step);
    s->op.reader = reader;
    buf_init(&s->buf);
    arena_init(&s->arena);
    s->cols = mem_zalloc((cols->len + 1) * sizeof *s->cols);
    for (c = cols->first; c != NULL && r == 0; c = c->next) {
        struct column *col = &s->cols[s->count++];

        col->name = opt_str(c, "name", "");
        col->name_len = strlen(col->name);
        r = op_field_init(&s->op, c, &col->field, e);
    }
    *ret = &s->op;
    if (r != 0)
        op_free(ret);
    return r;
}
