#include "main/sizing.h"

#include <math.h>

/* Decimal inputs are not exact in binary: 0.3 / (1 * 0.1) is a hair above 3
 * and means 3. */
static double
round_up(double x)
{
    double n;

    if (x > 2. * SIZING_PARALLELISM_MAX) /* maybe infinite */
        return x;
    n = ceil(x - 1e-9 * (x < 1 ? 1 : x));
    return n < 1 ? 1 : n;
}

struct sizing
sizing_compute(const struct sizing_in *in)
{
    double each = in->capacity * in->utilization;
    double extra = in->within_s > 0 ? in->backlog / in->within_s : 0;
    double alone = round_up(in->rate / each), left;
    struct sizing s = {.binds = BINDS_RATE};
    uint32_t groups =
        in->max_parallelism != 0 ? in->max_parallelism : SIZING_PARALLELISM_MAX;

    s.needed = left = round_up((in->rate + extra) / each);
    if (s.needed > alone)
        s.binds = BINDS_CATCH_UP;
    if (in->partitions != 0 && left > in->partitions) {
        left = in->partitions;
        s.binds = BINDS_PARTITIONS;
    }
    if (left > groups) {
        left = groups;
        s.binds = BINDS_KEY_GROUPS;
    }
    s.parallelism = (uint32_t)left;
    s.sustained = left * each;
    return s;
}

const char *
sizing_binds_name(enum sizing_binds b)
{
    static const char *const names[] = {
        [BINDS_RATE] = "rate",
        [BINDS_CATCH_UP] = "catch-up",
        [BINDS_PARTITIONS] = "partitions",
        [BINDS_KEY_GROUPS] = "key-groups",
    };

    return names[b];
}
