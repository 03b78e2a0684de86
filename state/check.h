/*
 * Is this file a whole store? Read it all, trust nothing, and say where it
 * is damaged. Used by open, copies and verify inside state; any thread.
 *
 * LMDB is not asked: pages.h walks its trees, entry.h checks the values, the
 * ledger's totals say whether entries are missing, doubled or stale. What a
 * pending redo consists of may be damaged, since it may be discarded;
 * anything else ends in ERR_IO.
 */
#ifndef STATE_CHECK_H
#define STATE_CHECK_H

#include "state/ledger.h"

struct check_result {
    uint64_t round, pending;
    bool pending_damaged;
    uint64_t entries, bytes; /* of base and segments, pending not counted */
    uint64_t free_pages;
};

struct check_opts {
    const char *file;
    bool live;      /* a process may be writing; txnid holds its pages */
    uint64_t txnid; /* of a read transaction that is open, if live */
};

/**
 * Check a file.
 *
 * @return 0, ERR_IO (with file, checkpoint and place), ERR_CONFIG (format),
 *         ERR_NOMEM; ERR_AGAIN if live and the meta pages have moved on.
 * @thread any.
 */
MUST_USE int check_file(const struct check_opts *o, struct check_result *ret,
                        struct err *e);

#endif
