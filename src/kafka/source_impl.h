/*
 * Inside of the Kafka source, shared by source.c, source_start.c and
 * source_task.c only.
 *
 * Who may touch what:
 *   struct source       coordinator, but for `stopping`, `tasks` (read by
 *                       any thread in stop()) and the list of parts (only
 *                       grows; read by any thread in lag())
 *   struct source_task  its slot, but for `intake` (pushed by coordinator)
 *   struct part         what is above the line is fixed before it is handed
 *                       over; below it belongs to the slot, but for atomics
 *
 * Life of a partition: made by the coordinator (at open, or discovered) ->
 * assigned -> pushed on its task's intake -> announced (SOURCE_ADDED) ->
 * read -> bounded: ended by a record or end-of-partition at its end offset
 * -> done (the coordinator unassigns it).
 */
#ifndef KAFKA_SOURCE_IMPL_H
#define KAFKA_SOURCE_IMPL_H

#include <regex.h>
#include <stdatomic.h>

#include "kafka/client.h"
#include "kafka/position.h"

#define PART_UNBOUNDED INT64_MAX

enum start_kind {
    START_EARLIEST,
    START_LATEST,
    START_COMMITTED,
    START_COMMITTED_EARLIEST,
    START_COMMITTED_LATEST,
    START_TIMESTAMP,
    START_OFFSETS
};

enum stop_kind { STOP_NEVER, STOP_LATEST, STOP_TIMESTAMP, STOP_OFFSETS };

struct part {
    const char *topic; /* borrows the source's list of topics */
    int32_t partition;
    uint16_t topic_id;
    uint32_t index; /* in sorted order; task = index % parallelism */
    int64_t start;  /* offset, or POSITION_BEGINNING */
    int64_t end;    /* first offset not to read, or PART_UNBOUNDED */
    bool discovered;
    rd_kafka_queue_t *queue;         /* NULL: nothing to read */
    struct position_mark found;      /* to be verified, offset -1: none */
    _Atomic(struct part *) next_all; /* the source's list */
    struct part *next_intake;
    /* -- the slot's -- */
    uint32_t number; /* task-local */
    bool ended;      /* nothing more will be read */
    bool end_told;   /* SOURCE_PART_END was given */
    struct position_mark last;
    uint64_t tried;      /* the poll that looked at it last */
    _Atomic int64_t pos; /* next offset, or POSITION_BEGINNING */
    atomic_bool done;    /* set by the slot: may be unassigned */
    bool unassigned;     /* coordinator's */
};

struct source_pattern { /* "^…": topics that match are read */
    const char *text;   /* the option's */
    regex_t re;
};

struct source_topic {
    char *name;
    uint16_t id;
    int32_t partitions; /* known so far */
};

struct source_task {
    struct source *source;
    struct conn_task conf;
    struct part **parts;
    size_t count, cap;
    size_t announced; /* of parts */
    size_t turn;      /* whose queue is asked next */
    uint64_t polls;
    size_t ended;         /* of parts */
    size_t told;          /* of ended: SOURCE_PART_END was given */
    struct part *current; /* whose messages are in msgs */
    rd_kafka_message_t **msgs;
    size_t msgs_cap, n, at, freed; /* freed <= at <= n */
    _Atomic(struct part *) intake;
};

struct source {
    struct conn_env env;
    struct client *client;
    struct source_topic *topics;
    size_t topic_count, topic_cap;
    struct source_pattern *patterns;
    size_t pattern_count;
    struct part **parts; /* by index */
    size_t count, cap;
    _Atomic(struct part *) all;
    struct part *all_last;
    enum start_kind start;
    int64_t start_ts;
    const struct opt *start_offsets;
    enum stop_kind stop;
    int64_t stop_ts;
    const struct opt *stop_offsets;
    bool drop_tombstones;
    uint8_t rec_flags;
    char *group;
    rd_kafka_queue_t *commits; /* answers to commits */
    int64_t discovery_ms;      /* interval; <= 0: never */
    int64_t discover_at;
    int64_t unknown_since; /* a topic is missing since then; 0: none */
    bool commit_warned;
    atomic_bool stopping;
    _Atomic(struct source_task *) *tasks; /* env.parallelism */
};

/**
 * Read `topic`: names and patterns. @return 0, ERR_JOBFILE (none, or a
 * pattern that is no regular expression). @thread coord.
 */
MUST_USE int source_read_topics(struct source *s, struct err *e);
void source_free_topics(struct source *s);
/** Whether a topic of that name is read by a pattern. */
bool source_matches(const struct source *s, const char *name);
/**
 * Add the topics that match now; does nothing without patterns.
 * @return 0, ERR_CONFIG (the source has no topic at all), ERR_UNAVAILABLE.
 * @thread coord; waits as long as the connect timeout.
 */
MUST_USE int source_find_matching(struct source *s, struct err *e);
/**
 * Add topics that match and were not there before, with no partitions yet.
 * @return false: no answer in time. @thread coord.
 */
bool source_discover_topics(struct source *s, int timeout_ms);

/** Read `start` and `stop` of the options. @thread coord. */
MUST_USE int source_read_policy(struct source *s, struct err *e);

/** Find start and end offsets of all parts. @thread coord; may block. */
MUST_USE int source_resolve(struct source *s, struct err *e);

/** Offsets by time (-1 the end, -2 the beginning) of the parts wanted. */
MUST_USE int source_list_offsets(struct source *s, const bool *want, int64_t ts,
                                 int64_t *ret, struct err *e);

/**
 * Positions of the round the job begins from, by index of the part.
 * @param want scratch, one entry a part.
 * @return 0, ERR_CONFIG (a position is not in the log any more), ERR_IO,
 *         ERR_UNAVAILABLE. @thread coord; may block.
 */
MUST_USE int source_restore(struct source *s, int64_t *at, bool *want,
                            struct err *e);

/** `e` says that `topic` is missing: say so as the checkpoint sees it. */
int source_restore_gone(const struct source *s, const char *topic,
                        struct err *e);

/**
 * Compare the records that committed marks speak of with what is there now.
 * @return 0, ERR_CONFIG if a topic holds other data than it did.
 * @thread coord; may block.
 */
MUST_USE int source_verify(struct source *s, struct err *e);

/** The slot's half of the connector. */
int source_task_new(struct source *s, const struct conn_task *conf,
                    struct source_task **ret, struct err *e);
int source_task_poll(struct source_task *t, struct batch *batch, uint32_t max,
                     struct source_event *ev, struct err *e);
int source_task_snapshot(struct source_task *t, struct buf *out, struct err *e);
void source_task_free(struct source_task **t);
/** Headers of a message, for rec_headers_reader(). */
const struct rec_headers *source_read_headers(void *message, struct arena *a);
/** Hand a partition to its task. @thread coord. */
void source_task_give(struct source_task *t, struct part *p);

#endif
