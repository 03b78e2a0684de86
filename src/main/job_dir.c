#include "main/job_dir.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

static char *
join(const char *dir, const char *name)
{
    size_t size = strlen(dir) + strlen(name) + 2;
    char *path = mem_alloc(size);

    (void)snprintf(path, size, "%s/%s", dir, name);
    return path;
}

int
job_dir_read(const struct cli *c, const char *word, struct job_dir *ret,
             struct err *e)
{
    const char *data_dir = cli_text(c, FLAG_DATA_DIR), *last;
    size_t len;

    memset(ret, 0, sizeof *ret);
    ret->path =
        strchr(word, '/') != NULL
            ? mem_strdup(word)
            : join(data_dir != NULL ? data_dir : "streamlua-data", word);
    len = strlen(ret->path);
    while (len > 1 && ret->path[len - 1] == '/')
        ret->path[--len] = '\0';
    last = strrchr(ret->path, '/');
    ret->name = mem_strdup(last != NULL ? last + 1 : ret->path);
    if (word[0] == '\0' || ret->name[0] == '\0')
        return err_set(e, ERR_USAGE,
                       "expected the name of a job or the path of its "
                       "directory, got \"%s\"",
                       word);
    return 0;
}

void
job_dir_fini(struct job_dir *d)
{
    free(d->path);
    free(d->name);
    memset(d, 0, sizeof *d);
}

bool
job_dir_has_store(const struct job_dir *d)
{
    char *file = join(d->path, "data.mdb");
    struct stat st;
    bool yes = stat(file, &st) == 0 || errno == EACCES;

    free(file);
    return yes;
}

char *
job_dir_absolute(const char *path)
{
    char cwd[PATH_MAX];

    if (path[0] == '/')
        return mem_strdup(path);
    return getcwd(cwd, sizeof cwd) != NULL ? join(cwd, path) : NULL;
}
