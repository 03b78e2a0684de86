#include "core/watermark.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "core/blob.h"
#include "core/rec.h"

enum { BLOB_VERSION = 1, FOLLOW_MS = 10 };

/* The numbers are those of the blob. */
enum part_state { PART_ACTIVE = 0, PART_IDLE = 1, PART_FINISHED = 2 };

/* In the blob, beside the state: as it was restored; not added yet. */
enum { AS_RESTORED = 4 };

struct kept { /* a partition of the round it was restored from */
    char *topic;
    int32_t partition;
    int64_t wm;
    enum part_state state;
    bool taken; /* some partition goes on from it */
    bool as_restored;
    uint32_t task; /* of then, that said so */
};

struct wm_part {
    struct wm_part *next;
    int64_t wm; /* the owner's */
    int64_t ooo;
    int64_t published;     /* under the lock: wm others may see */
    int64_t at_end_ms;     /* under the lock: -1 = not at the end */
    enum part_state state; /* under the lock */
    uint16_t topic;        /* under the lock: where its records come from */
    int32_t partition;
};

struct wm_source {
    pthread_mutex_t lock;
    struct wm_conf conf;
    struct wm_part *parts;
    int64_t combined;
    uint32_t missing; /* subtasks whose first partitions are not all here */
    int64_t all_idle_since;       /* monotonic ms, -1 = not all idle */
    int64_t all_idle_base;        /* combined when they became so */
    const struct wm_part *holder; /* active one with the least watermark */
    int64_t held_wm, held_since;  /* what it stands at, since when */
    bool restored;                /* wm_source_restore() was called */
    bool known; /* and gave something: others are discovered */
    struct kept *kept;
    size_t kept_cap;
    uint32_t kept_count;
};

struct wm_source *
wm_source_new(const struct wm_conf *conf)
{
    struct wm_source *s = mem_zalloc(sizeof *s);

    (void)pthread_mutex_init(&s->lock, NULL);
    s->conf = *conf;
    s->combined = WM_NONE;
    s->missing = conf->tasks;
    s->all_idle_since = -1;
    return s;
}

void
wm_source_free(struct wm_source **sp)
{
    struct wm_source *s = *sp;
    uint32_t i;

    *sp = NULL;
    if (s == NULL)
        return;
    for (i = 0; i < s->kept_count; i++)
        free(s->kept[i].topic);
    free(s->kept);
    while (s->parts != NULL) {
        struct wm_part *p = s->parts;

        s->parts = p->next;
        free(p);
    }
    (void)pthread_mutex_destroy(&s->lock);
    free(s);
}

void
wm_source_ready(struct wm_source *s)
{
    (void)pthread_mutex_lock(&s->lock);
    if (s->missing > 0)
        s->missing--;
    (void)pthread_mutex_unlock(&s->lock);
}

struct wm_part *
wm_part_add(struct wm_source *s, bool discovered)
{
    struct wm_part *p = mem_zalloc(sizeof *p);

    p->wm = p->published = WM_NONE;
    p->ooo = s->conf.out_of_orderness_ms;
    p->at_end_ms = -1;
    (void)pthread_mutex_lock(&s->lock);
    if (discovered)
        p->wm = p->published = s->combined;
    p->next = s->parts;
    s->parts = p;
    s->all_idle_since = -1;
    (void)pthread_mutex_unlock(&s->lock);
    return p;
}

static struct kept *
find_kept(struct wm_source *s, const char *topic, size_t len, int32_t partition)
{
    uint32_t i;

    for (i = 0; i < s->kept_count; i++)
        if (!s->kept[i].taken && s->kept[i].partition == partition &&
            strlen(s->kept[i].topic) == len &&
            memcmp(s->kept[i].topic, topic, len) == 0)
            return &s->kept[i];
    return NULL;
}

void
wm_part_name(struct wm_source *s, struct wm_part *p, uint16_t topic,
             int32_t partition)
{
    const char *name = topic_name(topic);
    struct kept *k;

    (void)pthread_mutex_lock(&s->lock);
    p->topic = topic;
    p->partition = partition;
    if (s->known) {
        k = find_kept(s, name, strlen(name), partition);
        p->wm = k != NULL ? k->wm : s->combined;
        p->published = p->wm;
        if (k != NULL) {
            p->state = k->state;
            k->taken = true;
        }
    }
    (void)pthread_mutex_unlock(&s->lock);
}

static void
put_part(struct buf *out, const char *topic, int32_t partition, int state,
         int64_t wm)
{
    blob_put_bytes(out, topic, strlen(topic));
    blob_put(out, (uint32_t)partition, 4);
    blob_put(out, (uint64_t)state, 1);
    blob_put(out, (uint64_t)wm, 8);
}

/* version, whether it stands still, combined watermark, count; then of each
 * partition: topic, partition, state, watermark. A partition that a subtask
 * has still to add stands where it was restored: its position does, too. */
void
wm_source_put(struct wm_source *s, struct wm_part *const *parts, uint32_t n,
              bool end, struct buf *out)
{
    uint32_t i, count = 0;
    bool still = end;

    (void)pthread_mutex_lock(&s->lock);
    for (i = 0; i < s->kept_count; i++)
        count += !s->kept[i].taken;
    for (i = 0; i < n; i++) {
        if (parts[i] == NULL)
            continue;
        count++;
        still = still && parts[i]->state == PART_FINISHED;
    }
    blob_put(out, BLOB_VERSION, 1);
    blob_put(out, still, 1);
    blob_put(out, (uint64_t)s->combined, 8);
    blob_put(out, count, 4);
    for (i = 0; i < n; i++)
        if (parts[i] != NULL)
            put_part(out, topic_name(parts[i]->topic), parts[i]->partition,
                     (int)parts[i]->state, parts[i]->wm);
    for (i = 0; i < s->kept_count; i++)
        if (!s->kept[i].taken)
            put_part(out, s->kept[i].topic, s->kept[i].partition,
                     (int)s->kept[i].state | AS_RESTORED, s->kept[i].wm);
    (void)pthread_mutex_unlock(&s->lock);
}

static void
get_part(struct wm_source *s, struct blob_reader *r, uint32_t task)
{
    struct kept k = {.task = task}, *twin;
    size_t len;
    const char *topic = blob_get_bytes(r, &len);
    unsigned state;

    k.partition = (int32_t)(uint32_t)blob_get(r, 4);
    state = (unsigned)blob_get(r, 1);
    k.wm = (int64_t)blob_get(r, 8);
    k.as_restored = (state & AS_RESTORED) != 0;
    k.state = (enum part_state)(state & ~(unsigned)AS_RESTORED);
    if (r->bad || k.state > PART_FINISHED) {
        r->bad = true;
        return;
    }
    /* Every subtask names what nobody has added; who has it knows better.
     * (Partitions of a connector that cannot tell them apart share a name.) */
    twin = find_kept(s, topic, len, k.partition);
    if (twin != NULL && k.as_restored &&
        (!twin->as_restored || twin->task != task))
        return;
    if (twin != NULL && !k.as_restored && twin->as_restored) {
        k.topic = twin->topic;
        *twin = k;
        return;
    }
    k.topic = mem_dup(topic, len);
    mem_grow(&s->kept, &s->kept_cap, s->kept_count + 1u, sizeof *s->kept);
    s->kept[s->kept_count++] = k;
}

static int
restore(struct wm_source *s, const struct step_blobs *b, struct err *e)
{
    int64_t least = WM_MAX, most = WM_NONE;
    bool moving = false;
    uint32_t i, n;

    for (i = 0; i < b->count; i++) {
        struct blob_reader r = blob_read(&b->blobs[i]);
        bool current = blob_get(&r, 1) == BLOB_VERSION;
        bool still = blob_get(&r, 1) != 0;
        int64_t wm = (int64_t)blob_get(&r, 8);

        for (n = (uint32_t)blob_get(&r, 4); n > 0 && !r.bad; n--)
            get_part(s, &r, i);
        if (!current || !blob_done(&r))
            return err_set(e, ERR_IO,
                           "what a round kept of the watermarks of '%s' is "
                           "damaged",
                           b->step);
        moving = moving || !still;
        least = !still && wm < least ? wm : least;
        most = wm > most ? wm : most;
    }
    s->combined = moving ? least : most;
    s->known = b->count > 0;
    return 0;
}

int
wm_source_restore(struct wm_source *s, const struct step_blobs *b,
                  struct err *e)
{
    int r = 0;

    (void)pthread_mutex_lock(&s->lock);
    if (!s->restored && b != NULL)
        r = restore(s, b, e);
    s->restored = true;
    (void)pthread_mutex_unlock(&s->lock);
    return r;
}

int64_t
wm_part_now(const struct wm_part *p)
{
    return p->wm;
}

void
wm_part_record(struct wm_part *p, int64_t ts)
{
    int64_t wm = ts - p->ooo - 1;

    if (wm > p->wm)
        p->wm = wm;
}

void
wm_part_wake(struct wm_source *s, struct wm_part *p)
{
    (void)pthread_mutex_lock(&s->lock);
    if (p->state == PART_IDLE) {
        p->state = PART_ACTIVE;
        if (p->wm < s->combined)
            p->wm = p->published = s->combined;
        s->all_idle_since = -1;
    }
    p->at_end_ms = -1;
    (void)pthread_mutex_unlock(&s->lock);
}

void
wm_part_publish(struct wm_source *s, struct wm_part *p)
{
    (void)pthread_mutex_lock(&s->lock);
    p->published = p->wm;
    (void)pthread_mutex_unlock(&s->lock);
}

void
wm_part_at_end(struct wm_source *s, struct wm_part *p, int64_t now_ms)
{
    (void)pthread_mutex_lock(&s->lock);
    if (p->at_end_ms == -1)
        p->at_end_ms = now_ms;
    (void)pthread_mutex_unlock(&s->lock);
}

void
wm_part_idle(struct wm_source *s, struct wm_part *p)
{
    (void)pthread_mutex_lock(&s->lock);
    if (p->state == PART_ACTIVE)
        p->state = PART_IDLE;
    (void)pthread_mutex_unlock(&s->lock);
}

void
wm_part_reach(struct wm_source *s, struct wm_part *p, int64_t wm)
{
    (void)pthread_mutex_lock(&s->lock);
    if (wm > p->wm)
        p->wm = p->published = wm;
    if (p->state == PART_IDLE) /* the largest of the idle ones may be new */
        s->all_idle_since = -1;
    (void)pthread_mutex_unlock(&s->lock);
}

void
wm_part_finish(struct wm_source *s, struct wm_part *p)
{
    (void)pthread_mutex_lock(&s->lock);
    p->state = PART_FINISHED;
    (void)pthread_mutex_unlock(&s->lock);
}

struct sums {
    int64_t active_min, idle_max;
    uint32_t active, idle, finished;
    const struct wm_part *holder;
};

static void
sum_parts(struct wm_source *s, int64_t now_ms, struct sums *m)
{
    struct wm_part *p;

    *m = (struct sums){.active_min = WM_MAX, .idle_max = WM_NONE};
    for (p = s->parts; p != NULL; p = p->next) {
        if (p->state == PART_ACTIVE && p->at_end_ms != -1 &&
            s->conf.idle_ms >= 0 && now_ms - p->at_end_ms >= s->conf.idle_ms)
            p->state = PART_IDLE;
        if (p->state == PART_ACTIVE) {
            m->active++;
            if (m->holder == NULL || p->published < m->active_min) {
                m->active_min = p->published;
                m->holder = p;
            }
        } else if (p->state == PART_IDLE) {
            m->idle++;
            if (p->published > m->idle_max)
                m->idle_max = p->published;
        } else {
            m->finished++;
        }
    }
}

/* Nothing active but something idle: the largest, then hold or follow. */
static int64_t
all_idle(struct wm_source *s, int64_t idle_max, int64_t now_ms)
{
    int64_t past;

    if (s->all_idle_since == -1) {
        s->all_idle_since = now_ms;
        s->all_idle_base = idle_max > s->combined ? idle_max : s->combined;
    }
    if (s->conf.all_idle_ms < 0 || s->all_idle_base == WM_NONE)
        return s->all_idle_base;
    past = now_ms - s->all_idle_since - s->conf.all_idle_ms;
    return past > 0 ? s->all_idle_base + past : s->all_idle_base;
}

/* Remember since when the same partition stands at the same watermark. */
static void
note_holder(struct wm_source *s, const struct sums *m, int64_t now_ms)
{
    if (m->holder == s->holder && m->active_min == s->held_wm)
        return;
    s->holder = m->holder;
    s->held_wm = m->active_min;
    s->held_since = now_ms;
}

bool
wm_source_holder(struct wm_source *s, uint16_t *ret_topic,
                 int32_t *ret_partition, int64_t *ret_since_ms)
{
    bool held;

    (void)pthread_mutex_lock(&s->lock);
    held = s->holder != NULL;
    if (held) {
        *ret_topic = s->holder->topic;
        *ret_partition = s->holder->partition;
        *ret_since_ms = s->held_since;
    }
    (void)pthread_mutex_unlock(&s->lock);
    return held;
}

int64_t
wm_source_now(struct wm_source *s, int64_t now_ms, bool *ret_idle)
{
    struct sums m;
    int64_t wm = WM_NONE;

    (void)pthread_mutex_lock(&s->lock);
    sum_parts(s, now_ms, &m);
    note_holder(s, &m, now_ms);
    *ret_idle = false;
    if (s->missing != 0) {
        wm = WM_NONE;
    } else if (m.active != 0) {
        wm = m.active_min;
    } else if (m.idle != 0) {
        wm = all_idle(s, m.idle_max, now_ms);
        *ret_idle = s->conf.all_idle_ms < 0;
    } else if (m.finished != 0) {
        wm = WM_MAX;
    }
    if (wm > s->combined)
        s->combined = wm;
    wm = s->combined;
    (void)pthread_mutex_unlock(&s->lock);
    return wm;
}

int64_t
wm_source_wait(struct wm_source *s, int64_t now_ms)
{
    int64_t follow = s->conf.follow_ms > 0 ? s->conf.follow_ms : FOLLOW_MS;
    int64_t wait = -1;
    struct wm_part *p;

    (void)pthread_mutex_lock(&s->lock);
    for (p = s->parts; p != NULL; p = p->next) {
        int64_t rest;

        if (p->state != PART_ACTIVE || p->at_end_ms == -1 ||
            s->conf.idle_ms < 0)
            continue;
        rest = p->at_end_ms + s->conf.idle_ms - now_ms;
        if (rest < 0)
            rest = 0;
        if (wait == -1 || rest < wait)
            wait = rest;
    }
    if (s->all_idle_since != -1 && s->conf.all_idle_ms >= 0 &&
        (wait == -1 || wait > follow))
        wait = follow;
    (void)pthread_mutex_unlock(&s->lock);
    return wait;
}

void
wm_input_init(struct wm_input *w, uint32_t count)
{
    uint32_t i;

    memset(w, 0, sizeof *w);
    w->lanes = mem_zalloc((count + 1) * sizeof *w->lanes);
    w->count = count;
    w->wm = WM_NONE;
    for (i = 0; i < count; i++)
        w->lanes[i].wm = WM_NONE;
}

void
wm_input_fini(struct wm_input *w)
{
    free(w->lanes);
    memset(w, 0, sizeof *w);
}

static bool
combine(struct wm_input *w)
{
    int64_t active = WM_MAX, idle = WM_NONE, wm;
    uint32_t i, active_n = 0, idle_n = 0, finished_n = 0;
    bool was_idle = w->idle;

    for (i = 0; i < w->count; i++) {
        const struct wm_input_lane *l = &w->lanes[i];

        if (l->wm == WM_MAX) {
            finished_n++;
        } else if (l->ended) {
            continue;
        } else if (l->idle) {
            idle_n++;
            idle = l->wm > idle ? l->wm : idle;
        } else {
            active_n++;
            active = l->wm < active ? l->wm : active;
        }
    }
    w->idle = active_n == 0 && idle_n != 0;
    if (active_n + idle_n == 0 && finished_n != w->count)
        return false;
    wm = active_n != 0 || idle_n == 0 ? active : idle;
    if (wm <= w->wm)
        return was_idle != w->idle;
    w->wm = wm;
    return true;
}

bool
wm_input_set(struct wm_input *w, uint32_t i, int64_t wm, bool idle)
{
    if (wm > w->lanes[i].wm)
        w->lanes[i].wm = wm;
    w->lanes[i].idle = idle;
    return combine(w);
}

bool
wm_input_end(struct wm_input *w, uint32_t i)
{
    w->lanes[i].ended = true;
    return combine(w);
}
