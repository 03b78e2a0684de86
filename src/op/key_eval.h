/*
 * Key evaluation: the canonical key of a record by a step's key list.
 *
 * Used by op_local (before combining) and op_route (before an exchange of
 * records). Owner: the operator; the bytes live until the next
 * key_eval_reset().
 */
#ifndef OP_KEY_EVAL_H
#define OP_KEY_EVAL_H

#include "op/op.h"

struct key_eval {
    struct op *op;
    const struct opt *opts; /* has `key`, `key_place`, `on_null` */
    struct op_field *parts;
    uint32_t count;
    bool skip_null, quarantine_null; /* on_null; neither: "fail" */
    struct buf buf;
    struct arena arena;
};

/** @param step the keyed step (its opts hold `key` and `on_null`). */
MUST_USE int key_eval_init(struct key_eval *k, struct op *op,
                           const struct plan_step *step, struct err *e);
/** The same for the key in `opts`: of the right side of a connect. */
MUST_USE int key_eval_init_opts(struct key_eval *k, struct op *op,
                                const struct opt *opts, struct err *e);
void key_eval_fini(struct key_eval *k);
/** Forget the bytes of earlier keys. */
void key_eval_reset(struct key_eval *k);
/**
 * Append the key of `r` behind k->buf.
 * @return 0; ERR_RECORD (null_key, decode, user_error, ...), nothing added.
 */
MUST_USE int key_eval_put(struct key_eval *k, const struct rec *r,
                          struct err *e);
/** Judge an error of key_eval_put: null_key under skip is only counted. */
MUST_USE int key_eval_failed(struct key_eval *k, const struct rec *r,
                             struct err *e);

#endif
