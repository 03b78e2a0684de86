#include "store_util.h"

#include <pthread.h>
#include <stdatomic.h>

/*
 * Rounds, merges, discards, copies, reopening in random order against a
 * plain model. STORE_SEED=n repeats a run, STORE_STEPS=n makes it longer.
 */

enum { KEYS = 400, STEPS = 250, WATCHERS = 2 };

struct game {
    char *dir;
    struct store *s;
    struct model complete, pending;
    bool has_pending;
    struct store_copy *copy;
    struct model copied;
    unsigned copies;
};

static void
finish_copy(struct game *g)
{
    struct store *s;
    char to[300];

    store_copy_free(&g->copy);
    (void)snprintf(to, sizeof to, "%s/sp%u", g->dir, g->copies);
    s = open_store(to);
    compare(s, STORE_VIEW_COMPLETE, &g->copied);
    store_close(&s);
    remove_dir(to);
    g->copies++;
}

static void
step_copy(struct game *g)
{
    char to[300];
    int r;

    if (g->copy == NULL) {
        if (g->complete.round == 0)
            return;
        (void)snprintf(to, sizeof to, "%s/sp%u", g->dir, g->copies);
        must(store_copy_begin(g->s, to, NULL, &g->copy, &err));
        model_copy(&g->copied, &g->complete);
        return;
    }
    r = store_copy_step(g->copy, 1 + random_below(500), &err);
    must(r);
    if (r == 0)
        finish_copy(g);
}

static void
step_round(struct game *g)
{
    uint64_t n = g->complete.round + 1 + random_below(3);
    unsigned flags = random_below(2) != 0 ? STORE_COMPLETE : 0;
    int r;

    if (g->has_pending)
        return;
    model_copy(&g->pending, &g->complete);
    must(stage_random(g->s, &g->pending, 200, n, &err));
    if (random_below(10) == 0) {
        store_round_cancel(g->s);
        return;
    }
    r = store_round_write(g->s, flags, &err);
    if (r == ERR_TEMP) { /* no segment left while a copy goes on */
        assert_non_null(g->copy);
        store_copy_free(&g->copy);
        r = store_round_write(g->s, flags, &err);
    }
    must(r);
    if (flags != 0)
        model_copy(&g->complete, &g->pending);
    g->has_pending = flags == 0;
}

static void
step_end(struct game *g)
{
    if (!g->has_pending)
        return;
    g->has_pending = false;
    if (random_below(3) == 0) {
        must(store_round_discard(g->s, g->pending.round, &err));
        return;
    }
    must(store_round_complete(g->s, g->pending.round, 0, &err));
    model_copy(&g->complete, &g->pending);
}

static void
reopen(struct game *g)
{
    store_copy_free(&g->copy);
    store_close(&g->s);
    g->s = open_store(g->dir);
}

static void
look(struct game *g)
{
    struct store_status st;

    store_status(g->s, &st);
    assert_int_equal(st.complete, g->complete.round);
    assert_int_equal(st.pending, g->has_pending ? g->pending.round : 0);
    compare(g->s, STORE_VIEW_COMPLETE, &g->complete);
    compare(g->s, STORE_VIEW_NEWEST,
            g->has_pending ? &g->pending : &g->complete);
}

static void
a_store_is_what_a_plain_map_is(void **state)
{
    const char *text = getenv("STORE_STEPS");
    unsigned steps = text != NULL ? (unsigned)atoi(text) : STEPS, i;
    struct game g = {.dir = temp_dir()};

    (void)state;
    random_seed("random", (uint64_t)getpid());
    model_init(&g.complete, KEYS);
    model_init(&g.pending, KEYS);
    model_init(&g.copied, KEYS);
    g.s = open_store(g.dir);
    for (i = 0; i < steps; i++) {
        unsigned what = random_below(16);

        if (what < 5)
            step_round(&g);
        else if (what < 8)
            step_end(&g);
        else if (what < 12)
            must(store_merge(g.s, 1 + random_below(300), &err));
        else if (what < 15)
            step_copy(&g);
        else
            reopen(&g);
        if (i % 4 == 0)
            look(&g);
    }
    reopen(&g);
    look(&g);
    store_close(&g.s);
    model_fini(&g.complete);
    model_fini(&g.pending);
    model_fini(&g.copied);
    remove_dir(g.dir);
    free(g.dir);
}

/* --- readers on other threads -----------------------------------------------
 */

struct watched {
    struct store *s;
    atomic_bool stop;
    atomic_uint reads, faults;
};

/* Each round sets all keys to its number: a reader sees one number. */
static void *
watch(void *arg)
{
    struct watched *w = arg;
    struct store_reader *r = NULL;
    struct err e;

    if (store_reader_new(w->s, &r, &e) != 0)
        return NULL;
    while (!atomic_load(&w->stop)) {
        struct store_scan *c = NULL;
        struct store_key k;
        const void *v;
        size_t len;
        uint64_t n, round;
        uint32_t op;
        int rc = store_reader_begin(r, STORE_VIEW_NEWEST, &e);

        round = rc == 0 ? store_reader_round(r) : 0;
        if (rc == 0 && store_reader_find(r, "x", 1, &op)) {
            rc = store_scan_open(r, op, 0, UINT16_MAX, &c, &e);
            while (rc == 0 &&
                   (rc = store_scan_next(c, &k, &v, &len, &e)) == 1) {
                memcpy(&n, v, sizeof n);
                rc = n == round ? 0 : ERR_FAIL;
            }
            store_scan_close(&c);
        }
        store_reader_end(r);
        atomic_fetch_add(rc < 0 ? &w->faults : &w->reads, 1);
    }
    store_reader_free(&r);
    return NULL;
}

static void
readers_see_whole_rounds_while_the_map_grows(void **state)
{
    char *dir = temp_dir();
    struct watched w = {.s = open_store(dir)}; /* a map of 1 MiB */
    pthread_t threads[WATCHERS];
    unsigned i;
    uint64_t n;

    (void)state;
    for (i = 0; i < WATCHERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, watch, &w), 0);
    for (n = 1; n <= 30 || atomic_load(&w.reads) < 20; n++) {
        struct store_key k = {.key = &i, .key_len = sizeof i};
        uint8_t value[2000] = {0};

        memcpy(value, &n, sizeof n);
        must(store_round_begin(w.s, n, &err));
        must(store_round_operator(w.s, "x", 1, &k.op, &err));
        for (i = 0; i < 300; i++)
            must(store_round_put(w.s, &k, value, sizeof value, &err));
        must(store_round_write(w.s, n % 2 != 0 ? STORE_COMPLETE : 0, &err));
        if (n % 2 == 0)
            must(store_round_complete(w.s, n, 0, &err));
        must(store_merge(w.s, 200, &err));
    }
    atomic_store(&w.stop, true);
    for (i = 0; i < WATCHERS; i++)
        (void)pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&w.faults), 0);
    store_close(&w.s);
    remove_dir(dir);
    free(dir);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_store_is_what_a_plain_map_is),
        cmocka_unit_test(readers_see_whole_rounds_while_the_map_grows),
    };

    return cmocka_run_group_tests_name("store_random", tests, NULL, NULL);
}
