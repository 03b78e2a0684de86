/*
 * Readers agree with a slow plain reference on generated records: shapes that
 * repeat with other values (so that layouts serve them), and damage.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/hash.h"
#include "core/rec.h"
#include "format/json.h"
#include "format/reader.h"
#include "format/reader_impl.h"

static uint64_t seed;

static uint32_t
draw(uint32_t below)
{
    seed = hash_splitmix(seed);
    return (uint32_t)((seed >> 32) % below);
}

static struct rec *
add_json(struct batch *b, const char *text, size_t len)
{
    struct rec *r = batch_add(b);

    r->val = arena_dup(&b->arena, text, len);
    r->val_len = (uint32_t)len;
    r->kind = REC_OBJECT;
    return r;
}

static uint32_t
column(struct reader *r, const char *path)
{
    struct err e;
    uint32_t col;

    assert_int_equal(reader_column(r, path, strlen(path), &col, &e), 0);
    return col;
}

/* ---- the reference: a recursive reader of one path ---- */

struct ref {
    const char *p, *end;
    bool bad;
};

static void ref_skip(struct ref *r, unsigned depth);

static int
ref_peek(const struct ref *r)
{
    return r->p < r->end ? (unsigned char)*r->p : -1;
}

static void
ref_ws(struct ref *r)
{
    while (ref_peek(r) == ' ' || ref_peek(r) == '\n' || ref_peek(r) == '\t' ||
           ref_peek(r) == '\r')
        r->p++;
}

static bool
ref_take(struct ref *r, int c)
{
    if (ref_peek(r) != c) {
        r->bad = true;
        return false;
    }
    r->p++;
    return true;
}

static unsigned
ref_hex(struct ref *r)
{
    unsigned v = 0, i;

    for (i = 0; i < 4 && !r->bad; i++) {
        int c = ref_peek(r);
        const char *set = "0123456789abcdefABCDEF";
        const char *at = c > 0 ? strchr(set, c) : NULL;

        if (at == NULL) {
            r->bad = true;
            return 0;
        }
        v = v * 16 + (unsigned)(at - set > 15 ? at - set - 6 : at - set);
        r->p++;
    }
    return v;
}

static void
ref_put(char **out, unsigned v)
{
    if (v < 0x80) {
        *(*out)++ = (char)v;
    } else if (v < 0x800) {
        *(*out)++ = (char)(0xC0 | v >> 6);
        *(*out)++ = (char)(0x80 | (v & 63));
    } else if (v < 0x10000) {
        *(*out)++ = (char)(0xE0 | v >> 12);
        *(*out)++ = (char)(0x80 | (v >> 6 & 63));
        *(*out)++ = (char)(0x80 | (v & 63));
    } else {
        *(*out)++ = (char)(0xF0 | v >> 18);
        *(*out)++ = (char)(0x80 | (v >> 12 & 63));
        *(*out)++ = (char)(0x80 | (v >> 6 & 63));
        *(*out)++ = (char)(0x80 | (v & 63));
    }
}

static size_t
ref_string(struct ref *r, char *out)
{
    char *from = out;

    (void)ref_take(r, '"');
    while (!r->bad) {
        int c = ref_peek(r);
        unsigned v;

        if (c < 0x20) {
            r->bad = true;
            break;
        }
        r->p++;
        if (c == '"')
            break;
        if (c != '\\') {
            *out++ = (char)c;
            continue;
        }
        c = ref_peek(r);
        if (c < 0) {
            r->bad = true;
            break;
        }
        r->p++;
        switch (c) {
        case '"':
        case '\\':
        case '/':
            *out++ = (char)c;
            break;
        case 'b':
            *out++ = '\b';
            break;
        case 'f':
            *out++ = '\f';
            break;
        case 'n':
            *out++ = '\n';
            break;
        case 'r':
            *out++ = '\r';
            break;
        case 't':
            *out++ = '\t';
            break;
        case 'u':
            v = ref_hex(r);
            if (!r->bad && v >= 0xD800 && v <= 0xDFFF) {
                unsigned w;

                if (v > 0xDBFF || !ref_take(r, '\\') || !ref_take(r, 'u')) {
                    r->bad = true;
                    break;
                }
                w = ref_hex(r);
                if (w < 0xDC00 || w > 0xDFFF)
                    r->bad = true;
                v = 0x10000 + ((v - 0xD800) << 10) + (w - 0xDC00);
            }
            if (!r->bad)
                ref_put(&out, v);
            break;
        default:
            r->bad = true;
        }
    }
    return (size_t)(out - from);
}

static size_t
ref_digits(struct ref *r)
{
    size_t n = 0;

    for (; ref_peek(r) >= '0' && ref_peek(r) <= '9'; n++)
        r->p++;
    return n;
}

static void
ref_token_end(struct ref *r)
{
    int c = ref_peek(r);

    if (c >= 0 && strchr(",]} \t\r\n", c) == NULL)
        r->bad = true;
}

/* A number; @return whether it is an integer. */
static bool
ref_number(struct ref *r)
{
    bool is_int = true;

    if (ref_peek(r) == '-')
        r->p++;
    if (ref_peek(r) == '0')
        r->p++;
    else if (ref_digits(r) == 0)
        r->bad = true;
    if (!r->bad && ref_peek(r) == '.') {
        r->p++;
        is_int = false;
        if (ref_digits(r) == 0)
            r->bad = true;
    }
    if (!r->bad && (ref_peek(r) == 'e' || ref_peek(r) == 'E')) {
        r->p++;
        is_int = false;
        if (ref_peek(r) == '+' || ref_peek(r) == '-')
            r->p++;
        if (ref_digits(r) == 0)
            r->bad = true;
    }
    ref_token_end(r);
    return is_int;
}

static void
ref_word(struct ref *r, const char *w)
{
    for (; *w != '\0' && !r->bad; w++)
        (void)ref_take(r, *w);
    ref_token_end(r);
}

static void
ref_scalar(struct ref *r, struct val *v, char *out)
{
    const char *from = r->p;
    char text[512], *stop;

    switch (ref_peek(r)) {
    case '"':
        *v = val_str(out, 0);
        v->len = (uint32_t)ref_string(r, out);
        break;
    case 't':
        ref_word(r, "true");
        *v = val_bool(true);
        break;
    case 'f':
        ref_word(r, "false");
        *v = val_bool(false);
        break;
    case 'n':
        ref_word(r, "null");
        *v = val_nil();
        v->type = VAL_NULL;
        break;
    default:
        v->type = ref_number(r) ? VAL_INT : VAL_DBL;
        if (r->bad || r->p - from >= (ptrdiff_t)sizeof text)
            break;
        memcpy(text, from, (size_t)(r->p - from));
        text[r->p - from] = '\0';
        errno = 0;
        if (v->type == VAL_INT)
            v->u.i = strtoll(text, &stop, 10);
        else
            v->u.d = strtod(text, &stop);
        if ((v->type == VAL_INT && errno != 0) ||
            (v->type == VAL_DBL && (v->u.d > 1.7976931348623157e308 ||
                                    v->u.d < -1.7976931348623157e308)))
            v->type = VAL_BAD;
    }
}

/* Walk a container; stop at the child named (or numbered) `want`. */
static bool
ref_find(struct ref *r, const char *want, unsigned depth)
{
    static char names[70000];
    int open = ref_peek(r), close = open == '{' ? '}' : ']';
    unsigned index = 0;
    char number[16];

    if (depth >= 1024) {
        r->bad = true;
        return false;
    }
    r->p++;
    ref_ws(r);
    if (ref_peek(r) == close) {
        r->p++;
        return false;
    }
    while (!r->bad) {
        size_t n;

        (void)snprintf(number, sizeof number, "%u", ++index);
        if (open == '{') {
            n = ref_string(r, names);
            ref_ws(r);
            if (r->bad || !ref_take(r, ':'))
                return false;
            ref_ws(r);
            if (want != NULL && n == strlen(want) &&
                memcmp(names, want, n) == 0)
                return true;
        } else if (want != NULL && strcmp(number, want) == 0) {
            return true;
        }
        ref_skip(r, depth + 1);
        ref_ws(r);
        if (r->bad || ref_peek(r) == close)
            break;
        (void)ref_take(r, ',');
        ref_ws(r);
    }
    r->p++;
    return false;
}

static void
ref_skip(struct ref *r, unsigned depth)
{
    static char out[70000];
    struct val v;

    if (ref_peek(r) == '{' || ref_peek(r) == '[')
        (void)ref_find(r, NULL, depth);
    else
        ref_scalar(r, &v, out);
}

/* The value of a path of plain names divided by dots. */
static struct val
ref_get(const char *text, size_t len, const char *path, char *out)
{
    struct ref r = {text, text + len, false};
    struct val v = val_nil();
    char name[64];
    unsigned depth = 0;

    while (*path != '\0') {
        size_t n = strcspn(path, ".");

        memcpy(name, path, n);
        name[n] = '\0';
        path += n + (path[n] == '.');
        if (ref_peek(&r) != '{' && ref_peek(&r) != '[') {
            ref_skip(&r, depth);
            v.type = r.bad ? VAL_BAD : VAL_NIL;
            return v;
        }
        if (!ref_find(&r, name, depth++)) {
            v.type = r.bad ? VAL_BAD : VAL_NIL;
            return v;
        }
    }
    if (ref_peek(&r) == '{' || ref_peek(&r) == '[') {
        const char *from = r.p;

        ref_skip(&r, depth);
        v = val_str(from, (uint32_t)(r.p - from));
        v.type = *from == '{' ? VAL_MAP : VAL_LIST;
    } else {
        ref_scalar(&r, &v, out);
    }
    if (r.bad)
        v.type = VAL_BAD;
    return v;
}

/* ---- generated records ---- */

static void
gen_string(struct buf *b)
{
    uint32_t n = draw(4) == 0 ? draw(40) : draw(12);

    buf_addc(b, '"');
    while (n-- > 0)
        switch (draw(40)) {
        case 0:
            buf_adds(b, "\\n");
            break;
        case 1:
            buf_adds(b, "\\u00e9");
            break;
        case 2:
            buf_adds(b, "\\ud83d\\ude00");
            break;
        case 3:
            buf_adds(b, "\xC3\xA9");
            break;
        case 4:
            buf_adds(b, "{\\\"");
            break;
        default:
            buf_addc(b, (char)('a' + draw(26)));
        }
    buf_addc(b, '"');
}

static void
gen_number(struct buf *b)
{
    uint32_t n;

    if (draw(3) == 0)
        buf_addc(b, '-');
    for (n = draw(8) == 0 ? draw(24) : draw(9), buf_addc(b, '1'); n > 0; n--)
        buf_addc(b, (char)('0' + draw(10)));
    if (draw(3) == 0) {
        buf_addc(b, '.');
        for (n = 1 + (draw(6) == 0 ? draw(20) : draw(4)); n > 0; n--)
            buf_addc(b, (char)('0' + draw(10)));
    }
    if (draw(20) == 0)
        buf_addf(b, "e%d", (int)draw(800) - 400);
}

static void
gen_value(struct buf *b, unsigned depth, const char *blank)
{
    static const char *const names[] = {"a", "b",       "c",          "1",
                                        "2", "\\u0061", "longer name"};
    uint32_t n, i, kind = draw(depth > 3 ? 8 : 11);

    if (depth == 0 || kind == 8) {
        buf_addc(b, '{');
        for (n = draw(6), i = 0; i < n; i++) {
            if (i > 0)
                buf_addf(b, ",%s", blank);
            buf_addf(b, "%s\"%s\"%s:%s", blank, names[draw(7)], blank, blank);
            gen_value(b, depth + 1, blank);
        }
        buf_addc(b, '}');
        return;
    }
    switch (kind) {
    case 0:
        buf_adds(b, "null");
        break;
    case 1:
        buf_adds(b, draw(2) ? "true" : "false");
        break;
    case 2:
        buf_adds(b, draw(2) ? "0" : "-0.0");
        break;
    case 3:
    case 4:
    case 5:
        gen_number(b);
        break;
    case 6:
    case 7:
        gen_string(b);
        break;
    default:
        buf_addc(b, '[');
        for (n = draw(4), i = 0; i < n; i++) {
            if (i > 0)
                buf_addc(b, ',');
            gen_value(b, depth + 1, blank);
        }
        buf_addc(b, ']');
    }
}

/* Copy `from` with some scalars' bytes changed, so that shapes repeat; at
 * times with damage anywhere. */
static void
mutate(struct buf *to, const struct buf *from)
{
    size_t i;
    bool quoted = false;

    buf_clear(to);
    for (i = 0; i < from->len; i++) {
        char c = from->data[i];

        if (c == '"' && (i == 0 || from->data[i - 1] != '\\'))
            quoted = !quoted;
        if (!quoted && c >= '1' && c <= '9')
            c = (char)('1' + draw(9));
        else if (!quoted && c == '9' && draw(4) == 0)
            continue;
        buf_addc(to, c);
        if (!quoted && c >= '1' && c <= '9' && draw(12) == 0)
            buf_addc(to, (char)('0' + draw(10)));
    }
    if (draw(3) != 0 || to->len < 3)
        return;
    for (i = 1 + draw(2); i > 0; i--) {
        static const char set[] = "{}[]\",:\\ \n0129.eE-+tfnu\x01N";
        uint32_t at = 1 + draw((uint32_t)to->len - 2);

        to->data[at] = set[draw(sizeof set - 1)];
    }
}

static void
check_same(const char *text, size_t len, const char *path,
           const struct val *got)
{
    static char out[70000];
    struct val want = ref_get(text, len, path, out);
    bool same = got->type == want.type;

    if (same && want.type == VAL_INT)
        same = got->u.i == want.u.i;
    if (same && want.type == VAL_DBL)
        same = memcmp(&got->u.d, &want.u.d, sizeof want.u.d) == 0;
    if (same && want.type == VAL_BOOL)
        same = got->u.b == want.u.b;
    if (same && want.type >= VAL_STR && want.type <= VAL_MAP)
        same =
            got->len == want.len && memcmp(got->u.s, want.u.s, want.len) == 0;
    if (!same)
        fail_msg("path %s of %.*s: type %d, expected %d", path, (int)len, text,
                 got->type, want.type);
}

static void
reader_agrees_with_a_plain_reference(void **state)
{
    static const char *const all[] = {"a",   "b",     "c",          "a.b",
                                      "a.1", "b.2",   "a.a.a",      "c.c",
                                      "1",   "a.1.b", "longer name"};
    enum { PATHS = sizeof all / sizeof *all };
    unsigned round, i, k, n;
    uint64_t hits = 0, bad = 0;

    (void)state;
    for (round = 0; round < 3000; round++) {
        struct reader *r = reader_new();
        struct batch b;
        struct buf shape, text;
        const char *paths[PATHS];
        uint32_t cols[PATHS];
        struct reader_stats st;
        struct val v;
        struct err e;

        reader_set_wide(r, draw(2) != 0);
        batch_init(&b);
        buf_init(&shape);
        buf_init(&text);
        n = 1 + draw(draw(2) ? 3 : PATHS);
        for (i = 0; i < n; i++) {
            paths[i] = all[draw(PATHS)];
            cols[i] = column(r, paths[i]);
        }
        gen_value(&shape, 0, draw(3) == 0 ? " " : "");
        for (i = 0; i < 24; i++) {
            mutate(&text, &shape);
            if (draw(16) == 0) {
                buf_clear(&shape);
                gen_value(&shape, 0, "");
            }
            /* Exactly sized, so that sanitizers see reads beyond the pad. */
            add_json(&b, text.data, text.len);
        }
        reader_load(r, &b);
        reader_stats(r, &st);
        hits += st.layout_hits;
        for (i = 0; i < b.n; i++)
            for (k = 0; k < n; k++) {
                const struct rec *rec = &b.recs[i];
                struct rec bare = *rec;

                check_same(rec->val, rec->val_len, paths[k],
                           &rec->row[cols[k]]);
                bare.row = NULL;
                bad += rec->row[cols[k]].type == VAL_BAD;
                v.type = VAL_BAD;
                if (reader_get(r, &bare, cols[k], &v, &e) != 0)
                    v.type = VAL_BAD;
                check_same(rec->val, rec->val_len, paths[k], &v);
            }
        buf_fini(&shape);
        buf_fini(&text);
        batch_fini(&b);
        reader_free(&r);
    }
    /* Both ways were really gone. */
    print_message("%u hits, %u bad values\n", (unsigned)hits, (unsigned)bad);
    assert_true(hits > 3000 && bad > 1000);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reader_agrees_with_a_plain_reference),
    };
    const char *given = getenv("STREAMLUA_TEST_SEED");

    seed = given != NULL ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);
    print_message("seed %llu\n", (unsigned long long)seed);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
