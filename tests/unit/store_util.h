/*
 * Helpers of the store's tests: folders, keys, values, and a plain model.
 *
 * A key is a small number, its value is made from the number and a version;
 * the model is one version per key, 0 for absent. Keys cover what the store
 * treats differently: no namespace, long ones that share a prefix, values
 * on pages of their own.
 */
#ifndef TESTS_STORE_UTIL_H
#define TESTS_STORE_UTIL_H

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/hash.h"
#include "state/store.h"

enum { GROUPS = 16, LONG_KEY = 700, BIG_VALUE = 9000 };

struct model {
    uint64_t round;
    unsigned count;    /* keys of an operator */
    uint32_t *version; /* two operators: 2 * count */
};

static struct err err;

static inline char *
temp_dir(void)
{
    const char *root = getenv("TMPDIR");
    char path[256];

    /* Thousands of syncs: in memory, if there is such a place. */
    if (root == NULL)
        root = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    (void)snprintf(path, sizeof path, "%s/streamlua-store-XXXXXX", root);
    assert_non_null(mkdtemp(path));
    return strdup(path);
}

static inline void
remove_dir(const char *dir)
{
    DIR *d = opendir(dir);
    struct dirent *f;
    char path[1024];

    while (d != NULL && (f = readdir(d)) != NULL) {
        if (f->d_name[0] == '.')
            continue;
        if (snprintf(path, sizeof path, "%s/%s", dir, f->d_name) <
                (int)sizeof path &&
            unlink(path) != 0)
            remove_dir(path);
    }
    if (d != NULL)
        (void)closedir(d);
    (void)rmdir(dir);
}

static inline struct store *
open_store(const char *dir)
{
    struct store_opts o = {
        .dir = dir, .create = true, .any_fs = true, .map_bytes = 1 << 20};
    struct store *s = NULL;
    int r = store_open(&o, &s, &err);

    if (r != 0)
        print_message("%s\n", err.msg);
    assert_int_equal(r, 0);
    return s;
}

static inline void
must(int r)
{
    if (r < 0)
        print_message("%s\n", err.msg);
    assert_true(r >= 0);
}

static inline void
model_init(struct model *m, unsigned count)
{
    m->round = 0;
    m->count = count;
    m->version = calloc(2 * (size_t)count, sizeof *m->version);
}

static inline void
model_copy(struct model *to, const struct model *from)
{
    to->round = from->round;
    memcpy(to->version, from->version,
           2 * (size_t)from->count * sizeof *to->version);
}

static inline void
model_fini(struct model *m)
{
    free(m->version);
}

/* Key number `i` of operator `op`; `buf` holds its bytes. */
static inline struct store_key
key_of(uint32_t op, unsigned i, char buf[LONG_KEY + 16])
{
    struct store_key k = {.op = op, .group = (uint16_t)(i * 7 % GROUPS)};
    size_t at = 0;

    if (i % 3 != 0) {
        (void)snprintf(buf, 16, "w%07u", i / 3 % 5);
        k.ns = buf;
        k.ns_len = at = 8;
    }
    if (i % 20 == 7) {
        memset(buf + at, 'k', LONG_KEY - 20);
        k.key_len = LONG_KEY - 20;
    }
    k.key = buf + at;
    k.key_len += (size_t)snprintf(buf + at + k.key_len, 16, "%u", i);
    return k;
}

static inline size_t
value_of(unsigned i, uint32_t version, uint8_t buf[BIG_VALUE])
{
    size_t len = i % 41 == 5 ? BIG_VALUE - version % 5000 : version * 7 % 120;
    size_t j;

    for (j = 0; j < len; j += 8) {
        uint64_t v = hash_splitmix(i * UINT64_C(1000003) + version + j);

        memcpy(buf + j, &v, len - j < 8 ? len - j : 8);
    }
    return len;
}

/* The operators' numbers in the round that is gathered. */
static inline int
round_ops(struct store *s, uint32_t op[2], struct err *e)
{
    int r = store_round_operator(s, "first", 5, &op[0], e);

    return r != 0 ? r : store_round_operator(s, "second", 6, &op[1], e);
}

/* Stage one change and note it in the model; version 0 deletes. */
static inline int
stage_change(struct store *s, struct model *m, const uint32_t op[2],
             unsigned which, uint32_t version, struct err *e)
{
    char key[LONG_KEY + 16];
    uint8_t value[BIG_VALUE];
    unsigned i = which % m->count;
    struct store_key k = key_of(op[which / m->count], i, key);

    m->version[which] = version;
    if (version == 0)
        return store_round_del(s, &k, e);
    return store_round_put(s, &k, value, value_of(i, version, value), e);
}

/* All entries of one operator, in order, against the model. */
static inline void
compare_operator(struct store_reader *r, const struct model *m, unsigned o)
{
    uint8_t want[BIG_VALUE];
    char buf[LONG_KEY + 16];
    struct store_scan *c = NULL;
    struct store_key k, key;
    const void *value;
    size_t len, n = 0, present = 0;
    uint32_t op;
    unsigned i, group = 0;
    int rc;

    for (i = 0; i < m->count; i++)
        present += m->version[o * m->count + i] != 0;
    if (!store_reader_find(r, o == 0 ? "first" : "second", o == 0 ? 5 : 6,
                           &op)) {
        assert_int_equal(present, 0);
        return;
    }
    must(store_scan_open(r, op, 0, UINT16_MAX, &c, &err));
    while ((rc = store_scan_next(c, &k, &value, &len, &err)) == 1) {
        const char *text = k.key;
        size_t skip = k.key_len > LONG_KEY - 20 ? LONG_KEY - 20 : 0;
        char digits[16] = "";

        memcpy(digits, text + skip, k.key_len - skip);
        i = (unsigned)strtoul(digits, NULL, 10);
        assert_true(i < m->count);
        assert_true(k.group >= group);
        group = k.group;
        key = key_of(op, i, buf);
        assert_int_equal(k.group, key.group);
        assert_int_equal(k.ns_len, key.ns_len);
        assert_int_equal(k.key_len, key.key_len);
        assert_memory_equal(k.key, key.key, key.key_len);
        assert_int_equal(len, value_of(i, m->version[o * m->count + i], want));
        assert_memory_equal(value, want, len);
        assert_int_not_equal(m->version[o * m->count + i], 0);
        n++;
    }
    must(rc);
    store_scan_close(&c);
    assert_int_equal(n, present);
    for (i = 0; i < m->count; i += 1 + m->count / 50) {
        uint32_t v = m->version[o * m->count + i];

        key = key_of(op, i, buf);
        rc = store_reader_get(r, &key, &value, &len, &err);
        must(rc);
        assert_int_equal(rc, v != 0);
        if (rc == 1) {
            assert_int_equal(len, value_of(i, v, want));
            assert_memory_equal(value, want, len);
        }
    }
}

/* The namespaces of some groups, each read in short scans that go on behind
 * the last key, against a scan of the group. */
static inline void
compare_namespaces(struct store_reader *r, unsigned o)
{
    struct store_scan *c = NULL, *one = NULL;
    struct store_key k, at, got;
    const void *value, *same;
    size_t len, same_len;
    bool open = false, after = false;
    char ns[STORE_NS_MAX], last[LONG_KEY + 16];
    uint32_t op;
    int rc;

    if (!store_reader_find(r, o == 0 ? "first" : "second", o == 0 ? 5 : 6, &op))
        return;
    memset(&at, 0, sizeof at);
    must(store_scan_open(r, op, 3, 5, &c, &err));
    while ((rc = store_scan_next(c, &k, &value, &len, &err)) == 1) {
        if (!open || at.group != k.group || at.ns_len != k.ns_len ||
            memcmp(at.ns, k.ns, k.ns_len) != 0) {
            if (open) { /* nothing of it is left */
                must(store_scan_ns(r, &at, after, &one, &err));
                assert_int_equal(
                    store_scan_next(one, &got, &same, &same_len, &err), 0);
                store_scan_close(&one);
            }
            memcpy(ns, k.ns, k.ns_len);
            at = (struct store_key){.op = op,
                                    .group = k.group,
                                    .ns = ns,
                                    .ns_len = k.ns_len,
                                    .key = last};
            open = true;
            after = false;
        }
        must(store_scan_ns(r, &at, after, &one, &err));
        assert_int_equal(store_scan_next(one, &got, &same, &same_len, &err), 1);
        assert_int_equal(got.group, k.group);
        assert_int_equal(got.key_len, k.key_len);
        assert_memory_equal(got.key, k.key, k.key_len);
        assert_int_equal(same_len, len);
        assert_memory_equal(same, value, len);
        store_scan_close(&one);
        memcpy(last, k.key, k.key_len);
        at.key_len = k.key_len;
        after = true;
    }
    must(rc);
    store_scan_close(&c);
}

/* The whole view against the model: entries, round, blob. */
static inline void
compare(struct store *s, enum store_view view, const struct model *m)
{
    struct store_reader *r = NULL;
    const void *p;
    size_t len;
    char text[32];
    int rc;

    must(store_reader_new(s, &r, &err));
    must(store_reader_begin(r, view, &err));
    assert_int_equal(store_reader_round(r), m->round);
    compare_operator(r, m, 0);
    compare_operator(r, m, 1);
    compare_namespaces(r, 0);
    compare_namespaces(r, 1);
    rc = store_reader_blob(r, "positions", &p, &len, &err);
    must(rc);
    assert_int_equal(rc, m->round != 0);
    if (rc == 1) {
        (void)snprintf(text, sizeof text, "at %llu",
                       (unsigned long long)m->round);
        assert_int_equal(len, strlen(text));
        assert_memory_equal(p, text, len);
    }
    store_reader_free(&r);
}

static inline int
stage_positions(struct store *s, uint64_t round, struct err *e)
{
    char text[32];

    (void)snprintf(text, sizeof text, "at %llu", (unsigned long long)round);
    return store_round_blob(s, "positions", text, strlen(text), e);
}

/* A small random generator with a printed seed. */
static uint64_t test_random;

static inline uint64_t
random_next(void)
{
    test_random += UINT64_C(0x9E3779B97F4A7C15);
    return hash_splitmix(test_random);
}

static inline unsigned
random_below(unsigned n)
{
    return (unsigned)(random_next() % n);
}

static inline void
random_seed(const char *name, uint64_t fallback)
{
    const char *text = getenv("STORE_SEED");

    test_random = text != NULL ? strtoull(text, NULL, 10) : fallback;
    print_message("%s: STORE_SEED=%llu\n", name,
                  (unsigned long long)test_random);
}

/* Gather a random round of up to `most` changes into store and model. */
static inline int
stage_random(struct store *s, struct model *m, unsigned most, uint64_t round,
             struct err *e)
{
    unsigned n = random_below(most + 1), i;
    uint32_t op[2];
    int r = store_round_begin(s, round, e);

    if (r == 0)
        r = round_ops(s, op, e);
    for (i = 0; r == 0 && i < n; i++)
        r = stage_change(s, m, op, random_below(2 * m->count),
                         random_below(4) == 0 ? 0 : 1 + random_below(100000),
                         e);
    if (r == 0)
        r = stage_positions(s, round, e);
    m->round = round;
    return r;
}

#endif
