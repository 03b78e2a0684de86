/*
 * new: a folder with a job, its test and the settings of editors.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "main/cli_value.h"
#include "main/cmd.h"
#include "main/new_files.h"

enum { NAME_MAX_LEN = 64 };

struct new
{
    const char *dir;
    const char *name; /* the last part of it: the job's */
    const struct new_template *template;
    const char *run; /* the template's command, inside the folder */
    bool force;
};

/* --- what is asked -------------------------------------------------------- */

static int
find_template(const char *name, const struct new_template **ret, struct err *e)
{
    unsigned i;

    for (i = 0; i < new_template_count; i++) {
        if (strcmp(name, new_templates[i].name) != 0)
            continue;
        *ret = &new_templates[i];
        return 0;
    }
    return err_set(e, ERR_USAGE, "--template: expected %s, got \"%s\"",
                   cli_flags[FLAG_TEMPLATE].metavar, name);
}

/* API.md, common notation. */
static bool
is_name(const char *s)
{
    size_t len = strlen(s);

    return len > 0 && len <= NAME_MAX_LEN &&
           strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                     "0123456789_-") == len &&
           strchr("0123456789-", s[0]) == NULL;
}

/* A command of a template as it is called inside the folder. */
static const char *
without_dir(struct cli *c, const char *run)
{
    static const char dir[] = "@DIR@/";
    const char *at = strstr(run, dir);
    struct buf b;
    char *text;

    buf_init(&b);
    buf_add(&b, run, (size_t)(at - run));
    buf_adds(&b, at + sizeof dir - 1);
    text = arena_strdup(&c->arena, buf_cstr(&b));
    buf_fini(&b);
    return text;
}

static int
read_flags(struct cli *c, struct new *n, struct err *e)
{
    const char *template = cli_text(c, FLAG_TEMPLATE), *slash;
    char *dir = arena_strdup(&c->arena, c->operand);
    size_t len = strlen(dir);

    while (len > 1 && dir[len - 1] == '/')
        dir[--len] = '\0';
    slash = strrchr(dir, '/');
    n->dir = dir;
    n->name = slash != NULL ? slash + 1 : dir;
    n->force = cli_has(c, FLAG_FORCE);
    if (!is_name(n->name))
        return err_set(e, ERR_USAGE,
                       "new: \"%s\" cannot be the name of a job: a letter or "
                       "_, then letters, digits, _ and -, at most %d",
                       n->name, NAME_MAX_LEN);
    if (find_template(template != NULL ? template : "metrics", &n->template,
                      e) != 0)
        return e->code;
    n->run = without_dir(c, n->template->run);
    return 0;
}

/* --- writing -------------------------------------------------------------- */

/* Append `text` with its @MARKS@ filled in. */
static void
fill(struct buf *out, const struct new *n, const char *text, const char *dir)
{
    struct {
        const char *mark, *value;
    } marks[] = {{"@NAME@", n->name},
                 {"@WHAT@", n->template->what},
                 {"@RUN@", n->run},
                 {"@DIR@", dir}};
    size_t i;

    while (*text != '\0') {
        for (i = 0; i < sizeof marks / sizeof *marks; i++)
            if (strncmp(text, marks[i].mark, strlen(marks[i].mark)) == 0)
                break;
        if (i == sizeof marks / sizeof *marks) {
            buf_addc(out, *text++);
            continue;
        }
        buf_adds(out, marks[i].value);
        text += strlen(marks[i].mark);
    }
}

static int
write_all(int fd, const char *text, size_t len)
{
    ssize_t n;

    while (len > 0) {
        n = write(fd, text, len);
        if (n == -1 && errno == EINTR)
            continue;
        if (n == -1)
            return -1;
        text += n;
        len -= (size_t)n;
    }
    return 0;
}

static int
write_file(const struct new *n, const char *name, struct buf *text,
           struct err *e)
{
    char path[PATH_MAX];
    int fd, r = 0;

    (void)snprintf(path, sizeof path, "%s/%s", n->dir, name);
    fd = open(path,
              O_WRONLY | O_CREAT | O_CLOEXEC | (n->force ? O_TRUNC : O_EXCL),
              0666);
    if (fd == -1 || write_all(fd, text->data, text->len) != 0)
        r = err_set(e, ERR_IO, "cannot write '%s': %s", path, strerror(errno));
    if (fd != -1 && close(fd) != 0 && r == 0)
        r = err_set(e, ERR_IO, "cannot write '%s': %s", path, strerror(errno));
    buf_clear(text);
    return r;
}

/* The folder with the types of `streamlua`: installed beside the program, or
 * in the tree it was built in. @return false if there is none. */
static bool
find_types(char out[PATH_MAX])
{
    static const char *const places[] = {"../share/streamlua/lua", "lua"};
    char exe[PATH_MAX], path[2 * PATH_MAX], *slash;
    ssize_t len = readlink("/proc/self/exe", exe, sizeof exe - 1);
    size_t i;

    if (len <= 0)
        return false;
    exe[len] = '\0';
    slash = strrchr(exe, '/');
    if (slash == NULL)
        return false;
    *slash = '\0';
    for (i = 0; i < sizeof places / sizeof *places; i++) {
        (void)snprintf(path, sizeof path, "%s/%s/types", exe, places[i]);
        if (realpath(path, out) != NULL)
            return true;
    }
    return false;
}

static void
put_luarc(struct buf *out)
{
    char types[PATH_MAX];

    buf_adds(out, "{\n  \"runtime.version\": \"Lua 5.4\",\n"
                  "  \"workspace.checkThirdParty\": false,\n"
                  "  \"workspace.library\": [");
    if (find_types(types))
        json_put_str(out, types, strlen(types));
    buf_adds(out, "]\n}\n");
}

static int
write_files(const struct new *n, struct err *e)
{
    struct buf text;
    int r;

    buf_init(&text);
    fill(&text, n, n->template->job, n->dir);
    r = write_file(n, "job.lua", &text, e);
    fill(&text, n, n->template->test, n->dir);
    if (r == 0)
        r = write_file(n, "job_test.lua", &text, e);
    buf_clear(&text);
    put_luarc(&text);
    if (r == 0)
        r = write_file(n, ".luarc.json", &text, e);
    buf_clear(&text);
    buf_adds(&text, new_luacheckrc);
    if (r == 0)
        r = write_file(n, ".luacheckrc", &text, e);
    buf_clear(&text);
    fill(&text, n, new_readme, n->dir);
    if (r == 0)
        r = write_file(n, "README.md", &text, e);
    buf_fini(&text);
    return r;
}

static int
make_dir(const struct new *n, struct err *e)
{
    struct stat st;

    if (strlen(n->dir) + sizeof "/job_test.lua" > PATH_MAX)
        return err_set(e, ERR_BUSY, "the path '%s' is too long", n->dir);
    if (mkdir(n->dir, 0777) == 0)
        return 0;
    if (errno != EEXIST)
        return err_set(e, ERR_BUSY, "cannot make '%s': %s", n->dir,
                       strerror(errno));
    if (n->force && stat(n->dir, &st) == 0 && S_ISDIR(st.st_mode))
        return 0;
    (void)err_set(e, ERR_BUSY, "'%s' exists already", n->dir);
    err_hint(e, n->force ? "it is no folder"
                         : "--force writes the files of the template over "
                           "what is in it");
    return ERR_BUSY;
}

/* A path as a shell reads it. */
static void
put_quoted(struct buf *out, const char *path)
{
    if (path[strspn(path, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                          "0123456789_-./")] == '\0') {
        buf_adds(out, path);
        return;
    }
    buf_addc(out, '\'');
    for (; *path != '\0'; path++)
        if (*path == '\'')
            buf_adds(out, "'\\''");
        else
            buf_addc(out, *path);
    buf_addc(out, '\'');
}

int
cmd_new(struct cli *c)
{
    struct buf out, dir;
    struct new n = {0};
    struct err e;
    int rc;

    if (read_flags(c, &n, &e) != 0)
        return cmd_usage_error(c, &e);
    if (make_dir(&n, &e) != 0 || write_files(&n, &e) != 0)
        return cmd_error(c, &e);
    buf_init(&out);
    buf_init(&dir);
    put_quoted(&dir, n.dir);
    fill(&out, &n, "streamlua test @DIR@\n", buf_cstr(&dir));
    fill(&out, &n, n.template->run, buf_cstr(&dir));
    buf_addc(&out, '\n');
    rc = cmd_print(out.data, out.len);
    buf_fini(&dir);
    buf_fini(&out);
    return rc;
}
