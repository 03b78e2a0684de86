#include "op/op_migrate.h"

#include "op/op_state.h"

/* One handle's, for script_migrate(). */
struct passing {
    struct script *script;
    struct script_migrate how;
};

static int
pass(void *arg, const struct kstate_bytes *old, struct buf *out, struct err *e)
{
    const struct passing *p = arg;

    return script_migrate(p->script, &p->how, old, out, e);
}

/* The handle of an entry if it is due, else `count`. */
static uint32_t
due_handle(const struct op_migrate *m, const struct kstate_entry *v)
{
    int id = kstate_stored_id(v->ns);
    uint32_t i = 0;

    while (i < m->count && (id < 0 || m->handles[i].id != (uint32_t)id))
        i++;
    return i < m->count && m->op->step->migrates[i] ? i : m->count;
}

/* An aggregator has its migrate itself. */
static struct script_migrate
declared(const struct opt *handle)
{
    const struct opt *agg = opt_get(handle, "agg");

    return agg != NULL
               ? (struct script_migrate){opt_func(agg, "migrate"), true}
               : (struct script_migrate){opt_func(handle, "migrate"), false};
}

int
op_migrate_entry(struct op_migrate *m, struct kstate_entry *v, struct err *e)
{
    const struct opt *list = opt_get(m->op->step->opts, "state");
    struct passing p = {.script = m->op->env->script};
    struct kstate_stored s;
    uint32_t h;
    int r;

    if (m->op->step->migrates == NULL || (h = due_handle(m, v)) == m->count)
        return 0;
    r = kstate_stored_read(v, m->handles[h].kind, &s, e);
    if (r != 0)
        return r;
    p.how = declared(opt_at(list, h));
    buf_clear(&m->bytes);
    r = kstate_stored_rewrite(&s, pass, &p, &m->bytes, e);
    if (r == ERR_IO)
        return r;
    if (r != 0) {
        e->code = ERR_JOBFILE; /* too large counts as well */
        e->cause = CAUSE_NONE;
        (void)err_context(e, "state %s", m->handles[h].name);
        return op_state_refused(m->op, s.key.p, s.key.len, e);
    }
    v->value = m->bytes.data;
    v->value_len = m->bytes.len;
    v->changed = true;
    return 0;
}
