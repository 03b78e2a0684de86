#include "main/savepoint_copy.h"

#include "state/store.h"

enum { COPY_ENTRIES = 100000 };

struct pending {
    bool txn;      /* transactions decide if it counts */
    bool finished; /* the job ended with it */
};

static int
read_pending(struct store *s, struct pending *ret, struct err *e)
{
    struct store_reader *reader = NULL;
    const void *bytes;
    size_t len;
    int r;

    r = store_reader_new(s, &reader, e);
    if (r == 0)
        r = store_reader_begin(reader, STORE_VIEW_NEWEST, e);
    if (r != 0)
        goto end;
    r = store_reader_blob(reader, "txn", &bytes, &len, e);
    ret->txn = r == 1 && len > 0;
    if (r >= 0)
        r = store_reader_blob(reader, "finished", &bytes, &len, e);
    ret->finished = r == 1 && len == 1 && *(const char *)bytes == '1';
    store_reader_end(reader);
end:
    store_reader_free(&reader);
    return r < 0 ? r : 0;
}

/*
 * A job that died between the two steps of a round leaves one pending. With
 * transactions only Kafka knows whether its output is visible, so nobody but
 * the job itself may decide; without, the round is durable and counts.
 */
static int
settle_pending(struct store *s, const struct job_dir *job, struct err *e)
{
    struct store_status st;
    struct pending p = {0};
    int r;

    store_status(s, &st);
    if (st.pending == 0)
        return 0;
    if (st.pending_damaged) /* it cannot even be asked */
        p.txn = true;
    else if (read_pending(s, &p, e) != 0)
        return e->code;
    if (!p.txn)
        return store_round_complete(s, st.pending,
                                    p.finished ? STORE_FINISHED : 0, e);
    r = err_set(e, ERR_CONFIG,
                "job %s ended while it committed checkpoint %llu, and only "
                "its Kafka transactions know whether it counts",
                job->name, (unsigned long long)st.pending);
    err_hint(e, "start the job once, which settles it, and take the savepoint "
                "while it runs");
    return r;
}

static int
copy_store(struct store *s, const char *to, struct err *e)
{
    struct store_copy *copy = NULL;
    int r = store_copy_begin(s, to, NULL, &copy, e);

    if (r == 0)
        do
            r = store_copy_step(copy, COPY_ENTRIES, e);
        while (r == 1);
    store_copy_free(&copy);
    return r;
}

int
savepoint_copy(const struct job_dir *job, const char *to, struct err *e)
{
    struct store_opts o = {.dir = job->path};
    struct store_status st;
    struct store *s = NULL;
    int r;

    r = store_open(&o, &s, e);
    if (r != 0)
        return r;
    r = settle_pending(s, job, e);
    store_status(s, &st);
    if (r == 0 && st.complete == 0)
        r = err_set(e, ERR_CONFIG,
                    "job %s has no complete checkpoint yet: there is nothing "
                    "to copy",
                    job->name);
    if (r == 0)
        r = copy_store(s, to, e);
    store_close(&s);
    return r;
}
