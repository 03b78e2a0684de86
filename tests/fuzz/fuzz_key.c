/*
 * Keys: any bytes are taken or refused without reading past them, and the
 * order of encodings is the order of the numbers and strings in them.
 */
#include <math.h>
#include <string.h>

#include "base/buf.h"
#include "core/key.h"
#include "fuzz.h"

static int
sign(long double x)
{
    return (x > 0) - (x < 0);
}

static void
check_bytes(const char *p, size_t len)
{
    struct buf out;
    size_t n = key_part_len(p, p + len), m;

    buf_init(&out);
    FUZZ_CHECK(n <= len);
    m = key_part_json(&out, p, p + len);
    FUZZ_CHECK(m == 0 || m == n);
    buf_clear(&out);
    m = key_part_text(&out, p, p + len);
    FUZZ_CHECK(m == 0 || m == n);
    buf_fini(&out);
}

/* An int and a double out of the input: order and equality as numbers. */
static void
check_numbers(const uint8_t *data)
{
    struct buf a, b;
    int64_t i;
    double d;
    long double diff;

    memcpy(&i, data, sizeof i);
    memcpy(&d, data + sizeof i, sizeof d);
    if (isnan(d))
        return;
    buf_init(&a);
    buf_init(&b);
    key_put_int(&a, i);
    key_put_double(&b, d);
    diff = isinf(d) ? (d > 0 ? -1.0L : 1.0L) : (long double)i - (long double)d;
    FUZZ_CHECK(sign((long double)key_cmp(a.data, a.len, b.data, b.len)) ==
               sign(diff));
    FUZZ_CHECK(key_part_len(a.data, a.data + a.len) == a.len);
    FUZZ_CHECK(key_part_len(b.data, b.data + b.len) == b.len);
    buf_fini(&a);
    buf_fini(&b);
}

static void
check_strings(const char *p, size_t len)
{
    size_t half = len / 2, least = half < len - half ? half : len - half;
    struct buf a, b;
    int want = memcmp(p, p + half, least);

    if (want == 0)
        want = (half > len - half) - (half < len - half);
    buf_init(&a);
    buf_init(&b);
    key_put_str(&a, p, half);
    key_put_str(&b, p + half, len - half);
    FUZZ_CHECK(sign((long double)key_cmp(a.data, a.len, b.data, b.len)) ==
               sign((long double)want));
    FUZZ_CHECK(key_part_len(a.data, a.data + a.len) == a.len);
    buf_fini(&a);
    buf_fini(&b);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* A copy of the exact size, so that a sanitizer sees a read behind it. */
    char *p = malloc(size + 1);

    FUZZ_CHECK(p != NULL);
    if (size > 0)
        memcpy(p, data, size);
    check_bytes(p, size);
    check_strings(p, size);
    if (size >= 16)
        check_numbers(data);
    free(p);
    return 0;
}
