#include "plan/fit.h"

#include <string.h>

static const char *const words[FIT_VERDICTS] = {
    "kept",    "changed code", "kept, migrated", "new",
    "removed", "state loss",   "refused"};

const char *
plan_fit_word(enum fit_verdict v)
{
    return words[v];
}

/* Why, and what else is to be said. */
static const char *
reason(const struct fit_step *s, struct buf *room)
{
    buf_clear(room);
    buf_addf(room, "%s%s%s", s->why,
             s->why[0] != '\0' && s->note[0] != '\0' ? "; " : "", s->note);
    return buf_cstr(room);
}

static void
put_cell(struct buf *out, const char *text, size_t width)
{
    size_t n = strlen(text);

    buf_adds(out, text);
    for (; n < width + 2; n++)
        buf_addc(out, ' ');
}

/* A line without blanks at its end. */
static void
put_line(struct buf *out, const size_t width[3], const char *const cell[4])
{
    size_t i;

    for (i = 0; i < 3; i++)
        put_cell(out, cell[i], width[i]);
    buf_adds(out, cell[3]);
    while (out->data[out->len - 1] == ' ')
        out->len--;
    buf_addc(out, '\n');
}

void
plan_fit_table(const struct plan_fit *f, struct buf *out)
{
    static const char *const head[4] = {"STEP", "KIND", "VERDICT", "WHY"};
    size_t width[3], n, k;
    struct buf room;
    uint32_t i;

    buf_init(&room);
    for (k = 0; k < 3; k++)
        width[k] = strlen(head[k]);
    for (i = 0; i < f->count; i++) {
        const char *const cell[3] = {f->steps[i].step, f->steps[i].kind,
                                     words[f->steps[i].verdict]};

        for (k = 0; k < 3; k++)
            width[k] = (n = strlen(cell[k])) > width[k] ? n : width[k];
    }
    put_line(out, width, head);
    for (i = 0; i < f->count; i++) {
        const char *const cell[4] = {f->steps[i].step, f->steps[i].kind,
                                     words[f->steps[i].verdict],
                                     reason(&f->steps[i], &room)};

        put_line(out, width, cell);
    }
    buf_fini(&room);
}

void
plan_fit_summary(const struct plan_fit *f, struct buf *out)
{
    static const char *const said[FIT_VERDICTS] = {
        "kept", "changed", "migrated", "new", "removed", "lost", "refused"};
    size_t begin = out->len;
    bool first, any = false;
    uint32_t i;
    int v;

    for (v = 0; v < FIT_VERDICTS; v++) {
        first = true;
        for (i = 0; i < f->count; i++) {
            const struct fit_step *s = &f->steps[i];

            if ((int)s->verdict != v || (v == FIT_KEPT && !s->keyed))
                continue;
            if (first)
                buf_addf(out, "%s%s ", out->len > begin ? "; " : "", said[v]);
            else
                buf_adds(out, ", ");
            buf_adds(out, s->step);
            first = false;
            any = true;
        }
    }
    if (!any)
        buf_adds(out, "nothing changed");
}

void
plan_fit_json(const struct plan_fit *f, struct buf *out)
{
    static const char *const names[4] = {"step", "kind", "verdict", "why"};
    struct buf room;
    uint32_t i;
    size_t k;

    buf_init(&room);
    buf_addc(out, '[');
    for (i = 0; i < f->count; i++) {
        const char *const cell[4] = {f->steps[i].step, f->steps[i].kind,
                                     words[f->steps[i].verdict],
                                     reason(&f->steps[i], &room)};

        buf_adds(out, i > 0 ? ",{" : "{");
        for (k = 0; k < 4; k++) {
            json_put_name(out, names[k], strlen(names[k]));
            json_put_str(out, cell[k], strlen(cell[k]));
        }
        buf_addc(out, '}');
    }
    buf_addc(out, ']');
    buf_fini(&room);
}
