/*
 * Questions to the broker: topics, partition counts, topic settings.
 *
 * Used by source.c, sink.c and preflight.c on the coordinator thread, by
 * sink_topic.c also on its own. Each call waits for the answer, at most as
 * long as it says.
 */
#ifndef KAFKA_ADMIN_H
#define KAFKA_ADMIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/opts.h"
#include "kafka/client.h"

enum {
    ADMIN_AWAY = -1,      /* no answer in time */
    ADMIN_UNKNOWN = -2,   /* the topic does not exist */
    ADMIN_REFUSED = -3,   /* it cannot be used, and waiting does not help */
    ADMIN_VALUE_MAX = 256 /* bytes of a setting with its NUL */
};

/* Settings of a topic that bound what may be written to it. */
struct admin_limits {
    int64_t max_message_bytes; /* of a batch, after compression */
    int64_t ts_after_ms;       /* how far ahead of now a timestamp may be */
};

/**
 * Find a topic, waiting for the broker as long as the connect timeout.
 *
 * @param ret_partitions set on success, > 0.
 * @return 0, ERR_UNAVAILABLE, ERR_CONFIG (missing, not allowed, login).
 * @thread coord.
 */
MUST_USE int admin_find_topic(struct client *c, const char *topic,
                              int32_t *ret_partitions, struct err *e);

/**
 * Partitions of a topic now.
 * @return their number, ADMIN_AWAY or ADMIN_UNKNOWN. @thread coord.
 */
int32_t admin_count_partitions(struct client *c, const char *topic,
                               int timeout_ms);

/**
 * Call `each` with the name of every topic there is.
 * @return false: no answer in time. @thread coord.
 */
bool admin_list_topics(struct client *c, int timeout_ms,
                       void (*each)(void *arg, const char *name), void *arg);

/**
 * Read the limits of a topic; Kafka's defaults where it cannot be asked.
 * @thread coord; waits up to `timeout_ms`.
 */
void admin_limits(struct client *c, const char *topic, int timeout_ms,
                  struct admin_limits *ret);

/**
 * Read one setting of a topic, or of the brokers (`topic` NULL).
 *
 * @param ret NUL-terminated, cut at `size`; untouched on failure.
 * @return whether it could be read: an old broker, or one without the right
 *         DESCRIBE_CONFIGS, does not tell. @thread coord; waits up to
 *         `timeout_ms`.
 */
bool admin_setting(struct client *c, const char *topic, const char *name,
                   int timeout_ms, char *ret, size_t size);

/**
 * As admin_count_partitions(), with a reason.
 *
 * @param e filled for ADMIN_UNKNOWN and ADMIN_REFUSED (ERR_CONFIG).
 * @thread any; waits up to `timeout_ms`, for a hint a little longer.
 */
int32_t admin_look(struct client *c, const char *topic, int timeout_ms,
                   struct err *e);

/* A topic to be made. */
struct admin_topic {
    const char *name;
    int32_t partitions;       /* -1: the brokers' default */
    int32_t replication;      /* likewise */
    const struct opt *config; /* names and scalars, or NULL */
};

/** Read `create` of a sink's options. @return whether there is one. */
bool admin_read_create(const struct opt *opts, struct admin_topic *ret);

/**
 * Make a topic. One that exists is left as it is.
 *
 * @return 0, ERR_UNAVAILABLE (retriable), ERR_CONFIG (no right to, a setting
 *         or number that the broker refuses: its words).
 * @thread any; waits up to `timeout_ms`.
 */
MUST_USE int admin_create(struct client *c, const struct admin_topic *topic,
                          int timeout_ms, struct err *e);
/** As admin_create(): compacted, one partition, the brokers' replicas. */
MUST_USE int admin_create_compacted(struct client *c, const char *topic,
                                    int timeout_ms, struct err *e);

/**
 * Find a topic as admin_find_topic() does, and make it first if it is missing
 * and `create` is not NULL. @thread coord.
 */
MUST_USE int admin_find_or_create(struct client *c, const char *topic,
                                  const struct admin_topic *create,
                                  int32_t *ret_partitions, struct err *e);

#endif
