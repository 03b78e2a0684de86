#include "format/layout_body.h"

uint32_t
layout_fit(const struct layout *l, struct pass *ps, const char *p,
           const char **pos)
{
    return fit_body(l, ps, p, pos);
}

bool
layout_pair(const struct layout *l, struct pass *a, struct pass *b)
{
    return pair_body(l, a, b);
}
