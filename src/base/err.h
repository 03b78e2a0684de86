/*
 * Errors: one record that says what happened, where, and what to try.
 *
 * Used by every floor. Fallible functions return 0 or a negative ERR_ code
 * and fill a caller-owned `struct err`. The code says what happened (and so
 * which exit code the process ends with), the cause says which record-level
 * policy applies, the flags say what a caller may do about it.
 *
 * Thread: a `struct err` belongs to whoever declared it; nothing is shared.
 * Limits: message, hint, place and trace are cut at their array sizes.
 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#define MUST_USE __attribute__((warn_unused_result))
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))

/* What happened. Zero is success; each maps to one exit code. */
enum err_code {
    ERR_FAIL = -1,        /* job or test failed: exit 1 */
    ERR_USAGE = -2,       /* wrong call: 64 */
    ERR_JOBFILE = -3,     /* bad or unreadable job file: 65 */
    ERR_UNAVAILABLE = -4, /* broker unavailable: 69 */
    ERR_INTERNAL = -5,    /* our bug: 70 */
    ERR_NOMEM = -6,       /* no memory: 70 */
    ERR_BUSY = -7,        /* data directory in use, job taken over: 73 */
    ERR_IO = -8,          /* I/O error or damage: 74 */
    ERR_TEMP = -9,        /* temporary: 75 */
    ERR_CONFIG = -10,     /* configuration or equality rule: 78 */
    ERR_RECORD = -11,     /* one record is at fault; see the cause: exit 1 */
    ERR_AGAIN = -12,      /* nothing now, ask again; never leaves a floor */
};

/* Why one record failed, as API.md section 8 counts it. */
enum err_cause {
    CAUSE_NONE,
    CAUSE_DECODE,
    CAUSE_TIMESTAMP,
    CAUSE_FUTURE,
    CAUSE_USER_ERROR,
    CAUSE_TYPE,
    CAUSE_OVERFLOW,
    CAUSE_ENCODE,
    CAUSE_NULL_KEY,
    CAUSE_BIGINT,
    CAUSE_LATE,       /* counted as dropped only, never an error */
    CAUSE_INCOMPLETE, /* counted as dropped only, never an error */
    CAUSE_COUNT
};

enum {
    ERR_RETRIABLE = 1u, /* the same call may succeed later */
    ERR_ABORT_TXN = 2u, /* the transaction must be given up */
    ERR_FATAL = 4u,     /* the handle or process cannot go on */
};

enum {
    ERR_MSG_MAX = 1024,
    ERR_HINT_MAX = 256,
    ERR_WHERE_MAX = 256,
    ERR_TRACE_MAX = 1024
};

struct err {
    int code; /* enum err_code, 0 = none */
    enum err_cause cause;
    unsigned flags;
    char msg[ERR_MSG_MAX];     /* one line, factual */
    char hint[ERR_HINT_MAX];   /* what to try, or "" */
    char where[ERR_WHERE_MAX]; /* "job.lua:12", or "" */
    char trace[ERR_TRACE_MAX]; /* Lua traceback lines, or "" */
};

/**
 * Empty `e`. @thread the owner of e.
 */
void err_clear(struct err *e);

/**
 * Fill `e` with `code` and a formatted message, forgetting what it held.
 *
 * @param e    may be NULL (the message is dropped, the code returned).
 * @param code negative enum err_code.
 * @return code, so that `return err_set(e, ...)` reads well.
 * @thread the owner of e.
 */
int err_set(struct err *e, int code, const char *fmt, ...) PRINTF_LIKE(3, 4);

/** As err_set() with a va_list. @thread the owner of e. */
int err_vset(struct err *e, int code, const char *fmt, va_list ap)
    PRINTF_LIKE(3, 0);

/**
 * Fill `e` as the failure of one record: code ERR_RECORD with a cause.
 *
 * @return ERR_RECORD. @thread the owner of e.
 */
int err_record(struct err *e, enum err_cause cause, const char *fmt, ...)
    PRINTF_LIKE(3, 4);

/** Set the hint of `e` (NULL e is ignored). @thread the owner of e. */
void err_hint(struct err *e, const char *fmt, ...) PRINTF_LIKE(2, 3);

/** Set the place of `e`, "file:line" (NULL e is ignored). @thread owner. */
void err_where(struct err *e, const char *fmt, ...) PRINTF_LIKE(2, 3);

/**
 * Put context in front of the message: "context: message".
 *
 * @return e's code. @thread the owner of e.
 */
int err_context(struct err *e, const char *fmt, ...) PRINTF_LIKE(2, 3);

/** The exit code of a negative ERR_ code; 0 for 0. @thread any. */
int err_exit_code(int code);

/** The name of a cause as API.md writes it ("decode"). @thread any. */
const char *err_cause_name(enum err_cause cause);

#endif
