/*
 * Option trees: checked, normalised options as plain data.
 *
 * The job file's calls are checked and normalised (durations to int ms,
 * sizes to int bytes, defaults filled in) by lua/streamlua; script/ turns
 * the result into one `struct opt` tree per step. Plan, operators and
 * connectors read it with the accessors below; nobody changes it. User
 * functions appear as OPT_FUNC with their number in the Lua state (the same
 * in each load of the same file). Immutable after building, so any thread.
 */
#ifndef BASE_OPTS_H
#define BASE_OPTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"

enum opt_type {
    OPT_NIL,
    OPT_BOOL,
    OPT_INT,
    OPT_DBL,
    OPT_STR,
    OPT_LIST,
    OPT_MAP,
    OPT_FUNC /* i = number of the function, from 1 */
};

struct opt {
    enum opt_type type;
    const char *name;  /* member name in a map, else NULL */
    const char *s;     /* OPT_STR: NUL-terminated, len bytes */
    size_t len;        /* bytes of a string, count of a list or map */
    int64_t i;         /* OPT_INT, OPT_FUNC, OPT_BOOL (0 or 1) */
    double d;          /* OPT_DBL */
    struct opt *first; /* first member or element */
    struct opt *next;  /* next member or element, in order */
};

/** New value in `a`, type nil. @thread the builder. */
struct opt *opt_new(struct arena *a);
/** New string value in `a` (bytes copied). @thread the builder. */
struct opt *opt_new_str(struct arena *a, const char *s, size_t len);
/** New int value in `a`. @thread the builder. */
struct opt *opt_new_int(struct arena *a, int64_t i);
/** New empty list or map in `a`. @thread the builder. */
struct opt *opt_new_list(struct arena *a);
struct opt *opt_new_map(struct arena *a);
/** Append to a list or map (name copied to `a`, NULL in a list). */
void opt_add(struct arena *a, struct opt *parent, const char *name,
             struct opt *child);

/** Member `name` of map `o`; NULL if absent or o is NULL or no map. */
const struct opt *opt_get(const struct opt *o, const char *name);
/** Element `index` (from 0) of a list; NULL beyond the end. */
const struct opt *opt_at(const struct opt *o, size_t index);
/** Member as int, or `dflt` if absent or not an int. */
int64_t opt_int(const struct opt *o, const char *name, int64_t dflt);
/** Member as bool, or `dflt`. */
bool opt_bool(const struct opt *o, const char *name, bool dflt);
/** Member as double (ints convert), or `dflt`. */
double opt_dbl(const struct opt *o, const char *name, double dflt);
/** Member as string, or `dflt`; valid as long as the tree. */
const char *opt_str(const struct opt *o, const char *name, const char *dflt);
/** Number of the function of member `name`, or 0 if it is none. */
int opt_func(const struct opt *o, const char *name);
/** Whether there is a function in `o`, at any depth; NULL has none. */
bool opt_has_func(const struct opt *o);
/** Whether string member `name` equals `value`. */
bool opt_is(const struct opt *o, const char *name, const char *value);

/** Append `o` as JSON (functions as {"func":n}). @thread any. */
void opt_put_json(struct buf *b, const struct opt *o);

#endif
