/*
 * Blackhole sink: encodes, counts and drops. What a benchmark ends with.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "connect/connect.h"
#include "format/format.h"

struct sink {
    const struct opt *opts; /* the plan's, outlives the sink */
};

struct sink_task {
    struct encoder *encoder;
    struct buf text; /* of one record */
};

static int
open_sink(const struct conn_env *env, struct sink **ret, struct err *e)
{
    struct sink *s = mem_zalloc(sizeof *s);

    (void)e;
    s->opts = env->opts;
    *ret = s;
    return 0;
}

static int
new_task(struct sink *s, const struct conn_task *conf, struct sink_task **ret,
         struct err *e)
{
    struct sink_task *t = mem_zalloc(sizeof *t);
    int r = encoder_new(s->opts, &t->encoder, e);

    (void)conf;
    if (r < 0)
        free(t);
    else
        *ret = t;
    return r;
}

static bool
is_ready(struct sink_task *t)
{
    (void)t;
    return true;
}

static int
write_record(struct sink_task *t, const struct rec *r, const char *key,
             uint32_t key_len, uint64_t *ret_bytes, struct err *e)
{
    bool null;
    int got;

    buf_clear(&t->text);
    got = encoder_encode(t->encoder, r, key, key_len, &t->text, &null, e);
    if (got == 0)
        *ret_bytes = t->text.len;
    return got;
}

static int
do_nothing(struct sink_task *t, struct err *e)
{
    (void)t;
    (void)e;
    return 0;
}

static void
free_task(struct sink_task **t)
{
    if (*t == NULL)
        return;
    encoder_free(&(*t)->encoder);
    buf_fini(&(*t)->text);
    free(*t);
    *t = NULL;
}

static void
close_sink(struct sink **s)
{
    free(*s);
    *s = NULL;
}

const struct sink_type blackhole_sink_type = {
    .name = "blackhole",
    .open = open_sink,
    .task_new = new_task,
    .ready = is_ready,
    .write = write_record,
    .batch_end = do_nothing,
    .flush = do_nothing,
    .task_free = free_task,
    .close = close_sink,
};
