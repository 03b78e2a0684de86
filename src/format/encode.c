#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "format/csv.h"
#include "format/format.h"
#include "format/json.h"
#include "format/reader.h"

enum format { FORMAT_JSON, FORMAT_TEXT, FORMAT_RAW, FORMAT_CSV };

struct encoder {
    enum format format;
    bool envelope;
    enum json_nan nan;
    enum json_utf8 utf8;
    struct csv *csv;
    struct buf header;
    struct reader *reader; /* for CSV's fields and for `value` */
    uint32_t *columns;     /* of each CSV field; [0] is `value` else */
    uint32_t count;
};

/* Format names, with the suffix of their files. */
static const struct {
    const char *name, *suffix;
} formats[] = {
    {"json", "jsonl"}, {"text", "txt"}, {"raw", "bin"}, {"csv", "csv"}};

static int
read_format(struct encoder *d, const struct opt *opts, struct err *e)
{
    const char *name = opt_str(opts, "format", "json");
    unsigned i;

    for (i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strcmp(name, formats[i].name) == 0) {
            d->format = (enum format)i;
            return 0;
        }
    return err_set(e, ERR_JOBFILE,
                   "format must be \"json\", \"text\", \"raw\" or \"csv\", "
                   "got \"%s\"",
                   name);
}

static int
add_column(struct encoder *d, const char *name, size_t len, struct err *e)
{
    return reader_column_name(d->reader, name, len, &d->columns[d->count++], e);
}

static int
make_columns(struct encoder *d, const struct opt *opts, struct err *e)
{
    size_t i;
    int r;

    if (d->format == FORMAT_JSON)
        return 0;
    d->reader = reader_new();
    if (d->format != FORMAT_CSV) {
        d->columns = mem_zalloc(sizeof *d->columns);
        return add_column(d, "value", 5, e);
    }
    r = csv_new(opts, &d->csv, e);
    if (r != 0)
        return r;
    if (!d->csv->declared)
        return err_set(e, ERR_JOBFILE, "a CSV sink needs fields");
    d->columns = mem_zalloc(d->csv->count * sizeof *d->columns);
    for (i = 0; i < d->csv->count; i++) {
        r = add_column(d, d->csv->fields[i].name, d->csv->fields[i].name_len,
                       e);
        if (r != 0)
            return err_set(e, ERR_JOBFILE, "a CSV sink has too many fields");
    }
    if (d->csv->header) {
        csv_put_header(d->csv, &d->header);
        (void)buf_cstr(&d->header);
    }
    return 0;
}

int
encoder_new(const struct opt *opts, struct encoder **ret, struct err *e)
{
    struct encoder *d = mem_zalloc(sizeof *d);
    int r;

    buf_init(&d->header);
    d->envelope = opt_bool(opts, "envelope", false);
    if (opt_is(opts, "nan", "null"))
        d->nan = NAN_NULL;
    else if (opt_is(opts, "nan", "string"))
        d->nan = NAN_STRING;
    if (opt_is(opts, "invalid_utf8", "replace"))
        d->utf8 = UTF8_REPLACE;
    r = read_format(d, opts, e);
    if (r == 0 && d->envelope && d->format != FORMAT_JSON)
        r = err_set(e, ERR_JOBFILE, "envelope=true needs format \"json\"");
    if (r == 0)
        r = make_columns(d, opts, e);
    if (r != 0) {
        encoder_free(&d);
        return r;
    }
    *ret = d;
    return 0;
}

void
encoder_free(struct encoder **d)
{
    if (*d == NULL)
        return;
    csv_free(&(*d)->csv);
    reader_free(&(*d)->reader);
    free((*d)->columns);
    buf_fini(&(*d)->header);
    free(*d);
    *d = NULL;
}

/* The record's payload as plain JSON. */
static int
put_json(const struct encoder *d, const struct rec *r, struct buf *out,
         struct err *e)
{
    int rc;

    switch ((enum rec_kind)r->kind) {
    case REC_TEXT:
        buf_adds(out, "{\"value\":");
        rc = json_put_text(out, r->val, r->val_len, d->utf8, e);
        buf_addc(out, '}');
        return rc;
    case REC_TOMBSTONE:
        buf_adds(out, "null");
        return 0;
    case REC_OBJECT:
    case REC_VALUE:
        break;
    }
    if (r->flags & REC_EXT)
        return json_put_plain(out, r->val, r->val_len, d->nan, d->utf8, e);
    buf_add(out, r->val, r->val_len);
    return 0;
}

static int
put_envelope(const struct encoder *d, const struct rec *r, const char *key,
             size_t key_len, struct buf *out, struct err *e)
{
    int rc;

    buf_adds(out, "{\"key\":");
    if (key == NULL) {
        buf_adds(out, "null");
    } else {
        rc = json_put_text(out, key, key_len, d->utf8, e);
        if (rc != 0)
            return rc;
    }
    buf_adds(out, ",\"timestamp\":");
    if (r->flags & REC_HAS_TS)
        json_put_int(out, r->ts);
    else
        buf_adds(out, "null");
    buf_adds(out, ",\"value\":");
    rc = put_json(d, r, out, e);
    buf_addc(out, '}');
    return rc;
}

/* A number, a word, or a NaN by policy. */
static int
put_number(const struct encoder *d, const struct val *v, struct buf *out,
           struct err *e)
{
    char text[NUM_TEXT_MAX];

    if (v->type == VAL_INT) {
        json_put_int(out, v->u.i);
        return 0;
    }
    (void)num_text_double(v->u.d, text);
    if (!isfinite(v->u.d) && d->nan == NAN_ERROR)
        return err_record(e, CAUSE_ENCODE, "%s has no text form", text);
    if (isfinite(v->u.d) || d->nan == NAN_STRING)
        buf_adds(out, text);
    else if (d->format != FORMAT_CSV)
        buf_adds(out, "null");
    return 0;
}

/* String bytes; only a raw sink takes any. */
static int
check_text(const struct encoder *d, const char *s, size_t len, struct buf *tmp,
           struct err *e)
{
    if (d->format == FORMAT_RAW || json_utf8_ok(s, len)) {
        buf_add(tmp, s, len);
        return 0;
    }
    if (d->utf8 == UTF8_ERROR)
        return err_record(e, CAUSE_ENCODE,
                          "a string holds bytes that are no UTF-8");
    json_put_utf8(tmp, s, len);
    return 0;
}

static const char *
type_name(uint8_t type)
{
    static const char *const names[] = {"missing", "null",    "a boolean",
                                        "an int",  "a float", "a string",
                                        "a list",  "a map",   "malformed"};

    return names[type];
}

static int
put_value(const struct encoder *d, const struct val *v, struct buf *out,
          struct err *e)
{
    if (v->type == VAL_INT || v->type == VAL_DBL)
        return put_number(d, v, out, e);
    if (v->type != VAL_STR) {
        (void)err_record(e, CAUSE_ENCODE,
                         "format \"%s\" needs a string or number in field "
                         "'value', which is %s",
                         formats[d->format].name, type_name(v->type));
        return ERR_RECORD;
    }
    return check_text(d, v->u.s, v->len, out, e);
}

static int
put_cell(const struct encoder *d, const struct rec *r, const struct val *v,
         struct buf *out, struct err *e)
{
    struct buf text;
    bool ext = false;
    int rc = 0;

    if (val_is_null(v))
        return 0;
    if (v->type == VAL_INT || v->type == VAL_DBL)
        return put_number(d, v, out, e);
    buf_init(&text);
    if (v->type == VAL_STR)
        rc = check_text(d, v->u.s, v->len, &text, e);
    else if (v->type != VAL_BOOL && (r->flags & REC_EXT))
        rc = json_put_plain(&text, v->u.s, v->len, d->nan, d->utf8, e);
    else
        json_put_val(&text, v, &ext);
    if (rc == 0)
        csv_put_cell(csv_delimiter(d->csv), out, text.data, text.len);
    buf_fini(&text);
    return rc;
}

static int
put_columns(struct encoder *d, const struct rec *r, struct buf *out,
            struct err *e)
{
    struct rec copy = *r;
    struct batch one = {.recs = &copy, .n = 1, .cap = 1};
    struct val v;
    uint32_t i;
    int rc = 0;

    reader_load(d->reader, &one);
    for (i = 0; i < d->count && rc == 0; i++) {
        if (i > 0)
            buf_addc(out, d->csv->delimiter);
        rc = reader_get(d->reader, &copy, d->columns[i], &v, e);
        if (rc == 0)
            rc = d->format == FORMAT_CSV ? put_cell(d, r, &v, out, e)
                                         : put_value(d, &v, out, e);
    }
    return rc;
}

int
encoder_encode(struct encoder *d, const struct rec *r, const char *key,
               size_t key_len, struct buf *out, bool *ret_null, struct err *e)
{
    size_t before = out->len;
    int rc;

    *ret_null = r->kind == REC_TOMBSTONE && !d->envelope;
    if (d->envelope)
        rc = put_envelope(d, r, key, key_len, out, e);
    else if (d->format == FORMAT_JSON)
        rc = put_json(d, r, out, e);
    else
        rc = *ret_null ? 0 : put_columns(d, r, out, e);
    if (rc != 0)
        out->len = before;
    return rc;
}

const char *
encoder_header(const struct encoder *d)
{
    return d->header.data;
}

const char *
encoder_suffix(const struct encoder *d)
{
    return formats[d->format].suffix;
}
