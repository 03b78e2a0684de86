/*
 * Window state: random partials and watermarks against plain enumeration of
 * the windows. Rows must be right, once per window and key (last one wins
 * with lateness), and in order of window_end for each key.
 */
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
#include "core/winstate.h"

enum { KEYS = 5, RECORDS = 400, SPAN = 600, WINDOWS = 4096 };

static uint64_t seed;

static int64_t
draw(int64_t lo, int64_t hi)
{
    seed = hash_splitmix(seed);
    return lo + (int64_t)(seed % (uint64_t)(hi - lo + 1));
}

/* Counts need no identity of values. */
static int
no_key(struct buf *b, const struct val *v, struct err *e)
{
    (void)b;
    (void)v;
    return err_set(e, ERR_INTERNAL, "not needed here");
}

static struct aggset *
count_set(struct arena *a)
{
    struct opt *list = opt_new_list(a), *agg = opt_new_map(a);
    struct aggset *set = NULL;
    struct err e;

    opt_add(a, agg, "name", opt_new_str(a, "n", 1));
    opt_add(a, agg, "fn", opt_new_str(a, "count", 5));
    opt_add(a, agg, "args", opt_new_list(a));
    opt_add(a, list, NULL, agg);
    assert_int_equal(aggset_new(list, no_key, NULL, NULL, &set, &e), 0);
    return set;
}

struct expected { /* by window start and key */
    int64_t start;
    int key;
    uint64_t n;   /* records that count for it */
    uint64_t got; /* of the last row */
    int rows;
};

struct run {
    const struct window_spec *w;
    const struct aggset *set;
    struct expected want[WINDOWS];
    int count;
    int64_t last_end[KEYS];
    bool append;
};

static struct expected *
find(struct run *r, int64_t start, int key)
{
    int i;

    for (i = 0; i < r->count; i++)
        if (r->want[i].start == start && r->want[i].key == key)
            return &r->want[i];
    assert_true(r->count < WINDOWS);
    r->want[r->count] = (struct expected){.start = start, .key = key};
    return &r->want[r->count++];
}

static int
take_row(void *arg, const struct winrow *row, struct err *e)
{
    struct run *r = arg;
    struct expected *x;
    struct buf b;
    bool ext = false;
    int key = row->key[0] - 'a';

    buf_init(&b);
    assert_int_equal(
        r->set->aggs[0].type->result(&r->set->aggs[0], row->block, &b, &ext, e),
        0);
    x = find(r, row->start, key);
    x->got = strtoull(buf_cstr(&b), NULL, 10);
    x->rows++;
    assert_int_equal(row->end, row->start + r->w->size);
    if (r->append) {
        assert_int_equal(x->rows, 1);
        assert_true(row->end > r->last_end[key]);
        r->last_end[key] = row->end;
    }
    buf_fini(&b);
    return 0;
}

static void
fire(struct winstate *s, struct run *r)
{
    struct err e;
    int more;

    do
        more = winstate_fire(s, (uint32_t)draw(1, 4), take_row, r, &e);
    while (more == 1);
    assert_int_equal(more, 0);
}

/* One record: the model's windows, and the partial the engine gets. */
static void
add(struct winstate *s, struct run *r, int64_t ts, int64_t wm)
{
    const struct window_spec *w = r->w;
    struct window_place p;
    char key = (char)('a' + draw(0, KEYS - 1));
    struct partial head = {
        .hash = hash_key(&key, 1), .key = &key, .key_len = 1, .count = 1};
    void *block;
    struct err e;
    int64_t at;

    window_place(w, ts, wm, &p);
    if (p.late)
        return;
    for (at = p.last; at > ts - w->size; at -= w->slide)
        if (wm == WM_NONE || wm < at + w->size - 1 + w->lateness)
            find(r, at, key - 'a')->n++;
    head.slice = p.slice;
    head.first = w->whole ? WINDOW_FIRST_ALL : p.first;
    for (at = p.slice; at <= (w->whole ? p.last : p.slice); at += w->slide) {
        head.slice = at;
        block = malloc(r->set->size);
        aggset_init(r->set, block);
        assert_int_equal(aggset_add(r->set, block, NULL, NULL, &e), 0);
        head.block = block;
        assert_int_equal(winstate_merge(s, &head, &e), 0);
        free(block);
    }
}

static void
one_run(int64_t size, int64_t slide, int64_t lateness)
{
    static struct run r;
    struct window_spec w = {.kind = WINDOW_HOPPING,
                            .size = size,
                            .slide = slide,
                            .lateness = lateness};
    struct winstate *s;
    struct arena a;
    struct aggset *set;
    int64_t wm = WM_NONE;
    int i;

    for (w.slice = size; size % w.slice != 0 || slide % w.slice != 0;)
        w.slice--;
    arena_init(&a);
    set = count_set(&a);
    memset(&r, 0, sizeof r);
    r.w = &w;
    r.set = set;
    r.append = lateness == 0;
    for (i = 0; i < KEYS; i++)
        r.last_end[i] = INT64_MIN;
    s = winstate_new(&w, set);
    for (i = 0; i < RECORDS; i++) {
        add(s, &r, i + draw(-120, 20) - 100, wm);
        if (draw(0, 9) == 0) {
            wm = wm == WM_NONE ? i - 150 : wm + draw(0, 40);
            winstate_advance(s, wm);
            fire(s, &r);
        }
        if (draw(0, 19) == 0) {
            winstate_flush_late(s);
            fire(s, &r);
        }
    }
    winstate_advance(s, WM_MAX);
    fire(s, &r);
    for (i = 0; i < r.count; i++)
        assert_int_equal(r.want[i].got, r.want[i].n);
    assert_int_equal(winstate_keys(s), 0);
    winstate_free(&s);
    aggset_free(&set);
    arena_fini(&a);
}

static void
tumbling_and_hopping_rows_are_exact(void **state)
{
    int i;

    (void)state;
    seed = (uint64_t)time(NULL);
    print_message("seed %llu\n", (unsigned long long)seed);
    for (i = 0; i < 300; i++) {
        int64_t slide = draw(1, 30);

        one_run(draw(0, 1) == 0 ? slide : slide + draw(0, 90), slide, 0);
    }
}

static void
the_last_row_is_exact_with_lateness(void **state)
{
    int i;

    (void)state;
    seed = (uint64_t)time(NULL) ^ 99;
    print_message("seed %llu\n", (unsigned long long)seed);
    for (i = 0; i < 300; i++) {
        int64_t slide = draw(1, 30);

        one_run(draw(0, 1) == 0 ? slide : slide + draw(0, 90), slide,
                draw(1, 60));
    }
}

static void
a_partial_for_a_purged_window_is_refused(void **state)
{
    struct window_spec w = {
        .kind = WINDOW_TUMBLING, .size = 10, .slide = 10, .slice = 10};
    struct partial p = {.slice = 0,
                        .first = WINDOW_FIRST_ALL,
                        .key = "k",
                        .key_len = 1,
                        .count = 1};
    static struct run r;
    struct arena a;
    struct aggset *set;
    struct winstate *s;
    struct err e;
    void *block;

    (void)state;
    arena_init(&a);
    set = count_set(&a);
    r.w = &w;
    r.set = set;
    s = winstate_new(&w, set);
    winstate_advance(s, 9);
    fire(s, &r);
    block = malloc(set->size);
    aggset_init(set, block);
    p.block = block;
    assert_int_equal(winstate_merge(s, &p, &e), 1);
    assert_int_equal(winstate_keys(s), 0);
    free(block);
    winstate_free(&s);
    aggset_free(&set);
    arena_fini(&a);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tumbling_and_hopping_rows_are_exact),
        cmocka_unit_test(the_last_row_is_exact_with_lateness),
        cmocka_unit_test(a_partial_for_a_purged_window_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
