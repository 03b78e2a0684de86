/*
 * Helpers of the tests of keyed state: keys, values made from a number, and a
 * disk as plain as can be.
 */
#ifndef TESTS_KSTATE_UTIL_H
#define TESTS_KSTATE_UTIL_H

#include "agg_util.h"
#include "base/mem.h"
#include "core/kstate.h"

enum { MAX_PAR = 128 };

/* ---- keys ---- */

struct key {
    char bytes[64];
    uint32_t len;
    uint64_t hash;
};

static inline struct key
key_of(uint32_t i)
{
    struct key k = {.len = 0};
    struct buf b;

    buf_init(&b);
    if (i % 3 == 0) {
        key_put_int(&b, (int64_t)i - 10);
    } else {
        char text[32];
        int n = snprintf(text, sizeof text, "customer-%u", i);

        key_put_str(&b, text, (size_t)n);
    }
    assert_true(b.len <= sizeof k.bytes);
    memcpy(k.bytes, b.data, b.len);
    k.len = (uint32_t)b.len;
    k.hash = hash_key(k.bytes, k.len);
    buf_fini(&b);
    return k;
}

static inline struct kstate_bytes
bytes_of(const struct key *k)
{
    return (struct kstate_bytes){k->bytes, k->len};
}

/** Make key i the current one. The bytes stay. */
static inline void
enter(struct kstate *k, uint32_t i)
{
    static struct key at;

    at = key_of(i);
    kstate_key(k, at.bytes, at.len, at.hash);
}

/* ---- the disk ---- */

struct stored {
    uint16_t group;
    unsigned char ns[KSTATE_NS_SIZE];
    char *key, *value;
    uint32_t key_len, value_len;
};

struct disk {
    struct stored *at;
    size_t n, cap;
    size_t asked, given; /* as a store: questions, and entries it gave */
};

/* What it gave last: bytes are borrowed until the next question only. */
static struct stored disk_given;

static inline struct stored *
disk_find(struct disk *d, const struct snapshot_key *k)
{
    size_t i;

    for (i = 0; i < d->n; i++)
        if (d->at[i].group == k->group && d->at[i].key_len == k->key_len &&
            memcmp(d->at[i].ns, k->ns, KSTATE_NS_SIZE) == 0 &&
            memcmp(d->at[i].key, k->key, k->key_len) == 0)
            return &d->at[i];
    return NULL;
}

static inline void
stored_fini(struct stored *s)
{
    free(s->key);
    free(s->value);
}

static inline void
disk_put(struct disk *d, const struct snapshot_key *k, const void *value,
         uint32_t len)
{
    struct stored *s = disk_find(d, k);

    if (s != NULL) {
        stored_fini(s);
    } else {
        mem_grow(&d->at, &d->cap, d->n + 1, sizeof *d->at);
        s = &d->at[d->n++];
    }
    s->group = k->group;
    memcpy(s->ns, k->ns, KSTATE_NS_SIZE);
    s->key = mem_dup(k->key, k->key_len);
    s->key_len = k->key_len;
    s->value = mem_dup(value, len);
    s->value_len = len;
}

/* Apply a snapshot and free it. */
static inline void
disk_apply(struct disk *d, struct snapshot **s)
{
    struct snapshot_change c;
    size_t at = 0;

    while (snapshot_next(*s, &at, &c) == 1) {
        struct stored *was;

        assert_int_equal(c.key.ns_len, KSTATE_NS_SIZE);
        if (!c.del) {
            disk_put(d, &c.key, c.value, c.value_len);
            continue;
        }
        was = disk_find(d, &c.key);
        if (was == NULL)
            continue;
        stored_fini(was);
        *was = d->at[--d->n];
    }
    snapshot_free(s);
}

static inline void
disk_fini(struct disk *d)
{
    while (d->n > 0)
        stored_fini(&d->at[--d->n]);
    free(d->at);
    memset(d, 0, sizeof *d);
    stored_fini(&disk_given);
    memset(&disk_given, 0, sizeof disk_given);
}

static inline struct kstate_entry
disk_entry(const struct stored *s)
{
    return (struct kstate_entry){.group = s->group,
                                 .ns = s->ns,
                                 .key = s->key,
                                 .key_len = s->key_len,
                                 .value = s->value,
                                 .value_len = s->value_len};
}

/* Load the entries of subtask i of n. */
static inline void
disk_load(const struct disk *d, struct kstate *k, uint32_t i, uint32_t n)
{
    struct err e;
    size_t at;

    for (at = 0; at < d->n; at++) {
        struct kstate_entry v = disk_entry(&d->at[at]);

        if (key_group_subtask(v.group, n, MAX_PAR) != i)
            continue;
        err_clear(&e);
        if (kstate_load(k, &v, &e) != 0)
            fail_msg("%s", e.msg);
    }
}

/* A whole round. */
static inline void
round_to(struct disk *d, struct kstate *k, uint64_t round)
{
    struct snapshot *s = kstate_freeze(k, round);

    while (kstate_save(k, 7))
        ;
    disk_apply(d, &s);
}

/* ---- the disk as a store ---- */

static inline int
disk_cmp(const struct stored *s, const struct snapshot_key *k)
{
    uint32_t n = s->key_len < k->key_len ? s->key_len : k->key_len;
    int c = memcmp(s->key, k->key, n);

    return c != 0 ? c : (s->key_len > k->key_len) - (s->key_len < k->key_len);
}

static inline void
disk_give(const struct stored *s)
{
    stored_fini(&disk_given);
    disk_given = *s;
    disk_given.key = mem_dup(s->key, s->key_len);
    disk_given.value = mem_dup(s->value, s->value_len);
}

static inline int
disk_get(void *arg, const struct snapshot_key *k, const void **ret,
         size_t *ret_len, struct err *e)
{
    const struct stored *s = disk_find(arg, k);
    struct disk *d = arg;

    (void)e;
    d->asked++;
    if (s == NULL)
        return 0;
    d->given++;
    disk_give(s);
    *ret = disk_given.value;
    *ret_len = disk_given.value_len;
    return 1;
}

/* The first entry of k's namespace behind `after` (or not before it). */
static inline const struct stored *
disk_next(const struct disk *d, const struct snapshot_key *k, bool behind)
{
    const struct stored *best = NULL;
    size_t i;

    for (i = 0; i < d->n; i++) {
        const struct stored *s = &d->at[i];
        struct snapshot_key name = {.key_len = 0};

        if (s->group != k->group || memcmp(s->ns, k->ns, KSTATE_NS_SIZE) != 0)
            continue;
        if (behind && disk_cmp(s, k) <= 0)
            continue;
        if (best != NULL) {
            name.key = best->key;
            name.key_len = best->key_len;
            if (disk_cmp(s, &name) > 0)
                continue;
        }
        best = s;
    }
    return best;
}

static inline int
disk_walk(void *arg, const struct snapshot_key *from, bool behind,
          entry_stored_f *f, void *farg, struct err *e)
{
    const struct stored *s;
    struct snapshot_key k = *from;
    struct buf at;
    int r = 0;

    buf_init(&at);
    if (behind)
        buf_add(&at, k.key, k.key_len);
    k.key = at.data;
    while ((s = disk_next(arg, &k, behind)) != NULL) {
        struct snapshot_key name = {
            .group = s->group, .ns_len = KSTATE_NS_SIZE, .key_len = s->key_len};

        buf_clear(&at);
        buf_add(&at, s->key, s->key_len);
        k.key = at.data;
        k.key_len = s->key_len;
        behind = true;
        disk_give(s);
        name.ns = disk_given.ns;
        name.key = disk_given.key;
        r = f(farg, &name, disk_given.value, disk_given.value_len, e);
        if (r != 0)
            break;
    }
    buf_fini(&at);
    return r;
}

static inline void
disk_renew(void *arg)
{
    (void)arg;
}

/* The store of a subtask that has all key groups; others' are never seen. */
static inline struct entry_store
disk_store(struct disk *d)
{
    return (struct entry_store){.arg = d,
                                .last_group = MAX_PAR - 1,
                                .get = disk_get,
                                .walk = disk_walk,
                                .renew = disk_renew};
}

/* ---- short forms ---- */

static inline void
set_text(struct kstate *k, uint32_t h, const char *text)
{
    assert_int_equal(kstate_value_set(k, h, text, strlen(text), NULL), 0);
}

/* The value as text, or "none". Valid until the next call. */
static inline const char *
get_text(struct kstate *k, uint32_t h)
{
    static char text[4096];
    uint32_t len = 0;
    const void *p = kstate_value_get(k, h, &len);

    if (p == NULL)
        return "none";
    (void)snprintf(text, sizeof text, "%.*s", (int)len, (const char *)p);
    return text;
}

static inline struct kstate_bytes
text_bytes(const char *s)
{
    return (struct kstate_bytes){s, (uint32_t)strlen(s)};
}

static inline void
put_text(struct kstate *k, uint32_t h, const char *key, const char *value)
{
    struct kstate_bytes a = text_bytes(key), b = text_bytes(value);

    assert_int_equal(kstate_map_put(k, h, &a, &b, NULL), 0);
}

static inline bool
remove_text(struct kstate *k, uint32_t h, const char *key)
{
    struct kstate_bytes a = text_bytes(key);

    return kstate_map_remove(k, h, &a);
}

/* A map as text, "a=1 b=2". */
static inline const char *
map_text(struct kstate *k, uint32_t h)
{
    static struct buf text;
    struct kstate_iter i;
    struct kstate_bytes key, value;

    buf_clear(&text);
    kstate_map_begin(k, h, &i);
    while (kstate_map_next(k, &i, &key, &value)) {
        if (text.len != 0)
            buf_addc(&text, ' ');
        buf_add(&text, key.p, key.len);
        buf_addc(&text, '=');
        buf_add(&text, value.p, value.len);
    }
    return buf_cstr(&text);
}

static inline void
add_text(struct kstate *k, uint32_t h, const char *s)
{
    assert_int_equal(kstate_list_add(k, h, s, strlen(s), NULL), 0);
}

/* A list as text, "a b". */
static inline const char *
list_text(struct kstate *k, uint32_t h)
{
    static struct buf text;
    struct kstate_iter i;
    struct kstate_bytes element;

    buf_clear(&text);
    kstate_list_begin(k, h, &i);
    while (kstate_list_next(k, &i, &element)) {
        if (text.len != 0)
            buf_addc(&text, ' ');
        buf_add(&text, element.p, element.len);
    }
    return buf_cstr(&text);
}

static inline void
add_int(struct kstate *k, uint32_t h, int64_t v)
{
    struct val args[2] = {val_int(v), val_int(v)};

    assert_int_equal(kstate_agg_add(k, h, args, NULL, NULL), 0);
}

/* ---- a state to try ---- */

enum { V, W, R, L, M, N, Q, H_COUNT };

/* V value; W value with ttl 100; R value with ttl 100 that reading extends;
 * L list; M map; N map with ttl 100; Q list with ttl 100. */
static const struct kstate_handle util_handles[H_COUNT] = {
    {.name = "v", .kind = KSTATE_VALUE, .id = V, .ttl_ms = -1},
    {.name = "w", .kind = KSTATE_VALUE, .id = W, .ttl_ms = 100},
    {.name = "r",
     .kind = KSTATE_VALUE,
     .id = R,
     .ttl_ms = 100,
     .ttl_read = true},
    {.name = "l", .kind = KSTATE_LIST, .id = L, .ttl_ms = -1},
    {.name = "m", .kind = KSTATE_MAP, .id = M, .ttl_ms = -1},
    {.name = "n", .kind = KSTATE_MAP, .id = N, .ttl_ms = 100},
    {.name = "q", .kind = KSTATE_LIST, .id = Q, .ttl_ms = 100}};

static inline struct kstate *
fresh(void)
{
    struct kstate *k = kstate_new(util_handles, H_COUNT);

    kstate_track(k, MAX_PAR);
    kstate_now(k, 1000, 1000);
    return k;
}

static inline struct kstate *
restored(const struct disk *d)
{
    struct kstate *k = fresh();

    disk_load(d, k, 0, 1);
    return k;
}

static inline void
fill(struct kstate *k)
{
    set_text(k, V, "one");
    set_text(k, W, "a text of more than sixteen bytes");
    put_text(k, M, "b", "2");
    put_text(k, M, "a", "1");
    add_text(k, L, "x");
    add_text(k, L, "y");
    (void)kstate_timer_add(k, KSTATE_EVENT, 50);
}

static inline void
expect_filled(struct kstate *k)
{
    int64_t ts;

    assert_string_equal(get_text(k, V), "one");
    assert_string_equal(get_text(k, W), "a text of more than sixteen bytes");
    assert_string_equal(map_text(k, M), "a=1 b=2");
    assert_string_equal(list_text(k, L), "x y");
    assert_int_equal(kstate_timers(k, KSTATE_EVENT), 1);
    assert_int_equal(kstate_timers(k, KSTATE_PROCESSING), 0);
    assert_true(kstate_timer_bound(k, KSTATE_EVENT, &ts));
    assert_true(ts <= 50);
}

static inline void
spoil(struct kstate *k)
{
    set_text(k, V, "two");
    set_text(k, V, "three, and much longer than it was");
    kstate_clear(k, W);
    set_text(k, W, "w");
    assert_true(remove_text(k, M, "a"));
    put_text(k, M, "a", "new");
    put_text(k, M, "b", "a longer text than it was before");
    put_text(k, M, "c", "3");
    assert_string_equal(map_text(k, M),
                        "a=new b=a longer text than it was before c=3");
    kstate_clear(k, M);
    put_text(k, M, "d", "4");
    add_text(k, L, "z");
    kstate_clear(k, L);
    add_text(k, L, "q");
    assert_true(kstate_timer_delete(k, KSTATE_EVENT, 50));
    assert_true(kstate_timer_add(k, KSTATE_EVENT, 60));
    assert_true(kstate_timer_add(k, KSTATE_PROCESSING, 50));
}

#endif
