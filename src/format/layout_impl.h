/*
 * A learned layout: data shared by learning (layout.c) and fitting
 * (layout_fit.c, layout_avx2.c). Private to these.
 */
#ifndef FORMAT_LAYOUT_IMPL_H
#define FORMAT_LAYOUT_IMPL_H

#include <stdbool.h>
#include <stdint.h>

#include "format/reader_impl.h"

enum {
    STEPS_MAX = 256,
    HEAD_MAX = 32,       /* longer literals go on in `rest` */
    TOUCH_NAME_MAX = 64, /* longer names of containers are not noted */
    LITERAL_MAX = 8192,  /* bytes of all literals */
};

enum step_kind { STEP_STRING, STEP_NUMBER, STEP_WORD, STEP_OPAQUE, STEP_STOP };

/* One cache line. The literal of a STEP_STRING ends with its open quote. */
struct step {
    char head[HEAD_MAX]; /* the literal, zeros behind it */
    uint32_t mask;       /* low min(lit_len, 32) bits */
    uint32_t lit_len;
    int32_t col; /* or -1 */
    uint8_t kind;
    const char *rest;  /* the literal from HEAD_MAX on */
    struct node *node; /* of STEP_OPAQUE, or NULL */
};

/* The top-level container that a step's literal or value is in. */
struct touch {
    uint32_t len; /* 0: none */
    char name[TOUCH_NAME_MAX];
};

/* A column that is a container: from and to are offsets in literals. */
struct span {
    uint16_t from_step, to_step;
    uint32_t from, to;
    int32_t col;
    uint8_t type;
};

struct layout {
    struct step *steps;
    struct touch *touch; /* of each step */
    struct span *spans;
    int32_t *missing;
    char *lits; /* for step.rest */
    uint32_t step_count, span_count, missing_count, lits_len;
    bool cut; /* ends before the record does */
    bool has_opaque;
};

/**
 * Hold the object at p, which ends at ps->s.end, against a layout.
 *
 * @param pos set to where each step's literal begins, STEPS_MAX of them.
 * @return STEPS_MAX if it fits (ps->row is filled), else the step that
 *         does not.
 */
typedef uint32_t layout_fit_f(const struct layout *l, struct pass *ps,
                              const char *p, const char **pos);
layout_fit_f layout_fit;
/**
 * The same for two records at once, which hides the latency of each (measured
 * on 141 bytes: 56 to 38 ns a record). @return whether both fit; if not, both
 * are to be tried alone.
 */
typedef bool layout_pair_f(const struct layout *l, struct pass *a,
                           struct pass *b);
layout_pair_f layout_pair;
#if defined(__x86_64__)
/** The same for machines with AVX2, BMI and BMI2. */
layout_fit_f layout_fit_avx2;
layout_pair_f layout_pair_avx2;
#endif

#endif
