/*
 * One librdkafka handle: its configuration, its errors, its end.
 *
 * Used by source.c, sink.c, admin.c and preflight.c, each of which owns one
 * `struct client`. The coordinator opens, ticks and closes it. error_cb may
 * run in another thread (the sink's poller), so what it leaves behind is
 * atomic: the text of the last error, and flags. The library's log lines go
 * to base/log.
 *
 * Closing has a deadline: rd_kafka_destroy() of 2.0.2 hangs for ever when an
 * assigned topic was deleted, so it runs in a thread that is left behind
 * when the deadline passes.
 */
#ifndef KAFKA_CLIENT_H
#define KAFKA_CLIENT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <librdkafka/rdkafka.h>

#include "core/connector.h"

enum {
    CLIENT_CONNECT_MS = 30000,  /* default wait for a broker at start */
    CLIENT_WAIT_TOLD_MS = 2000, /* after which a start says that it waits */
    CLIENT_CLOSE_MS = 2000,     /* deadline of a close */
    CLIENT_PROBE_MS = 1000      /* between looks for a broker that is away */
};

enum client_kind { CLIENT_CONSUMER, CLIENT_PRODUCER };

struct client {
    rd_kafka_t *rk;
    enum client_kind kind;
    char *name;              /* "source events", for messages */
    char *servers;           /* bootstrap servers in use */
    char *place;             /* "job.lua:6" */
    char *last;              /* last error's text; coordinator */
    _Atomic(char *) news;    /* newer text, or NULL; owned by who takes it */
    atomic_bool down;        /* all brokers are unreachable */
    atomic_bool auth_failed; /* a login was refused, or TLS does not fit */
    atomic_bool suspect;     /* a topic or partition was said to be unknown */
    bool old_scram;          /* SCRAM with a library that cannot do it */
    int64_t connect_ms;      /* how long to wait for a broker at start */
    int64_t down_ms; /* since when it is said to be away; 0: it is not */
    bool down_told;
    bool wait_told;   /* that the start waits for a broker */
    int64_t probe_ms; /* when to look again */
    void *user;       /* whose it is, for the callbacks of that one */
    /* The handle is of no more use; any thread. NULL: nobody is told. */
    void (*on_fatal)(struct client *c, rd_kafka_resp_err_t err,
                     const char *text);
};

/** A client for `env`; no handle yet. Ended by client_close(). */
struct client *client_new(enum client_kind kind, const struct conn_env *env);

/**
 * Build the configuration: the engine's defaults, then the properties of
 * job, step and -X, each overriding what is before it.
 *
 * @param ret_conf set on success; given to client_start() or destroyed by
 *                 the caller.
 * @return 0, ERR_CONFIG (no bootstrap servers), ERR_JOBFILE, ERR_USAGE.
 * @thread coord.
 */
MUST_USE int client_conf(struct client *c, const struct conn_env *env,
                         rd_kafka_conf_t **ret_conf, struct err *e);

/** Check the properties of `env` and nothing else. As client_conf(). */
MUST_USE int client_check(enum client_kind kind, const struct conn_env *env,
                          struct err *e);

/** Whether job, step or -X set property `name`. @thread coord. */
bool client_is_set(const struct conn_env *env, const char *name);

/** Set a property of the engine's; a value refused is our bug. */
void client_force(rd_kafka_conf_t *conf, const char *name, const char *value);
/** As client_force() with a number. */
void client_force_int(rd_kafka_conf_t *conf, const char *name, int64_t value);
/** KiB that a producer's queue may hold: the connector's part of
 * memory.buffers, at least 1 MiB, at most `most`. */
int64_t client_queue_kbytes(const struct conn_env *env, int64_t most);

/**
 * Make the handle. `conf` is taken in any case.
 * @return 0, ERR_CONFIG (the properties do not go together).
 * @thread coord.
 */
MUST_USE int client_start(struct client *c, rd_kafka_conf_t **conf,
                          struct err *e);

/** Serve callbacks without waiting. @thread coord. */
void client_poll(struct client *c);

/** The last error's text, or "no answer"; valid until the next call. */
const char *client_reason(struct client *c);

/**
 * After a failed call at start: give up now?
 * @param deadline_ms monotonic.
 * @return 0 to try again, ERR_CONFIG (login), ERR_UNAVAILABLE (time is up).
 * @thread coord.
 */
MUST_USE int client_retry(struct client *c, int64_t deadline_ms, struct err *e);

/** What a refused login is told by: ERR_CONFIG. @thread coord. */
MUST_USE int client_login_failed(struct client *c, struct err *e);

/** Whether a broker answers within `timeout_ms`. @thread any. */
bool client_answers(struct client *c, int timeout_ms);

/**
 * Say once when the brokers are away and once when they are back.
 * @thread coord, from tick; asks at most once a CLIENT_PROBE_MS, for up to
 * 100 ms, while they are away.
 */
void client_watch(struct client *c);

/**
 * Run rd_kafka_destroy() for `rk`, whatever it takes. A thread's main; what
 * client_join() waits for.
 */
void *client_destroy_main(void *rk);

/**
 * Wait for the thread that destroys the handle, at most CLIENT_CLOSE_MS.
 * @return false if it is left behind; then `c` must stay. @thread coord.
 */
bool client_join(struct client *c, pthread_t thread);

/** Destroy the handle with a deadline. @return as client_join(). */
bool client_stop(struct client *c);

/**
 * As client_stop(), then free the client, unless it is left behind.
 * @param c NULL, or pointing to NULL, is accepted. @thread coord.
 */
void client_close(struct client **c);

#endif
