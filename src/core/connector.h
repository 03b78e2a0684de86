/*
 * Connectors: the two interfaces by which records enter and leave.
 *
 * kafka/ and connect/ implement them, op/ uses them (op_source, op_sink),
 * run/ opens and closes them. A connector has a job-level part (opened by
 * the coordinator before slots start) and one task per subtask (used by its
 * slot thread only). Nothing here blocks a slot: a poll with nothing to give
 * returns at once, and `wake` is called (from any thread) when there is more.
 */
#ifndef CORE_CONNECTOR_H
#define CORE_CONNECTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/opts.h"
#include "core/rec.h"
#include "core/snapshot.h"

/* Called from any thread when the task may have something to do. */
typedef void conn_wake_f(void *arg);

/* How a committing sink's own marker is to be taken (API.md section 9.1). */
enum conn_recover {
    RECOVER_NOT,     /* by the equality rule, else refuse */
    RECOVER_FRESH,   /* --fresh, --new-lineage: the marker is replaced */
    RECOVER_REWIND,  /* go on from the own checkpoint, rows may be doubled */
    RECOVER_DISCARD, /* start policies, new lineage */
};

enum { CONN_LINEAGE_SIZE = 16 };

/* The job's checkpoints, as a connector sees them. */
struct conn_ckpt {
    const uint8_t *lineage; /* CONN_LINEAGE_SIZE bytes */
    uint64_t round;         /* the complete one it begins from, 0 = fresh */
    enum conn_recover recover;
    bool finished; /* the job ended with `round` and is not run again: what is
                      opened brings its target to that round, then close()
                      follows */
    void *txn; /* struct txn of kafka/: the job's transactions; NULL = none */
};

/* What a target that decides a round holds: the round, and the token that came
 * with it: who committed it, one line, opaque to the target. */
enum { CONN_TOKEN_MAX = 192 };

struct conn_round {
    bool found;
    uint64_t round;
    char token[CONN_TOKEN_MAX]; /* "": the target keeps none */
};

/* What run/ gives a connector when it opens it. */
struct conn_env {
    const char *job;        /* job name */
    const char *step;       /* step name */
    const char *place;      /* "job.lua:6" */
    const struct opt *opts; /* normalised options of source or sink */
    const struct opt
        *job_opts;         /* job options (bootstrap_servers, properties) */
    const struct opt *cli; /* map: "X" (map of -X), "bootstrap_servers",
                              "bounded" (bool); never NULL */
    uint32_t parallelism;  /* subtasks */
    uint16_t src;          /* number of the source step (rec.src) */
    void *script;          /* coordinator's struct script, for Lua connectors;
                              NULL where none is needed */
    const struct conn_ckpt *ckpt; /* NULL: the job keeps no checkpoints */
    /* What the step gave to the round it begins from: snapshots of all its
     * tasks of then. NULL: it begins by its options. Until close(). */
    const struct step_blobs *restored;
    int64_t buffer_bytes; /* of memory.buffers for this connector; 0: as much
                             as it likes */
    void *box; /* of the queues of a job in a box (run/box.h); else NULL */
};

/* Calls function `func` of the task's Lua state with one integer. The hook
 * by which connect/ (below script/) reaches user code: generator fields. */
typedef int conn_call_f(void *script, int func, int64_t arg, struct arena *a,
                        struct val *ret, struct err *e);

/* What run/ gives a connector for one subtask. */
struct conn_task {
    uint32_t subtask;
    conn_wake_f *wake; /* any thread may call it */
    void *wake_arg;
    void *script;      /* the subtask's struct script, or NULL */
    conn_call_f *call; /* set whenever script is */
};

enum source_event_kind {
    SOURCE_NONE,      /* nothing now; asked again after wake or wait_ms */
    SOURCE_BATCH,     /* batch holds >= 1 records, all of partition `part` */
    SOURCE_ADDED,     /* partition `part` now belongs to this task */
    SOURCE_AT_END,    /* `part` has nothing more to read at the moment */
    SOURCE_PART_END,  /* `part` will never give records again */
    SOURCE_PART_IDLE, /* `part` is idle as of now, whatever the clock says */
    SOURCE_WATERMARK, /* nothing up to the time `wm` follows in `part` */
    SOURCE_END        /* no partition of this task ever will */
};

struct source_bad { /* a record of the batch that cannot be used */
    uint32_t index;
    enum err_cause cause;
    const char *msg;   /* valid until the next poll */
    const char *where; /* likewise: place in the job file; NULL: the step's */
};

struct source_event {
    enum source_event_kind kind;
    uint32_t part;     /* task-local number of a partition, from 0, dense */
    int64_t wait_ms;   /* SOURCE_NONE: ask again after this; -1 = only wake */
    uint64_t bytes;    /* SOURCE_BATCH: payload and key bytes read */
    bool discovered;   /* SOURCE_ADDED: found while running, not at start */
    uint16_t topic;    /* SOURCE_ADDED: its origin, as in the records */
    int32_t partition; /* SOURCE_ADDED: likewise */
    int64_t past_ms;   /* SOURCE_AT_END: for how long already */
    int64_t wm;        /* SOURCE_WATERMARK */
    const struct source_bad *bad; /* of SOURCE_BATCH, ascending index */
    uint32_t bad_count;
};

struct source;      /* job-level, private to the connector */
struct source_task; /* per subtask, private to the connector */

struct source_type {
    const char *name; /* "kafka" */
    /* Records come undecoded: kind is REC_TOMBSTONE (val NULL) or REC_TEXT
     * with any bytes, and op_source runs the format's reader over them. */
    bool raw_payload;
    /**
     * Open the job-level part: reach the outside, find partitions and start
     * positions. May block (coordinator thread).
     * @return 0, or ERR_UNAVAILABLE, ERR_CONFIG, ERR_IO, ERR_JOBFILE.
     */
    int (*open)(const struct conn_env *env, struct source **ret, struct err *e);
    /** Make the task of `subtask`; called by the coordinator. */
    int (*task_new)(struct source *s, const struct conn_task *conf,
                    struct source_task **ret, struct err *e);
    /**
     * Say what there is: at most `max` records of one partition into the
     * empty `batch`, or an event. The bytes stay valid until the next poll
     * of this task. Records have kind, val, key, headers, topic, partition,
     * offset, flags, src, and ts with REC_HAS_TS from the message.
     * A record found bad while reading (bad UTF-8, a CSV cell that does not
     * convert) is still delivered, raw, with ev->bad_count > 0 and its
     * reason in ev->bad; op_source applies the error policy.
     * @thread the slot of the subtask.
     */
    int (*poll)(struct source_task *t, struct batch *batch, uint32_t max,
                struct source_event *ev, struct err *e);
    /** Stop reading: the next polls give SOURCE_END (drain). Any thread. */
    void (*stop)(struct source *s);
    /**
     * Append the positions (of everything polled so far) as an opaque blob,
     * by partition: after a restore another task may own it. A partition
     * that a restored round does not name was discovered while the job was
     * down. @thread the slot of the subtask.
     */
    int (*snapshot)(struct source_task *t, struct buf *out, struct err *e);
    /**
     * Everything up to these positions has been processed and acknowledged:
     * `blobs` are the snapshots of all tasks of one round, in subtask order.
     * Kafka commits group offsets. May be NULL. @thread coordinator.
     */
    int (*committed)(struct source *s, const struct buf *blobs, uint32_t count,
                     bool final, struct err *e);
    /** Housekeeping (discovery, client callbacks); coordinator, ~100 ms. */
    int (*tick)(struct source *s, struct err *e);
    /** Records still to be read (Kafka lag), -1 unknown. Any thread. */
    int64_t (*lag)(struct source *s);
    void (*task_free)(struct source_task **t);
    /** Close with a deadline; never blocks the exit for ever. */
    void (*close)(struct source **s);
};

struct sink;
struct sink_task;

/* One encoded message for a raw_payload sink. */
struct sink_message {
    const char *key; /* NULL = no key */
    const char *val; /* NULL = tombstone */
    uint32_t key_len;
    uint32_t val_len;
    int32_t partition; /* -1 = by the partitioner */
    uint32_t topic;    /* as topic() gave it; else 0 */
};

struct sink_type {
    const char *name;
    /* op_sink encodes and calls write_raw; write is NULL then. */
    bool raw_payload;
    int (*open)(const struct conn_env *env, struct sink **ret, struct err *e);
    int (*task_new)(struct sink *s, const struct conn_task *conf,
                    struct sink_task **ret, struct err *e);
    /**
     * Whether the task takes more without growing beyond its bound. While
     * false, the chain is not run (backpressure); `wake` is called later.
     */
    bool (*ready)(struct sink_task *t);
    /**
     * Encode and accept one record. Accepted means it will be delivered or
     * reported by a later call's error; a full queue is no error (the task
     * holds the record and becomes unready).
     * @param key  bytes of the message key as decided by op_sink, or NULL.
     * @param ret_bytes set to the encoded size.
     * @return 0; ERR_RECORD cause encode for this record alone; else the
     *         sink is broken (ERR_IO, ERR_UNAVAILABLE, ERR_CONFIG).
     */
    int (*write)(struct sink_task *t, const struct rec *r, const char *key,
                 uint32_t key_len, uint64_t *ret_bytes, struct err *e);
    /**
     * As write() for raw_payload sinks: accept one encoded message. Key and
     * value are copied where they are kept, so they may be reused at once.
     * Timestamp (REC_HAS_TS) and headers are taken from `r`.
     * @param m  what op_sink made of the record.
     */
    int (*write_raw)(struct sink_task *t, const struct rec *r,
                     const struct sink_message *m, struct err *e);
    /** Hand buffered output on at the end of a batch; must be cheap. */
    int (*batch_end)(struct sink_task *t, struct err *e);
    /** The subtask has no input now: hand on what is gathered, for latency;
     * must not block. May be NULL. */
    int (*idle)(struct sink_task *t, struct err *e);
    /** Timestamps changed because the target would refuse them; may be NULL.
     * @thread any. */
    uint64_t (*clamped)(struct sink *s);
    /**
     * The number of the topic that a record's function named. May be NULL.
     * @return 0; ERR_AGAIN while it is looked for (wake follows): the record
     *         waits, and all behind it; ERR_RECORD cause encode: no name;
     *         else the sink is broken (ERR_CONFIG: there is no such topic).
     */
    int (*topic)(struct sink_task *t, const char *name, size_t len,
                 uint32_t *ret, struct err *e);
    /** Partitions of a topic, for partition=function; may be NULL. */
    int32_t (*partitions)(struct sink_task *t, uint32_t topic);
    /**
     * Make everything accepted so far delivered (before a barrier, at the
     * end). @return 0 when done, ERR_AGAIN while waiting (wake follows).
     */
    int (*flush)(struct sink_task *t, struct err *e);
    /**
     * At the barrier of `round` (SNAPSHOT_END: at the end of input), after
     * flush() said done: append what the round must remember. Everything
     * accepted so far belongs to it, what follows to the next. May be NULL.
     * @thread the slot of the subtask.
     */
    int (*snapshot)(struct sink_task *t, uint64_t round, struct buf *out,
                    struct err *e);
    /**
     * Make durable what the tasks' snapshots of a round speak of (file:
     * sync); the round's redo is written after it. May be NULL.
     * @thread the checkpoint thread, while tasks go on writing.
     */
    int (*prepare)(struct sink *s, struct err *e);
    /**
     * Round `round` is complete (file: rename). `final`: the job ends with
     * it. May be NULL. @thread coordinator.
     */
    int (*committed)(struct sink *s, uint64_t round, bool final, struct err *e);
    /**
     * Of a sink whose target decides a round: what the target holds now,
     * asked so that nothing of an earlier process can still change it. NULL
     * for all other sinks, as is commit(). @thread the task's owner.
     */
    int (*last_round)(struct sink_task *t, struct conn_round *ret,
                      struct err *e);
    /**
     * The redo of `r` is durable: make final in the target, in one step, what
     * was written up to its barrier, with `r` itself. From the barrier until
     * this call the task keeps what comes to itself (ready() bounds it).
     * @return 0; else what became of it is unknown.
     * @thread the task's owner: its slot, or, once its subtask is done, the
     *         checkpoint thread; the coordinator's at a start, for a task of
     *         its own.
     */
    int (*commit)(struct sink_task *t, const struct conn_round *r,
                  struct err *e);
    /** Housekeeping, coordinator thread, ~100 ms. May be NULL. */
    int (*tick)(struct sink *s, struct err *e);
    void (*task_free)(struct sink_task **t);
    void (*close)(struct sink **s);
};

#endif
