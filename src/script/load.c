#include "script/script_impl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"

enum {
    JOB_FILE_MAX = 16 << 20, /* bytes */
    LUA_MEMORY_DEFAULT = 256 << 20,
    CALL_TIMEOUT_MS = 1000,
    LOAD_TIMEOUT_MS = 5000,
};

/* What the protected part of script_load() works on. */
struct load {
    struct script *s;
    struct err *e;
    int failed; /* code of an error that is already in e */
};

static const char build_key = 0; /* registry: module streamlua.build */

static int
read_stream(FILE *f, const char *path, char **ret_text, size_t *ret_len,
            struct err *e)
{
    struct buf b;
    char chunk[8192];
    size_t n;
    int r;

    buf_init(&b);
    r = 0;
    while (r == 0 && (n = fread(chunk, 1, sizeof chunk, f)) > 0) {
        buf_add(&b, chunk, n);
        if (b.len > JOB_FILE_MAX)
            r = err_set(e, ERR_JOBFILE, "larger than 16 MiB");
    }
    if (r == 0 && ferror(f))
        r = err_set(e, ERR_JOBFILE, "cannot read: %s", strerror(errno));
    if (r == 0) {
        *ret_text = mem_dup(b.len > 0 ? b.data : "", b.len);
        *ret_len = b.len;
    } else {
        err_where(e, "%s", path);
    }
    buf_fini(&b);
    return r;
}

int
script_read_file(const char *path, char **ret_text, size_t *ret_len,
                 struct err *e)
{
    FILE *f;
    int r;

    if (strcmp(path, "-") == 0)
        return read_stream(stdin, "stdin", ret_text, ret_len, e);
    f = fopen(path, "rbe");
    if (f == NULL) {
        r = err_set(e, ERR_JOBFILE, "cannot open: %s", strerror(errno));
        err_where(e, "%s", path);
        return r;
    }
    r = read_stream(f, path, ret_text, ret_len, e);
    (void)fclose(f);
    return r;
}

/* Whether the cap holds now: while user code runs, in protected mode. What the
 * engine allocates between calls is little, and nothing could catch the error.
 */
static bool
is_capped(const struct script *s)
{
    return s->loading ||
           (atomic_load_explicit(&s->call_seq, memory_order_relaxed) & 1) != 0;
}

/* The allocator of a state: bounded, and counted for script_memory(). */
static void *
script_alloc(void *arg, void *p, size_t osize, size_t nsize)
{
    struct script *s = arg;
    size_t used;
    void *q;

    used = atomic_load_explicit(&s->memory, memory_order_relaxed);
    if (p == NULL)
        osize = 0;
    if (nsize == 0) {
        free(p);
        q = NULL;
    } else {
        if (nsize > osize && used + s->held - osize + nsize > s->memory_max &&
            is_capped(s)) {
            script_note_place(s);
            return NULL;
        }
        q = realloc(p, nsize);
        if (q == NULL && !is_capped(s))
            q = mem_realloc(p, nsize); /* ends the process */
        if (q == NULL)
            return NULL;
    }
    atomic_store_explicit(&s->memory, used - osize + nsize,
                          memory_order_relaxed);
    return q;
}

/* Set the names by which places are told. */
static void
set_names(struct script *s, const char *path)
{
    const char *base;
    size_t dir;

    s->conf.path = mem_strdup(strcmp(path, "-") == 0 ? "stdin" : path);
    base = strrchr(path, '/');
    base = base == NULL ? path : base + 1;
    dir = (size_t)(base - path);
    if (dir < sizeof s->dir)
        memcpy(s->dir, path, dir);
    /* Lua shows at most LUA_IDSIZE - 1 bytes of a name. */
    path = s->conf.path;
    if (strlen(path) >= LUA_IDSIZE - 1)
        path = base;
    (void)snprintf(s->chunk, LUA_IDSIZE - 1, "%s", path);
}

size_t
script_skip_begin(const char *text, size_t len)
{
    size_t n;

    n = len >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
    if (n < len && text[n] == '#') {
        while (n < len && text[n] != '\n')
            n++;
    }
    return n;
}

static void
require_lj(lua_State *L, const char *name)
{
    (void)lua_getglobal(L, "require");
    lua_pushstring(L, name);
    lua_call(L, 1, 1);
}

/* Open the engine's side: libraries, lua/streamlua, record functions. */
static int
open_lj(lua_State *L)
{
    struct load *load;
    int module;

    load = lua_touserdata(L, 1);
    script_sandbox_lj(load->s);
    require_lj(L, "streamlua.build");
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &build_key);
    require_lj(L, "streamlua");
    module = lua_gettop(L);
    load->failed = calls_open(load->s, module, load->e);
    if (load->failed != 0)
        return 0;
    (void)lua_getfield(L, module - 1, "seal");
    lua_pushvalue(L, module);
    lua_call(L, 1, 0);
    return 0;
}

/* Run the job file and make the tree. */
static int
run_lj(lua_State *L)
{
    const struct script_conf *conf;
    struct load *load;
    struct script *s;
    size_t skip;

    load = lua_touserdata(L, 1);
    s = load->s;
    conf = &s->conf;
    (void)lua_rawgetp(L, LUA_REGISTRYINDEX, &build_key);
    (void)lua_getfield(L, -1, "finish");
    skip = script_skip_begin(conf->text, conf->text_len);
    if (luaL_loadbufferx(L, conf->text + skip, conf->text_len - skip,
                         lua_pushfstring(L, "@%s", s->chunk), "t") != LUA_OK)
        return lua_error(L);
    lua_remove(L, -2);
    lua_call(L, 0, 1);
    lua_call(L, 1, 1);
    s->job = script_tree_lj(s);
    return 0;
}

/* A parameter problem explains what came after it: report that instead. */
static void
prefer_usage(lua_State *L)
{
    if (lua_rawgetp(L, LUA_REGISTRYINDEX, &build_key) != LUA_TTABLE ||
        lua_getfield(L, -1, "usage") != LUA_TFUNCTION) {
        lua_settop(L, 1);
        return;
    }
    if (lua_pcall(L, 0, 1, 0) != LUA_OK || lua_isnil(L, -1)) {
        lua_settop(L, 1);
        return;
    }
    lua_replace(L, 1);
    lua_settop(L, 1);
}

static int
protect(struct load *load, lua_CFunction f)
{
    struct script *s = load->s;
    lua_State *L = s->L;
    int r;

    load->failed = 0;
    lua_settop(L, 0);
    lua_pushcfunction(L, script_msgh);
    lua_pushcfunction(L, f);
    lua_pushlightuserdata(L, load);
    s->loading = true;
    r = lua_pcall(L, 1, 0, 1);
    s->loading = false;
    if (r == LUA_OK) {
        lua_settop(L, 0);
        return load->failed;
    }
    lua_remove(L, 1);
    s->load_over = false;
    prefer_usage(L);
    return script_take_load_error(s, load->e);
}

/* One line for the job and one a step, made before laws are tested (their
 * results go into the tree). */
static void
make_fingerprint(struct script *s)
{
    const struct opt *c, *step;
    struct buf b;

    buf_init(&b);
    for (c = s->job->first; c != NULL; c = c->next) {
        if (strcmp(c->name, "steps") != 0)
            opt_put_json(&b, c);
    }
    c = opt_get(s->job, "steps");
    for (step = c == NULL ? NULL : c->first; step != NULL; step = step->next) {
        buf_addf(&b, "\n%s ", opt_str(step, "name", ""));
        opt_put_json(&b, step);
    }
    s->fingerprint = mem_dup(b.data, b.len);
    buf_fini(&b);
}

/* Note the texts of functions, behind the fingerprint: what they hold may
 * differ between two loads. */
static int
texts_lj(lua_State *L)
{
    struct load *load = lua_touserdata(L, 1);

    load->failed = script_texts_lj(load->s, load->e);
    return 0;
}

/* The texts of the script: those it was given, or its own; and that of the
 * job file, read once or kept before. */
static int
take_files(struct script *s, struct err *e)
{
    struct script_conf *c = &s->conf;
    const struct script_file *f;
    int r;

    s->files = c->files;
    if (s->files == NULL)
        s->files = s->own_files = script_files_new();
    else if (c->text != NULL && !script_files_is_sealed(c->files))
        script_files_add(s->files, SCRIPT_FILE_JOB, c->path, c->text,
                         c->text_len);
    if (c->text != NULL)
        return 0;
    r = script_files_read(s->files, SCRIPT_FILE_JOB, c->path, &f, e);
    if (r == 0) {
        c->text = f->text;
        c->text_len = f->len;
    }
    return r;
}

int
script_load(const struct script_conf *conf, struct script **ret, struct err *e)
{
    struct script *s;
    struct load load;
    int r;

    s = mem_zalloc(sizeof *s);
    s->conf = *conf;
    s->memory_max = LUA_MEMORY_DEFAULT;
    s->call_timeout_ns = (int64_t)CALL_TIMEOUT_MS * 1000000;
    s->load_timeout_ns = conf->load_timeout_ms > 0
                             ? conf->load_timeout_ms * 1000000
                             : (int64_t)LOAD_TIMEOUT_MS * 1000000;
    arena_init(&s->arena);
    r = take_files(s, e);
    set_names(s, conf->path);
    if (r != 0)
        goto fail;
    s->L = lua_newstate(script_alloc, s);
    if (s->L == NULL) {
        r = err_set(e, ERR_NOMEM, "no memory for a Lua state");
        goto fail;
    }
    *(struct script **)lua_getextraspace(s->L) = s;
    atomic_store_explicit(&s->running, s->L, memory_order_relaxed);

    load = (struct load){.s = s, .e = e};
    (void)lua_gc(s->L, LUA_GCSTOP);
    r = protect(&load, open_lj);
    (void)lua_gc(s->L, LUA_GCRESTART);
    if (r == 0) {
        script_watch_load(s, true);
        r = protect(&load, run_lj);
        script_watch_load(s, false);
    }
    if (r != 0)
        goto fail;
    s->conf.params = s->conf.args = NULL;
    s->loaded = true;
    make_fingerprint(s);
    r = protect(&load, texts_lj);
    if (r != 0)
        goto fail;
    s->conf.text = NULL;
    *ret = s;
    return 0;

fail:
    script_free(&s);
    return r;
}

void
script_free(struct script **ps)
{
    struct script *s = *ps;

    if (s == NULL)
        return;
    *ps = NULL;
    if (s->calls != NULL)
        calls_close(s);
    if (s->L != NULL)
        lua_close(s->L);
    if (script_current == s)
        script_current = NULL;
    arena_fini(&s->arena);
    script_files_free(&s->own_files);
    free(s->fingerprint);
    free((char *)(uintptr_t)s->conf.path);
    free(s);
}

const struct opt *
script_job(const struct script *s)
{
    return s->job;
}

const char *
script_fingerprint(const struct script *s)
{
    return s->fingerprint;
}

/* Number of bytes of the first line that differs, and the line (of either);
 * its first word is the step's name. */
static size_t
first_difference(const char *a, const char *b, const char **ret)
{
    size_t i, line;

    line = 0;
    for (i = 0; a[i] == b[i]; i++) { /* the texts are not equal */
        if (a[i] == '\n')
            line = i + 1;
    }
    if (a[i] == '\n' || b[i] == '\n') /* one has a step more here */
        line = i + 1;
    *ret = strlen(a) > line ? a + line : b + line;
    return line == 0 ? 0 : strcspn(*ret, " ");
}

void
script_cap_memory(struct script *s, size_t max)
{
    if (s->memory_max > max)
        s->memory_max = max;
}

int
script_check_same(const struct script *first, const struct script *again,
                  struct err *e)
{
    const char *line;
    size_t len;
    int r;

    if (strcmp(first->fingerprint, again->fingerprint) == 0)
        return 0;
    len = first_difference(first->fingerprint, again->fingerprint, &line);
    r = err_set(e, ERR_JOBFILE,
                "the plan differs between two loads (%s%.*s%s); do not use "
                "time, randomness or changing files at the top level",
                len == 0 ? "job options" : "step \"", (int)len, line,
                len == 0 ? "" : "\"");
    err_where(e, "%s", first->conf.path);
    return r;
}

int64_t
script_call_timeout_ns(const struct script *s)
{
    return s->call_timeout_ns;
}

void
script_set_step(struct script *s, const char *step)
{
    /* Relaxed: names live as long as the plan. */
    atomic_store_explicit(&s->step, step, memory_order_relaxed);
}

size_t
script_memory(const struct script *s)
{
    return atomic_load_explicit(&s->memory, memory_order_relaxed);
}
