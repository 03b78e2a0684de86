#include "kt.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WAIT_MS = 30000, TRIES = 100 };

static void __attribute__((noreturn, format(printf, 1, 2)))
die(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    (void)fprintf(stderr, "kt: ");
    (void)vfprintf(stderr, fmt, ap);
    (void)fprintf(stderr, "\n");
    va_end(ap);
    abort();
}

static void
set(rd_kafka_conf_t *conf, const char *name, const char *value)
{
    char text[256];

    if (rd_kafka_conf_set(conf, name, value, text, sizeof text) !=
        RD_KAFKA_CONF_OK)
        die("%s", text);
}

/* "name=value" strings. */
static void
set_list(rd_kafka_conf_t *conf, const char *const *list)
{
    for (; list != NULL && *list != NULL; list++) {
        char name[128];
        const char *eq = strchr(*list, '=');

        if (eq == NULL || (size_t)(eq - *list) >= sizeof name)
            die("no name=value: %s", *list);
        memcpy(name, *list, (size_t)(eq - *list));
        name[eq - *list] = '\0';
        set(conf, name, eq + 1);
    }
}

static void
on_log(const rd_kafka_t *rk, int level, const char *fac, const char *text)
{
    (void)rk;
    (void)level;
    (void)fac;
    (void)text;
}

static rd_kafka_t *
handle(const char *servers, rd_kafka_type_t type, const char *const *extra)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    char text[256];
    rd_kafka_t *rk;

    set(conf, "bootstrap.servers", servers);
    set(conf, "reconnect.backoff.ms", "20");
    set(conf, "reconnect.backoff.max.ms", "200");
    rd_kafka_conf_set_log_cb(conf, on_log);
    set_list(conf, extra);
    rk = rd_kafka_new(type, conf, text, sizeof text);
    if (rk == NULL)
        die("%s", text);
    return rk;
}

/* ------------------------------------------------------------- topics */

enum op { OP_CREATE, OP_DELETE, OP_GROW, OP_TRIM };

static rd_kafka_resp_err_t
result_of(rd_kafka_event_t *ev, enum op op)
{
    const rd_kafka_topic_result_t **list;
    size_t n = 0;

    if (ev == NULL)
        return RD_KAFKA_RESP_ERR__TIMED_OUT;
    if (rd_kafka_event_error(ev) != 0)
        return rd_kafka_event_error(ev);
    if (op == OP_TRIM)
        return rd_kafka_DeleteRecords_result_offsets(
                   rd_kafka_event_DeleteRecords_result(ev))
            ->elems[0]
            .err;
    if (op == OP_CREATE)
        list = rd_kafka_CreateTopics_result_topics(
            rd_kafka_event_CreateTopics_result(ev), &n);
    else if (op == OP_DELETE)
        list = rd_kafka_DeleteTopics_result_topics(
            rd_kafka_event_DeleteTopics_result(ev), &n);
    else
        list = rd_kafka_CreatePartitions_result_topics(
            rd_kafka_event_CreatePartitions_result(ev), &n);
    return n == 0 ? RD_KAFKA_RESP_ERR_UNKNOWN
                  : rd_kafka_topic_result_error(list[0]);
}

struct admin {
    const char *topic;
    int partitions;
    const char *const *configs;
    int64_t offset;
};

static void
new_topic(rd_kafka_t *rk, const struct admin *a, rd_kafka_AdminOptions_t *o,
          rd_kafka_queue_t *q)
{
    char text[256];
    rd_kafka_NewTopic_t *t =
        rd_kafka_NewTopic_new(a->topic, a->partitions, 1, text, sizeof text);
    const char *const *c;

    for (c = a->configs; c != NULL && *c != NULL; c++) {
        char name[128];
        const char *eq = strchr(*c, '=');

        if (eq == NULL || (size_t)(eq - *c) >= sizeof name)
            die("no name=value: %s", *c);
        memcpy(name, *c, (size_t)(eq - *c));
        name[eq - *c] = '\0';
        (void)rd_kafka_NewTopic_set_config(t, name, eq + 1);
    }
    rd_kafka_CreateTopics(rk, &t, 1, o, q);
    rd_kafka_NewTopic_destroy(t);
}

static void
trim(rd_kafka_t *rk, const struct admin *a, rd_kafka_AdminOptions_t *o,
     rd_kafka_queue_t *q)
{
    rd_kafka_topic_partition_list_t *l = rd_kafka_topic_partition_list_new(1);
    rd_kafka_DeleteRecords_t *d;

    rd_kafka_topic_partition_list_add(l, a->topic, a->partitions)->offset =
        a->offset;
    d = rd_kafka_DeleteRecords_new(l);
    rd_kafka_DeleteRecords(rk, &d, 1, o, q);
    rd_kafka_DeleteRecords_destroy(d);
    rd_kafka_topic_partition_list_destroy(l);
}

static rd_kafka_resp_err_t
admin_once(rd_kafka_t *rk, enum op op, const struct admin *a)
{
    static const rd_kafka_admin_op_t kinds[] = {
        RD_KAFKA_ADMIN_OP_CREATETOPICS, RD_KAFKA_ADMIN_OP_DELETETOPICS,
        RD_KAFKA_ADMIN_OP_CREATEPARTITIONS, RD_KAFKA_ADMIN_OP_DELETERECORDS};
    rd_kafka_queue_t *q = rd_kafka_queue_new(rk);
    rd_kafka_AdminOptions_t *o = rd_kafka_AdminOptions_new(rk, kinds[op]);
    rd_kafka_event_t *ev;
    rd_kafka_resp_err_t err;
    char text[256];

    (void)rd_kafka_AdminOptions_set_operation_timeout(o, 10000, text,
                                                      sizeof text);
    if (op == OP_CREATE) {
        new_topic(rk, a, o, q);
    } else if (op == OP_DELETE) {
        rd_kafka_DeleteTopic_t *d = rd_kafka_DeleteTopic_new(a->topic);

        rd_kafka_DeleteTopics(rk, &d, 1, o, q);
        rd_kafka_DeleteTopic_destroy(d);
    } else if (op == OP_GROW) {
        rd_kafka_NewPartitions_t *p = rd_kafka_NewPartitions_new(
            a->topic, (size_t)a->partitions, text, sizeof text);

        rd_kafka_CreatePartitions(rk, &p, 1, o, q);
        rd_kafka_NewPartitions_destroy(p);
    } else {
        trim(rk, a, o, q);
    }
    ev = rd_kafka_queue_poll(q, WAIT_MS);
    err = result_of(ev, op);
    if (ev != NULL)
        rd_kafka_event_destroy(ev);
    rd_kafka_AdminOptions_destroy(o);
    rd_kafka_queue_destroy(q);
    return err;
}

static void
admin(const char *servers, enum op op, const struct admin *a)
{
    rd_kafka_t *rk = handle(servers, RD_KAFKA_PRODUCER, NULL);
    rd_kafka_resp_err_t err = RD_KAFKA_RESP_ERR_UNKNOWN;
    int i;

    for (i = 0; i < TRIES; i++) {
        err = admin_once(rk, op, a);
        if (err == 0)
            break;
        if (op == OP_DELETE && err == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART)
            break;
        (void)rd_kafka_poll(rk, 100);
    }
    if (i == TRIES)
        die("admin call on %s: %s", a->topic, rd_kafka_err2str(err));
    rd_kafka_destroy(rk);
}

int
kt_partitions(const char *servers, const char *topic)
{
    rd_kafka_t *rk = handle(servers, RD_KAFKA_PRODUCER, NULL);
    rd_kafka_topic_t *t = rd_kafka_topic_new(rk, topic, NULL);
    const struct rd_kafka_metadata *md;
    int i, n = -1;

    for (i = 0; i < TRIES && n < 0; i++) {
        if (rd_kafka_metadata(rk, 0, t, &md, 1000) != 0)
            continue;
        n = md->topic_cnt == 1 && md->topics[0].err == 0
                ? md->topics[0].partition_cnt
                : 0;
        rd_kafka_metadata_destroy(md);
    }
    rd_kafka_topic_destroy(t);
    rd_kafka_destroy(rk);
    return n;
}

void
kt_create(const char *servers, const char *topic, int partitions,
          const char *const *configs)
{
    struct admin a = {topic, partitions, configs, 0};

    admin(servers, OP_CREATE, &a);
    while (kt_partitions(servers, topic) < partitions)
        ;
}

void
kt_delete(const char *servers, const char *topic)
{
    struct admin a = {topic, 0, NULL, 0};

    admin(servers, OP_DELETE, &a);
    while (kt_partitions(servers, topic) > 0)
        ;
}

void
kt_grow(const char *servers, const char *topic, int partitions)
{
    struct admin a = {topic, partitions, NULL, 0};

    admin(servers, OP_GROW, &a);
}

void
kt_trim(const char *servers, const char *topic, int partition, int64_t offset)
{
    struct admin a = {topic, partition, NULL, offset};

    admin(servers, OP_TRIM, &a);
}

/* ----------------------------------------------------------- producing */

static void
on_delivery(rd_kafka_t *rk, const rd_kafka_message_t *m, void *opaque)
{
    (void)rk;
    (void)opaque;
    if (m->err != 0 && m->err != RD_KAFKA_RESP_ERR__PURGE_QUEUE &&
        m->err != RD_KAFKA_RESP_ERR__PURGE_INFLIGHT)
        die("delivery: %s", rd_kafka_err2str(m->err));
}

rd_kafka_t *
kt_producer(const char *servers, const char *txn_id, const char *const *extra)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    char text[256];
    rd_kafka_error_t *error;
    rd_kafka_t *rk;
    int i;

    set(conf, "bootstrap.servers", servers);
    set(conf, "partitioner", "murmur2_random");
    set(conf, "enable.idempotence", "true");
    set(conf, "queue.buffering.max.messages", "1000000");
    if (txn_id != NULL)
        set(conf, "transactional.id", txn_id);
    set_list(conf, extra);
    rd_kafka_conf_set_log_cb(conf, on_log);
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, text, sizeof text);
    if (rk == NULL)
        die("%s", text);
    for (i = 0; txn_id != NULL; i++) {
        error = rd_kafka_init_transactions(rk, 5000);
        if (error == NULL)
            break;
        if (i == 10 || !rd_kafka_error_is_retriable(error))
            die("init_transactions: %s", rd_kafka_error_string(error));
        rd_kafka_error_destroy(error);
    }
    return rk;
}

void
kt_put(rd_kafka_t *rk, const char *topic, const struct kt_record *r)
{
    for (;;) {
        rd_kafka_resp_err_t err;

        if (r->headers != NULL)
            err = rd_kafka_producev(
                rk, RD_KAFKA_V_TOPIC(topic), RD_KAFKA_V_PARTITION(r->partition),
                RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
                RD_KAFKA_V_VALUE((void *)(uintptr_t)r->val, r->val_len),
                RD_KAFKA_V_KEY(r->key, r->key_len), RD_KAFKA_V_TIMESTAMP(r->ts),
                RD_KAFKA_V_HEADERS(r->headers), RD_KAFKA_V_END);
        else
            err = rd_kafka_producev(
                rk, RD_KAFKA_V_TOPIC(topic), RD_KAFKA_V_PARTITION(r->partition),
                RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
                RD_KAFKA_V_VALUE((void *)(uintptr_t)r->val, r->val_len),
                RD_KAFKA_V_KEY(r->key, r->key_len), RD_KAFKA_V_TIMESTAMP(r->ts),
                RD_KAFKA_V_END);
        if (err == 0)
            break;
        if (err != RD_KAFKA_RESP_ERR__QUEUE_FULL)
            die("produce to %s: %s", topic, rd_kafka_err2str(err));
        (void)rd_kafka_poll(rk, 10);
    }
    (void)rd_kafka_poll(rk, 0);
}

void
kt_puts(rd_kafka_t *rk, const char *topic, int partition, const char *val)
{
    struct kt_record r = {
        .val = val, .val_len = strlen(val), .partition = partition};

    kt_put(rk, topic, &r);
}

void
kt_flush(rd_kafka_t *rk)
{
    if (rd_kafka_flush(rk, WAIT_MS) != 0)
        die("flush: not delivered");
}

static void
check(rd_kafka_error_t *error, const char *what)
{
    if (error != NULL)
        die("%s: %s", what, rd_kafka_error_string(error));
}

void
kt_begin(rd_kafka_t *rk)
{
    check(rd_kafka_begin_transaction(rk), "begin");
}

void
kt_end(rd_kafka_t *rk, bool commit)
{
    kt_flush(rk);
    check(commit ? rd_kafka_commit_transaction(rk, WAIT_MS)
                 : rd_kafka_abort_transaction(rk, WAIT_MS),
          commit ? "commit" : "abort");
}

void
kt_close(rd_kafka_t **rk)
{
    (void)rd_kafka_flush(*rk, WAIT_MS);
    rd_kafka_destroy(*rk);
    *rk = NULL;
}

/* ------------------------------------------------------------- reading */

static rd_kafka_t *
consumer(const char *servers, bool committed)
{
    const char *const extra[] = {
        "group.id=kt",
        "enable.auto.commit=false",
        "auto.offset.reset=error",
        "enable.partition.eof=true",
        "fetch.wait.max.ms=10",
        committed ? "isolation.level=read_committed"
                  : "isolation.level=read_uncommitted",
        NULL,
    };
    rd_kafka_t *rk = handle(servers, RD_KAFKA_CONSUMER, extra);

    (void)rd_kafka_poll_set_consumer(rk);
    return rk;
}

static void
ends(rd_kafka_t *rk, const char *topic, int partition, int64_t *low,
     int64_t *high)
{
    rd_kafka_resp_err_t err = 0;
    int i;

    for (i = 0; i < TRIES; i++) {
        err = rd_kafka_query_watermark_offsets(rk, topic, partition, low, high,
                                               2000);
        if (err == 0)
            return;
        (void)rd_kafka_poll(rk, 50);
    }
    die("watermarks of %s: %s", topic, rd_kafka_err2str(err));
}

void
kt_ends(const char *servers, const char *topic, int partition, bool committed,
        int64_t *low, int64_t *high)
{
    rd_kafka_t *rk = consumer(servers, committed);

    ends(rk, topic, partition, low, high);
    rd_kafka_destroy(rk);
}

void
kt_settle(const char *servers, const char *topic, int partitions)
{
    rd_kafka_t *all = consumer(servers, false);
    rd_kafka_t *stable = consumer(servers, true);
    int64_t low, high, lso;
    int i;

    for (i = 0; i < partitions; i++) {
        ends(all, topic, i, &low, &high);
        for (;;) {
            ends(stable, topic, i, &low, &lso);
            if (lso >= high)
                break;
            (void)rd_kafka_poll(all, 5);
        }
    }
    rd_kafka_destroy(all);
    rd_kafka_destroy(stable);
}

void
kt_commit(const char *servers, const char *group, const char *topic,
          int64_t offset, const char *metadata)
{
    char text[128];
    const char *const extra[] = {text, NULL};
    rd_kafka_topic_partition_list_t *list =
        rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_t *p =
        rd_kafka_topic_partition_list_add(list, topic, 0);
    rd_kafka_resp_err_t err = 0;
    rd_kafka_t *rk;
    int i;

    (void)snprintf(text, sizeof text, "group.id=%s", group);
    rk = handle(servers, RD_KAFKA_CONSUMER, extra);
    p->offset = offset;
    p->metadata = strdup(metadata);
    p->metadata_size = strlen(metadata);
    for (i = 0; i < TRIES; i++) {
        err = rd_kafka_commit(rk, list, 0);
        if (err == 0)
            break;
        (void)rd_kafka_poll(rk, 50);
    }
    if (err != 0)
        die("commit: %s", rd_kafka_err2str(err));
    rd_kafka_topic_partition_list_destroy(list);
    rd_kafka_destroy(rk);
}

int64_t
kt_read(const char *servers, const char *topic, bool committed, kt_each_f *each,
        void *arg)
{
    int n = kt_partitions(servers, topic), i, open = n;
    rd_kafka_topic_partition_list_t *list =
        rd_kafka_topic_partition_list_new(n + 1);
    rd_kafka_t *rk = consumer(servers, committed);
    int64_t *high = calloc((size_t)n + 1, sizeof *high);
    int64_t count = 0;

    if (high == NULL)
        die("no memory");
    for (i = 0; i < n; i++) {
        int64_t low;

        ends(rk, topic, i, &low, &high[i]);
        rd_kafka_topic_partition_list_add(list, topic, i)->offset =
            RD_KAFKA_OFFSET_BEGINNING;
    }
    (void)rd_kafka_assign(rk, list);
    rd_kafka_topic_partition_list_destroy(list);
    while (open > 0) {
        rd_kafka_message_t *m = rd_kafka_consumer_poll(rk, WAIT_MS);

        if (m == NULL)
            die("%s: no end within %d ms", topic, WAIT_MS);
        if (m->err == 0 && m->offset < high[m->partition]) {
            count++;
            if (each != NULL)
                each(arg, m);
        } else if (m->err != 0 && m->err != RD_KAFKA_RESP_ERR__PARTITION_EOF) {
            die("%s: %s", topic, rd_kafka_message_errstr(m));
        }
        if ((m->err != 0 ? m->offset : m->offset + 1) >= high[m->partition] &&
            high[m->partition] >= 0) {
            high[m->partition] = -1;
            open--;
        }
        rd_kafka_message_destroy(m);
    }
    free(high);
    rd_kafka_destroy(rk);
    return count;
}
