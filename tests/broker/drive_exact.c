/* What of the rounds of drive_txn.c became visible. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "drive_txn.h"
#include "kt.h"

enum { PARTS_MAX = 16 };

struct exact {
    uint64_t next[PARTS_MAX]; /* of 2 * round + k */
    bool wrong;
};

static void
see(void *arg, const rd_kafka_message_t *m)
{
    struct exact *x = arg;
    char want[64];
    int p = m->partition;

    (void)snprintf(want, sizeof want, "%d:%" PRIu64 ":%d", p,
                   x->next[p] / 2 + 1, (int)(x->next[p] % 2));
    x->next[p]++;
    if (x->wrong ||
        (m->len == strlen(want) && memcmp(m->payload, want, m->len) == 0))
        return;
    x->wrong = true;
    (void)fprintf(stderr, "found %.*s at %" PRId64 ", not %s\n", (int)m->len,
                  (const char *)m->payload, m->offset, want);
}

bool
drive_txn_exact(const char *servers, const char *topic, int partitions,
                uint64_t rounds)
{
    struct exact x;
    int p;

    memset(&x, 0, sizeof x);
    kt_settle(servers, topic, partitions);
    (void)kt_read(servers, topic, true, see, &x);
    for (p = 0; p < partitions; p++)
        if (x.next[p] != 2 * rounds) {
            (void)fprintf(
                stderr, "partition %d: %" PRIu64 " records, not %" PRIu64 "\n",
                p, x.next[p], 2 * rounds);
            x.wrong = true;
        }
    return !x.wrong;
}
