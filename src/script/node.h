/*
 * Value trees: the fields of one record, taken apart only as far as asked.
 *
 * A node is a scalar, a list or a map. As long as nothing below it was
 * assigned it keeps the bytes it was read from (`raw`) and is written as
 * these; an assignment drops the bytes of the node and of all its parents,
 * which are then written member by member. Members are found by walking the
 * text only up to the one that is asked for.
 *
 * A value that is replaced or deleted leaves the tree (no parent): views on
 * it can be read but not written. Owner: one record of one script; memory is
 * the tree's arena and lives until tree_reset(). Raw bytes are borrowed from
 * the record. Limits: JSON_DEPTH_LUA_MAX levels.
 */
#ifndef SCRIPT_NODE_H
#define SCRIPT_NODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "core/rec.h"
#include "core/val.h"
#include "format/json.h"

struct node;

struct member {
    const char *name, *raw_name; /* unescaped; as in the text, or NULL */
    uint32_t len, raw_len;
    struct node *node; /* NULL: deleted */
};

struct kids {
    struct member *items;
    uint32_t n, cap, live;
    uint32_t *index; /* hash of names -> item + 1, for large maps */
    uint32_t index_cap;
    const char *text, *text_end;
    bool open; /* the text still has members */
    struct json_walk walk;
};

struct node {
    const char *raw; /* bytes in the text; NULL: write value or members */
    struct node *parent;
    uint32_t raw_len;
    uint32_t view; /* slot in the record's cache of views, 0 = none */
    uint8_t type;  /* VAL_NULL ... VAL_MAP */
    uint8_t depth; /* the root's is 1 */
    bool checked;  /* its nesting is known to fit */
    bool big;      /* an integer beyond int64, decoded when read */
    bool ext;      /* raw may be extended JSON: the engine made it */
    union {
        struct val v;      /* scalars */
        struct kids *kids; /* lists and maps; NULL until asked for */
    } u;
};

struct tree {
    struct arena arena;
    struct node *root; /* NULL until made */
    enum json_bigint bigint;
    bool dirty; /* something was assigned */
    bool ext;   /* holds extended JSON */
};

/** Make `t` empty; takes no memory. @thread the owner. */
void tree_init(struct tree *t);
/** Forget the nodes, keep memory. @thread the owner. */
void tree_reset(struct tree *t);
void tree_fini(struct tree *t);
/** Make the root from a record (whose bytes are borrowed), if not made. */
MUST_USE int tree_load(struct tree *t, const struct rec *r, struct err *e);

/** New scalar. Strings are copied. @thread the owner of t. */
struct node *node_new(struct tree *t, const struct val *v);
/** New value of any type from its JSON text, which must live as t does.
 * @param ext whether the engine made it, so that it may be extended JSON. */
MUST_USE int node_new_text(struct tree *t, const char *text, size_t len,
                           bool ext, struct node **ret, struct err *e);
/** Decode a scalar, by the bigint policy. @return 0 or ERR_RECORD. */
MUST_USE int node_value(struct tree *t, const struct node *n, struct val *ret,
                        struct err *e);

/** Member by name. @return 1, 0 if there is none, or ERR_RECORD. */
int node_find(struct tree *t, struct node *n, const char *name, size_t len,
              struct node **ret, struct err *e);
/** Element by index from 1. @return 1, 0 if there is none, or ERR_RECORD. */
int node_at(struct tree *t, struct node *n, uint64_t index, struct node **ret,
            struct err *e);
/** Member or element by field path. @return 1, 0, or ERR_RECORD (cause
 * user_error for a malformed path). */
int node_path(struct tree *t, struct node *n, const char *path, size_t len,
              struct node **ret, struct err *e);
/** Member `*pos` or a later one that is not deleted, for pairs(); `*pos` is
 * moved behind it. @return 1, 0 at the end, or ERR_RECORD. */
int node_next(struct tree *t, struct node *n, uint32_t *pos, struct member *ret,
              struct err *e);
/** Number of members or elements. @return 0 or ERR_RECORD. */
MUST_USE int node_count(struct tree *t, struct node *n, uint32_t *ret,
                        struct err *e);
/** Whether the text below `n` nests no deeper than Lua may see. */
MUST_USE int node_check_depth(struct node *n, struct err *e);
/** Whether `n` is still part of its record. */
bool node_is_attached(const struct tree *t, const struct node *n);

/** Assign a member of a map; `child` NULL deletes. */
MUST_USE int node_set(struct tree *t, struct node *map, const char *name,
                      size_t len, struct node *child, struct err *e);
/** Assign an element of a list: 1 to count + 1; NULL deletes the last. */
MUST_USE int node_set_at(struct tree *t, struct node *list, int64_t index,
                         struct node *child, struct err *e);
/** Assign by field path; missing maps on the way are made. */
MUST_USE int node_set_path(struct tree *t, struct node *n, const char *path,
                           size_t len, struct node *child, struct err *e);

/** Append the text of `n`; sets *ext if it is no JSON. */
MUST_USE int node_put(struct tree *t, struct node *n, struct buf *b, bool *ext,
                      struct err *e);

#endif
