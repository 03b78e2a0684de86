#include "state/entry.h"

#include <assert.h>
#include <string.h>

#include <xxhash.h>

#include "state/wire.h"

#define FLAG_DELETED 0x80000000u
#define FLAG_LONG 0x40000000u
#define LENGTH_MASK 0x3fffffffu

static_assert(STORE_VALUE_MAX <= LENGTH_MASK, "lengths fit");
static_assert(ENTRY_KEY_HEAD + STORE_NS_MAX + ENTRY_DIGEST_SIZE <
                  ENTRY_KEY_LONG,
              "a digest fits behind the namespace");

bool
entry_key_fits(const struct store_key *k)
{
    return k->ns_len <= STORE_NS_MAX && k->key_len <= STORE_KEY_MAX;
}

void
entry_key_encode(uint64_t seed, const struct store_key *k,
                 struct entry_key *ret)
{
    uint8_t *b = ret->bytes;
    size_t at = ENTRY_KEY_HEAD + k->ns_len;

    b[0] = (uint8_t)(k->op >> 24);
    b[1] = (uint8_t)(k->op >> 16);
    b[2] = (uint8_t)(k->op >> 8);
    b[3] = (uint8_t)k->op;
    b[4] = (uint8_t)(k->group >> 8);
    b[5] = (uint8_t)k->group;
    b[6] = (uint8_t)k->ns_len;
    if (k->ns_len != 0)
        memcpy(b + ENTRY_KEY_HEAD, k->ns, k->ns_len);
    if (at + k->key_len <= ENTRY_KEY_SHORT) {
        if (k->key_len != 0)
            memcpy(b + at, k->key, k->key_len);
        ret->len = (uint16_t)(at + k->key_len);
    } else {
        XXH128_canonical_t digest;

        memcpy(b + at, k->key, ENTRY_KEY_LONG - ENTRY_DIGEST_SIZE - at);
        XXH128_canonicalFromHash(
            &digest, XXH3_128bits_withSeed(k->key, k->key_len, seed));
        memcpy(b + ENTRY_KEY_LONG - ENTRY_DIGEST_SIZE, digest.digest,
               ENTRY_DIGEST_SIZE);
        ret->len = ENTRY_KEY_LONG;
    }
}

size_t
entry_value_size(const struct entry_key *stored, const struct store_key *k,
                 size_t value_len)
{
    return ENTRY_VALUE_HEAD + value_len +
           (stored->len == ENTRY_KEY_LONG ? 4 + k->key_len : 0);
}

/* Over key, head and body, the sum's own place left out. */
static uint64_t
sum_of(const void *key, size_t key_len, const void *value, size_t value_len)
{
    return XXH3_64bits_withSeed((const uint8_t *)value + 8, value_len - 8,
                                XXH3_64bits(key, key_len));
}

void
entry_value_encode(uint8_t *out, const struct entry_key *stored,
                   const struct store_key *k, const void *value,
                   size_t value_len)
{
    bool is_long = stored->len == ENTRY_KEY_LONG;
    uint8_t *p = out + ENTRY_VALUE_HEAD;

    wire_store_u32(out + 8, (uint32_t)value_len |
                                (value == NULL ? FLAG_DELETED : 0) |
                                (is_long ? FLAG_LONG : 0));
    if (is_long) {
        wire_store_u32(p, (uint32_t)k->key_len);
        memcpy(p + 4, k->key, k->key_len);
        p += 4 + k->key_len;
    }
    if (value_len != 0)
        memcpy(p, value, value_len);
    wire_store_u64(out, sum_of(stored->bytes, stored->len, out,
                               (size_t)(p - out) + value_len));
}

bool
entry_key_decode(const void *bytes, size_t len, struct store_key *ret)
{
    const uint8_t *b = bytes;

    if (len < ENTRY_KEY_HEAD || len > ENTRY_KEY_LONG || b[6] > STORE_NS_MAX ||
        len < ENTRY_KEY_HEAD + (size_t)b[6])
        return false;
    ret->op = (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 |
              (uint32_t)b[2] << 8 | b[3];
    ret->group = (uint16_t)((unsigned)b[4] << 8 | b[5]);
    ret->ns = b + ENTRY_KEY_HEAD;
    ret->ns_len = b[6];
    ret->key = b + ENTRY_KEY_HEAD + b[6];
    ret->key_len = len - ENTRY_KEY_HEAD - b[6];
    return true;
}

bool
entry_decode(const void *key, size_t key_len, const void *value,
             size_t value_len, struct entry *ret)
{
    const uint8_t *v = value;
    size_t at = ENTRY_VALUE_HEAD;
    uint32_t word;

    if (value_len < ENTRY_VALUE_HEAD ||
        !entry_key_decode(key, key_len, &ret->key) ||
        wire_load_u64(v) != sum_of(key, key_len, value, value_len))
        return false;
    word = wire_load_u32(v + 8);
    if (((word & FLAG_LONG) != 0) != (key_len == ENTRY_KEY_LONG))
        return false;
    if ((word & FLAG_LONG) != 0) {
        if (value_len < at + 4)
            return false;
        ret->key.key_len = wire_load_u32(v + at);
        ret->key.key = v + at + 4;
        at += 4 + ret->key.key_len;
    }
    if (at + (word & LENGTH_MASK) != value_len)
        return false;
    ret->sum = wire_load_u64(v);
    ret->value = v + at;
    ret->value_len = word & LENGTH_MASK;
    ret->deleted = (word & FLAG_DELETED) != 0;
    return true;
}

uint64_t
entry_sum(const void *value)
{
    return wire_load_u64(value);
}

void
entry_wrap(uint8_t *out, const char *key, size_t key_len, const void *bytes,
           size_t len)
{
    wire_store_u32(out + 8, (uint32_t)len);
    if (len != 0)
        memcpy(out + ENTRY_VALUE_HEAD, bytes, len);
    wire_store_u64(out, sum_of(key, key_len, out, ENTRY_VALUE_HEAD + len));
}

bool
entry_unwrap(const void *key, size_t key_len, const void *value,
             size_t value_len, const void **ret, size_t *ret_len)
{
    const uint8_t *v = value;

    if (value_len < ENTRY_VALUE_HEAD ||
        wire_load_u32(v + 8) != value_len - ENTRY_VALUE_HEAD ||
        wire_load_u64(v) != sum_of(key, key_len, value, value_len))
        return false;
    *ret = v + ENTRY_VALUE_HEAD;
    *ret_len = value_len - ENTRY_VALUE_HEAD;
    return true;
}

int
entry_key_cmp(const void *a, size_t a_len, const void *b, size_t b_len)
{
    int r = memcmp(a, b, a_len < b_len ? a_len : b_len);

    return r != 0 ? r : (a_len > b_len) - (a_len < b_len);
}
