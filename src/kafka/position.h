/*
 * Positions of a Kafka source: the blob a snapshot is made of.
 *
 * One entry a partition: the next offset to read, and what the last record
 * before it looked like (offset, timestamp, hash of its value), so that a
 * topic that was deleted and made again is noticed at a restart. The same
 * mark travels in the metadata of the group's committed offsets. Little
 * endian, versioned; written by slots, read by the coordinator. Stateless.
 */
#ifndef KAFKA_POSITION_H
#define KAFKA_POSITION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum {
    POSITION_BEGINNING = -2, /* next offset: the partition's first */
    POSITION_MARK_MAX = 96   /* bytes of a mark's text with its NUL */
};

/* The last record read; offset -1: none yet. */
struct position_mark {
    int64_t offset;
    int64_t ts;
    uint64_t hash;
};

struct position {
    const char *topic; /* topic_len bytes, no NUL; borrows the blob */
    size_t topic_len;
    int32_t partition;
    int64_t next;
    struct position_mark last;
};

/** Append the head of a blob. @thread owner of b. */
void position_put_head(struct buf *b);
/** Append one entry. @thread owner of b. */
void position_put(struct buf *b, const struct position *p);

/**
 * Read the entry at `*at` and move on; `*at` is 0 at the start.
 *
 * @param ret set on success; borrows `data`.
 * @return 1, 0 at the end, -1 if the bytes are damaged. @thread any.
 */
int position_next(const char *data, size_t len, size_t *at,
                  struct position *ret);

/** Write a mark as text: "streamlua 1 OFFSET TS HASH". @thread any. */
void position_mark_text(const struct position_mark *m,
                        char out[POSITION_MARK_MAX]);
/** Read such a text; @return false if it is none. @thread any. */
bool position_mark_read(const char *text, size_t len,
                        struct position_mark *ret);

#endif
