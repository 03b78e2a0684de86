#include "connect/file_part.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fault.h"
#include "base/mem.h"

#define IN_PROGRESS ".inprogress"

int
part_error(const struct part_dir *d, const char *what, const char *name,
           struct err *e)
{
    return err_set(e, ERR_IO, "cannot %s '%s/%s': %s", what, d->path, name,
                   strerror(errno));
}

static void
temp_name(const char *name, char out[PART_TEMP_SIZE])
{
    (void)snprintf(out, PART_TEMP_SIZE, ".%.*s" IN_PROGRESS, PART_NAME_SIZE - 1,
                   name);
}

/* ----------------------------------------------------------- the directory */

char *
part_dir_where(const char *path)
{
    char *real = realpath(path, NULL), *above, *ret;
    const char *slash = strrchr(path, '/');
    struct buf b;

    if (real != NULL) {
        ret = mem_strdup(real);
        free(real);
        return ret;
    }
    /* What is not there yet: its name below where the rest leads. */
    buf_init(&b);
    buf_add(&b, path, slash != NULL ? (size_t)(slash - path) : 0);
    if (b.len == 0)
        buf_adds(&b, slash != NULL ? "/" : ".");
    above = *path != '\0' && strcmp(path, "/") != 0 && strcmp(path, ".") != 0
                ? part_dir_where(buf_cstr(&b))
                : mem_strdup(path);
    buf_clear(&b);
    buf_adds(&b, above);
    if (slash != NULL)
        path = slash + 1;
    if (*path != '\0' && strcmp(path, ".") != 0)
        buf_addf(&b, "%s%s", b.len > 0 && b.data[b.len - 1] == '/' ? "" : "/",
                 path);
    ret = mem_strdup(buf_cstr(&b));
    free(above);
    buf_fini(&b);
    return ret;
}

/* So that a directory that was made is not lost with what is in it. */
static int
sync_above(const char *path, struct err *e)
{
    char *above = mem_strdup(path), *slash = strrchr(above, '/');
    const char *dir = slash == NULL ? "." : slash == above ? "/" : above;
    int fd, r = 0;

    if (slash != NULL && slash != above)
        *slash = '\0';
    fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd == -1 || (fsync(fd) != 0 && errno != EINVAL))
        r = err_set(e, ERR_IO, "cannot sync '%s': %s", dir, strerror(errno));
    if (fd != -1)
        (void)close(fd);
    free(above);
    return r;
}

/* Make the directory and those above it. */
static int
make_dir(const char *path, struct err *e)
{
    char *copy, *at;
    struct stat st;
    int r = 0;

    if (*path == '\0')
        return err_set(e, ERR_IO, "the path of the directory is empty");
    copy = mem_strdup(path);
    for (at = copy + 1; r == 0; at++) {
        char c = *at;

        if (c != '/' && c != '\0')
            continue;
        *at = '\0';
        if (mkdir(copy, 0777) == 0)
            r = sync_above(copy, e);
        else if (errno != EEXIST && stat(copy, &st) != 0)
            r = err_set(e, ERR_IO, "cannot make the directory '%s': %s", copy,
                        strerror(errno));
        *at = c;
        if (c == '\0')
            break;
    }
    free(copy);
    return r;
}

int
part_dir_open(const char *path, struct part_dir *ret, struct err *e)
{
    int r = make_dir(path, e);

    ret->fd = -1;
    ret->path = part_dir_where(path);
    if (r < 0)
        return r;
    ret->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (ret->fd == -1)
        return err_set(e, ERR_IO, "cannot open '%s': %s", path,
                       strerror(errno));
    if (faccessat(ret->fd, ".", W_OK | X_OK, 0) != 0)
        return err_set(e, ERR_IO, "cannot write to '%s': %s", path,
                       strerror(errno));
    return 0;
}

int
part_dir_lock(const struct part_dir *d, struct err *e)
{
    /* Some file systems cannot lock a directory: then nobody is kept out. */
    if (flock(d->fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
        return 0;
    (void)err_set(e, ERR_BUSY, "'%s' is written by another job or sink",
                  d->path);
    err_hint(e, "give each file sink a directory of its own");
    return ERR_BUSY;
}

int
part_dir_sync(const struct part_dir *d, struct err *e)
{
    if (fsync(d->fd) != 0 && errno != EINVAL)
        return err_set(e, ERR_IO, "cannot sync '%s': %s", d->path,
                       strerror(errno));
    return 0;
}

void
part_dir_close(struct part_dir *d)
{
    if (d->fd != -1)
        (void)close(d->fd);
    d->fd = -1;
    free(d->path);
    d->path = NULL;
}

/* The number in "part-<subtask>-<seq>.…"; false if it is another name. */
bool
part_name_read(const char *name, uint64_t *ret_seq)
{
    uint64_t seq = 0;

    if (strlen(name) >= PART_NAME_SIZE || strchr(name, '/') != NULL ||
        strncmp(name, "part-", 5) != 0 || !isdigit((unsigned char)name[5]))
        return false;
    name += 5 + strspn(name + 5, "0123456789");
    if (*name != '-' || !isdigit((unsigned char)name[1]))
        return false;
    for (name++; isdigit((unsigned char)*name); name++) {
        if (seq > UINT64_MAX / 100)
            return false;
        seq = seq * 10 + (uint64_t)(*name - '0');
    }
    *ret_seq = seq;
    return *name == '.';
}

static bool
read_found(const char *name, struct part_found *ret)
{
    size_t len = strlen(name), tail = sizeof IN_PROGRESS - 1;

    ret->temp = *name == '.';
    if (ret->temp) {
        if (len <= tail + 1 || strcmp(name + len - tail, IN_PROGRESS) != 0)
            return false;
        name++;
        len -= tail + 1;
    }
    if (len >= sizeof ret->name)
        return false;
    memcpy(ret->name, name, len);
    ret->name[len] = '\0';
    return part_name_read(ret->name, &ret->seq);
}

int
part_dir_scan(const struct part_dir *d, part_found_f *f, void *arg,
              struct err *e)
{
    DIR *dir = opendir(d->path);
    struct part_found found;
    struct dirent *entry;
    int r = 0;

    if (dir == NULL)
        return err_set(e, ERR_IO, "cannot open '%s': %s", d->path,
                       strerror(errno));
    while (r == 0 && (errno = 0, entry = readdir(dir)) != NULL)
        if (read_found(entry->d_name, &found))
            r = f(arg, &found, e);
    if (r == 0 && errno != 0)
        r = err_set(e, ERR_IO, "cannot read '%s': %s", d->path,
                    strerror(errno));
    (void)closedir(dir);
    return r;
}

int
part_size(const struct part_dir *d, const char *name, bool temp, int64_t *ret,
          struct err *e)
{
    char hidden[PART_TEMP_SIZE];
    struct stat st;

    temp_name(name, hidden);
    *ret = -1;
    if (fstatat(d->fd, temp ? hidden : name, &st, 0) == 0)
        *ret = st.st_size;
    else if (errno != ENOENT)
        return part_error(d, "look at", temp ? hidden : name, e);
    return 0;
}

/* --------------------------------------------------------------- one part */

struct part *
part_new(const char *name)
{
    struct part *p = mem_zalloc(sizeof *p);

    (void)snprintf(p->name, sizeof p->name, "%s", name);
    p->fd = -1;
    return p;
}

void
part_free_list(struct part **list)
{
    struct part *p = *list;

    *list = NULL;
    while (p != NULL) {
        struct part *next = p->next;

        if (p->fd != -1)
            (void)close(p->fd);
        free(p);
        p = next;
    }
}

int
part_create(const struct part_dir *d, struct part *p, struct err *e)
{
    char temp[PART_TEMP_SIZE];

    temp_name(p->name, temp);
    p->fd = openat(d->fd, temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    return p->fd == -1 ? part_error(d, "make", temp, e) : 0;
}

static int
open_temp(const struct part_dir *d, struct part *p, struct err *e)
{
    char temp[PART_TEMP_SIZE];

    temp_name(p->name, temp);
    p->fd = openat(d->fd, temp, O_WRONLY | O_CLOEXEC);
    return p->fd == -1 ? part_error(d, "open", temp, e) : 0;
}

int
part_resume(const struct part_dir *d, struct part *p, int64_t size,
            struct err *e)
{
    int r = open_temp(d, p, e);

    if (r == 0 &&
        (ftruncate(p->fd, size) != 0 || lseek(p->fd, size, SEEK_SET) != size))
        r = part_error(d, "cut", p->name, e);
    return r;
}

int
part_sync(const struct part_dir *d, struct part *p, struct err *e)
{
    int r = p->fd == -1 ? open_temp(d, p, e) : 0;

    if (r < 0)
        return r;
    if (fault_hit("file_sink_sync"))
        errno = EIO, r = -1;
    else
        r = fsync(p->fd);
    if (r != 0)
        r = part_error(d, "sync", p->name, e);
    if (close(p->fd) != 0 && r == 0)
        r = part_error(d, "close", p->name, e);
    p->fd = -1;
    return r;
}

int
part_publish(const struct part_dir *d, struct part *p, struct err *e)
{
    char temp[PART_TEMP_SIZE];
    int r = p->fd != -1 ? part_sync(d, p, e) : 0;

    temp_name(p->name, temp);
    if (r == 0 && faccessat(d->fd, p->name, F_OK, 0) == 0) {
        errno = EEXIST;
        r = part_error(d, "rename to", p->name, e);
    }
    if (r == 0 && fault_hit("file_sink_rename")) {
        errno = EIO;
        r = part_error(d, "rename", temp, e);
    }
    if (r == 0 && renameat(d->fd, temp, d->fd, p->name) != 0)
        r = part_error(d, "rename", temp, e);
    return r;
}

int
part_remove(const struct part_dir *d, const char *name, struct err *e)
{
    char temp[PART_TEMP_SIZE];

    temp_name(name, temp);
    if (unlinkat(d->fd, temp, 0) != 0 && errno != ENOENT)
        return part_error(d, "remove", temp, e);
    return 0;
}
