/*
 * Generator templates: record index in, one JSON object out.
 *
 * The pure part of the generator source: everything but functions depends
 * only on seed, index and field, so an oracle can compute it. A field is
 * `{ name, gen }` with gen one of (API.md section 3, "Generator templates")
 *
 *   kind "sequence" from, step     kind "int", "float"       a, b
 *        "time"     start, step         "zipf"               n, exponent
 *        "cycle", "choice" values       "hex"                len
 *        "const"    value               "func"               func
 *
 * Draw: u = M(M(M(seed) xor i) xor f), M one step of splitmix64, f the rank
 * of the name in byte order, counted over all fields.
 *
 * Immutable after gen_new(), so all tasks share one. Limits: GEN_ZIPF_MAX
 * ranks (8 bytes each), GEN_HEX_MAX digits.
 */
#ifndef CONNECT_GEN_H
#define CONNECT_GEN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/opts.h"
#include "core/connector.h"

enum { GEN_ZIPF_MAX = 100000000, GEN_HEX_MAX = 1 << 20 };

struct gen;

struct gen_call {      /* how user functions are reached */
    conn_call_f *call; /* NULL: none; a func field is then an error */
    void *script;
    struct arena *arena; /* for their values, until the record is written */
};

/**
 * Read the templates and make their tables.
 *
 * @param fields list of fields in any order (they are sorted); NULL = none.
 *        Borrowed for this call.
 * @param seed   the option `seed`.
 * @return 0, or ERR_JOBFILE: an unknown kind, an empty list or range, a limit
 *         passed.
 * @thread coordinator.
 */
MUST_USE int gen_new(const struct opt *fields, uint64_t seed, struct gen **ret,
                     struct err *e);
void gen_free(struct gen **g);

/** Bytes one record needs at most, its functions' values aside. */
size_t gen_size_max(const struct gen *g);

/**
 * Append the object of record `i`. A function that gives nil leaves its
 * field out.
 *
 * @param ext set true if the text is extended JSON (core/rec.h), else kept.
 * @return 0; or what the call of a function gives, `b` then as before.
 * @thread any, one call at a time per `c` and `b`.
 */
MUST_USE int gen_put(const struct gen *g, uint64_t i, const struct gen_call *c,
                     struct buf *b, bool *ext, struct err *e);

#endif
