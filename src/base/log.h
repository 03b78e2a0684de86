/*
 * The log: lines on stderr, as text or as JSON objects.
 *
 * Text: `2026-01-02T03:04:05.678Z INFO  checkpoint 17 completed steps=6`.
 * One writev per line, so lines of threads do not mix. Lower floors do not
 * log; they return errors. Level, format and the destination are set once by
 * main before threads start.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR, LOG_OFF };

struct log_kv {
    const char *key;   /* "step", "ms", ... */
    const char *value; /* text; quoted in JSON unless is_number */
    bool is_number;
};

/** Set the least level shown and the format. @thread main, before others. */
void log_setup(enum log_level level, bool json);
/** Colour level names and "error:" of text lines. @thread main, as above. */
void log_set_color(bool on);
/**
 * Keep INFO lines off the terminal while a progress line is drawn (text
 * only); other lines clear it first. Turning it off clears the line.
 * @thread coordinator.
 */
void log_set_progress(bool on);
/** Draw the progress line anew; nothing while off. @thread coordinator. */
void log_progress(const char *text);
/** Whether lines go out as JSON. @thread any. */
bool log_is_json(void);
/** Whether a line of `level` would be shown. @thread any. */
bool log_enabled(enum log_level level);
/** Read "debug", "info", "warn", "error"; @return false if none of them. */
bool log_level_read(const char *name, enum log_level *ret);

/** Write one line. @thread any. */
void log_line(enum log_level level, const char *fmt, ...) PRINTF_LIKE(2, 3);
/** Write one line with `count` key=value pairs. @thread any. */
void log_kvs(enum log_level level, const char *msg, const struct log_kv *kvs,
             int count);

/** Coordinates of a record in an error report; all optional. */
struct log_record {
    const char *step;       /* "filter-1" */
    const char *step_place; /* "job.lua:5" */
    const char *topic;      /* NULL: no record */
    int32_t partition;
    int64_t offset;
    const char *key; /* NULL: none */
    size_t key_len;
    int64_t timestamp;
    bool has_timestamp;
    const char *value; /* payload, any bytes; NULL: absent */
    size_t value_len;
    uint64_t count; /* > 0: how many so far, of a skipped kind */
};

/**
 * Report `e` as API.md section 8 shows: text of several lines, or one JSON
 * object. At load (`runtime` false) just "FILE:LINE: message" and a hint.
 *
 * @param r may be NULL. @thread any.
 */
void log_error(const struct err *e, bool runtime, const struct log_record *r);
/** As log_error() at level WARN for a skipped record. @thread any. */
void log_skipped(const struct err *e, const struct log_record *r);

#endif
