/*
 * Rows expected and rows got: are they the same, and if not, what differs.
 *
 * Used by session.c. Thread: any.
 * Limits: COMPARE_SHOWN differences are told, the rest is counted.
 */
#ifndef TESTING_COMPARE_H
#define TESTING_COMPARE_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/opts.h"

enum { COMPARE_SHOWN = 10 };

struct compare_conf {
    bool ordered; /* else any order */
    bool subset;  /* a row may have more fields than are wanted */
};

/**
 * Compare two lists of rows (testing/value.h), the maps in them sorted.
 *
 * Without order rows are matched so that as many as possible find a partner,
 * whatever marks the wanted ones have.
 *
 * @param out on a difference: a line that counts, then for each missing row a
 *        line `- …`, for each unexpected one `+ …`, the nearest ones beside
 *        each other with a line for each field that differs. No NUL.
 * @return whether they are the same.
 */
bool compare_rows(const struct opt *want, const struct opt *got,
                  const struct compare_conf *conf, struct buf *out);

#endif
