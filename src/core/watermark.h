/*
 * Watermarks: per partition, combined per source, combined per input.
 *
 * A `wm_source` is shared by the subtasks of one event_time step: the
 * combined watermark is the minimum over the active partitions of all
 * subtasks, so that a partition that wakes or is discovered starts where the
 * source stands and never behind what others already sent (API.md section
 * 4). A `wm_input` combines what arrives on the inputs of one subtask.
 *
 * | partition | state                                    | holds the minimum |
 * | active    | read lately, or blocked                  | yes               |
 * | idle      | nothing to read for idle_ms              | no                |
 * | finished  | will never give records again            | no                |
 *
 * All idle: the largest watermark of theirs; then held, or following the
 * wall clock all_idle_ms after that. All finished: WM_MAX.
 *
 * Rounds. Each subtask gives its own partitions and the combined watermark as
 * it stands at its barrier. Barriers of subtasks are at different moments,
 * and no partition that is active then is behind the combined watermark of
 * any earlier moment: so a restore begins with the least of them. One whose
 * partitions had all finished is not asked, it stands still. A partition that
 * a round has and no subtask has added yet stays in later rounds as it was.
 *
 * Thread: wm_source calls any (one lock, taken once a batch); wm_input owner.
 */
#ifndef CORE_WATERMARK_H
#define CORE_WATERMARK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "core/snapshot.h"

struct wm_source;
struct wm_part; /* one partition; fields are the owner subtask's */

struct wm_conf {
    int64_t out_of_orderness_ms;
    int64_t idle_ms;     /* -1 never */
    int64_t all_idle_ms; /* -1 hold */
    int64_t follow_ms;   /* how often it is looked at while the watermark
                            follows the wall clock; 0: 10 */
    uint32_t tasks;      /* subtasks that will call wm_source_ready() */
};

/** Make the clock of one event_time step. @thread coordinator. */
struct wm_source *wm_source_new(const struct wm_conf *conf);
void wm_source_free(struct wm_source **s);

/**
 * One subtask has added all partitions it begins with.
 *
 * Until every subtask has said so there is no watermark: a partition that
 * nobody has added yet must hold it, whichever slot starts first.
 * @thread any; once per subtask.
 */
void wm_source_ready(struct wm_source *s);

/**
 * A partition begins. `discovered` while running: it starts at the source's
 * watermark, else at none.
 * @return its handle, owned by the source. @thread any.
 */
struct wm_part *wm_part_add(struct wm_source *s, bool discovered);

/**
 * Say where its records come from: for wm_source_holder(), and after a
 * restore it goes on where the partition of that name stood. One that the
 * round did not know is discovered: it starts at the source's watermark.
 * Before anything else is done with the partition. @thread any.
 */
void wm_part_name(struct wm_source *s, struct wm_part *p, uint16_t topic,
                  int32_t partition);

/**
 * Append what a round keeps: of one subtask's partitions and the combined
 * watermark.
 *
 * @param parts the subtask's, `n`; NULLs are skipped.
 * @param end   the subtask's input is at its end.
 * @thread the subtask that owns the partitions.
 */
void wm_source_put(struct wm_source *s, struct wm_part *const *parts,
                   uint32_t n, bool end, struct buf *out);
/**
 * Go on from what the subtasks of a round gave. The first call counts, so
 * that each subtask may make it before its first partition.
 *
 * @param b NULL: the step is new.
 * @return 0, or ERR_IO for damaged bytes. @thread any.
 */
MUST_USE int wm_source_restore(struct wm_source *s, const struct step_blobs *b,
                               struct err *e);

/** The partition's watermark, as records read next are judged by. */
int64_t wm_part_now(const struct wm_part *p);
/** Note a record's time; takes effect with wm_part_now at once. */
void wm_part_record(struct wm_part *p, int64_t ts);
/**
 * Publish after a batch was read (`now` monotonic ms); wakes an idle one.
 * Call wm_part_wake() before judging the records of a batch.
 */
void wm_part_wake(struct wm_source *s, struct wm_part *p);
void wm_part_publish(struct wm_source *s, struct wm_part *p);
/** It has nothing more to read at the moment (since `now_ms`). */
void wm_part_at_end(struct wm_source *s, struct wm_part *p, int64_t now_ms);
/** It is idle as of now, though idle_ms may say never. */
void wm_part_idle(struct wm_source *s, struct wm_part *p);
/** Nothing up to the time `wm` follows in it; an idle one stays so. */
void wm_part_reach(struct wm_source *s, struct wm_part *p, int64_t wm);
/** It will never give records again. */
void wm_part_finish(struct wm_source *s, struct wm_part *p);

/**
 * The combined watermark now, never going back.
 *
 * @param now_ms monotonic. @param ret_idle all unfinished partitions are
 *        idle (and the policy is to hold). @return WM_NONE before the first.
 */
int64_t wm_source_now(struct wm_source *s, int64_t now_ms, bool *ret_idle);
/**
 * Which active partition holds the minimum, and since when (monotonic ms, of
 * the first wm_source_now() that saw it there).
 * @return false if none does: nothing active, or all finished. @thread any.
 */
bool wm_source_holder(struct wm_source *s, uint16_t *ret_topic,
                      int32_t *ret_partition, int64_t *ret_since_ms);
/** Ms until idleness may change something, -1 for never. */
int64_t wm_source_wait(struct wm_source *s, int64_t now_ms);

/* Combination over the inputs of one subtask. */
struct wm_input_lane {
    int64_t wm;
    bool idle, ended;
};

struct wm_input {
    struct wm_input_lane *lanes;
    uint32_t count;
    int64_t wm; /* combined, never going back */
    bool idle;
};

void wm_input_init(struct wm_input *w, uint32_t count);
void wm_input_fini(struct wm_input *w);
/** Note what input `i` said; @return true if the combination changed. */
bool wm_input_set(struct wm_input *w, uint32_t i, int64_t wm, bool idle);
/** Input `i` ended without a final watermark (drain): it holds nothing. */
bool wm_input_end(struct wm_input *w, uint32_t i);

#endif
