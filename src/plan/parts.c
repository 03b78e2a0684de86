#include "plan/plan_impl.h"

#include <dirent.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Whether `path` is something a file source reads as one partition. */
static bool
is_readable_file(const char *path)
{
    const char *base = strrchr(path, '/');
    struct stat st;

    base = base != NULL ? base + 1 : path;
    return base[0] != '.' && stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

static uint32_t
count_dir(const char *path)
{
    DIR *d = opendir(path);
    const struct dirent *ent;
    uint32_t n = 0;
    char file[4096];

    if (d == NULL)
        return 0;
    while ((ent = readdir(d)) != NULL) {
        int len = snprintf(file, sizeof file, "%s/%s", path, ent->d_name);

        if (len > 0 && (size_t)len < sizeof file && is_readable_file(file))
            n++;
    }
    (void)closedir(d);
    return n;
}

static uint32_t
count_files(const char *path)
{
    struct stat st;
    glob_t g;
    uint32_t n = 0;
    size_t i;

    if (stat(path, &st) == 0)
        return S_ISDIR(st.st_mode) ? count_dir(path) : 1;
    memset(&g, 0, sizeof g);
    if (glob(path, GLOB_NOSORT, NULL, &g) == 0)
        for (i = 0; i < g.gl_pathc; i++)
            if (is_readable_file(g.gl_pathv[i]))
                n++;
    globfree(&g);
    return n;
}

uint32_t
plan_partitions(const struct opt *step)
{
    const struct opt *conn = opt_get(step, "conn");
    int64_t n = 1;

    if (opt_is(step, "connector", "kafka"))
        return 0;
    if (opt_is(step, "connector", "file"))
        n = count_files(opt_str(conn, "path", ""));
    else if (opt_is(step, "connector", "generator") ||
             opt_is(step, "connector", "lua"))
        n = opt_int(conn, "partitions", 1);
    return n < 1 ? 1 : n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
}

bool
plan_source_is_bounded(const struct opt *step, bool bounded_flag)
{
    const struct opt *conn = opt_get(step, "conn");
    const struct opt *o;

    if (opt_is(step, "connector", "file") || opt_is(step, "connector", "stdin"))
        return true;
    if (opt_is(step, "connector", "generator")) {
        o = opt_get(conn, "count");
        return o != NULL && o->type == OPT_INT;
    }
    if (bounded_flag)
        return true;
    o = opt_is(step, "connector", "kafka") ? opt_get(conn, "stop") : NULL;
    return o != NULL && o->type != OPT_NIL &&
           !(o->type == OPT_BOOL && o->i == 0);
}
