/* Looking at the job: rows, counters, state. A look takes a round first. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "testing/sim_impl.h"

static int
no_sink(const struct sim *s, const char *name, struct err *e)
{
    struct buf b;

    buf_init(&b);
    sim_put_names(s, true, &b);
    (void)err_set(e, ERR_USAGE, "the job has no sink \"%s\"; it has: %s", name,
                  buf_cstr(&b));
    buf_fini(&b);
    return ERR_USAGE;
}

static void
copy_row(const struct queue_row *from, struct arena *a, struct sim_row *to)
{
    *to = (struct sim_row){.tombstone = from->tombstone,
                           .has_ts = from->has_ts,
                           .has_key = from->has_key,
                           .ts = from->ts,
                           .key = arena_dup(a, from->key, from->key_len),
                           .key_len = from->key_len,
                           .json = arena_dup(a, from->json, from->json_len),
                           .json_len = from->json_len};
}

int
sim_take(struct sim *s, const char *sink, struct arena *a, struct sim_row **ret,
         uint32_t *ret_count, struct err *e)
{
    struct queue_sink *q = queue_find_sink(&s->queues, sink);
    struct sim_row *rows;
    uint32_t i, n;
    int r = 0;

    if (q == NULL)
        return no_sink(s, sink, e);
    if (s->failure.code == 0)
        r = sim_round(s, e);
    if (r != 0)
        return r;
    n = (uint32_t)(q->count - q->taken);
    rows = arena_alloc(a, (n + 1) * sizeof *rows);
    for (i = 0; i < n; i++)
        copy_row(&q->rows[q->taken + i], a, &rows[i]);
    q->taken = q->count;
    *ret = rows;
    *ret_count = n;
    return 0;
}
