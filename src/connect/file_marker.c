#include "connect/file_marker.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"

#define FIRST_LINE "streamlua file sink 1\n"

enum { MARKER_SIZE = 256, LINEAGE_TEXT = 2 * CONN_LINEAGE_SIZE + 1 };

static void
lineage_text(const uint8_t *lineage, char out[LINEAGE_TEXT])
{
    int i;

    for (i = 0; i < CONN_LINEAGE_SIZE; i++)
        (void)snprintf(out + (size_t)i * 2, 3, "%02x", lineage[i]);
}

/* Read 32 digits; @return what follows them, or NULL. */
static const char *
read_lineage(const char *p, uint8_t *ret)
{
    char pair[3] = "";
    int i;

    for (i = 0; i < CONN_LINEAGE_SIZE; i++, p += 2) {
        if (!isxdigit((unsigned char)p[0]) || !isxdigit((unsigned char)p[1]))
            return NULL;
        pair[0] = p[0];
        pair[1] = p[1];
        ret[i] = (uint8_t)strtoul(pair, NULL, 16);
    }
    return p;
}

static const char *
behind(const char *p, const char *text)
{
    size_t len = strlen(text);

    return p != NULL && strncmp(p, text, len) == 0 ? p + len : NULL;
}

static bool
read_text(const char *p, struct file_marker *ret)
{
    char *end = NULL;

    p = behind(behind(p, FIRST_LINE), "lineage ");
    if (p != NULL)
        p = read_lineage(p, ret->lineage);
    p = behind(p, "\nround ");
    if (p == NULL || !isdigit((unsigned char)*p))
        return false;
    errno = 0;
    ret->round = strtoull(p, &end, 10);
    p = errno == 0 ? behind(end, "\nfinal ") : NULL;
    ret->final = p != NULL && *p == 'y';
    return p != NULL && (strcmp(p, "yes\n") == 0 || strcmp(p, "no\n") == 0);
}

int
file_marker_read(const struct part_dir *d, struct file_marker *ret,
                 struct err *e)
{
    int fd = openat(d->fd, FILE_MARKER_NAME, O_RDONLY | O_CLOEXEC);
    char text[MARKER_SIZE] = "";
    ssize_t n;
    int r = 0;

    memset(ret, 0, sizeof *ret);
    if (fd == -1)
        return errno == ENOENT ? 0 : part_error(d, "open", FILE_MARKER_NAME, e);
    do
        n = read(fd, text, sizeof text - 1);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        r = part_error(d, "read", FILE_MARKER_NAME, e);
    (void)close(fd);
    if (r < 0)
        return r;
    if (strlen(text) != (size_t)n || !read_text(text, ret)) {
        r = err_set(e, ERR_IO,
                    "the marker '%s/%s' is damaged, or of another version of "
                    "streamlua",
                    d->path, FILE_MARKER_NAME);
        err_hint(e, "--fresh begins anew and replaces it");
        return r;
    }
    ret->found = true;
    return 0;
}

/* Write and sync the text of the marker-to-be. */
static int
write_temp(const struct part_dir *d, const char *name, const char *text,
           struct err *e)
{
    size_t len = strlen(text);
    int fd =
        openat(d->fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    int r = 0;

    if (fd == -1)
        return part_error(d, "make", name, e);
    errno = ENOSPC; /* of a short write */
    if (write(fd, text, len) != (ssize_t)len)
        r = part_error(d, "write", name, e);
    if (r == 0 && fsync(fd) != 0)
        r = part_error(d, "sync", name, e);
    if (close(fd) != 0 && r == 0)
        r = part_error(d, "close", name, e);
    return r;
}

int
file_marker_write(const struct part_dir *d, const struct file_marker *m,
                  struct err *e)
{
    static const char temp[] = FILE_MARKER_NAME ".tmp";
    char text[MARKER_SIZE], hex[LINEAGE_TEXT];
    int r;

    lineage_text(m->lineage, hex);
    (void)snprintf(text, sizeof text,
                   FIRST_LINE "lineage %s\nround %" PRIu64 "\nfinal %s\n", hex,
                   m->round, m->final ? "yes" : "no");
    r = write_temp(d, temp, text, e);
    if (r == 0 && fault_hit("file_sink_marker")) {
        errno = EIO;
        r = part_error(d, "rename", temp, e);
    }
    if (r == 0 && renameat(d->fd, temp, d->fd, FILE_MARKER_NAME) != 0)
        r = part_error(d, "rename", temp, e);
    return r == 0 ? part_dir_sync(d, e) : r;
}

/* ------------------------------------------------------------ the equality */

static int
refuse_lineage(const struct conn_ckpt *c, const struct part_dir *d,
               const struct file_marker *m, struct err *e)
{
    char ours[LINEAGE_TEXT], theirs[LINEAGE_TEXT];
    int r;

    lineage_text(c->lineage, ours);
    lineage_text(m->lineage, theirs);
    if (c->round == 0) {
        r = err_set(e, ERR_CONFIG,
                    "'%s' holds the output of another state: its marker is at "
                    "checkpoint %" PRIu64 " of lineage %s; this start is "
                    "fresh, of lineage %s",
                    d->path, m->round, theirs, ours);
        err_hint(e, "put the job's data directory back, or begin by the start "
                    "policies with --recover=discard-state");
        return r;
    }
    r = err_set(e, ERR_CONFIG,
                "'%s' belongs to another lineage: its marker is at checkpoint "
                "%" PRIu64 " of %s; the state is at checkpoint %" PRIu64
                " of %s",
                d->path, m->round, theirs, c->round, ours);
    err_hint(e, "give each copy of the job a directory of its own, or begin "
                "anew with --fresh");
    return r;
}

static int
refuse_round(const struct conn_ckpt *c, const struct part_dir *d,
             const struct file_marker *m, struct err *e)
{
    bool ahead = m->round > c->round;
    int r = err_set(e, ERR_CONFIG,
                    "the marker in '%s' is %s the state: checkpoint %" PRIu64
                    " there, %" PRIu64 " here",
                    d->path, ahead ? "ahead of" : "behind", m->round, c->round);

    if (ahead)
        err_hint(e,
                 "--recover=rewind goes on from checkpoint %" PRIu64
                 "; rows since then may be doubled",
                 c->round);
    else
        err_hint(e,
                 "put the directory back as it was at checkpoint %" PRIu64
                 ", or begin anew with --fresh",
                 c->round);
    return r;
}

static int
refuse_absent(const struct conn_ckpt *c, const struct part_dir *d,
              struct err *e)
{
    int r = err_set(e, ERR_CONFIG,
                    "'%s' has no marker; the state is at checkpoint %" PRIu64
                    " and has parts there",
                    d->path, c->round);

    err_hint(e, "put the directory back as it was, or begin anew with --fresh");
    return r;
}

int
file_marker_check(const struct conn_ckpt *c, const struct part_dir *d,
                  const struct file_marker *m, bool has_parts,
                  enum marker_verdict *ret, struct err *e)
{
    if (c->recover == RECOVER_FRESH || c->recover == RECOVER_DISCARD) {
        *ret = MARKER_REPLACE;
    } else if (!m->found) {
        if (has_parts)
            return refuse_absent(c, d, e);
        *ret = MARKER_NEW;
    } else if (memcmp(m->lineage, c->lineage, CONN_LINEAGE_SIZE) != 0) {
        return refuse_lineage(c, d, m, e);
    } else if (m->round == c->round || m->round + 1 == c->round) {
        *ret = MARKER_EQUAL;
    } else if (m->round > c->round && c->recover == RECOVER_REWIND) {
        *ret = MARKER_AHEAD;
    } else {
        return refuse_round(c, d, m, e);
    }
    return 0;
}
