/*
 * The part of simdjson that format/ uses, behind a C face.
 *
 * Private to format/ (and its tests, which use the second as an independent
 * opinion on the grammar). Thread: any; a parser is kept per thread.
 */
#ifndef FORMAT_SIMD_H
#define FORMAT_SIMD_H

#include <stdbool.h>
#include <stddef.h>

/* What simdjson may read behind a text, and the nesting it accepts. */
enum { SIMD_PAD = 64, SIMD_DEPTH_MAX = 1024 };

/** Whether `len` bytes are valid UTF-8; needs no padding. */
bool simd_utf8_ok(const char *text, size_t len);

/**
 * Whether simdjson's DOM parser accepts the text.
 *
 * False says little: integers beyond 64 bits and doubles beyond the range
 * are refused like bad grammar (DESIGN section 10).
 * @param text `len` bytes with SIMD_PAD readable bytes behind.
 */
bool simd_json_ok(const char *text, size_t len);

#endif
