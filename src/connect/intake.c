#include "connect/intake.h"

#include <assert.h>
#include <stdlib.h>

#include "base/mem.h"

void
intake_init(struct intake *in, const struct opt *opts)
{
    const char *delimiter = opt_str(opts, "delimiter", ",");

    lines_init(&in->lines, opt_is(opts, "format", "csv"), delimiter[0]);
    in->bad = NULL;
    in->bad_cap = 0;
}

void
intake_fini(struct intake *in)
{
    lines_fini(&in->lines);
    free(in->bad);
    in->bad = NULL;
    in->bad_cap = 0;
}

static void
add_bad(struct intake *in, struct batch *b, struct source_event *ev,
        const struct err *e)
{
    struct source_bad *bad;

    mem_grow(&in->bad, &in->bad_cap, ev->bad_count + 1u, sizeof *in->bad);
    bad = &in->bad[ev->bad_count++];
    bad->index = b->n - 1;
    bad->cause = e->cause;
    bad->msg = arena_strdup(&b->arena, e->msg);
    bad->where = NULL;
    ev->bad = in->bad;
}

static int
decode(const struct intake_from *from, const struct line *line, bool too_long,
       struct batch *b, struct err *e)
{
    struct rec *r = batch_add(b);
    int got;

    if (too_long) {
        r->val = line->bytes;
        r->val_len = (uint32_t)line->len;
        r->kind = REC_TEXT;
        r->flags = REC_RAW;
        got = err_record(e, CAUSE_DECODE, "the line is longer than %d bytes",
                         (int)LINE_SIZE_MAX);
    } else {
        got = decoder_decode(from->decoder, line->bytes, line->len, &b->arena,
                             r, e);
    }
    r->topic = from->topic;
    r->src = from->src;
    r->offset = line->offset;
    return got;
}

int
intake_batch(struct intake *in, const struct intake_from *from, bool eof,
             struct batch *b, uint32_t max, struct source_event *ev,
             struct err *e)
{
    struct line line;

    assert(max > 0);
    while (b->n < max) {
        enum line_result found = lines_next(&in->lines, eof, &line);
        int got;

        if (found == LINE_NONE)
            return 0;
        ev->bytes += line.len;
        got = decode(from, &line, found == LINE_TOO_LONG, b, e);
        if (got == 0)
            b->n--;
        else if (got == ERR_RECORD)
            add_bad(in, b, ev, e);
        else if (got < 0)
            return got;
    }
    return 1;
}
