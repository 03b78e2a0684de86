/*
 * Doubles to text and back. C++ only for std::to_chars and std::from_chars,
 * which are shortest and correctly rounded; declared for C in base/buf.h.
 */
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>

extern "C" {
#include "base/buf.h"
}

namespace
{

/* Digits of the shortest form and its decimal exponent: 0.d1d2... * 10^exp. */
struct digits {
    char text[24];
    int count;
    int exp;
};

digits
shortest(double d)
{
    char sci[NUM_TEXT_MAX];
    auto r = std::to_chars(sci, sci + sizeof sci, d,
                           std::chars_format::scientific);
    digits out{};
    const char *p = sci;
    for (; p < r.ptr && *p != 'e'; p++)
        if (*p != '.')
            out.text[out.count++] = *p;
    int e = 0;
    const char *q = p + 1;
    if (*q == '+')
        q++;
    std::from_chars(q, r.ptr, e);
    out.exp = e + 1;
    return out;
}

char *
put_zeros(char *p, int n)
{
    while (n-- > 0)
        *p++ = '0';
    return p;
}

char *
put_plain(char *p, const digits &g)
{
    if (g.exp <= 0) {
        *p++ = '0';
        *p++ = '.';
        p = put_zeros(p, -g.exp);
        std::memcpy(p, g.text, (size_t)g.count);
        return p + g.count;
    }
    if (g.count <= g.exp) {
        std::memcpy(p, g.text, (size_t)g.count);
        p = put_zeros(p + g.count, g.exp - g.count);
        *p++ = '.';
        *p++ = '0';
        return p;
    }
    std::memcpy(p, g.text, (size_t)g.exp);
    p += g.exp;
    *p++ = '.';
    std::memcpy(p, g.text + g.exp, (size_t)(g.count - g.exp));
    return p + (g.count - g.exp);
}

char *
put_exponent(char *p, const digits &g)
{
    int e = g.exp - 1;

    *p++ = g.text[0];
    if (g.count > 1) {
        *p++ = '.';
        std::memcpy(p, g.text + 1, (size_t)(g.count - 1));
        p += g.count - 1;
    }
    *p++ = 'e';
    *p++ = e < 0 ? '-' : '+';
    if (e < 0)
        e = -e;
    if (e < 10)
        *p++ = '0';
    return std::to_chars(p, p + 4, e).ptr;
}

} // namespace

size_t
num_text_double(double d, char out[NUM_TEXT_MAX])
{
    char *p = out;

    if (std::isnan(d)) {
        std::memcpy(out, "NaN", 4);
        return 3;
    }
    if (std::signbit(d)) {
        *p++ = '-';
        d = -d;
    }
    if (std::isinf(d)) {
        std::memcpy(p, "Infinity", 9);
        return (size_t)(p - out) + 8;
    }
    if (d == 0) {
        std::memcpy(p, "0.0", 4);
        return (size_t)(p - out) + 3;
    }
    digits g = shortest(d);
    p = g.exp > -4 && g.exp <= 16 ? put_plain(p, g) : put_exponent(p, g);
    *p = '\0';
    return (size_t)(p - out);
}

bool
num_read_double(const char *text, size_t len, double *ret)
{
    double d = 0;

    if (len > 0 && *text == '+')
        return false;
    auto r = std::from_chars(text, text + len, d);
    if (r.ptr != text + len || len == 0)
        return false;
    if (r.ec == std::errc::result_out_of_range) {
        /* Underflow rounds to zero or a subnormal; overflow is refused. */
        d = strtod(std::string(text, len).c_str(), nullptr);
        if (std::isinf(d))
            return false;
    } else if (r.ec != std::errc()) {
        return false;
    }
    if (!std::isfinite(d))
        return false;
    *ret = d;
    return true;
}
