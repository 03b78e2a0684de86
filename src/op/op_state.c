#include "op/op_state.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

enum {
    TRIM_PIECE = 4096,
    SWEEP_PIECE = 1024,
    ENTRY_GUESS = 96, /* bytes of an entry beside its block */
};

struct op_state {
    struct op *op;
    struct winstate *w;
    struct op_store store;
};

void
op_state_leave(struct op_state *s)
{
    op_store_leave(&s->store);
}

struct op_state *
op_state_new(struct op *op, struct winstate *w)
{
    struct op_state *s = mem_zalloc(sizeof *s);

    s->op = op;
    s->w = w;
    op_store_init(&s->store, op);
    winstate_track(w, op->env->plan->max_parallelism);
    if (op->env->job->cache_bytes > 0 &&
        s->store.groups.first <= s->store.groups.last) {
        const struct entry_store face = op_store_face(&s->store);

        winstate_cache(w, op->env->job->cache_bytes, &face);
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
    op_store_fini(&s->store);
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

    from = then.first > p->s->store.groups.first ? then.first
                                                 : p->s->store.groups.first;
    to = then.last < p->s->store.groups.last ? then.last
                                             : p->s->store.groups.last;
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
    p->first = key_group_subtask(p->s->store.groups.first, b->count, max);
    p->last = key_group_subtask(p->s->store.groups.last, b->count, max);
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

    if (b == NULL || b->count == 0 ||
        s->store.groups.first > s->store.groups.last)
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
            r = op_store_load(&s->store, load_entry, &p, e);
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
    return op_store_room(
        &s->store,
        winstate_trim(s->w, op_store_durable(&s->store), TRIM_PIECE));
}

int
op_state_sweep(struct op_state *s, struct err *e)
{
    return winstate_sweep(s->w, SWEEP_PIECE, e);
}
