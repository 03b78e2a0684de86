/*
 * A bad disk and a bad allocator between LMDB and the system: included once,
 * by a test program whose symbols then stand before those of libc.
 *
 * While armed, the n-th write, sync or allocation fails, is cut short, or is
 * the last thing the process does. "Losing power" also takes back, each with
 * even odds, the writes to files that were not synced yet.
 */
#ifndef TESTS_STORE_SHIM_H
#define TESTS_STORE_SHIM_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum shim_mode {
    SHIM_OFF,
    SHIM_FAIL,      /* the n-th fails */
    SHIM_FAIL_FROM, /* it and all later ones fail */
    SHIM_SHORT,     /* half of it is written */
    SHIM_DIE,       /* the process dies before it */
    SHIM_POWER,     /* before it, and unsynced writes may be lost */
    SHIM_MEM        /* the n-th allocation fails */
};

enum { SHIM_EXIT = 99, SHIM_LOG_MAX = 4096 };

static _Atomic enum shim_mode shim_mode;
static _Atomic unsigned long shim_at, shim_count;
static _Atomic int shim_errno = EIO;

struct shim_undo {
    int fd;
    dev_t dev;
    ino_t ino;
    off_t offset;
    size_t len;
    void *old;
};

static struct shim_undo shim_log[SHIM_LOG_MAX];
static unsigned shim_logged;
static uint64_t shim_random;

bool shim_step(void);

static ssize_t
shim_real_pwrite(int fd, const void *bytes, size_t len, off_t offset)
{
    return syscall(SYS_pwrite64, fd, bytes, len, offset);
}

/* A descriptor of the same file that outlives the one of the writer. */
static int
shim_keep(int fd, const struct stat *st)
{
    static struct {
        dev_t dev;
        ino_t ino;
        int fd;
    } files[64];
    static unsigned count;
    unsigned i;

    for (i = 0; i < count; i++)
        if (files[i].dev == st->st_dev && files[i].ino == st->st_ino)
            return files[i].fd;
    if (count == sizeof files / sizeof *files)
        return fd;
    files[count].dev = st->st_dev;
    files[count].ino = st->st_ino;
    files[count].fd = dup(fd);
    return files[count++].fd;
}

/* Remember what a write covers, unless it is durable at once. */
static void
shim_note(int fd, size_t len, off_t offset)
{
    struct shim_undo *u = &shim_log[shim_logged];
    struct stat st;

    if (shim_mode != SHIM_POWER || shim_logged == SHIM_LOG_MAX ||
        (fcntl(fd, F_GETFL) & O_DSYNC) != 0 || fstat(fd, &st) != 0)
        return;
    u->old = calloc(1, len + 1);
    if (u->old == NULL)
        return;
    (void)!pread(fd, u->old, len, offset);
    u->fd = shim_keep(fd, &st);
    u->dev = st.st_dev;
    u->ino = st.st_ino;
    u->offset = offset;
    u->len = len;
    shim_logged++;
}

static void
shim_synced(int fd)
{
    struct stat st;
    unsigned i;

    if (fstat(fd, &st) != 0)
        return;
    for (i = 0; i < shim_logged; i++)
        if (shim_log[i].ino == st.st_ino && shim_log[i].dev == st.st_dev)
            shim_log[i].len = 0;
}

/* The newest first, so that older bytes end up below. */
static void
shim_lose_power(void)
{
    while (shim_logged-- > 0) {
        struct shim_undo *u = &shim_log[shim_logged];

        shim_random = shim_random * UINT64_C(6364136223846793005) + 1442695;
        if (u->len != 0 && (shim_random >> 40 & 1) != 0)
            (void)!shim_real_pwrite(u->fd, u->old, u->len, u->offset);
    }
}

/* Count one write or sync. @return whether it shall fail. */
bool
shim_step(void)
{
    if (shim_mode == SHIM_OFF || shim_mode == SHIM_MEM)
        return false;
    shim_count++;
    if (shim_mode == SHIM_FAIL_FROM)
        return shim_count >= shim_at;
    if (shim_count != shim_at)
        return false;
    if (shim_mode == SHIM_POWER)
        shim_lose_power();
    if (shim_mode == SHIM_DIE || shim_mode == SHIM_POWER)
        _exit(SHIM_EXIT);
    return true;
}

ssize_t
pwrite(int fd, const void *bytes, size_t len, off_t offset)
{
    if (shim_step()) {
        if (shim_mode == SHIM_SHORT && len > 1)
            return shim_real_pwrite(fd, bytes, len / 2, offset);
        errno = shim_errno;
        return -1;
    }
    shim_note(fd, len, offset);
    return shim_real_pwrite(fd, bytes, len, offset);
}

/* LMDB writes runs of pages with it, after lseek(). */
ssize_t
writev(int fd, const struct iovec *v, int n)
{
    off_t at = lseek(fd, 0, SEEK_CUR);
    size_t len = 0;
    int i;

    for (i = 0; i < n; i++)
        len += v[i].iov_len;
    if (shim_step()) {
        if (shim_mode == SHIM_SHORT)
            return syscall(SYS_writev, fd, v, n > 1 ? n / 2 : n);
        errno = shim_errno;
        return -1;
    }
    shim_note(fd, len, at);
    return syscall(SYS_writev, fd, v, n);
}

int
fdatasync(int fd)
{
    if (shim_step() && shim_mode != SHIM_SHORT) {
        errno = shim_errno;
        return -1;
    }
    shim_synced(fd);
    return (int)syscall(SYS_fdatasync, fd);
}

int
fsync(int fd)
{
    if (shim_step() && shim_mode != SHIM_SHORT) {
        errno = shim_errno;
        return -1;
    }
    shim_synced(fd);
    return (int)syscall(SYS_fsync, fd);
}

int
rename(const char *from, const char *to)
{
    if (shim_step() && shim_mode != SHIM_SHORT) {
        errno = shim_errno;
        return -1;
    }
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

/* Sanitizers bring their own allocator; there this part is left out. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SHIM_HAS_MEM 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||     \
    __has_feature(memory_sanitizer)
#define SHIM_HAS_MEM 0
#endif
#endif
#if !defined(SHIM_HAS_MEM) && defined(__GLIBC__)
#define SHIM_HAS_MEM 1
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t align, size_t size);

static bool
shim_no_memory(void)
{
    return shim_mode == SHIM_MEM && ++shim_count == shim_at;
}

void *
malloc(size_t size)
{
    if (shim_no_memory()) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_malloc(size);
}

void *
calloc(size_t n, size_t size)
{
    if (shim_no_memory()) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_calloc(n, size);
}

void *
realloc(void *p, size_t size)
{
    if (shim_no_memory()) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_realloc(p, size);
}

int
posix_memalign(void **ret, size_t align, size_t size)
{
    if (shim_no_memory())
        return ENOMEM;
    *ret = __libc_memalign(align, size);
    return *ret == NULL ? ENOMEM : 0;
}
#elif !defined(SHIM_HAS_MEM)
#define SHIM_HAS_MEM 0
#endif

static inline void
shim_arm(enum shim_mode mode, unsigned long at)
{
    shim_count = 0;
    shim_at = at;
    shim_random = at;
    shim_logged = 0;
    shim_mode = mode;
}

#endif
