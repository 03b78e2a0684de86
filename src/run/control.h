/*
 * The control socket: how verbs speak to a running job.
 *
 * `control` in the job's data directory is a Unix stream socket, mode 0600.
 * A connection carries one request and one answer, each a JSON object on a
 * line of its own:
 *
 *   {"verb":"savepoint","to":DIR,"stop":false,"drain":false}
 *   {"ok":true,"path":DIR}
 *   {"ok":false,"code":78,"message":"...","hint":"..."}
 *
 * The server lives in the coordinator's loop and never blocks in it; an
 * answer may be given rounds later. A client that sends nothing, does not
 * read, sends too much or is gone costs its own connection only. The client
 * side, control_call(), blocks and is for main's verbs.
 *
 * Thread: coordinator, but for control_call() and control_read() (any).
 * Limits: CONTROL_CLIENTS_MAX connections (one more is told to come back),
 * CONTROL_LINE_MAX bytes a request, CONTROL_ANSWER_MAX an answer.
 */
#ifndef RUN_CONTROL_H
#define RUN_CONTROL_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/opts.h"

enum {
    CONTROL_CLIENTS_MAX = 16,
    CONTROL_LINE_MAX = 64 * 1024, /* bytes with the newline */
    CONTROL_ANSWER_MAX = 4 << 20, /* bytes with the newline */
    CONTROL_STALL_MS = 10000,     /* to send a request, to take an answer */
};

struct ev_loop;
struct control;
struct control_req;

/**
 * Take a request: answer it now or later, exactly once.
 * @param req the handler's, until it is given to control_reply() or
 *        control_refuse(), or until control_free(). @thread coordinator.
 */
typedef void control_handler_f(void *arg, struct control_req *req);

/**
 * Make the socket and serve it. A file that an earlier process left there is
 * removed, so the directory's lock must be held.
 *
 * @param dir     the job's data directory; borrowed for the call. Of any
 *        length that the system takes.
 * @param handler called with `arg` for each request.
 * @param ret     set on success; ended by control_free().
 * @return 0, or ERR_IO (the message names the file). @thread coordinator.
 */
MUST_USE int control_new(struct ev_loop *loop, const char *dir,
                         control_handler_f *handler, void *arg,
                         struct control **ret, struct err *e);

/**
 * End it and remove the socket. Requests without an answer are refused with
 * 75 and their handles end; of an answer that was given, what the system
 * takes at once is still sent. Accepts NULL.
 * @thread coordinator, before the directory's lock is given up.
 */
void control_free(struct control **c);

/** How long a client may stall, instead of CONTROL_STALL_MS; for those that
 * connect from now on. @thread coordinator. */
void control_set_stall(struct control *c, int64_t ms);

/**
 * What is asked: a map, in which "verb" is a string.
 * @return borrowed until the request is answered. @thread coordinator.
 */
const struct opt *control_request(const struct control_req *req);

/**
 * Answer, and end the connection once the client has it.
 *
 * @param req  taken: NULL afterwards. It does not matter whether the client
 *        is still there.
 * @param json one object without newline, `len` bytes, fewer than
 *        CONTROL_ANSWER_MAX; copied. @thread coordinator.
 */
void control_reply(struct control_req **req, const char *json, size_t len);

/** Answer with what went wrong: code is err_exit_code(e->code). As
 * control_reply(). @thread coordinator. */
void control_refuse(struct control_req **req, const struct err *e);

/**
 * Ask the job that runs in `dir` and wait for its answer, however long.
 *
 * @param json one object without newline; borrowed.
 * @param a    the answer's memory. @param ret a map with "ok" true; set when
 *        there is one.
 * @return 1 with an answer; 0 if nobody answers there; or the error in the
 *         answer (its code by exit code, message, hint); ERR_TEMP if the job
 *         ended before it answered; ERR_IO. @thread any.
 */
MUST_USE int control_call(const char *dir, const char *json, struct arena *a,
                          const struct opt **ret, struct err *e);

/**
 * Read one JSON object of the engine's own making or a client's.
 *
 * @param text `len` bytes. @param a memory of the tree; strings are copied.
 * @param ret  set on success: a map. Of equal names the first counts;
 *        null is OPT_NIL.
 * @return 0, or ERR_USAGE: no JSON object, or nested beyond
 *         JSON_DEPTH_LUA_MAX. @thread any.
 */
MUST_USE int control_read(const char *text, size_t len, struct arena *a,
                          struct opt **ret, struct err *e);

#endif
