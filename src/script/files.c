#include "script/files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/hash.h"
#include "base/mem.h"
#include "core/blob.h"
#include "core/rec.h"

enum {
    FILES_VERSION = 1,
    CODE_SIZE_MAX = 16 << 20, /* bytes of a job file or module */
    DATA_SIZE_MAX = 64 << 20, /* bytes of a file for s.read */
    FILES_MAX = 1 << 16,      /* entries of one set */
    HEAD_LEN = 8              /* "SLFILES" and the version */
};

struct entry {
    struct script_file file;
    int cause; /* errno of a missing one */
};

struct script_files {
    struct entry **entries; /* each for itself: they are borrowed */
    size_t count, cap;
    bool sealed;
};

struct script_files *
script_files_new(void)
{
    return mem_zalloc(sizeof(struct script_files));
}

void
script_files_free(struct script_files **pf)
{
    struct script_files *f = *pf;
    size_t i;

    *pf = NULL;
    if (f == NULL)
        return;
    for (i = 0; i < f->count; i++) {
        free(f->entries[i]->file.path);
        free(f->entries[i]->file.text);
        free(f->entries[i]);
    }
    free(f->entries);
    free(f);
}

size_t
script_files_count(const struct script_files *f)
{
    return f->count;
}

const struct script_file *
script_files_at(const struct script_files *f, size_t index)
{
    return &f->entries[index]->file;
}

static struct entry *
find(const struct script_files *f, enum script_file_kind kind, const char *path)
{
    size_t i;

    for (i = 0; i < f->count; i++)
        if (f->entries[i]->file.kind == kind &&
            strcmp(f->entries[i]->file.path, path) == 0)
            return f->entries[i];
    return NULL;
}

const struct script_file *
script_files_find(const struct script_files *f, enum script_file_kind kind,
                  const char *path)
{
    const struct entry *n = find(f, kind, path);

    return n != NULL ? &n->file : NULL;
}

static struct entry *
add(struct script_files *f, enum script_file_kind kind, const char *path)
{
    struct entry *n = mem_zalloc(sizeof *n);

    mem_grow(&f->entries, &f->cap, f->count + 1, sizeof(struct entry *));
    f->entries[f->count++] = n;
    n->file.kind = kind;
    n->file.path = mem_strdup(path);
    return n;
}

/* Give an entry its text, with zeros behind it. */
static void
set_text(struct entry *n, const char *text, size_t len)
{
    n->file.text = mem_zalloc(len + REC_PAD);
    if (len > 0)
        memcpy(n->file.text, text, len);
    n->file.len = len;
}

void
script_files_add(struct script_files *f, enum script_file_kind kind,
                 const char *path, const char *text, size_t len)
{
    if (find(f, kind, path) == NULL)
        set_text(add(f, kind, path), text, len);
}

/* The whole of an open file. */
static int
read_text(FILE *in, size_t max, struct buf *text, struct err *e)
{
    char chunk[16384];
    size_t n;

    while ((n = fread(chunk, 1, sizeof chunk, in)) > 0) {
        buf_add(text, chunk, n);
        if (text->len > max)
            return err_set(e, ERR_JOBFILE, "larger than %zu MiB", max >> 20);
    }
    if (ferror(in))
        return err_set(e, ERR_JOBFILE, "cannot read: %s", strerror(errno));
    return 0;
}

static int
cannot_open(const char *path, int cause, struct err *e)
{
    (void)err_set(e, ERR_JOBFILE, "cannot open: %s", strerror(cause));
    err_where(e, "%s", path);
    return ERR_JOBFILE;
}

static int
not_kept(const char *path, struct err *e)
{
    (void)err_set(e, ERR_JOBFILE, "it was not read when the job was loaded");
    err_hint(e, "read it at the top level of the job, so that it belongs to "
                "this version of it");
    err_where(e, "%s", path);
    return ERR_JOBFILE;
}

/* Whether there is a file that is none one can read again, or for ever. A
 * job file may be one: it comes from a pipe. */
static bool
is_irregular(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && !S_ISREG(st.st_mode);
}

int
script_files_read(struct script_files *f, enum script_file_kind kind,
                  const char *path, const struct script_file **ret,
                  struct err *e)
{
    struct entry *n = find(f, kind, path);
    struct buf text;
    FILE *in;
    int r, cause;

    if (n != NULL && n->file.missing)
        return cannot_open(path, n->cause, e);
    if (n != NULL) {
        *ret = &n->file;
        return 0;
    }
    if (f->sealed)
        return not_kept(path, e);
    if (kind != SCRIPT_FILE_JOB && is_irregular(path)) {
        (void)err_set(e, ERR_JOBFILE, "it is no regular file");
        err_where(e, "%s", path);
        return ERR_JOBFILE;
    }
    in = fopen(path, "rbe");
    if (in == NULL) {
        cause = errno;
        n = add(f, kind, path);
        n->file.missing = true;
        n->cause = cause;
        return cannot_open(path, n->cause, e);
    }
    buf_init(&text);
    r = read_text(in, kind == SCRIPT_FILE_DATA ? DATA_SIZE_MAX : CODE_SIZE_MAX,
                  &text, e);
    (void)fclose(in);
    if (r == 0) {
        n = add(f, kind, path);
        set_text(n, text.data, text.len);
        *ret = &n->file;
    } else {
        err_where(e, "%s", path);
    }
    buf_fini(&text);
    return r;
}

void
script_files_seal(struct script_files *f)
{
    f->sealed = true;
}

bool
script_files_is_sealed(const struct script_files *f)
{
    return f->sealed;
}

/* --- as bytes ------------------------------------------------------------ */

uint64_t
script_files_hash(const struct script_files *f)
{
    const struct script_file *n;
    uint64_t h = FILES_VERSION;
    size_t i;

    for (i = 0; i < f->count; i++) {
        n = &f->entries[i]->file;
        h = hash_splitmix(h ^ ((uint64_t)n->kind << 1 | n->missing));
        h = hash_splitmix(h ^ hash_key(n->path, strlen(n->path)));
        if (!n->missing)
            h = hash_splitmix(h ^ hash_key(n->text, n->len));
    }
    return h;
}

void
script_files_put(const struct script_files *f, struct buf *out)
{
    const struct entry *n;
    size_t i, begin = out->len;

    buf_add(out, "SLFILES", HEAD_LEN - 1);
    blob_put(out, FILES_VERSION, 1);
    blob_put(out, f->count, 4);
    for (i = 0; i < f->count; i++) {
        n = f->entries[i];
        blob_put(out, n->file.kind, 1);
        blob_put(out, n->file.missing, 1);
        blob_put(out, (uint64_t)n->cause, 4);
        blob_put_bytes(out, n->file.path, strlen(n->file.path));
        blob_put_bytes(out, n->file.text, n->file.len);
    }
    blob_put(out, hash_key(out->data + begin, out->len - begin), 8);
}

/* One entry. @return false: damaged. */
static bool
get_entry(struct blob_reader *r, struct script_files *f)
{
    uint64_t kind = blob_get(r, 1), missing = blob_get(r, 1);
    uint64_t cause = blob_get(r, 4);
    size_t path_len, len;
    const char *path = blob_get_bytes(r, &path_len);
    const char *text = blob_get_bytes(r, &len);
    struct entry *n;
    char *name;

    if (r->bad || kind > SCRIPT_FILE_DATA || missing > 1 || path_len == 0 ||
        memchr(path, '\0', path_len) != NULL)
        return false;
    name = mem_dup(path, path_len);
    n = add(f, (enum script_file_kind)kind, name);
    free(name);
    n->file.missing = missing != 0;
    n->cause = (int)cause;
    if (missing == 0)
        set_text(n, text, len);
    return true;
}

static bool
get_all(const void *bytes, size_t len, struct script_files *f)
{
    const unsigned char *p = bytes;
    struct blob_reader r;
    uint64_t count;

    if (len < HEAD_LEN + 12 || memcmp(p, "SLFILES", HEAD_LEN - 1) != 0)
        return false;
    r = (struct blob_reader){.p = p + len - 8, .end = p + len};
    if (blob_get(&r, 8) != hash_key(bytes, len - 8))
        return false;
    r = (struct blob_reader){.p = p + HEAD_LEN - 1, .end = p + len - 8};
    if (blob_get(&r, 1) != FILES_VERSION)
        return false;
    count = blob_get(&r, 4);
    if (count > FILES_MAX)
        return false;
    while (count-- > 0)
        if (!get_entry(&r, f))
            return false;
    return blob_done(&r);
}

int
script_files_get(const void *bytes, size_t len, struct script_files **ret,
                 struct err *e)
{
    struct script_files *f = script_files_new();

    if (!get_all(bytes, len, f)) {
        script_files_free(&f);
        return err_set(e, ERR_IO, "the texts of the job are damaged");
    }
    f->sealed = true;
    *ret = f;
    return 0;
}
