/*
 * state list|get|scan|size|verify|diff: what a checkpoint or savepoint holds.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "main/cli_value.h"
#include "main/cmd.h"
#include "main/job_dir.h"
#include "main/state_diff.h"
#include "main/state_open.h"
#include "main/state_print.h"
#include "main/text_table.h"
#include "inspect/keyed.h"

enum { LIMIT_MAX = INT32_MAX, NOT_FOUND = 1 };

struct ask {
    struct cli *cli;
    uint32_t limit; /* 0 = all */
    bool json;
    struct buf out;
};

/* --- errors --------------------------------------------------------------- */

static int
failed(const struct ask *a, const struct err *e)
{
    return e->code == ERR_USAGE ? cmd_usage_error(a->cli, e)
                                : cmd_error(a->cli, e);
}

/* Open the first operand behind the form; says so if it is empty. */
static int
open_view(struct ask *a, unsigned operand, struct state_view *v, struct err *e)
{
    int r = state_open(a->cli, a->cli->operands[operand], v, e);

    if (r == 0 && v->round == 0)
        log_line(LOG_WARN, "no checkpoint is complete yet in '%s'", v->path);
    return r;
}

/* --- list, size ----------------------------------------------------------- */

struct tally {
    uint64_t keys, bytes, largest;
    char *largest_key; /* canonical */
    uint32_t largest_len;
};

/* Entries as the store holds them; bytes of namespace, key and value. */
static int
count_entries(const struct state_step *s, struct tally *ret, struct err *e)
{
    struct state_pick all = state_pick_all(s->view);
    struct store_scan *c = NULL;
    struct kstate_bytes largest;
    struct store_key key;
    const void *value;
    size_t len;
    int r;

    memset(ret, 0, sizeof *ret);
    if (!s->known)
        return 0;
    r = store_scan_open(s->view->reader, s->op, all.first, all.last, &c, e);
    if (r != 0)
        return r;
    while ((r = store_scan_next(c, &key, &value, &len, e)) == 1) {
        uint64_t bytes = key.ns_len + key.key_len + len;

        ret->keys++;
        ret->bytes += bytes;
        if (bytes <= ret->largest)
            continue;
        largest = state_is_keyed(s->desc)
                      ? state_keyed_key(s, &key)
                      : (struct kstate_bytes){.p = key.key,
                                              .len = (uint32_t)key.key_len};
        ret->largest = bytes;
        ret->largest_len = largest.len;
        free(ret->largest_key);
        ret->largest_key = mem_dup(largest.p, largest.len);
    }
    store_scan_close(&c);
    return r;
}

static void
cell_int(struct text_table *t, uint64_t n)
{
    char text[NUM_TEXT_MAX];

    text_table_cell(t, text, num_text_int((int64_t)n, text));
}

static void
cell_text(struct text_table *t, const char *text)
{
    text_table_cell(t, text, strlen(text));
}

static void
put_list_json(struct buf *out, const struct state_step *s,
              const struct tally *t)
{
    buf_addc(out, '{');
    json_put_name(out, "step", 4);
    json_put_str(out, s->name, strlen(s->name));
    buf_addf(out, ",\"state\":%s,\"keys\":%" PRIu64 ",\"bytes\":%" PRIu64 "}\n",
             s->desc != NULL ? "\"window\"" : "null", t->keys, t->bytes);
}

static void
put_part_json(struct buf *out, const struct state_step *s,
              const struct state_part *p)
{
    buf_addc(out, '{');
    json_put_name(out, "step", 4);
    json_put_str(out, s->name, strlen(s->name));
    json_put_name(out, "state", 5);
    json_put_str(out, p->kind, strlen(p->kind));
    if (p->name != NULL) {
        json_put_name(out, "name", 4);
        json_put_str(out, p->name, strlen(p->name));
    }
    buf_addf(out, ",\"keys\":%" PRIu64 ",\"bytes\":%" PRIu64 "}\n", p->entries,
             p->bytes);
}

static void
put_part(struct text_table *t, const struct state_step *s,
         const struct state_part *p)
{
    char text[96];

    (void)snprintf(text, sizeof text, "%s%s%s", p->kind,
                   p->name != NULL ? " " : "", p->name != NULL ? p->name : "");
    cell_text(t, s->name);
    cell_text(t, text);
    cell_int(t, p->entries);
    cell_int(t, p->bytes);
}

/* A line for each handle of a function's state, and one for its timers. */
static int
list_keyed(struct ask *a, struct state_step *s, struct text_table *table,
           struct err *e)
{
    struct state_part *parts = NULL;
    uint32_t i;
    int r = state_step_open(s, e);

    if (r == 0) {
        parts = mem_zalloc((s->past.count + 1u) * sizeof *parts);
        r = state_keyed_count(s, parts, e);
    }
    for (i = 0; r == 0 && i <= s->past.count; i++) {
        const struct state_part *p = &parts[i];

        if (p->name == NULL && p->entries == 0)
            continue;
        if (a->json)
            put_part_json(&a->out, s, p);
        else
            put_part(table, s, p);
    }
    free(parts);
    state_step_close(s);
    return r;
}

static int
do_list(struct ask *a, struct err *e)
{
    struct state_step *steps;
    struct text_table table;
    struct state_view v;
    struct tally t;
    size_t n = 0, i;
    int r;

    text_table_init(&table);
    text_table_head(&table, "step");
    text_table_head(&table, "state");
    text_table_head(&table, "keys");
    text_table_head(&table, "bytes");
    r = open_view(a, 1, &v, e);
    if (r != 0)
        goto end;
    steps = state_view_steps(&v, &n);
    for (i = 0; i < n && r == 0 && (a->limit == 0 || i < a->limit); i++) {
        if (state_is_keyed(steps[i].desc)) {
            r = list_keyed(a, &steps[i], &table, e);
            continue;
        }
        r = count_entries(&steps[i], &t, e);
        free(t.largest_key);
        if (a->json) {
            put_list_json(&a->out, &steps[i], &t);
            continue;
        }
        cell_text(&table, steps[i].name);
        cell_text(&table, steps[i].desc != NULL ? "window" : "?");
        cell_int(&table, t.keys);
        cell_int(&table, t.bytes);
    }
    if (r == 0 && !a->json)
        text_table_put(&table, &a->out);
end:
    state_view_close(&v);
    text_table_fini(&table);
    return r;
}

static void
put_size(struct ask *a, struct text_table *table, const struct state_step *s,
         const struct tally *t)
{
    struct state_row row = {.key = t->largest_key, .key_len = t->largest_len};
    struct buf key;

    buf_init(&key);
    if (t->largest_key != NULL && s->desc != NULL)
        state_put_key(&key, s, &row);
    else
        buf_adds(&key, "null");
    if (a->json) {
        buf_addc(&a->out, '{');
        json_put_name(&a->out, "step", 4);
        json_put_str(&a->out, s->name, strlen(s->name));
        buf_addf(&a->out,
                 ",\"keys\":%" PRIu64 ",\"bytes\":%" PRIu64
                 ",\"largest\":%" PRIu64 ",\"largest_key\":%s}\n",
                 t->keys, t->bytes, t->largest, buf_cstr(&key));
    } else {
        cell_text(table, s->name);
        cell_int(table, t->keys);
        cell_int(table, t->bytes);
        cell_int(table, t->largest);
        text_table_cell(table, key.data, key.len);
    }
    buf_fini(&key);
}

static void
put_total(struct ask *a, const struct state_view *v, const struct tally *t)
{
    const struct store_status *st = &v->status;

    buf_addf(&a->out,
             a->json ? "{\"checkpoint\":%" PRIu64 ",\"keys\":%" PRIu64
                       ",\"bytes\":%" PRIu64 ",\"file_bytes\":%" PRIu64
                       ",\"free_bytes\":%" PRIu64 ",\"unmerged\":%u}\n"
                     : "checkpoint %" PRIu64 ": %" PRIu64 " keys, %" PRIu64
                       " bytes in a file of %" PRIu64 " (%" PRIu64
                       " free), %u checkpoints not merged\n",
             v->round, t->keys, t->bytes, st->file_bytes, st->free_bytes,
             st->segments);
}

static int
size_steps(struct ask *a, struct state_view *v, struct state_step *steps,
           size_t n, struct err *e)
{
    struct text_table table;
    struct tally sum = {0};
    size_t i;
    int r = 0;

    text_table_init(&table);
    text_table_head(&table, "step");
    text_table_head(&table, "keys");
    text_table_head(&table, "bytes");
    text_table_head(&table, "largest");
    text_table_head(&table, "largest_key");
    for (i = 0; i < n && r == 0; i++) {
        struct tally t = {0};

        if (state_is_keyed(steps[i].desc))
            r = state_step_open(&steps[i], e); /* to tell the keys apart */
        if (r == 0)
            r = count_entries(&steps[i], &t, e);
        if (r == 0)
            put_size(a, &table, &steps[i], &t);
        sum.keys += t.keys;
        sum.bytes += t.bytes;
        free(t.largest_key);
        state_step_close(&steps[i]);
    }
    if (r == 0 && !a->json)
        text_table_put(&table, &a->out);
    if (r == 0)
        put_total(a, v, &sum);
    text_table_fini(&table);
    return r;
}

static int
do_size(struct ask *a, struct err *e)
{
    struct state_step *steps, one;
    struct state_view v;
    size_t n = 1;
    int r = open_view(a, 1, &v, e);

    if (r == 0 && a->cli->operand_count > 2) {
        steps = &one;
        r = state_view_step(&v, a->cli->operands[2], &one, e);
    } else if (r == 0) {
        steps = state_view_steps(&v, &n);
    }
    if (r == 0)
        r = size_steps(a, &v, steps, n, e);
    state_view_close(&v);
    return r;
}

/* --- scan, get ------------------------------------------------------------ */

static void
put_rows(struct ask *a, const struct state_step *s,
         const struct state_rows *rows, bool named)
{
    size_t i;

    if (!a->json) {
        if (named)
            buf_addf(&a->out, "%s\n", s->name);
        state_put_table(&a->out, s, rows);
        return;
    }
    for (i = 0; i < rows->n; i++) {
        buf_addc(&a->out, '{');
        state_put_head(&a->out, s, &rows->items[i]);
        state_put_value(&a->out, &rows->items[i]);
        buf_adds(&a->out, "}\n");
    }
}

/* @return rows printed, or an error. */
static int
scan_step(struct ask *a, struct state_step *s, uint32_t limit, bool named,
          struct err *e)
{
    struct state_pick all = state_pick_all(s->view);
    struct state_rows rows;
    int r;

    state_rows_init(&rows, limit);
    r = state_step_open(s, e);
    if (r == 0)
        r = state_rows_read(s, &all, &rows, e);
    if (r == 0) {
        state_rows_sort(&rows);
        put_rows(a, s, &rows, named);
        r = rows.n > LIMIT_MAX ? LIMIT_MAX : (int)rows.n;
    }
    state_step_close(s);
    state_rows_fini(&rows);
    return r;
}

static int
do_scan(struct ask *a, struct err *e)
{
    struct state_step *steps, one;
    uint32_t left = a->limit;
    struct state_view v;
    size_t n = 1, i;
    int r = open_view(a, 1, &v, e);

    if (r == 0 && a->cli->operand_count > 2) {
        steps = &one;
        r = state_view_step(&v, a->cli->operands[2], &one, e);
    } else if (r == 0) {
        steps = state_view_steps(&v, &n);
    }
    for (i = 0; v.round != 0 && i < n && r == 0; i++) {
        if (a->limit != 0 && left == 0)
            break;
        r = scan_step(a, &steps[i], left, a->cli->operand_count <= 2, e);
        left -= a->limit != 0 && r > 0 ? (uint32_t)r : 0;
        r = r > 0 ? 0 : r;
    }
    state_view_close(&v);
    return r;
}

/* @return 0, NOT_FOUND, or an error. */
static int
do_get(struct ask *a, struct err *e)
{
    struct state_step s = {0};
    struct state_rows rows;
    struct state_view v;
    struct buf key;
    int r;

    buf_init(&key);
    state_rows_init(&rows, a->limit);
    r = open_view(a, 1, &v, e);
    if (r == 0 && v.round == 0)
        r = NOT_FOUND;
    if (r == 0)
        r = state_view_step(&v, a->cli->operands[2], &s, e);
    if (r == 0)
        r = state_step_open(&s, e);
    if (r == 0)
        r = state_read_key(&s, a->cli->operands[3], &key, e);
    if (r == 0) {
        struct state_pick one = state_pick_key(&v, key.data, key.len);

        r = state_rows_read(&s, &one, &rows, e);
    }
    if (r == 0) {
        state_rows_sort(&rows);
        if (rows.n == 0)
            r = NOT_FOUND;
        else
            put_rows(a, &s, &rows, false);
    }
    state_rows_fini(&rows);
    state_step_close(&s);
    state_view_close(&v);
    buf_fini(&key);
    return r;
}

/* --- verify, diff --------------------------------------------------------- */

static int
do_verify(struct ask *a, struct err *e)
{
    struct store_verified seen;
    struct state_view v;
    struct job_dir job;
    int r;

    /* Names it as the other forms do; what is damaged is found below. */
    r = state_open(a->cli, a->cli->operands[1], &v, e);
    state_view_close(&v);
    if (r == ERR_USAGE)
        return r;
    r = job_dir_read(a->cli, a->cli->operands[1], &job, e);
    if (r == 0)
        r = store_verify(job.path, &seen, e);
    job_dir_fini(&job);
    if (r != 0)
        return r;
    buf_addf(&a->out,
             a->json ? "{\"ok\":true,\"keys\":%" PRIu64 ",\"bytes\":%" PRIu64
                       ",\"checkpoint\":%" PRIu64 "}\n"
                     : "ok %" PRIu64 " keys %" PRIu64 " bytes\n",
             seen.entries, seen.bytes, seen.round);
    return 0;
}

static int
do_diff(struct ask *a, struct err *e)
{
    struct state_view va = {0}, vb = {0};
    struct state_view *const views[2] = {&va, &vb};
    struct state_ask what = {
        .step = a->cli->operand_count > 3 ? a->cli->operands[3] : NULL,
        .limit = a->limit,
        .json = a->json};
    struct state_diff d;
    int r = open_view(a, 1, &va, e);

    if (r == 0)
        r = open_view(a, 2, &vb, e);
    if (r == 0)
        r = state_diff(views, &what, &a->out, &d, e);
    if (r == 0 && (d.only_a != 0 || d.only_b != 0 || d.changed != 0)) {
        r = NOT_FOUND;
        if (!a->json)
            buf_addf(&a->out,
                     "%" PRIu64 " only in A, %" PRIu64 " only in B, %" PRIu64
                     " changed\n",
                     d.only_a, d.only_b, d.changed);
    }
    state_view_close(&va);
    state_view_close(&vb);
    return r;
}

/* --- the verb ------------------------------------------------------------- */

static const struct form {
    const char *name, *operands;
    unsigned least, most; /* operands with the form's name */
    int (*run)(struct ask *a, struct err *e);
} forms[] = {
    {"list", "JOB|DIR", 2, 2, do_list},
    {"get", "JOB|DIR STEP KEY", 4, 4, do_get},
    {"scan", "JOB|DIR [STEP]", 2, 3, do_scan},
    {"size", "JOB|DIR [STEP]", 2, 3, do_size},
    {"verify", "JOB|DIR", 2, 2, do_verify},
    {"diff", "A B [STEP]", 3, 4, do_diff},
};

enum { FORM_COUNT = sizeof forms / sizeof forms[0] };

static int
unknown_form(const char *word, struct err *e)
{
    const char *best = NULL;
    unsigned d, least = 99;
    size_t i;

    for (i = 0; i < FORM_COUNT; i++) {
        d = value_distance(word, forms[i].name);
        if (d < least && value_is_near(word, d)) {
            least = d;
            best = forms[i].name;
        }
    }
    if (best != NULL)
        return err_set(e, ERR_USAGE,
                       "state has no form \"%s\"; did you mean %s?", word,
                       best);
    return err_set(e, ERR_USAGE,
                   "state has no form \"%s\"; there are list, get, scan, size, "
                   "verify and diff",
                   word);
}

static int
find_form(const struct cli *c, const struct form **ret, struct err *e)
{
    const struct form *f;
    size_t i;

    if (c->operand == NULL)
        return err_set(e, ERR_USAGE,
                       "state: say list, get, scan, size, verify or diff");
    for (i = 0; i < FORM_COUNT; i++)
        if (strcmp(c->operand, forms[i].name) == 0)
            break;
    if (i == FORM_COUNT)
        return unknown_form(c->operand, e);
    f = &forms[i];
    if (c->operand_count < f->least || c->operand_count > f->most)
        return err_set(e, ERR_USAGE, "expected state %s %s", f->name,
                       f->operands);
    *ret = f;
    return 0;
}

int
cmd_state(struct cli *c)
{
    struct ask a = {.cli = c, .json = cli_has(c, FLAG_JSON)};
    const struct form *f = NULL;
    struct err e;
    int r, rc;

    if (find_form(c, &f, &e) != 0 ||
        cli_count(c, FLAG_LIMIT, LIMIT_MAX, &a.limit, &e) != 0)
        return cmd_usage_error(c, &e);
    buf_init(&a.out);
    r = f->run(&a, &e);
    rc = r < 0 ? failed(&a, &e) : r;
    if (r == ERR_IO && f->run == do_verify)
        rc = NOT_FOUND; /* it was looked for, and found damaged */
    if (r >= 0 && cmd_print(a.out.data, a.out.len) != 0)
        rc = EXIT_IO;
    buf_fini(&a.out);
    return rc;
}
