#include "run/watch.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"

enum { LOOK_MS = 150 };

static struct watch_seen
look(const char *path)
{
    struct watch_seen s = {0};
    struct stat st;

    if (stat(path, &st) != 0)
        return s;
    s.dev = (uint64_t)st.st_dev;
    s.ino = (uint64_t)st.st_ino;
    s.size = (uint64_t)st.st_size;
    s.mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    s.ctime_ns = (int64_t)st.st_ctim.tv_sec * 1000000000 + st.st_ctim.tv_nsec;
    return s;
}

static bool
is_same(const struct watch_seen *a, const struct watch_seen *b)
{
    return a->dev == b->dev && a->ino == b->ino && a->size == b->size &&
           a->mtime_ns == b->mtime_ns && a->ctime_ns == b->ctime_ns;
}

static bool
has(const struct watch *w, const char *path)
{
    size_t i;

    for (i = 0; i < w->count; i++)
        if (strcmp(w->files[i].path, path) == 0)
            return true;
    return false;
}

static void
clear(struct watch *w)
{
    while (w->count > 0)
        free(w->files[--w->count].path);
}

void
watch_add(struct watch *w, const struct script_files *files)
{
    size_t i;

    for (i = 0; i < script_files_count(files); i++) {
        const char *path = script_files_at(files, i)->path;

        if (strcmp(path, "-") == 0 || has(w, path))
            continue;
        mem_grow(&w->files, &w->cap, w->count + 1, sizeof *w->files);
        w->files[w->count++] =
            (struct watch_file){mem_strdup(path), look(path)};
    }
}

void
watch_set(struct watch *w, const struct script_files *files, int64_t now_ms)
{
    clear(w);
    watch_add(w, files);
    w->moved = true; /* they may have changed since they were read */
    w->looked_ms = now_ms;
}

bool
watch_look(struct watch *w, int64_t now_ms)
{
    bool moved = false;
    size_t i;

    if (!w->on || now_ms - w->looked_ms < LOOK_MS)
        return false;
    w->looked_ms = now_ms;
    for (i = 0; i < w->count; i++) {
        struct watch_seen s = look(w->files[i].path);

        if (is_same(&s, &w->files[i].seen))
            continue;
        w->files[i].seen = s;
        moved = true;
    }
    if (moved) {
        w->moved = true;
        return false;
    }
    moved = w->moved;
    w->moved = false;
    return moved;
}

void
watch_fini(struct watch *w)
{
    clear(w);
    free(w->files);
    w->files = NULL;
    w->cap = 0;
}
