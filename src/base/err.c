#include "base/err.h"

#include <stdio.h>
#include <string.h>

void
err_clear(struct err *e)
{
    if (e == NULL)
        return;
    e->code = 0;
    e->cause = CAUSE_NONE;
    e->flags = 0;
    e->msg[0] = e->hint[0] = e->where[0] = e->trace[0] = '\0';
}

int
err_vset(struct err *e, int code, const char *fmt, va_list ap)
{
    if (e == NULL)
        return code;
    err_clear(e);
    e->code = code;
    (void)vsnprintf(e->msg, sizeof e->msg, fmt, ap);
    return code;
}

int
err_set(struct err *e, int code, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    (void)err_vset(e, code, fmt, ap);
    va_end(ap);
    return code;
}

int
err_record(struct err *e, enum err_cause cause, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    (void)err_vset(e, ERR_RECORD, fmt, ap);
    va_end(ap);
    if (e != NULL)
        e->cause = cause;
    return ERR_RECORD;
}

void
err_hint(struct err *e, const char *fmt, ...)
{
    va_list ap;

    if (e == NULL)
        return;
    va_start(ap, fmt);
    (void)vsnprintf(e->hint, sizeof e->hint, fmt, ap);
    va_end(ap);
}

void
err_where(struct err *e, const char *fmt, ...)
{
    va_list ap;

    if (e == NULL)
        return;
    va_start(ap, fmt);
    (void)vsnprintf(e->where, sizeof e->where, fmt, ap);
    va_end(ap);
}

int
err_context(struct err *e, const char *fmt, ...)
{
    char head[ERR_MSG_MAX], all[2 * ERR_MSG_MAX + 3];
    va_list ap;

    if (e == NULL)
        return ERR_INTERNAL;
    va_start(ap, fmt);
    (void)vsnprintf(head, sizeof head, fmt, ap);
    va_end(ap);
    (void)snprintf(all, sizeof all, "%s: %s", head, e->msg);
    all[sizeof e->msg - 1] = '\0';
    memcpy(e->msg, all, sizeof e->msg);
    return e->code;
}

int
err_exit_code(int code)
{
    switch (code) {
    case 0:
        return 0;
    case ERR_FAIL:
    case ERR_RECORD:
        return 1;
    case ERR_USAGE:
        return 64;
    case ERR_JOBFILE:
        return 65;
    case ERR_UNAVAILABLE:
        return 69;
    case ERR_BUSY:
        return 73;
    case ERR_IO:
        return 74;
    case ERR_TEMP:
        return 75;
    case ERR_CONFIG:
        return 78;
    default:
        return 70;
    }
}

const char *
err_cause_name(enum err_cause cause)
{
    static const char *const names[CAUSE_COUNT] = {
        [CAUSE_NONE] = "none",
        [CAUSE_DECODE] = "decode",
        [CAUSE_TIMESTAMP] = "timestamp",
        [CAUSE_FUTURE] = "future",
        [CAUSE_USER_ERROR] = "user_error",
        [CAUSE_TYPE] = "type",
        [CAUSE_OVERFLOW] = "overflow",
        [CAUSE_ENCODE] = "encode",
        [CAUSE_NULL_KEY] = "null_key",
        [CAUSE_BIGINT] = "bigint",
        [CAUSE_LATE] = "late",
        [CAUSE_INCOMPLETE] = "incomplete",
    };

    return cause < CAUSE_COUNT ? names[cause] : "none";
}
