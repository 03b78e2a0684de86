#include "kafka/position.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { HEAD = 4, FIXED = 2 + 4 + 4 * 8 };

static const char head[HEAD] = {'S', 'K', 'P', 1};

static void
put_le(struct buf *b, uint64_t v, int bytes)
{
    char out[8];
    int i;

    for (i = 0; i < bytes; i++)
        out[i] = (char)(v >> (8 * i) & 0xff);
    buf_add(b, out, (size_t)bytes);
}

static uint64_t
get_le(const char *p, int bytes)
{
    uint64_t v = 0;
    int i;

    for (i = 0; i < bytes; i++)
        v |= (uint64_t)(unsigned char)p[i] << (8 * i);
    return v;
}

void
position_put_head(struct buf *b)
{
    buf_add(b, head, sizeof head);
}

void
position_put(struct buf *b, const struct position *p)
{
    put_le(b, p->topic_len, 2);
    put_le(b, (uint32_t)p->partition, 4);
    put_le(b, (uint64_t)p->next, 8);
    put_le(b, (uint64_t)p->last.offset, 8);
    put_le(b, (uint64_t)p->last.ts, 8);
    put_le(b, p->last.hash, 8);
    buf_add(b, p->topic, p->topic_len);
}

int
position_next(const char *data, size_t len, size_t *at, struct position *ret)
{
    const char *p;

    if (*at == 0) {
        if (len < HEAD || memcmp(data, head, HEAD) != 0)
            return -1;
        *at = HEAD;
    }
    if (*at == len)
        return 0;
    if (*at > len || len - *at < FIXED)
        return -1;
    p = data + *at;
    ret->topic_len = (size_t)get_le(p, 2);
    if (len - *at - FIXED < ret->topic_len)
        return -1;
    ret->partition = (int32_t)(uint32_t)get_le(p + 2, 4);
    ret->next = (int64_t)get_le(p + 6, 8);
    ret->last.offset = (int64_t)get_le(p + 14, 8);
    ret->last.ts = (int64_t)get_le(p + 22, 8);
    ret->last.hash = get_le(p + 30, 8);
    ret->topic = p + FIXED;
    *at += FIXED + ret->topic_len;
    return 1;
}

void
position_mark_text(const struct position_mark *m, char out[POSITION_MARK_MAX])
{
    (void)snprintf(out, POSITION_MARK_MAX,
                   "streamlua 1 %" PRId64 " %" PRId64 " %016" PRIx64, m->offset,
                   m->ts, m->hash);
}

bool
position_mark_read(const char *text, size_t len, struct position_mark *ret)
{
    char copy[POSITION_MARK_MAX];
    struct position_mark m;
    int used = 0;

    if (text == NULL || len == 0 || len >= sizeof copy)
        return false;
    memcpy(copy, text, len);
    copy[len] = '\0';
    if (sscanf(copy, "streamlua 1 %" SCNd64 " %" SCNd64 " %" SCNx64 "%n",
               &m.offset, &m.ts, &m.hash, &used) != 3 ||
        (size_t)used != len || m.offset < 0)
        return false;
    *ret = m;
    return true;
}
