/*
 * Keys without window that end by ttl.
 *
 * A record that comes too late for its key begins anew at once
 * (winstate_renew()); what nobody asks for goes in passes. In memory a table
 * cannot give entries back, so a pass turns the tables as winstate_cache.c
 * does: what has not ended moves to the young one. A pass begins when half a
 * ttl has gone by, and either there are twice as many keys as the last one
 * left or PASS_MS have gone by, so that moving costs little a key. With a
 * bounded memory what is in the store only is walked instead; what is in
 * memory goes by its eviction.
 */
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "core/agg_codec.h"
#include "core/rec.h"
#include "core/winstate_impl.h"

enum { PASS_MS = 10000, PASS_KEYS = 1024 };

/* Whether a row of the key waits: it has changed. */
static bool
is_late(const struct winstate *w, const struct slice *s,
        const struct table_entry *en)
{
    char key[8 + KEY_SIZE_MAX];

    if (w->late.count == 0)
        return false;
    memcpy(key, &s->start, 8);
    if (en->key_len != 0)
        memcpy(key + 8, table_key(&s->old, en), en->key_len);
    return table_find(&w->late, en->hash ^ hash_splitmix((uint64_t)s->start),
                      key, 8 + en->key_len) != NULL;
}

static bool
has_ended(const struct winstate *w, const struct slice *s,
          struct table_entry *en)
{
    int64_t last = aggset_times(en->block)->last;

    if ((en->flags & ENTRY_LOST) != 0 && last == INT64_MIN)
        return false; /* lost with its times: its rows stay errors */
    return last <= w->cut && !is_late(w, s, en);
}

/* @return whether more is left. */
static bool
pass_memory(struct winstate *w, uint32_t max)
{
    struct slice *s = w->slice_count > 0 ? w->slices[0] : NULL;
    struct table_entry *en;

    for (; s != NULL; max--) {
        if (max == 0)
            return true;
        en = table_next(&s->old, &s->drop);
        if (en == NULL)
            break;
        if ((en->flags & ENTRY_MOVED) != 0)
            continue;
        if (!has_ended(w, s, en)) {
            winstate_move(w, s, en);
            continue;
        }
        winstate_forget(w, s, en);
        aggset_fini(w->set, en->block);
        en->flags = ENTRY_MOVED;
        s->moved++;
    }
    if (s != NULL)
        winstate_old_free(w, s);
    return false;
}

struct pass {
    struct winstate *w;
    uint32_t left;
};

/* An entry of the store. Its times stand in front of its accumulators. */
static int
stored_entry(void *arg, const struct snapshot_key *key, const void *value,
             size_t value_len, struct err *e)
{
    struct pass *p = arg;
    struct winstate *w = p->w;
    const char *at = (const char *)value + WINSTATE_VALUE_HEAD;
    const char *end = (const char *)value + value_len;
    uint64_t first, last;

    (void)e;
    if (p->left-- == 0) {
        p->left = 0;
        return 1;
    }
    if (value_len < WINSTATE_VALUE_HEAD || !codec_u64(&at, end, &first) ||
        !codec_u64(&at, end, &last) || (int64_t)last > w->cut ||
        winstate_holds(w->slices[0], hash_key(key->key, key->key_len), key->key,
                       key->key_len))
        return 0;
    snapshot_del(w->next, key);
    w->slices[0]->evicted -= w->slices[0]->evicted > 0;
    return 0;
}

static int
pass_store(struct winstate *w, uint32_t max, struct err *e)
{
    struct pass p = {.w = w, .left = max};

    if (w->slice_count == 0 || !w->slices[0]->partly)
        return 0;
    return winstate_walk(w, w->slices[0]->start, w->slices[0]->first,
                         &w->expired, stored_entry, &p, e);
}

/* Whether a pass begins now. */
static bool
begins(struct winstate *w, int64_t now, int64_t mono_ms)
{
    if (w->spec.ttl < 0 || now == WM_NONE || w->slice_count == 0 ||
        now - w->spec.ttl / 2 < w->cut + w->spec.ttl)
        return false;
    if (w->cut != INT64_MIN && mono_ms - w->pass_ms < PASS_MS &&
        winstate_keys(w) < 2 * w->pass_left + PASS_KEYS)
        return false;
    w->cut = now - w->spec.ttl;
    w->pass_ms = mono_ms;
    return true;
}

int
winstate_expire(struct winstate *w, int64_t now, int64_t mono_ms, uint32_t max,
                struct err *e)
{
    int r;

    if (!w->expiring) {
        if (!begins(w, now, mono_ms))
            return 0;
        w->expiring = true;
        if (w->budget == 0)
            winstate_turn(w);
    }
    r = w->budget == 0 ? pass_memory(w, max) : pass_store(w, max, e);
    if (r != 0)
        return r;
    w->expiring = false;
    w->pass_left = winstate_keys(w);
    return 0;
}
