/* Windows: placing, lateness and deadlines against plain enumeration. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/hash.h"
#include "core/rec.h"
#include "core/window.h"

static uint64_t seed;

static int64_t
draw(int64_t lo, int64_t hi)
{
    seed = hash_splitmix(seed);
    return lo + (int64_t)(seed % (uint64_t)(hi - lo + 1));
}

static struct window_spec
spec_of(const char *kind, int64_t size, int64_t slide, int64_t offset,
        int64_t lateness)
{
    struct window_spec w;
    struct arena a;
    struct opt *step, *win;

    arena_init(&a);
    step = opt_new_map(&a);
    win = opt_new_map(&a);
    opt_add(&a, win, "kind", opt_new_str(&a, kind, strlen(kind)));
    opt_add(&a, win, "size_ms", opt_new_int(&a, size));
    opt_add(&a, win, "slide_ms", opt_new_int(&a, slide));
    opt_add(&a, win, "offset_ms", opt_new_int(&a, offset));
    opt_add(&a, step, "window", win);
    opt_add(&a, step, "lateness_ms", opt_new_int(&a, lateness));
    window_spec_init(&w, step);
    arena_fini(&a);
    return w;
}

static void
a_time_of_minus_one_lies_in_the_window_before_zero(void **state)
{
    struct window_spec w = spec_of("tumbling", 10000, 0, 0, 0);
    struct window_place p;

    (void)state;
    window_place(&w, -1, WM_NONE, &p);
    assert_int_equal(p.slice, -10000);
    assert_int_equal(window_end(&w, p.slice), 0);
    assert_false(p.late);
}

static void
an_offset_moves_the_bounds_also_when_negative(void **state)
{
    struct window_spec w = spec_of("tumbling", 10000, 0, 1500, 0);
    struct window_spec n = spec_of("tumbling", 10000, 0, -8500, 0);
    struct window_place p;

    (void)state;
    window_place(&w, 1499, WM_NONE, &p);
    assert_int_equal(p.slice, -8500);
    window_place(&n, 1500, WM_NONE, &p);
    assert_int_equal(p.slice, 1500);
}

static void
a_record_is_late_exactly_from_end_minus_one_plus_lateness(void **state)
{
    struct window_spec w = spec_of("tumbling", 10000, 0, 0, 1000);
    struct window_place p;

    (void)state;
    window_place(&w, 2000, 10998, &p);
    assert_false(p.late);
    window_place(&w, 2000, 10999, &p);
    assert_true(p.late);
}

/* Whether window `s` holds `ts` and is late at `wm`, by the definitions. */
static bool
late_at(const struct window_spec *w, int64_t s, int64_t wm)
{
    return wm != WM_NONE && wm >= s + w->size - 1 + w->lateness;
}

static int64_t
floor_to(int64_t t, int64_t offset, int64_t step)
{
    int64_t r = (t - offset) % step;

    return t - (r < 0 ? r + step : r);
}

static void
check_place(const struct window_spec *w, int64_t ts, int64_t wm)
{
    struct window_place p;
    int64_t s, last = floor_to(ts, w->offset, w->slide), first = INT64_MAX;
    uint32_t missed = 0, counted = 0;

    window_place(w, ts, wm, &p);
    for (s = last; s > ts - w->size; s -= w->slide) {
        if (late_at(w, s, wm)) {
            missed++;
        } else {
            counted++;
            first = s;
        }
    }
    assert_int_equal(p.late, counted == 0);
    if (p.late)
        return;
    assert_int_equal(p.missed, missed);
    assert_int_equal(p.last, last);
    if (w->whole) {
        assert_int_equal(p.slice, first);
        return;
    }
    assert_true(p.slice <= ts && ts < p.slice + w->slice);
    assert_int_equal(window_last(w, p.slice), last);
    if (missed != 0)
        assert_int_equal(p.first, first);
    else
        assert_int_equal(window_first(w, p.slice), first);
}

static void
placing_agrees_with_enumeration(void **state)
{
    int i;

    (void)state;
    seed = (uint64_t)time(NULL);
    print_message("seed %llu\n", (unsigned long long)seed);
    for (i = 0; i < 200000; i++) {
        int64_t slide = draw(1, 40), size = draw(slide, 200);
        struct window_spec w = spec_of("hopping", size, slide, draw(-60, 60),
                                       draw(0, 1) * draw(0, 50));
        int64_t ts = draw(-300, 300);

        check_place(&w, ts, draw(0, 3) == 0 ? WM_NONE : draw(-400, 700));
    }
}

static void
a_slice_met_before_places_as_without_it(void **state)
{
    struct window_place p, q;
    int i, k;

    (void)state;
    seed = (uint64_t)time(NULL);
    print_message("seed %llu\n", (unsigned long long)seed);
    for (i = 0; i < 5000; i++) {
        int64_t slide = draw(1, 40), size = draw(slide, 200);
        struct window_spec w = spec_of("hopping", size, slide, draw(-60, 60),
                                       draw(0, 1) * draw(0, 50));
        struct window_near near = {0, 0, 0, 0};

        for (k = 0; k < 40; k++) {
            int64_t ts = draw(-60, 60);
            int64_t wm = draw(0, 3) == 0 ? WM_NONE : draw(-100, 300);

            window_place(&w, ts, wm, &p);
            window_place_near(&w, &near, ts, wm, &q);
            assert_int_equal(p.late, q.late);
            assert_int_equal(p.missed, q.missed);
            assert_int_equal(p.slice, q.slice);
            assert_int_equal(p.first, q.first);
            assert_int_equal(p.last, q.last);
        }
    }
}

static void
many_slices_fall_back_to_whole_windows(void **state)
{
    struct window_spec w = spec_of("hopping", 100003, 50, 0, 0);
    int64_t ts;

    (void)state;
    assert_true(w.whole);
    for (ts = -100; ts < 100; ts += 7)
        check_place(&w, ts, ts % 3 == 0 ? ts - 50000 : WM_NONE);
}

/* A deadline is the first watermark at which something becomes due. */
static void
no_end_or_purge_lies_before_the_deadline(void **state)
{
    int i;

    (void)state;
    seed = (uint64_t)time(NULL) ^ 77;
    print_message("seed %llu\n", (unsigned long long)seed);
    for (i = 0; i < 100000; i++) {
        int64_t slide = draw(1, 20), size = slide * draw(1, 5);
        struct window_spec w =
            spec_of("hopping", size, slide, 0, draw(0, 1) * draw(0, 30));
        int64_t slice = floor_to(draw(-100, 100), 0, w.slice);
        int64_t wm = draw(-200, 300), s;
        int64_t got = window_deadline(&w, slice, WINDOW_FIRST_ALL, wm);

        for (s = window_first(&w, slice); s <= window_last(&w, slice);
             s += slide) {
            if (s + size - 1 > wm)
                assert_true(got <= s + size - 1);
        }
        if (window_last(&w, slice) + size - 1 + w.lateness > wm)
            assert_true(got > wm);
    }
}

static void
windows_without_merge_are_kept_whole(void **state)
{
    struct window_spec w = spec_of("hopping", 10000, 4000, 0, 0);
    struct window_spec tumbling = spec_of("tumbling", 10000, 10000, 0, 0);
    struct window_place p;

    (void)state;
    window_spec_keep_whole(&w);
    window_spec_keep_whole(&tumbling);
    window_place(&w, 9000, WM_NONE, &p);

    assert_true(w.whole);
    assert_int_equal(p.slice, 0); /* the first of 0, 4000, 8000 */
    assert_int_equal(p.last, 8000);
    assert_int_equal(window_first(&w, p.slice), 0);
    assert_int_equal(window_last(&w, p.slice), 0);
    assert_false(tumbling.whole); /* one slice a window already */
}

static void
a_row_lies_in_the_window_that_ends_behind_it(void **state)
{
    struct window_spec same = spec_of("same", 4000, 0, 0, 0);
    struct window_spec up = spec_of("hopping", 4000, 1500, 700, 0);
    struct window_near near = {0, 0, 0, 0};
    int i;

    (void)state;
    for (i = 0; i < 200; i++) {
        struct window_place p, q;
        int64_t start;

        window_place(&up, draw(-50000, 50000), WM_NONE, &p);
        start = p.last;
        window_place(&same, window_end(&up, start) - 1, WM_NONE, &q);
        assert_int_equal(q.slice, start);
        assert_int_equal(q.last, start);
        assert_false(q.late);
        assert_int_equal(window_end(&same, q.slice), window_end(&up, start));
        assert_int_equal(window_first(&same, q.slice), start);
        assert_int_equal(window_last(&same, q.slice), start);
        assert_int_equal(window_deadline(&same, q.slice, q.first, WM_NONE),
                         start + 3999);
        window_place_near(&same, &near, start + 3999, WM_NONE, &q);
        assert_int_equal(q.slice, start);
    }
    window_spec_use_slices(&same);
    assert_true(same.whole);
}

static void
keys_without_window_are_one_window_that_says_so(void **state)
{
    struct window_spec none = spec_of("none", 0, 0, 0, 0);
    struct window_spec count = spec_of("count", 0, 0, 0, 0);

    (void)state;
    assert_int_equal(none.kind, WINDOW_GLOBAL);
    assert_true(none.updating);
    assert_int_equal(none.ttl, -1);
    assert_int_equal(count.kind, WINDOW_GLOBAL);
    assert_false(count.updating);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_time_of_minus_one_lies_in_the_window_before_zero),
        cmocka_unit_test(an_offset_moves_the_bounds_also_when_negative),
        cmocka_unit_test(
            a_record_is_late_exactly_from_end_minus_one_plus_lateness),
        cmocka_unit_test(placing_agrees_with_enumeration),
        cmocka_unit_test(a_slice_met_before_places_as_without_it),
        cmocka_unit_test(many_slices_fall_back_to_whole_windows),
        cmocka_unit_test(windows_without_merge_are_kept_whole),
        cmocka_unit_test(no_end_or_purge_lies_before_the_deadline),
        cmocka_unit_test(a_row_lies_in_the_window_that_ends_behind_it),
        cmocka_unit_test(keys_without_window_are_one_window_that_says_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
