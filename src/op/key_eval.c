#include "op/key_eval.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "format/json.h"

int
key_eval_init(struct key_eval *k, struct op *op, const struct plan_step *step,
              struct err *e)
{
    return key_eval_init_opts(k, op, step->opts, e);
}

int
key_eval_init_opts(struct key_eval *k, struct op *op, const struct opt *opts,
                   struct err *e)
{
    const struct opt *key = opt_get(opts, "key"), *c;
    int r = 0;

    k->op = op;
    k->opts = opts;
    buf_init(&k->buf);
    arena_init(&k->arena);
    k->skip_null = opt_is(opts, "on_null", "skip");
    k->quarantine_null = opt_is(opts, "on_null", PLAN_QUARANTINE);
    k->parts = mem_zalloc((key != NULL ? key->len + 1 : 1) * sizeof *k->parts);
    if (key == NULL)
        return 0;
    for (c = key->first; c != NULL && r == 0; c = c->next)
        r = op_field_init(op, c, &k->parts[k->count++], e);
    return r;
}

void
key_eval_fini(struct key_eval *k)
{
    free(k->parts);
    k->parts = NULL;
    buf_fini(&k->buf);
    arena_fini(&k->arena);
}

void
key_eval_reset(struct key_eval *k)
{
    buf_clear(&k->buf);
    arena_reset(&k->arena);
}

static int
null_part(struct key_eval *k, uint32_t i, const char *what, struct err *e)
{
    const struct opt *key = opt_get(k->opts, "key");
    const struct opt *part = opt_at(key, i);
    int r = err_record(e, CAUSE_NULL_KEY, "key part \"%s\" is %s",
                       opt_str(part, "name", "key"), what);

    err_where(e, "%s", opt_str(k->opts, "key_place", k->op->step->place));
    err_hint(e, "on_null = \"skip\" on key_by drops and counts such records; "
                "or give a default with a function");
    return r;
}

static int
put_part(struct key_eval *k, uint32_t i, const struct rec *r, struct err *e)
{
    struct val v;
    int rc = op_field_get(k->op, &k->parts[i], r, &k->arena, &v, e);

    if (rc != 0)
        return rc;
    if (val_is_null(&v))
        return null_part(k, i, v.type == VAL_NIL ? "missing" : "null", e);
    if (v.type == VAL_DBL && isnan(v.u.d))
        return null_part(k, i, "NaN", e);
    if (key_put_scalar(&k->buf, &v))
        return 0;
    return json_key_encode(&k->buf, &v, e);
}

int
key_eval_put(struct key_eval *k, const struct rec *r, struct err *e)
{
    size_t from = k->buf.len;
    uint32_t i;
    int rc;

    for (i = 0; i < k->count; i++) {
        rc = put_part(k, i, r, e);
        if (rc != 0) {
            k->buf.len = from;
            return rc;
        }
    }
    if (k->buf.len - from > KEY_SIZE_MAX) {
        k->buf.len = from;
        return err_record(e, CAUSE_TYPE, "the key is larger than 64 KiB");
    }
    return 0;
}

int
key_eval_failed(struct key_eval *k, const struct rec *r, struct err *e)
{
    if (e->code != ERR_RECORD || e->cause != CAUSE_NULL_KEY)
        return op_fail(k->op, r, e);
    if (k->quarantine_null)
        return op_fail_quarantine(k->op, r, e);
    if (!k->skip_null) /* on_null = "fail" was asked for by name */
        return op_fail_always(k->op, r, e);
    count_add_shared(&k->op->count->dropped[CAUSE_NULL_KEY], 1);
    return 0;
}
