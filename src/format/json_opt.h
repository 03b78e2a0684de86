/*
 * JSON as a tree of plain data (base/opts.h): objects of the control socket,
 * rows of tests. Not for records: those keep their text.
 */
#ifndef FORMAT_JSON_OPT_H
#define FORMAT_JSON_OPT_H

#include "base/opts.h"
#include "format/json.h"

/**
 * Make the tree of a decoded value. Of members of one name the first counts.
 *
 * @param v list and map as json_value() gives them; at most JSON_DEPTH_MAX
 *        deep, which json_value() sees to.
 * @param ret copies, in `a`. @return 0 or ERR_RECORD of the text within.
 * @thread any.
 */
MUST_USE int json_opt(const struct val *v, enum json_bigint bigint,
                      struct arena *a, struct opt **ret, struct err *e);

#endif
