#include "core/window.h"

#include "core/rec.h"

static int64_t
gcd(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t c = a % b;

        a = b;
        b = c;
    }
    return a;
}

/* Largest start <= t with start = offset (mod step). */
static int64_t
align_down(int64_t t, int64_t offset, int64_t step)
{
    int64_t rest = (t - offset) % step;

    return rest < 0 ? t - rest - step : t - rest;
}

void
window_spec_init(struct window_spec *w, const struct opt *step)
{
    const struct opt *o = opt_get(step, "window");

    *w = (struct window_spec){.kind = WINDOW_TUMBLING, .ttl = -1};
    w->lateness = opt_int(step, "lateness_ms", 0);
    w->updating = opt_is(o, "kind", "none");
    if (w->updating)
        w->ttl = opt_int(step, "ttl_ms", -1);
    /* A count window is of no time: all its entries are in one slice. */
    if (w->updating || opt_is(o, "kind", "global") ||
        opt_is(o, "kind", "count")) {
        w->kind = WINDOW_GLOBAL;
        return;
    }
    w->size = opt_int(o, "size_ms", 1);
    if (opt_is(o, "kind", "same")) {
        *w = (struct window_spec){.kind = WINDOW_SAME,
                                  .size = w->size,
                                  .slide = 1,
                                  .slice = w->size,
                                  .whole = true,
                                  .ttl = -1};
        return;
    }
    w->slide = w->size;
    if (opt_is(o, "kind", "hopping")) {
        w->kind = WINDOW_HOPPING;
        w->slide = opt_int(o, "slide_ms", w->size);
    }
    w->offset = opt_int(o, "offset_ms", 0) % w->slide;
    w->slice = gcd(w->size, w->slide);
    if (w->size / w->slice > WINDOW_SLICES_MAX)
        window_spec_keep_whole(w);
}

void
window_spec_keep_whole(struct window_spec *w)
{
    if (w->kind != WINDOW_HOPPING)
        return; /* its windows are single slices already */
    w->whole = true;
    w->slice = w->size;
}

void
window_spec_use_slices(struct window_spec *w)
{
    if (w->kind == WINDOW_GLOBAL || w->kind == WINDOW_SAME)
        return;
    w->whole = false;
    w->slice = gcd(w->size, w->slide);
}

int64_t
window_first(const struct window_spec *w, int64_t start)
{
    if (w->kind == WINDOW_GLOBAL || w->whole)
        return start;
    /* Smallest window start >= start + slice - size. */
    return align_down(start + w->slice - w->size + w->slide - 1, w->offset,
                      w->slide);
}

int64_t
window_last(const struct window_spec *w, int64_t start)
{
    if (w->kind == WINDOW_GLOBAL || w->whole)
        return start;
    return align_down(start, w->offset, w->slide);
}

int64_t
window_end(const struct window_spec *w, int64_t start)
{
    return w->kind == WINDOW_GLOBAL ? INT64_MAX : start + w->size;
}

/* Whether watermark `wm` makes records of a window late. */
static bool
is_late(const struct window_spec *w, int64_t start, int64_t wm)
{
    return wm != WM_NONE && wm >= start + w->size - 1 + w->lateness;
}

void
window_place(const struct window_spec *w, int64_t ts, int64_t wm,
             struct window_place *ret)
{
    int64_t first, last, behind;

    *ret = (struct window_place){.first = WINDOW_FIRST_ALL};
    if (w->kind == WINDOW_GLOBAL)
        return;
    if (w->kind == WINDOW_SAME) {
        ret->slice = ret->last = ts + 1 - w->size;
        ret->late = is_late(w, ret->slice, wm);
        return;
    }
    last = align_down(ts, w->offset, w->slide);
    first = align_down(ts - w->size + w->slide, w->offset, w->slide);
    ret->last = last;
    ret->slice = w->whole ? first : align_down(ts, w->offset, w->slice);
    if (!is_late(w, first, wm))
        return;
    if (is_late(w, last, wm)) {
        ret->late = true;
        return;
    }
    /* The first window that is not late: the largest late one plus slide. */
    behind = align_down(wm - w->size + 1 - w->lateness, w->offset, w->slide);
    ret->first = behind + w->slide;
    ret->missed = (uint32_t)((ret->first - first) / w->slide);
    if (w->whole)
        ret->slice = ret->first;
}

void
window_place_far(const struct window_spec *w, struct window_near *near,
                 int64_t ts, int64_t wm, struct window_place *ret)
{
    window_place(w, ts, wm, ret);
    if (w->kind == WINDOW_GLOBAL || w->whole)
        return;
    near->from = align_down(ts, w->offset, w->slice);
    near->to = near->from + w->slice;
    near->last = align_down(ts, w->offset, w->slide);
    near->late_wm = window_first(w, near->from) + w->size - 1 + w->lateness;
}

/* Start of the first window from `start` on whose end - 1 + extra > wm. */
static int64_t
first_beyond(const struct window_spec *w, int64_t start, int64_t extra,
             int64_t wm)
{
    int64_t at;

    if (wm == WM_NONE)
        return start;
    at = align_down(wm - w->size + 1 - extra, w->offset, w->slide) + w->slide;
    return at > start ? at : start;
}

int64_t
window_unfired(const struct window_spec *w, int64_t start, int64_t wm)
{
    return first_beyond(w, start, 0, wm);
}

int64_t
window_deadline(const struct window_spec *w, int64_t slice, int64_t first,
                int64_t wm)
{
    int64_t start, last, open, kept, due = INT64_MAX;

    if (w->kind == WINDOW_GLOBAL)
        return INT64_MAX;
    start = window_first(w, slice);
    last = window_last(w, slice);
    if (first != WINDOW_FIRST_ALL && first > start)
        start = first;
    open = first_beyond(w, start, 0, wm);
    if (open <= last)
        due = open + w->size - 1;
    kept = first_beyond(w, start, w->lateness, wm);
    if (kept <= last && kept + w->size - 1 + w->lateness < due)
        due = kept + w->size - 1 + w->lateness;
    return due;
}
