/*
 * The texts of a job: its file, the Lua modules it requires, the data of
 * s.read.
 *
 * Together they are the job's code. The first load reads them from disk and
 * keeps them here; every later load of the same version (one a task, one a
 * restart) takes them from here, so an edit between two loads cannot mix two
 * versions. A checkpoint keeps them, so that a rollback finds the texts of
 * then. What was looked for and was not there is kept, too: a module that
 * appears later in front of another is a change.
 *
 * Owner: whoever made it; a script borrows it for its life. Reading is for any
 * thread; only the first load adds.
 */
#ifndef SCRIPT_FILES_H
#define SCRIPT_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum script_file_kind { SCRIPT_FILE_JOB, SCRIPT_FILE_MODULE, SCRIPT_FILE_DATA };

struct script_file {
    enum script_file_kind kind;
    bool missing; /* looked for, not there; no text */
    char *path;   /* as it was opened */
    char *text;   /* `len` bytes and REC_PAD zeros behind them */
    size_t len;
};

struct script_files;

/** An empty set. @thread any. */
struct script_files *script_files_new(void);
/** Accepts NULL. */
void script_files_free(struct script_files **f);

/** How many there are. */
size_t script_files_count(const struct script_files *f);
/** One of them, in the order of the first load; borrowed. */
const struct script_file *script_files_at(const struct script_files *f,
                                          size_t index);

/** The one of this kind and path, or NULL; borrowed. @thread any. */
const struct script_file *script_files_find(const struct script_files *f,
                                            enum script_file_kind kind,
                                            const char *path);

/** Add a text read elsewhere (the job file, by main), unless it is there.
 * Bytes are copied. */
void script_files_add(struct script_files *f, enum script_file_kind kind,
                      const char *path, const char *text, size_t len);

/**
 * A file's text: kept, or read from disk and kept unless the set is sealed.
 * @param ret borrowed from the set. @return 0 or ERR_JOBFILE, `where` is the
 *        path: not there (kept as missing), not readable or too large (16 MiB,
 *        data 64 MiB; not kept), sealed and not kept. @thread the loader.
 */
MUST_USE int script_files_read(struct script_files *f,
                               enum script_file_kind kind, const char *path,
                               const struct script_file **ret, struct err *e);

/** From now on nothing is read from disk: the first load is over. */
void script_files_seal(struct script_files *f);
/** Whether it is. @thread any. */
bool script_files_is_sealed(const struct script_files *f);

/** Equal for equal kinds, paths and texts; version 1. @thread any. */
uint64_t script_files_hash(const struct script_files *f);

/** Append it, for a checkpoint; read by script_files_get(). @thread any. */
void script_files_put(const struct script_files *f, struct buf *out);
/** @return 0 with a sealed set, or ERR_IO: damaged. @thread any. */
MUST_USE int script_files_get(const void *bytes, size_t len,
                              struct script_files **ret, struct err *e);

#endif
