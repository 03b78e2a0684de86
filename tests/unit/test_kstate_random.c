/*
 * Random calls against a plain model: every kind of state with and without
 * ttl, undo, timers, cleaning, rounds at any point, and restores by another
 * parallelism with another ttl; with all of it in memory, and with memory for
 * nothing, for about three entries, and for some.
 */
#include "kstate_util.h"

enum {
    KEYS = 20,
    HANDLES = 9,
    ROOM = 40, /* elements of a list, entries of a map, additions */
    MAP_KEYS = 24,
    TIMERS = 24,
    PAR_MAX = 5,
    PASS = 200, /* ms, more than a quarter of any ttl */
    STEPS = 6000
};

/* ---- the model ---- */

struct mval {
    uint32_t k; /* of a map: number of its key */
    uint32_t seed, len;
    int64_t seen;
};

struct mcell {
    uint32_t n;
    struct mval v[ROOM];
};

struct mkey {
    struct mcell cells[HANDLES];
    int64_t timers[KSTATE_CLOCKS][TIMERS];
    uint32_t timer_n[KSTATE_CLOCKS];
};

static struct mkey model[KEYS], frozen[KEYS];
static struct kstate_handle handles[HANDLES];
static struct aggset *sums;
static struct kstate *states[PAR_MAX];
static struct snapshot *snaps[PAR_MAX];
static bool saving[PAR_MAX];
static uint32_t par;
static bool have_frozen, have_disk;
static uint64_t round_no;
static int64_t now[KSTATE_CLOCKS], wm;
static struct disk disk;
static size_t budget;    /* of memory, 0: no bound */
static uint64_t durable; /* round; what is on disk may be further */

static void
lay_out(void)
{
    static const struct kstate_handle plain[HANDLES] = {
        {.name = "v", .kind = KSTATE_VALUE, .ttl_ms = -1},
        {.name = "vw", .kind = KSTATE_VALUE, .ttl_ms = 300},
        {.name = "vr",
         .kind = KSTATE_VALUE,
         .ttl_ms = 200,
         .ttl_clock = KSTATE_PROCESSING,
         .ttl_read = true},
        {.name = "l", .kind = KSTATE_LIST, .ttl_ms = -1},
        {.name = "lr", .kind = KSTATE_LIST, .ttl_ms = 250, .ttl_read = true},
        {.name = "m", .kind = KSTATE_MAP, .ttl_ms = -1},
        {.name = "mw", .kind = KSTATE_MAP, .ttl_ms = 280},
        {.name = "a", .kind = KSTATE_AGG, .ttl_ms = -1},
        {.name = "ar",
         .kind = KSTATE_AGG,
         .ttl_ms = 260,
         .ttl_clock = KSTATE_PROCESSING,
         .ttl_read = true}};
    uint32_t i;

    memcpy(handles, plain, sizeof handles);
    for (i = 0; i < HANDLES; i++) {
        handles[i].id = 3 * i;
        if (handles[i].kind == KSTATE_AGG)
            handles[i].set = sums;
    }
}

static bool
is_old(uint32_t h, int64_t seen, const int64_t at[KSTATE_CLOCKS])
{
    return handles[h].ttl_ms >= 0 &&
           at[handles[h].ttl_clock] - seen >= handles[h].ttl_ms;
}

static void
see(uint32_t h, struct mval *v)
{
    v->seen = now[handles[h].ttl_clock];
}

static void
bytes_from(uint32_t seed, uint32_t len, char *to)
{
    uint32_t i;

    for (i = 0; i < len; i++)
        to[i] = (char)(seed * 31 + i * 7);
}

static struct key
map_key(uint32_t i)
{
    struct key k = key_of(i * 5 + 1);

    return k;
}

static struct mval *
map_find(struct mcell *c, uint32_t k)
{
    uint32_t i;

    for (i = 0; i < c->n; i++)
        if (c->v[i].k == k)
            return &c->v[i];
    return NULL;
}

static void
drop_at(struct mcell *c, uint32_t i)
{
    memmove(&c->v[i], &c->v[i + 1], (--c->n - i) * sizeof c->v[0]);
}

/* Remove what is old. */
static void
prune(struct mkey *m, const int64_t at[KSTATE_CLOCKS])
{
    uint32_t h, i;

    for (h = 0; h < HANDLES; h++)
        for (i = m->cells[h].n; i > 0; i--) {
            struct mcell *c = &m->cells[h];
            uint32_t by = handles[h].kind == KSTATE_AGG ? c->n - 1 : i - 1;

            if (is_old(h, c->v[by].seen, at)) {
                if (handles[h].kind == KSTATE_AGG) {
                    c->n = 0;
                    break;
                }
                drop_at(c, i - 1);
            }
        }
}

/* ---- reading everything and comparing ---- */

static void
same_value(const struct mval *v, const void *p, uint32_t len)
{
    char want[1024];

    bytes_from(v->seed, v->len, want);
    assert_int_equal(len, v->len);
    assert_memory_equal(p, want, len);
}

static void
check_value(struct kstate *k, uint32_t h, const struct mcell *c)
{
    uint32_t len = 0;
    const void *p = kstate_value_get(k, h, &len);

    if (c->n == 0 || is_old(h, c->v[0].seen, now)) {
        assert_null(p);
        return;
    }
    assert_non_null(p);
    same_value(&c->v[0], p, len);
}

static void
check_list(struct kstate *k, uint32_t h, const struct mcell *c)
{
    struct kstate_iter i;
    struct kstate_bytes b;
    uint32_t at;

    kstate_list_begin(k, h, &i);
    for (at = 0; at < c->n; at++) {
        if (is_old(h, c->v[at].seen, now))
            continue;
        assert_true(kstate_list_next(k, &i, &b));
        same_value(&c->v[at], b.p, b.len);
    }
    assert_false(kstate_list_next(k, &i, &b));
}

static int
by_key(const void *a, const void *b)
{
    struct key x = map_key(((const struct mval *)a)->k);
    struct key y = map_key(((const struct mval *)b)->k);

    return key_cmp(x.bytes, x.len, y.bytes, y.len);
}

static void
check_map(struct kstate *k, uint32_t h, const struct mcell *from)
{
    struct mcell c = *from;
    struct kstate_bytes key, value;
    struct kstate_iter i;
    uint32_t at;

    qsort(c.v, c.n, sizeof c.v[0], by_key);
    kstate_map_begin(k, h, &i);
    for (at = 0; at < c.n; at++) {
        struct key want = map_key(c.v[at].k);

        if (is_old(h, c.v[at].seen, now))
            continue;
        assert_true(kstate_map_next(k, &i, &key, &value));
        assert_int_equal(key.len, want.len);
        assert_memory_equal(key.p, want.bytes, key.len);
        same_value(&c.v[at], value.p, value.len);
    }
    assert_false(kstate_map_next(k, &i, &key, &value));
    for (at = 0; at < MAP_KEYS; at++) {
        struct mval *v = map_find(&c, at);
        struct key want = map_key(at);
        struct kstate_bytes b = bytes_of(&want);

        assert_int_equal(kstate_map_has(k, h, &b),
                         v != NULL && !is_old(h, v->seen, now));
    }
}

static void
check_agg(struct kstate *k, uint32_t h, const struct mcell *c)
{
    const void *block;
    uint32_t i;
    char *got;
    void *want;

    assert_int_equal(kstate_agg_get(k, h, &block, NULL), 0);
    if (c->n == 0 || is_old(h, c->v[c->n - 1].seen, now)) {
        assert_null(block);
        return;
    }
    assert_non_null(block);
    got = strdup(util_text(sums, block));
    want = util_block(sums);
    for (i = 0; i < c->n; i++) {
        struct val args[2] = {val_int(c->v[i].seed), val_int(c->v[i].seed)};

        assert_int_equal(aggset_add(sums, want, args, NULL, NULL), 0);
    }
    assert_string_equal(got, util_text(sums, want));
    util_drop(sums, want);
    free(got);
}

/* In a call that is undone: reading changes nothing. */
static void
check_key(struct kstate *k, uint32_t key, const struct mkey *m)
{
    uint32_t h;

    enter(k, key);
    kstate_now(k, now[0], now[1]);
    kstate_begin(k);
    for (h = 0; h < HANDLES; h++) {
        if (handles[h].kind == KSTATE_VALUE)
            check_value(k, h, &m->cells[h]);
        else if (handles[h].kind == KSTATE_LIST)
            check_list(k, h, &m->cells[h]);
        else if (handles[h].kind == KSTATE_MAP)
            check_map(k, h, &m->cells[h]);
        else
            check_agg(k, h, &m->cells[h]);
    }
    kstate_undo(k);
}

static struct kstate *
state_of(uint32_t key)
{
    struct key k = key_of(key);

    return states[key_group_subtask(key_group(k.hash, MAX_PAR), par, MAX_PAR)];
}

static void
check_all(struct mkey *m)
{
    uint64_t timers[KSTATE_CLOCKS] = {0}, want[KSTATE_CLOCKS] = {0};
    uint32_t i, c;

    for (i = 0; i < KEYS; i++) {
        check_key(state_of(i), i, &m[i]);
        for (c = 0; c < KSTATE_CLOCKS; c++)
            want[c] += m[i].timer_n[c];
    }
    for (i = 0; i < par; i++)
        for (c = 0; c < KSTATE_CLOCKS; c++)
            timers[c] += kstate_timers(states[i], (enum kstate_clock)c);
    assert_memory_equal(timers, want, sizeof want);
}

/* ---- one call ---- */

static struct mval
any_value(uint32_t h)
{
    struct mval v = {.seed = util_below(1000), .len = util_below(40)};

    if (util_below(8) == 0)
        v.len = util_below(1000);
    see(h, &v);
    return v;
}

static void
do_value(struct kstate *k, uint32_t h, struct mcell *c)
{
    struct mval v = any_value(h);
    char bytes[1024];

    switch (util_below(4)) {
    case 0:
        check_value(k, h, c);
        if (c->n == 1 && handles[h].ttl_read && !is_old(h, c->v[0].seen, now))
            see(h, &c->v[0]);
        return;
    case 1:
        kstate_clear(k, h);
        c->n = 0;
        return;
    default:
        bytes_from(v.seed, v.len, bytes);
        assert_int_equal(kstate_value_set(k, h, bytes, v.len, NULL), 0);
        c->v[0] = v;
        c->n = 1;
    }
}

static void
do_list(struct kstate *k, uint32_t h, struct mcell *c)
{
    struct mval v = any_value(h);
    char bytes[1024];
    uint32_t i, what = util_below(8);

    if (what == 0 || c->n == ROOM) {
        kstate_clear(k, h);
        c->n = 0;
    } else if (what == 1) {
        check_list(k, h, c);
        for (i = 0; i < c->n && handles[h].ttl_read; i++)
            if (!is_old(h, c->v[i].seen, now))
                see(h, &c->v[i]);
    } else {
        bytes_from(v.seed, v.len, bytes);
        assert_int_equal(kstate_list_add(k, h, bytes, v.len, NULL), 0);
        c->v[c->n++] = v;
    }
}

static void
do_map(struct kstate *k, uint32_t h, struct mcell *c)
{
    struct mval v = any_value(h), *was;
    struct key key;
    struct kstate_bytes a, b;
    char bytes[1024];
    uint32_t what = util_below(10);

    v.k = util_below(MAP_KEYS);
    was = map_find(c, v.k);
    key = map_key(v.k);
    a = bytes_of(&key);
    if (what == 0) {
        kstate_clear(k, h);
        c->n = 0;
    } else if (what < 4) {
        assert_int_equal(kstate_map_remove(k, h, &a) || was == NULL ||
                             is_old(h, was->seen, now),
                         true);
        if (was != NULL)
            drop_at(c, (uint32_t)(was - c->v));
    } else if (what == 4) {
        check_map(k, h, c);
    } else {
        bytes_from(v.seed, v.len, bytes);
        b = (struct kstate_bytes){bytes, v.len};
        assert_int_equal(kstate_map_put(k, h, &a, &b, NULL), 0);
        if (was == NULL)
            was = &c->v[c->n++];
        *was = v;
    }
}

static void
do_agg(struct kstate *k, uint32_t h, struct mcell *c)
{
    struct mval v = any_value(h);
    struct val args[2] = {val_int(v.seed), val_str("x", 1)};

    if (util_below(8) == 0 || c->n == ROOM) {
        kstate_clear(k, h);
        c->n = 0;
        return;
    }
    if (util_below(6) == 0) { /* a failure changes nothing */
        args[0] = val_str("no number", 9);
        assert_int_not_equal(kstate_agg_add(k, h, args, NULL, NULL), 0);
        if (c->n != 0 && is_old(h, c->v[c->n - 1].seen, now))
            c->n = 0;
        return;
    }
    args[1] = val_int(v.seed);
    assert_int_equal(kstate_agg_add(k, h, args, NULL, NULL), 0);
    if (c->n != 0 && is_old(h, c->v[c->n - 1].seen, now))
        c->n = 0;
    c->v[c->n++] = v;
}

static void
do_timer(struct kstate *k, struct mkey *m)
{
    uint32_t c = util_below(KSTATE_CLOCKS), i;
    int64_t base = c == KSTATE_EVENT ? wm : now[c];
    int64_t ts = base - 10 + (int64_t)util_below(600);

    if (util_below(16) == 0)
        ts = base + (int64_t)(util_rand() >> 20);
    if (m->timer_n[c] > 0 && util_below(3) == 0)
        ts = m->timers[c][util_below(m->timer_n[c])];
    for (i = 0; i < m->timer_n[c] && m->timers[c][i] != ts; i++)
        ;
    if (util_below(3) == 0 || m->timer_n[c] == TIMERS) {
        assert_int_equal(kstate_timer_delete(k, (enum kstate_clock)c, ts),
                         i < m->timer_n[c]);
        if (i < m->timer_n[c])
            m->timers[c][i] = m->timers[c][--m->timer_n[c]];
        return;
    }
    assert_int_equal(kstate_timer_add(k, (enum kstate_clock)c, ts),
                     i == m->timer_n[c]);
    if (i == m->timer_n[c])
        m->timers[c][m->timer_n[c]++] = ts;
}

/* A function's call; one in four fails. */
static void
call(struct kstate *k, uint32_t key)
{
    struct mkey before = model[key];
    uint32_t n = util_below(8), h;

    kstate_now(k, now[0], now[1]);
    kstate_begin(k);
    for (; n > 0; n--) {
        h = util_below(HANDLES + 2);
        if (h >= HANDLES)
            do_timer(k, &model[key]);
        else if (handles[h].kind == KSTATE_VALUE)
            do_value(k, h, &model[key].cells[h]);
        else if (handles[h].kind == KSTATE_LIST)
            do_list(k, h, &model[key].cells[h]);
        else if (handles[h].kind == KSTATE_MAP)
            do_map(k, h, &model[key].cells[h]);
        else
            do_agg(k, h, &model[key].cells[h]);
    }
    if (util_below(4) == 0) {
        kstate_undo(k);
        model[key] = before;
        check_key(k, key, &before);
    } else {
        kstate_commit(k);
    }
}

/* ---- timers ---- */

/* The first timer of the model in subtask i. @return its key or KEYS. */
static uint32_t
first_timer(uint32_t i, uint32_t c, int64_t limit, uint32_t *ret_at)
{
    uint32_t best = KEYS, key, t;
    struct key a, b;

    for (key = 0; key < KEYS; key++)
        for (t = 0; state_of(key) == states[i] && t < model[key].timer_n[c];
             t++) {
            int64_t ts = model[key].timers[c][t];

            if (ts > limit)
                continue;
            if (best != KEYS) {
                int64_t was = model[best].timers[c][*ret_at];

                a = key_of(key);
                b = key_of(best);
                if (ts > was ||
                    (ts == was && key_cmp(a.bytes, a.len, b.bytes, b.len) >= 0))
                    continue;
            }
            best = key;
            *ret_at = t;
        }
    return best;
}

static void
fire(uint32_t i, uint32_t c)
{
    int64_t limit = c == KSTATE_EVENT ? wm : now[c], ts, bound;
    struct kstate *k = states[i];
    uint32_t most = 1 + util_below(30);

    for (; most > 0; most--) {
        uint32_t at = 0, key = first_timer(i, c, limit, &at), len;
        const void *bytes;
        struct key want;

        if (!kstate_timer_next(k, (enum kstate_clock)c, limit, &ts)) {
            assert_int_equal(key, KEYS);
            break;
        }
        assert_int_not_equal(key, KEYS);
        want = key_of(key);
        assert_int_equal(ts, model[key].timers[c][at]);
        bytes = kstate_current(k, &len);
        assert_int_equal(len, want.len);
        assert_memory_equal(bytes, want.bytes, len);
        model[key].timers[c][at] =
            model[key].timers[c][--model[key].timer_n[c]];
        call(k, key);
    }
    if (kstate_timer_bound(k, (enum kstate_clock)c, &bound)) {
        uint32_t at = 0, key = first_timer(i, c, INT64_MAX, &at);

        assert_true(bound <= model[key].timers[c][at]);
    }
}

/* ---- rounds ---- */

static void
freeze_all(void)
{
    uint32_t i;

    round_no++;
    for (i = 0; i < par; i++) {
        snaps[i] = kstate_freeze(states[i], round_no);
        assert_int_equal(snaps[i]->round, round_no);
        saving[i] = true;
    }
    memcpy(frozen, model, sizeof frozen);
    have_frozen = true;
}

static void
save_some(bool all)
{
    uint32_t i, left = 0;

    for (i = 0; i < par; i++) {
        if (!saving[i])
            continue;
        saving[i] = kstate_save(states[i], all ? 1u << 30 : util_below(20));
        left += saving[i];
    }
    if (left != 0)
        return;
    for (i = 0; i < par; i++)
        disk_apply(&disk, &snaps[i]);
    if (util_below(2) == 0)
        durable = round_no;
    have_frozen = false;
    have_disk = true;
}

static void
begin(void)
{
    uint32_t i, g;

    par = 1 + util_below(PAR_MAX);
    for (i = 0; i < par; i++) {
        states[i] = kstate_new(handles, HANDLES);
        kstate_track(states[i], MAX_PAR);
        if (budget != 0) {
            struct entry_store st = disk_store(&disk);

            st.first_group = st.last_group = MAX_PAR;
            for (g = MAX_PAR; g-- > 0;)
                if (key_group_subtask(g, par, MAX_PAR) == i) {
                    st.first_group = g;
                    st.last_group =
                        st.last_group == MAX_PAR ? g : st.last_group;
                }
            kstate_cache(states[i], budget, &st);
        }
        disk_load(&disk, states[i], i, par);
    }
}

static void
end(void)
{
    uint32_t i;

    for (i = 0; i < par; i++) {
        if (have_frozen)
            snapshot_free(&snaps[i]);
        saving[i] = false;
        kstate_free(&states[i]);
    }
    have_frozen = false;
}

static void
clean_all(void)
{
    uint32_t i, pass;

    for (pass = 0; pass < 4; pass++) {
        for (i = 0; i < par; i++)
            while (kstate_clean(states[i], wm, now[1], 5) ||
                   kstate_sweep(states[i], 5, NULL) == 1)
                ;
        now[0] += PASS; /* a pass is due again */
        now[1] += PASS;
        wm = now[0];
    }
}

/* The process dies; the next one goes on where the last round was, with
 * another parallelism and, at times, another ttl. */
static void
crash(struct mkey *kept)
{
    int64_t at[KSTATE_CLOCKS];
    uint32_t i, h;

    if (util_below(2) == 0) { /* what is old may come back by a longer ttl */
        while (have_frozen)
            save_some(true);
        clean_all();
        at[0] = wm - PASS;
        at[1] = now[1] - PASS;
        for (i = 0; i < KEYS; i++)
            prune(&model[i], at);
        check_all(model);
        freeze_all();
        save_some(true);
        memcpy(kept, model, sizeof model);
        end();
        for (h = 0; h < HANDLES; h++)
            if (handles[h].ttl_ms > 0)
                handles[h].ttl_ms = 150 + util_below(300);
    } else {
        end();
    }
    memcpy(model, kept, sizeof model);
    begin();
    check_all(model);
}

/* Between messages: memory is given up, expired entries of the store go. */
static void
make_room(uint32_t i)
{
    struct err e;

    err_clear(&e);
    if (util_below(4) == 0 && !have_frozen)
        durable = round_no;
    (void)kstate_trim(states[i], durable, 1 + util_below(40));
    if (util_below(4) == 0 && kstate_sweep(states[i], util_below(20), &e) < 0)
        fail_msg("%s", e.msg);
    if (kstate_check(states[i], &e) != 0)
        fail_msg("%s", e.msg);
}

static void
tick(void)
{
    now[0] += util_below(12);
    now[1] += util_below(12);
    if (now[0] - 20 > wm)
        wm = now[0] - (int64_t)util_below(20);
}

static void
random_calls(void)
{
    static struct mkey kept[KEYS];
    static struct arena arena;
    struct opt *list;
    uint32_t step;

    (void)util_seed();
    memset(model, 0, sizeof model);
    memset(kept, 0, sizeof kept);
    have_frozen = have_disk = false;
    durable = round_no = 0;
    arena_init(&arena);
    list = opt_new_list(&arena);
    (void)util_call(&arena, list, "sum", 1);
    (void)util_call(&arena, list, "count_distinct", 1);
    sums = util_set(list);
    lay_out();
    now[0] = 1000000;
    now[1] = 5000000;
    wm = now[0] - 20;
    begin();
    for (step = 0; step < STEPS; step++) {
        uint32_t key = util_below(KEYS), what = util_below(100);

        tick();
        if (budget != 0)
            make_room(util_below(par));
        if (what < 70) {
            enter(state_of(key), key);
            now[0] = now[0] > wm ? now[0] : wm + 1;
            call(state_of(key), key);
        } else if (what < 80) {
            fire(util_below(par), util_below(KSTATE_CLOCKS));
        } else if (what < 86) {
            (void)kstate_clean(states[util_below(par)], wm, now[1],
                               util_below(30));
        } else if (what < 90 && !have_frozen) {
            freeze_all();
        } else if (what < 98 && have_frozen) {
            save_some(false);
            if (!have_frozen)
                memcpy(kept, frozen, sizeof kept);
        } else if (what == 99 && util_below(4) == 0) {
            crash(kept);
        }
        if (step % 64 == 0)
            check_all(model);
    }
    check_all(model);
    end();
    assert_true(have_disk && (budget == 0 || disk.given > 100));
    disk_fini(&disk);
    aggset_free(&sums);
    arena_fini(&arena);
}

static void
random_calls_are_as_in_a_plain_model(void **state)
{
    (void)state;
    budget = 0;
    random_calls();
}

static void
random_calls_are_the_same_with_nothing_kept_in_memory(void **state)
{
    (void)state;
    budget = 1;
    random_calls();
}

static void
random_calls_are_the_same_with_memory_for_three_entries(void **state)
{
    (void)state;
    budget = 4096;
    random_calls();
}

static void
random_calls_are_the_same_with_memory_for_some(void **state)
{
    (void)state;
    budget = 64 << 10;
    random_calls();
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_calls_are_as_in_a_plain_model),
        cmocka_unit_test(random_calls_are_the_same_with_nothing_kept_in_memory),
        cmocka_unit_test(
            random_calls_are_the_same_with_memory_for_three_entries),
        cmocka_unit_test(random_calls_are_the_same_with_memory_for_some),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
