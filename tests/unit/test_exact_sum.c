/* Exact sums against a reference that shares no code with them: a fixed
 * number of 32-bit digits over the whole range, rounded bit by bit. */
#include "core/exact.h"

#include <float.h>

#include "agg_util.h"

enum {
    REF_LOW = -2200, /* weight of the lowest bit */
    REF_DIGITS = 150 /* 4800 bits */
};

struct ref {
    uint32_t digit[REF_DIGITS]; /* two's complement */
};

static void
ref_add_bits(struct ref *r, uint64_t mag, int exp, bool neg)
{
    int at = (exp - REF_LOW) / 32, shift = (exp - REF_LOW) % 32, i;
    uint64_t carry = neg ? 1 : 0;

    for (i = 0; i < REF_DIGITS; i++) {
        uint32_t part = 0;
        int k = i - at;

        if (k >= 0 && k < 3) {
            uint64_t low = (mag & 0xffffffffu) << shift;
            uint64_t high = (mag >> 32) << shift;

            part = k == 0   ? (uint32_t)low
                   : k == 1 ? (uint32_t)((low >> 32) + (uint32_t)high)
                            : (uint32_t)(high >> 32);
            /* low >> 32 and high have no bit in common. */
        }
        if (neg)
            part = ~part;
        carry += (uint64_t)r->digit[i] + part;
        r->digit[i] = (uint32_t)carry;
        carry >>= 32;
    }
}

static void
ref_add_double(struct ref *r, double d)
{
    int exp;
    double m = frexp(fabs(d), &exp);

    if (d != 0)
        ref_add_bits(r, (uint64_t)ldexp(m, 53), exp - 53, d < 0);
}

static void
ref_add_int(struct ref *r, int64_t i)
{
    ref_add_bits(r, i < 0 ? 0 - (uint64_t)i : (uint64_t)i, 0, i < 0);
}

static int
ref_bit(const struct ref *r, int weight)
{
    int at = weight - REF_LOW;

    return at < 0 ? 0 : (int)(r->digit[at / 32] >> at % 32 & 1);
}

static double
ref_round(const struct ref *given)
{
    struct ref r = *given;
    bool neg = r.digit[REF_DIGITS - 1] >> 31 != 0;
    int top, low, i;
    double d = 0;
    bool rest = false;

    if (neg) {
        uint64_t carry = 1;

        for (i = 0; i < REF_DIGITS; i++) {
            carry += (uint32_t)~r.digit[i];
            r.digit[i] = (uint32_t)carry;
            carry >>= 32;
        }
    }
    for (top = REF_LOW + REF_DIGITS * 32 - 1; top >= REF_LOW; top--)
        if (ref_bit(&r, top) != 0)
            break;
    if (top < REF_LOW)
        return 0.0;
    low = top - 52 < -1074 ? -1074 : top - 52;
    for (i = top; i >= low; i--)
        d = d * 2 + ref_bit(&r, i);
    for (i = low - 2; i >= REF_LOW && !rest; i--)
        rest = ref_bit(&r, i) != 0;
    if (ref_bit(&r, low - 1) != 0 && (rest || fmod(d, 2) != 0))
        d += 1;
    d = ldexp(d, low);
    return neg ? -d : d;
}

static void
assert_same(double got, double want)
{
    if (memcmp(&got, &want, sizeof got) != 0)
        fail_msg("got %.17g (%a), want %.17g (%a)", got, got, want, want);
}

/* Doubles of several temperaments. */
static double
any_double(unsigned kind)
{
    switch (kind) {
    case 0:
        return util_any_double();
    case 1:
        return (double)(int32_t)util_rand() / 100;
    case 2:
        return (util_below(2) ? -1 : 1) *
               ldexp((double)(util_rand() >> 11),
                     -1074 - 40 + (int)util_below(80));
    case 3:
        return (util_below(2) ? -1 : 1) *
               ldexp(1 + (double)util_below(1000) / 1000, 1023);
    case 4:
        return ldexp(1.0, (int)util_below(120) - 60);
    default:
        return util_number().type == VAL_INT ? 1e16 : -0.0;
    }
}

static void
equals_the_reference(void **state)
{
    int round, i;

    (void)state;
    (void)util_seed();
    for (round = 0; round < 4000; round++) {
        struct exact x = {0};
        struct ref r = {{0}};
        unsigned kind = util_below(7);
        int n = 1 + (int)util_below(40);

        for (i = 0; i < n; i++) {
            double d = any_double(kind == 6 ? util_below(6) : kind);

            if (util_below(4) == 0) {
                int64_t v = (int64_t)util_rand() >> util_below(60);

                exact_add_int(&x, v);
                ref_add_int(&r, v);
            }
            exact_add_double(&x, d);
            ref_add_double(&r, d);
            assert_same(exact_round(&x), ref_round(&r) + 0.0);
        }
        exact_fini(&x);
    }
}

/* Ties and what lies just beside them. */
static void
rounds_half_to_even(void **state)
{
    static const double terms[][3] = {
        {1, 0x1p-53, 0},
        {1, 0x1p-53, 5e-324},
        {1, 0x1p-53, -5e-324},
        {1 + 0x1p-52, 0x1p-53, 0},
        {-1, -0x1p-53, -0x1p-200},
        {0x1p1023, 0x1p1023, -5e-324},
        {0x1p1023, 0x1p970, 0},
        {0x1p1023, 0x1p970, 5e-324},
        {0x1p1023, -0x1p969, 0},
        {DBL_MAX, 0x1p969, 0},
        {DBL_MAX, 0x1p970, 0},
        {DBL_MAX, 0x1p970, -1},
        {-DBL_MAX, -DBL_MAX, DBL_MAX},
        {5e-324, 5e-324, -5e-324},
        {0x1p-1022, -5e-324, 0},
        {1e308, 1e308, -1e308},
        {0.1, 0.2, -0.3},
    };
    size_t i;
    int k;

    (void)state;
    for (i = 0; i < sizeof terms / sizeof terms[0]; i++) {
        struct exact x = {0};
        struct ref r = {{0}};

        for (k = 0; k < 3; k++) {
            exact_add_double(&x, terms[i][k]);
            ref_add_double(&r, terms[i][k]);
        }
        assert_same(exact_round(&x), ref_round(&r) + 0.0);
        exact_fini(&x);
    }
}

static struct exact
through_bytes(struct exact *x)
{
    struct exact back = {0};
    struct buf b;
    const char *p;

    buf_init(&b);
    exact_encode(x, &b);
    p = b.data;
    assert_true(exact_decode(&back, &p, b.data + b.len));
    assert_ptr_equal(p, b.data + b.len);
    exact_fini(x);
    buf_fini(&b);
    return back;
}

static void
merging_in_any_order_gives_the_same(void **state)
{
    enum { PARTS = 5 };
    int round, i;

    (void)state;
    (void)util_seed();
    for (round = 0; round < 2000; round++) {
        struct exact part[PARTS] = {{0}}, copy;
        struct ref r = {{0}};
        int n = (int)util_below(60), left = PARTS;

        for (i = 0; i < n; i++) {
            struct exact *x = &part[util_below(PARTS)];
            double d = any_double(util_below(6));
            int64_t v = (int64_t)util_rand();

            if (util_below(3) == 0) {
                exact_add_int(x, v);
                ref_add_int(&r, v);
            } else {
                exact_add_double(x, d);
                ref_add_double(&r, d);
            }
            if (util_below(8) == 0)
                *x = through_bytes(x);
        }
        while (left > 1) {
            uint32_t to = util_below((uint32_t)left);

            left--;
            if (to == (uint32_t)left)
                to = 0;
            exact_merge(&part[to], &part[left]);
            assert_int_equal(part[left].word, 0);
        }
        exact_dup(&part[0], &copy);
        exact_fini(&part[0]);
        assert_same(exact_round(&copy), ref_round(&r) + 0.0);
        exact_fini(&copy);
    }
}

static void
integers_are_exact_in_128_bits(void **state)
{
    struct exact x = {0};
    int64_t hi;
    uint64_t lo;
    int i;

    (void)state;
    for (i = 0; i < 1000; i++)
        exact_add_int(&x, INT64_MAX);
    exact_int128(&x, &hi, &lo);
    assert_int_equal(hi, 499);
    assert_true(lo == 0 - (uint64_t)1000);
    for (i = 0; i < 3000; i++)
        exact_add_int(&x, INT64_MIN);
    exact_int128(&x, &hi, &lo);
    assert_int_equal(hi, -1001);
    assert_true(lo == 0 - (uint64_t)1000);
    exact_fini(&x);
}

static void
infinities_win(void **state)
{
    struct exact x = {0};

    (void)state;
    exact_add_double(&x, 1e308);
    exact_add_double(&x, INFINITY);
    assert_true(exact_round(&x) > DBL_MAX);
    exact_add_double(&x, -1e308);
    x = through_bytes(&x);
    assert_true(exact_round(&x) > DBL_MAX);
    exact_add_double(&x, -INFINITY);
    assert_true(isnan(exact_round(&x)));
    exact_fini(&x);
}

/* Prices, quarters and counts are the common case: no heap. */
static void
common_sums_take_no_heap(void **state)
{
    struct exact x = {0};
    int i;

    (void)state;
    (void)util_seed();
    for (i = 0; i < 100000; i++) {
        exact_add_double(&x, (double)util_below(1000000) / 100);
        exact_add_int(&x, (int64_t)util_below(1000));
    }
    assert_int_equal(exact_heap(&x), 0);
    assert_int_equal(sizeof x, 32);
    exact_fini(&x);
}

/* Sum of squares as an integer: multiples of 2^-10 below 2^30. */
static void
squares_are_exact(void **state)
{
    int round, i;

    (void)state;
    (void)util_seed();
    for (round = 0; round < 500; round++) {
        struct exact x = {0};
        struct ref r = {{0}};
        int shift = (int)util_below(1040) - 560;

        for (i = 0; i < 30; i++) {
            int64_t v = (int64_t)(int32_t)util_rand();

            exact_add_double_square(&x, ldexp((double)v, shift));
            ref_add_bits(&r, (uint64_t)(v * v), 2 * shift, false);
        }
        assert_same(exact_round(&x), ref_round(&r));
        exact_fini(&x);
    }
}

/* A subnormal sum is rounded once, not first to 53 bits. */
static void
tiny_squares_are_rounded_once(void **state)
{
    struct exact x = {0};

    (void)state;
    exact_add_double_square(&x, 0x1p-530);
    exact_add_double_square(&x, 0x1p-538);
    exact_add_double_square(&x, 0x1p-538);
    exact_add_double_square(&x, 0x1p-560);
    assert_same(exact_round(&x), 0x1p-1060 + 0x1p-1074);
    exact_fini(&x);
}

static void
squares_of_all_integers_are_exact(void **state)
{
    struct exact x = {0};
    struct ref r = {{0}};
    int i;

    (void)state;
    (void)util_seed();
    for (i = 0; i < 1000; i++) {
        int64_t v = (int64_t)util_rand() >> util_below(62);
        uint64_t m = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
        uint64_t a = m >> 32, b = m & 0xffffffffu;

        exact_add_int_square(&x, v);
        ref_add_bits(&r, a * a, 64, false);
        ref_add_bits(&r, a * b, 33, false);
        ref_add_bits(&r, b * b, 0, false);
    }
    assert_same(exact_round(&x), ref_round(&r));
    exact_fini(&x);
}

static void
damaged_bytes_are_refused(void **state)
{
    struct exact x = {0}, back;
    struct buf b;
    size_t len;

    (void)state;
    exact_add_double(&x, 1e300);
    exact_add_double(&x, 1e-300);
    buf_init(&b);
    exact_encode(&x, &b);
    for (len = 0; len < b.len; len++) {
        const char *p = b.data;

        memset(&back, 0, sizeof back);
        assert_false(exact_decode(&back, &p, b.data + len));
        exact_fini(&back);
    }
    exact_fini(&x);
    buf_fini(&b);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_the_reference),
        cmocka_unit_test(rounds_half_to_even),
        cmocka_unit_test(merging_in_any_order_gives_the_same),
        cmocka_unit_test(integers_are_exact_in_128_bits),
        cmocka_unit_test(infinities_win),
        cmocka_unit_test(common_sums_take_no_heap),
        cmocka_unit_test(squares_are_exact),
        cmocka_unit_test(tiny_squares_are_rounded_once),
        cmocka_unit_test(squares_of_all_integers_are_exact),
        cmocka_unit_test(damaged_bytes_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
