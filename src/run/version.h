/*
 * Versions of a job's code: its texts, its parameters, how wide it shall run.
 *
 * The code a job starts with is version 0; each attempt to change it has the
 * next number, refused ones too. A `history` has the accepted versions, the
 * newest last, which is what rollback goes back along, and the texts that
 * were rolled back. It is in every checkpoint (blob "reloads"), as it is once
 * the round that holds it is complete.
 *
 * Pure but for the texts, which a version's first load reads from disk. Owner:
 * the coordinator; a version that is being prepared is its thread's.
 * Limits: HISTORY_MAX versions and HISTORY_BYTES of text, of which the oldest
 * are forgotten; HISTORY_BAD_MAX texts that were rolled back.
 */
#ifndef RUN_VERSION_H
#define RUN_VERSION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/opts.h"
#include "script/files.h"

enum { HISTORY_MAX = 16, HISTORY_BAD_MAX = 64, HISTORY_BYTES = 64 << 20 };

struct version {
    uint64_t number;
    char *path; /* of the job file, as messages name it */
    struct script_files *files;
    struct arena arena;
    struct opt *params;   /* map name -> string, from --set; in `arena` */
    uint32_t parallelism; /* asked for; 0 = by the job */
    bool allow_loss;      /* --allow-state-loss; not kept */
};

struct history {
    uint64_t attempts; /* the number given last */
    struct version *items[HISTORY_MAX];
    uint32_t count;                /* 0: of a job that has not begun */
    uint64_t bad[HISTORY_BAD_MAX]; /* texts rolled back, the oldest first */
    uint32_t bad_count;
};

/** A version without texts. @param params map or NULL; copied. */
struct version *version_new(const char *path, const struct opt *params);
/** The same code under another number. @thread the owner. */
struct version *version_dup(const struct version *v, uint64_t number);
/** Accepts NULL. */
void version_free(struct version **v);
/** Give it the parameters of `params` in place of its own; `from` stay where
 * `params` has none. Both may be NULL. */
void version_set_params(struct version *v, const struct opt *from,
                        const struct opt *params);
/** The text of its job file, NUL-terminated, or NULL before it was read. */
const struct script_file *version_text(const struct version *v);
/** Equal for equal texts, wherever they lie: version 1. */
uint64_t version_hash(const struct version *v);
/**
 * Whether its files read otherwise now: another text, one that is there now,
 * or is not any more. A job file that could not be read at all, being too
 * large, is not among them: whether it can be read now.
 */
bool version_differs(const struct version *v);

/** The accepted version, or NULL before the first. Borrowed. */
struct version *history_top(const struct history *h);
/** The one before it, or NULL: nothing to roll back to. Borrowed. */
struct version *history_below(const struct history *h);
/** A version was accepted: it is the top now. Takes it. */
void history_push(struct history *h, struct version **v);
/** A rollback was accepted: `v` is the top in place of the two at the top; the
 * texts of the one that was left are bad. Takes it. */
void history_back(struct history *h, struct version **v);
/** Put `v` in place of the top: the same version, loaded anew. Takes it. */
void history_retop(struct history *h, struct version **v);
/** Note texts as rolled back, or as good again. */
void history_add_bad(struct history *h, uint64_t hash);
void history_forgive(struct history *h, uint64_t hash);
bool history_is_bad(const struct history *h, uint64_t hash);
void history_fini(struct history *h);

/**
 * Append it as it is once `next` is accepted.
 * @param next borrowed; NULL: as it is.
 * @param back `next` is a rollback. @thread the owner.
 */
void history_put(const struct history *h, const struct version *next, bool back,
                 struct buf *out);
/**
 * Read it back; the texts are sealed.
 * @param ret empty; to be ended by history_fini() also after a failure.
 * @return 0, or ERR_IO: damaged, or of a later version. @thread any.
 */
MUST_USE int history_get(const void *bytes, size_t len, struct history *ret,
                         struct err *e);

#endif
