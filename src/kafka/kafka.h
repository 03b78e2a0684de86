/*
 * The Kafka connector: source, sink, and what the other verbs ask of them.
 *
 * run/ opens the two connector types; main's `check` and `explain` call
 * kafka_check() (no broker), `check --preflight` kafka_preflight() (asks the
 * broker). All of it on the coordinator thread, but for what core/connector.h
 * gives to slots. Records come and go as bytes: both types have raw_payload
 * set.
 *
 * Limits: topics, partitions and positions as Kafka has them; librdkafka
 * 2.0.2 or later. One consumer a source, one producer a sink.
 */
#ifndef KAFKA_KAFKA_H
#define KAFKA_KAFKA_H

#include <stdbool.h>

#include "core/connector.h"

extern const struct source_type kafka_source_type;
extern const struct sink_type kafka_sink_type;

/**
 * Check the options of a Kafka source or sink without asking a broker:
 * client properties, start and stop policies.
 *
 * @param env  as for open; bootstrap servers may be missing.
 * @param sink true for a sink, false for a source.
 * @return 0, ERR_JOBFILE (a property of the job), ERR_USAGE (one of -X).
 * @thread coord.
 */
MUST_USE int kafka_check(const struct conn_env *env, bool sink, struct err *e);

/**
 * Ask the broker whether a source or sink could be opened: reach it, find
 * the topics. Reads and writes nothing.
 *
 * @return 0, ERR_UNAVAILABLE (no answer within the connect timeout),
 *         ERR_CONFIG (topic missing or not allowed, login refused), and
 *         those of kafka_check().
 * @thread coord; blocks up to the connect timeout.
 */
MUST_USE int kafka_preflight(const struct conn_env *env, bool sink,
                             struct err *e);

/**
 * Whether a client could not be closed in time and was left behind, so that
 * the process should end with _exit(). @thread any.
 */
bool kafka_left_behind(void);

/** Version of the client library in use, "2.0.2". @thread any. */
const char *kafka_client_version(void);

#endif
