/*
 * Inside a reader: the tree of columns and one pass over one record.
 *
 * Private to reader.c, columns.c and layout*.c. The tree has a node for each
 * member of each column's path. A pass fills a row by walking record and
 * tree together; `left` counts the columns it has not decided, and at 0 it
 * stops, so that what lies behind the last column is not looked at.
 */
#ifndef FORMAT_READER_IMPL_H
#define FORMAT_READER_IMPL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "core/val.h"
#include "format/scan.h"

enum { NODE_HASH_MIN = 8 }; /* more children than this are hashed */

struct node {
    const char *name; /* unescaped path member */
    uint32_t name_len;
    uint32_t index;     /* list index from 1, 0 if the name is none */
    int32_t col;        /* column that ends here, or -1 */
    uint32_t col_count; /* columns here and below */
    uint64_t seen;      /* pass that met it last: of duplicates the first */
    struct node *parent;
    struct node **child; /* count of them, in order of adding */
    uint32_t count, cap;
    uint16_t *hash; /* child number + 1 by name, 0 free; or NULL */
    uint32_t hash_mask;
    uint32_t next; /* child expected next, from the last match */
};

struct columns {
    struct node root;
    struct node **node; /* of each column */
    uint32_t count, cap;
    struct arena arena; /* nodes and names */
};

void columns_init(struct columns *c);
void columns_fini(struct columns *c);
/**
 * Find or add the column whose path is `names` (count >= 1 members).
 * @return 0, or ERR_RECORD when there are READER_COLUMNS_MAX.
 */
int columns_add(struct columns *c, const struct val *names, uint32_t count,
                uint32_t *ret, struct err *e);
/** The child of that name, or NULL. */
struct node *node_child(struct node *n, const char *name, uint32_t len);
/** The child for element `index` of a list, or NULL. */
struct node *node_element(struct node *n, uint32_t index);

/* One pass over one record. */
struct pass {
    struct scan s;
    struct val *row;
    uint32_t left; /* columns not decided */
    uint64_t id;   /* for node.seen */
};

/** All columns below (and not at) `n` are missing. */
void pass_missing(struct pass *ps, struct node *n);
/**
 * Decode the value at p for node `n` (NULL: skip it) and its columns.
 *
 * @return behind the value, or NULL: malformed, or `left` became 0.
 */
const char *pass_value(struct pass *ps, struct node *n, const char *p,
                       unsigned depth);

/*
 * Learned layouts. A layout is the skeleton of a record met before: the
 * literal bytes between its scalar values and what each value is for. It
 * never rejects: a record that does not fit is left to the scanner.
 */
struct layouts;
struct layouts *layouts_new(struct columns *c);
void layouts_free(struct layouts **l);
/** Use the widest vectors the machine has (default), or not (tests). */
void layouts_set_wide(struct layouts *l, bool wide);
/** Forget all (columns were added). */
void layouts_clear(struct layouts *l);
/**
 * Fill ps->row if one of the layouts fits the object [text, text + len),
 * behind which REC_PAD bytes are readable. @return whether.
 */
bool layouts_try(struct layouts *l, struct pass *ps, const char *text,
                 size_t len);
/** As layouts_try() for two objects, by the latest layout. @return whether
 * both fit; if not, each is to be tried alone. */
bool layouts_try_pair(struct layouts *l, struct pass *a, struct pass *b);
/** After the scanner took a record: maybe learn it. */
void layouts_learn(struct layouts *l, struct pass *ps, const char *text,
                   size_t len);
/** Whether trying is worth it at present, for the next `records`. */
bool layouts_wanted(struct layouts *l, uint32_t records);

struct reader;
/** layouts_set_wide() of a reader, for tests. */
void reader_set_wide(struct reader *r, bool wide);

#endif
