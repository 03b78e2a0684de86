/*
 * Plain librdkafka for the broker tests: make topics, produce with and
 * without transactions, read to the end. Nothing of streamlua's own source
 * or sink is used, so that both can be judged by it. Every call ends the
 * program with a message when it fails. One thread.
 */
#ifndef TESTS_BROKER_KT_H
#define TESTS_BROKER_KT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <librdkafka/rdkafka.h>

/** Make a topic; `configs` are "name=value", NULL-terminated, or NULL. */
void kt_create(const char *servers, const char *topic, int partitions,
               const char *const *configs);
/** Delete a topic and wait until it is gone. */
void kt_delete(const char *servers, const char *topic);
/** Grow a topic to `partitions`. */
void kt_grow(const char *servers, const char *topic, int partitions);
/** Delete the records of a partition in front of `offset`. */
void kt_trim(const char *servers, const char *topic, int partition,
             int64_t offset);

/** A producer; `txn_id` NULL: none. `extra` as configs, or NULL. */
rd_kafka_t *kt_producer(const char *servers, const char *txn_id,
                        const char *const *extra);

struct kt_record {
    const char *key, *val; /* NULL: null */
    size_t key_len, val_len;
    int64_t ts;                  /* 0: now */
    int32_t partition;           /* -1: by the partitioner */
    rd_kafka_headers_t *headers; /* taken; NULL: none */
};

/** Produce one record (waits while the queue is full). */
void kt_put(rd_kafka_t *rk, const char *topic, const struct kt_record *r);
/** Produce a string to a partition, key NULL. */
void kt_puts(rd_kafka_t *rk, const char *topic, int partition, const char *val);
/** Wait until all is delivered. */
void kt_flush(rd_kafka_t *rk);
/** Begin a transaction. */
void kt_begin(rd_kafka_t *rk);
/** End it: commit or abort. */
void kt_end(rd_kafka_t *rk, bool commit);
/** Flush and destroy a producer. */
void kt_close(rd_kafka_t **rk);

/** Gets each record; its bytes are valid during the call only. */
typedef void kt_each_f(void *arg, const rd_kafka_message_t *m);

/**
 * Read all partitions from their beginning to the end they have now.
 * @return the number of records.
 */
int64_t kt_read(const char *servers, const char *topic, bool committed,
                kt_each_f *each, void *arg);
/** First and last offset (of committed records if so asked). */
void kt_ends(const char *servers, const char *topic, int partition,
             bool committed, int64_t *low, int64_t *high);
/**
 * Wait until no transaction is open: a commit is answered when it is decided,
 * and visible a moment later.
 */
void kt_settle(const char *servers, const char *topic, int partitions);
/** Commit an offset of partition 0 for a group, with metadata. */
void kt_commit(const char *servers, const char *group, const char *topic,
               int64_t offset, const char *metadata);
/** Number of partitions, 0 if the topic does not exist. */
int kt_partitions(const char *servers, const char *topic);

#endif
