/* Where a Kafka source begins and ends: start and stop policies. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "kafka/source_impl.h"

enum { ASK_MS = 2000, VERIFY_MS = 5000, LIST_MAX = 5 };

static const struct {
    const char *name;
    enum start_kind kind;
} start_names[] = {
    {"earliest", START_EARLIEST},
    {"latest", START_LATEST},
    {"committed", START_COMMITTED},
    {"committed-or-earliest", START_COMMITTED_EARLIEST},
    {"committed-or-latest", START_COMMITTED_LATEST},
};

static int
bad(const struct source *s, struct err *e, const char *what)
{
    (void)err_set(e, ERR_JOBFILE, "kafka: %s", what);
    err_where(e, "%s", s->env.place == NULL ? "" : s->env.place);
    return ERR_JOBFILE;
}

static int
read_start(struct source *s, struct err *e)
{
    const struct opt *o = opt_get(s->env.opts, "start");
    size_t i;

    if (o == NULL)
        return bad(s, e,
                   "option \"start\" is required: earliest, latest, "
                   "committed, committed-or-earliest, "
                   "committed-or-latest, { timestamp= } or "
                   "{ offsets= }");
    if (o->type == OPT_STR) {
        for (i = 0; i < sizeof start_names / sizeof start_names[0]; i++) {
            if (strcmp(start_names[i].name, o->s) != 0)
                continue;
            s->start = start_names[i].kind;
            return 0;
        }
    } else if (opt_get(o, "offsets") != NULL) {
        s->start = START_OFFSETS;
        s->start_offsets = opt_get(o, "offsets");
        return 0;
    } else if (opt_get(o, "timestamp") != NULL) {
        s->start = START_TIMESTAMP;
        s->start_ts = opt_int(o, "timestamp", 0);
        return 0;
    }
    return bad(s, e,
               "option \"start\" must be earliest, latest, committed, "
               "committed-or-earliest, committed-or-latest, "
               "{ timestamp= } or { offsets= }");
}

int
source_read_policy(struct source *s, struct err *e)
{
    const struct opt *o = opt_get(s->env.opts, "stop");
    int r = read_start(s, e);

    if (r != 0)
        return r;
    s->stop = STOP_NEVER;
    if (opt_bool(s->env.cli, "bounded", false))
        s->stop = STOP_LATEST;
    if (o == NULL || o->type == OPT_NIL)
        return 0;
    if (o->type == OPT_STR && strcmp(o->s, "latest") == 0) {
        s->stop = STOP_LATEST;
    } else if (opt_get(o, "offsets") != NULL) {
        s->stop = STOP_OFFSETS;
        s->stop_offsets = opt_get(o, "offsets");
    } else if (opt_get(o, "timestamp") != NULL) {
        s->stop = STOP_TIMESTAMP;
        s->stop_ts = opt_int(o, "timestamp", 0);
    } else {
        return bad(s, e,
                   "option \"stop\" must be latest, { timestamp= } or "
                   "{ offsets= }");
    }
    return 0;
}

/* The entry of partition `partition` of a table of offsets. A Lua table
 * 1..n arrives as a list, whose first element is partition 1. */
static const struct opt *
offset_of(const struct opt *table, int32_t partition)
{
    char name[16];

    if (table->type == OPT_LIST)
        return partition < 1 ? NULL : opt_at(table, (size_t)partition - 1);
    (void)snprintf(name, sizeof name, "%" PRId32, partition);
    return opt_get(table, name);
}

/* Ask for offsets by time (-1 the end, -2 the beginning) of all parts whose
 * `want` is set; the answers come in `ret`. */
int
source_list_offsets(struct source *s, const bool *want, int64_t ts,
                    int64_t *ret, struct err *e)
{
    int64_t deadline = clock_mono_ms() + s->client->connect_ms;
    rd_kafka_topic_partition_list_t *list;
    size_t i;
    int r = 0, k;

    for (;;) {
        rd_kafka_resp_err_t err;

        list = rd_kafka_topic_partition_list_new((int)s->count);
        for (i = 0; i < s->count; i++)
            if (want[i])
                rd_kafka_topic_partition_list_add(list, s->parts[i]->topic,
                                                  s->parts[i]->partition)
                    ->offset = ts;
        if (list->cnt == 0)
            break;
        err = rd_kafka_offsets_for_times(s->client->rk, list, ASK_MS);
        for (k = 0; err == 0 && k < list->cnt; k++)
            err = list->elems[k].err;
        if (err == 0)
            break;
        rd_kafka_topic_partition_list_destroy(list);
        r = client_retry(s->client, deadline, e);
        if (r != 0)
            return r;
    }
    for (i = 0, k = 0; i < s->count; i++)
        if (want[i])
            ret[i] = list->elems[k++].offset;
    rd_kafka_topic_partition_list_destroy(list);
    return 0;
}

/* By time, where "none that late" means the end as it is now. */
static int
list_times(struct source *s, const bool *want, int64_t ts, int64_t *ret,
           struct err *e)
{
    bool *ends = mem_zalloc(s->count * sizeof *ends);
    size_t i;
    int r;

    r = source_list_offsets(s, want, ts, ret, e);
    if (r == 0 && ts >= 0) {
        for (i = 0; i < s->count; i++)
            ends[i] = want[i] && ret[i] < 0;
        r = source_list_offsets(s, ends, RD_KAFKA_OFFSET_END, ret, e);
    }
    free(ends);
    return r;
}

/* Offsets named one by one; those that say "latest" are set in `ends`. */
static int
by_table(struct source *s, const struct opt *table, bool is_start, int64_t *ret,
         bool *ends, struct err *e)
{
    size_t i;
    char text[200];

    for (i = 0; i < s->count; i++) {
        const struct part *p = s->parts[i];
        const struct opt *o = offset_of(table, p->partition);

        if (o == NULL && !is_start) {
            ends[i] = true;
        } else if (o != NULL && o->type == OPT_INT && o->i >= 0) {
            ret[i] = o->i;
        } else if (o != NULL && o->type == OPT_STR &&
                   strcmp(o->s, "latest") == 0) {
            ends[i] = true;
        } else if (o != NULL && o->type == OPT_STR && is_start &&
                   strcmp(o->s, "earliest") == 0) {
            ret[i] = POSITION_BEGINNING;
        } else if (o == NULL) {
            (void)err_set(e, ERR_CONFIG,
                          "%s: start.offsets does not name "
                          "partition %" PRId32 " of topic "
                          "\"%s\"",
                          s->client->name, p->partition, p->topic);
            err_hint(e, "every partition needs an offset, \"earliest\" or "
                        "\"latest\"");
            err_where(e, "%s", s->env.place);
            return ERR_CONFIG;
        } else {
            (void)snprintf(text, sizeof text,
                           "%s.offsets[%" PRId32 "] must be an offset >= 0%s "
                           "or \"latest\"",
                           is_start ? "start" : "stop", p->partition,
                           is_start ? ", \"earliest\"" : "");
            return bad(s, e, text);
        }
    }
    return 0;
}

/* Partitions a table names that the topic does not have. */
static int
check_names(struct source *s, const struct opt *table, const char *what,
            struct err *e)
{
    const struct opt *o;
    size_t i;
    int32_t most = 0;

    for (i = 0; i < s->topic_count; i++)
        if (s->topics[i].partitions > most)
            most = s->topics[i].partitions;
    if (table->type == OPT_LIST)
        return 0;
    for (o = table->first; o != NULL; o = o->next) {
        char *end;
        long n = strtol(o->name, &end, 10);

        if (*end == '\0' && n >= 0 && n < most)
            continue;
        (void)err_set(e, ERR_CONFIG,
                      "%s: %s.offsets names partition %s, but "
                      "there are only %" PRId32,
                      s->client->name, what, o->name, most);
        err_where(e, "%s", s->env.place);
        return ERR_CONFIG;
    }
    return 0;
}

static int
no_commit(struct source *s, const int64_t *offsets, struct err *e)
{
    struct buf b;
    size_t i, n = 0;

    buf_init(&b);
    for (i = 0; i < s->count; i++) {
        if (offsets[i] >= 0)
            continue;
        if (n++ < LIST_MAX)
            buf_addf(&b, "%s%s[%" PRId32 "]", n == 1 ? "" : ", ",
                     s->parts[i]->topic, s->parts[i]->partition);
    }
    if (n > LIST_MAX)
        buf_addf(&b, " and %zu more", n - LIST_MAX);
    (void)err_set(e, ERR_CONFIG,
                  "%s: group \"%s\" has no committed offset for %s",
                  s->client->name, s->group, buf_cstr(&b));
    err_hint(e, "start=\"committed-or-earliest\" or \"committed-or-latest\" "
                "says where to begin then");
    err_where(e, "%s", s->env.place);
    buf_fini(&b);
    return ERR_CONFIG;
}

static rd_kafka_topic_partition_list_t *
list_all(const struct source *s)
{
    rd_kafka_topic_partition_list_t *list =
        rd_kafka_topic_partition_list_new((int)s->count);
    size_t i;

    for (i = 0; i < s->count; i++)
        rd_kafka_topic_partition_list_add(list, s->parts[i]->topic,
                                          s->parts[i]->partition);
    return list;
}

static int
committed(struct source *s, int64_t *ret, struct err *e)
{
    int64_t deadline = clock_mono_ms() + s->client->connect_ms;
    rd_kafka_topic_partition_list_t *list = NULL;
    size_t i;

    for (;;) {
        rd_kafka_resp_err_t err;
        int k, r;

        list = list_all(s);
        err = rd_kafka_committed(s->client->rk, list, ASK_MS);
        for (k = 0; err == 0 && k < list->cnt; k++)
            err = list->elems[k].err;
        if (err == 0)
            break;
        rd_kafka_topic_partition_list_destroy(list);
        if (err == RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED)
            return err_set(e, ERR_CONFIG,
                           "%s: no right to read the offsets "
                           "of group \"%s\"",
                           s->client->name, s->group);
        r = client_retry(s->client, deadline, e);
        if (r != 0)
            return r;
    }
    for (i = 0; i < s->count; i++) {
        const rd_kafka_topic_partition_t *el = &list->elems[i];

        ret[i] = el->offset;
        if (!position_mark_read(el->metadata, el->metadata_size,
                                &s->parts[i]->found))
            s->parts[i]->found.offset = -1;
        s->parts[i]->last = s->parts[i]->found;
    }
    rd_kafka_topic_partition_list_destroy(list);
    return 0;
}

static int
resolve_start(struct source *s, int64_t *at, bool *want, struct err *e)
{
    size_t i;
    int r = 0;

    for (i = 0; i < s->count; i++)
        at[i] = POSITION_BEGINNING;
    switch (s->start) {
    case START_EARLIEST:
        return 0;
    case START_LATEST:
        memset(want, 1, s->count * sizeof *want);
        break;
    case START_TIMESTAMP:
        memset(want, 1, s->count * sizeof *want);
        return list_times(s, want, s->start_ts, at, e);
    case START_OFFSETS:
        r = check_names(s, s->start_offsets, "start", e);
        if (r == 0)
            r = by_table(s, s->start_offsets, true, at, want, e);
        break;
    case START_COMMITTED:
    case START_COMMITTED_EARLIEST:
    case START_COMMITTED_LATEST:
        r = committed(s, at, e);
        for (i = 0; r == 0 && i < s->count; i++) {
            if (at[i] >= 0)
                continue;
            if (s->start == START_COMMITTED)
                return no_commit(s, at, e);
            at[i] = POSITION_BEGINNING;
            want[i] = s->start == START_COMMITTED_LATEST;
        }
        break;
    }
    return r != 0 ? r
                  : source_list_offsets(s, want, RD_KAFKA_OFFSET_END, at, e);
}

static int
resolve_stop(struct source *s, int64_t *at, bool *want, struct err *e)
{
    int r = 0;

    switch (s->stop) {
    case STOP_NEVER:
        return 0;
    case STOP_LATEST:
        memset(want, 1, s->count * sizeof *want);
        break;
    case STOP_TIMESTAMP:
        memset(want, 1, s->count * sizeof *want);
        return list_times(s, want, s->stop_ts, at, e);
    case STOP_OFFSETS:
        r = check_names(s, s->stop_offsets, "stop", e);
        if (r == 0)
            r = by_table(s, s->stop_offsets, false, at, want, e);
        break;
    }
    return r != 0 ? r
                  : source_list_offsets(s, want, RD_KAFKA_OFFSET_END, at, e);
}

int
source_resolve(struct source *s, struct err *e)
{
    size_t n = s->count == 0 ? 1 : s->count;
    int64_t *at = mem_zalloc(n * sizeof *at);
    bool *want = mem_zalloc(n * sizeof *want);
    size_t i;
    int r;

    /* Ends first: what is written in between is then in front of no start. */
    for (i = 0; i < s->count; i++)
        at[i] = PART_UNBOUNDED;
    r = resolve_stop(s, at, want, e);
    for (i = 0; r == 0 && i < s->count; i++)
        s->parts[i]->end = at[i];
    memset(want, 0, n * sizeof *want);
    if (r == 0)
        r = s->env.restored != NULL ? source_restore(s, at, want, e)
                                    : resolve_start(s, at, want, e);
    for (i = 0; r == 0 && i < s->count; i++) {
        struct part *p = s->parts[i];

        p->start = at[i];
        atomic_store(&p->pos, at[i]);
        if (p->start >= 0 && p->start >= p->end)
            p->ended = true;
    }
    free(at);
    free(want);
    return r;
}

static int
compare(struct source *s, const rd_kafka_message_t *m, size_t *left,
        struct err *e)
{
    const char *topic = rd_kafka_topic_name(m->rkt);
    rd_kafka_timestamp_type_t type;
    size_t i;

    for (i = 0; i < s->count; i++) {
        struct part *p = s->parts[i];

        if (p->found.offset < 0 || p->partition != m->partition ||
            strcmp(p->topic, topic) != 0)
            continue;
        if (m->err == RD_KAFKA_RESP_ERR__PARTITION_EOF ||
            m->err == RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET ||
            (m->err == 0 && m->offset != p->found.offset)) {
            log_line(LOG_WARN,
                     "%s: the last record read from %s[%" PRId32 "] (offset "
                     "%" PRId64 ") is not there any more, so it cannot be "
                     "checked that the topic is still the same",
                     s->client->name, p->topic, p->partition, p->found.offset);
        } else if (m->err != 0) {
            continue;
        } else if (rd_kafka_message_timestamp(m, &type) != p->found.ts ||
                   hash_key(m->payload == NULL ? "" : m->payload, m->len) !=
                       p->found.hash) {
            (void)err_set(e, ERR_CONFIG,
                          "%s: topic \"%s\" is not the one it was: record "
                          "%" PRId64 " of partition %" PRId32 " differs from "
                          "the one the job read last",
                          s->client->name, p->topic, p->found.offset,
                          p->partition);
            err_hint(e, s->env.restored != NULL
                            ? "it was probably deleted and made again while "
                              "the job was down; --fresh begins anew by the "
                              "start policy"
                            : "it was probably deleted and made again; use "
                              "start=\"earliest\", or another group");
            err_where(e, "%s", s->env.place);
            return ERR_CONFIG;
        }
        p->found.offset = -1;
        (*left)--;
    }
    return 0;
}

int
source_verify(struct source *s, struct err *e)
{
    int64_t deadline = clock_mono_ms() + VERIFY_MS;
    rd_kafka_topic_partition_list_t *list;
    size_t i, left = 0;
    int r = 0;

    list = rd_kafka_topic_partition_list_new((int)s->count);
    for (i = 0; i < s->count; i++) {
        if (s->parts[i]->found.offset < 0)
            continue;
        rd_kafka_topic_partition_list_add(list, s->parts[i]->topic,
                                          s->parts[i]->partition)
            ->offset = s->parts[i]->found.offset;
        left++;
    }
    if (left > 0)
        (void)rd_kafka_assign(s->client->rk, list);
    rd_kafka_topic_partition_list_destroy(list);
    if (left == 0)
        return 0;
    while (r == 0 && left > 0 && clock_mono_ms() < deadline) {
        rd_kafka_message_t *m = rd_kafka_consumer_poll(s->client->rk, 100);

        if (m == NULL)
            continue;
        if (m->rkt != NULL)
            r = compare(s, m, &left, e);
        rd_kafka_message_destroy(m);
    }
    (void)rd_kafka_assign(s->client->rk, NULL);
    if (r == 0 && left > 0)
        log_line(LOG_WARN,
                 "%s: the last records read of %zu partitions were not "
                 "answered within %d ms, so it cannot be checked that the "
                 "topics are still the same",
                 s->client->name, left, VERIFY_MS);
    return r;
}
