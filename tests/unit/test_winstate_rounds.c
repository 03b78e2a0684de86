/*
 * Window state in rounds: random records, watermarks, barriers, pieces of
 * saving, crashes and restores with other parallelism, against a state that
 * is never disturbed and against what the disk should hold.
 */
#include "winstate_util.h"

enum {
    STATES_MAX = 5,
    INPUTS_MAX = 4000,
    RUNS = 150,
    STEPS = 400,
    KEPT_MAX = 40
};

struct run {
    struct window_spec spec;
    struct aggset *set;
    struct winstate *plain; /* undisturbed */
    struct rows plain_rows;
    struct winstate *states[STATES_MAX];
    uint32_t count;
    struct rows rows, rows_at_round;
    struct items disk, want;
    struct buf blobs[STATES_MAX]; /* of the last complete round */
    uint32_t blob_count;
    struct input inputs[INPUTS_MAX]; /* since then */
    uint32_t input_count, barrier;   /* inputs before the barrier */
    struct snapshot *snaps[STATES_MAX];
    struct snapshot *kept[KEPT_MAX]; /* of rounds that failed, in order */
    uint32_t kept_count;
    struct rows rows_at_barrier;
    struct buf next_blobs[STATES_MAX];
    bool saving, adopted;
    size_t budget; /* 0: all in memory */
    uint64_t round, durable, puts, dels, waits, wants, evicted;
    int64_t wm, now, wm_at_barrier;
};

static uint32_t
owner_of(const struct run *r, const char *key, uint32_t len, uint32_t n)
{
    (void)r;
    return key_group_subtask(key_group(hash_key(key, len), MAX_PAR), n,
                             MAX_PAR);
}

/* Make room, as between two messages. */
static void
tidy(struct run *r)
{
    struct err e;
    uint32_t i;

    for (i = 0; i < r->count && r->budget != 0; i++) {
        struct winstate *w = r->states[i];
        enum entry_room room =
            winstate_trim(w, r->durable, 1 + util_below(30));

        r->waits += room == ROOM_WAIT;
        r->wants += room == ROOM_WANT_ROUND;
        if (room == ROOM_WAIT) /* for a round under way, or one that failed */
            assert_true(r->saving || r->durable < r->round);
        if (util_below(4) == 0)
            assert_in_range(winstate_sweep(w, 1 + util_below(3), &e), 0, 1);
    }
}

/* Apply an input to the disturbed states. */
static void
apply(struct run *r, const struct input *in)
{
    char key[16];
    uint32_t i, len = input_key(in, key);

    if (in->kind == IN_RECORD) {
        input_add(r->states[owner_of(r, key, len, r->count)], in);
        return;
    }
    for (i = 0; i < r->count; i++) {
        if (in->kind == IN_WATERMARK)
            winstate_advance(r->states[i], in->wm);
        else
            winstate_flush_late(r->states[i]);
        rows_fire(r->states[i], &r->rows);
    }
}

static void
take(struct run *r, const struct input *in)
{
    assert_true(r->input_count < INPUTS_MAX);
    r->inputs[r->input_count++] = *in;
    apply(r, in);
    tidy(r);
    if (in->kind == IN_RECORD) {
        input_add(r->plain, in);
        return;
    }
    if (in->kind == IN_WATERMARK)
        winstate_advance(r->plain, in->wm);
    else
        winstate_flush_late(r->plain);
    rows_fire(r->plain, &r->plain_rows);
}

static void
barrier(struct run *r)
{
    static const struct input flush = {.kind = IN_FLUSH};
    uint32_t i;

    take(r, &flush);
    r->round++;
    for (i = 0; i < r->count; i++) {
        r->snaps[i] = winstate_freeze(r->states[i], r->round);
        buf_clear(&r->next_blobs[i]);
        winstate_put(r->states[i], &r->next_blobs[i]);
    }
    items_clear(&r->want);
    disk_expect(&r->want, r->plain);
    items_copy(&r->rows_at_barrier.list, &r->rows.list);
    r->barrier = r->input_count;
    r->wm_at_barrier = r->wm;
    r->saving = true;
}

/* Entries of purged windows may stay on disk for a while where memory is
 * bounded: they are not compared. */
static void
compare_disk(struct run *r)
{
    struct items live;
    size_t i;

    memset(&live, 0, sizeof live);
    items_copy(&live, &r->disk);
    for (i = live.n; r->budget != 0 && i-- > 0;) {
        uint64_t start;

        memcpy(&start, live.at[i].name + 2, 8);
        start = __builtin_bswap64(start) ^ UINT64_C(1) << 63;
        if (r->wm_at_barrier != WM_NONE &&
            winstate_purge_at(r->plain,
                              winstate_last_end(r->plain, (int64_t)start)) <=
                r->wm_at_barrier)
            items_del(&live, live.at[i].name, live.at[i].name_len);
    }
    items_equal(&live, &r->want);
    items_fini(&live);
}

/* The round is not written; what it has goes into the next one. */
static void
fail_round(struct run *r)
{
    uint32_t i;

    for (i = 0; i < r->count; i++) {
        r->puts += r->snaps[i]->puts;
        r->dels += r->snaps[i]->dels;
        r->kept[r->kept_count++] = r->snaps[i];
        r->snaps[i] = NULL;
    }
    r->saving = false;
}

/* A piece of saving; when all is saved, the round is on disk. */
static void
piece(struct run *r)
{
    bool more = false;
    uint32_t i;

    for (i = 0; i < r->count; i++)
        more = winstate_save(r->states[i], util_below(4)) || more;
    if (more || util_below(4) != 0) /* it takes a while to be written */
        return;
    if (util_below(4) == 0 && r->kept_count + r->count <= KEPT_MAX) {
        fail_round(r);
        return;
    }
    for (i = 0; i < r->kept_count; i++) {
        disk_apply(&r->disk, r->kept[i]);
        snapshot_free(&r->kept[i]);
    }
    r->kept_count = 0;
    for (i = 0; i < r->count; i++) {
        assert_int_equal(r->snaps[i]->round, r->round);
        r->puts += r->snaps[i]->puts;
        r->dels += r->snaps[i]->dels;
        disk_apply(&r->disk, r->snaps[i]);
        snapshot_free(&r->snaps[i]);
        buf_clear(&r->blobs[i]);
        buf_add(&r->blobs[i], r->next_blobs[i].data, r->next_blobs[i].len);
    }
    r->blob_count = r->count;
    r->durable = r->round;
    compare_disk(r);
    items_copy(&r->rows_at_round.list, &r->rows_at_barrier.list);
    memmove(r->inputs, r->inputs + r->barrier,
            (r->input_count - r->barrier) * sizeof r->inputs[0]);
    r->input_count -= r->barrier;
    r->saving = false;
}

static void
start(struct run *r)
{
    uint32_t i;

    for (i = 0; i < r->count; i++) {
        r->states[i] = winstate_new(&r->spec, r->set);
        winstate_track(r->states[i], MAX_PAR);
        if (r->budget != 0) {
            struct entry_store st = {.arg = &r->disk,
                                        .get = disk_get,
                                        .walk = disk_walk,
                                        .renew = disk_renew};

            st.first_group = (i * MAX_PAR + r->count - 1) / r->count;
            st.last_group = ((i + 1) * MAX_PAR + r->count - 1) / r->count - 1;
            winstate_cache(r->states[i], r->budget, &st);
        }
    }
}

/* Leave the entries on disk: only the slices are known. */
static void
adopt(struct run *r)
{
    struct err e;
    uint32_t i, k, j;

    for (i = 0; i < r->blob_count; i++) {
        struct winstate_blob b;

        assert_int_equal(winstate_blob_read(&r->blobs[i], &b, &e), 0);
        for (k = 0; k < r->count; k++) {
            if (i == 0)
                winstate_set_fired(r->states[k], b.fired);
            for (j = 0; j < b.count; j++)
                winstate_adopt(r->states[k], b.slices[j].start,
                               b.slices[j].first, b.slices[j].entries);
        }
        winstate_blob_fini(&b);
    }
    r->adopted = true;
}

static void
load(struct run *r)
{
    int64_t fired[STATES_MAX];
    struct winstate_blob b;
    struct err e;
    uint32_t i, group;
    size_t k;

    for (i = 0; i < r->blob_count; i++) {
        assert_int_equal(winstate_blob_read(&r->blobs[i], &b, &e), 0);
        fired[i] = b.fired;
        assert_int_equal(fired[i], fired[0]);
        winstate_blob_fini(&b);
    }
    for (i = 0; i < r->count; i++)
        winstate_set_fired(r->states[i], fired[0]);
    for (k = 0; k < r->disk.n; k++) {
        const struct item *d = &r->disk.at[k];
        struct winstate_entry v = {.ns = d->name + 2,
                                   .key = d->name + 18,
                                   .key_len = (uint32_t)d->name_len - 18,
                                   .value = d->value,
                                   .value_len = d->value_len};
        uint16_t g;

        memcpy(&g, d->name, 2);
        group = g;
        v.hash = hash_key(v.key, v.key_len);
        assert_int_equal(key_group(v.hash, MAX_PAR), group);
        v.fired = fired[key_group_subtask(group, r->blob_count, MAX_PAR)];
        i = key_group_subtask(group, r->count, MAX_PAR);
        assert_int_equal(winstate_load(r->states[i], &v, &e), 0);
    }
}

/* Lose all but disk, blobs and the rows of the last round; go on with other
 * parallelism and do the inputs since then again. */
static void
crash(struct run *r)
{
    uint32_t i;

    for (i = 0; i < r->count; i++) {
        winstate_free(&r->states[i]);
        snapshot_free(&r->snaps[i]);
    }
    while (r->kept_count > 0)
        snapshot_free(&r->kept[--r->kept_count]);
    items_copy(&r->rows.list, &r->rows_at_round.list);
    r->saving = false;
    r->count = 1 + util_below(STATES_MAX);
    start(r);
    r->adopted = false;
    if (r->blob_count > 0 && r->budget != 0 && util_below(2) == 0)
        adopt(r);
    else if (r->blob_count > 0)
        load(r);
    for (i = 0; i < r->input_count; i++) {
        apply(r, &r->inputs[i]);
        tidy(r);
    }
}

static void
step(struct run *r)
{
    struct input in = {.kind = IN_RECORD};

    r->now++;
    switch (util_below(24)) {
    case 0:
    case 1:
        in.kind = IN_WATERMARK;
        r->wm = r->wm == WM_NONE ? r->now - 150 : r->wm + util_below(24);
        in.wm = r->wm;
        take(r, &in);
        return;
    case 2:
        in.kind = IN_FLUSH;
        take(r, &in);
        return;
    case 3:
        if (!r->saving)
            barrier(r);
        return;
    case 4:
    case 5:
        if (r->saving)
            piece(r);
        return;
    case 6:
        if (util_below(4) == 0)
            crash(r);
        return;
    default:
        break;
    }
    in.ts = r->now + util_below(140) - 220;
    in.wm = r->wm;
    in.key = util_below(UTIL_KEYS);
    in.direct = util_below(2) == 0;
    in.v[0] = val_int((int64_t)util_below(1000) - 500);
    in.v[1] = in.v[2] = in.v[3] = in.v[0];
    take(r, &in);
}

static struct run run;

static void
random_spec(struct window_spec *w)
{
    int64_t slide = 1 + util_below(30);

    *w = (struct window_spec){
        .kind = WINDOW_HOPPING, .slide = slide, .size = slide + util_below(90)};
    if (util_below(3) == 0)
        w->size = slide;
    if (util_below(2) == 0)
        w->lateness = 1 + util_below(50);
    for (w->slice = w->size;
         w->size % w->slice != 0 || w->slide % w->slice != 0;)
        w->slice--;
    if (util_below(5) == 0)
        window_spec_keep_whole(w);
    if (util_below(12) == 0)
        *w = (struct window_spec){.kind = WINDOW_GLOBAL};
}

static void
begin_run(struct run *r, const struct opt *aggs, size_t budget)
{
    memset(r, 0, sizeof *r);
    random_spec(&r->spec);
    r->set = util_set(aggs);
    r->budget = budget;
    r->plain_rows.set = r->rows.set = r->set;
    r->plain_rows.append = r->rows.append = r->spec.lateness == 0;
    r->wm = WM_NONE;
    r->plain = winstate_new(&r->spec, r->set);
    r->count = 1 + util_below(STATES_MAX);
    start(r);
}

static void
round_now(struct run *r)
{
    do {
        barrier(r);
        while (r->saving)
            piece(r);
    } while (r->durable < r->round);
}

/* All windows fire; nothing stays on disk. */
static void
end_run(struct run *r)
{
    struct input end = {.kind = IN_WATERMARK, .wm = WM_MAX};
    struct err e;
    uint32_t i;

    while (r->saving)
        piece(r);
    r->wm = WM_MAX;
    take(r, &end);
    items_equal(&r->rows.list, &r->plain_rows.list);
    round_now(r);
    for (i = 0; i < r->count && r->budget != 0; i++)
        assert_int_equal(winstate_sweep(r->states[i], UINT32_MAX, &e), 0);
    if (r->budget != 0)
        round_now(r);
    assert_int_equal(r->disk.n, 0);
}

static void
free_run(struct run *r)
{
    uint32_t i;

    for (i = 0; i < r->count; i++)
        winstate_free(&r->states[i]);
    winstate_free(&r->plain);
    for (i = 0; i < STATES_MAX; i++) {
        buf_fini(&r->blobs[i]);
        buf_fini(&r->next_blobs[i]);
    }
    items_fini(&r->rows.list);
    items_fini(&r->rows_at_round.list);
    items_fini(&r->rows_at_barrier.list);
    items_fini(&r->plain_rows.list);
    items_fini(&r->disk);
    items_fini(&r->want);
    aggset_free(&r->set);
}

static uint64_t
keys_of(const struct run *r)
{
    uint64_t n = 0;
    uint32_t i;

    for (i = 0; i < r->count; i++)
        n += winstate_keys(r->states[i]);
    return n;
}

static void
rounds_keep_what_is_there_at_the_barrier(void **state)
{
    struct run *r = &run;
    struct arena a;
    struct opt *list;
    uint64_t puts = 0, dels = 0;
    uint32_t i, k;

    (void)state;
    arena_init(&a);
    list = sum_and_max(&a);
    for (i = 0; i < RUNS; i++) {
        begin_run(r, list, 0);
        for (k = 0; k < STEPS; k++)
            step(r);
        end_run(r);
        puts += r->puts;
        dels += r->dels;
        free_run(r);
    }
    assert_true(puts > 1000 && dels > 1000);
    arena_fini(&a);
}

static void
a_bounded_memory_gives_the_same_rows(void **state)
{
    struct run *r = &run;
    struct arena a;
    struct opt *list;
    uint64_t waits = 0, wants = 0, evicted = 0;
    uint32_t i, k, n;

    (void)state;
    arena_init(&a);
    list = sum_and_max(&a);
    for (i = 0; i < RUNS / 3; i++) {
        begin_run(r, list, 500u << util_below(6));
        for (k = 0; k < STEPS; k++) {
            step(r);
            for (n = 0; n < r->count; n++) {
                uint32_t j;

                for (j = 0; j < r->states[n]->slice_count; j++)
                    evicted += r->states[n]->slices[j]->evicted != 0;
            }
            if (!r->adopted)
                assert_int_equal(keys_of(r), winstate_keys(r->plain));
        }
        end_run(r);
        waits += r->waits;
        wants += r->wants;
        free_run(r);
    }
    printf("waits %" PRIu64 ", wants %" PRIu64 ", evicted %" PRIu64 "\n", waits,
           wants, evicted);
    assert_true(waits > 100 && wants > 100 && evicted > 1000);
    arena_fini(&a);
}

/* Save pieces between those of a purge: op_global does not, but may. */
static void
a_purge_under_way_belongs_to_the_frozen_round(void **state)
{
    struct input in = {.kind = IN_RECORD, .wm = WM_NONE};
    struct run *r = &run;
    struct arena a;
    struct err e;
    uint32_t i;

    (void)state;
    arena_init(&a);
    begin_run(r, sum_and_max(&a), 0);
    winstate_free(&r->plain);
    winstate_free(&r->states[0]);
    r->spec = (struct window_spec){
        .kind = WINDOW_TUMBLING, .size = 10, .slide = 10, .slice = 10};
    r->states[0] = winstate_new(&r->spec, r->set);
    r->plain = winstate_new(&r->spec, r->set);
    winstate_track(r->states[0], MAX_PAR);
    for (i = 0; i < 9000; i++) { /* more than one piece purges */
        in.key = i;
        in.v[0] = in.v[1] = val_int(i);
        input_add(r->states[0], &in);
    }

    r->snaps[0] = winstate_freeze(r->states[0], 1);
    winstate_advance(r->states[0], 9);
    while (winstate_keys(r->states[0]) != 0) {
        r->rows.left = 10000;
        assert_int_equal(
            winstate_fire(r->states[0], 10000, rows_take, &r->rows, &e), 1);
        items_clear(&r->rows.list);
    }
    while (winstate_save(r->states[0], 100))
        continue;

    assert_int_equal(r->snaps[0]->puts, 9000);
    snapshot_free(&r->snaps[0]);
    r->snaps[0] = winstate_freeze(r->states[0], 2);
    assert_int_equal(r->snaps[0]->puts, 0);
    assert_int_equal(r->snaps[0]->dels, 9000);
    snapshot_free(&r->snaps[0]);
    free_run(r);
    arena_fini(&a);
}

/* While round 2 is written, what round 1 has may go, what only 2 has not. */
static void
what_is_only_in_a_round_under_way_stays_in_memory(void **state)
{
    struct input in = {.kind = IN_RECORD, .wm = WM_NONE};
    struct run *r = &run;
    struct winstate *w;
    struct arena a;
    uint32_t i;

    (void)state;
    arena_init(&a);
    begin_run(r, sum_and_max(&a), 0);
    r->spec = (struct window_spec){.kind = WINDOW_GLOBAL};
    r->budget = 100; /* always too small */
    for (i = 0; i < r->count; i++)
        winstate_free(&r->states[i]);
    r->count = 1;
    start(r);
    w = r->states[0];
    for (in.key = 1; in.key <= 40; in.key++)
        input_add(w, &in);
    for (i = 1; i <= 2; i++) {
        struct snapshot *s = winstate_freeze(w, i);

        while (winstate_save(w, 100))
            continue;
        disk_apply(&r->disk, s);
        snapshot_free(&s);
        in.key = 7;
        if (i == 1)
            input_add(w, &in);
    }

    for (i = 0; i < 20; i++)
        (void)winstate_trim(w, 1, 10);
    assert_int_equal(winstate_trim(w, 1, 10), ROOM_WAIT);
    assert_int_equal(w->slices[0]->evicted, 39);
    assert_true(winstate_holds(w->slices[0], hash_key("key-7", 5), "key-7", 5));
    for (i = 0; i < 20; i++)
        assert_int_equal(winstate_trim(w, 2, 10), ROOM_ENOUGH);
    assert_int_equal(w->slices[0]->evicted, 40);
    assert_int_equal(winstate_keys(w), 40);
    free_run(r);
    arena_fini(&a);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounds_keep_what_is_there_at_the_barrier),
        cmocka_unit_test(a_bounded_memory_gives_the_same_rows),
        cmocka_unit_test(a_purge_under_way_belongs_to_the_frozen_round),
        cmocka_unit_test(what_is_only_in_a_round_under_way_stays_in_memory),
    };

    (void)util_seed();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
