/*
 * Helper of the tests of the file sink in rounds: the engine, by hand.
 *
 * `struct job` plays the engine: a round is flush, snapshot, prepare, the
 * store's commit (what was given is kept), committed. A start begins from
 * what was kept last. Any failure fails the test at once.
 */
#ifndef TESTS_UNIT_FILE_JOB_H
#define TESTS_UNIT_FILE_JOB_H

#include "base/fault.h"
#include "connect_help.h"

enum { TASKS_MAX = 4 };

struct job {
    struct arena a;
    const char *dir; /* the sink's */
    char more[200];  /* more options */
    uint8_t lineage[CONN_LINEAGE_SIZE];
    struct conn_ckpt ckpt;
    struct step_blobs kept; /* of the round ckpt.round */
    struct conn_env env;
    struct sink *s;
    struct sink_task *t[TASKS_MAX];
    uint32_t tasks;
    struct buf out;
    struct err e;
};

static inline void
job_init(struct job *j, char *dir)
{
    memset(j, 0, sizeof *j);
    arena_init(&j->a);
    j->dir = help_path(&j->a, dir, "out");
    memset(j->lineage, 0xa1, sizeof j->lineage);
}

/* @return what open says; then there is no sink. */
static inline int
try_start(struct job *j, uint32_t tasks)
{
    char opts[800];
    uint32_t i;
    int r;

    (void)snprintf(opts, sizeof opts, "{\"path\":\"%s\"%s}", j->dir, j->more);
    j->env = help_env(&j->a, opts, tasks);
    j->env.step = "out";
    j->ckpt.lineage = j->lineage;
    j->env.ckpt = &j->ckpt;
    j->env.restored = j->kept.count != 0 ? &j->kept : NULL;
    err_clear(&j->e);
    r = file_sink_type.open(&j->env, &j->s, &j->e);
    if (r != 0)
        return r;
    j->ckpt.recover = RECOVER_NOT;
    j->tasks = tasks;
    for (i = 0; i < tasks; i++) {
        struct conn_task conf = {.subtask = i};

        assert_int_equal(file_sink_type.task_new(j->s, &conf, &j->t[i], &j->e),
                         0);
    }
    return 0;
}

static inline void
start(struct job *j, uint32_t tasks)
{
    if (try_start(j, tasks) != 0)
        fail_msg("%s", j->e.msg);
}

/* As a process that dies, but for what is not yet written. */
static inline void
stop(struct job *j)
{
    uint32_t i;

    for (i = 0; i < j->tasks; i++)
        if (j->t[i] != NULL)
            file_sink_type.task_free(&j->t[i]);
    file_sink_type.close(&j->s);
    j->tasks = 0;
}

static inline void
job_fini(struct job *j)
{
    stop(j);
    help_blobs_free(&j->kept);
    buf_fini(&j->out);
    arena_fini(&j->a);
}

static inline void
put(struct job *j, uint32_t task, int row)
{
    char json[REC_PAD + 32] = "";
    struct rec rec = {.val = json, .kind = REC_OBJECT};
    uint64_t bytes = 0;

    rec.val_len =
        (uint32_t)snprintf(json, sizeof json, "{\"i\":%03d}", 100 + row);
    if (file_sink_type.write(j->t[task], &rec, NULL, 0, &bytes, &j->e) != 0)
        fail_msg("%s", j->e.msg);
}

/* The tasks give their snapshots of `round`. */
static inline void
give(struct job *j, uint64_t round, struct step_blobs *to)
{
    uint32_t i;

    for (i = 0; i < j->tasks; i++) {
        assert_int_equal(file_sink_type.flush(j->t[i], &j->e), 0);
        assert_int_equal(
            file_sink_type.snapshot(j->t[i], round, help_blobs_add(to), &j->e),
            0);
    }
}

/* The store has the round. */
static inline void
keep(struct job *j, uint64_t round, struct step_blobs *from)
{
    help_blobs_free(&j->kept);
    j->kept = *from;
    memset(from, 0, sizeof *from);
    j->ckpt.round = round;
}

static inline void
prepare_round(struct job *j)
{
    struct step_blobs given = {0};

    give(j, j->ckpt.round + 1, &given);
    assert_int_equal(file_sink_type.prepare(j->s, &j->e), 0);
    keep(j, j->ckpt.round + 1, &given);
}

static inline void
complete_round(struct job *j)
{
    prepare_round(j);
    assert_int_equal(
        file_sink_type.committed(j->s, j->ckpt.round, false, &j->e), 0);
}

/* The last round: every task is at its end. */
static inline void
finish(struct job *j)
{
    struct step_blobs given = {0};

    give(j, SNAPSHOT_END, &given);
    assert_int_equal(file_sink_type.prepare(j->s, &j->e), 0);
    keep(j, j->ckpt.round + 1, &given);
    assert_int_equal(file_sink_type.committed(j->s, j->ckpt.round, true, &j->e),
                     0);
}

/* Names in the directory but the marker's. */
static inline const char *
listing(struct job *j)
{
    char *at;

    buf_clear(&j->out);
    help_list(j->dir, &j->out);
    at = j->out.len != 0 ? strstr(buf_cstr(&j->out), ".streamlua\n") : NULL;
    if (at != NULL) {
        memmove(at, at + 11, j->out.len - (size_t)(at + 11 - j->out.data));
        j->out.len -= 11;
    }
    return buf_cstr(&j->out);
}

static inline const char *
content(struct job *j, const char *name)
{
    buf_clear(&j->out);
    help_read(j->dir, name, &j->out);
    return buf_cstr(&j->out);
}

static inline void
write_file(struct job *j, const char *name, const char *text)
{
    help_file(j->dir, name, text, strlen(text));
}

static inline void
remove_file(struct job *j, const char *name)
{
    assert_int_equal(unlink(help_path(&j->a, j->dir, name)), 0);
}

static inline void
write_marker(struct job *j, const char *lineage, int round)
{
    char text[200];

    (void)snprintf(text, sizeof text,
                   "streamlua file sink 1\nlineage %s\nround %d\nfinal no\n",
                   lineage, round);
    write_file(j, ".streamlua", text);
}

#define OURS "a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1"
#define OTHER "b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2"
#define ROLL ",\"roll\":{\"size\":10}" /* a row a part */
#define P0_1 "part-0-000001.jsonl"
#define P0_2 "part-0-000002.jsonl"
#define P1_1 "part-1-000001.jsonl"
#define TEMP(name) "." name ".inprogress"

#endif
