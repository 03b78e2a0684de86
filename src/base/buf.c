#include "base/buf.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

void
buf_init(struct buf *b)
{
    memset(b, 0, sizeof *b);
}

void
buf_fini(struct buf *b)
{
    free(b->data);
    buf_init(b);
}

void
buf_clear(struct buf *b)
{
    b->len = 0;
}

void
buf_grow(struct buf *b, size_t more)
{
    size_t cap = b->cap != 0 ? b->cap : 256;

    while (cap - b->len < more)
        cap *= 2;
    b->data = mem_realloc(b->data, cap + BUF_PAD);
    b->cap = cap;
}

void
buf_adds(struct buf *b, const char *s)
{
    buf_add(b, s, strlen(s));
}

void
buf_addf(struct buf *b, const char *fmt, ...)
{
    char small[256];
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(small, sizeof small, fmt, ap);
    va_end(ap);
    if (n < 0)
        return;
    if ((size_t)n < sizeof small) {
        buf_add(b, small, (size_t)n);
        return;
    }
    buf_reserve(b, (size_t)n + 1);
    va_start(ap, fmt);
    (void)vsnprintf(b->data + b->len, (size_t)n + 1, fmt, ap);
    va_end(ap);
    b->len += (size_t)n;
}

const char *
buf_cstr(struct buf *b)
{
    buf_reserve(b, 1);
    b->data[b->len] = '\0';
    return b->data;
}

size_t
num_text_int(int64_t i, char out[NUM_TEXT_MAX])
{
    static const char pairs[] = "0001020304050607080910111213141516171819"
                                "2021222324252627282930313233343536373839"
                                "4041424344454647484950515253545556575859"
                                "6061626364656667686970717273747576777879"
                                "8081828384858687888990919293949596979899";
    char tmp[NUM_TEXT_MAX];
    char *end = tmp + sizeof tmp, *p = end;
    uint64_t u = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
    size_t len;

    while (u >= 100) {
        p -= 2;
        memcpy(p, pairs + 2 * (u % 100), 2);
        u /= 100;
    }
    if (u >= 10) {
        p -= 2;
        memcpy(p, pairs + 2 * u, 2);
    } else {
        *--p = (char)('0' + u);
    }
    if (i < 0)
        *--p = '-';
    len = (size_t)(end - p);
    memcpy(out, p, len);
    out[len] = '\0';
    return len;
}

static bool
is_plain(unsigned char c)
{
    return c >= 0x20 && c != '"' && c != '\\';
}

static void
put_escape(struct buf *b, unsigned char c)
{
    static const char *const names = "\"\\\n\r\t\b\f";
    static const char *const codes = "\"\\nrtbf";
    const char *at = c != 0 ? strchr(names, c) : NULL;
    char text[8];

    if (at != NULL) {
        buf_addc(b, '\\');
        buf_addc(b, codes[at - names]);
        return;
    }
    (void)snprintf(text, sizeof text, "\\u%04x", c);
    buf_add(b, text, 6);
}

void
json_put_str(struct buf *b, const char *s, size_t len)
{
    size_t i, from = 0;

    buf_reserve(b, len + 2);
    buf_addc(b, '"');
    for (i = 0; i < len; i++) {
        if (is_plain((unsigned char)s[i]))
            continue;
        buf_add(b, s + from, i - from);
        put_escape(b, (unsigned char)s[i]);
        from = i + 1;
    }
    buf_add(b, s + from, len - from);
    buf_addc(b, '"');
}

void
json_put_int(struct buf *b, int64_t i)
{
    char text[NUM_TEXT_MAX];

    buf_add(b, text, num_text_int(i, text));
}

void
json_put_double(struct buf *b, double d)
{
    char text[NUM_TEXT_MAX];

    buf_add(b, text, num_text_double(d, text));
}

void
json_put_name(struct buf *b, const char *name, size_t len)
{
    if (b->len != 0 && b->data[b->len - 1] != '{' && b->data[b->len - 1] != '[')
        buf_addc(b, ',');
    json_put_str(b, name, len);
    buf_addc(b, ':');
}
