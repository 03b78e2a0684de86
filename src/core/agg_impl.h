/*
 * The inside of the built-in aggregates: accumulators and fast paths.
 *
 * Included by core/agg*.c only. The inline functions are what aggset_add()
 * and aggset_merge() do for the common types, without an indirect call; the
 * types' own add() uses the same ones. Values have passed check() when they
 * get here. Thread: the owner of the accumulator.
 */
#ifndef CORE_AGG_IMPL_H
#define CORE_AGG_IMPL_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/agg.h"
#include "core/exact.h"
#include "core/sval.h"

enum agg_kind {
    AGG_CUSTOM, /* not built in */
    AGG_COUNT,
    AGG_COUNT_ALL, /* count() without argument */
    AGG_SUM,
    AGG_AVG,
    AGG_MIN,
    AGG_MAX,
    AGG_VAR,
    AGG_OTHER
};

extern const struct agg_type agg_count_type;
extern const struct agg_type agg_sum_type;
extern const struct agg_type agg_avg_type;
extern const struct agg_type agg_min_type;
extern const struct agg_type agg_max_type;
extern const struct agg_type agg_min_by_type;
extern const struct agg_type agg_max_by_type;
extern const struct agg_type agg_first_type;
extern const struct agg_type agg_last_type;
extern const struct agg_type agg_var_pop_type;
extern const struct agg_type agg_var_samp_type;
extern const struct agg_type agg_stddev_pop_type;
extern const struct agg_type agg_stddev_samp_type;
extern const struct agg_type agg_distinct_type;
extern const struct agg_type agg_count_distinct_type;
extern const struct agg_type agg_percentile_type;
extern const struct agg_type agg_collect_type;
extern const struct agg_type agg_top_type;
extern const struct agg_type agg_records_type;

/* Called by aggset_new() where a type has parameters. 0 or ERR_JOBFILE. */
int agg_sum_setup(struct agg *a, struct err *e);
int agg_by_setup(struct agg *a, struct err *e);
int agg_distinct_setup(struct agg *a, struct err *e);
int agg_percentile_setup(struct agg *a, struct err *e);
int agg_collect_setup(struct agg *a, struct err *e);
int agg_top_setup(struct agg *a, struct err *e);

/** Order of two values for ties: of keys, null first; of equal keys the
 * integer, then -0.0, then other numbers; lists and maps by their bytes. */
int agg_value_cmp(const struct agg *a, const struct val *x,
                  const struct val *y);

struct agg_avg_acc {
    struct exact sum;
    uint64_t n;
};

struct agg_var_acc {
    struct exact sum, squares;
    uint64_t n;
};

/* The accumulator of min and max is one sval, nil when empty. This mark on a
 * nil one says that a merge met numbers and strings: no result any more. */
enum { AGG_MIXED = 1 };

enum { AGG_LABEL_MAX = 160 };

/** "sum(value)", for messages. @return buf. */
const char *agg_label(const struct agg *a, char buf[AGG_LABEL_MAX]);
/** ERR_JOBFILE with the place of the aggregate in the job file. */
int agg_fail(const struct agg *a, struct err *e, const char *fmt, ...)
    PRINTF_LIKE(3, 4);
/** ERR_IO for bytes that decode() does not know. */
int agg_damaged(const struct agg *a, struct err *e);
/** `label: expected <what>, got <v>`; cause decode if v could not be read. */
int agg_type_error(const struct agg *a, const char *what, const struct val *v,
                   struct err *e);
/** `label: cannot compare numbers and strings`, cause type. */
int agg_mixed_error(const struct agg *a, struct err *e);

/* Checks shared by types; each is a `check` of struct agg_type. */
int agg_check_num(const struct agg *a, const void *acc, const struct val *args,
                  const struct rec *r, struct err *e);
int agg_check_any(const struct agg *a, const void *acc, const struct val *args,
                  const struct rec *r, struct err *e);

/** Whether a number aggregate takes `v` (nil and null are skipped). */
static inline bool
agg_num_ok(const struct val *v)
{
    return v->type == VAL_INT || v->type <= VAL_NULL ||
           (v->type == VAL_DBL && !isnan(v->u.d));
}

/** Whether `v` is any value but an undecodable one or NaN. */
static inline bool
agg_any_ok(const struct val *v)
{
    return v->type != VAL_BAD && !(v->type == VAL_DBL && isnan(v->u.d));
}

/** Append a double result; sets *ext if it is not finite. */
static inline void
agg_put_double(struct buf *out, double d, bool *ext)
{
    json_put_double(out, d);
    *ext = *ext || !isfinite(d);
}

static inline void
agg_exact_add(struct exact *x, const struct val *v)
{
    if (v->type == VAL_INT)
        exact_add_int(x, v->u.i);
    else if (v->type == VAL_DBL)
        exact_add_double(x, v->u.d);
}

static inline void
agg_avg_apply(struct agg_avg_acc *acc, const struct val *v)
{
    if (val_is_null(v))
        return;
    agg_exact_add(&acc->sum, v);
    acc->n++;
}

static inline void
agg_var_apply(struct agg_var_acc *acc, const struct val *v)
{
    if (v->type == VAL_INT) {
        exact_add_int(&acc->sum, v->u.i);
        exact_add_int_square(&acc->squares, v->u.i);
        acc->n++;
    } else if (v->type == VAL_DBL) {
        exact_add_double(&acc->sum, v->u.d);
        if (isfinite(v->u.d))
            exact_add_double_square(&acc->squares, v->u.d);
        acc->n++;
    }
}

/** Compare as min and max do: numbers (-0.0 below 0) or strings. */
int agg_minmax_cmp(const struct val *a, const struct val *b);
/** The general case of agg_minmax_apply(). */
void agg_minmax_slow(bool max, struct sval *acc, const struct val *v);

/** Keep `v` if it is smaller (larger). It is of the accumulator's type. */
static inline void
agg_minmax_apply(bool max, struct sval *acc, const struct val *v)
{
    if (v->type == VAL_INT && acc->type == VAL_INT) {
        if (max ? v->u.i > acc->u.i : v->u.i < acc->u.i)
            acc->u.i = v->u.i;
    } else if (v->type == VAL_DBL && acc->type == VAL_DBL &&
               v->u.d != acc->u.d) {
        if (max ? v->u.d > acc->u.d : v->u.d < acc->u.d)
            acc->u.d = v->u.d;
    } else if (!val_is_null(v))
        agg_minmax_slow(max, acc, v);
}

/** Whether min and max take `v`: comparable with what they hold. */
static inline bool
agg_minmax_ok(const struct sval *acc, const struct val *v)
{
    if (v->type <= VAL_NULL)
        return true;
    if (v->type == VAL_STR)
        return acc->type == VAL_NIL || acc->type == VAL_STR;
    return acc->type != VAL_STR && v->type < VAL_STR && agg_num_ok(v);
}

/** The message for a value that agg_minmax_ok() refused. */
int agg_minmax_refuse(const struct agg *a, const struct val *v, struct err *e);

#endif
