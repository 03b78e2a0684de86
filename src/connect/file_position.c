#include "connect/file_position.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "core/blob.h"

enum { POSITIONS_VERSION = 1 };

enum { FLAG_ENDED = 1, FLAG_SKIPPING = 2 };

void
file_position_begin(struct buf *out, uint32_t count)
{
    blob_put(out, POSITIONS_VERSION, 1);
    blob_put(out, count, 4);
}

void
file_position_put(struct buf *out, const struct file_position *p)
{
    blob_put_bytes(out, p->path, strlen(p->path));
    blob_put(out, (uint64_t)p->pos, 8);
    blob_put(out,
             (p->ended ? FLAG_ENDED : 0u) | (p->skipping ? FLAG_SKIPPING : 0u),
             1);
}

static int
read_blob(const struct buf *blob, struct file_positions *ret, size_t *cap)
{
    struct blob_reader r = blob_read(blob);
    uint64_t version = blob_get(&r, 1), n = blob_get(&r, 4);

    for (; n > 0 && !r.bad && version == POSITIONS_VERSION; n--) {
        struct file_position *p;
        const char *path;
        uint64_t flags;
        size_t len;

        mem_grow(&ret->items, cap, ret->count + 1u, sizeof *ret->items);
        p = &ret->items[ret->count++];
        path = blob_get_bytes(&r, &len);
        p->path = arena_dup(&ret->arena, path, len);
        p->pos = (int64_t)blob_get(&r, 8);
        flags = blob_get(&r, 1);
        p->ended = (flags & FLAG_ENDED) != 0;
        p->skipping = (flags & FLAG_SKIPPING) != 0;
        r.bad = r.bad || p->pos < 0;
    }
    return version == POSITIONS_VERSION && blob_done(&r) ? 0 : -1;
}

static int
by_path(const void *a, const void *b)
{
    return strcmp(((const struct file_position *)a)->path,
                  ((const struct file_position *)b)->path);
}

/* Every file that was read must still hold what was read of it. Both lists
 * are sorted. */
static int
check_files(const struct file_positions *p, const struct file_list *list,
            struct err *e)
{
    uint32_t i, k = 0;
    int r = 0;

    for (i = 0; i < p->count && r == 0; i++) {
        const struct file_position *f = &p->items[i];

        while (k < list->count && strcmp(list->files[k].path, f->path) < 0)
            k++;
        if (k == list->count || strcmp(list->files[k].path, f->path) != 0)
            r = err_set(e, ERR_IO,
                        "'%s' is gone from the path; the checkpoint has read "
                        "%" PRId64 " bytes of it",
                        f->path, f->pos);
        else if (list->files[k].size < f->pos)
            r = err_set(e, ERR_IO,
                        "'%s' has %" PRId64 " bytes; the checkpoint has read "
                        "%" PRId64,
                        f->path, list->files[k].size, f->pos);
    }
    if (r != 0)
        err_hint(e, "put the file back as it was, or start anew with --fresh");
    return r;
}

int
file_positions_read(const struct step_blobs *blobs,
                    const struct file_list *list, struct file_positions *ret,
                    struct err *e)
{
    uint32_t i;
    size_t cap = 0;
    int r = 0;

    memset(ret, 0, sizeof *ret);
    arena_init(&ret->arena);
    for (i = 0; i < blobs->count && r == 0; i++)
        r = read_blob(&blobs->blobs[i], ret, &cap);
    if (ret->count > 1)
        qsort(ret->items, ret->count, sizeof *ret->items, by_path);
    for (i = 1; i < ret->count && r == 0; i++)
        r = by_path(&ret->items[i - 1], &ret->items[i]) == 0 ? -1 : 0;
    if (r != 0)
        return err_set(e, ERR_IO,
                       "the positions of the files in the checkpoint are "
                       "damaged, or of another version of streamlua");
    return check_files(ret, list, e);
}

const struct file_position *
file_positions_find(const struct file_positions *p, const char *path)
{
    struct file_position key = {.path = path};

    if (p->count == 0)
        return NULL;
    return bsearch(&key, p->items, p->count, sizeof *p->items, by_path);
}

void
file_positions_fini(struct file_positions *p)
{
    free(p->items);
    p->items = NULL;
    p->count = 0;
    arena_fini(&p->arena);
}
