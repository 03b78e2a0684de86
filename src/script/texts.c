/*
 * What the functions of a job say: a hash for each step, by which a plan tells
 * that its code changed (where there is a `migrate` one more, of all others),
 * and the text of each `migrate`, which is part of a declaration.
 *
 * A text is taken from the lines that define the function, as tokens, so that
 * comments and blanks do not count. Lua tells lines only; where several
 * functions stand on one line the one behind `migrate =` is meant, or else all
 * of the lines count. What a function holds of the file counts as well: local
 * numbers, strings, tables and functions, in an order that is the same in every
 * state. Where something cannot be read the hash says so: "?" before it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "script/script_impl.h"

enum {
    SEEN_MAX = 512, /* functions and tables of a step */
    KEYS_MAX = 256, /* of a table */
    DEPTH_MAX = 16
};

/* The hash of one step, while it is made. */
struct text {
    struct script *s;
    uint64_t h;
    bool any, unsure;
    bool core, migrates; /* without migrate; there is one */
    const void *seen[SEEN_MAX];
    uint32_t seen_count;
};

/* ---- tokens ---- */

struct lexer {
    const char *p, *end;
    const char *token; /* the last one, `len` bytes */
    size_t len;
};

/* The level of a long bracket at `p`, or -1. */
static int
long_level(const char *p, const char *end)
{
    const char *q = p + 1;

    if (p == end || *p != '[')
        return -1;
    while (q < end && *q == '=')
        q++;
    return q < end && *q == '[' ? (int)(q - p) - 1 : -1;
}

/* Behind the long bracket that begins at `p`. */
static const char *
skip_long(const char *p, const char *end, int level)
{
    int n;

    for (p += level + 2; end - p >= level + 2; p++) {
        if (*p != ']')
            continue;
        for (n = 0; n < level && p[n + 1] == '='; n++)
            continue;
        if (n == level && p[level + 1] == ']')
            return p + level + 2;
    }
    return end;
}

static const char *
skip_string(const char *p, const char *end)
{
    char quote = *p++;

    for (; p < end && *p != quote; p++)
        if (*p == '\\' && p + 1 < end)
            p++;
    return p < end ? p + 1 : end;
}

static bool
is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || c == '_';
}

/* Skip blanks and comments. */
static void
skip_blank(struct lexer *l)
{
    int level;

    while (l->p < l->end) {
        if (strchr(" \t\r\n\f\v", *l->p) != NULL && *l->p != '\0') {
            l->p++;
        } else if (l->end - l->p >= 2 && memcmp(l->p, "--", 2) == 0) {
            level = long_level(l->p + 2, l->end);
            if (level >= 0)
                l->p = skip_long(l->p + 2, l->end, level);
            else
                while (l->p < l->end && *l->p != '\n')
                    l->p++;
        } else {
            return;
        }
    }
}

static bool
next(struct lexer *l)
{
    int level;

    skip_blank(l);
    l->token = l->p;
    if (l->p == l->end)
        return false;
    level = long_level(l->p, l->end);
    if (level >= 0)
        l->p = skip_long(l->p, l->end, level);
    else if (*l->p == '"' || *l->p == '\'')
        l->p = skip_string(l->p, l->end);
    else if (is_word(*l->p))
        while (l->p < l->end && is_word(*l->p))
            l->p++;
    else
        l->p++;
    l->len = (size_t)(l->p - l->token);
    return true;
}

static bool
token_is(const struct lexer *l, const char *word)
{
    return l->len == strlen(word) && memcmp(l->token, word, l->len) == 0;
}

/* ---- the text of a function ---- */

struct span {
    const char *from, *to;
};

/* The end of the function whose keyword was the last token, or NULL. */
static const char *
function_end(struct lexer l)
{
    int depth = 1;

    while (next(&l)) {
        if (token_is(&l, "function") || token_is(&l, "if") ||
            token_is(&l, "do") || token_is(&l, "repeat"))
            depth++;
        else if (token_is(&l, "end") || token_is(&l, "until"))
            depth--;
        if (depth == 0)
            return l.p;
    }
    return NULL;
}

/*
 * Find the function that begins on the first of these lines and ends on the
 * last: the only one, or with `migrate` the only one behind `migrate =`.
 * @return whether it is found.
 */
static bool
find_function(const struct span *lines, bool migrate, struct span *ret)
{
    struct lexer l = {.p = lines->from, .end = lines->to};
    const char *first = memchr(l.p, '\n', (size_t)(l.end - l.p)), *stop;
    struct span one = {NULL, NULL}, named = {NULL, NULL};
    uint32_t count = 0, count_named = 0;
    int behind = 0; /* 1: `migrate`, 2: `migrate =` */

    while (next(&l) && (first == NULL || l.token < first)) {
        if (token_is(&l, "function") && (stop = function_end(l)) != NULL &&
            (stop == lines->to ||
             memchr(stop, '\n', (size_t)(lines->to - 1 - stop)) == NULL)) {
            one = (struct span){l.token, stop};
            count++;
            if (behind == 2) {
                named = one;
                count_named++;
            }
        }
        behind = token_is(&l, "migrate")            ? 1
                 : behind == 1 && token_is(&l, "=") ? 2
                                                    : 0;
    }
    if (count == 1)
        *ret = one;
    else if (migrate && count_named == 1)
        *ret = named;
    return count == 1 || (migrate && count_named == 1);
}

static const char *
line_at(const char *p, const char *end, int line)
{
    for (; line > 1 && p < end; p++)
        line -= *p == '\n';
    return p;
}

/* The lines of a function. @return false if its text is not known. */
static bool
lines_of(const struct script *s, const lua_Debug *ar, struct span *ret)
{
    const struct script_file *f = NULL;
    const char *text = s->conf.text, *end;

    if (ar->source[0] != '@' || ar->linedefined < 1)
        return false;
    end = text + s->conf.text_len;
    if (strcmp(ar->source + 1, s->chunk) != 0) {
        f = script_files_find(s->files, SCRIPT_FILE_MODULE, ar->source + 1);
        if (f == NULL || f->missing)
            return false;
        text = f->text;
        end = text + f->len;
    }
    ret->from = line_at(text, end, ar->linedefined);
    ret->to =
        line_at(ret->from, end, ar->lastlinedefined - ar->linedefined + 2);
    return ret->to > ret->from;
}

static uint64_t
mix(uint64_t h, uint64_t v)
{
    return hash_splitmix(h ^ v) + h;
}

static uint64_t
hash_tokens(const struct span *text)
{
    struct lexer l = {.p = text->from, .end = text->to};
    uint64_t h = 1;

    while (next(&l))
        h = mix(h, hash_key(l.token, l.len));
    return h;
}

/* ---- what a function holds ---- */

static uint64_t hash_value_lj(lua_State *L, struct text *t, int index,
                              int depth);

/* Whether the object at `index` was not met in this step yet. */
static bool
is_new(lua_State *L, struct text *t, int index)
{
    const void *p = lua_topointer(L, index);
    uint32_t i;

    for (i = 0; i < t->seen_count; i++)
        if (t->seen[i] == p)
            return false;
    if (i == SEEN_MAX) {
        t->unsure = true;
        return false;
    }
    t->seen[t->seen_count++] = p;
    return true;
}

static uint64_t
hash_func_lj(lua_State *L, struct text *t, int index, int depth)
{
    struct span lines, text;
    const char *name;
    lua_Debug ar;
    uint64_t h;
    int i;

    if (lua_iscfunction(L, index))
        return 2;
    lua_pushvalue(L, index);
    (void)lua_getinfo(L, ">S", &ar);
    if (strncmp(ar.source, SCRIPT_LIB_MARK, strlen(SCRIPT_LIB_MARK)) == 0)
        return 3;
    if (!is_new(L, t, index))
        return 4;
    if (!lines_of(t->s, &ar, &lines)) {
        t->unsure = true;
        return 5;
    }
    h = hash_tokens(find_function(&lines, false, &text) ? &text : &lines);
    for (i = 1; (name = lua_getupvalue(L, index, i)) != NULL; i++) {
        if (strcmp(name, "_ENV") != 0)
            h = mix(h, hash_value_lj(L, t, lua_gettop(L), depth + 1));
        lua_pop(L, 1);
    }
    return h;
}

struct text_key {
    const char *s; /* NULL: the integer */
    size_t len;
    lua_Integer i;
};

static int
compare_keys(const void *va, const void *vb)
{
    const struct text_key *a = va, *b = vb;
    int c;

    if (a->s == NULL || b->s == NULL)
        return a->s != b->s ? (a->s == NULL ? -1 : 1)
                            : (a->i > b->i) - (a->i < b->i);
    c = memcmp(a->s, b->s, a->len < b->len ? a->len : b->len);
    return c != 0 ? c : (a->len > b->len) - (a->len < b->len);
}

/* Collect the keys of a table, at most KEYS_MAX. @return how many, or -1. */
static int
keys_lj(lua_State *L, int index, struct text_key *keys)
{
    int n = 0;

    lua_pushnil(L);
    while (lua_next(L, index) != 0) {
        lua_pop(L, 1);
        if (n == KEYS_MAX ||
            (lua_type(L, -1) != LUA_TSTRING && !lua_isinteger(L, -1))) {
            lua_pop(L, 1);
            return -1;
        }
        keys[n] = (struct text_key){NULL, 0, 0};
        if (lua_type(L, -1) == LUA_TSTRING)
            keys[n].s = lua_tolstring(L, -1, &keys[n].len);
        else
            keys[n].i = lua_tointeger(L, -1);
        n++;
    }
    return n;
}

static uint64_t
hash_table_lj(lua_State *L, struct text *t, int index, int depth)
{
    struct text_key *keys;
    uint64_t h = 6;
    int i, n;

    if (!is_new(L, t, index))
        return 7;
    keys = lua_newuserdatauv(L, KEYS_MAX * sizeof *keys, 0);
    n = keys_lj(L, index, keys);
    if (n < 0) {
        t->unsure = true;
        n = 0;
    }
    qsort(keys, (size_t)n, sizeof *keys, compare_keys);
    for (i = 0; i < n; i++) {
        if (keys[i].s != NULL) {
            (void)lua_pushlstring(L, keys[i].s, keys[i].len);
            h = mix(h, hash_key(keys[i].s, keys[i].len));
        } else {
            lua_pushinteger(L, keys[i].i);
            h = mix(h, (uint64_t)keys[i].i);
        }
        (void)lua_rawget(L, index);
        h = mix(h, hash_value_lj(L, t, lua_gettop(L), depth + 1));
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    return h;
}

static uint64_t
hash_value_lj(lua_State *L, struct text *t, int index, int depth)
{
    const char *s;
    lua_Number d;
    lua_Integer i;
    size_t len;

    luaL_checkstack(L, 8, "functions hold too much");
    if (depth > DEPTH_MAX) {
        t->unsure = true;
        return 8;
    }
    switch (lua_type(L, index)) {
    case LUA_TBOOLEAN:
        return 9u + (unsigned)lua_toboolean(L, index);
    case LUA_TNUMBER:
        i = lua_tointeger(L, index);
        d = lua_tonumber(L, index);
        return lua_isinteger(L, index) ? mix(11, (uint64_t)i)
                                       : mix(12, hash_key(&d, sizeof d));
    case LUA_TSTRING:
        s = lua_tolstring(L, index, &len);
        return mix(13, hash_key(s, len));
    case LUA_TTABLE:
        return hash_table_lj(L, t, index, depth);
    case LUA_TFUNCTION:
        return hash_func_lj(L, t, index, depth);
    default:
        return 14u + (unsigned)lua_type(L, index);
    }
}

/* ---- steps ---- */

static void
push_func_lj(lua_State *L, const struct script *s, int64_t func)
{
    (void)lua_rawgeti(L, LUA_REGISTRYINDEX, s->funcs_ref);
    (void)lua_rawgeti(L, -1, func);
    lua_remove(L, -2);
}

/* Add the text of `migrate`, which stands in `o`; as a hash. */
static int
add_migrate_lj(lua_State *L, struct script *s, struct opt *o, struct err *e)
{
    struct span lines, text;
    lua_Debug ar;
    char hash[17];

    push_func_lj(L, s, opt_func(o, "migrate"));
    (void)lua_getinfo(L, ">S", &ar);
    if (!lines_of(s, &ar, &lines) || !find_function(&lines, true, &text)) {
        (void)err_set(e, ERR_JOBFILE,
                      "migrate: the text of the function cannot be told");
        err_hint(e, "its text decides when it is called: write it in the job "
                    "file or a module, on lines of its own");
        err_where(e, "%s", opt_str(o, "place", s->conf.path));
        return ERR_JOBFILE;
    }
    (void)snprintf(hash, sizeof hash, "%016llx",
                   (unsigned long long)hash_tokens(&text));
    opt_add(&s->arena, o, "migrate_text",
            opt_new_str(&s->arena, hash, strlen(hash)));
    return 0;
}

/* Hash the functions of an option and what is in it. */
static int
walk_lj(lua_State *L, struct text *t, struct opt *o, struct err *e)
{
    struct opt *c;
    int r = 0;

    if (o->type == OPT_FUNC) {
        push_func_lj(L, t->s, o->i);
        if (lua_isfunction(L, -1)) {
            t->any = true;
            t->h = mix(t->h, hash_func_lj(L, t, lua_gettop(L), 0));
        }
        lua_pop(L, 1);
    }
    if (o->type != OPT_MAP && o->type != OPT_LIST)
        return 0;
    if (o->type == OPT_MAP && opt_func(o, "migrate") != 0 && !t->core) {
        t->migrates = true;
        r = add_migrate_lj(L, t->s, o, e);
    }
    for (c = o->first; c != NULL && r == 0; c = c->next)
        if (!t->core || o->type != OPT_MAP || strcmp(c->name, "migrate") != 0)
            r = walk_lj(L, t, c, e);
    return r;
}

/* Add a hash of a step's functions to it, if it has any. */
static int
add_hash_lj(lua_State *L, struct text *t, struct opt *step, bool core,
            struct err *e)
{
    char code[18];
    int r;

    t->h = 0;
    t->core = core;
    t->any = t->unsure = false;
    t->seen_count = 0;
    r = walk_lj(L, t, step, e);
    if (r != 0 || !t->any)
        return r;
    (void)snprintf(code, sizeof code, "%s%016llx", t->unsure ? "?" : "",
                   (unsigned long long)t->h);
    opt_add(&t->s->arena, step, core ? "core" : "code",
            opt_new_str(&t->s->arena, code, strlen(code)));
    return 0;
}

int
script_texts_lj(struct script *s, struct err *e)
{
    const struct opt *steps = opt_get(s->job, "steps");
    struct opt *step;
    struct text *t;
    int r = 0;

    t = lua_newuserdatauv(s->L, sizeof *t, 0);
    t->s = s;
    for (step = steps != NULL ? steps->first : NULL; step != NULL && r == 0;
         step = step->next) {
        t->migrates = false;
        r = add_hash_lj(s->L, t, step, false, e);
        if (r == 0 && t->migrates)
            r = add_hash_lj(s->L, t, step, true, e);
    }
    return r;
}
