/* The marker: its text, and how it is found in its topic. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "kafka/admin.h"
#include "kafka/txn_impl.h"

enum {
    ASK_MS = 1000,
    SETTINGS_MS = 1000,
    CREATE_MS = 10000,
    STEP_BACK = 50, /* offsets read from the end at first; then 8 times that */
    SILENT_MS = 5000,
    TELL_MS = 10000,
    TELL_FIRST_MS = 1000,
    GONE_MS = 2000,       /* so long must the topic be unknown to be gone */
    LAG_MS = 10000,       /* a commit becomes visible (44 ms seen) */
    OPEN_MS = 16 * 60000, /* the longest a broker lets a foreign transaction
                             live by default, and its sweep */
    POLL_MS = 100,
    RETRY_MS = 5
};

#define MAGIC "streamlua-marker 1 "

/* ------------------------------------------------------------- as text */

static void
put_hex(char *out, const uint8_t *bytes, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++)
        (void)snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

size_t
txn_marker_text(const struct txn_marker *m, char *out, size_t size)
{
    char lineage[2 * CONN_LINEAGE_SIZE + 1];

    put_hex(lineage, m->lineage, CONN_LINEAGE_SIZE);
    return (size_t)snprintf(out, size, MAGIC "%s %" PRIu64 " %016" PRIx64 " %s",
                            lineage, m->round, m->code, m->owner);
}

static int
hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
}

/* `n` lower-case digits and a blank behind them. */
static bool
take_hex(const char **at, const char *end, uint8_t *ret, size_t bytes)
{
    size_t i;

    if ((size_t)(end - *at) <= 2 * bytes || (*at)[2 * bytes] != ' ')
        return false;
    for (i = 0; i < bytes; i++) {
        int high = hex_digit((*at)[2 * i]), low = hex_digit((*at)[2 * i + 1]);

        if (high < 0 || low < 0)
            return false;
        ret[i] = (uint8_t)(high << 4 | low);
    }
    *at += 2 * bytes + 1;
    return true;
}

/* A number without sign or needless zeros, and a blank behind it. */
static bool
take_number(const char **at, const char *end, uint64_t *ret)
{
    const char *p = *at;
    uint64_t n = 0;

    for (; p < end && *p >= '0' && *p <= '9'; p++) {
        uint64_t digit = (uint64_t)(*p - '0');

        if (n > (UINT64_MAX - digit) / 10)
            return false;
        n = n * 10 + digit;
    }
    if (p == *at || p == end || *p != ' ' || (**at == '0' && p - *at > 1))
        return false;
    *at = p + 1;
    *ret = n;
    return true;
}

bool
txn_marker_read(const char *text, size_t len, struct txn_marker *ret)
{
    struct txn_marker m = {.found = true};
    const char *at = text, *end = text + len;
    uint8_t code[8];
    size_t i, left;

    if (text == NULL || len < sizeof MAGIC - 1 ||
        memcmp(text, MAGIC, sizeof MAGIC - 1) != 0)
        return false;
    at += sizeof MAGIC - 1;
    if (!take_hex(&at, end, m.lineage, CONN_LINEAGE_SIZE) ||
        !take_number(&at, end, &m.round) || !take_hex(&at, end, code, 8))
        return false;
    for (i = 0; i < sizeof code; i++)
        m.code = m.code << 8 | code[i];
    left = (size_t)(end - at);
    if (left >= TXN_OWNER_MAX)
        return false;
    for (i = 0; i < left; i++)
        if (iscntrl((unsigned char)at[i]))
            return false;
    memcpy(m.owner, at, left);
    *ret = m;
    return true;
}

/* ----------------------------------------------------------- the reader */

static int
check_topic(struct txn *t, int32_t partitions, struct err *e)
{
    char policy[ADMIN_VALUE_MAX];

    if (partitions != 1) {
        (void)err_set(e, ERR_CONFIG,
                      "%s: topic \"%s\" has %" PRId32 " partitions, but the "
                      "marker's has one",
                      t->reader->name, t->topic, partitions);
    } else if (admin_setting(t->reader, t->topic, "cleanup.policy", SETTINGS_MS,
                             policy, sizeof policy) &&
               strcmp(policy, "compact") != 0) {
        (void)err_set(e, ERR_CONFIG,
                      "%s: topic \"%s\" has cleanup.policy=%s, so retention "
                      "may remove the marker; it must be compact",
                      t->reader->name, t->topic, policy);
    } else {
        return 0;
    }
    err_hint(e, "delete that topic if nothing else uses it, and it is made as "
                "it should be, or choose another transactional_id_prefix");
    err_where(e, "%s", t->reader->place);
    return ERR_CONFIG;
}

/* Find the marker topic, or make it. */
static int
find_topic(struct txn *t, struct err *e)
{
    struct patience p;
    int r;

    txn_patience(t, t->reader, "the start", &p);
    for (;;) {
        int32_t n = admin_count_partitions(t->reader, t->topic, ASK_MS);

        r = 0;
        if (n > 0)
            return check_topic(t, n, e);
        if (n == ADMIN_UNKNOWN)
            r = admin_create_compacted(t->reader, t->topic, CREATE_MS, e);
        if (r != 0 && (e == NULL || !(e->flags & ERR_RETRIABLE)))
            return r;
        r = txn_patient(t, &p, e);
        if (r != 0)
            return r;
    }
}

int
txn_reader_open(struct txn *t, struct err *e)
{
    char name[160];
    rd_kafka_conf_t *conf;
    int r;

    t->reader = client_new(CLIENT_CONSUMER, &t->env);
    free(t->reader->name); /* it reads for the sink */
    (void)snprintf(name, sizeof name, "sink %s", t->env.step);
    t->reader->name = mem_strdup(name);
    r = client_conf(t->reader, &t->env, &conf, e);
    if (r != 0)
        return r;
    client_force(conf, "group.id", t->topic);
    client_force(conf, "enable.auto.commit", "false");
    client_force(conf, "enable.auto.offset.store", "false");
    client_force(conf, "auto.offset.reset", "error");
    client_force(conf, "enable.partition.eof", "true");
    client_force(conf, "isolation.level", "read_committed");
    client_force(conf, "fetch.wait.max.ms", "10");
    r = client_start(t->reader, &conf, e);
    return r != 0 ? r : find_topic(t, e);
}

static int
topic_gone(struct txn *t, rd_kafka_resp_err_t err, struct err *e)
{
    (void)err_set(e, ERR_CONFIG, "%s: topic \"%s\" cannot be read: %s (%s)",
                  t->reader->name, t->topic, rd_kafka_err2str(err),
                  rd_kafka_err2name(err));
    err_hint(e, "it holds the marker by which nothing is lost or doubled: it "
                "must not be deleted, and an ACL must allow READ, WRITE and "
                "DESCRIBE on it");
    err_where(e, "%s", t->reader->place);
    return ERR_CONFIG;
}

/* The first offset, and the one behind the last that is stable. */
static int
ask_ends(struct txn *t, int64_t *low, int64_t *high, struct err *e)
{
    int64_t gone_ms = 0;
    struct patience p;

    txn_patience(t, t->reader, "the look at the marker", &p);
    for (;;) {
        rd_kafka_resp_err_t err = rd_kafka_query_watermark_offsets(
            t->reader->rk, t->topic, 0, low, high, ASK_MS);
        int r;

        switch (err) {
        case RD_KAFKA_RESP_ERR_NO_ERROR:
            return 0;
        case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
            return topic_gone(t, err, e);
        case RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION:
        case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
        case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
            if (gone_ms == 0)
                gone_ms = clock_mono_ms();
            if (clock_mono_ms() - gone_ms >= GONE_MS)
                return topic_gone(t, err, e);
            break;
        default:
            gone_ms = 0;
            break;
        }
        r = txn_patient(t, &p, e);
        if (r != 0)
            return r;
    }
}

/* ----------------------------------------------------------- the last one */

struct last {
    bool found;
    int64_t offset;
    struct buf text;
    bool null;   /* a tombstone */
    int64_t end; /* of the log, open transactions too */
};

enum read { READ_END, READ_AGAIN, READ_MORE };

static enum read
take(struct last *l, const rd_kafka_message_t *m)
{
    if (m->err == RD_KAFKA_RESP_ERR__PARTITION_EOF)
        return READ_END;
    if (m->rkt == NULL || m->err != 0)
        return READ_AGAIN;
    l->found = true;
    l->offset = m->offset;
    l->null = m->payload == NULL;
    buf_clear(&l->text);
    buf_add(&l->text, m->payload == NULL ? "" : m->payload, m->len);
    return READ_MORE;
}

/* Read from an offset to the end. @return whether it came to the end. */
static bool
read_from(struct txn *t, int64_t from, struct last *l)
{
    rd_kafka_topic_partition_list_t *list =
        rd_kafka_topic_partition_list_new(1);
    int64_t quiet = clock_mono_ms() + SILENT_MS, low;
    enum read got = READ_MORE;

    rd_kafka_topic_partition_list_add(list, t->topic, 0)->offset = from;
    l->found = false;
    if (rd_kafka_assign(t->reader->rk, list) != 0)
        got = READ_AGAIN;
    rd_kafka_topic_partition_list_destroy(list);
    while (got == READ_MORE && clock_mono_ms() < quiet) {
        rd_kafka_message_t *m = rd_kafka_consumer_poll(t->reader->rk, POLL_MS);

        if (m == NULL)
            continue;
        got = take(l, m);
        rd_kafka_message_destroy(m);
        quiet = clock_mono_ms() + SILENT_MS;
    }
    /* From the fetch: also in front of a transaction that is open. */
    if (got == READ_END && rd_kafka_get_watermark_offsets(
                               t->reader->rk, t->topic, 0, &low, &l->end) != 0)
        l->end = -1;
    (void)rd_kafka_assign(t->reader->rk, NULL);
    return got == READ_END;
}

/* Find the last record between two offsets, stepping back until it is found
 * or the whole range was read. @return false: again. */
static bool
find_last(struct txn *t, int64_t low, int64_t high, struct last *l)
{
    int64_t back = STEP_BACK;

    for (;;) {
        int64_t from = high - low > back ? high - back : low;

        if (!read_from(t, from, l))
            return false;
        if (l->found || from == low)
            return true;
        back *= 8;
    }
}

static int
foreign(const struct txn *t, const struct last *l, struct err *e)
{
    char shown[64];
    size_t i,
        n = l->text.len < sizeof shown - 1 ? l->text.len : sizeof shown - 1;

    for (i = 0; i < n; i++) {
        char c = l->text.data[i];

        shown[i] = c;
        if (iscntrl((unsigned char)c) || (unsigned char)c >= 0x80)
            shown[i] = '?';
    }
    shown[n] = '\0';
    (void)err_set(e, ERR_IO,
                  "%s: the last record of topic \"%s\" (offset %" PRId64
                  ") is no marker of streamlua: %s%s%s",
                  t->reader->name, t->topic, l->offset, l->null ? "" : "\"",
                  l->null ? "null" : shown, l->null ? "" : "\"");
    err_hint(e, "somebody else wrote there, or a later version; choose another "
                "transactional_id_prefix, or remove what was written");
    err_where(e, "%s", t->reader->place);
    return ERR_IO;
}

/* An open transaction hides what is behind it. Before the ids are
 * initialised it may be the own one of before, and is no hindrance: whoever
 * took the ids has ended it and committed a claim in front. */
static int
wait_open(struct txn *t, int64_t since, int64_t high, int64_t *told,
          struct err *e)
{
    struct timespec ts = {.tv_nsec = 4 * RETRY_MS * 1000000L};
    int64_t now = clock_mono_ms();

    if (now - since >= OPEN_MS) {
        (void)err_set(e, ERR_UNAVAILABLE,
                      "%s: an open transaction in topic \"%s\" has hidden what "
                      "is behind offset %" PRId64 " for %d minutes",
                      t->reader->name, t->topic, high, OPEN_MS / 60000);
        err_hint(e, "nobody else may write there; end that transaction "
                    "(kafka-transactions.sh) or choose another "
                    "transactional_id_prefix");
        if (e != NULL)
            e->flags |= ERR_RETRIABLE;
        return ERR_UNAVAILABLE;
    }
    if (now - since >= TELL_FIRST_MS && now - *told >= TELL_MS) {
        *told = now;
        log_line(LOG_WARN,
                 "%s: an open transaction in topic \"%s\" hides what is behind "
                 "offset %" PRId64 ": waiting for its end",
                 t->reader->name, t->topic, high);
    }
    (void)nanosleep(&ts, NULL);
    return 0;
}

static int
look(struct txn *t, struct txn_marker *ret, struct last *l, struct err *e)
{
    int64_t since = clock_mono_ms(), told = since - TELL_MS;
    struct patience p;
    int r;

    txn_patience(t, t->reader, "the look at the marker", &p);
    for (;;) {
        int64_t low, high;

        r = ask_ends(t, &low, &high, e);
        if (r != 0)
            return r;
        if (!find_last(t, low, high, l)) {
            r = txn_patient(t, &p, e);
        } else if (t->initialised && l->end > high) {
            r = wait_open(t, since, high, &told, e);
        } else {
            break;
        }
        if (r != 0)
            return r;
    }
    memset(ret, 0, sizeof *ret);
    if (!l->found)
        return 0;
    return !l->null && txn_marker_read(l->text.data, l->text.len, ret)
               ? 0
               : foreign(t, l, e);
}

int
txn_look(struct txn *t, struct txn_marker *ret, struct err *e)
{
    struct txn_marker m;
    struct last l = {.end = -1};
    int r;

    buf_init(&l.text);
    r = look(t, &m, &l, e);
    buf_fini(&l.text);
    if (r == 0)
        *ret = m;
    return r;
}

/* -------------------------------------------------------- the end check */

static bool
is_own(const struct txn *t, const struct txn_marker *m)
{
    return m->found && m->round == t->own.round && m->code == t->own.code &&
           strcmp(m->owner, t->own.owner) == 0 &&
           memcmp(m->lineage, t->own.lineage, sizeof m->lineage) == 0;
}

/* The end is not where it was left: whose is the last marker? */
static int
look_whose(struct txn *t, struct err *e)
{
    struct txn_marker m;
    struct last l = {.end = -1};
    int r;

    buf_init(&l.text);
    r = look(t, &m, &l, e);
    buf_fini(&l.text);
    if (r != 0)
        return r;
    if (is_own(t, &m)) { /* others' aborted transactions moved it */
        t->end = l.end;
        return 0;
    }
    atomic_store(&t->fenced, true);
    if (m.found)
        (void)err_set(e, ERR_UNAVAILABLE,
                      "%s: the marker in \"%s\" says round %" PRIu64 " of %s, "
                      "this process (%s) left round %" PRIu64 " there",
                      t->reader->name, t->topic, m.round, m.owner, t->owner,
                      t->own.round);
    else
        (void)err_set(e, ERR_UNAVAILABLE,
                      "%s: the marker in \"%s\" is gone, this process (%s) "
                      "left round %" PRIu64 " there",
                      t->reader->name, t->topic, t->owner, t->own.round);
    err_where(e, "%s", t->reader->place);
    if (e != NULL)
        e->flags |= ERR_RETRIABLE;
    return ERR_UNAVAILABLE;
}

int
txn_check_end(struct txn *t, struct err *e)
{
    struct timespec ts = {.tv_nsec = RETRY_MS * 1000000L};
    int64_t until = clock_mono_ms() + LAG_MS, low, high;

    if (fault_hit("txn_no_check")) /* the control of a test */
        return 0;
    /* A commit is answered when it is decided, and visible a moment later. */
    while (t->end >= 0 && clock_mono_ms() < until) {
        int r = ask_ends(t, &low, &high, e);

        if (r != 0 || high == t->end)
            return r;
        /* A cluster without control records (the client's mock) ends one
         * earlier; elsewhere the marker and its control record become stable
         * together. */
        if (high >= t->end - 1)
            break;
        (void)nanosleep(&ts, NULL);
    }
    return look_whose(t, e);
}
