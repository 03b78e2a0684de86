#include "op/op_state.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

struct op_state {
    struct op *op;
    struct op_groups groups;
    struct store_reader *reader; /* made by the slot */
    uint32_t id;                 /* the step's operator in the store */
    bool known;                  /* there is one in what the reader sees */
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

struct op_state *
op_state_new(struct op *op)
{
    struct op_state *s = mem_zalloc(sizeof *s);

    s->op = op;
    s->groups = op_state_groups(op->env->subtask, op->step->parallelism,
                                op->env->plan->max_parallelism);
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

static int
begin(struct op_state *s, enum store_view view, struct err *e)
{
    const char *name = s->op->step->name;
    int r = 0;

    if (s->reader == NULL)
        r = store_reader_new(s->op->env->job->store, &s->reader, e);
    if (r == 0)
        r = store_reader_begin(s->reader, view, e);
    if (r == 0)
        s->known = store_reader_find(s->reader, name, strlen(name), &s->id);
    return r;
}

static int
each(struct op_state *s, struct store_scan *c, op_state_entry_f *f, void *arg,
     struct err *e)
{
    for (;;) {
        struct store_key key;
        const void *value;
        size_t len;
        int r = store_scan_next(c, &key, &value, &len, e);

        if (r <= 0)
            return r;
        r = f(arg, &key, value, len, e);
        if (r != 0)
            return err_context(e, "state of '%s', key group %u",
                               s->op->step->name, key.group);
    }
}

int
op_state_each(struct op_state *s, op_state_entry_f *f, void *arg, struct err *e)
{
    struct store_scan *c = NULL;
    int r;

    if (s->groups.first > s->groups.last)
        return 0;
    r = begin(s, STORE_VIEW_COMPLETE, e);
    if (r != 0)
        return r;
    if (s->known) {
        r = store_scan_open(s->reader, s->id, (uint16_t)s->groups.first,
                            (uint16_t)s->groups.last, &c, e);
        if (r == 0)
            r = each(s, c, f, arg, e);
        store_scan_close(&c);
    }
    store_reader_end(s->reader);
    return r;
}
