#include "inspect/keyed.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "format/json.h"

bool
state_is_keyed(const struct opt *desc)
{
    return opt_is(desc, "kind", "process") || opt_is(desc, "kind", "dedup");
}

/* The description of a handle, or NULL. */
static const struct opt *
handle_desc(const struct state_step *s, const char *name)
{
    const struct opt *list = opt_get(s->desc, "state"), *o;

    for (o = list != NULL ? list->first : NULL; o != NULL; o = o->next)
        if (opt_is(o, "name", name))
            return o;
    return NULL;
}

/* --- opening -------------------------------------------------------------- */

static int
make_set(struct state_step *s, uint32_t i, struct err *e)
{
    const struct opt *agg =
        opt_get(handle_desc(s, s->past.handles[i].name), "agg");
    struct opt *list = arena_alloc(s->view->scratch, 2 * sizeof *list);

    if (agg == NULL)
        return err_set(e, ERR_IO, "the description of step %s is damaged",
                       s->name);
    list[1] = *agg;
    list[1].next = NULL;
    list[0] = (struct opt){.type = OPT_LIST, .len = 1, .first = &list[1]};
    return aggset_new(list, json_key_encode, NULL, NULL, &s->sets[i], e);
}

int
state_keyed_open(struct state_step *s, struct err *e)
{
    const struct step_blobs *b = restored_find(&s->view->restored, s->name);
    struct blob_reader r;
    uint32_t i;
    int rc;

    if (b == NULL || b->count == 0)
        return err_set(e, ERR_IO,
                       "it lacks what describes the state of step "
                       "%s",
                       s->name);
    r = blob_read(&b->blobs[0]);
    rc = kstate_blob_read(&r, &s->past, e);
    if (rc != 0)
        return err_context(e, "step %s", s->name);
    s->sets = mem_zalloc((s->past.count + 1u) * sizeof *s->sets);
    for (i = 0; i < s->past.count && rc == 0; i++)
        if (s->past.handles[i].kind == KSTATE_AGG)
            rc = make_set(s, i, e);
    return rc;
}

void
state_keyed_close(struct state_step *s)
{
    uint32_t i;

    for (i = 0; s->sets != NULL && i < s->past.count; i++)
        aggset_free(&s->sets[i]);
    free(s->sets);
    s->sets = NULL;
    kstate_blob_fini(&s->past);
}

/* The place of the handle an entry belongs to; past.count: it is a timer's;
 * beyond: of something unknown. */
static uint32_t
handle_of(const struct state_step *s, const struct store_key *key)
{
    uint32_t i;
    int id;

    if (key->ns_len != KSTATE_NS_SIZE)
        return s->past.count + 1;
    id = kstate_stored_id(key->ns);
    if (id < 0)
        return s->past.count;
    for (i = 0; i < s->past.count; i++)
        if (s->past.handles[i].id == (uint32_t)id)
            return i;
    return s->past.count + 1;
}

static int
read_entry(const struct state_step *s, uint32_t h, const struct kstate_entry *v,
           struct kstate_stored *ret, struct err *e)
{
    return kstate_stored_read(
        v, h < s->past.count ? s->past.handles[h].kind : KSTATE_VALUE, ret, e);
}

struct kstate_bytes
state_keyed_key(const struct state_step *s, const struct store_key *key)
{
    struct kstate_bytes whole = {.p = key->key, .len = (uint32_t)key->key_len};
    uint32_t h = handle_of(s, key), len;
    const unsigned char *p = key->key;

    if (h >= s->past.count || key->key_len < 4 ||
        (s->past.handles[h].kind != KSTATE_LIST &&
         s->past.handles[h].kind != KSTATE_MAP))
        return whole;
    len = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 |
          p[3];
    return len <= key->key_len - 4
               ? (struct kstate_bytes){.p = p + 4, .len = len}
               : whole;
}

/* --- rows ----------------------------------------------------------------- */

/* The row under way: entries of one key and handle come one behind the
 * other. */
struct keyed_rows {
    struct state_step *step;
    struct state_rows *rows;
    struct state_row row; /* key NULL: none */
    uint32_t h;
    uint64_t n;       /* elements or members so far */
    bool names;       /* all keys of the map are strings */
    struct buf text;  /* value; list elements; members of the map */
    struct buf pairs; /* members as [key, value] */
};

static int
take_row(struct keyed_rows *k, struct err *e)
{
    const struct state_step *s = k->step;
    enum kstate_kind kind =
        k->h < s->past.count ? s->past.handles[k->h].kind : KSTATE_VALUE;
    struct buf whole, plain;
    int r = 0;

    if (k->row.key == NULL)
        return 0;
    buf_init(&whole);
    buf_init(&plain);
    if (kind == KSTATE_MAP && k->names)
        buf_addf(&whole, "{%s}", buf_cstr(&k->text));
    else if (kind == KSTATE_MAP)
        buf_addf(&whole, "[%s]", buf_cstr(&k->pairs));
    else if (kind == KSTATE_LIST)
        buf_addf(&whole, "[%s]", buf_cstr(&k->text));
    else
        buf_adds(&whole, buf_cstr(&k->text));
    if (k->row.error == NULL)
        r = json_put_plain(&plain, whole.data, whole.len, NAN_STRING,
                           UTF8_REPLACE, e);
    if (r == 0 && k->row.error == NULL)
        k->row.value = mem_dup(plain.data, plain.len);
    if (r == 0) {
        state_rows_take(k->rows, &k->row);
        memset(&k->row, 0, sizeof k->row);
    }
    buf_fini(&whole);
    buf_fini(&plain);
    return r;
}

static void
begin_row(struct keyed_rows *k, uint32_t h, const struct kstate_stored *v)
{
    const struct state_step *s = k->step;

    k->h = h;
    k->n = 0;
    k->names = true;
    buf_clear(&k->text);
    buf_clear(&k->pairs);
    k->row = (struct state_row){.key = mem_dup(v->key.p, v->key.len),
                                .key_len = v->key.len};
    if (h < s->past.count) {
        k->row.state = s->past.handles[h].name;
    } else {
        k->row.timer = v->clock == KSTATE_EVENT ? "event" : "processing";
        k->row.start = v->ts;
    }
}

static bool
is_same_row(const struct keyed_rows *k, uint32_t h,
            const struct kstate_stored *v)
{
    return k->row.key != NULL && k->h == h && h < k->step->past.count &&
           k->row.key_len == v->key.len &&
           memcmp(k->row.key, v->key.p, v->key.len) == 0;
}

static int
put_member(struct keyed_rows *k, const struct kstate_stored *v, struct err *e)
{
    const char *p = v->part.p;
    struct buf name;
    int r;

    buf_init(&name);
    if (key_part_json(&name, p, p + v->part.len) == 0)
        buf_adds(&name, "null");
    k->names = k->names && *p == KEY_STR;
    buf_addf(&k->text, "%s%s:", k->n > 0 ? "," : "", buf_cstr(&name));
    buf_addf(&k->pairs, "%s[%s,", k->n > 0 ? "," : "", buf_cstr(&name));
    k->n++;
    r = script_state_json(v->value.p, v->value.len, &k->text, e);
    if (r == 0)
        r = script_state_json(v->value.p, v->value.len, &k->pairs, e);
    buf_addc(&k->pairs, ']');
    buf_fini(&name);
    return r;
}

static int
put_elements(struct keyed_rows *k, struct kstate_stored *v, struct err *e)
{
    struct kstate_bytes one;
    int r;

    while ((r = kstate_stored_element(v, &one, e)) == 1) {
        buf_adds(&k->text, k->n++ > 0 ? "," : "");
        r = script_state_json(one.p, one.len, &k->text, e);
        if (r != 0)
            break;
    }
    return r;
}

static int
put_aggregate(struct keyed_rows *k, const struct kstate_stored *v,
              struct err *e)
{
    const struct aggset *set = k->step->sets[k->h];
    bool ext = false;
    void *block;
    int r;

    if (v->lost) {
        k->row.error = mem_strdup("could not be saved in a checkpoint");
        return 0;
    }
    block = mem_alloc(set->size);
    aggset_init(set, block);
    r = aggset_decode(set, block, v->value.p, v->value.len, e);
    if (r == 0 && agg_result(&set->aggs[0], block, &k->text, &ext, e) != 0)
        k->row.error = mem_strdup(e->msg);
    aggset_fini(set, block);
    free(block);
    return r;
}

static int
put_value(struct keyed_rows *k, struct kstate_stored *v, struct err *e)
{
    if (v->what == KSTATE_IS_TIMER) {
        buf_adds(&k->text, "true");
        return 0;
    }
    switch (k->step->past.handles[k->h].kind) {
    case KSTATE_MAP:
        return put_member(k, v, e);
    case KSTATE_LIST:
        return put_elements(k, v, e);
    case KSTATE_AGG:
        return put_aggregate(k, v, e);
    case KSTATE_VALUE:
        break;
    }
    if (v->value.len != 0)
        return script_state_json(v->value.p, v->value.len, &k->text, e);
    if (v->time != KSTATE_NO_TIME) /* of dedup: when the key was seen */
        json_put_int(&k->text, v->time);
    else
        buf_adds(&k->text, "true");
    return 0;
}

static int
take_entry(struct keyed_rows *k, const struct state_pick *p,
           const struct store_key *key, const struct kstate_entry *v,
           struct err *e)
{
    uint32_t h = handle_of(k->step, key);
    struct kstate_stored stored;
    int r;

    if (h > k->step->past.count)
        return 0;
    r = read_entry(k->step, h, v, &stored, e);
    if (r != 0)
        return r;
    if (p->key != NULL && (p->key_len != stored.key.len ||
                           memcmp(p->key, stored.key.p, p->key_len) != 0))
        return 0;
    if (!is_same_row(k, h, &stored)) {
        r = take_row(k, e);
        if (r != 0)
            return r;
        begin_row(k, h, &stored);
    }
    return put_value(k, &stored, e);
}

typedef int entry_f(void *arg, const struct store_key *key,
                    const struct kstate_entry *v, struct err *e);

/* All entries of some key groups. */
static int
scan(struct state_step *s, const struct state_pick *p, entry_f *f, void *arg,
     struct err *e)
{
    struct store_scan *c = NULL;
    int r;

    if (!s->known)
        return 0;
    r = store_scan_open(s->view->reader, s->op, p->first, p->last, &c, e);
    while (r == 0) {
        struct kstate_entry v;
        struct store_key key;
        const void *value;
        size_t len;

        r = store_scan_next(c, &key, &value, &len, e);
        if (r <= 0)
            break;
        v = (struct kstate_entry){.group = key.group,
                                  .ns = key.ns,
                                  .key = key.key,
                                  .key_len = (uint32_t)key.key_len,
                                  .value = value,
                                  .value_len = len};
        r = f(arg, &key, &v, e);
        if (r != 0)
            (void)err_context(e,
                              "'%s', checkpoint %" PRIu64 ", state of %s, "
                              "key group %u",
                              s->view->path, s->view->round, s->name,
                              key.group);
    }
    store_scan_close(&c);
    return r;
}

struct reading {
    struct keyed_rows k;
    const struct state_pick *pick;
};

static int
reading_entry(void *arg, const struct store_key *key,
              const struct kstate_entry *v, struct err *e)
{
    struct reading *g = arg;

    return take_entry(&g->k, g->pick, key, v, e);
}

int
state_keyed_read(struct state_step *s, const struct state_pick *p,
                 struct state_rows *ret, struct err *e)
{
    struct reading g = {.k = {.step = s, .rows = ret}, .pick = p};
    int r;

    buf_init(&g.k.text);
    buf_init(&g.k.pairs);
    r = scan(s, p, reading_entry, &g, e);
    if (r == 0)
        r = take_row(&g.k, e);
    free(g.k.row.key);
    free(g.k.row.error);
    buf_fini(&g.k.text);
    buf_fini(&g.k.pairs);
    return r;
}

/* --- counting ------------------------------------------------------------- */

struct counting {
    const struct state_step *step;
    struct state_part *parts;
};

static int
count_entry(void *arg, const struct store_key *key,
            const struct kstate_entry *v, struct err *e)
{
    struct counting *c = arg;
    uint32_t h = handle_of(c->step, key);

    (void)e;
    if (h > c->step->past.count)
        return 0;
    c->parts[h].entries++;
    c->parts[h].bytes += key->ns_len + key->key_len + v->value_len;
    return 0;
}

int
state_keyed_count(struct state_step *s, struct state_part *ret, struct err *e)
{
    struct state_pick all = state_pick_all(s->view);
    struct counting c = {.step = s, .parts = ret};
    uint32_t i;

    for (i = 0; i < s->past.count; i++) {
        const char *name = s->past.handles[i].name;

        ret[i] = (struct state_part){
            .kind = opt_str(handle_desc(s, name), "kind", "value"),
            .name = name};
    }
    ret[i] = (struct state_part){.kind = "timer"};
    return scan(s, &all, count_entry, &c, e);
}
