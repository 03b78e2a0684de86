/*
 * What keyed state costs: a value read and written, hot and over many keys,
 * maps and lists, first-seen over many keys, timers, rounds; memory a key, a
 * map entry and a timer. Prints one line a figure, asserts nothing.
 *
 * usage: bench_kstate [KEYS]      (10000000)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/hash.h"
#include "core/kstate.h"

enum { HOT_KEYS = 1000, HOT_CALLS = 20000000, GROUPS = 128, BATCH = 256 };

static unsigned long keys = 10000000;
static struct err err;

/* Time of the processor, so that other load shows less. */
static double
now(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Memory of the process, bytes. */
static double
resident(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    unsigned long size, rss = 0;

    if (f == NULL)
        return 0;
    if (fscanf(f, "%lu %lu", &size, &rss) != 2)
        rss = 0;
    (void)fclose(f);
    return (double)rss * 4096;
}

static void
say(const char *what, double value, const char *unit)
{
    (void)printf("%-52s %12.1f %s\n", what, value, unit);
    (void)fflush(stdout);
}

static void
must(int r)
{
    if (r >= 0)
        return;
    (void)fprintf(stderr, "%s\n", err.msg);
    exit(1);
}

/* Keys as orders have them. 13 bytes. */
struct key {
    unsigned char bytes[16];
    uint32_t len;
    uint64_t hash;
};

static void
make_key(struct key *k, uint64_t i)
{
    uint64_t h = hash_splitmix(i);

    k->bytes[0] = KEY_STR;
    memcpy(k->bytes + 1, "c-", 2);
    memcpy(k->bytes + 3, &h, 8);
    k->bytes[11] = 0;
    k->bytes[12] = 0;
    k->len = 13;
    k->hash = hash_key(k->bytes, k->len);
}

/* ---- values ---- */

static void
hot_value(const char *what, int64_t ttl, bool undo, size_t len)
{
    struct kstate_handle h = {.name = "v", .kind = KSTATE_VALUE, .ttl_ms = ttl};
    struct kstate *k = kstate_new(&h, 1);
    static struct key at[HOT_KEYS];
    unsigned long i, sum = 0;
    char value[64] = {0};
    double t;

    kstate_track(k, GROUPS);
    for (i = 0; i < HOT_KEYS; i++)
        make_key(&at[i], i);
    t = now();
    for (i = 0; i < HOT_CALLS; i++) {
        const struct key *key = &at[i % HOT_KEYS];
        const void *p;
        uint32_t n = 0;

        kstate_key(k, key->bytes, key->len, key->hash);
        kstate_now(k, (int64_t)i, 0);
        kstate_begin(k);
        p = kstate_value_get(k, 0, &n);
        sum += p != NULL ? *(const unsigned char *)p : 0;
        value[0] = (char)i;
        must(kstate_value_set(k, 0, value, len, &err));
        if (undo)
            kstate_undo(k);
        else
            kstate_commit(k);
    }
    t = now() - t;
    say(what, t / HOT_CALLS * 1e9, sum == 1 ? "ns!" : "ns");
    kstate_free(&k);
}

/* ---- first seen, over many keys ---- */

static void
first_seen(void)
{
    struct kstate_handle h = {
        .name = "seen", .kind = KSTATE_VALUE, .ttl_ms = 3600000};
    struct kstate *k = kstate_new(&h, 1);
    double before = resident(), t = now(), most = 0;
    unsigned long i, n;
    struct snapshot *s;
    bool more = true;

    kstate_track(k, GROUPS);
    for (i = 0; i < keys; i += BATCH) {
        static struct key at[BATCH];
        double one = now();
        int b;

        for (b = 0; b < BATCH; b++) {
            make_key(&at[b], i + (unsigned long)b);
            kstate_prefetch(k, at[b].hash, false);
        }
        for (b = 0; b < BATCH; b++)
            kstate_prefetch(k, at[b].hash, true);
        for (b = 0; b < BATCH; b++) {
            uint32_t len;

            kstate_key(k, at[b].bytes, at[b].len, at[b].hash);
            kstate_now(k, (int64_t)(i / 100), 0);
            if (kstate_value_get(k, 0, &len) == NULL)
                must(kstate_value_set(k, 0, NULL, 0, &err));
        }
        one = now() - one;
        most = one > most ? one : most;
    }
    say("first seen, new keys", (now() - t) / (double)keys * 1e9, "ns a key");
    say("  longest batch of 256", most * 1e6, "us");
    say("  memory", (resident() - before) / (double)keys, "bytes a key");
    say("  counted", (double)kstate_bytes(k) / (double)keys, "bytes a key");
    t = now();
    s = kstate_freeze(k, 1);
    say("  freeze", (now() - t) * 1e6, "us");
    t = now();
    while (kstate_save(k, 1024))
        ;
    say("  save", (now() - t) / (double)keys * 1e9, "ns a key");
    snapshot_free(&s);
    t = now();
    for (n = 0; more; n++)
        more = kstate_clean(k, (int64_t)(keys / 200), 0, 1024);
    say("clean, nothing expired", (now() - t) / (double)keys * 1e9, "ns a key");
    t = now();
    most = 0;
    for (more = true; more;) {
        double one = now();

        more = kstate_clean(k, INT64_MAX - 1, 0, 1024);
        one = now() - one;
        most = one > most ? one : most;
    }
    say("clean, all expired", (now() - t) / (double)keys * 1e9, "ns a key");
    say("  longest piece of 1024", most * 1e6, "us");
    say("  keys left", (double)kstate_keys(k), "");
    kstate_free(&k);
}

/* ---- a large map ---- */

static void
large_map(void)
{
    struct kstate_handle h = {.name = "m", .kind = KSTATE_MAP, .ttl_ms = -1};
    struct kstate *k = kstate_new(&h, 1);
    unsigned long n = keys / 10, i;
    struct kstate_bytes key, value = {"12345678", 8};
    double before = resident(), t = now();
    struct kstate_iter it;
    struct key one, at;

    kstate_track(k, GROUPS);
    make_key(&one, 0);
    kstate_key(k, one.bytes, one.len, one.hash);
    kstate_now(k, 0, 0);
    for (i = 0; i < n; i++) {
        make_key(&at, i);
        key = (struct kstate_bytes){at.bytes, at.len};
        kstate_begin(k);
        must(kstate_map_put(k, 0, &key, &value, &err));
        kstate_commit(k);
    }
    say("map put, new", (now() - t) / (double)n * 1e9, "ns");
    say("  memory", (resident() - before) / (double)n, "bytes an entry");
    t = now();
    for (i = 0; i < n; i++) {
        uint32_t len;

        make_key(&at, hash_splitmix(i) % n);
        key = (struct kstate_bytes){at.bytes, at.len};
        (void)kstate_map_get(k, 0, &key, &len);
    }
    say("map get, any entry", (now() - t) / (double)n * 1e9, "ns");
    t = now();
    kstate_map_begin(k, 0, &it);
    say("map walk, sorting", (now() - t) / (double)n * 1e9, "ns an entry");
    t = now();
    while (kstate_map_next(k, &it, &key, &value))
        ;
    say("map walk", (now() - t) / (double)n * 1e9, "ns an entry");
    kstate_free(&k);
}

static void
list_adds(void)
{
    struct kstate_handle h = {.name = "l", .kind = KSTATE_LIST, .ttl_ms = -1};
    struct kstate *k = kstate_new(&h, 1);
    unsigned long n = keys / 10, i;
    double t = now();
    struct key one;

    kstate_track(k, GROUPS);
    make_key(&one, 0);
    for (i = 0; i < n; i++) {
        kstate_key(k, one.bytes, one.len, one.hash);
        kstate_begin(k);
        must(kstate_list_add(k, 0, "123456789", 9, &err));
        kstate_commit(k);
    }
    say("list add", (now() - t) / (double)n * 1e9, "ns");
    kstate_free(&k);
}

/* ---- timers ---- */

/* n timers over `span` ms, one a key; then all fire. */
static void
timers(const char *what, int64_t span, bool kept)
{
    struct kstate *k = kstate_new(NULL, 0);
    double before = resident(), t = now(), most = 0, one;
    struct snapshot *s = NULL;
    unsigned long i, n = 0;
    int64_t ts, wm;
    struct key at;

    kstate_track(k, GROUPS);
    (void)kstate_timer_next(k, KSTATE_EVENT, 1699999000000, &ts);
    for (i = 0; i < keys; i++) {
        make_key(&at, i);
        kstate_key(k, at.bytes, at.len, at.hash);
        ts = 1700000000000 + (int64_t)(hash_splitmix(i * 7) % (uint64_t)span);
        kstate_begin(k);
        (void)kstate_timer_add(k, KSTATE_EVENT, ts);
        kstate_commit(k);
    }
    (void)printf("%s\n", what);
    say("  register", (now() - t) / (double)keys * 1e9, "ns");
    kstate_key(k, NULL, 0, 0);
    if (kept) {
        s = kstate_freeze(k, 1);
        t = now();
        while (kstate_save(k, 1024))
            ;
        say("  save", (now() - t) / (double)keys * 1e9, "ns");
        snapshot_free(&s);
    }
    say("  memory, with the key", (resident() - before) / (double)keys,
        "bytes");
    say("  counted", (double)kstate_bytes(k) / (double)keys, "bytes");
    t = now();
    for (wm = 1700000000000; kstate_timers(k, KSTATE_EVENT) > 0;
         wm += span / 1000 + 1) {
        one = now();
        while (kstate_timer_next(k, KSTATE_EVENT, wm, &ts)) {
            double end;

            kstate_begin(k);
            kstate_commit(k);
            if (++n % 256 != 0)
                continue;
            end = now();
            most = end - one > most ? end - one : most;
            one = end;
        }
    }
    say("  fire", (now() - t) / (double)keys * 1e9, "ns");
    say("  longest for 256", most * 1e6, "us");
    kstate_free(&k);
}

/* A silent device: each record moves its key's timer. */
static void
moving_timers(void)
{
    struct kstate *k = kstate_new(NULL, 0);
    unsigned long i, n = keys / 10;
    double t = now();
    struct key at;

    kstate_track(k, GROUPS);
    for (i = 0; i < keys; i++) {
        make_key(&at, i % n);
        kstate_key(k, at.bytes, at.len, at.hash);
        kstate_begin(k);
        if (i >= n)
            (void)kstate_timer_delete(k, KSTATE_EVENT,
                                      (int64_t)(i - n) / 100 + 60000);
        (void)kstate_timer_add(k, KSTATE_EVENT, (int64_t)i / 100 + 60000);
        kstate_commit(k);
    }
    say("timers moved (delete, register)", (now() - t) / (double)keys * 1e9,
        "ns");
    kstate_free(&k);
}

int
main(int argc, char **argv)
{
    if (argc > 1)
        keys = strtoul(argv[1], NULL, 10);
    hot_value("value get and set, a call", -1, false, 9);
    hot_value("value get and set, ttl", 3600000, false, 9);
    hot_value("value get and set, undone", -1, true, 9);
    hot_value("value get and set, 48 bytes", -1, false, 48);
    list_adds();
    large_map();
    first_seen();
    timers("timers over an hour", 3600000, false);
    timers("timers over an hour, saved before", 3600000, true);
    timers("timers of one millisecond", 1, false);
    moving_timers();
    return 0;
}
