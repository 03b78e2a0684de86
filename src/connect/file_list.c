#include "connect/file_list.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"

static int
add_file(struct file_list *l, size_t *cap, const char *path,
         const struct stat *st, struct err *e)
{
    struct file_entry *f;

    if (l->count == FILE_LIST_MAX)
        return err_set(e, ERR_IO, "more than %d files", (int)FILE_LIST_MAX);
    mem_grow(&l->files, cap, l->count + 1u, sizeof *l->files);
    f = &l->files[l->count++];
    f->path = arena_strdup(&l->arena, path);
    f->size = st->st_size;
    f->dev = st->st_dev;
    f->ino = st->st_ino;
    return 0;
}

static const char *
base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL ? slash + 1 : path;
}

/* Add a name found in a directory or by a glob if it is one to read. */
static int
add_found(struct file_list *l, size_t *cap, const char *path, struct err *e)
{
    struct stat st;

    if (base_name(path)[0] == '.')
        return 0;
    if (stat(path, &st) != 0) {
        if (errno == ENOENT)
            return 0; /* gone since, or a link to nothing */
        return err_set(e, ERR_IO, "cannot read '%s': %s", path,
                       strerror(errno));
    }
    return S_ISREG(st.st_mode) ? add_file(l, cap, path, &st, e) : 0;
}

static int
list_dir(struct file_list *l, const char *path, struct err *e)
{
    size_t cap = 0, len = strlen(path);
    struct dirent *entry;
    DIR *dir = opendir(path);
    int r = 0;

    if (dir == NULL)
        return err_set(e, ERR_IO, "cannot open '%s': %s", path,
                       strerror(errno));
    while (r == 0 && (errno = 0, entry = readdir(dir)) != NULL) {
        size_t name_len = strlen(entry->d_name);
        char *full = mem_alloc(len + name_len + 2);

        memcpy(full, path, len);
        full[len] = '/';
        memcpy(full + len + (path[len - 1] != '/'), entry->d_name,
               name_len + 1);
        r = add_found(l, &cap, full, e);
        free(full);
    }
    if (r == 0 && errno != 0)
        r = err_set(e, ERR_IO, "cannot read '%s': %s", path, strerror(errno));
    (void)closedir(dir);
    return r;
}

static int
list_glob(struct file_list *l, const char *pattern, struct err *e)
{
    size_t i, cap = 0;
    glob_t g;
    int r = 0;
    int got = glob(pattern, GLOB_NOSORT, NULL, &g);

    if (got == GLOB_NOSPACE)
        return err_set(e, ERR_NOMEM, "no memory to list '%s'", pattern);
    if (got == GLOB_ABORTED)
        return err_set(e, ERR_IO, "cannot list '%s': %s", pattern,
                       strerror(errno));
    for (i = 0; got == 0 && r == 0 && i < g.gl_pathc; i++)
        r = add_found(l, &cap, g.gl_pathv[i], e);
    globfree(&g);
    if (r == 0 && l->count == 0)
        r = err_set(e, ERR_IO, "no file matches '%s'", pattern);
    return r;
}

static int
by_path(const void *a, const void *b)
{
    return strcmp(((const struct file_entry *)a)->path,
                  ((const struct file_entry *)b)->path);
}

int
file_list_make(const char *path, struct file_list *ret, struct err *e)
{
    struct stat st;
    size_t cap = 0;
    int r;

    memset(ret, 0, sizeof *ret);
    arena_init(&ret->arena);
    if (stat(path, &st) != 0) {
        int why = errno;

        if (strpbrk(path, "*?[") == NULL || *path == '\0')
            return err_set(e, ERR_IO, "cannot open '%s': %s", path,
                           strerror(why));
        r = list_glob(ret, path, e);
    } else if (S_ISDIR(st.st_mode)) {
        r = list_dir(ret, path, e);
    } else if (S_ISREG(st.st_mode)) {
        r = add_file(ret, &cap, path, &st, e);
    } else {
        r = err_set(e, ERR_IO, "'%s' is no regular file and no directory",
                    path);
        err_hint(e, "read a pipe with s.stdin, and < or | in the shell");
    }
    if (r == 0 && ret->count > 1)
        qsort(ret->files, ret->count, sizeof *ret->files, by_path);
    return r;
}

void
file_list_fini(struct file_list *l)
{
    free(l->files);
    l->files = NULL;
    l->count = 0;
    arena_fini(&l->arena);
}
