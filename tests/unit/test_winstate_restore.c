/*
 * What window state takes back from a store: where windows had fired in one
 * place and not in another, accumulators that could not be saved, damage.
 */
#include "winstate_util.h"

static void
items_append(struct items *to, const struct items *from)
{
    size_t k;

    for (k = 0; k < from->n; k++)
        items_add(to, from->at[k].name, from->at[k].name_len, from->at[k].value,
                  from->at[k].value_len);
}

/* Take what `from` holds as a restored subtask would, at `fired`. */
static void
load_disk(struct winstate *to, const struct items *disk, int64_t fired)
{
    struct err e;
    size_t k;

    for (k = 0; k < disk->n; k++) {
        const struct item *d = &disk->at[k];
        struct winstate_entry v = {.ns = d->name + 2,
                                   .key = d->name + 18,
                                   .key_len = (uint32_t)d->name_len - 18,
                                   .value = d->value,
                                   .value_len = d->value_len,
                                   .fired = fired};

        v.hash = hash_key(v.key, v.key_len);
        assert_int_equal(winstate_load(to, &v, &e), 0);
    }
}

/* Whole state to disk, as one round. */
static void
save_all(struct winstate *w, uint64_t round, struct items *disk)
{
    struct snapshot *s = winstate_freeze(w, round);

    while (winstate_save(w, 10))
        continue;
    disk_apply(disk, s);
    snapshot_free(&s);
}

/* Two old subtasks, one further than the other, become one: each window of
 * each key fires once, before, after, and after a second restore. */
static void
windows_that_fired_in_one_of_two_old_subtasks_do_not_fire_again(void **state)
{
    const struct window_spec spec = {
        .kind = WINDOW_HOPPING, .size = 30, .slide = 10, .slice = 10};
    struct arena a;
    struct aggset *set;
    struct rows rows = {.append = true}, plain_rows = {.append = true};
    struct winstate *plain, *w[2], *one, *two;
    struct items disk[3];
    uint32_t i;

    (void)state;
    arena_init(&a);
    set = util_set(sum_and_max(&a));
    rows.set = plain_rows.set = set;
    memset(disk, 0, sizeof disk);
    plain = winstate_new(&spec, set);
    for (i = 0; i < 2; i++) {
        w[i] = winstate_new(&spec, set);
        winstate_track(w[i], MAX_PAR);
    }
    for (i = 0; i < 200; i++) {
        struct input in = {
            .kind = IN_RECORD, .ts = i, .key = i % 7, .wm = WM_NONE};

        if (i % 3 == 0) /* some entries count from a later window on */
            in.wm = 45;
        in.v[0] = in.v[1] = val_int(i);
        input_add(plain, &in);
        input_add(w[in.key % 2], &in);
    }
    winstate_advance(w[0], 60);
    winstate_advance(w[1], 100);
    for (i = 0; i < 2; i++) {
        rows_fire(w[i], &rows);
        save_all(w[i], 1, &disk[i]);
    }

    one = winstate_new(&spec, set);
    winstate_track(one, MAX_PAR);
    winstate_set_fired(one, 60);
    load_disk(one, &disk[0], 60);
    load_disk(one, &disk[1], 100);
    items_append(&disk[2], &disk[0]);
    items_append(&disk[2], &disk[1]);
    winstate_advance(one, 75);
    rows_fire(one, &rows);
    save_all(one, 2, &disk[2]); /* under their new names, once */
    two = winstate_new(&spec, set);
    winstate_track(two, MAX_PAR);
    winstate_set_fired(two, 75);
    load_disk(two, &disk[2], 75);
    winstate_advance(two, WM_MAX);
    rows_fire(two, &rows);
    winstate_advance(plain, WM_MAX);
    rows_fire(plain, &plain_rows);

    items_equal(&rows.list, &plain_rows.list);
    winstate_free(&plain);
    winstate_free(&w[0]);
    winstate_free(&w[1]);
    winstate_free(&one);
    winstate_free(&two);
    for (i = 0; i < 3; i++)
        items_fini(&disk[i]);
    items_fini(&rows.list);
    items_fini(&plain_rows.list);
    aggset_free(&set);
    arena_fini(&a);
}

/* An aggregate like a custom one: the sum, which cannot be encoded if odd. */
static uint32_t
odd_size(const struct agg *a)
{
    (void)a;
    return 8;
}

static void
odd_init(const struct agg *a, void *acc)
{
    (void)a;
    *(int64_t *)acc = 0;
}

static int
odd_add(const struct agg *a, void *acc, const struct val *args,
        const struct rec *r, struct err *e)
{
    (void)a;
    (void)r;
    (void)e;
    *(int64_t *)acc += args[0].u.i;
    return 0;
}

static int
odd_merge(const struct agg *a, void *acc, void *from, struct err *e)
{
    (void)a;
    (void)e;
    *(int64_t *)acc += *(int64_t *)from;
    return 0;
}

static int
odd_result(const struct agg *a, const void *acc, struct buf *out, bool *ext,
           struct err *e)
{
    (void)a;
    (void)ext;
    (void)e;
    json_put_int(out, *(const int64_t *)acc);
    return 0;
}

static int
odd_encode(const struct agg *a, const void *acc, struct buf *out, struct err *e)
{
    (void)a;
    if (*(const int64_t *)acc % 2 != 0)
        return err_record(e, CAUSE_USER_ERROR, "it is odd");
    buf_add(out, acc, 8);
    return 0;
}

static int
odd_decode(const struct agg *a, void *acc, const char *bytes, size_t len,
           struct err *e)
{
    (void)a;
    if (len != 8)
        return err_set(e, ERR_IO, "8 bytes wanted");
    memcpy(acc, bytes, 8);
    return 0;
}

static int
odd_agg(void *arg, struct agg *a, struct err *e)
{
    static const struct agg_type type = {.name = "odd",
                                         .size = odd_size,
                                         .init = odd_init,
                                         .add = odd_add,
                                         .merge = odd_merge,
                                         .result = odd_result,
                                         .encode = odd_encode,
                                         .decode = odd_decode};

    (void)arg;
    (void)e;
    a->type = &type;
    return 0;
}

static void
accumulators_that_cannot_be_saved_lose_their_row_only(void **state)
{
    const struct window_spec spec = {
        .kind = WINDOW_TUMBLING, .size = 10, .slide = 10, .slice = 10};
    struct arena a;
    struct aggset *set = NULL;
    struct opt *list;
    struct rows rows = {.append = true}, after = {.append = true};
    struct winstate *w, *restored;
    struct items disk;
    struct err e;
    uint32_t i;

    (void)state;
    arena_init(&a);
    list = opt_new_list(&a);
    (void)util_call(&a, list, "custom", 1);
    assert_int_equal(aggset_new(list, util_encode, odd_agg, NULL, &set, &e), 0);
    rows.set = after.set = set;
    memset(&disk, 0, sizeof disk);
    w = winstate_new(&spec, set);
    winstate_track(w, MAX_PAR);
    for (i = 1; i <= 4; i++) {
        struct input in = {.kind = IN_RECORD, .key = i, .wm = WM_NONE};

        in.direct = i <= 2;
        in.v[0] = val_int(i);
        input_add(w, &in);
    }

    save_all(w, 1, &disk);
    restored = winstate_new(&spec, set);
    winstate_track(restored, MAX_PAR);
    load_disk(restored, &disk, WM_NONE);
    winstate_advance(w, WM_MAX);
    rows_fire(w, &rows);
    winstate_advance(restored, WM_MAX);
    rows_fire(restored, &after);

    assert_int_equal(rows.list.n, 4);
    assert_int_equal(after.list.n, 4);
    for (i = 1; i <= 4; i++) {
        char name[24] = {0};
        struct item *x, *y;

        memcpy(name + 8, "key-0", 5);
        name[12] = (char)('0' + i);
        x = items_find(&rows.list, name, 13);
        y = items_find(&after.list, name, 13);
        assert_non_null(x);
        assert_non_null(y);
        if (i % 2 == 0) {
            assert_string_equal(x->value, i == 2 ? "custom=2" : "custom=4");
            assert_string_equal(y->value, x->value);
        } else {
            assert_string_equal(x->value, "it is odd");
            assert_string_equal(
                y->value, "the accumulator could not be saved in a checkpoint");
        }
    }
    winstate_free(&w);
    winstate_free(&restored);
    items_fini(&disk);
    items_fini(&rows.list);
    items_fini(&after.list);
    aggset_free(&set);
    arena_fini(&a);
}

static void
damaged_state_is_refused(void **state)
{
    const struct window_spec spec = {
        .kind = WINDOW_TUMBLING, .size = 10, .slide = 10, .slice = 10};
    struct input in = {.kind = IN_RECORD, .key = 1, .wm = WM_NONE};
    struct winstate_blob blob;
    struct winstate *w;
    struct items disk;
    struct arena a;
    struct aggset *set;
    struct buf b;
    struct err e;
    size_t len;

    (void)state;
    arena_init(&a);
    set = util_set(sum_and_max(&a));
    memset(&disk, 0, sizeof disk);
    w = winstate_new(&spec, set);
    winstate_track(w, MAX_PAR);
    in.v[0] = in.v[1] = val_int(1);
    input_add(w, &in);
    save_all(w, 1, &disk);
    buf_init(&b);
    winstate_put(w, &b);
    winstate_free(&w);

    assert_int_equal(disk.n, 1);
    for (len = disk.at[0].value_len; len-- > 0;) {
        const struct item *d = &disk.at[0];
        struct winstate_entry v = {.ns = d->name + 2,
                                   .key = d->name + 18,
                                   .key_len = (uint32_t)d->name_len - 18,
                                   .value = d->value,
                                   .value_len = len,
                                   .fired = WM_NONE};

        w = winstate_new(&spec, set);
        winstate_track(w, MAX_PAR);
        assert_int_equal(winstate_load(w, &v, &e), ERR_IO);
        winstate_free(&w);
    }
    for (len = b.len; len-- > 0;) {
        b.len = len;
        assert_int_equal(winstate_blob_read(&b, &blob, &e), ERR_IO);
        winstate_blob_fini(&blob);
    }
    buf_fini(&b);
    items_fini(&disk);
    aggset_free(&set);
    arena_fini(&a);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            windows_that_fired_in_one_of_two_old_subtasks_do_not_fire_again),
        cmocka_unit_test(accumulators_that_cannot_be_saved_lose_their_row_only),
        cmocka_unit_test(damaged_state_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
