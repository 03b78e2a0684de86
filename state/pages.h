/*
 * A second reader of LMDB's file, which trusts nothing in it.
 *
 * LMDB has no checksums over pages and follows whatever they say; a flipped
 * bit can crash it or, worse, hide keys. So before LMDB opens a file, it is
 * walked here: each page of each tree must be in the file, used once, of the
 * right kind, with nodes that tile it, keys in order and within the bounds
 * its parent gives, and counts that agree. What passes can be handed to LMDB.
 * Values are checked by whoever gives the callback.
 *
 * Format: LMDB 0.9 (data version 1) with 64-bit page numbers, any page size.
 * Thread: any, one at a time. @source mdb.c of LMDB 0.9.24: MDB_meta,
 * MDB_page, MDB_node, MDB_db.
 */
#ifndef STATE_PAGES_H
#define STATE_PAGES_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* A tree as its parent describes it (MDB_db). */
struct pages_tree {
    uint16_t flags, depth;
    uint64_t branch_pages, leaf_pages, overflow_pages, entries, root;
};

struct pages_meta {
    uint64_t last_page, txnid;
    uint32_t page_size;
    uint32_t env_flags;
    struct pages_tree free_list, main;
};

struct pages {
    const uint8_t *map; /* the whole file, read only */
    size_t size;
    uint64_t count; /* pages in the file */
    struct pages_meta metas[2];
    unsigned newest;  /* of the metas */
    uint8_t *used;    /* bit per page: reached, or on the free list */
    uint64_t highest; /* page that is used */
    uint64_t free_pages;
    char place[96]; /* of the damage, after ERR_IO */
};

struct pages_node {
    const uint8_t *key;
    size_t key_len;
    const uint8_t *value;
    size_t value_len;
    bool is_tree; /* the value is a pages_tree for pages_tree_read() */
};

/* Look at one entry; anything but 0 ends the walk and is its result. */
typedef int (*pages_node_f)(void *arg, const struct pages_node *node);

/**
 * Map `path` and check both meta pages.
 *
 * @param live another process may be writing: only one meta need be right.
 * @return 0; ERR_IO (damage, or no such file; message set), ERR_CONFIG
 *         (byte order, version), ERR_NOMEM. @thread any.
 */
MUST_USE int pages_open(struct pages *p, const char *path, bool live,
                        struct err *e);
void pages_close(struct pages *p);

/** Read a tree's description from a node that is_tree. */
void pages_tree_read(const struct pages_node *node, struct pages_tree *ret);

enum {
    PAGES_MARK = 1u,    /* enter its pages as used; twice is damage */
    PAGES_INTEGER = 2u, /* keys are page or transaction numbers */
};

/**
 * Walk a tree in order.
 *
 * @return 0; ERR_IO with p->place filled; or what `fn` returned.
 * @thread any.
 */
MUST_USE int pages_walk(struct pages *p, const struct pages_tree *t,
                        unsigned flags, pages_node_f fn, void *arg);

/** Walk the free list of the newest meta and mark what it names. */
MUST_USE int pages_walk_free(struct pages *p);

#endif
