#include "testing/find.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/mem.h"

static const char suffix[] = "_test.lua";

static bool
ends_with(const char *s, const char *end)
{
    size_t len = strlen(s), n = strlen(end);

    return len > n && strcmp(s + len - n, end) == 0;
}

static int
compare(const void *va, const void *vb)
{
    const char *const *a = va, *const *b = vb;

    return strcmp(*a, *b);
}

static int
find_in_folder(const char *path, char ***ret, size_t *ret_count, struct err *e)
{
    DIR *dir = opendir(path);
    const struct dirent *d;
    size_t len = strlen(path), n = 0, cap = 0;
    char **list = NULL;
    struct buf b;

    if (dir == NULL)
        return err_set(e, ERR_JOBFILE, "cannot read the folder '%s': %s", path,
                       strerror(errno));
    buf_init(&b);
    while ((d = readdir(dir)) != NULL) {
        if (d->d_name[0] == '.' || !ends_with(d->d_name, suffix))
            continue;
        buf_clear(&b);
        if (strcmp(path, ".") != 0)
            buf_addf(&b, "%s%s", path, path[len - 1] == '/' ? "" : "/");
        buf_adds(&b, d->d_name);
        mem_grow(&list, &cap, n + 1, sizeof *list);
        list[n++] = mem_strdup(buf_cstr(&b));
    }
    (void)closedir(dir);
    buf_fini(&b);
    if (n == 0)
        return err_set(e, ERR_JOBFILE, "there is no *_test.lua in '%s'", path);
    qsort(list, n, sizeof *list, compare);
    *ret = list;
    *ret_count = n;
    return 0;
}

int
find_tests(const char *path, char ***ret, size_t *ret_count, struct err *e)
{
    struct stat st;
    struct buf b;
    int r = 0;

    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return find_in_folder(path, ret, ret_count, e);
    buf_init(&b);
    buf_adds(&b, path);
    if (!ends_with(path, suffix)) {
        if (ends_with(path, ".lua"))
            b.len -= strlen(".lua");
        buf_adds(&b, suffix);
    }
    if (stat(buf_cstr(&b), &st) != 0) {
        r = err_set(e, ERR_JOBFILE, "there is no test file '%s'", buf_cstr(&b));
    } else {
        *ret = mem_alloc(sizeof **ret);
        (*ret)[0] = mem_strdup(buf_cstr(&b));
        *ret_count = 1;
    }
    buf_fini(&b);
    return r;
}

void
find_free(char ***paths, size_t count)
{
    size_t i;

    if (*paths == NULL)
        return;
    for (i = 0; i < count; i++)
        free((*paths)[i]);
    free(*paths);
    *paths = NULL;
}
