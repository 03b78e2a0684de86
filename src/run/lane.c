#include "run/lane.h"

#include <stdlib.h>
#include <string.h>

#include <ck_pr.h>

#include "base/mem.h"

/*
 * libck orders the ring with instructions that ThreadSanitizer does not see:
 * tell it that what was sent happened before what was received.
 */
#if defined(__SANITIZE_THREAD__)
#define SEES_THREADS 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SEES_THREADS 1
#endif
#endif
#ifdef SEES_THREADS
void __tsan_acquire(void *addr);
void __tsan_release(void *addr);
#define NOTE_SENT(m) __tsan_release(m)
#define NOTE_RECEIVED(m) __tsan_acquire(m)
#else
#define NOTE_SENT(m) ((void)(m))
#define NOTE_RECEIVED(m) ((void)(m))
#endif

static bool
enqueue(struct lane *l, struct lane_msg *m)
{
    NOTE_SENT(m);
    return ck_ring_enqueue_spsc(&l->ring, l->buffer, m);
}

static void
append(struct lane *l, struct lane_msg *m)
{
    m->next = NULL;
    *l->over_end = m;
    l->over_end = &m->next;
}

static void
push(struct lane *l, struct lane_msg *m)
{
    if (l->over != NULL || !enqueue(l, m)) {
        append(l, m);
        (void)lane_pump(l);
    }
    l->wake_consumer(l->consumer);
}

bool
lane_pump(struct lane *l)
{
    bool moved = false;

    while (l->over != NULL) {
        struct lane_msg *m = l->over, *next = m->next;

        if (!enqueue(l, m)) {
            /* Ask to be called again, then look once more: the consumer may
             * have emptied the ring before it saw the flag. */
            atomic_store(&l->blocked, true);
            if (!enqueue(l, m))
                break;
        }
        l->over = next;
        moved = true;
    }
    if (l->over == NULL)
        l->over_end = &l->over;
    if (moved)
        l->wake_consumer(l->consumer);
    return l->over == NULL;
}

static struct lane_msg *
new_msg(enum lane_kind kind)
{
    struct lane_msg *m = mem_zalloc(sizeof *m);

    m->kind = kind;
    return m;
}

static int
lane_batch(struct op_out *o, struct batch *b, struct err *e)
{
    struct lane_msg *m = new_msg(LANE_BATCH);

    (void)e;
    m->batch = *b; /* arrays and arena move */
    batch_init(b);
    push((struct lane *)(void *)o, m);
    return 0;
}

static int
lane_partials(struct op_out *o, struct partials **p, struct err *e)
{
    struct lane_msg *m = new_msg(LANE_PARTIALS);

    (void)e;
    m->partials = *p;
    *p = NULL;
    push((struct lane *)(void *)o, m);
    return 0;
}

static int
lane_mark(struct op_out *o, const struct mark *mark, struct err *e)
{
    struct lane_msg *m = new_msg(LANE_MARK);

    (void)e;
    m->mark = *mark;
    push((struct lane *)(void *)o, m);
    return 0;
}

static bool
has_room(struct lane *l)
{
    return l->over == NULL && ck_ring_size(&l->ring) < l->ready;
}

static bool
lane_ready(struct op_out *o)
{
    struct lane *l = (struct lane *)(void *)o;

    if (has_room(l))
        return true;
    atomic_store(&l->blocked, true);
    return has_room(l);
}

void
lane_init(struct lane *l)
{
    memset(l, 0, sizeof *l);
    l->out = (struct op_out){lane_batch, lane_partials, lane_mark, lane_ready};
    l->buffer = mem_zalloc(LANE_SIZE * sizeof *l->buffer);
    ck_ring_init(&l->ring, LANE_SIZE);
    l->over_end = &l->over;
    l->ready = LANE_READY;
}

struct lane_msg *
lane_pop(struct lane *l)
{
    struct lane_msg *m = NULL;

    if (!ck_ring_dequeue_spsc(&l->ring, l->buffer, &m))
        return NULL;
    NOTE_RECEIVED(m);
    /* The sender set the flag and looked at the ring again; here the ring
     * changed first and the flag is looked at: one of the two must see it. */
    ck_pr_fence_store_load();
    if (ck_ring_size(&l->ring) < (l->ready + 1) / 2 &&
        atomic_exchange(&l->blocked, false))
        l->wake_producer(l->producer);
    return m;
}

void
lane_msg_free(struct lane_msg **mp)
{
    if (*mp == NULL)
        return;
    batch_fini(&(*mp)->batch);
    free(*mp);
    *mp = NULL;
}

static void
drop(struct lane_msg *m, const struct aggset *set)
{
    if (m->partials != NULL && set != NULL)
        partials_free(&m->partials, set);
    lane_msg_free(&m);
}

void
lane_fini(struct lane *l)
{
    const struct aggset *set = l->set;
    struct lane_msg *m, *next;

    while ((m = lane_pop(l)) != NULL)
        drop(m, set);
    for (m = l->over; m != NULL; m = next) {
        next = m->next;
        drop(m, set);
    }
    free(l->buffer);
    l->buffer = NULL;
}
