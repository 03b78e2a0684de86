/*
 * The server of the control socket. A connection:
 *
 * | state   | watched        | leaves it when                             |
 * | reading | input, timer   | a whole line is there (-> waiting), it is  |
 * |         |                | no request (-> writing a refusal), end of  |
 * |         |                | input or stalled (closed)                  |
 * | waiting | nothing        | the handler answers (-> writing)           |
 * | writing | output, timer  | the answer is out, error, stalled (closed) |
 */
#include "run/control.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ev.h>

#include "base/mem.h"
#include "run/control_impl.h"

enum { RETRY_ACCEPT_MS = 100, READ_CHUNK = 4096 };

enum client_state { CLIENT_READING, CLIENT_WAITING, CLIENT_WRITING };

struct control_req {
    struct control *owner;
    struct control_req *prev, *next;
    enum client_state state;
    int fd;
    ev_io io;
    ev_timer timer;
    struct buf in, out;
    size_t sent;
    struct arena arena;
    struct opt *request;
};

struct control {
    struct ev_loop *loop;
    control_handler_f *handler;
    void *arg;
    int dir_fd, fd;
    ev_io io;
    ev_timer retry; /* accept() had no descriptor to give */
    struct control_req *clients;
    unsigned count;
    int64_t stall_ms;
};

/* --- one client ----------------------------------------------------------- */

static void
client_close(struct control_req *c)
{
    struct control *o = c->owner;

    ev_io_stop(o->loop, &c->io);
    ev_timer_stop(o->loop, &c->timer);
    if (c->next != NULL)
        c->next->prev = c->prev;
    if (c->prev != NULL)
        c->prev->next = c->next;
    else
        o->clients = c->next;
    o->count--;
    (void)close(c->fd);
    buf_fini(&c->in);
    buf_fini(&c->out);
    arena_fini(&c->arena);
    free(c);
}

/* Send what is there. @return true once nothing is left to do for it. */
static bool
client_send(struct control_req *c)
{
    ssize_t n;

    while (c->sent < c->out.len) {
        n = send(c->fd, c->out.data + c->sent, c->out.len - c->sent,
                 MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n == -1 && errno == EINTR)
            continue;
        if (n == -1)
            return errno != EAGAIN && errno != EWOULDBLOCK;
        c->sent += (size_t)n;
    }
    return true;
}

static void
client_watch(struct control_req *c, int events)
{
    ev_io_stop(c->owner->loop, &c->io);
    ev_io_set(&c->io, c->fd, events);
    ev_io_start(c->owner->loop, &c->io);
    ev_timer_again(c->owner->loop, &c->timer);
}

void
control_reply(struct control_req **req, const char *json, size_t len)
{
    struct control_req *c = *req;

    assert(c->state == CLIENT_WAITING && len < CONTROL_ANSWER_MAX);
    *req = NULL;
    c->state = CLIENT_WRITING;
    buf_add(&c->out, json, len);
    buf_addc(&c->out, '\n');
    if (client_send(c))
        client_close(c);
    else
        client_watch(c, EV_WRITE);
}

void
control_refuse(struct control_req **req, const struct err *e)
{
    struct buf b;

    buf_init(&b);
    buf_addf(&b,
             "{\"ok\":false,\"code\":%d,\"message\":", err_exit_code(e->code));
    json_put_str(&b, e->msg, strlen(e->msg));
    buf_adds(&b, ",\"hint\":");
    json_put_str(&b, e->hint, strlen(e->hint));
    buf_addc(&b, '}');
    control_reply(req, b.data, b.len);
    buf_fini(&b);
}

const struct opt *
control_request(const struct control_req *req)
{
    return req->request;
}

/* A line of `len` bytes is there, or too much without one. Ends with the
 * client closed, answered or waiting: the caller does not look at it again. */
static void
client_take(struct control_req *c, size_t len, bool whole)
{
    struct control *o = c->owner;
    const struct opt *verb;
    struct err e;

    ev_io_stop(o->loop, &c->io);
    ev_timer_stop(o->loop, &c->timer);
    c->state = CLIENT_WAITING;
    if (!whole) {
        (void)err_set(&e, ERR_USAGE, "a request has at most %d bytes",
                      CONTROL_LINE_MAX);
        control_refuse(&c, &e);
        return;
    }
    if (control_read(c->in.data, len, &c->arena, &c->request, &e) != 0) {
        control_refuse(&c, &e);
        return;
    }
    verb = opt_get(c->request, "verb");
    if (verb == NULL || verb->type != OPT_STR) {
        (void)err_set(&e, ERR_USAGE, "a request has a \"verb\"");
        control_refuse(&c, &e);
        return;
    }
    o->handler(o->arg, c);
}

static void
client_read(struct control_req *c)
{
    size_t before = c->in.len, room = CONTROL_LINE_MAX - before;
    const char *end;
    ssize_t n;

    if (room > READ_CHUNK)
        room = READ_CHUNK;
    buf_reserve(&c->in, room);
    n = recv(c->fd, c->in.data + before, room, MSG_DONTWAIT);
    if (n == -1 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK))
        return;
    if (n <= 0) {
        client_close(c);
        return;
    }
    c->in.len += (size_t)n;
    end = memchr(c->in.data + before, '\n', (size_t)n);
    if (end != NULL)
        client_take(c, (size_t)(end - c->in.data), true);
    else if (c->in.len == CONTROL_LINE_MAX)
        client_take(c, c->in.len, false);
}

static void
on_client(struct ev_loop *loop, ev_io *w, int events)
{
    struct control_req *c = w->data;

    (void)loop;
    (void)events;
    if (c->state == CLIENT_READING)
        client_read(c);
    else if (client_send(c))
        client_close(c);
}

static void
on_stall(struct ev_loop *loop, ev_timer *w, int events)
{
    (void)loop;
    (void)events;
    client_close(w->data);
}

/* --- the listening socket ------------------------------------------------- */

static void
client_new(struct control *o, int fd)
{
    struct control_req *c = mem_zalloc(sizeof *c);
    double stall_s = (double)o->stall_ms / 1000.;

    c->owner = o;
    c->fd = fd;
    c->state = CLIENT_READING;
    buf_init(&c->in);
    buf_init(&c->out);
    arena_init(&c->arena);
    c->next = o->clients;
    if (c->next != NULL)
        c->next->prev = c;
    o->clients = c;
    o->count++;
    ev_io_init(&c->io, on_client, fd, EV_READ);
    c->io.data = c;
    ev_timer_init(&c->timer, on_stall, stall_s, stall_s);
    c->timer.data = c;
    client_watch(c, EV_READ);
}

/* One too many: its answer fits into the socket, so nobody waits for it. */
static void
turn_away(int fd)
{
    static const char text[] =
        "{\"ok\":false,\"code\":75,\"message\":\"the job answers too many "
        "requests already\",\"hint\":\"try again\"}\n";

    (void)!send(fd, text, sizeof text - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)close(fd);
}

static void
on_accept(struct ev_loop *loop, ev_io *w, int events)
{
    struct control *o = w->data;
    int fd;

    (void)events;
    fd = accept4(o->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd == -1) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM ||
            errno == ENOBUFS) { /* it stays readable: do not spin on it */
            ev_io_stop(loop, &o->io);
            ev_timer_again(loop, &o->retry);
        }
        return;
    }
    if (o->count == CONTROL_CLIENTS_MAX)
        turn_away(fd);
    else
        client_new(o, fd);
}

static void
on_retry(struct ev_loop *loop, ev_timer *w, int events)
{
    struct control *o = w->data;

    (void)events;
    ev_timer_stop(loop, &o->retry);
    ev_io_start(loop, &o->io);
}

static int
socket_open(struct control *o, const char *dir, struct err *e)
{
    struct sockaddr_un sa;

    o->dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (o->dir_fd == -1)
        goto fail;
    o->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    /* The file gets the mode of the socket, less the umask: nobody else can
     * connect, not even for the moment between bind() and a chmod(). */
    if (o->fd == -1 || fchmod(o->fd, 0600) != 0 ||
        (unlinkat(o->dir_fd, CONTROL_NAME, 0) != 0 && errno != ENOENT))
        goto fail;
    control_path(&sa, dir, o->dir_fd);
    if (bind(o->fd, (const struct sockaddr *)&sa, sizeof sa) != 0 ||
        fchmodat(o->dir_fd, CONTROL_NAME, 0600, 0) != 0 ||
        listen(o->fd, CONTROL_CLIENTS_MAX) != 0)
        goto fail;
    return 0;

fail:
    return err_set(e, ERR_IO, "cannot make the control socket '%s/%s': %s", dir,
                   CONTROL_NAME, strerror(errno));
}

int
control_new(struct ev_loop *loop, const char *dir, control_handler_f *handler,
            void *arg, struct control **ret, struct err *e)
{
    struct control *o = mem_zalloc(sizeof *o);

    o->loop = loop;
    o->handler = handler;
    o->arg = arg;
    o->fd = o->dir_fd = -1;
    o->stall_ms = CONTROL_STALL_MS;
    ev_io_init(&o->io, on_accept, -1, EV_READ);
    ev_timer_init(&o->retry, on_retry, RETRY_ACCEPT_MS / 1000.,
                  RETRY_ACCEPT_MS / 1000.);
    if (socket_open(o, dir, e) != 0) {
        control_free(&o);
        return e->code;
    }
    o->io.data = o->retry.data = o;
    ev_io_set(&o->io, o->fd, EV_READ);
    ev_io_start(loop, &o->io);
    *ret = o;
    return 0;
}

void
control_set_stall(struct control *c, int64_t ms)
{
    c->stall_ms = ms;
}

void
control_free(struct control **c)
{
    struct control *o = *c;
    struct control_req *req, *next;
    struct err e;

    if (o == NULL)
        return;
    *c = NULL;
    ev_io_stop(o->loop, &o->io);
    ev_timer_stop(o->loop, &o->retry);
    (void)err_set(&e, ERR_TEMP, "the job ended before it answered");
    for (req = o->clients; req != NULL; req = next) {
        next = req->next;
        if (req->state == CLIENT_WAITING) {
            control_refuse(&req, &e);
            continue;
        }
        (void)client_send(req);
        client_close(req);
    }
    while (o->clients != NULL) /* refused, but not out at once */
        client_close(o->clients);
    if (o->fd != -1) {
        (void)close(o->fd);
        (void)unlinkat(o->dir_fd, CONTROL_NAME, 0);
    }
    if (o->dir_fd != -1)
        (void)close(o->dir_fd);
    free(o);
}
