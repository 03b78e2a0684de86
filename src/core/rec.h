/*
 * Records and batches: the unit that moves through a chain.
 *
 * A record is borrowed bytes and coordinates. Between operators the payload
 * is always bytes: untouched as read, or written anew (JSON text) by the
 * operator that changed it. "Extended JSON": text made by the engine may
 * hold the tokens NaN, Infinity, -Infinity and strings whose bytes are no
 * UTF-8; then REC_EXT is set and the sink's nan= and invalid_utf8= decide.
 *
 * Lifetime: a batch owns its `recs` array and its arena; the bytes belong to
 * the arena, or to the source (which keeps them until the batch was pushed
 * through the chain). Operators may change the array in place and never the
 * bytes. A batch belongs to one slot thread; crossing a lane moves a copy
 * that owns all its bytes. REC_PAD bytes behind every value are readable.
 */
#ifndef CORE_REC_H
#define CORE_REC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "core/val.h"

enum { REC_PAD = 64, REC_SIZE_MAX = 64 << 20, KEY_SIZE_MAX = 64 << 10 };

/* Watermarks. */
#define WM_NONE INT64_MIN /* none yet; also: never late */
#define WM_MAX INT64_MAX  /* end of input */

enum rec_kind {
    REC_OBJECT,   /* val is a JSON object, blanks around it removed */
    REC_VALUE,    /* val is another JSON value: the field `value` */
    REC_TEXT,     /* val are the bytes of the string field `value` */
    REC_TOMBSTONE /* no payload; val (may be NULL) are fields, a JSON object */
};

enum {
    REC_EXT = 1u,           /* extended JSON, see above */
    REC_HAS_TS = 2u,        /* ts is set (by message, event_time or a row) */
    REC_BIGINT_STRING = 4u, /* source option bigint="string" */
    REC_BIGINT_FLOAT = 8u,  /* source option bigint="float" */
    REC_OWNED = 16u,        /* payload was made by an operator */
    REC_KEY_JSON = 32u,     /* key is JSON text (key_format="json") */
    REC_RAW = 64u,          /* REC_TEXT whose bytes were not checked as UTF-8 */
    REC_FAILED = 128u,      /* on its way to the quarantine */
};

struct rec_header {
    const char *name;  /* name_len bytes */
    const char *value; /* value_len bytes, NULL = null value */
    uint32_t name_len, value_len;
};

struct rec_headers { /* immutable once attached; ordered, names may repeat */
    uint32_t count;
    struct rec_header items[];
};

struct rec {
    const char *val;                   /* payload; NULL only for a tombstone */
    const char *key;                   /* message key; NULL = none */
    const struct rec_headers *headers; /* NULL = none; by rec_headers() */
    const struct val *row; /* decoded columns of the current segment, or NULL */
    int64_t ts;            /* event time, ms (with REC_HAS_TS) */
    int64_t wm;            /* own partition's watermark before it was read */
    int64_t offset;
    uint32_t val_len, key_len;
    int32_t partition;
    uint16_t topic; /* number in topic_name() */
    uint16_t src;   /* number of the source step, for its error policy */
    uint16_t row_n; /* columns in row */
    uint8_t kind;   /* enum rec_kind */
    uint8_t flags;  /* REC_... */
};

/* Canonical key of a record behind a hash exchange. */
struct rec_key {
    const char *bytes; /* len bytes, core/key.h */
    uint32_t len;
    uint64_t hash; /* hash_key() of them */
};

struct batch {
    struct rec *recs;
    struct rec_key *keys; /* parallel to recs behind a hash exchange, or NULL */
    uint32_t n, cap, keys_cap;
    uint32_t part;      /* task-local partition all records came from */
    bool right;         /* they come from the right side of a connect */
    struct arena arena; /* bytes made for this batch */
};

/** Make an empty batch. @thread the owner. */
void batch_init(struct batch *b);
/** Free array and bytes. @thread the owner. */
void batch_fini(struct batch *b);
/** Forget the records and bytes, keep memory. @thread the owner. */
void batch_clear(struct batch *b);
/** Append a zeroed record; @return it, valid until the next append. */
struct rec *batch_add(struct batch *b);
/** Append a copy of `r` that borrows r's bytes. @thread the owner. */
struct rec *batch_add_ref(struct batch *b, const struct rec *r);
/** Append a copy of `r` with all its bytes in b's arena. @thread owner. */
struct rec *batch_add_copy(struct batch *b, const struct rec *r);
/** Set the key of the newest record (bytes copied). @thread the owner. */
void batch_set_key(struct batch *b, const char *bytes, uint32_t len,
                   uint64_t hash);
/*
 * Headers nobody asked for are not read: the Kafka client parses and allocates
 * them for every message that is asked, even if there are none (60 ns of a
 * record's 500). So `rec.headers` may hold the connector's message, marked by
 * its lowest bit, and rec_headers() reads it. It lives as the record's bytes
 * do; batch_add_copy() and other copies that outlive them read it.
 */
typedef const struct rec_headers *rec_headers_read_f(void *message,
                                                     struct arena *a);
/** Leave a message's headers unread. @thread the slot. */
void rec_headers_defer(struct rec *r, void *message);
/**
 * Name the function that reads deferred headers: one a process.
 * @thread coordinator, before slots start.
 */
void rec_headers_reader(rec_headers_read_f *f);
/**
 * A record's headers, or NULL if it has none.
 * @param a where they are put if they were deferred.
 * @thread the slot.
 */
const struct rec_headers *rec_headers(const struct rec *r, struct arena *a);

/** Headers with `count` items, zeroed, in `a`. @thread owner of a. */
struct rec_headers *rec_headers_new(struct arena *a, uint32_t count);

/**
 * Register a topic (or path, or source name) and get its number.
 *
 * The same name gives the same number. At most 65,535 names a process.
 * Order: rec_origin_cmp() compares by name, so that ties in (time, origin)
 * do not depend on registration order.
 * @thread any (locked; not on the record path).
 */
uint16_t topic_register(const char *name);
/** Name of a registered number; lives as long as the process. @thread any. */
const char *topic_name(uint16_t topic);

/**
 * Compare two records' origins: topic name, partition, offset.
 * @return < 0, 0, > 0. @thread any.
 */
int rec_origin_cmp(const struct rec *a, const struct rec *b);

#endif
