/*
 * Where a Kafka source goes on after a restore: at the positions of the
 * round, by partition, whoever owned it then. Start policies and the
 * group's offsets are not asked.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "kafka/source_impl.h"

#define FRESH_HINT                                                             \
    "nothing is skipped in silence: bring the topic back to what it was, or "  \
    "begin anew by the start policy (--fresh)"

static const struct source_topic *
find_topic(const struct source *s, const struct position *p)
{
    size_t i;

    for (i = 0; i < s->topic_count; i++)
        if (strlen(s->topics[i].name) == p->topic_len &&
            memcmp(s->topics[i].name, p->topic, p->topic_len) == 0)
            return &s->topics[i];
    return NULL;
}

static struct part *
find_part(const struct source *s, const char *topic, int32_t partition)
{
    size_t i;

    for (i = 0; i < s->count; i++)
        if (s->parts[i]->topic == topic && s->parts[i]->partition == partition)
            return s->parts[i];
    return NULL;
}

static int
fewer_partitions(const struct source *s, const struct source_topic *topic,
                 const struct position *p, struct err *e)
{
    (void)err_set(e, ERR_CONFIG,
                  "%s: topic \"%s\" was made again while the job was down: the "
                  "checkpoint has position %" PRId64 " of partition %" PRId32
                  ", but there are %" PRId32 " partitions",
                  s->client->name, topic->name, p->next, p->partition,
                  topic->partitions);
    err_hint(e, FRESH_HINT);
    err_where(e, "%s", s->env.place);
    return ERR_CONFIG;
}

/* A topic that a pattern still asks for, and that is not there. */
static int
gone_by_pattern(struct source *s, const struct position *p, struct err *e)
{
    char *name = mem_dup(p->topic, p->topic_len);
    int r = source_matches(s, name) ? source_restore_gone(s, name, e) : 0;

    free(name);
    return r;
}

/* One position of the round; `named` by index of the part. */
static int
take_position(struct source *s, const struct position *p, int64_t *at,
              bool *named, struct err *e)
{
    const struct source_topic *topic = find_topic(s, p);
    struct part *part;
    int r;

    if (topic == NULL) {
        r = gone_by_pattern(s, p, e);
        if (r != 0)
            return r;
        log_line(LOG_WARN,
                 "%s: topic \"%.*s\" is not read any more; its partition "
                 "%" PRId32 " was read up to offset %" PRId64,
                 s->client->name, (int)p->topic_len, p->topic, p->partition,
                 p->next);
        return 0;
    }
    part = find_part(s, topic->name, p->partition);
    if (part == NULL)
        return fewer_partitions(s, topic, p, e);
    named[part->index] = true;
    at[part->index] = p->next;
    part->found = p->last;
    part->last = p->last;
    return 0;
}

static int
take_blobs(struct source *s, int64_t *at, bool *named, struct err *e)
{
    const struct step_blobs *b = s->env.restored;
    uint32_t i;

    for (i = 0; i < b->count; i++) {
        struct position p;
        size_t pos = 0;
        int more = 0, r = 0;

        while (b->blobs[i].len > 0 && r == 0 &&
               (more = position_next(b->blobs[i].data, b->blobs[i].len, &pos,
                                     &p)) == 1)
            r = take_position(s, &p, at, named, e);
        if (r != 0)
            return r;
        if (more < 0)
            return err_set(e, ERR_IO,
                           "%s: the positions in the checkpoint (subtask "
                           "%" PRIu32 " of %" PRIu32 ") are damaged",
                           s->client->name, i, b->count);
    }
    return 0;
}

/* A position must lie in the log as it is now. */
static int
check_range(const struct source *s, const struct part *p, int64_t next,
            const int64_t range[2], struct err *e)
{
    if (next >= range[0] && next <= range[1])
        return 0;
    if (next < range[0])
        (void)err_set(e, ERR_CONFIG,
                      "%s: position %" PRId64 " of %s[%" PRId32 "] in the "
                      "checkpoint is no longer on the broker, whose log begins "
                      "at %" PRId64 ": %" PRId64 " offsets were not read",
                      s->client->name, next, p->topic, p->partition, range[0],
                      range[0] - next);
    else
        (void)err_set(e, ERR_CONFIG,
                      "%s: position %" PRId64 " of %s[%" PRId32 "] in the "
                      "checkpoint is beyond the end of the partition, "
                      "%" PRId64 ": the topic was deleted and made again, or "
                      "lost data",
                      s->client->name, next, p->topic, p->partition, range[1]);
    err_hint(e, next < range[0]
                    ? "retention removed them while the job was down: raise "
                      "retention.ms or retention.bytes of the topic, and begin "
                      "anew by the start policy (--fresh)"
                    : FRESH_HINT);
    err_where(e, "%s", s->env.place);
    return ERR_CONFIG;
}

static int
check_ranges(struct source *s, const int64_t *at, bool *want, struct err *e)
{
    int64_t *low = mem_zalloc((s->count + 1) * sizeof *low);
    int64_t *high = mem_zalloc((s->count + 1) * sizeof *high);
    size_t i;
    int r;

    for (i = 0; i < s->count; i++)
        want[i] = at[i] >= 0;
    r = source_list_offsets(s, want, RD_KAFKA_OFFSET_BEGINNING, low, e);
    if (r == 0)
        r = source_list_offsets(s, want, RD_KAFKA_OFFSET_END, high, e);
    for (i = 0; r == 0 && i < s->count; i++)
        if (want[i])
            r = check_range(s, s->parts[i], at[i],
                            (const int64_t[]){low[i], high[i]}, e);
    free(low);
    free(high);
    return r;
}

int
source_restore(struct source *s, int64_t *at, bool *want, struct err *e)
{
    bool *named = mem_zalloc((s->count + 1) * sizeof *named);
    size_t i;
    int r;

    for (i = 0; i < s->count; i++)
        at[i] = POSITION_BEGINNING;
    r = take_blobs(s, at, named, e);
    for (i = 0; r == 0 && i < s->count; i++) {
        struct part *p = s->parts[i];

        if (named[i])
            continue;
        p->discovered = true;
        log_line(LOG_INFO,
                 "%s: new partition %s[%" PRId32 "] since the checkpoint, read "
                 "from its beginning",
                 s->client->name, p->topic, p->partition);
    }
    free(named);
    return r != 0 ? r : check_ranges(s, at, want, e);
}

int
source_restore_gone(const struct source *s, const char *topic, struct err *e)
{
    const struct step_blobs *b = s->env.restored;
    struct position p;
    uint32_t i;

    for (i = 0; b != NULL && i < b->count; i++) {
        size_t pos = 0;

        while (b->blobs[i].len > 0 &&
               position_next(b->blobs[i].data, b->blobs[i].len, &pos, &p) == 1)
            if (strlen(topic) == p.topic_len &&
                memcmp(topic, p.topic, p.topic_len) == 0) {
                (void)err_set(e, ERR_CONFIG,
                              "%s: topic \"%s\", of which the checkpoint holds "
                              "positions (partition %" PRId32 ": %" PRId64
                              "), does not exist at %s",
                              s->client->name, topic, p.partition, p.next,
                              s->client->servers);
                err_hint(e, FRESH_HINT);
                err_where(e, "%s", s->env.place);
                return ERR_CONFIG;
            }
    }
    return e == NULL ? ERR_CONFIG : e->code;
}
