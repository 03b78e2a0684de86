#include "op/op_state.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"

enum {
    TRIM_PIECE = 4096,
    SWEEP_PIECE = 1024,
    ENTRY_GUESS = 96, /* bytes of an entry beside its block */
    /* A round that is not durable by then may have failed: the next barrier
     * must be able to come. */
    WAIT_MAX_MS = 30000,
};

struct op_state {
    struct op *op;
    struct winstate *w;
    struct op_groups groups;
    struct store_reader *reader; /* made by the slot */
    bool inside;
    uint32_t id;      /* the step's operator in the store */
    bool known;       /* there is one in what the reader sees */
    int64_t waits_ms; /* since when there is no room, -1 = there is */
};

struct op_groups
op_state_groups(uint32_t i, uint32_t n, uint32_t max)
{
    struct op_groups g;

    /* Smallest group with group * n / max >= i, and so on. */
    g.first = (uint32_t)(((uint64_t)i * max + n - 1) / n);
    g.last = (uint32_t)(((uint64_t)(i + 1) * max + n - 1) / n) - 1;
    return g;
}

int
op_state_refused(const struct op *op, const char *key, uint32_t len,
                 struct err *e)
{
    const char *p = key, *end = key + len;
    struct buf text;
    size_t n;
    int r;

    buf_init(&text);
    while (p < end) {
        if (text.len > 0)
            buf_adds(&text, ", ");
        n = key_part_json(&text, p, end);
        if (n == 0)
            break;
        p += n;
    }
    r = err_context(e, "state of '%s', key %.200s", op->step->name,
                    text.len > 0 ? buf_cstr(&text) : "{}");
    buf_fini(&text);
    return r;
}

/* ---- the reader ---- */

static int
enter(struct op_state *s, enum store_view view, struct err *e)
{
    const char *name = s->op->step->name;
    int r = 0;

    if (s->inside)
        return 0;
    if (s->reader == NULL)
        r = store_reader_new(s->op->env->job->store, &s->reader, e);
    if (r == 0)
        r = store_reader_begin(s->reader, view, e);
    if (r != 0)
        return r;
    s->inside = true;
    s->known = store_reader_find(s->reader, name, strlen(name), &s->id);
    return 0;
}

void
op_state_leave(struct op_state *s)
{
    if (s->inside)
        store_reader_end(s->reader);
    s->inside = false;
}

static struct store_key
store_key_of(const struct op_state *s, const struct snapshot_key *k)
{
    return (struct store_key){.op = s->id,
                              .group = k->group,
                              .ns = k->ns,
                              .ns_len = k->ns_len,
                              .key = k->key,
                              .key_len = k->key_len};
}

static int
state_get(void *arg, const struct snapshot_key *k, const void **ret,
          size_t *ret_len, struct err *e)
{
    struct op_state *s = arg;
    struct store_key key;
    int r = enter(s, STORE_VIEW_NEWEST, e);

    if (r != 0 || !s->known)
        return r;
    key = store_key_of(s, k);
    return store_reader_get(s->reader, &key, ret, ret_len, e);
}

static int
walk(struct op_state *s, struct store_scan *c, winstate_stored_f *f, void *arg,
     struct err *e)
{
    for (;;) {
        struct snapshot_key k;
        struct store_key key;
        const void *value;
        size_t len;
        int r = store_scan_next(c, &key, &value, &len, e);

        if (r <= 0)
            return r;
        k = (struct snapshot_key){.group = key.group,
                                  .ns_len = (uint8_t)key.ns_len,
                                  .key_len = (uint32_t)key.key_len,
                                  .ns = key.ns,
                                  .key = key.key};
        r = f(arg, &k, value, len, e);
        if (r == ERR_JOBFILE) /* of a migrate */
            (void)op_state_refused(s->op, k.key, k.key_len, e);
        else if (r < 0 && e->cause == CAUSE_NONE)
            (void)err_context(e, "state of '%s', key group %u",
                              s->op->step->name, key.group);
        if (r != 0)
            return r;
    }
}

static int
state_walk(void *arg, const struct snapshot_key *k, bool behind,
           winstate_stored_f *f, void *farg, struct err *e)
{
    struct op_state *s = arg;
    struct store_scan *c = NULL;
    struct store_key key;
    int r = enter(s, STORE_VIEW_NEWEST, e);

    if (r != 0 || !s->known)
        return r;
    key = store_key_of(s, k);
    r = store_scan_ns(s->reader, &key, behind, &c, e);
    if (r == 0)
        r = walk(s, c, f, farg, e);
    store_scan_close(&c);
    return r;
}

static void
state_renew(void *arg)
{
    op_state_leave(arg);
}

struct op_state *
op_state_new(struct op *op, struct winstate *w)
{
    struct op_state *s = mem_zalloc(sizeof *s);
    uint32_t max = op->env->plan->max_parallelism;

    s->op = op;
    s->w = w;
    s->waits_ms = -1;
    s->groups = op_state_groups(op->env->subtask, op->step->parallelism, max);
    winstate_track(w, max);
    if (op->env->job->cache_bytes > 0 && s->groups.first <= s->groups.last) {
        const struct winstate_store st = {.arg = s,
                                          .first_group = s->groups.first,
                                          .last_group = s->groups.last,
                                          .get = state_get,
                                          .walk = state_walk,
                                          .renew = state_renew};

        winstate_cache(w, op->env->job->cache_bytes, &st);
    }
    return s;
}

void
op_state_free(struct op_state **sp)
{
    struct op_state *s = *sp;

    *sp = NULL;
    if (s == NULL)
        return;
    store_reader_free(&s->reader);
    free(s);
}

/* ---- restoring ---- */

/* What the subtasks of then gave that held any of the own key groups. */
struct past {
    struct op_state *s;
    struct winstate_blob *blobs; /* by subtask */
    uint32_t count, first, last;
    int64_t fired;  /* the least */
    bool even;      /* it is the same in all */
    uint64_t bytes; /* of the own entries, about */
};

/* How many of `entries` of subtask i of then lie in the own key groups. */
static uint64_t
share(const struct past *p, uint32_t i, uint64_t entries)
{
    uint32_t max = p->s->op->env->plan->max_parallelism, from, to;
    struct op_groups then = op_state_groups(i, p->count, max);

    from = then.first > p->s->groups.first ? then.first : p->s->groups.first;
    to = then.last < p->s->groups.last ? then.last : p->s->groups.last;
    return (entries * (to - from + 1) + (then.last - then.first)) /
           (then.last - then.first + 1);
}

static int
read_past(struct past *p, const struct step_blobs *b, size_t block_size,
          struct err *e)
{
    uint32_t max = p->s->op->env->plan->max_parallelism, i, k;

    p->count = b->count;
    p->blobs = mem_zalloc(b->count * sizeof *p->blobs);
    p->first = key_group_subtask(p->s->groups.first, b->count, max);
    p->last = key_group_subtask(p->s->groups.last, b->count, max);
    p->fired = WM_MAX;
    p->even = true;
    for (i = p->first; i <= p->last; i++) {
        struct winstate_blob *w = &p->blobs[i];
        int r = winstate_blob_read(&b->blobs[i], w, e);

        if (r != 0)
            return err_context(e, "'%s', subtask %u", b->step, i);
        p->even = p->even && (i == p->first || w->fired == p->fired);
        p->fired = w->fired < p->fired ? w->fired : p->fired;
        for (k = 0; k < w->count; k++)
            p->bytes +=
                share(p, i, w->slices[k].entries) * (block_size + ENTRY_GUESS);
    }
    return 0;
}

static int
load_entry(void *arg, const struct snapshot_key *key, const void *value,
           size_t value_len, struct err *e)
{
    const struct past *p = arg;
    struct winstate_entry v = {
        .ns = key->ns,
        .hash = hash_key(key->key, key->key_len),
        .key = key->key,
        .key_len = key->key_len,
        .value = value,
        .value_len = value_len,
        .changed = p->s->op->step->migrates != NULL,
        .fired =
            p->blobs[key_group_subtask(key->group, p->count,
                                       p->s->op->env->plan->max_parallelism)]
                .fired};

    if (key->ns_len != WINSTATE_NS_SIZE || key->key_len > KEY_SIZE_MAX)
        return err_set(e, ERR_IO, "this is no state of a window");
    return winstate_load(p->s->w, &v, e);
}

static int
load_all(struct past *p, struct err *e)
{
    struct op_state *s = p->s;
    struct store_scan *c = NULL;
    int r = enter(s, STORE_VIEW_COMPLETE, e);

    if (r == 0 && s->known) {
        r = store_scan_open(s->reader, s->id, (uint16_t)s->groups.first,
                            (uint16_t)s->groups.last, &c, e);
        if (r == 0)
            r = walk(s, c, load_entry, p, e);
        store_scan_close(&c);
    }
    op_state_leave(s);
    return r;
}

static void
adopt_all(struct past *p)
{
    uint32_t i, k;

    for (i = p->first; i <= p->last; i++)
        for (k = 0; k < p->blobs[i].count; k++) {
            const struct winstate_slice *at = &p->blobs[i].slices[k];

            winstate_adopt(p->s->w, at->start, at->first,
                           share(p, i, at->entries));
        }
}

int
op_state_restore(struct op_state *s, struct err *e)
{
    const struct op_job *job = s->op->env->job;
    const struct step_blobs *b =
        restored_find(job->restored, s->op->step->name);
    struct past p = {.s = s};
    uint32_t i;
    int r;

    if (b == NULL || b->count == 0 || s->groups.first > s->groups.last)
        return 0;
    if (job->restored->max_parallelism != s->op->env->plan->max_parallelism)
        return err_set(e, ERR_CONFIG,
                       "max_parallelism is %u, and the state was kept with "
                       "%u",
                       s->op->env->plan->max_parallelism,
                       job->restored->max_parallelism);
    r = read_past(&p, b, winstate_block_size(s->w), e);
    if (r == 0) {
        winstate_set_fired(s->w, p.fired);
        if (job->cache_bytes > 0 && p.even && p.bytes > job->cache_bytes / 2 &&
            s->op->step->migrates == NULL)
            adopt_all(&p);
        else
            r = load_all(&p, e);
    }
    for (i = 0; i < p.count; i++)
        winstate_blob_fini(&p.blobs[i]);
    free(p.blobs);
    return r;
}

/* ---- room ---- */

bool
op_state_room(struct op_state *s)
{
    struct op_job *job = s->op->env->job;
    uint64_t durable =
        atomic_load_explicit(&job->durable, memory_order_acquire);
    enum winstate_room room = winstate_trim(s->w, durable, TRIM_PIECE);
    int64_t now;

    if (room == ROOM_WANT_ROUND && job->want_round != NULL)
        job->want_round(job->arg);
    if (room != ROOM_WAIT) {
        s->waits_ms = -1;
        return true;
    }
    now = clock_mono_ms();
    if (s->waits_ms < 0)
        s->waits_ms = now;
    return now - s->waits_ms >= WAIT_MAX_MS;
}

int
op_state_sweep(struct op_state *s, struct err *e)
{
    return winstate_sweep(s->w, SWEEP_PIECE, e);
}
