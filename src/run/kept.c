/*
 * What a round keeps of the job itself (its plan, its code, which steps lost
 * their state), and what the process remembers of a complete round.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "run/job.h"
#include "run/recover.h"

bool
job_is_finished(const struct job *j)
{
    return !j->stopping || atomic_load(&j->ops.drain);
}

static void
add_dropped(struct ckpt_round *c, const char *step)
{
    c->dropped =
        mem_realloc(c->dropped, (c->dropped_count + 1u) * sizeof(const char *));
    c->dropped[c->dropped_count++] = step;
}

static void
put_meta(const struct job *j, const struct ckpt_round *c, struct buf *b)
{
    const struct version *v = reload_version(j->run);
    const struct plan *p = j->plan;

    buf_adds(b, "{\"version\":1");
    json_put_name(b, "job", 3);
    json_put_str(b, p->name, strlen(p->name));
    json_put_name(b, "file", 4);
    json_put_str(b, v->path, strlen(v->path));
    json_put_name(b, "reload", 6);
    json_put_int(b, (int64_t)v->number);
    json_put_name(b, "max_parallelism", 15);
    json_put_int(b, p->max_parallelism);
    json_put_name(b, "parallelism", 11);
    json_put_int(b, p->parallelism);
    json_put_name(b, "fingerprint", 11);
    buf_addf(b, "\"%016" PRIx64 "\"", c->code_id);
    json_put_name(b, "time", 4);
    json_put_int(b, clock_wall_ms());
    buf_addc(b, '}');
}

void
job_fill_round(struct job *j, struct ckpt_round *c)
{
    const struct script_file *text = version_text(reload_version(j->run));
    uint32_t i;

    c->target = recover_target(j);
    c->owner = j->run->owner;
    c->code_id = hash_key(text->text, text->len);
    put_meta(j, c, &c->meta);
    reload_fill_round(j, &c->reloads);
    if (j->described)
        return;
    plan_state_put(j->plan, &c->plan);
    buf_add(&c->code, text->text, text->len);
    c->drop_all = j->start_over;
    for (i = 0; i < j->fit.count; i++)
        if (j->fit.steps[i].drop)
            add_dropped(c, j->fit.steps[i].step);
}

/* Source errors met before the barrier of `round`. All subtasks are behind it
 * or done, so those behind the round before are all there; those behind
 * earlier rounds of the same kind as `round` were noted one round ago. */
static void
add_source_errors(struct job *j, uint32_t logical, uint64_t round,
                  struct op_counters *to)
{
    const struct op_counters *before =
        op_source_errors(&j->ops, logical, round - 1);
    struct op_counters *earlier = &j->earlier[logical];

    counters_add(to, before);
    counters_add(to, earlier);
    memset(earlier, 0, sizeof *earlier);
    counters_add(earlier, before);
}

/* Counters as they were behind the barrier: what a restart begins with. All
 * subtasks have taken theirs, or are done. */
void
job_take_counters(struct job *j, uint64_t round)
{
    const struct plan *p = j->plan;
    struct op_counters *next = j->run->next;
    uint32_t i, k, n;

    memset(next, 0, p->logical_count * sizeof *next);
    for (i = 0; i < p->logical_count; i++) {
        counters_add(&next[i], &j->run->base[i]);
        add_source_errors(j, i, round, &next[i]);
    }
    for (i = 0; i < p->chain_count; i++)
        for (k = 0; k < p->chains[i].parallelism; k++) {
            struct subtask *st = &j->subtasks[i][k];
            /* One that ended before the barrier counts no more. */
            bool live = atomic_load(&st->counted) < round;

            for (n = 0; n < st->ops.count; n++)
                counters_add(&next[st->ops.ops[n]->step->logical],
                             live ? st->ops.ops[n]->count : &st->at_barrier[n]);
        }
    j->run->next_round = round;
}

static void
keep_counters(struct run *run)
{
    memcpy(run->kept, run->next, run->logical_count * sizeof *run->kept);
    run->next_round = 0;
}

void
run_note_round(struct run *run)
{
    run->notes[run->completed % ROUNDS_KEPT] = run->note;
    run->completed++;
}

void
run_pick_counters(struct run *run)
{
    if (run->next_round != 0 && run->next_round == run->home.status.complete) {
        keep_counters(run);
        run_note_round(run);
        run->attempts = run->fencings = 0;
    }
    run->next_round = 0;
    memcpy(run->base, run->kept, run->logical_count * sizeof *run->base);
}

void
job_wrote_marker(struct job *j, uint64_t round)
{
    struct txn_marker *m = &j->run->seen;

    j->run->marked = true;
    m->found = true;
    m->round = round;
    memcpy(m->lineage, j->run->home.status.lineage, sizeof m->lineage);
    (void)snprintf(m->owner, sizeof m->owner, "%s", j->run->owner);
}

void
job_round_completed(struct job *j, const struct round_note *n)
{
    struct run *run = j->run;
    char text[32], steps[32], bytes[32], ms[32];
    struct log_kv kvs[] = {
        {"steps", steps, true}, {"bytes", bytes, true}, {"ms", ms, true}};

    keep_counters(run);
    j->described = true;
    if (j->txn != NULL || j->target.exists)
        job_wrote_marker(j, n->round);
    run->home.status.complete = n->round;
    run->home.status.pending = 0;
    if (!j->plan->checkpoint) { /* of a reload only */
        reload_completed(j, n->round);
        return;
    }
    run->note = *n;
    run_note_round(run);
    run->completed_mono_ms = clock_mono_ms();
    run->attempts = run->fencings = 0;
    run->backoff_ms = 0;
    (void)snprintf(text, sizeof text, "checkpoint %" PRIu64 " completed",
                   n->round);
    (void)snprintf(steps, sizeof steps, "%u", j->plan->logical_count);
    (void)snprintf(bytes, sizeof bytes, "%" PRIu64, n->bytes);
    (void)snprintf(ms, sizeof ms, "%lld", (long long)n->ms);
    log_kvs(LOG_INFO, text, kvs, sizeof kvs / sizeof *kvs);
    reload_completed(j, n->round);
}

/* ------------------------------------------- counters and a changed plan */

/* The name of each logical step. */
static char **
logical_names(const struct plan *p)
{
    char **names = mem_zalloc((p->logical_count + 1u) * sizeof *names);
    uint32_t i;

    for (i = 0; i < p->step_count; i++)
        if (names[p->steps[i].logical] == NULL)
            names[p->steps[i].logical] = mem_strdup(p->steps[i].name);
    return names;
}

static void
free_names(char **names, uint32_t count)
{
    uint32_t i;

    for (i = 0; names != NULL && i < count; i++)
        free(names[i]);
    free(names);
}

static bool
is_same_steps(char *const *a, uint32_t n, char *const *b, uint32_t m)
{
    uint32_t i;

    for (i = 0; i < n && n == m; i++)
        if (strcmp(a[i], b[i]) != 0)
            return false;
    return n == m;
}

/* Counters of the names of `run`, from those of `from`. */
static void
pick_by_name(struct run *run, const struct named_counters *from)
{
    uint32_t i, k;

    for (i = 0; i < run->logical_count; i++)
        for (k = 0; k < from->count; k++)
            if (strcmp(run->step_names[i], from->names[k]) == 0)
                counters_add(&run->kept[i], &from->counters[k]);
}

static void
free_counters(struct run *run)
{
    free_names(run->step_names, run->logical_count);
    free(run->base);
    free(run->kept);
    free(run->next);
}

void
job_fit_counters(struct job *j)
{
    struct run *run = j->run;
    uint32_t n = j->plan->logical_count;
    char **names = logical_names(j->plan);
    struct named_counters was;

    if (run->base != NULL) {
        run_pick_counters(run);
        if (is_same_steps(run->step_names, run->logical_count, names, n)) {
            free_names(names, n);
            return;
        }
    }
    counters_keep(run, &was);
    free_counters(run);
    run->step_names = names;
    run->logical_count = n;
    run->base = mem_zalloc(n * sizeof *run->base);
    run->kept = mem_zalloc(n * sizeof *run->kept);
    run->next = mem_zalloc(n * sizeof *run->next);
    pick_by_name(run, &was);
    memcpy(run->base, run->kept, n * sizeof *run->base);
    counters_forget(&was);
}

void
counters_keep(const struct run *run, struct named_counters *ret)
{
    uint32_t i, n = run->logical_count;

    ret->count = n;
    ret->names = mem_zalloc((n + 1u) * sizeof *ret->names);
    ret->counters = mem_zalloc((n + 1u) * sizeof *ret->counters);
    for (i = 0; i < n; i++) {
        ret->names[i] = mem_strdup(run->step_names[i]);
        counters_add(&ret->counters[i], &run->kept[i]);
    }
}

void
counters_restore(struct run *run, struct named_counters *from)
{
    free_counters(run);
    run->logical_count = from->count;
    run->step_names = from->names;
    run->kept = from->counters;
    run->base = mem_zalloc((from->count + 1u) * sizeof *run->base);
    run->next = mem_zalloc((from->count + 1u) * sizeof *run->next);
    run->next_round = 0;
    memcpy(run->base, run->kept, from->count * sizeof *run->base);
    memset(from, 0, sizeof *from);
}

void
counters_forget(struct named_counters *c)
{
    free_names(c->names, c->count);
    free(c->counters);
    memset(c, 0, sizeof *c);
}

void
run_free_counters(struct run *run)
{
    free_counters(run);
    run->base = run->kept = run->next = NULL;
    run->step_names = NULL;
    run->logical_count = 0;
}
