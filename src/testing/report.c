#include "testing/report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "format/json.h"

struct result {
    size_t file; /* index in files */
    char *name;
    char *why; /* NULL: passed */
    int64_t ms;
};

struct report {
    enum report_form form;
    FILE *out;
    bool colour;
    char **files;
    size_t file_count, file_cap;
    struct result *results; /* JUnit's only */
    size_t count, cap;
    int64_t passed, failed;
};

struct report *
report_new(enum report_form form, FILE *out, bool colour)
{
    struct report *r = mem_zalloc(sizeof *r);

    r->form = form;
    r->out = out;
    r->colour = colour;
    if (form == REPORT_TAP)
        (void)fputs("TAP version 14\n", out);
    return r;
}

void
report_free(struct report **pr)
{
    struct report *r = *pr;
    size_t i;

    if (r == NULL)
        return;
    *pr = NULL;
    for (i = 0; i < r->file_count; i++)
        free(r->files[i]);
    for (i = 0; i < r->count; i++) {
        free(r->results[i].name);
        free(r->results[i].why);
    }
    free(r->files);
    free(r->results);
    free(r);
}

void
report_file(struct report *r, const char *path)
{
    mem_grow(&r->files, &r->file_cap, r->file_count + 1, sizeof *r->files);
    r->files[r->file_count++] = mem_strdup(path);
    if (r->form != REPORT_JUNIT)
        (void)fprintf(r->out, "# %s\n", path);
}

/* Each line of `text` behind `indent`. */
static void
put_lines(FILE *out, const char *indent, const char *text)
{
    size_t len;

    for (; *text != '\0'; text += len + (text[len] == '\n')) {
        len = strcspn(text, "\n");
        (void)fprintf(out, "%s%.*s\n", indent, (int)len, text);
    }
}

static void
put_text(const struct report *r, const struct result *c)
{
    const char *on = c->why == NULL ? "\033[32m" : "\033[31m";

    (void)fprintf(r->out, "%s%s%s %" PRId64 " %s (%" PRId64 " ms)\n",
                  r->colour ? on : "", c->why == NULL ? "ok" : "not ok",
                  r->colour ? "\033[0m" : "", r->passed + r->failed, c->name,
                  c->ms);
    if (c->why != NULL)
        put_lines(r->out, "  ", c->why);
}

/* A description of TAP: "#" and "\" are escaped. */
static void
put_tap(const struct report *r, const struct result *c)
{
    const char *s;

    (void)fprintf(r->out, "%s %" PRId64 " - ", c->why == NULL ? "ok" : "not ok",
                  r->passed + r->failed);
    for (s = c->name; *s != '\0'; s++) {
        if (*s == '#' || *s == '\\')
            (void)fputc('\\', r->out);
        (void)fputc(*s == '\n' ? ' ' : *s, r->out);
    }
    (void)fprintf(r->out, "\n  ---\n  duration_ms: %" PRId64 "\n", c->ms);
    if (c->why != NULL) {
        (void)fputs("  message: |-\n", r->out);
        put_lines(r->out, "    ", c->why);
    }
    (void)fputs("  ...\n", r->out);
}

/* Text of XML: characters that it cannot hold at all become "?". */
static void
put_xml(FILE *out, const char *s, size_t len)
{
    size_t i;

    for (i = 0; i < len; i++) {
        unsigned char c = (unsigned char)s[i];

        if (c == '&')
            (void)fputs("&amp;", out);
        else if (c == '<')
            (void)fputs("&lt;", out);
        else if (c == '>')
            (void)fputs("&gt;", out);
        else if (c == '"')
            (void)fputs("&quot;", out);
        else if (c < 0x20 && c != '\n' && c != '\t')
            (void)fputc('?', out);
        else
            (void)fputc(c, out);
    }
}

static void
put_junit_case(const struct report *r, const struct result *c)
{
    const char *file = r->files[c->file];

    (void)fputs("    <testcase classname=\"", r->out);
    put_xml(r->out, file, strlen(file));
    (void)fputs("\" name=\"", r->out);
    put_xml(r->out, c->name, strlen(c->name));
    (void)fprintf(r->out, "\" time=\"%.3f\"", (double)c->ms / 1000);
    if (c->why == NULL) {
        (void)fputs("/>\n", r->out);
        return;
    }
    (void)fputs(">\n      <failure message=\"", r->out);
    put_xml(r->out, c->why, strcspn(c->why, "\n"));
    (void)fputs("\">", r->out);
    put_xml(r->out, c->why, strlen(c->why));
    (void)fputs("</failure>\n    </testcase>\n", r->out);
}

static void
put_junit(const struct report *r)
{
    size_t f, i, tests, failures;
    double seconds;

    (void)fprintf(r->out,
                  "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                  "<testsuites tests=\"%" PRId64 "\" failures=\"%" PRId64
                  "\">\n",
                  r->passed + r->failed, r->failed);
    for (f = 0; f < r->file_count; f++) {
        tests = failures = 0;
        seconds = 0;
        for (i = 0; i < r->count; i++) {
            if (r->results[i].file != f)
                continue;
            tests++;
            failures += r->results[i].why != NULL;
            seconds += (double)r->results[i].ms / 1000;
        }
        (void)fputs("  <testsuite name=\"", r->out);
        put_xml(r->out, r->files[f], strlen(r->files[f]));
        (void)fprintf(r->out,
                      "\" tests=\"%zu\" failures=\"%zu\" errors=\"0\" "
                      "skipped=\"0\" time=\"%.3f\">\n",
                      tests, failures, seconds);
        for (i = 0; i < r->count; i++)
            if (r->results[i].file == f)
                put_junit_case(r, &r->results[i]);
        (void)fputs("  </testsuite>\n", r->out);
    }
    (void)fputs("</testsuites>\n", r->out);
}

/* A name or a row may hold any bytes. Control characters become "?", what is no
 * UTF-8 U+FFFD. */
static char *
dup_text(const char *s)
{
    struct buf b;
    char *text, *p;

    buf_init(&b);
    json_put_utf8(&b, s, strlen(s));
    text = mem_strdup(buf_cstr(&b));
    buf_fini(&b);
    for (p = text; *p != '\0'; p++)
        if (((unsigned char)*p < 0x20 && *p != '\n' && *p != '\t') ||
            *p == 0x7f)
            *p = '?';
    return text;
}

void
report_case(struct report *r, const char *name, int64_t ms, const char *why)
{
    struct result c = {.file = r->file_count - 1,
                       .name = dup_text(name),
                       .why = why == NULL ? NULL : dup_text(why),
                       .ms = ms};

    if (why == NULL)
        r->passed++;
    else
        r->failed++;
    if (r->form == REPORT_JUNIT) {
        mem_grow(&r->results, &r->cap, r->count + 1, sizeof *r->results);
        r->results[r->count++] = c;
        return;
    }
    if (r->form == REPORT_TAP)
        put_tap(r, &c);
    else
        put_text(r, &c);
    (void)fflush(r->out);
    free(c.name);
    free(c.why);
}

int64_t
report_end(struct report *r)
{
    if (r->form == REPORT_JUNIT)
        put_junit(r);
    else if (r->form == REPORT_TAP)
        (void)fprintf(r->out, "1..%" PRId64 "\n", r->passed + r->failed);
    else
        (void)fprintf(r->out, "%" PRId64 " passed, %" PRId64 " failed\n",
                      r->passed, r->failed);
    return fflush(r->out) != 0 || ferror(r->out) ? -1 : r->failed;
}
