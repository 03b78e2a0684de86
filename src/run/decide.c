#include "run/decide.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void
hex(const uint8_t *bytes, char out[2 * CONN_LINEAGE_SIZE + 1])
{
    int i;

    /* The first four bytes tell two lineages apart for a reader. */
    for (i = 0; i < 4; i++)
        (void)snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

static bool
same_lineage(const struct decide_in *in)
{
    return in->numbers_only || memcmp(in->marker.lineage, in->store.lineage,
                                      CONN_LINEAGE_SIZE) == 0;
}

/* What the target holds: "checkpoint 57 of lineage 12ab34cd by HOST:PID". */
static void
put_marker(const struct decide_in *in, char *out, size_t size)
{
    char lineage[2 * CONN_LINEAGE_SIZE + 1];

    hex(in->marker.lineage, lineage);
    if (!in->marker.found)
        (void)snprintf(out, size, "none");
    else if (in->numbers_only)
        (void)snprintf(out, size, "checkpoint %" PRIu64, in->marker.round);
    else
        (void)snprintf(out, size,
                       "checkpoint %" PRIu64 " of lineage %s by %.100s",
                       in->marker.round, lineage, in->marker.owner);
}

/* "the marker in Kafka is checkpoint 57 …, the data directory …" */
static enum decision
refuse(const struct decide_in *in, const char *why, const char *hint,
       struct err *e)
{
    char own[2 * CONN_LINEAGE_SIZE + 1], marker[256], redo[64] = "";

    hex(in->store.lineage, own);
    put_marker(in, marker, sizeof marker);
    if (in->store.pending != 0)
        (void)snprintf(redo, sizeof redo, " and a redo of %" PRIu64,
                       in->store.pending);
    (void)err_set(e, ERR_CONFIG,
                  "job %s: %s: %s%s is %s, the data directory '%s' has "
                  "checkpoint %" PRIu64 "%s of lineage %s",
                  in->job, why,
                  in->sink != NULL ? "last_round of " : "the marker in Kafka",
                  in->sink != NULL ? in->sink : "", marker, in->dir,
                  in->store.complete, redo, own);
    err_hint(e, "%s", hint);
    return DECIDE_REFUSE;
}

/* The words for Kafka's marker, or those for a Lua sink's target. */
static const char *
name(const struct decide_in *in, const char *marker, const char *target)
{
    return in->sink != NULL ? target : marker;
}

/* No checkpoint and no redo: a new directory, or one that was lost. */
static enum decision
fresh_dir(const struct decide_in *in, struct err *e)
{
    if (!in->marker.found || in->recover == RECOVER_DISCARD ||
        in->recover == RECOVER_FRESH)
        return DECIDE_RUN;
    if (same_lineage(in) && in->marker.round == 0)
        return DECIDE_RUN; /* the own claim, before the first round */
    return refuse(in, "its data directory is new or lost",
                  "bring the directory back; or --recover=discard-state begins "
                  "by the start policies with a new lineage (rows that are "
                  "committed already may be written again)",
                  e);
}

static enum decision
marker_ahead(const struct decide_in *in, struct err *e)
{
    if (in->recover == RECOVER_REWIND)
        return in->store.pending != 0 ? DECIDE_DISCARD : DECIDE_RUN;
    return refuse(in,
                  name(in, "the marker is ahead of the directory",
                       "the target is ahead of the directory"),
                  "the directory is a backup or a copy: bring the newer one "
                  "back; or --recover=rewind goes on from its checkpoint (rows "
                  "written since then may be doubled)",
                  e);
}

/* The marker has the redo's number; it is the redo's own if the same attempt
 * of the same process wrote both. A copy of the directory that was made while
 * a redo was pending may hold another attempt than the one committed. */
static enum decision
redo_committed(const struct decide_in *in, struct err *e)
{
    if (!in->store.pending_damaged &&
        (in->numbers_only || strcmp(in->redo_owner, in->marker.owner) == 0))
        return DECIDE_COMPLETE;
    if (!in->store.pending_damaged)
        return marker_ahead(in, e);
    (void)err_set(e, ERR_IO,
                  "job %s: checkpoint %" PRIu64 " was committed, but its redo "
                  "in '%s' is damaged",
                  in->job, in->store.pending, in->dir);
    err_hint(e,
             "restore the directory from a backup that has checkpoint "
             "%" PRIu64,
             in->store.pending);
    return DECIDE_REFUSE;
}

/* The pending redo of a job without transactions, or no redo at all. */
static enum decision
without_marker(const struct decide_in *in)
{
    return in->store.pending != 0 ? DECIDE_DISCARD : DECIDE_RUN;
}

/* The marker of this prefix cannot say what became of the redo. */
static enum decision
redo_elsewhere(const struct decide_in *in, struct err *e)
{
    if (in->recover == RECOVER_REWIND)
        return DECIDE_DISCARD;
    return refuse(in,
                  name(in, "its redo was written under another prefix",
                       "its redo was written for another target"),
                  name(in,
                       "set transactional_id_prefix back and start the job "
                       "once, so that the redo is completed or discarded; or "
                       "--recover=rewind discards it (its rows may be doubled)",
                       "bring the sink back, under its name of then, and "
                       "start the job once, so that the redo is completed or "
                       "discarded; or --recover=rewind discards it (its rows "
                       "may be doubled)"),
                  e);
}

enum decision
decide(const struct decide_in *in, struct err *e)
{
    const struct store_status *s = &in->store;
    uint64_t marker = in->marker.found ? in->marker.round : 0;

    if (!in->has_target)
        return without_marker(in);
    if (s->complete == 0 && s->pending == 0)
        return fresh_dir(in, e);
    if (s->pending != 0 && in->redo_other_target)
        return redo_elsewhere(in, e);
    if (!in->marker.found) {
        /* None yet: the first round was never committed, the job had no
         * exactly_once sink of this prefix before, or it is a copy. A redo
         * is never without one: the claim came before it. */
        if (s->complete == 0 || in->recover == RECOVER_FRESH ||
            (!in->store_had_target && s->pending == 0))
            return without_marker(in);
        return refuse(
            in, name(in, "the marker is missing", "the target holds no round"),
            name(in,
                 "was its topic deleted, or is this another "
                 "cluster? --fresh starts a new lineage",
                 "is it another database, or was its round "
                 "deleted? --fresh starts a new lineage"),
            e);
    }
    if (!same_lineage(in))
        return refuse(in,
                      name(in, "the marker is of another lineage",
                           "the target is of another lineage"),
                      name(in,
                           "another run of the job wrote to this prefix: use "
                           "its data directory, or another "
                           "transactional_id_prefix; --fresh starts a new "
                           "lineage",
                           "another run of the job wrote to this target: use "
                           "its data directory, or another target; --fresh "
                           "starts a new lineage"),
                      e);
    if (s->pending != 0 && marker == s->pending)
        return redo_committed(in, e);
    if (marker == s->complete)
        return s->pending != 0 ? DECIDE_DISCARD : DECIDE_RUN;
    if (marker > s->complete)
        return marker_ahead(in, e);
    return refuse(in,
                  name(in, "the marker is behind the directory",
                       "the target is behind the directory"),
                  name(in,
                       "was the marker topic restored or truncated, or did the "
                       "job not write with this transactional_id_prefix in "
                       "between? give it another prefix; --fresh starts a new "
                       "lineage",
                       "was it restored from a backup? --fresh starts a new "
                       "lineage"),
                  e);
}
