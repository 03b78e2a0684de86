#include "base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"

enum { SHOWN_MAX = 200 }; /* bytes of a value in a report, API.md section 8 */

/* Back to the first column and clear to its end. */
#define LINE_CLEAR "\r\x1b[K"

/* Set once by main before threads start, so plain variables. */
static enum log_level least = LOG_INFO;
static bool as_json;
static bool with_color;
/* Written by the coordinator, read by all; only the look depends on it. */
static atomic_bool progress_on;

static const char *const level_names[] = {"debug", "info", "warn", "error"};
static const char *const level_shown[] = {"DEBUG", "INFO ", "WARN ", "ERROR"};
static const char *const level_colors[] = {"\x1b[2m", "", "\x1b[33m",
                                           "\x1b[31m"};

void
log_setup(enum log_level level, bool json)
{
    least = level;
    as_json = json;
}

void
log_set_color(bool on)
{
    with_color = on;
}

bool
log_is_json(void)
{
    return as_json;
}

bool
log_enabled(enum log_level level)
{
    if (level == LOG_INFO && !as_json && atomic_load(&progress_on))
        return false;
    return level >= least && level < LOG_OFF;
}

bool
log_level_read(const char *name, enum log_level *ret)
{
    unsigned i;

    for (i = 0; i < sizeof level_names / sizeof *level_names; i++) {
        if (strcmp(level_names[i], name) == 0) {
            *ret = (enum log_level)i;
            return true;
        }
    }
    return false;
}

/* One write for the whole text; more only if the kernel took a part. */
static void
write_all(const char *text, size_t len)
{
    while (len > 0) {
        ssize_t n = write(STDERR_FILENO, text, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return; /* stderr is gone; there is nowhere to say so */
        text += n;
        len -= (size_t)n;
    }
}

void
log_set_progress(bool on)
{
    bool was = atomic_exchange(&progress_on, on);

    if (was && !on)
        write_all(LINE_CLEAR, sizeof LINE_CLEAR - 1);
}

void
log_progress(const char *text)
{
    struct buf b;

    if (!atomic_load(&progress_on))
        return;
    buf_init(&b);
    buf_adds(&b, LINE_CLEAR);
    buf_adds(&b, text);
    write_all(b.data, b.len);
    buf_fini(&b);
}

/* Begin a text that shall stand on lines of its own. */
static void
begin(struct buf *b)
{
    buf_init(b);
    if (atomic_load(&progress_on))
        buf_adds(b, LINE_CLEAR);
}

static void
finish(struct buf *b)
{
    write_all(b->data, b->len);
    buf_fini(b);
}

/* Length of the valid UTF-8 sequence at `s`, 0 if there is none. */
static size_t
utf8_len(const char *text, size_t len)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t n, i;
    uint32_t c;

    if (s[0] < 0x80)
        return 1;
    n = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    if (s[0] < 0xc2 || s[0] > 0xf4 || n > len)
        return 0;
    c = s[0] & (0xffu >> (n + 1));
    for (i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (s[i] & 0x3fu);
    }
    if ((n == 3 && (c < 0x800 || (c >= 0xd800 && c < 0xe000))) ||
        (n == 4 && (c < 0x10000 || c > 0x10ffff)))
        return 0;
    return n;
}

/* Append bytes so that they stay on one line and cannot steer a terminal. */
static void
put_shown(struct buf *b, const char *s, size_t len)
{
    size_t i = 0;

    while (i < len) {
        size_t n = utf8_len(s + i, len - i);
        unsigned char c = (unsigned char)s[i];

        if (c == '\n')
            buf_adds(b, "\\n");
        else if (c == '\t')
            buf_addc(b, '\t');
        else if (n == 0 || c < 0x20 || c == 0x7f)
            buf_addf(b, "\\x%02x", c);
        else
            buf_add(b, s + i, n);
        i += n != 0 ? n : 1;
    }
}

/* Append a JSON string; what is no UTF-8 becomes U+FFFD. */
static void
put_json(struct buf *b, const char *s, size_t len)
{
    struct buf clean;
    size_t i = 0;

    buf_init(&clean);
    while (i < len) {
        size_t n = utf8_len(s + i, len - i);

        if (n == 0)
            buf_adds(&clean, "\xef\xbf\xbd");
        else
            buf_add(&clean, s + i, n);
        i += n != 0 ? n : 1;
    }
    json_put_str(b, clean.data != NULL ? clean.data : "", clean.len);
    buf_fini(&clean);
}

static void
put_member(struct buf *b, const char *name, const char *text)
{
    if (text == NULL || *text == '\0')
        return;
    json_put_name(b, name, strlen(name));
    put_json(b, text, strlen(text));
}

static void
put_member_int(struct buf *b, const char *name, int64_t i)
{
    json_put_name(b, name, strlen(name));
    json_put_int(b, i);
}

/* Length of the part of a value that is shown: whole characters. */
static size_t
shown_len(const char *s, size_t len)
{
    size_t n = SHOWN_MAX;

    if (len <= SHOWN_MAX)
        return len;
    while (n > SHOWN_MAX - 4 && ((unsigned char)s[n] & 0xc0) == 0x80)
        n--;
    return n;
}

static void
put_head(struct buf *b, enum log_level level)
{
    int64_t now = clock_wall_ms();
    time_t sec = (time_t)(now / 1000);
    struct tm tm;
    char text[32];

    (void)gmtime_r(&sec, &tm);
    (void)strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm);
    buf_addf(b, "%s.%03dZ ", text, (int)(now % 1000));
    if (with_color)
        buf_adds(b, level_colors[level]);
    buf_adds(b, level_shown[level]);
    if (with_color)
        buf_adds(b, "\x1b[0m");
    buf_addc(b, ' ');
}

static void
put_head_json(struct buf *b, enum log_level level)
{
    buf_addc(b, '{');
    put_member(b, "level", level_names[level]);
    put_member_int(b, "time", clock_wall_ms());
}

static bool
is_bare(const char *s)
{
    return *s != '\0' && strpbrk(s, " \t\r\n\"=") == NULL;
}

static void
put_kv(struct buf *b, const char *key, const char *value)
{
    buf_addc(b, ' ');
    buf_adds(b, key);
    buf_addc(b, '=');
    if (is_bare(value))
        put_shown(b, value, strlen(value));
    else
        put_json(b, value, strlen(value));
}

void
log_kvs(enum log_level level, const char *msg, const struct log_kv *kvs,
        int count)
{
    struct buf b;
    int i;

    if (!log_enabled(level))
        return;
    begin(&b);
    if (as_json) {
        put_head_json(&b, level);
        json_put_name(&b, "message", 7);
        put_json(&b, msg, strlen(msg));
    } else {
        put_head(&b, level);
        put_shown(&b, msg, strlen(msg));
    }
    for (i = 0; i < count; i++) {
        if (!as_json) {
            put_kv(&b, kvs[i].key, kvs[i].value);
            continue;
        }
        json_put_name(&b, kvs[i].key, strlen(kvs[i].key));
        if (kvs[i].is_number)
            buf_adds(&b, kvs[i].value);
        else
            put_json(&b, kvs[i].value, strlen(kvs[i].value));
    }
    buf_adds(&b, as_json ? "}\n" : "\n");
    finish(&b);
}

void
log_line(enum log_level level, const char *fmt, ...)
{
    char text[2048];
    va_list ap;

    if (!log_enabled(level))
        return;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    log_kvs(level, text, NULL, 0);
}

static const char *
code_name(const struct err *e)
{
    if (e->cause != CAUSE_NONE)
        return err_cause_name(e->cause);
    switch (e->code) {
    case ERR_USAGE:
        return "usage";
    case ERR_JOBFILE:
        return "job_file";
    case ERR_UNAVAILABLE:
        return "unavailable";
    case ERR_NOMEM:
        return "no_memory";
    case ERR_BUSY:
        return "busy";
    case ERR_IO:
        return "io";
    case ERR_TEMP:
        return "temporary";
    case ERR_CONFIG:
        return "config";
    case ERR_FAIL:
    case ERR_RECORD:
        return "failed";
    default:
        return "internal";
    }
}

/* The place of the error itself, else that of its step. */
static const char *
place_of(const struct err *e, const struct log_record *r)
{
    if (e->where[0] != '\0')
        return e->where;
    return r != NULL && r->step_place != NULL ? r->step_place : "";
}

static void
put_report_json(struct buf *b, enum log_level level, const struct err *e,
                const struct log_record *r)
{
    put_head_json(b, level);
    put_member(b, "code", code_name(e));
    json_put_name(b, "message", 7);
    put_json(b, e->msg, strlen(e->msg));
    put_member(b, "step", r != NULL ? r->step : NULL);
    put_member(b, "place", place_of(e, r));
    if (r != NULL && r->topic != NULL) {
        put_member(b, "topic", r->topic);
        put_member_int(b, "partition", r->partition);
        put_member_int(b, "offset", r->offset);
        if (r->key != NULL) {
            json_put_name(b, "key", 3);
            put_json(b, r->key, shown_len(r->key, r->key_len));
        }
        if (r->value != NULL) {
            json_put_name(b, "value", 5);
            put_json(b, r->value, shown_len(r->value, r->value_len));
        }
    }
    put_member(b, "trace", e->trace);
    put_member(b, "hint", e->hint);
    if (r != NULL && r->count > 0)
        put_member_int(b, "count", (int64_t)r->count);
    buf_adds(b, "}\n");
}

static void
put_coordinates(struct buf *b, const struct log_record *r)
{
    put_shown(b, r->topic, strlen(r->topic));
    buf_addf(b, "[%" PRId32 "]@%" PRId64, r->partition, r->offset);
    if (r->key != NULL) {
        buf_adds(b, " key=");
        put_json(b, r->key, shown_len(r->key, r->key_len));
    }
    if (r->has_timestamp)
        buf_addf(b, " timestamp=%" PRId64, r->timestamp);
}

static void
put_record(struct buf *b, const struct log_record *r)
{
    buf_adds(b, "  record: ");
    put_coordinates(b, r);
    buf_addc(b, '\n');
    if (r->value == NULL)
        return;
    buf_adds(b, "  value: ");
    put_shown(b, r->value, shown_len(r->value, r->value_len));
    if (r->value_len > SHOWN_MAX)
        buf_addf(b, "   (first %d bytes)", SHOWN_MAX);
    buf_addc(b, '\n');
}

/* "  trace: first", the other lines below it. */
static void
put_trace(struct buf *b, const char *trace)
{
    const char *lead = "  trace: ";

    while (*trace != '\0') {
        size_t len = strcspn(trace, "\n");

        buf_adds(b, lead);
        put_shown(b, trace, len);
        buf_addc(b, '\n');
        trace += len + (trace[len] == '\n');
        lead = "         ";
    }
}

static void
put_step(struct buf *b, const struct err *e, const struct log_record *r)
{
    bool step = r != NULL && r->step != NULL;

    if (!step && e->cause == CAUSE_NONE)
        return;
    buf_addc(b, ' ');
    if (step) {
        buf_addf(b, " step: %s", r->step);
        if (r->step_place != NULL)
            buf_addf(b, " (%s)", r->step_place);
        if (e->cause != CAUSE_NONE)
            buf_adds(b, "  ");
    }
    if (e->cause != CAUSE_NONE)
        buf_addf(b, " cause: %s", err_cause_name(e->cause));
    buf_addc(b, '\n');
}

static void
put_report_text(struct buf *b, const struct err *e, bool runtime,
                const struct log_record *r)
{
    const char *place = place_of(e, r);

    if (runtime)
        buf_adds(b, with_color ? "\x1b[31merror:\x1b[0m " : "error: ");
    if (*place != '\0')
        buf_addf(b, "%s: ", place);
    put_shown(b, e->msg, strlen(e->msg));
    buf_addc(b, '\n');
    if (runtime) {
        put_step(b, e, r);
        if (r != NULL && r->topic != NULL)
            put_record(b, r);
        put_trace(b, e->trace);
    }
    if (e->hint[0] != '\0') {
        buf_adds(b, "  hint: ");
        put_shown(b, e->hint, strlen(e->hint));
        buf_addc(b, '\n');
    }
}

void
log_error(const struct err *e, bool runtime, const struct log_record *r)
{
    struct buf b;

    if (!log_enabled(LOG_ERROR))
        return;
    begin(&b);
    if (as_json)
        put_report_json(&b, LOG_ERROR, e, r);
    else
        put_report_text(&b, e, runtime, r);
    finish(&b);
}

/* "WARN  skipped a record: job.lua:6: message step=... record=..." */
static void
put_skipped_text(struct buf *b, const struct err *e, const struct log_record *r)
{
    const char *place = place_of(e, r);

    put_head(b, LOG_WARN);
    buf_adds(b, "skipped: ");
    if (*place != '\0')
        buf_addf(b, "%s: ", place);
    put_shown(b, e->msg, strlen(e->msg));
    if (r != NULL && r->step != NULL)
        put_kv(b, "step", r->step);
    if (e->cause != CAUSE_NONE)
        put_kv(b, "cause", err_cause_name(e->cause));
    if (r != NULL && r->count > 0)
        buf_addf(b, " count=%" PRIu64, r->count);
    if (r != NULL && r->topic != NULL) {
        buf_adds(b, " record=");
        put_coordinates(b, r);
    }
    if (r != NULL && r->topic != NULL && r->value != NULL) {
        buf_adds(b, " value=");
        put_shown(b, r->value, shown_len(r->value, r->value_len));
    }
    buf_addc(b, '\n');
}

void
log_skipped(const struct err *e, const struct log_record *r)
{
    struct buf b;

    if (!log_enabled(LOG_WARN))
        return;
    begin(&b);
    if (as_json)
        put_report_json(&b, LOG_WARN, e, r);
    else
        put_skipped_text(&b, e, r);
    finish(&b);
}
