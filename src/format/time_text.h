/*
 * Time as text: RFC 3339 to milliseconds since 1970-01-01 UTC and back.
 *
 * Years 0000 to 9999, proleptic Gregorian calendar, no leap seconds (a
 * second of 60 is refused). Pure functions, any thread.
 */
#ifndef FORMAT_TIME_TEXT_H
#define FORMAT_TIME_TEXT_H

#include <stddef.h>
#include <stdint.h>

enum { TIME_TEXT_MAX = 40 };

/**
 * Read `2026-01-02T03:04:05.678+01:00`.
 *
 * `T` (any case) or one space; a fraction of any length, floored to ms; the
 * zone `Z` (any case), `+hh:mm` or `-hh:mm`, none means UTC.
 * @param ret_ms set on success.
 * @return 0, or -1 if the text is none or the date does not exist.
 * @source RFC 3339 section 5.6.
 */
int time_text_parse(const char *text, size_t len, int64_t *ret_ms);

/**
 * Write `ms` as `2026-01-02T03:04:05.678Z`.
 *
 * @return the length (24), NUL-terminated; outside the years 0000 to 9999
 *         the milliseconds in decimal.
 */
size_t time_text_format(int64_t ms, char out[TIME_TEXT_MAX]);

#endif
