#include "op/op_store.h"

#include <string.h>

#include "base/log.h"

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

int
op_store_enter(struct op_store *s, enum store_view view, struct err *e)
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
op_store_leave(struct op_store *s)
{
    if (s->inside)
        store_reader_end(s->reader);
    s->inside = false;
}

static struct store_key
store_key_of(const struct op_store *s, const struct snapshot_key *k)
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
    struct op_store *s = arg;
    struct store_key key;
    int r = op_store_enter(s, STORE_VIEW_NEWEST, e);

    if (r != 0 || !s->known)
        return r;
    key = store_key_of(s, k);
    return store_reader_get(s->reader, &key, ret, ret_len, e);
}

static int
walk(struct op_store *s, struct store_scan *c, entry_stored_f *f, void *arg,
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
           entry_stored_f *f, void *farg, struct err *e)
{
    struct op_store *s = arg;
    struct store_scan *c = NULL;
    struct store_key key;
    int r = op_store_enter(s, STORE_VIEW_NEWEST, e);

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
    op_store_leave(arg);
}

void
op_store_init(struct op_store *s, const struct op *op)
{
    *s = (struct op_store){
        .op = op,
        .groups = op_state_groups(op->env->subtask, op->step->parallelism,
                                  op->env->plan->max_parallelism)};
}

void
op_store_fini(struct op_store *s)
{
    store_reader_free(&s->reader);
}

struct entry_store
op_store_face(struct op_store *s)
{
    return (struct entry_store){.arg = s,
                                .first_group = s->groups.first,
                                .last_group = s->groups.last,
                                .get = state_get,
                                .walk = state_walk,
                                .renew = state_renew};
}

int
op_store_load(struct op_store *s, entry_stored_f *f, void *arg, struct err *e)
{
    struct store_scan *c = NULL;
    int r = op_store_enter(s, STORE_VIEW_COMPLETE, e);

    if (r == 0 && s->known) {
        r = store_scan_open(s->reader, s->id, (uint16_t)s->groups.first,
                            (uint16_t)s->groups.last, &c, e);
        if (r == 0)
            r = walk(s, c, f, arg, e);
        store_scan_close(&c);
    }
    op_store_leave(s);
    return r;
}

/* ---- room ---- */

uint64_t
op_store_durable(const struct op_store *s)
{
    return atomic_load_explicit(&s->op->env->job->durable,
                                memory_order_acquire);
}

/* A round whose barrier came by becomes durable, or the attempt ends. */
bool
op_store_room(struct op_store *s, enum entry_room room)
{
    struct op_job *job = s->op->env->job;

    if (room == ROOM_WANT_ROUND && job->want_round != NULL)
        job->want_round(job->arg);
    if (room == ROOM_WAIT && !s->told) {
        s->told = true;
        log_line(LOG_WARN,
                 "state of %s[%u] has filled the %zu KiB of memory.state that "
                 "the subtask may use: it takes nothing until the next "
                 "checkpoint is written; raise memory if it often has to wait",
                 s->op->step->name, s->op->env->subtask,
                 job->cache_bytes >> 10);
    }
    return room != ROOM_WAIT;
}
