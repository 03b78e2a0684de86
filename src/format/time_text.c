#include "format/time_text.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

enum { DAY_MS = 86400000 };

/* Days since 1970-01-01 of a date in the proleptic Gregorian calendar.
 * @source H. Hinnant, "chrono-Compatible Low-Level Date Algorithms". */
static int64_t
days_of(int64_t y, int64_t m, int64_t d)
{
    int64_t era, yoe, doy;

    y -= m <= 2;
    era = (y >= 0 ? y : y - 399) / 400;
    yoe = y - era * 400;
    doy = (153 * (m + (m > 2 ? -3 : 9)) + 2) / 5 + d - 1;
    return era * 146097 + yoe * 365 + yoe / 4 - yoe / 100 + doy - 719468;
}

static void
date_of(int64_t days, int *y, int *m, int *d)
{
    int64_t z = days + 719468;
    int64_t era = (z >= 0 ? z : z - 146096) / 146097;
    int64_t doe = z - era * 146097;
    int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    int64_t mp = (5 * doy + 2) / 153;

    *d = (int)(doy - (153 * mp + 2) / 5 + 1);
    *m = (int)(mp < 10 ? mp + 3 : mp - 9);
    *y = (int)(yoe + era * 400 + (*m <= 2));
}

struct text {
    const char *p, *end;
};

static bool
take(struct text *t, const char *set)
{
    for (; *set != '\0'; set++)
        if (t->p < t->end && *t->p == *set) {
            t->p++;
            return true;
        }
    return false;
}

/* Exactly `digits` digits of a number in [min, max]. */
static bool
number(struct text *t, int digits, int min, int max, int *ret)
{
    int i, v = 0;

    for (i = 0; i < digits; i++, t->p++) {
        if (t->p == t->end || *t->p < '0' || *t->p > '9')
            return false;
        v = v * 10 + (*t->p - '0');
    }
    *ret = v;
    return v >= min && v <= max;
}

static bool
is_leap(int y)
{
    return y % 4 == 0 && (y % 100 != 0 || y % 400 == 0);
}

static int
month_days(int y, int m)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

    return m == 2 && is_leap(y) ? 29 : days[m - 1];
}

static bool
date(struct text *t, int64_t *ret_days)
{
    int y, m, d;

    if (!number(t, 4, 0, 9999, &y) || !take(t, "-") ||
        !number(t, 2, 1, 12, &m) || !take(t, "-") ||
        !number(t, 2, 1, month_days(y, m), &d))
        return false;
    *ret_days = days_of(y, m, d);
    return true;
}

/* Digits behind the point; the first three count. */
static bool
fraction(struct text *t, int *ret_ms)
{
    int i, scale = 100;

    *ret_ms = 0;
    if (!take(t, "."))
        return true;
    for (i = 0; t->p < t->end && *t->p >= '0' && *t->p <= '9'; i++, t->p++) {
        *ret_ms += (*t->p - '0') * scale;
        scale /= 10;
    }
    return i > 0;
}

static bool
zone(struct text *t, int64_t *ret_minutes)
{
    bool minus;
    int h, m;

    *ret_minutes = 0;
    if (t->p == t->end || take(t, "Zz"))
        return true;
    minus = *t->p == '-';
    if (!take(t, "+-") || !number(t, 2, 0, 23, &h) || !take(t, ":") ||
        !number(t, 2, 0, 59, &m))
        return false;
    *ret_minutes = (minus ? -1 : 1) * (h * 60 + m);
    return true;
}

int
time_text_parse(const char *text, size_t len, int64_t *ret_ms)
{
    struct text t = {text, text + len};
    int64_t days, minutes;
    int h, m, s, ms;

    if (!date(&t, &days) || !take(&t, "Tt ") || !number(&t, 2, 0, 23, &h) ||
        !take(&t, ":") || !number(&t, 2, 0, 59, &m) || !take(&t, ":") ||
        !number(&t, 2, 0, 59, &s) || !fraction(&t, &ms) ||
        !zone(&t, &minutes) || t.p != t.end)
        return -1;
    *ret_ms =
        days * DAY_MS + ((h * 60 + m - minutes) * 60 + s) * (int64_t)1000 + ms;
    return 0;
}

size_t
time_text_format(int64_t ms, char out[TIME_TEXT_MAX])
{
    int64_t days = ms / DAY_MS, rest = ms % DAY_MS;
    int y, mo, d, n;

    if (rest < 0) {
        rest += DAY_MS;
        days--;
    }
    if (days < days_of(0, 1, 1) || days > days_of(9999, 12, 31)) {
        n = snprintf(out, TIME_TEXT_MAX, "%" PRId64, ms);
        return (size_t)n;
    }
    date_of(days, &y, &mo, &d);
    n = snprintf(out, TIME_TEXT_MAX, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", y,
                 mo, d, (int)(rest / 3600000), (int)(rest / 60000 % 60),
                 (int)(rest / 1000 % 60), (int)(rest % 1000));
    return (size_t)n;
}
