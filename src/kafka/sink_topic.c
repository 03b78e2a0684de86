/* Topics of a Kafka sink: one by option, or those a function names. */
#include "kafka/sink_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"

enum {
    ASK_MS = 500,
    LIMITS_MS = 1000,
    CREATE_MS = 10000,
    UNKNOWN_MS = 1000, /* a topic made a moment ago is not known at once */
    PAUSE_MS = 50,
    NAME_MAX_BYTES = 249,
    SLOTS = 4 * SINK_TOPICS_MAX /* power of two */
};

/* ---------------------------------------------------------------- finding */

/* Sleep, but for no longer than until the sink is closed.
 * @return false: it is. */
static bool
wait_a_little(struct sink *s)
{
    struct timespec t = {.tv_nsec = PAUSE_MS * 1000000L};

    (void)nanosleep(&t, NULL);
    return !atomic_load(&s->closing);
}

/* Batches are made for the producer, not for each topic. */
static int
check_limits(struct sink *s, const struct sink_topic *topic, struct err *e)
{
    if (topic->limits.max_message_bytes >= s->batch_bytes)
        return 0;
    (void)err_set(e, ERR_CONFIG,
                  "%s: topic \"%s\" takes at most %lld bytes at a time "
                  "(max.message.bytes), and batches have up to %lld",
                  s->client->name, topic->name,
                  (long long)topic->limits.max_message_bytes,
                  (long long)s->batch_bytes);
    err_hint(e, "topics that a function names share a producer: set "
                "properties = { [\"batch.size\"] = N } to the smallest");
    err_where(e, "%s", s->client->place);
    return ERR_CONFIG;
}

/* Wait until the topic is known, and make it if that is asked for.
 * @return 0, ERR_CONFIG, or ERR_AGAIN: the sink is closed. */
static int
find_one(struct sink *s, struct sink_topic *topic, struct err *e)
{
    int64_t since = 0;

    for (;;) {
        int32_t n = admin_look(s->client, topic->name, ASK_MS, e);
        int r = 0;

        if (n > 0) {
            topic->partitions = n;
            return 0;
        }
        if (n == ADMIN_REFUSED)
            return ERR_CONFIG;
        if (n == ADMIN_UNKNOWN && s->may_create) {
            struct admin_topic make = s->create;

            make.name = topic->name;
            r = admin_create(s->client, &make, CREATE_MS, e);
            if (r == 0 && since == 0)
                log_line(LOG_INFO, "%s: topic \"%s\" was made", s->client->name,
                         topic->name);
        } else if (n == ADMIN_UNKNOWN && since != 0 &&
                   clock_mono_ms() - since >= UNKNOWN_MS) {
            return ERR_CONFIG;
        }
        if (r == ERR_CONFIG)
            return r;
        if (n == ADMIN_UNKNOWN && since == 0)
            since = clock_mono_ms();
        if (!wait_a_little(s))
            return ERR_AGAIN;
    }
}

/* Have the handles a message to the topic needs, before the first one. */
static int
name_handles(struct sink *s, struct sink_topic *topic, struct err *e)
{
    if (s->txn != NULL)
        return txn_topic(s->txn, topic->name, &topic->txn_index, e);
    topic->rkt = rd_kafka_topic_new(s->client->rk, topic->name, NULL);
    if (topic->rkt != NULL)
        return 0;
    return err_set(e, ERR_CONFIG, "%s: topic \"%s\": %s", s->client->name,
                   topic->name, rd_kafka_err2str(rd_kafka_last_error()));
}

static void
find_next(struct sink *s, struct sink_topic *topic)
{
    struct err e;
    int r = find_one(s, topic, &e);

    if (r == 0) {
        admin_limits(s->client, topic->name, LIMITS_MS, &topic->limits);
        r = check_limits(s, topic, &e);
    }
    if (r == 0)
        r = name_handles(s, topic, &e);
    if (r == ERR_AGAIN)
        return;
    if (r != 0)
        sink_set_broken(s, &e);
    else /* release: what is above */
        atomic_store(&topic->ready, true);
    sink_wake_tasks(s);
}

static void *
finder_main(void *arg)
{
    struct sink *s = arg;
    uint32_t next = 0;

    (void)pthread_mutex_lock(&s->topics_lock);
    while (!atomic_load(&s->closing)) {
        struct sink_topic *topic;

        if (next == atomic_load(&s->topic_count)) {
            (void)pthread_cond_wait(&s->topics_wanted, &s->topics_lock);
            continue;
        }
        topic = s->topics[next++];
        (void)pthread_mutex_unlock(&s->topics_lock);
        find_next(s, topic);
        (void)pthread_mutex_lock(&s->topics_lock);
    }
    (void)pthread_mutex_unlock(&s->topics_lock);
    return NULL;
}

int
sink_topics_start(struct sink *s, struct err *e)
{
    if (pthread_create(&s->finder, NULL, finder_main, s) != 0)
        return err_set(e, ERR_NOMEM, "%s: no thread for topics",
                       s->client->name);
    s->finder_runs = true;
    return 0;
}

bool
sink_topics_stop(struct sink *s)
{
    struct timespec until;

    if (!s->finder_runs)
        return true;
    s->finder_runs = false;
    (void)pthread_mutex_lock(&s->topics_lock);
    (void)pthread_cond_signal(&s->topics_wanted);
    (void)pthread_mutex_unlock(&s->topics_lock);
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (CREATE_MS + CLIENT_CLOSE_MS) / 1000;
    return pthread_timedjoin_np(s->finder, NULL, &until) == 0;
}

void
sink_topics_free(struct sink *s)
{
    uint32_t i;

    for (i = 0; i < atomic_load(&s->topic_count); i++) {
        if (s->topics[i]->rkt != NULL)
            rd_kafka_topic_destroy(s->topics[i]->rkt);
        free(s->topics[i]->name);
        free(s->topics[i]);
        s->topics[i] = NULL;
    }
    atomic_store(&s->topic_count, 0);
}

/* ---------------------------------------------------------------- naming */

/* With the lock held, or before there are tasks. */
struct sink_topic *
sink_topics_add(struct sink *s, const char *name, size_t len)
{
    uint32_t n = atomic_load(&s->topic_count);
    struct sink_topic *topic = mem_zalloc(sizeof *topic);

    topic->name = mem_dup(name, len);
    topic->len = len;
    atomic_init(&topic->ready, false);
    s->topics[n] = topic;
    atomic_store(&s->topic_count, n + 1);
    return topic;
}

static bool
is_name(const char *name, size_t len)
{
    size_t i;

    if (len == 0 || len > NAME_MAX_BYTES ||
        (name[0] == '.' && (len == 1 || (len == 2 && name[1] == '.'))))
        return false;
    for (i = 0; i < len; i++) {
        char c = name[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
              (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-'))
            return false;
    }
    return true;
}

/* The number of a topic of the sink, which is wanted from here on. */
static int
want(struct sink *s, const char *name, size_t len, uint32_t *ret, struct err *e)
{
    uint32_t i, n;
    int r = 0;

    (void)pthread_mutex_lock(&s->topics_lock);
    n = atomic_load(&s->topic_count);
    for (i = 0; i < n; i++)
        if (s->topics[i]->len == len &&
            memcmp(s->topics[i]->name, name, len) == 0)
            break;
    if (i == n && n == SINK_TOPICS_MAX) {
        r = err_set(e, ERR_CONFIG,
                    "%s: the topic function names more than %d topics",
                    s->client->name, SINK_TOPICS_MAX);
        err_where(e, "%s", s->client->place);
    } else if (i == n) {
        (void)sink_topics_add(s, name, len);
        (void)pthread_cond_signal(&s->topics_wanted);
    }
    (void)pthread_mutex_unlock(&s->topics_lock);
    *ret = i;
    return r;
}

/* The slot of a name in the task's own table: where it is, or belongs. */
static uint16_t *
slot_of(struct sink_task *t, const char *name, size_t len)
{
    size_t i = hash_key(name, len) & (SLOTS - 1);

    if (t->slots == NULL)
        t->slots = mem_zalloc(SLOTS * sizeof *t->slots);
    while (t->slots[i] != 0) {
        const struct sink_topic *topic = t->sink->topics[t->slots[i] - 1];

        if (topic->len == len && memcmp(topic->name, name, len) == 0)
            break;
        i = (i + 1) & (SLOTS - 1);
    }
    return &t->slots[i];
}

int
sink_task_topic(struct sink_task *t, const char *name, size_t len,
                uint32_t *ret, struct err *e)
{
    struct sink *s = t->sink;
    uint16_t *slot;
    int r;

    if (atomic_load_explicit(&s->broken, memory_order_relaxed) != NULL)
        return sink_broken_error(s, e);
    slot = slot_of(t, name, len);
    if (*slot == 0) {
        if (!is_name(name, len))
            return err_record(e, CAUSE_ENCODE,
                              "topic: \"%.*s\" is no topic name (letters, "
                              "digits, . _ -, at most %d)",
                              (int)(len < 300 ? len : 300), name,
                              NAME_MAX_BYTES);
        r = want(s, name, len, ret, e);
        if (r != 0)
            return r;
        *slot = (uint16_t)(*ret + 1);
    }
    *ret = *slot - 1u;
    if (atomic_load_explicit(&s->topics[*ret]->ready, memory_order_acquire))
        return 0;
    /* Order: say that we wait, then look. */
    atomic_store(&t->waiting, true);
    if (atomic_load(&s->topics[*ret]->ready))
        return 0; /* a wake too many is harmless */
    return atomic_load(&s->broken) != NULL ? sink_broken_error(s, e)
                                           : ERR_AGAIN;
}

int32_t
sink_task_partitions(struct sink_task *t, uint32_t topic)
{
    return t->sink->topics[topic]->partitions;
}
