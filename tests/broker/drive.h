/*
 * Drives a Kafka source or sink as slots and coordinator would, in one
 * thread, for the broker tests. Options are built with drive_str() and its
 * kind before drive_open(). Every close stands under an alarm of ten
 * seconds: a leaked message or list would hang it for ever.
 */
#ifndef TESTS_BROKER_DRIVE_H
#define TESTS_BROKER_DRIVE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "core/connector.h"

enum { DRIVE_TASKS_MAX = 8 };

struct drive_rec {
    char *key, *val; /* NUL-terminated copies, NULL: null */
    uint32_t key_len, val_len;
    int64_t ts, offset;
    int32_t partition;
    uint8_t kind, flags;
    uint16_t topic;
    char *headers; /* "name=value;..." */
};

struct drive {
    struct arena arena;
    struct opt *opts, *cli, *job;
    struct conn_env env;
    struct source *source;
    struct source_task *tasks[DRIVE_TASKS_MAX];
    struct sink *sink;
    struct sink_task *outs[DRIVE_TASKS_MAX];
    bool ended[DRIVE_TASKS_MAX];
    struct drive_rec *recs;
    size_t count, cap;
    uint32_t added, discovered, at_end, part_ends;
    uint32_t max; /* records a poll */
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool woken;
    struct err err;
};

/** Empty options for step "events" of job "test". */
void drive_init(struct drive *d, const char *servers, uint32_t parallelism);
/** Set an option of the step. */
void drive_str(struct drive *d, const char *name, const char *value);
void drive_int(struct drive *d, const char *name, int64_t value);
/** Set a property of the step. */
void drive_prop(struct drive *d, const char *name, const char *value);
/** Set `name` = { what = value }: start, stop. */
void drive_table(struct drive *d, const char *name, const char *what,
                 int64_t value);
/** Set `name`.offsets[partition]; `text` NULL: `value`. */
void drive_offset(struct drive *d, const char *name, int32_t partition,
                  const char *text, int64_t value);
/** Set cli.bounded. */
void drive_bounded(struct drive *d);

/** Open source or sink with its tasks; @return its code, error in err. */
int drive_open_source(struct drive *d);
int drive_open_sink(struct drive *d);

/**
 * Poll all tasks until `count` records are there (0: no bound), all tasks
 * have ended, an error comes, or `ms` pass.
 * @return 0 (ended or enough), 1 (time is over), or the error's code.
 */
int drive_read(struct drive *d, size_t count, int64_t ms);

/** Commit the positions of all tasks, finally. */
void drive_commit(struct drive *d);

/**
 * What a round keeps of the source: the snapshots of all tasks, as they come
 * back. Ended by drive_blobs_fini(); set it as env.restored of another.
 */
void drive_snapshot(struct drive *d, struct step_blobs *ret);
void drive_blobs_fini(struct step_blobs *b);

/** Wait until the sink has delivered everything; as drive_read(). */
int drive_flush(struct drive *d, int64_t ms);

/** Write one record through task `task`, waiting while it is not ready. */
int drive_write(struct drive *d, uint32_t task, const struct rec *r,
                const struct sink_message *m);

/** Close everything; @return how long it took, ms. */
int64_t drive_close(struct drive *d);

/** The servers given by STREAMLUA_TEST_BROKER; ends with 77 without it. */
const char *drive_servers(void);
/** A topic name that no other test uses; lives until the next 16 calls. */
const char *drive_topic(const char *base);
/** Run `broker.py VERB` on the test's broker; false if it is not ours. */
bool drive_broker(const char *verb);
/** Send `sig` to the broker; false if it is not ours. */
bool drive_signal(int sig);

#endif
