/*
 * The queues of a job in a box: what its sources will read and what its sinks
 * got. They outlive the job's attempts, as topics outlive a process.
 *
 * Entries are numbered by the call that put them in (`seq`), over all sources.
 * Tasks see those up to `limit` only, so that after a crash the calls can be
 * repeated one by one, each to its end, as they were made. A partition's
 * position is the number of its entries that were read; it goes into rounds.
 *
 * Thread: one, which runs the job, too; `prepare` and the like are not used.
 */
#ifndef TESTING_QUEUE_H
#define TESTING_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/connector.h"

enum { QUEUE_PARTITIONS_MAX = 4096 };

enum queue_kind { QUEUE_RECORD, QUEUE_WATERMARK, QUEUE_IDLE };

struct queue_entry {
    enum queue_kind kind;
    uint64_t seq;
    int64_t wm;                        /* QUEUE_WATERMARK */
    int64_t offset;                    /* QUEUE_RECORD: its number among them */
    char *value, *key;                 /* NULL: none; REC_PAD bytes behind */
    const struct rec_headers *headers; /* in queue_set.arena, or NULL */
    size_t value_len, key_len;
    int64_t ts; /* with has_ts */
    bool has_ts;
};

struct queue_part {
    int32_t number;
    uint64_t made;  /* seq of the call that named it first */
    int64_t end_ms; /* virtual time of the newest entry, or when it was made */
    struct queue_entry *entries;
    size_t count, cap;
    int64_t records;
};

struct queue_source {
    char *name;
    char *format; /* "json" where the connector has none */
    bool live;    /* a step of the job as it is now */
    uint16_t topic;
    struct queue_part *parts;
    size_t part_count, part_cap;
    uint64_t ended; /* seq of the end of input; 0: not yet */
};

struct queue_row {
    uint64_t round; /* the first round it is in */
    bool tombstone, has_ts, has_key;
    int64_t ts;
    char *key, *json; /* json: NUL-terminated */
    size_t key_len, json_len;
};

struct queue_sink {
    char *name;
    char *format;
    bool live;
    struct queue_row *rows;
    size_t count, cap;
    size_t taken; /* rows before it were seen */
};

struct queue_set {
    struct arena arena; /* names and values of headers */
    struct queue_source **sources;
    size_t source_count, source_cap;
    struct queue_sink **sinks;
    size_t sink_count, sink_cap;
    uint64_t seq;   /* of the newest call */
    uint64_t limit; /* see above */
    uint64_t kept;  /* all up to it is in the last round */
    uint64_t rnd;   /* state of queue_draw() */
};

void queue_set_init(struct queue_set *q, uint64_t seed);
void queue_set_fini(struct queue_set *q);
/** Forget which sources and sinks the job has, before queue_add_...(). */
void queue_set_unlive(struct queue_set *q);
/** The job has this source or sink: made if need be. */
void queue_add_source(struct queue_set *q, const char *name,
                      const char *format);
void queue_add_sink(struct queue_set *q, const char *name, const char *format);
/** By name; NULL if the job has none of it. */
struct queue_source *queue_find_source(const struct queue_set *q,
                                       const char *name);
struct queue_sink *queue_find_sink(const struct queue_set *q, const char *name);
/** The partition of that number, made if need be: of the call q->seq. */
struct queue_part *queue_part(struct queue_set *q, struct queue_source *s,
                              int32_t number, int64_t now_ms);
/** Append an entry of the call q->seq; @return it, zeroed. */
struct queue_entry *queue_append(struct queue_set *q, struct queue_part *p,
                                 enum queue_kind kind, int64_t now_ms);
/** Rows that are in no round up to `round` never were. */
void queue_cut(struct queue_set *q, uint64_t round);
/** A number below `n` > 0, drawn from the seed. */
uint32_t queue_draw(struct queue_set *q, uint32_t n);
/** `len` bytes with REC_PAD zeros behind them; freed with free(). */
char *queue_bytes(const void *bytes, size_t len);

/* conn_env.box is the queue_set. */
extern const struct source_type queue_source_type;
extern const struct sink_type queue_sink_type;

#endif
