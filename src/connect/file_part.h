/*
 * Parts of a file sink and the directory that they lie in.
 *
 * A part is written under the name ".part-<subtask>-<seq>.<x>.inprogress"
 * and published by renaming it to "part-<subtask>-<seq>.<x>". Which of them
 * may be published, and when, is decided by file_sink.c and file_restore.c;
 * here is only how. Owner: one thread a part and a list; the directory is
 * immutable once opened, so any thread.
 */
#ifndef CONNECT_FILE_PART_H
#define CONNECT_FILE_PART_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum { PART_NAME_SIZE = 64, PART_TEMP_SIZE = PART_NAME_SIZE + 16 };

struct part {
    struct part *next;
    int fd;                    /* -1: closed */
    char name[PART_NAME_SIZE]; /* "part-0-000017.jsonl" */
    int64_t size;              /* bytes of a closed one */
    int64_t kept;   /* length that the last round recorded of it; 0 = none */
    uint64_t round; /* of a closed one: the first round it belongs to */
};

struct part_dir {
    char *path; /* absolute */
    int fd;
};

/**
 * Where `path` leads: absolute, links followed as far as it exists.
 * @return to be freed. @thread any.
 */
char *part_dir_where(const char *path);
/**
 * Make the directory if there is none, and open it.
 * @param ret to be closed, also after a failure. @return 0 or ERR_IO.
 */
MUST_USE int part_dir_open(const char *path, struct part_dir *ret,
                           struct err *e);
/** Keep other jobs out until it is closed. @return 0 or ERR_BUSY. */
MUST_USE int part_dir_lock(const struct part_dir *d, struct err *e);
MUST_USE int part_dir_sync(const struct part_dir *d, struct err *e);
void part_dir_close(struct part_dir *d);

/* A part that was found. */
struct part_found {
    char name[PART_NAME_SIZE];
    uint64_t seq;
    bool temp; /* in progress */
};
typedef int part_found_f(void *arg, const struct part_found *f, struct err *e);
/** Call `f` for each part, in no order. @return 0, ERR_IO, or what f says. */
MUST_USE int part_dir_scan(const struct part_dir *d, part_found_f *f, void *arg,
                           struct err *e);
/** Whether `name` is one of a published part; its number. @thread any. */
bool part_name_read(const char *name, uint64_t *ret_seq);
/** Size of a part; -1: it does not exist. @param temp in progress. */
MUST_USE int part_size(const struct part_dir *d, const char *name, bool temp,
                       int64_t *ret, struct err *e);

/** Make a part that has no file yet. */
struct part *part_new(const char *name);
/** Free a list; files are closed and left as they are. Accepts NULL. */
void part_free_list(struct part **list);
/** Create its file. @return 0 or ERR_IO. */
MUST_USE int part_create(const struct part_dir *d, struct part *p,
                         struct err *e);
/** Open its file in progress, cut it to `size` bytes and go on there. */
MUST_USE int part_resume(const struct part_dir *d, struct part *p, int64_t size,
                         struct err *e);
/** Make its bytes durable and close it. */
MUST_USE int part_sync(const struct part_dir *d, struct part *p, struct err *e);
/** Sync it if it is open, then rename it. The caller syncs the directory. */
MUST_USE int part_publish(const struct part_dir *d, struct part *p,
                          struct err *e);
/** Remove a file in progress; none is fine. */
MUST_USE int part_remove(const struct part_dir *d, const char *name,
                         struct err *e);
/** "cannot <what> '<dir>/<name>': <errno>". @return ERR_IO. */
int part_error(const struct part_dir *d, const char *what, const char *name,
               struct err *e);

#endif
