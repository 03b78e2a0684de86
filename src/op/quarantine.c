#include "op/quarantine.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/json.h"

#define STREAMS "__streams.errors."
#define OWN "__streamlua.errors."

enum { HEADERS_MAX = 10, NUMBER_MAX = 24, CLASS_MAX = 48 };

static void
add_header(struct rec_headers *h, const char *name, const char *value,
           struct arena *a)
{
    size_t len = strlen(value);

    h->items[h->count++] =
        (struct rec_header){.name = name,
                            .name_len = (uint32_t)strlen(name),
                            .value = arena_dup(a, value, len),
                            .value_len = (uint32_t)len};
}

static void
add_number(struct rec_headers *h, const char *name, int64_t n, struct arena *a)
{
    char text[NUMBER_MAX];

    (void)snprintf(text, sizeof text, "%" PRId64, n);
    add_header(h, name, text, a);
}

/* The first line of the report, as stderr would have it. */
static void
add_message(struct rec_headers *h, const struct err *e, const char *place,
            struct arena *a)
{
    char text[ERR_WHERE_MAX + ERR_MSG_MAX + 4];
    const char *where = e->where[0] != '\0' ? e->where : place;

    (void)snprintf(text, sizeof text, "%s: %s", where, e->msg);
    add_header(h, STREAMS "message", text, a);
}

static struct rec_headers *
describe(const struct op *op, const struct plan_step *step, const struct rec *r,
         const struct err *e, struct arena *a)
{
    const struct rec_headers *had = r != NULL ? rec_headers(r, a) : NULL;
    uint32_t n = had != NULL ? had->count : 0;
    struct rec_headers *h = rec_headers_new(a, n + HEADERS_MAX);
    const char *cause = err_cause_name(e->cause);
    char class[CLASS_MAX];

    if (n != 0)
        memcpy(h->items, had->items, n * sizeof h->items[0]);
    h->count = n;
    (void)snprintf(class, sizeof class, "streamlua.%s", cause);
    add_header(h, STREAMS "exception", class, a);
    add_message(h, e, step->place, a);
    add_header(h, STREAMS "stacktrace", e->trace, a);
    if (r != NULL) {
        add_header(h, STREAMS "topic", topic_name(r->topic), a);
        add_number(h, STREAMS "partition", r->partition, a);
        add_number(h, STREAMS "offset", r->offset, a);
    }
    add_header(h, OWN "step", step->name, a);
    add_header(h, OWN "job", op->env->plan->name, a);
    add_header(h, OWN "cause", cause, a);
    if (r != NULL && (r->flags & REC_HAS_TS) != 0)
        add_number(h, OWN "timestamp", r->ts, a);
    return h;
}

void
quarantine_add(const struct op *op, const struct plan_step *step,
               const struct rec *r, const struct err *e, struct batch *b)
{
    const struct rec_headers *h = describe(op, step, r, e, &b->arena);
    struct rec *to = r != NULL ? batch_add_ref(b, r) : batch_add(b);

    to->headers = h;
    to->row = NULL;
    to->row_n = 0;
    to->flags =
        (uint8_t)((to->flags & (REC_HAS_TS | REC_KEY_JSON)) | REC_FAILED);
    if (r == NULL || (r->kind == REC_TOMBSTONE && r->val == NULL)) {
        to->kind = REC_TOMBSTONE;
    } else { /* bytes, whatever they are */
        to->kind = REC_TEXT;
        to->flags |= REC_RAW;
    }
}

/* ------------------------------------------------------------- JSON lines */

/* A header of the error; the last one counts: a record may have failed
 * before. @return NULL if it has none. */
static const struct rec_header *
find(const struct rec *r, const char *name)
{
    size_t len = strlen(name);
    uint32_t i;

    for (i = r->headers != NULL ? r->headers->count : 0; i > 0; i--) {
        const struct rec_header *h = &r->headers->items[i - 1];

        if (h->name_len == len && memcmp(h->name, name, len) == 0)
            return h;
    }
    return NULL;
}

static void
put_base64(struct buf *b, const char *s, size_t len)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                 "abcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *p = (const unsigned char *)s;
    size_t i;

    for (i = 0; i < len; i += 3) {
        uint32_t v = (uint32_t)p[i] << 16;

        if (i + 1 < len)
            v |= (uint32_t)p[i + 1] << 8;
        if (i + 2 < len)
            v |= p[i + 2];
        buf_addc(b, digits[v >> 18]);
        buf_addc(b, digits[v >> 12 & 63]);
        buf_addc(b, i + 1 < len ? digits[v >> 6 & 63] : '=');
        buf_addc(b, i + 2 < len ? digits[v & 63] : '=');
    }
}

static void
put_bytes(struct buf *b, const char *s, size_t len)
{
    if (s == NULL) {
        buf_adds(b, "null");
    } else if (json_utf8_ok(s, len)) {
        json_put_str(b, s, len);
    } else {
        buf_adds(b, "{\"base64\":\"");
        put_base64(b, s, len);
        buf_adds(b, "\"}");
    }
}

/* A member that is text. */
static void
put_member(struct buf *b, const char *name, const struct rec *r,
           const char *header)
{
    const struct rec_header *h = find(r, header);

    buf_addf(b, "\"%s\":", name);
    put_bytes(b, h != NULL ? h->value : NULL, h != NULL ? h->value_len : 0);
}

/* A member that is a number, as its header has it. */
static void
put_number(struct buf *b, const char *name, const struct rec *r,
           const char *header)
{
    const struct rec_header *h = find(r, header);

    buf_addf(b, "\"%s\":", name);
    if (h != NULL)
        buf_add(b, h->value, h->value_len);
    else
        buf_adds(b, "null");
}

static const char *
place_of(const struct plan *p, const struct rec_header *step)
{
    uint32_t i;

    for (i = 0; step != NULL && i < p->step_count; i++)
        if (strlen(p->steps[i].name) == step->value_len &&
            memcmp(p->steps[i].name, step->value, step->value_len) == 0)
            return p->steps[i].place;
    return "";
}

void
quarantine_line(const struct plan *p, const struct rec *r, struct buf *b)
{
    const char *place = place_of(p, find(r, OWN "step"));

    buf_adds(b, "{\"error\":{");
    put_member(b, "cause", r, OWN "cause");
    buf_addc(b, ',');
    put_member(b, "message", r, STREAMS "message");
    buf_addc(b, ',');
    put_member(b, "step", r, OWN "step");
    buf_adds(b, ",\"place\":");
    json_put_str(b, place, strlen(place));
    buf_adds(b, "},\"origin\":");
    if (find(r, STREAMS "topic") == NULL) {
        buf_adds(b, "null");
    } else {
        buf_addc(b, '{');
        put_member(b, "topic", r, STREAMS "topic");
        buf_addc(b, ',');
        put_number(b, "partition", r, STREAMS "partition");
        buf_addc(b, ',');
        put_number(b, "offset", r, STREAMS "offset");
        buf_addc(b, '}');
    }
    buf_addc(b, ',');
    put_number(b, "timestamp", r, OWN "timestamp");
    buf_adds(b, ",\"key\":");
    put_bytes(b, r->key, r->key_len);
    buf_adds(b, ",\"value\":");
    put_bytes(b, r->val, r->val_len);
    buf_addc(b, '}');
}
