#include "kafka/txn.h"

#include <assert.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "kafka/admin.h"
#include "kafka/txn_impl.h"

enum {
    SLACK_MS = 80000,   /* redo deadline and a reserve, DESIGN section 9 */
    ADD_MS = 120000,    /* default timeout: 2 intervals and this */
    STUCK_MS = 30000,   /* a call that does not end although the broker is
                           there, at least */
    RETRY_MS = 20,      /* between two tries */
    TELL_MS = 10000,    /* between two lines about a wait */
    ANSWER_MS = 200,    /* is the broker there? */
    SETTINGS_MS = 2000, /* one question about settings */
    NUMBER_MAX = 32
};

/* ---------------------------------------------------------- listeners */

void
txn_listen(struct txn *t, struct txn_listener *l)
{
    struct txn_listener *none = NULL;
    int i = 0;

    while (!atomic_compare_exchange_strong(&t->listeners[i], &none, l)) {
        none = NULL;
        i++;
        assert(i < TXN_LISTENERS_MAX);
    }
}

void
txn_unlisten(struct txn *t, struct txn_listener *l)
{
    int i;

    for (i = 0; i < TXN_LISTENERS_MAX; i++) {
        struct txn_listener *mine = l;

        (void)atomic_compare_exchange_strong(&t->listeners[i], &mine, NULL);
    }
    while (atomic_load(&t->telling) > 0)
        (void)sched_yield();
}

void
txn_tell(struct txn *t)
{
    int i;

    /* Before it looks: who unlistens either is not seen any more, or sees
     * that it is still looked at. */
    atomic_fetch_add(&t->telling, 1);
    for (i = 0; i < TXN_LISTENERS_MAX; i++) {
        struct txn_listener *l = atomic_load(&t->listeners[i]);

        if (l != NULL)
            l->tell(l->arg);
    }
    atomic_fetch_sub(&t->telling, 1);
}

/* ------------------------------------------------------------- errors */

void
txn_set_broken(struct txn *t, const struct err *e)
{
    struct err *mine = mem_alloc(sizeof *mine), *none = NULL;

    *mine = *e;
    if (!atomic_compare_exchange_strong(&t->broken, &none, mine))
        free(mine);
    txn_tell(t);
}

int
txn_fault(const char *point, struct err *e)
{
    int r = err_set(e, ERR_UNAVAILABLE, "fault point %s", point);

    if (e != NULL)
        e->flags |= ERR_RETRIABLE;
    return r;
}

int
txn_broken(struct txn *t, struct err *e)
{
    /* Acquire: the text was written before the pointer. */
    const struct err *b =
        atomic_load_explicit(&t->broken, memory_order_acquire);

    if (b == NULL)
        return 0;
    if (e != NULL)
        *e = *b;
    return b->code;
}

bool
txn_fenced(const struct txn *t)
{
    return atomic_load(&t->fenced);
}

int64_t
txn_open_ms(const struct txn *t)
{
    int64_t now = clock_mono_ms(), most = 0;
    int i;

    for (i = 0; i < TXN_IDS; i++) {
        int64_t since =
            atomic_load_explicit(&t->handles[i].open_ms, memory_order_relaxed);

        if (since != 0 && now - since > most)
            most = now - since;
    }
    return most;
}

void
txn_patience(struct txn *t, struct client *c, const char *what,
             struct patience *ret)
{
    int64_t now = clock_mono_ms();

    ret->client = c;
    ret->what = what;
    ret->since_ms = ret->told_ms = now;
    ret->limit_ms = now + c->connect_ms;
    if (!t->running)
        return;
    ret->limit_ms = 3 * t->interval_ms;
    if (ret->limit_ms < STUCK_MS)
        ret->limit_ms = STUCK_MS;
}

static int
stuck(const struct patience *p, int64_t now, struct err *e)
{
    struct client *c = p->client;

    (void)err_set(e, ERR_UNAVAILABLE,
                  "%s: %s did not end within %" PRId64 " ms although the "
                  "broker answers: %s",
                  c->name, p->what, now - p->since_ms, client_reason(c));
    err_where(e, "%s", c->place);
    if (e != NULL)
        e->flags |= ERR_RETRIABLE;
    return ERR_UNAVAILABLE;
}

/* While the job runs, an outage is waited for; only a call that does not
 * end although the broker is there is given up. */
static int
outlast(struct patience *p, struct err *e)
{
    struct client *c = p->client;
    int64_t now;

    if (atomic_load(&c->auth_failed))
        return client_login_failed(c, e);
    if (!client_answers(c, ANSWER_MS))
        p->since_ms = clock_mono_ms();
    now = clock_mono_ms();
    if (now - p->since_ms >= p->limit_ms)
        return stuck(p, now, e);
    if (now - p->told_ms >= TELL_MS) {
        p->told_ms = now;
        log_line(LOG_WARN, "%s: %s: still waiting: %s", c->name, p->what,
                 client_reason(c));
    }
    return 0;
}

int
txn_patient(struct txn *t, struct patience *p, struct err *e)
{
    struct timespec ts = {.tv_nsec = RETRY_MS * 1000000L};
    int64_t now = clock_mono_ms();
    int r;

    if (t->running)
        r = outlast(p, e);
    else if (now >= p->limit_ms && !atomic_load(&p->client->auth_failed) &&
             client_answers(p->client, ANSWER_MS))
        r = stuck(p, now, e);
    else
        r = client_retry(p->client, p->limit_ms, e);
    if (r == 0)
        (void)nanosleep(&ts, NULL);
    return r;
}

/* ---------------------------------------------------- making and ending */

static int
timeout_error(const struct txn *t, struct err *e)
{
    int64_t least = 2 * t->interval_ms + SLACK_MS;

    if (t->timeout_ms < least) {
        (void)err_set(e, ERR_CONFIG,
                      "%s: transaction.timeout.ms is %" PRId64 ", but a "
                      "checkpoint interval of %" PRId64 " ms needs at least "
                      "%" PRId64 " (2 intervals and 80 s)",
                      t->reader->name, t->timeout_ms, t->interval_ms, least);
        err_hint(e, "raise it in properties, or shorten the interval of "
                    "checkpoints");
    } else if (t->timeout_max_ms > 0 && t->timeout_ms > t->timeout_max_ms) {
        (void)err_set(e, ERR_CONFIG,
                      "%s: transaction.timeout.ms is %" PRId64 ", but the "
                      "broker allows at most %" PRId64
                      " (transaction.max.timeout.ms)",
                      t->reader->name, t->timeout_ms, t->timeout_max_ms);
        err_hint(e,
                 "shorten the interval of checkpoints (%" PRId64 " ms), "
                 "or raise the broker's transaction.max.timeout.ms",
                 t->interval_ms);
    } else {
        return 0;
    }
    err_where(e, "%s", t->reader->place);
    return ERR_CONFIG;
}

/* The timeout that job, step and -X ask for, else the default. */
static int
read_timeout(struct txn *t, struct err *e)
{
    struct client *c = client_new(CLIENT_PRODUCER, &t->env);
    rd_kafka_conf_t *conf = NULL;
    char text[NUMBER_MAX] = "";
    size_t size = sizeof text;
    int r = client_conf(c, &t->env, &conf, e);

    t->timeout_ms = 2 * t->interval_ms + ADD_MS;
    if (r == 0) {
        if (client_is_set(&t->env, "transaction.timeout.ms") &&
            rd_kafka_conf_get(conf, "transaction.timeout.ms", text, &size) ==
                RD_KAFKA_CONF_OK)
            t->timeout_ms = strtoll(text, NULL, 10);
        rd_kafka_conf_destroy(conf);
    }
    client_close(&c);
    return r;
}

static int
preflight(struct txn *t, struct err *e)
{
    char text[NUMBER_MAX];
    int r = read_timeout(t, e);

    if (r == 0)
        r = txn_reader_open(t, e);
    if (r != 0)
        return r;
    if (admin_setting(t->reader, NULL, "transaction.max.timeout.ms",
                      SETTINGS_MS, text, sizeof text))
        t->timeout_max_ms = strtoll(text, NULL, 10);
    return timeout_error(t, e);
}

int
txn_new(const struct txn_conf *conf, struct txn **ret, struct err *e)
{
    struct txn *t = mem_zalloc(sizeof *t);
    char name[512];
    int r, i;

    assert(strlen(conf->owner) < TXN_OWNER_MAX);
    t->env = *conf->env;
    t->interval_ms = conf->interval_ms;
    t->prefix = mem_strdup(conf->prefix);
    (void)snprintf(name, sizeof name, "%s-marker", conf->prefix);
    t->topic = mem_strdup(name);
    (void)snprintf(t->owner, sizeof t->owner, "%s", conf->owner);
    t->end = -1;
    (void)pthread_mutex_init(&t->topics_lock, NULL);
    for (i = 0; i < TXN_IDS; i++) {
        struct txn_handle *h = &t->handles[i];

        (void)snprintf(name, sizeof name, "%s-%d", conf->prefix, i);
        h->txn = t;
        h->number = (unsigned)i;
        h->id = mem_strdup(name);
        atomic_init(&h->round, TXN_NO_ROUND);
        atomic_init(&h->marker_at, -1);
    }
    r = preflight(t, e);
    if (r != 0)
        txn_free(&t);
    else
        *ret = t;
    return r;
}

void
txn_free(struct txn **pt)
{
    struct txn *t = pt == NULL ? NULL : *pt;
    uint32_t k;
    int i;

    if (t == NULL)
        return;
    *pt = NULL;
    for (i = 0; i < TXN_IDS; i++)
        txn_handle_close(&t->handles[i]);
    client_close(&t->reader);
    if (t->left_behind)
        return; /* the client's threads may still look at it */
    for (i = 0; i < TXN_IDS; i++)
        free(t->handles[i].id);
    for (k = 0; k < atomic_load(&t->topic_count); k++)
        free(t->topics[k]);
    (void)pthread_mutex_destroy(&t->topics_lock);
    free(atomic_load(&t->broken));
    free(t->prefix);
    free(t->topic);
    free(t);
}

/* ------------------------------------------------------------- the rounds */

int
txn_init(struct txn *t, struct err *e)
{
    int i, r = 0;

    assert(!t->initialised);
    for (i = 0; r == 0 && i < TXN_IDS; i++)
        r = txn_handle_open(&t->handles[i], e);
    t->initialised = r == 0;
    return r;
}

int
txn_claim(struct txn *t, const struct txn_marker *m, struct err *e)
{
    /* By the id of the next round: a claim and a rival's next round then
     * exclude each other, and the marker never goes back behind its rows. */
    struct txn_handle *h = &t->handles[(m->round + 1) % TXN_IDS];
    int r;

    assert(t->initialised && h->client != NULL);
    r = txn_handle_begin(h, e);
    if (r == 0)
        r = txn_handle_commit(h, m, e);
    if (r == 0)
        r = txn_check_end(t, e);
    if (r == 0 && fault_hit("txn_claimed"))
        return txn_fault("txn_claimed", e);
    return r;
}

/* Under the lock. */
static int
add_topic(struct txn *t, const char *topic, struct err *e)
{
    uint32_t i = atomic_load(&t->topic_count);
    int k, r = 0;

    if (i == TXN_TOPICS_MAX)
        return err_set(e, ERR_CONFIG,
                       "%s: exactly_once sinks name more than %d topics",
                       t->reader->name, TXN_TOPICS_MAX);
    t->topics[i] = mem_strdup(topic);
    for (k = 0; r == 0 && k < TXN_IDS; k++)
        if (t->handles[k].named)
            r = txn_handle_name(&t->handles[k], i, e);
    atomic_store(&t->topic_count, i + 1);
    return r;
}

int
txn_topic(struct txn *t, const char *topic, uint32_t *ret, struct err *e)
{
    uint32_t i, n;
    int r = 0;

    (void)pthread_mutex_lock(&t->topics_lock);
    n = atomic_load(&t->topic_count);
    for (i = 0; i < n; i++)
        if (strcmp(t->topics[i], topic) == 0)
            break;
    if (i == n)
        r = add_topic(t, topic, e);
    (void)pthread_mutex_unlock(&t->topics_lock);
    *ret = i;
    return r;
}

void
txn_fit(struct txn *t, int64_t max_message_bytes)
{
    if (max_message_bytes > t->message_max)
        t->message_max = max_message_bytes;
    if (t->batch_max == 0 || max_message_bytes < t->batch_max)
        t->batch_max = max_message_bytes;
}

/* A fresh producer for its id; whoever else held it is fenced by that. */
static int
renew_handle(struct txn_handle *h, struct err *e)
{
    int r;

#ifdef STREAMLUA_TEST_MODE
    /* The control of a test: what happens without fresh producers. */
    if (h->txn->running && h->ended_ms != 0 && fault_hit("txn_keep_handle"))
        return txn_handle_begin(h, e);
#endif
    txn_handle_close(h);
    txn_handle_rest(h);
    r = txn_handle_open(h, e);
    return r != 0 ? r : txn_handle_begin(h, e);
}

int
txn_start(struct txn *t, uint64_t first, struct err *e)
{
    uint64_t k;
    int r = 0;

    assert(t->initialised && t->own.found);
    for (k = first; r == 0 && k < first + TXN_IDS; k++)
        r = renew_handle(&t->handles[k % TXN_IDS], e);
    if (r == 0)
        r = txn_check_end(t, e);
    if (r != 0)
        return r;
    t->running = true;
    for (k = first; k < first + TXN_IDS; k++)
        txn_handle_publish(&t->handles[k % TXN_IDS], k);
    txn_tell(t);
    return 0;
}

struct txn_handle *
txn_handle(struct txn *t, uint64_t round)
{
    struct txn_handle *h = &t->handles[round % TXN_IDS];

    /* Acquire: the producer was made before its round was set. */
    return atomic_load_explicit(&h->round, memory_order_acquire) == round
               ? h
               : NULL;
}

int
txn_commit(struct txn *t, const struct txn_marker *m, struct err *e)
{
    struct txn_handle *h = txn_handle(t, m->round);

    assert(h != NULL);
    return txn_handle_commit(h, m, e);
}

int
txn_renew(struct txn *t, uint64_t round, struct err *e)
{
    struct txn_handle *h = &t->handles[round % TXN_IDS];
    int r;

    assert(atomic_load(&h->round) == round && h->ended_ms != 0);
    atomic_store(&h->round, TXN_NO_ROUND);
    if (fault_hit("txn_renew"))
        return txn_fault("txn_renew", e);
    r = renew_handle(h, e);
    if (r == 0)
        r = txn_check_end(t, e);
    if (r != 0)
        return r;
    txn_handle_publish(h, round + TXN_IDS);
    txn_tell(t);
    return 0;
}
