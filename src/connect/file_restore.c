#include "connect/file_restore.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "core/blob.h"

enum { NOTE_VERSION = 1 };

void
file_note_put(struct buf *out, const struct file_note *n)
{
    uint32_t i;

    blob_put(out, NOTE_VERSION, 1);
    blob_put_bytes(out, n->path, strlen(n->path));
    blob_put(out, n->format, 8);
    blob_put(out, n->next_seq, 8);
    blob_put(out, n->count, 4);
    for (i = 0; i < n->count; i++) {
        const struct part_note *p = &n->parts[i];

        blob_put_bytes(out, p->name, strlen(p->name));
        blob_put(out, (uint64_t)p->size, 8);
        blob_put(out, p->round, 8);
    }
}

/* A part of the checkpoint, and what is there of it now. */
struct known {
    struct part_note note;
    uint32_t subtask; /* of then */
    uint64_t format;
    int64_t temp_size, size; /* in progress, published; -1 = is not there */
    bool taken;              /* its file in progress is used */
};

struct restore {
    const struct conn_env *env;
    const struct part_dir *dir;
    struct file_start *start;
    struct file_marker marker;
    enum marker_verdict verdict;
    struct known *known; /* by name */
    uint32_t count;
    size_t cap;
    bool remembered; /* the checkpoint knows the sink */
    bool temps;      /* some part is in progress */
    bool settled;    /* the job is finished, and so is the directory */
};

static int
damaged(struct err *e)
{
    return err_set(e, ERR_IO,
                   "what the checkpoint says of the parts is damaged, or of "
                   "another version of streamlua");
}

static int
other_path(const char *then, size_t len, const char *now, struct err *e)
{
    int r = err_set(e, ERR_JOBFILE,
                    "the checkpoint has its parts in '%.*s', the job writes "
                    "to '%s'",
                    (int)len, then, now);

    err_hint(e, "set the path back, or begin anew with --fresh");
    return r;
}

/* Read the blob's head. @return 1: the parts are of the directory `path`; 0:
 * of another one. */
static int
read_head(struct blob_reader *r, const char *path, const char **ret_path,
          size_t *ret_len)
{
    r->bad = blob_get(r, 1) != NOTE_VERSION || r->bad;
    *ret_path = blob_get_bytes(r, ret_len);
    return *ret_len == strlen(path) && memcmp(*ret_path, path, *ret_len) == 0;
}

int
file_restore_check_path(const struct conn_env *env, const char *path,
                        struct err *e)
{
    const struct step_blobs *from = env->restored;
    uint32_t i;

    /* A new lineage is a copy: it leaves the parts to whoever has them. */
    if (from == NULL || env->ckpt->recover == RECOVER_FRESH)
        return 0;
    for (i = 0; i < from->count; i++) {
        struct blob_reader r = blob_read(&from->blobs[i]);
        const char *then;
        size_t len;
        int same = read_head(&r, path, &then, &len);

        if (from->blobs[i].len == 0)
            continue; /* the step was another kind of sink */
        if (r.bad)
            return damaged(e);
        if (!same)
            return other_path(then, len, path, e);
    }
    return 0;
}

/* ------------------------------------------------------------------ look */

static int
read_part(struct restore *rs, struct blob_reader *r, struct known *k)
{
    const char *name;
    uint64_t seq;
    size_t len;

    name = blob_get_bytes(r, &len);
    if (len >= sizeof k->note.name)
        return -1;
    memcpy(k->note.name, name, len);
    k->note.size = (int64_t)blob_get(r, 8);
    k->note.round = blob_get(r, 8);
    k->temp_size = k->size = -1;
    if (r->bad || k->note.size <= 0 || !part_name_read(k->note.name, &seq))
        return -1;
    if (seq >= rs->start->next_seq)
        rs->start->next_seq = seq + 1;
    return 0;
}

static int
read_blob(struct restore *rs, uint32_t subtask, const struct buf *blob,
          struct err *e)
{
    struct blob_reader r = blob_read(blob);
    const char *then;
    uint64_t format, seq, n;
    size_t len;
    int same = read_head(&r, rs->dir->path, &then, &len);

    format = blob_get(&r, 8);
    seq = blob_get(&r, 8);
    if (!r.bad && same == 0)
        return 0;
    for (n = blob_get(&r, 4); n > 0 && !r.bad; n--) {
        struct known *k;

        mem_grow(&rs->known, &rs->cap, rs->count + 1u, sizeof *rs->known);
        k = &rs->known[rs->count];
        memset(k, 0, sizeof *k);
        k->subtask = subtask;
        k->format = format;
        if (read_part(rs, &r, k) != 0)
            return damaged(e);
        rs->count++;
    }
    if (!blob_done(&r))
        return damaged(e);
    if (seq > rs->start->next_seq)
        rs->start->next_seq = seq;
    return 0;
}

static int
by_name(const void *a, const void *b)
{
    return strcmp(((const struct known *)a)->note.name,
                  ((const struct known *)b)->note.name);
}

static int
read_blobs(struct restore *rs, struct err *e)
{
    const struct step_blobs *from = rs->env->restored;
    uint32_t i;
    int r = 0;

    for (i = 0; from != NULL && i < from->count && r == 0; i++)
        if (from->blobs[i].len != 0) {
            rs->remembered = true;
            r = read_blob(rs, i, &from->blobs[i], e);
        }
    if (rs->count > 1)
        qsort(rs->known, rs->count, sizeof *rs->known, by_name);
    for (i = 1; r == 0 && i < rs->count; i++)
        if (by_name(&rs->known[i - 1], &rs->known[i]) == 0)
            r = damaged(e);
    return r;
}

static struct known *
find_known(const struct restore *rs, const char *name)
{
    struct known key = {0};

    if (rs->count == 0)
        return NULL;
    (void)snprintf(key.note.name, sizeof key.note.name, "%s", name);
    return bsearch(&key, rs->known, rs->count, sizeof *rs->known, by_name);
}

/* part_found_f: the highest number, and the sizes of known parts. */
static int
look_at(void *arg, const struct part_found *f, struct err *e)
{
    struct restore *rs = arg;
    struct known *k = find_known(rs, f->name);

    if (f->seq >= rs->start->next_seq)
        rs->start->next_seq = f->seq + 1;
    rs->temps = rs->temps || f->temp;
    if (k == NULL)
        return 0;
    return part_size(rs->dir, f->name, f->temp,
                     f->temp ? &k->temp_size : &k->size, e);
}

/* ----------------------------------------------------------------- check */

/* Whether the part need not be there any more: it was published, and who
 * reads the directory may have taken it. */
static bool
may_be_gone(const struct restore *rs, const struct known *k)
{
    if (rs->verdict != MARKER_EQUAL)
        return true; /* the checkpoint is not where the directory is */
    if (k->note.round != 0)
        return k->note.round <= rs->marker.round;
    return rs->marker.final && rs->marker.round == rs->env->ckpt->round;
}

static int
check_part(const struct restore *rs, const struct known *k, struct err *e)
{
    int r;

    if (k->temp_size >= k->note.size)
        return 0;
    if (k->temp_size < 0) {
        if (may_be_gone(rs, k) || (k->note.round != 0 && k->size >= 0) ||
            k->size == k->note.size)
            return 0;
        r = err_set(e, ERR_IO,
                    "part '%s/%s' of checkpoint %" PRIu64 " is missing",
                    rs->dir->path, k->note.name, rs->env->ckpt->round);
    } else {
        r = err_set(e, ERR_IO,
                    "part '%s/%s' has %" PRId64 " bytes in progress, "
                    "checkpoint %" PRIu64 " %" PRId64,
                    rs->dir->path, k->note.name, k->temp_size,
                    rs->env->ckpt->round, k->note.size);
    }
    err_hint(e, "put the directory back as it was, or begin anew with --fresh");
    return r;
}

/* The step is new to the checkpoint, but the directory is not: what is in
 * progress there belongs to complete rounds, nobody can say how much. */
static int
check_new_step(const struct restore *rs, struct err *e)
{
    const struct conn_ckpt *c = rs->env->ckpt;
    int r;

    if (rs->remembered || c->round == 0 || !rs->temps ||
        rs->verdict == MARKER_NEW || rs->verdict == MARKER_REPLACE)
        return 0;
    r = err_set(e, ERR_JOBFILE,
                "'%s' has parts in progress that checkpoint %" PRIu64
                " does not know: they are of another step of the job",
                rs->dir->path, c->round);
    err_hint(e, "give the step its name back, or its own directory");
    return r;
}

/* A finished job that died before it had published its last round. */
static bool
is_settled(const struct restore *rs)
{
    uint32_t i;

    for (i = 0; i < rs->count; i++)
        if (rs->known[i].temp_size >= 0)
            return false;
    return rs->env->ckpt->finished;
}

static int
check(struct restore *rs, struct err *e)
{
    const struct conn_env *env = rs->env;
    bool replace = env->ckpt->recover == RECOVER_FRESH ||
                   env->ckpt->recover == RECOVER_DISCARD;
    uint32_t i;
    int r = file_marker_read(rs->dir, &rs->marker, e);

    if (r != 0 && replace) { /* it is replaced in any case */
        rs->marker.found = true;
        r = 0;
    }
    if (r == 0)
        r = file_marker_check(env->ckpt, rs->dir, &rs->marker, rs->count != 0,
                              &rs->verdict, e);
    for (i = 0; i < rs->count && r == 0; i++)
        r = check_part(rs, &rs->known[i], e);
    return r == 0 ? check_new_step(rs, e) : r;
}

static int
look_and_check(struct restore *rs, struct err *e)
{
    int r = read_blobs(rs, e);

    if (r == 0)
        r = part_dir_scan(rs->dir, look_at, rs, e);
    rs->settled = r == 0 && is_settled(rs);
    return r == 0 && !rs->settled ? check(rs, e) : r;
}

/* ---------------------------------------------------------------- change */

/* Cut an open part, for the task that goes on with it or for the next
 * round, which publishes it. */
static int
resume_part(struct restore *rs, const struct known *k, struct err *e)
{
    struct file_start *s = rs->start;
    struct part *p = part_new(k->note.name);
    int r = part_resume(rs->dir, p, k->note.size, e);

    if (r == 0 && k->note.round == 0 && k->subtask < s->count &&
        s->resumed[k->subtask].part == NULL) {
        s->resumed[k->subtask] =
            (struct part_resumed){.part = p, .format = k->format};
        p->size = p->kept = k->note.size;
        return 0;
    }
    if (r == 0)
        r = part_sync(rs->dir, p, e);
    if (r == 0) {
        p->size = p->kept = k->note.size;
        p->next = s->closed;
        s->closed = p;
    } else {
        part_free_list(&p);
    }
    return r;
}

static int
publish_known(struct restore *rs, const struct known *k, struct err *e)
{
    struct part *p = part_new(k->note.name);
    int r = part_resume(rs->dir, p, k->note.size, e);

    if (r == 0)
        r = part_publish(rs->dir, p, e);
    part_free_list(&p);
    return r;
}

static int
bring_back(struct restore *rs, struct err *e)
{
    uint64_t round = rs->env->ckpt->round;
    uint32_t i;
    int r = 0;

    for (i = 0; i < rs->count && r == 0; i++) {
        struct known *k = &rs->known[i];

        if (k->temp_size < 0)
            continue;
        k->taken = true;
        if (rs->env->ckpt->finished ||
            (k->note.round != 0 && k->note.round <= round))
            r = publish_known(rs, k, e);
        else
            r = resume_part(rs, k, e);
    }
    return r;
}

/* part_found_f: what no complete round knows. */
static int
remove_left(void *arg, const struct part_found *f, struct err *e)
{
    const struct restore *rs = arg;
    const struct known *k;

    if (!f->temp)
        return 0;
    k = find_known(rs, f->name);
    if (k != NULL && k->taken)
        return 0;
    return part_remove(rs->dir, f->name, e);
}

static int
change(struct restore *rs, struct err *e)
{
    const struct conn_ckpt *c = rs->env->ckpt;
    struct file_marker m = {.round = c->round};
    int r = bring_back(rs, e);

    memcpy(m.lineage, c->lineage, sizeof m.lineage);
    m.final = c->finished || (rs->verdict == MARKER_EQUAL && rs->marker.final &&
                              rs->marker.round == c->round);
    /* Without a marker they are not of a job with checkpoints. */
    if (r == 0 && rs->marker.found)
        r = part_dir_scan(rs->dir, remove_left, rs, e);
    if (r == 0)
        r = part_dir_sync(rs->dir, e);
    return r == 0 ? file_marker_write(rs->dir, &m, e) : r;
}

int
file_restore(const struct conn_env *env, const struct part_dir *d,
             struct file_start *ret, struct err *e)
{
    struct restore rs = {.env = env, .dir = d, .start = ret};
    int r;

    memset(ret, 0, sizeof *ret);
    ret->count = env->parallelism;
    ret->next_seq = 1; /* the first part is 000001 */
    ret->resumed = mem_zalloc((ret->count + 1u) * sizeof *ret->resumed);
    r = look_and_check(&rs, e);
    if (r == 0 && !rs.settled)
        r = change(&rs, e);
    free(rs.known);
    return r;
}

void
file_start_fini(struct file_start *s)
{
    uint32_t i;

    for (i = 0; i < s->count; i++)
        part_free_list(&s->resumed[i].part);
    free(s->resumed);
    s->resumed = NULL;
    s->count = 0;
    part_free_list(&s->closed);
}
