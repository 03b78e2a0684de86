#include "drive_txn.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "kafka/kafka.h"

void
drive_txn_init(struct drive_txn *x, const char *servers, const char *prefix,
               const char *topic, uint32_t tasks)
{
    memset(x, 0, sizeof *x);
    drive_init(&x->d, servers, tasks);
    x->d.env.step = "out";
    drive_str(&x->d, "topic", topic);
    drive_str(&x->d, "delivery", "exactly_once");
    memset(x->lineage, 0x5a, sizeof x->lineage);
    (void)snprintf(x->prefix, sizeof x->prefix, "%s", prefix);
    (void)snprintf(x->topic, sizeof x->topic, "%s", topic);
    (void)snprintf(x->owner, sizeof x->owner, "host:%ld test", (long)getpid());
    x->interval_ms = 1000;
    x->ckpt.lineage = x->lineage;
    x->d.env.ckpt = &x->ckpt;
}

int
drive_txn_new(struct drive_txn *x)
{
    struct txn_conf conf = {.env = &x->d.env,
                            .prefix = x->prefix,
                            .interval_ms = x->interval_ms,
                            .owner = x->owner};
    int r = txn_new(&conf, &x->txn, &x->d.err);

    x->ckpt.txn = x->txn;
    return r;
}

struct txn_marker
drive_txn_marker(const struct drive_txn *x, uint64_t round)
{
    struct txn_marker m = {.found = true, .round = round, .code = 77};

    memcpy(m.lineage, x->lineage, sizeof m.lineage);
    return m;
}

int
drive_txn_open(struct drive_txn *x, uint64_t round)
{
    int r;

    x->ckpt.round = round;
    x->round = round + 1;
    r = drive_open_sink(&x->d);
    return r != 0 ? r : txn_start(x->txn, round + 1, &x->d.err);
}

int
drive_txn_start(struct drive_txn *x, uint64_t round)
{
    struct txn_marker m = drive_txn_marker(x, round), found;
    int r = txn_init(x->txn, &x->d.err);

    if (r == 0)
        r = txn_look(x->txn, &found, &x->d.err);
    if (r == 0)
        r = txn_claim(x->txn, &m, &x->d.err);
    return r != 0 ? r : drive_txn_open(x, round);
}

int
drive_txn_put(struct drive_txn *x, uint32_t task, int32_t partition,
              const char *val)
{
    struct rec r = {.ts = 1000, .flags = REC_HAS_TS};
    struct sink_message m = {
        .val = val, .val_len = (uint32_t)strlen(val), .partition = partition};

    return drive_write(&x->d, task, &r, &m);
}

int
drive_txn_barrier(struct drive_txn *x)
{
    int r = drive_flush(&x->d, 60000);
    struct buf none;
    uint32_t i;

    buf_init(&none);
    for (i = 0; r == 0 && i < x->d.env.parallelism; i++)
        r = kafka_sink_type.snapshot(x->d.outs[i], x->round, &none, &x->d.err);
    buf_fini(&none);
    return r;
}

int
drive_txn_round(struct drive_txn *x)
{
    struct txn_marker m = drive_txn_marker(x, x->round);
    int r = drive_txn_barrier(x);

    if (r == 0)
        r = txn_commit(x->txn, &m, &x->d.err);
    if (r == 0)
        r = txn_renew(x->txn, x->round, &x->d.err);
    if (r == 0)
        x->round++;
    return r;
}

int64_t
drive_txn_stop(struct drive_txn *x)
{
    int64_t start = clock_mono_ms();
    uint32_t i;

    (void)alarm(10);
    for (i = 0; i < x->d.env.parallelism; i++)
        kafka_sink_type.task_free(&x->d.outs[i]);
    kafka_sink_type.close(&x->d.sink);
    txn_free(&x->txn);
    (void)alarm(0);
    x->ckpt.txn = NULL;
    return clock_mono_ms() - start;
}

void
drive_txn_fini(struct drive_txn *x)
{
    (void)drive_txn_stop(x);
    (void)drive_close(&x->d);
}

struct drive_store
drive_store_read(const char *path)
{
    struct drive_store s = {0, 0};
    FILE *f = fopen(path, "r");

    if (f == NULL)
        return s;
    if (fscanf(f, "%" SCNu64 " %" SCNu64, &s.complete, &s.redo) != 2)
        abort();
    (void)fclose(f);
    return s;
}

void
drive_store_write(const char *path, const struct drive_store *s)
{
    char tmp[512];
    FILE *f;

    (void)snprintf(tmp, sizeof tmp, "%s.tmp", path);
    f = fopen(tmp, "w");
    if (f == NULL)
        abort();
    (void)fprintf(f, "%" PRIu64 " %" PRIu64 "\n", s->complete, s->redo);
    if (fclose(f) != 0 || rename(tmp, path) != 0)
        abort();
}

/* DESIGN section 9: what marker and store say together. */
static int
compare(struct drive_txn *x, struct drive_store *s, const struct txn_marker *m)
{
    uint64_t at = m->found ? m->round : 0;

    if (s->redo == s->complete + 1 && at == s->redo)
        s->complete = s->redo; /* roll forward */
    else if (at != s->complete || (!m->found && s->complete > 0))
        return err_set(&x->d.err, ERR_CONFIG,
                       "marker %" PRIu64 "%s, store %" PRIu64 " redo %" PRIu64,
                       at, m->found ? "" : " (none)", s->complete, s->redo);
    s->redo = s->complete;
    return 0;
}

int
drive_txn_recover(struct drive_txn *x, const char *path, bool inside)
{
    struct drive_store s = drive_store_read(path);
    struct txn_marker m;
    int r = drive_txn_new(x);

    if (r == 0)
        r = txn_look(x->txn, &m, &x->d.err);
    if (r == 0 && inside && m.found && strcmp(m.owner, x->owner) != 0)
        return err_set(&x->d.err, ERR_BUSY, "taken over by %s", m.owner);
    if (r == 0)
        r = txn_init(x->txn, &x->d.err);
    if (r == 0)
        r = txn_look(x->txn, &m, &x->d.err);
    if (r == 0)
        r = compare(x, &s, &m);
    if (r != 0)
        return r;
    drive_store_write(path, &s);
    m = drive_txn_marker(x, s.complete);
    r = txn_claim(x->txn, &m, &x->d.err);
    return r != 0 ? r : drive_txn_open(x, s.complete);
}

int
drive_txn_fill(struct drive_txn *x, int partitions)
{
    int p, k, r = 0;

    for (k = 0; k < 2; k++)
        for (p = 0; r == 0 && p < partitions; p++) {
            char text[64];

            (void)snprintf(text, sizeof text, "%d:%" PRIu64 ":%d", p, x->round,
                           k);
            r = drive_txn_put(x, (uint32_t)p % x->d.env.parallelism, p, text);
        }
    return r;
}

int
drive_txn_stored_round(struct drive_txn *x, const char *path)
{
    struct txn_marker m = drive_txn_marker(x, x->round);
    struct drive_store s = {.complete = x->round - 1, .redo = x->round};
    int r = drive_txn_barrier(x);

    if (r != 0)
        return r;
    drive_store_write(path, &s);
    r = txn_commit(x->txn, &m, &x->d.err);
    if (r != 0)
        return r;
    s.complete = x->round;
    drive_store_write(path, &s);
    r = txn_renew(x->txn, x->round, &x->d.err);
    if (r == 0)
        x->round++;
    return r;
}
