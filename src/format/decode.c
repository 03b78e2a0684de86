#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "format/csv.h"
#include "format/format.h"
#include "format/json.h"

enum format { FORMAT_JSON, FORMAT_TEXT, FORMAT_RAW, FORMAT_CSV };

struct decoder {
    enum format format;
    bool has_lines, validate;
    uint8_t flags; /* REC_BIGINT_... */
    struct csv *csv;
};

static int
read_format(const struct opt *opts, enum format *ret, struct err *e)
{
    static const char *const names[] = {"json", "text", "raw", "csv"};
    const char *name = opt_str(opts, "format", "json");
    unsigned i;

    for (i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0) {
            *ret = (enum format)i;
            return 0;
        }
    return err_set(e, ERR_JOBFILE,
                   "format must be \"json\", \"text\", \"raw\" or \"csv\", "
                   "got \"%s\"",
                   name);
}

int
decoder_new(const struct opt *opts, bool has_lines, struct decoder **ret,
            struct err *e)
{
    struct decoder *d = mem_zalloc(sizeof *d);
    int r = read_format(opts, &d->format, e);

    if (r == 0 && d->format == FORMAT_CSV)
        r = csv_new(opts, &d->csv, e);
    if (r != 0) {
        decoder_free(&d);
        return r;
    }
    d->has_lines = has_lines;
    d->validate = opt_bool(opts, "validate", false);
    if (opt_is(opts, "bigint", "string"))
        d->flags = REC_BIGINT_STRING;
    else if (opt_is(opts, "bigint", "float"))
        d->flags = REC_BIGINT_FLOAT;
    *ret = d;
    return 0;
}

void
decoder_free(struct decoder **d)
{
    if (*d == NULL)
        return;
    csv_free(&(*d)->csv);
    free(*d);
    *d = NULL;
}

static bool
is_blank_line(const char *s, size_t len)
{
    size_t i;

    for (i = 0; i < len; i++)
        if (s[i] != ' ' && s[i] != '\t' && s[i] != '\r' && s[i] != '\n')
            return false;
    return true;
}

static int
decode_text(const struct decoder *d, const char *bytes, size_t len,
            struct rec *r, struct err *e)
{
    if (d->has_lines && len > 0 && bytes[len - 1] == '\r')
        len--;
    if (!json_utf8_ok(bytes, len))
        return err_record(e, CAUSE_DECODE, "invalid text: not UTF-8");
    r->kind = REC_TEXT;
    r->val = bytes;
    r->val_len = (uint32_t)len;
    return 1;
}

static int
decode_by_format(struct decoder *d, const char *bytes, size_t len,
                 struct arena *a, struct rec *r, struct err *e)
{
    switch (d->format) {
    case FORMAT_JSON:
        if (d->has_lines && is_blank_line(bytes, len))
            return 0;
        return json_check(bytes, len, d->validate, r, e) == 0 ? 1 : ERR_RECORD;
    case FORMAT_TEXT:
        return decode_text(d, bytes, len, r, e);
    case FORMAT_RAW:
        return 1;
    case FORMAT_CSV:
        if (!json_utf8_ok(bytes, len))
            return err_record(e, CAUSE_DECODE, "invalid CSV: not UTF-8");
        return csv_read(d->csv, bytes, len, a, r, e);
    }
    return 1;
}

int
decoder_decode(struct decoder *d, const char *bytes, size_t len,
               struct arena *a, struct rec *r, struct err *e)
{
    int rc;

    r->flags = (uint8_t)(r->flags & ~(REC_BIGINT_STRING | REC_BIGINT_FLOAT |
                                      REC_RAW | REC_EXT));
    r->flags |= d->flags;
    r->val = bytes;
    r->val_len = (uint32_t)len;
    if (bytes == NULL) {
        r->kind = REC_TOMBSTONE;
        return 1;
    }
    /* What a bad record looks like, and a raw one. */
    r->kind = REC_TEXT;
    if (len > REC_SIZE_MAX) {
        r->val_len = REC_SIZE_MAX;
        r->flags |= REC_RAW;
        return err_record(e, CAUSE_DECODE,
                          "a record of %zu bytes is beyond the limit of %d",
                          len, REC_SIZE_MAX);
    }
    rc = decode_by_format(d, bytes, len, a, r, e);
    if (rc < 0 || d->format == FORMAT_RAW)
        r->flags |= REC_RAW;
    return rc;
}

void
decoder_restart(struct decoder *d)
{
    if (d->csv != NULL)
        d->csv->header_next = d->csv->header;
}

bool
decoder_is_csv(const struct decoder *d)
{
    return d->format == FORMAT_CSV;
}
