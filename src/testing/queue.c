#include "testing/queue.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

void
queue_set_init(struct queue_set *q, uint64_t seed)
{
    memset(q, 0, sizeof *q);
    arena_init(&q->arena);
    q->rnd = seed;
}

static void
free_source(struct queue_source *s)
{
    size_t i, k;

    for (i = 0; i < s->part_count; i++) {
        for (k = 0; k < s->parts[i].count; k++) {
            free(s->parts[i].entries[k].value);
            free(s->parts[i].entries[k].key);
        }
        free(s->parts[i].entries);
    }
    free(s->parts);
    free(s->name);
    free(s->format);
    free(s);
}

static void
free_row(struct queue_row *r)
{
    free(r->key);
    free(r->json);
}

static void
free_sink(struct queue_sink *s)
{
    size_t i;

    for (i = 0; i < s->count; i++)
        free_row(&s->rows[i]);
    free(s->rows);
    free(s->name);
    free(s->format);
    free(s);
}

void
queue_set_fini(struct queue_set *q)
{
    size_t i;

    for (i = 0; i < q->source_count; i++)
        free_source(q->sources[i]);
    for (i = 0; i < q->sink_count; i++)
        free_sink(q->sinks[i]);
    free(q->sources);
    free(q->sinks);
    arena_fini(&q->arena);
    memset(q, 0, sizeof *q);
}

void
queue_set_unlive(struct queue_set *q)
{
    size_t i;

    for (i = 0; i < q->source_count; i++)
        q->sources[i]->live = false;
    for (i = 0; i < q->sink_count; i++)
        q->sinks[i]->live = false;
}

static struct queue_source *
any_source(const struct queue_set *q, const char *name)
{
    size_t i;

    for (i = 0; i < q->source_count; i++)
        if (strcmp(q->sources[i]->name, name) == 0)
            return q->sources[i];
    return NULL;
}

static struct queue_sink *
any_sink(const struct queue_set *q, const char *name)
{
    size_t i;

    for (i = 0; i < q->sink_count; i++)
        if (strcmp(q->sinks[i]->name, name) == 0)
            return q->sinks[i];
    return NULL;
}

void
queue_add_source(struct queue_set *q, const char *name, const char *format)
{
    struct queue_source *s = any_source(q, name);

    if (s == NULL) {
        s = mem_zalloc(sizeof *s);
        s->name = mem_strdup(name);
        s->topic = topic_register(name);
        mem_grow(&q->sources, &q->source_cap, q->source_count + 1,
                 sizeof(struct queue_source *));
        q->sources[q->source_count++] = s;
    }
    free(s->format);
    s->format = mem_strdup(format);
    s->live = true;
}

void
queue_add_sink(struct queue_set *q, const char *name, const char *format)
{
    struct queue_sink *s = any_sink(q, name);

    if (s == NULL) {
        s = mem_zalloc(sizeof *s);
        s->name = mem_strdup(name);
        mem_grow(&q->sinks, &q->sink_cap, q->sink_count + 1,
                 sizeof(struct queue_sink *));
        q->sinks[q->sink_count++] = s;
    }
    free(s->format);
    s->format = mem_strdup(format);
    s->live = true;
}

struct queue_source *
queue_find_source(const struct queue_set *q, const char *name)
{
    struct queue_source *s = any_source(q, name);

    return s != NULL && s->live ? s : NULL;
}

struct queue_sink *
queue_find_sink(const struct queue_set *q, const char *name)
{
    struct queue_sink *s = any_sink(q, name);

    return s != NULL && s->live ? s : NULL;
}

struct queue_part *
queue_part(struct queue_set *q, struct queue_source *s, int32_t number,
           int64_t now_ms)
{
    struct queue_part *p;
    size_t i;

    for (i = 0; i < s->part_count; i++)
        if (s->parts[i].number == number)
            return &s->parts[i];
    mem_grow(&s->parts, &s->part_cap, s->part_count + 1, sizeof *s->parts);
    p = &s->parts[s->part_count++];
    memset(p, 0, sizeof *p);
    p->number = number;
    p->made = q->seq;
    p->end_ms = now_ms;
    return p;
}

struct queue_entry *
queue_append(struct queue_set *q, struct queue_part *p, enum queue_kind kind,
             int64_t now_ms)
{
    struct queue_entry *en;

    mem_grow(&p->entries, &p->cap, p->count + 1, sizeof *p->entries);
    en = &p->entries[p->count++];
    memset(en, 0, sizeof *en);
    en->kind = kind;
    en->seq = q->seq;
    if (kind == QUEUE_RECORD) {
        en->offset = p->records++;
        p->end_ms = now_ms;
    }
    return en;
}

void
queue_cut(struct queue_set *q, uint64_t round)
{
    size_t i, k, n;

    for (i = 0; i < q->sink_count; i++) {
        struct queue_sink *s = q->sinks[i];

        for (k = n = 0; k < s->count; k++)
            if (s->rows[k].round > round)
                free_row(&s->rows[k]);
            else
                s->rows[n++] = s->rows[k];
        s->count = n;
        if (s->taken > n)
            s->taken = n;
    }
}

uint32_t
queue_draw(struct queue_set *q, uint32_t n)
{
    q->rnd = hash_splitmix(q->rnd + UINT64_C(0x9e3779b97f4a7c15));
    return (uint32_t)((q->rnd >> 32) * n >> 32);
}

char *
queue_bytes(const void *bytes, size_t len)
{
    char *p = mem_zalloc(len + REC_PAD);

    if (len != 0)
        memcpy(p, bytes, len);
    return p;
}
