#include "state/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { OWNER_MAX = 256, BOOT_MAX = 48 };

int
lock_make_dir(const char *dir, struct err *e)
{
    if (mkdir(dir, 0700) == 0 || errno == EEXIST)
        return 0;
    return err_set(e, ERR_BUSY, "cannot make the data directory '%s': %s", dir,
                   strerror(errno));
}

int
lock_check_fs(const char *dir, struct err *e)
{
    static const struct {
        uint32_t magic;
        const char *name;
    } remote[] = {
        {0x6969, "NFS"},      {0x517b, "SMB"},        {0xff534d42, "CIFS"},
        {0xfe534d42, "SMB2"}, {0x5346414f, "AFS"},    {0x00c36400, "Ceph"},
        {0x73757245, "Coda"}, {0x0bd00bd0, "Lustre"},
    };
    struct statfs st;
    size_t i;

    if (statfs(dir, &st) != 0)
        return err_set(e, ERR_IO, "cannot look at '%s': %s", dir,
                       strerror(errno));
    for (i = 0; i < sizeof remote / sizeof *remote; i++) {
        if ((uint32_t)st.f_type != remote[i].magic)
            continue;
        (void)err_set(e, ERR_CONFIG,
                      "the data directory '%s' is on a network filesystem "
                      "(%s), where the store can be destroyed",
                      dir, remote[i].name);
        err_hint(e, "put it on a local disk");
        return ERR_CONFIG;
    }
    return 0;
}

static void
read_boot_id(char out[BOOT_MAX])
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd != -1 ? read(fd, out, BOOT_MAX - 1) : -1;

    if (n <= 0)
        n = snprintf(out, BOOT_MAX, "unknown");
    out[n] = '\0';
    out[strcspn(out, "\n")] = '\0';
    if (fd != -1)
        (void)close(fd);
}

static int
open_lock(const char *dir, int flags)
{
    char path[PATH_MAX];

    (void)snprintf(path, sizeof path, "%s/lock", dir);
    return open(path, flags | O_CLOEXEC, 0600);
}

static int
held(const char *dir, int fd, struct err *e)
{
    char owner[OWNER_MAX] = "";
    ssize_t n = pread(fd, owner, sizeof owner - 1, 0);

    owner[n > 0 ? n : 0] = '\0';
    owner[strcspn(owner, "\n")] = '\0';
    (void)err_set(e, ERR_BUSY,
                  "the data directory '%s' is in use by another process (%s)",
                  dir, owner[0] != '\0' ? owner : "owner unknown");
    err_hint(e, "stop that process, or use another --data-dir");
    return ERR_BUSY;
}

int
lock_take(const char *dir, int *ret_fd, struct err *e)
{
    char text[OWNER_MAX], host[64] = "", boot[BOOT_MAX];
    int fd = open_lock(dir, O_RDWR | O_CREAT), n, r = 0;

    if (fd == -1)
        return err_set(e, ERR_IO, "cannot make the lock file in '%s': %s", dir,
                       strerror(errno));
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        r = errno == EWOULDBLOCK ? held(dir, fd, e)
                                 : err_set(e, ERR_IO, "cannot lock '%s': %s",
                                           dir, strerror(errno));
        goto fail;
    }
    (void)gethostname(host, sizeof host - 1);
    read_boot_id(boot);
    n = snprintf(text, sizeof text, "host=%s pid=%ld boot=%s\n", host,
                 (long)getpid(), boot);
    if (ftruncate(fd, 0) != 0 || pwrite(fd, text, (size_t)n, 0) != n) {
        r = err_set(e, ERR_IO, "cannot write the lock file in '%s': %s", dir,
                    strerror(errno));
        goto fail;
    }
    *ret_fd = fd;
    return 0;

fail:
    (void)close(fd);
    return r;
}

void
lock_give(int *fd)
{
    if (*fd != -1)
        (void)close(*fd);
    *fd = -1;
}

bool
lock_is_held(const char *dir)
{
    int fd = open_lock(dir, O_RDONLY);
    bool is_held = false;

    if (fd == -1)
        return false;
    is_held = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    (void)close(fd);
    return is_held;
}
