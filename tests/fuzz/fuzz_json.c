/*
 * JSON: whatever the bytes, nothing is read outside them, and the several
 * ways of reading a record agree.
 */
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "core/key.h"
#include "core/rec.h"
#include "format/json.h"
#include "format/reader.h"
#include "fuzz.h"

enum { RECORDS_MAX = 16, COLUMNS = 5, DEPTH = 8 };

static const char *const paths[COLUMNS] = {"a", "a.b", "items.1", "k", "a\\.b"};

/* A value's canonical key reads back as the same key. */
static void
check_key(const struct val *v, struct arena *a)
{
    struct buf key, text, again;
    struct val back;
    struct err e;

    buf_init(&key);
    buf_init(&text);
    buf_init(&again);
    if (json_key_encode(&key, v, &e) == 0) {
        FUZZ_CHECK(key_part_len(key.data, key.data + key.len) == key.len);
        FUZZ_CHECK(key_part_json(&text, key.data, key.data + key.len) ==
                   key.len);
        if (json_value(text.data, text.len, BIGINT_FLOAT, a, &back, &e) == 0 &&
            json_key_encode(&again, &back, &e) == 0)
            FUZZ_CHECK(key_cmp(key.data, key.len, again.data, again.len) == 0);
    }
    buf_fini(&key);
    buf_fini(&text);
    buf_fini(&again);
}

static void
walk(const char *text, size_t len, struct arena *a, int depth)
{
    struct json_walk w;
    struct val name, v;
    const char *raw;
    size_t raw_len;
    struct err e;

    json_walk_init(&w, text, len, BIGINT_STRING, a);
    while (json_walk_next(&w, &name, &v, &raw, &raw_len, &e) == 1) {
        FUZZ_CHECK(raw >= text && raw + raw_len <= text + len);
        check_key(&v, a);
        if ((v.type == VAL_LIST || v.type == VAL_MAP) && depth < DEPTH)
            walk(v.u.s, v.len, a, depth + 1);
    }
}

/* The bulk way (rows) and the single way (reader_get) give the same types. */
static void
check_reader(struct batch *b)
{
    struct reader *r = reader_new();
    uint32_t cols[COLUMNS], i, k;
    struct val v;
    struct err e;

    for (i = 0; i < COLUMNS; i++)
        FUZZ_CHECK(reader_column(r, paths[i], strlen(paths[i]), &cols[i], &e) ==
                   0);
    reader_load(r, b);
    for (k = 0; k < b->n; k++)
        for (i = 0; i < COLUMNS; i++) {
            const struct val *row = b->recs[k].row;
            bool ok = reader_get(r, &b->recs[k], cols[i], &v, &e) == 0;

            if (row == NULL || cols[i] >= b->recs[k].row_n)
                continue;
            FUZZ_CHECK(ok == (row[cols[i]].type != VAL_BAD));
            if (ok)
                FUZZ_CHECK(row[cols[i]].type == v.type);
        }
    reader_free(&r);
}

static void
check_line(struct batch *b, const char *line, size_t len)
{
    char *text = arena_dup(&b->arena, line, len);
    struct rec loose = {0}, strict = {0}, *r;
    struct arena a;
    struct buf out;
    struct err e;

    arena_init(&a);
    buf_init(&out);
    if (json_check(text, len, false, &loose, &e) == 0) {
        if (json_check(text, len, true, &strict, &e) == 0) {
            FUZZ_CHECK(strict.val == loose.val);
            FUZZ_CHECK(strict.val_len == loose.val_len);
            FUZZ_CHECK(json_put_plain(&out, strict.val, strict.val_len,
                                      NAN_ERROR, UTF8_ERROR, &e) == 0);
            FUZZ_CHECK(out.len == strict.val_len &&
                       memcmp(out.data, strict.val, out.len) == 0);
        }
        walk(loose.val, loose.val_len, &a, 0);
        r = batch_add(b);
        *r = loose;
    } else {
        FUZZ_CHECK(json_check(text, len, true, &strict, &e) != 0);
    }
    buf_fini(&out);
    arena_fini(&a);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *p = (const char *)data, *end = p + size, *nl;
    struct batch b;
    int n;

    batch_init(&b);
    for (n = 0; n < RECORDS_MAX && p < end; n++) {
        nl = memchr(p, '\n', (size_t)(end - p));
        if (nl == NULL)
            nl = end;
        check_line(&b, p, (size_t)(nl - p));
        p = nl < end ? nl + 1 : end;
    }
    check_reader(&b);
    batch_fini(&b);
    return 0;
}
