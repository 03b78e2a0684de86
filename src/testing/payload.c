#include "testing/payload.h"

#include <string.h>

#include "format/csv.h"
#include "testing/value.h"

static const struct opt *
source_step(const struct script *job, const char *source)
{
    const struct opt *steps = opt_get(script_job(job), "steps"), *s;

    for (s = steps == NULL ? NULL : steps->first; s != NULL; s = s->next)
        if (opt_is(s, "kind", "source") && opt_is(s, "name", source))
            return s;
    return NULL;
}

static int
put_csv_cell(const struct opt *v, const char *name, char delimiter,
             struct buf *out, struct err *e)
{
    struct buf text;

    if (v == NULL || v->type == OPT_NIL)
        return 0;
    if (v->type == OPT_STR) {
        csv_put_cell(delimiter, out, v->s, v->len);
        return 0;
    }
    if (v->type == OPT_LIST || v->type == OPT_MAP)
        return err_set(e, ERR_USAGE,
                       "field %s is a table: a cell of CSV holds a string, a "
                       "number or a boolean",
                       name);
    buf_init(&text);
    opt_put_json(&text, v);
    csv_put_cell(delimiter, out, text.data, text.len);
    buf_fini(&text);
    return 0;
}

static int
put_csv(const struct script *job, const char *source, const struct opt *value,
        struct buf *out, struct err *e)
{
    const struct opt *conn = opt_get(source_step(job, source), "conn");
    const struct opt *fields = opt_get(conn, "fields"), *f, *v;
    char delimiter = opt_str(conn, "delimiter", ",")[0];
    int r = 0;

    if (fields == NULL)
        return err_set(e, ERR_USAGE,
                       "source %s takes its columns from a header line: push "
                       "strings, the header first",
                       source);
    for (v = value->first; v != NULL; v = v->next) {
        for (f = fields->first; f != NULL; f = f->next)
            if (opt_is(f, "name", v->name))
                break;
        if (f == NULL)
            return err_set(e, ERR_USAGE, "source %s has no column %s", source,
                           v->name);
    }
    for (f = fields->first; f != NULL && r == 0; f = f->next) {
        if (f != fields->first)
            buf_addc(out, delimiter);
        r = put_csv_cell(opt_get(value, opt_str(f, "name", "")),
                         opt_str(f, "name", ""), delimiter, out, e);
    }
    return r;
}

int
payload_put(const struct sim *sim, const struct script *job, const char *source,
            const struct opt *value, struct buf *out, struct err *e)
{
    const char *format = sim_source_format(sim, source);
    struct buf names;
    int r;

    if (format == NULL) {
        buf_init(&names);
        sim_put_names(sim, false, &names);
        r = err_set(e, ERR_USAGE,
                    "push: the job has no source \"%s\"; it has: %s", source,
                    buf_cstr(&names));
        buf_fini(&names);
        return r;
    }
    if (value == NULL)
        return 0;
    if (value->type == OPT_STR) {
        buf_add(out, value->s, value->len);
        return 0;
    }
    if (value_has_mark(value))
        return err_set(e, ERR_USAGE,
                       "push: t.any and the like stand for what is expected, "
                       "they cannot be pushed");
    if (strcmp(format, "json") == 0) {
        opt_put_json(out, value);
        return 0;
    }
    if (strcmp(format, "csv") == 0 && value->type == OPT_MAP) {
        r = put_csv(job, source, value, out, e);
        return r == 0 ? 0 : err_context(e, "push");
    }
    return err_set(e, ERR_USAGE,
                   "push: source %s has format = \"%s\": push a string, the "
                   "bytes of the message",
                   source, format);
}

int
payload_put_key(const struct opt *key, struct buf *out, struct err *e)
{
    if (value_has_mark(key))
        return err_set(e, ERR_USAGE, "push: the key holds a t.any or the like");
    if (key->type == OPT_STR)
        buf_add(out, key->s, key->len);
    else
        opt_put_json(out, key);
    return 0;
}
