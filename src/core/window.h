/*
 * Windows: which slices and windows a record belongs to, and lateness.
 *
 * Tumbling and hopping windows are kept by slices of gcd(size, slide): one
 * update per record, windows assembled by merging their slices. Above
 * WINDOW_SLICES_MAX slices a window, or where accumulators cannot merge,
 * records and partials go to every window instead (`whole`). A slice entry
 * may count only from some window on, since a record can be late for the
 * first windows of its slice: `first`. Times are ms, negative ones allowed,
 * floor division throughout; times beyond +-WINDOW_TIME_MAX are refused by
 * event_time so that no sum overflows.
 * Thread: pure functions, any.
 */
#ifndef CORE_WINDOW_H
#define CORE_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/opts.h"

enum { WINDOW_SLICES_MAX = 1000 };
#define WINDOW_TIME_MAX ((int64_t)1 << 61)
#define WINDOW_FIRST_ALL INT64_MIN /* counts for all windows of the slice */

enum window_kind {
    WINDOW_TUMBLING,
    WINDOW_HOPPING,
    WINDOW_GLOBAL,
    WINDOW_SAME /* [ts + 1 - size, ts + 1): that of a row of a window */
};

struct window_spec {
    enum window_kind kind;
    int64_t size, slide, offset, lateness; /* ms */
    int64_t slice;                         /* length of a slice, ms */
    bool whole;    /* entries are whole windows, slice = size */
    bool updating; /* keyed without window: global, and each change of a key
                      gives a row */
    int64_t ttl;   /* updating: ms without change until a key is forgotten,
                      -1 never */
};

/** Fill from the normalised step (window, lateness_ms). @thread any. */
void window_spec_init(struct window_spec *w, const struct opt *step);

/**
 * Keep windows whole whatever their slices: for accumulators that cannot
 * merge. Of use before the first record only. @thread any.
 */
void window_spec_keep_whole(struct window_spec *w);
/**
 * Use slices whatever their number: for partials, of which one a slice
 * crosses the exchange and is then merged into each whole window.
 * @thread any.
 */
void window_spec_use_slices(struct window_spec *w);

/** Where a record counts. */
struct window_place {
    int64_t slice;   /* start of its slice (or of its first whole window) */
    int64_t last;    /* start of the last window that holds it */
    int64_t first;   /* first window it counts for, or WINDOW_FIRST_ALL */
    uint32_t missed; /* windows it was late for */
    bool late;       /* late for all of them */
};

/** Place a record of time `ts`, given its partition's watermark `wm`. */
void window_place(const struct window_spec *w, int64_t ts, int64_t wm,
                  struct window_place *ret);

/* A slice met before, and when its records begin to be late for a window:
 * neighbours in a stream are neighbours in time. Zeroed: none. */
struct window_near {
    int64_t from, to; /* the slice: [from, to) */
    int64_t last;     /* start of its last window */
    int64_t late_wm;  /* watermark from which its first window is late */
};

/** Place a record and remember its slice (not for whole or global windows). */
void window_place_far(const struct window_spec *w, struct window_near *near,
                      int64_t ts, int64_t wm, struct window_place *ret);

/** As window_place(), without divisions for the slice met before. */
static inline void
window_place_near(const struct window_spec *w, struct window_near *near,
                  int64_t ts, int64_t wm, struct window_place *ret)
{
    if (ts < near->from || ts >= near->to || wm >= near->late_wm) {
        window_place_far(w, near, ts, wm, ret);
        return;
    }
    ret->slice = near->from;
    ret->last = near->last;
    ret->first = WINDOW_FIRST_ALL;
    ret->missed = 0;
    ret->late = false;
}

/** Start of the first window that holds slice `start`. */
int64_t window_first(const struct window_spec *w, int64_t start);
/** Start of the last window that holds slice `start`. */
int64_t window_last(const struct window_spec *w, int64_t start);
/** End of a window (INT64_MAX for global). */
int64_t window_end(const struct window_spec *w, int64_t start);
/**
 * Start of the first window from the one at `start` on that has not fired
 * when the watermark is `wm` (not WM_MAX, at which all have).
 */
int64_t window_unfired(const struct window_spec *w, int64_t start, int64_t wm);
/**
 * The next watermark at which something happens to an entry: the end of its
 * first window that is still open at `wm`, or the purge of a closed one.
 */
int64_t window_deadline(const struct window_spec *w, int64_t slice,
                        int64_t first, int64_t wm);

#endif
