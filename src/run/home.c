#include "run/home.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"

enum {
    OLD_MAX = 100000,
    COPY_ENTRIES = 100000,
    /* Each stateful subtask keeps a place from its first question on: more
     * than there are in a job; 64 bytes each in the lock file. */
    READERS_MAX = 8192,
    ROOM_MIN = 16 << 20 /* bytes a temporary store needs beside the state */
};

static void
name_owner(struct home *h)
{
    char host[64] = "unknown";
    uint64_t id =
        hash_splitmix((uint64_t)clock_wall_ms() << 20 ^
                      (uint64_t)clock_mono_ns() ^ (uint64_t)getpid() << 40);

    (void)gethostname(host, sizeof host - 1);
    (void)snprintf(h->owner, sizeof h->owner, "%s:%ld %08x", host,
                   (long)getpid(), (unsigned)(id >> 32));
}

static char *
join(const char *dir, const char *name, const char *suffix)
{
    size_t size = strlen(dir) + strlen(name) + strlen(suffix) + 2;
    char *path = mem_alloc(size);

    (void)snprintf(path, size, "%s/%s%s", dir, name, suffix);
    return path;
}

static bool
exists(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0;
}

/* Whether anything of a job is in the directory. */
static bool
has_store(const char *dir)
{
    char *path = join(dir, "data.mdb", "");
    bool yes = exists(path);

    free(path);
    return yes;
}

/* --fresh: what an earlier run left is moved aside, never deleted. The lock
 * is held meanwhile, so that no running job loses its directory. */
static int
move_aside(struct home *h, const struct run_conf *conf, const char *job,
           struct err *e)
{
    struct store_opts o = {.dir = h->dir};
    struct store *s = NULL;
    char suffix[32], *to = NULL;
    int n, r;

    if (!exists(h->dir))
        return 0;
    r = store_open(&o, &s, e);
    if (r == ERR_BUSY)
        return r;
    for (n = 1; n < OLD_MAX; n++) {
        (void)snprintf(suffix, sizeof suffix, ".old-%d", n);
        to = join(conf->data_dir, job, suffix);
        if (!exists(to))
            break;
        free(to);
        to = NULL;
    }
    r = to != NULL && rename(h->dir, to) == 0
            ? 0
            : err_set(e, ERR_BUSY, "cannot move '%s' aside: %s", h->dir,
                      strerror(errno));
    if (r == 0)
        log_line(LOG_INFO, "fresh start: the earlier data directory is now %s",
                 to);
    store_close(&s);
    free(to);
    return r;
}

static void
new_lineage(uint8_t ret[STORE_LINEAGE_SIZE])
{
    uint64_t a = (uint64_t)clock_wall_ms() ^ (uint64_t)getpid() << 44;
    uint64_t b = (uint64_t)clock_mono_ns();
    int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);

    a = hash_splitmix(a);
    b = hash_splitmix(b ^ a);
    memcpy(ret, &a, sizeof a);
    memcpy(ret + sizeof a, &b, sizeof b);
    if (fd != -1) {
        (void)!read(fd, ret, STORE_LINEAGE_SIZE);
        (void)close(fd);
    }
}

static int
copy_blob(struct store_reader *r, const char *name, struct buf *to,
          struct err *e)
{
    const void *bytes;
    size_t len;
    int rc = store_reader_blob(r, name, &bytes, &len, e);

    buf_clear(to);
    if (rc == 1)
        buf_add(to, bytes, len);
    return rc < 0 ? rc : 0;
}

/* What tells the round of a store from all others: its meta has the time. */
static int
read_identity(const char *dir, struct store_status *ret, struct buf *meta,
              struct err *e)
{
    struct store_opts o = {.dir = dir};
    struct store_reader *r = NULL;
    struct store *s = NULL;
    int rc = store_open(&o, &s, e);

    if (rc == 0) {
        store_status(s, ret);
        rc = store_reader_new(s, &r, e);
    }
    if (rc == 0)
        rc = store_reader_begin(r, STORE_VIEW_COMPLETE, e);
    if (rc == 0)
        rc = copy_blob(r, "meta", meta, e);
    store_reader_free(&r);
    store_close(&s);
    return rc;
}

/* Whether the directory is a copy of the savepoint that no round came to: an
 * earlier start with --from was refused, or died. @return 1, 0, or an error. */
static int
is_copied(const struct home *h, const char *from, struct err *e)
{
    struct store_status own = {0}, its = {0};
    struct buf a, b;
    int r;

    buf_init(&a);
    buf_init(&b);
    r = read_identity(h->dir, &own, &a, e);
    if (r == 0)
        r = read_identity(from, &its, &b, e);
    if (r == 0)
        r = own.complete == its.complete && own.pending == 0 && a.len != 0 &&
            a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
    buf_fini(&a);
    buf_fini(&b);
    return r;
}

/* --from: the savepoint is copied, so it can be started from again, also by
 * the same call until a round is complete. */
static int
copy_from(struct home *h, const struct run_conf *conf, struct err *e)
{
    struct store_opts o = {.dir = conf->from};
    uint8_t lineage[STORE_LINEAGE_SIZE];
    struct store_copy *c = NULL;
    struct store *s = NULL;
    int r;

    if (has_store(h->dir)) {
        r = is_copied(h, conf->from, e);
        if (r != 0)
            return r < 0 ? r : 0;
        r = err_set(e, ERR_CONFIG,
                    "--from %s: the job has a data directory of its own, '%s'",
                    conf->from, h->dir);
        err_hint(e, "without --from it goes on from there; move it away to "
                    "begin from the savepoint");
        return r;
    }
    (void)mkdir(conf->data_dir, 0777);
    new_lineage(lineage);
    r = store_open(&o, &s, e);
    if (r == 0)
        r = store_copy_begin(s, h->dir, conf->new_lineage ? lineage : NULL, &c,
                             e);
    while (r == 0) {
        r = store_copy_step(c, COPY_ENTRIES, e);
        if (r == 0)
            break;
        r = r > 0 ? 0 : r;
    }
    store_copy_free(&c);
    store_close(&s);
    if (r != 0)
        (void)err_context(e, "--from %s", conf->from);
    return r;
}

static int
read_blobs(struct home *h, struct store_reader *r, struct err *e)
{
    struct buf steps;
    int rc;

    buf_init(&steps);
    rc = copy_blob(r, "plan", &h->plan, e);
    if (rc == 0)
        rc = copy_blob(r, "txn", &h->txn, e);
    if (rc == 0 && !h->started)
        rc = copy_blob(r, "code", &h->code, e);
    if (rc == 0 && !h->started)
        rc = copy_blob(r, "reloads", &h->reloads, e);
    if (rc == 0)
        rc = copy_blob(r, "steps", &steps, e);
    restored_fini(&h->restored);
    if (rc == 0 && store_reader_round(r) != 0)
        rc = restored_read(steps.data, steps.len, &h->restored, e);
    buf_fini(&steps);
    return rc;
}

int
home_look(struct home *h, struct err *e)
{
    struct store_reader *r = NULL;
    int rc;

    store_status(h->store, &h->status);
    rc = store_reader_new(h->store, &r, e);
    if (rc == 0)
        rc = store_reader_begin(r, STORE_VIEW_COMPLETE, e);
    if (rc == 0) {
        rc = read_blobs(h, r, e);
        store_reader_end(r);
    }
    store_reader_free(&r);
    if (rc != 0)
        (void)err_context(e, "'%s', checkpoint %llu", h->dir,
                          (unsigned long long)h->status.complete);
    return rc;
}

int
home_open(struct home *h, const struct run_conf *conf, const char *job,
          struct err *e)
{
    struct store_opts o = {.create = true, .readers_max = READERS_MAX};
    int r = 0;

    memset(h, 0, sizeof *h);
    name_owner(h);
    h->dir = join(conf->data_dir, job, "");
    h->recover = conf->recover;
    if (conf->fresh || conf->new_lineage)
        h->recover = RECOVER_FRESH;
    if (conf->fresh || conf->recover == RECOVER_DISCARD)
        r = move_aside(h, conf, job, e);
    if (r == 0 && conf->from != NULL)
        r = copy_from(h, conf, e);
    if (r != 0)
        return r;
    (void)mkdir(conf->data_dir, 0777);
    o.dir = h->dir;
    o.no_sync = conf->box != NULL;
    r = store_open(&o, &h->store, e);
    return r != 0 ? r : home_look(h, e);
}

/* The store of a temporary home is a few files in one folder. */
static void
remove_temporary(struct home *h)
{
    DIR *d = opendir(h->dir);
    const struct dirent *entry;

    while (d != NULL && (entry = readdir(d)) != NULL)
        (void)unlinkat(dirfd(d), entry->d_name, 0);
    if (d != NULL)
        (void)closedir(d);
    (void)rmdir(h->dir);
    free(h->dir);
    h->dir = NULL;
    h->temporary = false;
}

int
home_open_temporary(struct home *h, struct err *e)
{
    struct store_opts o = {
        .create = true, .no_sync = true, .readers_max = READERS_MAX};
    const char *tmp = getenv("TMPDIR");
    int r;

    name_owner(h);
    h->dir = join(tmp != NULL && tmp[0] != '\0' ? tmp : "/tmp",
                  "streamlua-reload-", "XXXXXX");
    if (mkdtemp(h->dir) == NULL) {
        r = err_set(e, ERR_IO, "cannot make '%s': %s", h->dir, strerror(errno));
        free(h->dir);
        h->dir = NULL;
        return r;
    }
    h->temporary = h->started = true;
    o.dir = h->dir;
    r = store_open(&o, &h->store, e);
    if (r == 0)
        return home_look(h, e);
    remove_temporary(h);
    return r;
}

int
home_check_room(const struct home *h, uint64_t state, struct err *e)
{
    /* A round is written once as redo and once into the base. */
    uint64_t need = 2 * state + ROOM_MIN, room;
    struct statvfs v;

    if (statvfs(h->dir, &v) != 0)
        return err_set(e, ERR_IO, "cannot look at '%s': %s", h->dir,
                       strerror(errno));
    room = (uint64_t)v.f_bavail * v.f_frsize;
    if (room >= need)
        return 0;
    (void)err_set(e, ERR_IO,
                  "'%s' has room for %" PRIu64
                  " MiB, and what the job keeps may take %" PRIu64,
                  h->dir, room >> 20, need >> 20);
    err_hint(e, "make room, or start the job with TMPDIR in another place");
    return ERR_IO;
}

void
home_close(struct home *h)
{
    store_close(&h->store);
    if (h->temporary)
        remove_temporary(h);
    restored_fini(&h->restored);
    buf_fini(&h->plan);
    buf_fini(&h->txn);
    buf_fini(&h->code);
    buf_fini(&h->reloads);
    free(h->dir);
    h->dir = NULL;
}
