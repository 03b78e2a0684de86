#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "kafka/admin.h"
#include "kafka/kafka.h"
#include "kafka/source_impl.h"

enum {
    /* Prefetch, all partitions together; bounds the memory of a backlog
     * (about 500 bytes a record of 150). It must hold more than what is read
     * between two ticks, see nudge(). */
    PREFETCH_RECORDS = 320000,
    PREFETCH_KBYTES = 128 * 1024,
    PREFETCH_PARTS = 4, /* what a handle is sized for at first */
    FETCH_BYTES = 1 << 20,
    DISCOVERY_MS = 300000,
    ASK_MS = 200,         /* a question asked by tick() */
    UNKNOWN_MS = 1000,    /* so long must a topic be gone to be deleted */
    RETRY_MS = 2000,      /* discovery without an answer */
    COMMIT_MS = 2000,     /* the last commit waits so long */
    NUDGE_RECORDS = 1000, /* a backlog */
    NUDGE_MS = 20
};

static int
read_options(struct source *s, struct err *e)
{
    const struct opt *o = s->env.opts;
    int r = source_read_topics(s, e);

    if (r != 0)
        return r;
    s->group = mem_strdup(opt_str(o, "group", s->env.job));
    s->drop_tombstones = opt_is(o, "tombstones", "drop");
    s->discovery_ms =
        opt_int(o, "discovery_ms", opt_int(o, "discovery", DISCOVERY_MS));
    if (opt_is(o, "key_format", "json"))
        s->rec_flags |= REC_KEY_JSON;
    if (opt_is(o, "bigint", "string"))
        s->rec_flags |= REC_BIGINT_STRING;
    if (opt_is(o, "bigint", "float"))
        s->rec_flags |= REC_BIGINT_FLOAT;
    return source_read_policy(s, e);
}

static int64_t
clamp(int64_t v, int64_t low, int64_t high)
{
    return v < low ? low : v > high ? high : v;
}

/* Make the handle, its prefetch sized for `parts` partitions. */
static int
start_client(struct source *s, int64_t parts, struct err *e)
{
    int64_t most =
        s->env.buffer_bytes > 0 ? s->env.buffer_bytes / 1024 : PREFETCH_KBYTES;
    int64_t kbytes =
        clamp((most < PREFETCH_KBYTES ? most : PREFETCH_KBYTES) / parts, 256,
              PREFETCH_KBYTES);
    rd_kafka_conf_t *conf;
    int r = client_conf(s->client, &s->env, &conf, e);

    if (r != 0)
        return r;
    if (!client_is_set(&s->env, "queued.min.messages"))
        client_force_int(conf, "queued.min.messages",
                         clamp(PREFETCH_RECORDS / parts, 1000, 1000000));
    if (!client_is_set(&s->env, "queued.max.messages.kbytes"))
        client_force_int(conf, "queued.max.messages.kbytes", kbytes);
    if (!client_is_set(&s->env, "fetch.message.max.bytes") &&
        !client_is_set(&s->env, "max.partition.fetch.bytes"))
        client_force_int(conf, "fetch.message.max.bytes",
                         clamp(kbytes * 256, 65536, FETCH_BYTES));
    /* The end of a partition is told so long after its last record. */
    if (!client_is_set(&s->env, "fetch.wait.max.ms"))
        client_force_int(conf, "fetch.wait.max.ms",
                         s->stop == STOP_NEVER ? 100 : 10);
    client_force(conf, "group.id", s->group);
    client_force(conf, "enable.auto.commit", "false");
    client_force(conf, "enable.auto.offset.store", "false");
    client_force(conf, "auto.offset.reset", "error");
    client_force(conf, "enable.partition.eof", "true");
    client_force(conf, "isolation.level",
                 opt_str(s->env.opts, "isolation", "read_committed"));
    return client_start(s->client, &conf, e);
}

static void
add_part(struct source *s, const struct source_topic *topic, int32_t partition)
{
    struct part *p = mem_zalloc(sizeof *p);

    p->topic = topic->name;
    p->topic_id = topic->id;
    p->partition = partition;
    p->index = (uint32_t)s->count;
    p->start = POSITION_BEGINNING;
    p->end = PART_UNBOUNDED;
    p->found.offset = -1;
    p->last.offset = -1;
    atomic_init(&p->pos, POSITION_BEGINNING);
    mem_grow(&s->parts, &s->cap, s->count + 1, sizeof(struct part *));
    s->parts[s->count++] = p;
    /* Release: lag() reads the list in any thread. */
    if (s->all_last == NULL)
        atomic_store_explicit(&s->all, p, memory_order_release);
    else
        atomic_store_explicit(&s->all_last->next_all, p, memory_order_release);
    s->all_last = p;
}

static int
find_topics(struct source *s, struct err *e)
{
    int64_t total = 0;
    size_t i;
    int32_t k;
    int r = source_find_matching(s, e);

    if (r != 0)
        return r;
    for (i = 0; i < s->topic_count; i++) {
        r = admin_find_topic(s->client, s->topics[i].name,
                             &s->topics[i].partitions, e);
        if (r == ERR_CONFIG && s->env.restored != NULL &&
            admin_count_partitions(s->client, s->topics[i].name, ASK_MS) ==
                ADMIN_UNKNOWN)
            return source_restore_gone(s, s->topics[i].name, e);
        if (r != 0)
            return r;
        total += s->topics[i].partitions;
    }
    if (total > PREFETCH_PARTS) {
        (void)client_stop(s->client);
        r = start_client(s, total, e);
        if (r != 0)
            return r;
    }
    for (i = 0; i < s->topic_count; i++)
        for (k = 0; k < s->topics[i].partitions; k++)
            add_part(s, &s->topics[i], k);
    return 0;
}

/* Take a part's own queue and put it on the list to be assigned. */
static void
prepare(struct source *s, struct part *p, rd_kafka_topic_partition_list_t *list)
{
    p->queue =
        rd_kafka_queue_get_partition(s->client->rk, p->topic, p->partition);
    rd_kafka_queue_forward(p->queue, NULL);
    rd_kafka_topic_partition_list_add(list, p->topic, p->partition)->offset =
        p->start;
}

static int
assign(struct source *s, struct err *e)
{
    rd_kafka_topic_partition_list_t *list =
        rd_kafka_topic_partition_list_new((int)s->count);
    rd_kafka_resp_err_t err;
    size_t i;

    for (i = 0; i < s->count; i++)
        if (!s->parts[i]->ended)
            prepare(s, s->parts[i], list);
    err = rd_kafka_assign(s->client->rk, list);
    rd_kafka_topic_partition_list_destroy(list);
    if (err != 0)
        return err_set(e, ERR_INTERNAL, "%s: cannot assign partitions: %s",
                       s->client->name, rd_kafka_err2str(err));
    return 0;
}

static void
source_close(struct source **ps)
{
    struct source *s = *ps;
    size_t i;

    if (s == NULL)
        return;
    *ps = NULL;
    for (i = 0; i < s->count; i++)
        if (s->parts[i]->queue != NULL)
            rd_kafka_queue_destroy(s->parts[i]->queue);
    if (s->commits != NULL)
        rd_kafka_queue_destroy(s->commits);
    client_close(&s->client);
    for (i = 0; i < s->count; i++)
        free(s->parts[i]);
    free(s->parts);
    source_free_topics(s);
    free(s->group);
    free(s->tasks);
    free(s);
}

static int
source_open(const struct conn_env *env, struct source **ret, struct err *e)
{
    struct source *s = mem_zalloc(sizeof *s);
    int r;

    s->env = *env;
    rec_headers_reader(source_read_headers);
    s->tasks = mem_zalloc(env->parallelism * sizeof *s->tasks);
    r = read_options(s, e);
    if (r != 0)
        goto fail;
    s->client = client_new(CLIENT_CONSUMER, env);
    r = start_client(s, PREFETCH_PARTS, e);
    if (r == 0)
        r = find_topics(s, e);
    if (r == 0)
        r = source_resolve(s, e);
    if (r == 0)
        r = source_verify(s, e);
    if (r == 0)
        r = assign(s, e);
    if (r != 0)
        goto fail;
    s->commits = rd_kafka_queue_new(s->client->rk);
    s->discover_at = clock_mono_ms() + s->discovery_ms;
    atomic_store(&s->client->down, false);
    *ret = s;
    return 0;

fail:
    source_close(&s);
    return r;
}

static void
source_stop(struct source *s)
{
    uint32_t i;

    atomic_store(&s->stopping, true);
    for (i = 0; i < s->env.parallelism; i++) {
        struct source_task *t = atomic_load(&s->tasks[i]);

        if (t != NULL)
            t->conf.wake(t->conf.wake_arg);
    }
}

/* Read the answers to commits. @return how many there were. */
static uint32_t
check_commits(struct source *s, int timeout_ms)
{
    rd_kafka_event_t *ev;
    uint32_t n = 0;

    while ((ev = rd_kafka_queue_poll(s->commits, timeout_ms)) != NULL) {
        rd_kafka_resp_err_t err = rd_kafka_event_error(ev);

        timeout_ms = 0;
        if (err != 0 && err != RD_KAFKA_RESP_ERR__NO_OFFSET) {
            log_line(s->commit_warned ? LOG_DEBUG : LOG_WARN,
                     "%s: offsets of group \"%s\" cannot be committed: %s",
                     s->client->name, s->group, rd_kafka_err2str(err));
            s->commit_warned = true;
        } else {
            s->commit_warned = false;
        }
        rd_kafka_event_destroy(ev);
        n++;
    }
    return n;
}

static void
commit(struct source *s, const rd_kafka_topic_partition_list_t *list,
       bool final)
{
    rd_kafka_resp_err_t err;

    (void)check_commits(s, 0);
    err = rd_kafka_commit_queue(s->client->rk, list, s->commits, NULL, NULL);
    if (err != RD_KAFKA_RESP_ERR_NO_ERROR)
        log_line(LOG_WARN,
                 "%s: offsets of group \"%s\" cannot be committed: %s",
                 s->client->name, s->group, rd_kafka_err2str(err));
    else if (final && check_commits(s, COMMIT_MS) == 0)
        log_line(LOG_WARN,
                 "%s: no answer to the commit of the last offsets of group "
                 "\"%s\" within %d ms: a start from them may repeat records",
                 s->client->name, s->group, COMMIT_MS);
}

static int
add_positions(const struct buf *b, rd_kafka_topic_partition_list_t *list,
              struct err *e)
{
    struct position p;
    size_t at = 0;
    int r;

    while ((r = position_next(b->data, b->len, &at, &p)) == 1) {
        rd_kafka_topic_partition_t *el;
        char mark[POSITION_MARK_MAX];
        char *topic;

        if (p.next < 0)
            continue;
        topic = mem_dup(p.topic, p.topic_len);
        el = rd_kafka_topic_partition_list_add(list, topic, p.partition);
        free(topic);
        el->offset = p.next;
        if (p.last.offset < 0)
            continue;
        position_mark_text(&p.last, mark);
        el->metadata = mem_strdup(mark); /* the list frees it */
        el->metadata_size = strlen(mark);
    }
    if (r < 0)
        return err_set(e, ERR_INTERNAL,
                       "positions of a Kafka source cannot "
                       "be read back");
    return 0;
}

static int
source_committed(struct source *s, const struct buf *blobs, uint32_t count,
                 bool final, struct err *e)
{
    rd_kafka_topic_partition_list_t *list =
        rd_kafka_topic_partition_list_new((int)s->count + 1);
    uint32_t i;
    int r = 0;

    for (i = 0; r == 0 && i < count; i++)
        if (blobs[i].len > 0)
            r = add_positions(&blobs[i], list, e);
    if (r == 0 && list->cnt > 0)
        commit(s, list, final);
    rd_kafka_topic_partition_list_destroy(list);
    return r;
}

/* Give back partitions that were read to their end, so that the client does
 * not fetch what nobody will read. */
static void
drop_done(struct source *s)
{
    rd_kafka_topic_partition_list_t *list = NULL;
    size_t i;

    for (i = 0; i < s->count; i++) {
        struct part *p = s->parts[i];

        if (p->unassigned || p->queue == NULL ||
            !atomic_load_explicit(&p->done, memory_order_acquire))
            continue;
        if (list == NULL)
            list = rd_kafka_topic_partition_list_new((int)s->count);
        rd_kafka_topic_partition_list_add(list, p->topic, p->partition);
        p->unassigned = true;
    }
    if (list == NULL)
        return;
    rd_kafka_error_destroy(rd_kafka_incremental_unassign(s->client->rk, list));
    rd_kafka_topic_partition_list_destroy(list);
}

static int
grow(struct source *s, struct source_topic *topic, int32_t now, struct err *e)
{
    rd_kafka_topic_partition_list_t *list =
        rd_kafka_topic_partition_list_new(now);
    size_t first = s->count, i;
    rd_kafka_error_t *error;
    int r = 0;

    for (; topic->partitions < now; topic->partitions++) {
        add_part(s, topic, topic->partitions);
        s->parts[s->count - 1]->discovered = true;
        prepare(s, s->parts[s->count - 1], list);
    }
    error = rd_kafka_incremental_assign(s->client->rk, list);
    if (error != NULL) {
        r = err_set(e, ERR_INTERNAL,
                    "%s: cannot assign new partitions of "
                    "\"%s\": %s",
                    s->client->name, topic->name, rd_kafka_error_string(error));
        rd_kafka_error_destroy(error);
    }
    rd_kafka_topic_partition_list_destroy(list);
    for (i = first; r == 0 && i < s->count; i++) {
        struct part *p = s->parts[i];
        struct source_task *t =
            atomic_load(&s->tasks[p->index % s->env.parallelism]);

        log_line(LOG_INFO,
                 "%s: new partition %s[%" PRId32 "], read from "
                 "its beginning",
                 s->client->name, p->topic, p->partition);
        if (t != NULL)
            source_task_give(t, p);
    }
    return r;
}

static bool
topic_is_done(const struct source *s, const struct source_topic *topic)
{
    size_t i;

    if (topic->partitions == 0) /* found by its name a moment ago */
        return false;
    for (i = 0; i < s->count; i++)
        if (s->parts[i]->topic == topic->name && !s->parts[i]->unassigned &&
            s->parts[i]->queue != NULL)
            return false;
    return true;
}

static int
topic_gone(struct source *s, const struct source_topic *topic, int32_t now,
           struct err *e)
{
    if (now == ADMIN_UNKNOWN)
        (void)err_set(e, ERR_CONFIG,
                      "%s: topic \"%s\" was deleted while the "
                      "job was reading it",
                      s->client->name, topic->name);
    else
        (void)err_set(e, ERR_CONFIG,
                      "%s: topic \"%s\" was deleted and made again: it had "
                      "%" PRId32 " partitions and has %" PRId32,
                      s->client->name, topic->name, topic->partitions, now);
    err_hint(e, "its records since the last position are lost; start the job "
                "anew when the topic is what it should be");
    err_where(e, "%s", s->env.place);
    return ERR_CONFIG;
}

/* Ask for the topics: partitions that are new, topics that are gone. */
static int
discover(struct source *s, int64_t now_ms, struct err *e)
{
    bool away = !source_discover_topics(s, ASK_MS), unknown = false;
    size_t i;

    for (i = 0; i < s->topic_count && !away; i++) {
        struct source_topic *topic = &s->topics[i];
        int32_t now;
        int r = 0;

        if (topic_is_done(s, topic))
            continue;
        now = admin_count_partitions(s->client, topic->name, ASK_MS);
        if (now == ADMIN_AWAY) {
            away = true;
        } else if (now == ADMIN_UNKNOWN) {
            unknown = true;
            if (s->unknown_since != 0 &&
                now_ms - s->unknown_since >= UNKNOWN_MS)
                r = topic_gone(s, topic, now, e);
        } else if (now < topic->partitions) {
            r = topic_gone(s, topic, now, e);
        } else if (now > topic->partitions && s->stop == STOP_NEVER) {
            r = grow(s, topic, now, e);
        }
        if (r != 0)
            return r;
    }
    if (!unknown)
        s->unknown_since = 0;
    else if (s->unknown_since == 0)
        s->unknown_since = now_ms;
    s->discover_at =
        now_ms + (unknown                        ? ASK_MS
                  : away || s->discovery_ms <= 0 ? RETRY_MS
                                                 : s->discovery_ms);
    return 0;
}

/*
 * Wake the client's fetchers while there is a backlog. One that found every
 * queue full sleeps for up to a second, however fast they are drained; any
 * request to its broker makes it look again. So the prefetch need not hold a
 * second of work: ends of partitions are asked for, and not used. (Measured,
 * 4 partitions, 30,000 records each, 2 cores under load: longest wait for
 * records 774 -> 36 ms, 0.47 -> 0.82 M records/s.)
 */
static void
nudge(struct source *s)
{
    rd_kafka_topic_partition_list_t *list = NULL;
    size_t i;

    for (i = 0; i < s->count; i++) {
        struct part *p = s->parts[i];
        int64_t low, high;

        if (p->queue == NULL || p->unassigned ||
            rd_kafka_get_watermark_offsets(s->client->rk, p->topic,
                                           p->partition, &low, &high) != 0 ||
            high - atomic_load_explicit(&p->pos, memory_order_relaxed) <
                NUDGE_RECORDS)
            continue;
        if (list == NULL)
            list = rd_kafka_topic_partition_list_new((int)s->count);
        rd_kafka_topic_partition_list_add(list, p->topic, p->partition)
            ->offset = RD_KAFKA_OFFSET_END;
    }
    if (list == NULL)
        return;
    (void)rd_kafka_offsets_for_times(s->client->rk, list, NUDGE_MS);
    rd_kafka_topic_partition_list_destroy(list);
}

static int
source_tick(struct source *s, struct err *e)
{
    int64_t now = clock_mono_ms();
    bool suspect;

    client_poll(s->client);
    client_watch(s->client);
    (void)check_commits(s, 0);
    drop_done(s);
    if (s->client->down_ms != 0)
        return 0;
    nudge(s);
    suspect =
        atomic_exchange(&s->client->suspect, false) || s->unknown_since != 0;
    if (!suspect && (s->discovery_ms <= 0 || s->stop != STOP_NEVER))
        return 0;
    if (now < s->discover_at && !(suspect && s->unknown_since == 0))
        return 0;
    return discover(s, now, e);
}

static int64_t
source_lag(struct source *s)
{
    const struct part *p = atomic_load_explicit(&s->all, memory_order_acquire);
    int64_t sum = 0;
    bool known = false;

    for (; p != NULL;
         p = atomic_load_explicit(&p->next_all, memory_order_acquire)) {
        int64_t pos = atomic_load_explicit(&p->pos, memory_order_relaxed);
        int64_t low = -1, high = -1;

        if (p->queue == NULL) {
            known = true;
            continue;
        }
        if (rd_kafka_get_watermark_offsets(s->client->rk, p->topic,
                                           p->partition, &low, &high) != 0 ||
            high < 0)
            continue;
        if (p->end < high)
            high = p->end;
        if (pos < 0)
            pos = low < 0 ? 0 : low;
        known = true;
        if (high > pos)
            sum += high - pos;
    }
    return known ? sum : -1;
}

const struct source_type kafka_source_type = {
    .name = "kafka",
    .raw_payload = true,
    .open = source_open,
    .task_new = source_task_new,
    .poll = source_task_poll,
    .stop = source_stop,
    .snapshot = source_task_snapshot,
    .committed = source_committed,
    .tick = source_tick,
    .lag = source_lag,
    .task_free = source_task_free,
    .close = source_close,
};
