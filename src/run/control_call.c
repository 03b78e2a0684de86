/*
 * The client of the control socket, and reading its objects.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <unistd.h>

#include "format/json_opt.h"
#include "run/control.h"
#include "run/control_impl.h"

enum { READ_CHUNK = 16 * 1024 };

/* --- objects -------------------------------------------------------------- */

int
control_read(const char *text, size_t len, struct arena *a, struct opt **ret,
             struct err *e)
{
    struct opt *o = NULL;
    struct val v;

    if (json_is_deeper(text, len, JSON_DEPTH_LUA_MAX))
        return err_set(e, ERR_USAGE, "nested more than %d deep",
                       JSON_DEPTH_LUA_MAX);
    if (!json_utf8_ok(text, len))
        return err_set(e, ERR_USAGE, "no JSON object: bad UTF-8");
    if (json_value_plain(text, len, BIGINT_FLOAT, a, &v, e) == 0) {
        if (v.type != VAL_MAP)
            return err_set(e, ERR_USAGE, "no JSON object");
        if (json_opt(&v, BIGINT_FLOAT, a, &o, e) != 0)
            o = NULL;
    }
    if (o == NULL) {
        (void)err_context(e, "no JSON object");
        e->code = ERR_USAGE;
        e->cause = CAUSE_NONE;
        return ERR_USAGE;
    }
    *ret = o;
    return 0;
}

/* --- asking --------------------------------------------------------------- */

/* @return 1 connected, 0 nobody is there, ERR_IO. */
static int
dial(const char *dir, int *ret_fd, struct err *e)
{
    struct sockaddr_un sa;
    int dir_fd, fd = -1, r = 0;

    dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd == -1)
        goto fail;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd == -1)
        goto fail;
    control_path(&sa, dir, dir_fd);
    do
        r = connect(fd, (const struct sockaddr *)&sa, sizeof sa);
    while (r != 0 && errno == EINTR);
    if (r != 0)
        goto fail;
    (void)close(dir_fd);
    *ret_fd = fd;
    return 1;

fail:
    r = 0;
    if (errno != ENOENT && errno != ENOTDIR && errno != ECONNREFUSED)
        r = err_set(e, ERR_IO, "cannot connect to '%s/%s': %s", dir,
                    CONTROL_NAME, strerror(errno));
    if (fd != -1)
        (void)close(fd);
    if (dir_fd != -1)
        (void)close(dir_fd);
    return r;
}

/* A server that turned the request away may have closed before it had all of
 * it: what it said is still there to be read, so this does not fail. */
static void
send_all(int fd, const char *text, size_t len)
{
    ssize_t n;

    while (len > 0) {
        n = send(fd, text, len, MSG_NOSIGNAL);
        if (n == -1 && errno == EINTR)
            continue;
        if (n == -1)
            return;
        text += n;
        len -= (size_t)n;
    }
}

static int
read_line(int fd, struct buf *in, struct err *e)
{
    ssize_t n;

    while (in->len == 0 || in->data[in->len - 1] != '\n') {
        if (in->len >= CONTROL_ANSWER_MAX)
            return err_set(e, ERR_IO, "the answer of the job is too long");
        buf_reserve(in, READ_CHUNK);
        n = recv(fd, in->data + in->len, READ_CHUNK, 0);
        if (n == -1 && errno == EINTR)
            continue;
        if (n <= 0)
            return err_set(e, ERR_TEMP, "the job ended before it answered");
        in->len += (size_t)n;
    }
    return 0;
}

/* The error that an answer tells of. */
static int
told(const struct opt *answer, struct err *e)
{
    static const int codes[] = {ERR_FAIL,        ERR_USAGE, ERR_JOBFILE,
                                ERR_UNAVAILABLE, ERR_BUSY,  ERR_IO,
                                ERR_TEMP,        ERR_CONFIG};
    int64_t code = opt_int(answer, "code", 0);
    int r = ERR_INTERNAL;
    size_t i;

    for (i = 0; i < sizeof codes / sizeof *codes; i++)
        if (err_exit_code(codes[i]) == code)
            r = codes[i];
    (void)err_set(e, r, "%s", opt_str(answer, "message", "refused"));
    err_hint(e, "%s", opt_str(answer, "hint", ""));
    return r;
}

int
control_call(const char *dir, const char *json, struct arena *a,
             const struct opt **ret, struct err *e)
{
    struct opt *answer;
    struct buf text;
    int fd = -1, r;

    r = dial(dir, &fd, e);
    if (r != 1)
        return r;
    buf_init(&text);
    buf_adds(&text, json);
    buf_addc(&text, '\n');
    send_all(fd, text.data, text.len);
    buf_clear(&text);
    r = read_line(fd, &text, e);
    if (r == 0 && control_read(text.data, text.len, a, &answer, e) != 0) {
        (void)err_context(e, "the answer of the job");
        e->code = r = ERR_INTERNAL;
    }
    (void)close(fd);
    buf_fini(&text);
    if (r != 0)
        return r;
    if (!opt_bool(answer, "ok", false))
        return told(answer, e);
    *ret = answer;
    return 1;
}
