#include "script/script_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "format/format.h"
#include "script/calls_impl.h"

/*
 * s.read: the records of a file as plain tables, while the job is loaded.
 *
 * The file is read whole, cut into lines as a source does (a CSV record may
 * span several) and decoded by the source formats. Its size and hash go into
 * the plan, so that two loads that see different bytes are told apart.
 */

struct read {
    struct script *s;
    const struct opt *opts;
    struct decoder *decoder;
    struct arena arena; /* what one record needs */
    const char *text;   /* the file, REC_PAD bytes behind it */
    size_t len;
    char delimiter;
    char message[ERR_MSG_MAX + 512];
};

/* Relative to the folder of the job file. */
static int
read_file(struct read *r, const char *path, struct err *e)
{
    char *full = mem_alloc(strlen(r->s->dir) + strlen(path) + 1);
    const struct script_file *f;
    int rc;

    full[0] = '\0';
    if (path[0] != '/')
        memcpy(full, r->s->dir, strlen(r->s->dir) + 1);
    memcpy(full + strlen(full), path, strlen(path) + 1);
    rc = script_files_read(r->s->files, SCRIPT_FILE_DATA, full, &f, e);
    if (rc == 0) {
        r->text = f->text;
        r->len = f->len;
    } else {
        (void)snprintf(r->message, sizeof r->message, "%s: %s", full, e->msg);
    }
    free(full);
    return rc;
}

/* The end of the line at `p`: its newline, or the end of the text. A quote
 * that opens a CSV cell hides newlines up to the one that closes it. */
static const char *
line_end(const struct read *r, const char *p)
{
    const char *end = r->text + r->len;
    bool csv = decoder_is_csv(r->decoder), first = true, quoted = false;

    for (; p < end && (quoted || *p != '\n'); p++) {
        if (csv && *p == '"' && (first || quoted))
            quoted = !quoted;
        else if (!quoted)
            first = csv && *p == r->delimiter;
    }
    return p;
}

/* Push a decoded record as a plain table. @return 0 or ERR_RECORD. */
static int
push_record_lj(lua_State *L, const struct rec *rec, struct err *e)
{
    struct calls *c = calls_of(L);
    enum json_bigint bigint = json_bigint_of(rec);
    struct val v;
    int rc = 0;

    if (rec->kind != REC_OBJECT)
        lua_createtable(L, 0, 1);
    if (rec->kind == REC_TEXT) {
        (void)lua_pushlstring(L, rec->val, rec->val_len);
    } else {
        arena_reset(&c->tmp);
        rc = json_value(rec->val, rec->val_len, bigint, &c->tmp, &v, e);
        if (rc == 0)
            rc = conv_push_lj(c, L, &v, bigint, (rec->flags & REC_EXT) != 0, e);
    }
    if (rc == 0 && rec->kind != REC_OBJECT)
        lua_setfield(L, -2, "value");
    return rc;
}

/* rows_lj(read): the rows, or nil (r->message is set). */
static int
rows_lj(lua_State *L)
{
    struct read *r = lua_touserdata(L, 1);
    const char *p = r->text, *end = p + r->len, *stop;
    lua_Integer line = 1, rows = 0;
    struct rec rec;
    struct err e;
    int rc;

    luaL_checkstack(L, 8, NULL);
    lua_newtable(L);
    for (; p < end; p = stop + 1) {
        stop = line_end(r, p);
        arena_reset(&r->arena);
        memset(&rec, 0, sizeof rec);
        rc = decoder_decode(r->decoder, p, (size_t)(stop - p), &r->arena, &rec,
                            &e);
        if (rc == 1)
            rc = push_record_lj(L, &rec, &e) == 0 ? 1 : ERR_RECORD;
        if (rc < 0) {
            (void)snprintf(r->message, sizeof r->message, "%s:%lld: %s",
                           opt_str(r->opts, "path", ""), (long long)line,
                           e.msg);
            lua_pushnil(L);
            return 1;
        }
        if (rc == 1)
            lua_rawseti(L, 2, ++rows);
        for (; p <= stop && p < end; p++)
            line += *p == '\n';
    }
    return 1;
}

/* The member `name` of the table at 1, a string or boolean, as an option. */
static void
take_option_lj(lua_State *L, struct arena *a, struct opt *o, const char *name)
{
    struct opt *v = NULL;
    const char *s;
    size_t len;

    (void)lua_getfield(L, 1, name);
    if (lua_isboolean(L, -1)) {
        v = opt_new(a);
        v->type = OPT_BOOL;
        v->i = lua_toboolean(L, -1);
    } else if (lua_type(L, -1) == LUA_TSTRING) {
        s = lua_tolstring(L, -1, &len);
        v = opt_new_str(a, s, len);
    }
    if (v != NULL)
        opt_add(a, o, name, v);
    lua_pop(L, 1);
}

/* The checked options at 1, as the decoder takes them. Raises only for bugs
 * of lua/streamlua; all of it lies in the arena of the script. */
static const struct opt *
take_options_lj(lua_State *L, struct arena *a)
{
    static const char *const names[] = {"path", "format", "bigint", "header",
                                        "delimiter"};
    struct opt *o = opt_new_map(a), *list, *field;
    lua_Integer i, n;
    size_t k;

    luaL_checktype(L, 1, LUA_TTABLE);
    for (k = 0; k < sizeof names / sizeof names[0]; k++)
        take_option_lj(L, a, o, names[k]);
    if (lua_getfield(L, 1, "fields") == LUA_TTABLE) {
        list = opt_new_list(a);
        n = (lua_Integer)lua_rawlen(L, -1);
        for (i = 1; i <= n; i++) {
            (void)lua_rawgeti(L, -1, i);
            lua_replace(L, 1);
            field = opt_new_map(a);
            take_option_lj(L, a, field, "name");
            take_option_lj(L, a, field, "type");
            opt_add(a, list, NULL, field);
        }
        opt_add(a, o, "fields", list);
    }
    lua_settop(L, 0);
    return o;
}

/* read(options): rows, size, hash; or nil and what is wrong. */
int
script_read_lj(lua_State *L)
{
    struct script *s = script_of(L);
    struct read r = {.s = s, .opts = take_options_lj(L, &s->arena)};
    struct err e;
    char hash[17];
    int rc;

    err_clear(&e);
    arena_init(&r.arena);
    r.delimiter = opt_str(r.opts, "delimiter", ",")[0];
    rc = read_file(&r, opt_str(r.opts, "path", ""), &e);
    if (rc == 0)
        rc = decoder_new(r.opts, true, &r.decoder, &e);
    if (rc == 0) {
        lua_pushcfunction(L, rows_lj);
        lua_pushlightuserdata(L, &r);
        rc = lua_pcall(L, 1, 1, 0);
        (void)snprintf(hash, sizeof hash, "%016llx",
                       (unsigned long long)hash_key(r.text, r.len));
    } else {
        if (r.message[0] == '\0')
            (void)snprintf(r.message, sizeof r.message, "%s", e.msg);
        lua_settop(L, 0);
        rc = 0;
    }
    decoder_free(&r.decoder);
    arena_fini(&r.arena);
    if (rc != LUA_OK)
        return lua_error(L);
    if (r.message[0] != '\0') {
        lua_settop(L, 0);
        lua_pushnil(L);
        lua_pushstring(L, r.message);
        return 2;
    }
    lua_pushinteger(L, (lua_Integer)r.len);
    lua_pushstring(L, hash);
    return 3;
}
