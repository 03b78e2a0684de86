#include "main/cli_value.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { WORD_MAX = 63, DISTANCE_FAR = 99 };

static bool
is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool
value_read_int(const char *text, int64_t min, int64_t max, int64_t *ret)
{
    char *end;
    long long v;

    if (!is_digit(text[0]) && !(text[0] == '-' && is_digit(text[1])))
        return false;
    errno = 0;
    v = strtoll(text, &end, 10);
    if (errno != 0 || *end != '\0' || v < min || v > max)
        return false;
    *ret = v;
    return true;
}

/* The unit at *p in ms; moves *p behind it. 0 if there is none. */
static int64_t
read_unit(const char **p)
{
    static const struct {
        const char *name;
        int64_t ms;
    } units[] = {
        {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}};
    size_t i, len = 0;

    while ((*p)[len] >= 'a' && (*p)[len] <= 'z')
        len++;
    for (i = 0; i < sizeof units / sizeof units[0]; i++)
        if (strlen(units[i].name) == len &&
            strncmp(units[i].name, *p, len) == 0) {
            *p += len;
            return units[i].ms;
        }
    return 0;
}

/* One part, "1.5s": number, optional decimals, unit. */
static bool
read_part(const char **p, int64_t *ret_ms)
{
    int64_t whole = 0, frac = 0, scale = 1, unit, ms, rest;

    if (!is_digit(**p))
        return false;
    for (; is_digit(**p); (*p)++)
        if (__builtin_mul_overflow(whole, 10, &whole) ||
            __builtin_add_overflow(whole, **p - '0', &whole))
            return false;
    if (**p == '.') {
        (*p)++;
        if (!is_digit(**p))
            return false;
        for (; is_digit(**p); (*p)++) {
            if (scale >= 1000000000)
                return false;
            frac = frac * 10 + (**p - '0');
            scale *= 10;
        }
    }
    unit = read_unit(p);
    if (unit == 0 || __builtin_mul_overflow(frac, unit, &rest) ||
        rest % scale != 0 || __builtin_mul_overflow(whole, unit, &ms) ||
        __builtin_add_overflow(ms, rest / scale, &ms))
        return false;
    *ret_ms = ms;
    return true;
}

bool
value_read_duration(const char *text, int64_t *ret_ms)
{
    int64_t sum = 0, part;

    if (value_read_int(text, 0, INT64_MAX, &sum)) {
        *ret_ms = sum;
        return true;
    }
    if (*text == '\0')
        return false;
    while (*text != '\0')
        if (!read_part(&text, &part) || __builtin_add_overflow(sum, part, &sum))
            return false;
    *ret_ms = sum;
    return true;
}

bool
value_read_switch(const char *text, bool *ret)
{
    static const char *const yes[] = {"1", "true", "yes", "on"};
    static const char *const no[] = {"", "0", "false", "no", "off"};
    size_t i;

    for (i = 0; i < sizeof yes / sizeof yes[0]; i++)
        if (strcasecmp(text, yes[i]) == 0) {
            *ret = true;
            return true;
        }
    for (i = 0; i < sizeof no / sizeof no[0]; i++)
        if (strcasecmp(text, no[i]) == 0) {
            *ret = false;
            return true;
        }
    return false;
}

unsigned
value_distance(const char *a, const char *b)
{
    unsigned d[WORD_MAX + 1][WORD_MAX + 1], best;
    size_t la = strlen(a), lb = strlen(b), i, j;

    if (la > WORD_MAX || lb > WORD_MAX)
        return DISTANCE_FAR;
    for (i = 0; i <= la; i++)
        d[i][0] = (unsigned)i;
    for (j = 0; j <= lb; j++)
        d[0][j] = (unsigned)j;
    for (i = 1; i <= la; i++)
        for (j = 1; j <= lb; j++) {
            best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            if (d[i - 1][j] + 1 < best)
                best = d[i - 1][j] + 1;
            if (d[i][j - 1] + 1 < best)
                best = d[i][j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] &&
                a[i - 2] == b[j - 1] && d[i - 2][j - 2] + 1 < best)
                best = d[i - 2][j - 2] + 1;
            d[i][j] = best;
        }
    return d[la][lb];
}

bool
value_is_near(const char *word, unsigned distance)
{
    size_t len = strlen(word);

    return distance <= (len <= 4 ? 1u : len <= 8 ? 2u : 3u) && distance < len;
}
