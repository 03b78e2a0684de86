/*
 * How many subtasks a rate needs. Pure arithmetic; any thread.
 */
#ifndef MAIN_SIZING_H
#define MAIN_SIZING_H

#include <stdint.h>

enum { SIZING_PARALLELISM_MAX = 32768 };

struct sizing_in {
    double rate, capacity;    /* records a second: in, of one subtask; > 0 */
    double utilization;       /* share of the capacity, above 0, at most 1 */
    double backlog, within_s; /* records, and seconds for them; 0 = none */
    uint32_t partitions;      /* of the input; 0 = not known */
    uint32_t max_parallelism; /* key groups; 0 = as many as there can be */
};

enum sizing_binds {
    BINDS_RATE,
    BINDS_CATCH_UP,   /* the backlog needs more than the rate alone */
    BINDS_PARTITIONS, /* fewer than the records need */
    BINDS_KEY_GROUPS, /* likewise */
};

struct sizing {
    double needed; /* subtasks without the cut */
    uint32_t parallelism;
    enum sizing_binds binds;
    double sustained; /* records a second at that parallelism */
};

/**
 * ceil((rate + backlog / within) / (capacity * utilization)), at least 1, cut
 * to partitions and max_parallelism. @source API.md section 9, `size`.
 */
struct sizing sizing_compute(const struct sizing_in *in);

/** "rate", "catch-up", "partitions", "key-groups". */
const char *sizing_binds_name(enum sizing_binds b);

#endif
