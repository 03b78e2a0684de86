/*
 * Explain: the pieces of text that several of its forms share.
 *
 * Columns, keys, windows, aggregate calls and sizes as API.md section 10
 * writes them: fields by their path, functions as "lua", durations and sizes
 * in the largest unit that divides them. Used by explain_text.c,
 * explain_json.c, explain_dot.c, and by checks that name a window. Pure
 * functions of the option tree; any thread. Private to plan/.
 */
#ifndef PLAN_EXPLAIN_PUT_H
#define PLAN_EXPLAIN_PUT_H

#include "base/buf.h"
#include "base/opts.h"
#include "plan/plan.h"

/** Append a size: "32MiB", "1000". @thread any. */
void explain_put_size(struct buf *out, int64_t bytes);
/** Append a column: its field, "name=field" or "name=lua". @thread any. */
void explain_put_column(struct buf *out, const struct opt *col);
/** Append a list of columns: "[a, b=c.d]"; NULL gives "[]". @thread any. */
void explain_put_columns(struct buf *out, const struct opt *cols);
/** Append the key of an aggregate step: "[tenant, metric]". @thread any. */
void explain_put_key(struct buf *out, const struct opt *step);
/** Append a window: "tumbling(90s, offset=1500ms)". @thread any. */
void explain_put_window(struct buf *out, const struct opt *win);
/** Append an aggregate call: "percentile(value, 0.99)". @thread any. */
void explain_put_call(struct buf *out, const struct opt *agg);
/** Append a state handle: "last=value(ttl=1h)". @thread any. */
void explain_put_handle(struct buf *out, const struct opt *handle);
/** Append the step as text shows it: "kind name: text (place)". */
void explain_put_step(struct buf *out, const struct plan_step *s);

/**
 * Called with an edge into a step, and with the edge out of the visible step
 * behind it: the same, or, across a hidden step, the one into that.
 */
typedef void explain_input_f(void *arg, const struct plan_edge *into,
                             const struct plan_edge *from);
/** Call `f` for each input of `s` as explain shows it, in order. */
void explain_each_input(const struct plan *p, const struct plan_step *s,
                        explain_input_f *f, void *arg);

/** Whether a step's input comes over an exchange or a lane, not a call. */
bool explain_is_head(const struct plan *p, const struct plan_step *s);

#endif
