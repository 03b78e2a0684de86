/* Sources and sinks in Lua (API.md sections 3 and 7). */
#include "script_job.h"

#include "core/connector.h"

struct conn_job {
    struct job_of j;
    struct source *source;
    struct source_task *task;
    struct batch batch;
    struct source_event ev;
    const struct step_blobs *restored;
};

static void
no_wake(void *arg)
{
    (void)arg;
}

/* Load a job and open its source, from what `c->restored` says. */
static int
conn_open(struct conn_job *c, const char *code, bool bounded)
{
    static struct opt flag = {.type = OPT_BOOL, .name = "bounded", .i = 1};
    static struct opt cli = {.type = OPT_MAP, .first = &flag, .len = 1};
    static struct opt none = {.type = OPT_MAP};
    struct conn_env env = {.job = "t", .step = "in", .place = "job.lua:3"};
    struct conn_task conf = {.wake = no_wake};
    char text[4096];
    int r;

    (void)snprintf(text, sizeof text,
                   "local s = require 'streamlua'\n"
                   "local job = s.job 't'\n"
                   "job:source('in', s.source {\n%s\n})"
                   ":sink('out', s.blackhole())\nreturn job\n",
                   code);
    job_load_text(&c->j, text);
    env.opts = opt_get(job_step(c->j.s, "source"), "conn");
    env.cli = bounded ? &cli : &none;
    env.parallelism = 1;
    env.src = 3;
    env.restored = c->restored;
    conf.script = c->j.s;
    c->source = NULL;
    c->task = NULL;
    batch_init(&c->batch);
    r = script_source_type.open(&env, &c->source, &c->j.e);
    if (r == 0)
        r = script_source_type.task_new(c->source, &conf, &c->task, &c->j.e);
    return r;
}

static void
conn_load(struct conn_job *c, const char *code, bool bounded)
{
    c->restored = NULL;
    if (conn_open(c, code, bounded) != 0)
        fail_msg("%s: %s", c->j.e.where, c->j.e.msg);
}

static enum source_event_kind
next_event(struct conn_job *c, uint32_t max)
{
    batch_clear(&c->batch);
    if (script_source_type.poll(c->task, &c->batch, max, &c->ev, &c->j.e) != 0)
        fail_msg("%s: %s", c->j.e.where, c->j.e.msg);
    return c->ev.kind;
}

static void
conn_close(struct conn_job *c)
{
    batch_fini(&c->batch);
    if (c->task != NULL)
        script_source_type.task_free(&c->task);
    script_source_type.close(&c->source);
    job_free(&c->j);
}

static const char numbers[] =
    "read = function(position, max)\n"
    "  local from = position or 0\n"
    "  if from >= 5 then return nil end\n"
    "  local out = {}\n"
    "  for i = from + 1, math.min(from + max, 5) do out[#out + 1] = "
    "{ i = i } end\n"
    "  return out, from + #out\n"
    "end";

static void
source_reads_from_position_to_the_end(void **state)
{
    struct conn_job c;

    (void)state;
    conn_load(&c, numbers, false);
    assert_int_equal(next_event(&c, 3), SOURCE_ADDED);
    assert_int_equal(next_event(&c, 3), SOURCE_BATCH);
    assert_int_equal(c.batch.n, 3);
    assert_memory_equal(c.batch.recs[2].val, "{\"i\":3}", 7);
    assert_int_equal(c.batch.recs[2].kind, REC_OBJECT);
    assert_int_equal(c.batch.recs[2].offset, 2);
    assert_int_equal(c.batch.recs[2].src, 3);
    assert_string_equal(topic_name(c.batch.recs[2].topic), "in");
    assert_int_equal(next_event(&c, 3), SOURCE_BATCH);
    assert_int_equal(c.batch.n, 2);
    assert_int_equal(c.batch.recs[1].offset, 4);
    assert_int_equal(next_event(&c, 3), SOURCE_PART_END);
    assert_int_equal(next_event(&c, 3), SOURCE_END);
    conn_close(&c);
}

static void
source_without_records_is_asked_again(void **state)
{
    struct conn_job c;
    struct buf before, after;

    (void)state;
    conn_load(&c,
              "poll = '7ms', read = function(p) return {}, (p or 0) + 1 end",
              false);
    buf_init(&before);
    buf_init(&after);
    assert_int_equal(next_event(&c, 3), SOURCE_ADDED);
    assert_int_equal(next_event(&c, 3), SOURCE_AT_END);
    assert_int_equal(script_source_type.snapshot(c.task, &before, &c.j.e), 0);
    do { /* not before its 7 ms are over */
        assert_int_equal(next_event(&c, 3), SOURCE_NONE);
        assert_in_range(c.ev.wait_ms, 1, 7);
        buf_clear(&after);
        assert_int_equal(script_source_type.snapshot(c.task, &after, &c.j.e),
                         0);
        assert_int_equal(before.len, after.len);
    } while (memcmp(before.data, after.data, before.len) == 0);
    script_source_type.stop(c.source);
    assert_int_equal(next_event(&c, 3), SOURCE_END);
    buf_fini(&before);
    buf_fini(&after);
    conn_close(&c);
}

static void
bounded_source_ends_at_its_first_pause(void **state)
{
    struct conn_job c;

    (void)state;
    conn_load(&c,
              "read = function(p) if p then return {}, p end "
              "return { { a = 1 } }, { at = { 1 } } end",
              true);
    assert_int_equal(next_event(&c, 3), SOURCE_ADDED);
    assert_int_equal(next_event(&c, 3), SOURCE_BATCH);
    assert_int_equal(next_event(&c, 3), SOURCE_PART_END);
    assert_int_equal(next_event(&c, 3), SOURCE_END);
    conn_close(&c);
}

static void
partitions_are_read_in_turn(void **state)
{
    struct conn_job c;

    (void)state;
    conn_load(&c,
              "partitions = 2, open = function(p) end,\n"
              "read = function(position, max, p) if position then return "
              "nil end return { { p = p } }, 1 end",
              false);
    assert_int_equal(next_event(&c, 3), SOURCE_ADDED);
    assert_int_equal(next_event(&c, 3), SOURCE_ADDED);
    assert_int_equal(next_event(&c, 3), SOURCE_BATCH);
    assert_memory_equal(c.batch.recs[0].val, "{\"p\":0}", 7);
    assert_int_equal(next_event(&c, 3), SOURCE_BATCH);
    assert_memory_equal(c.batch.recs[0].val, "{\"p\":1}", 7);
    assert_int_equal(c.batch.recs[0].partition, 1);
    assert_int_equal(next_event(&c, 3), SOURCE_PART_END);
    assert_int_equal(next_event(&c, 3), SOURCE_PART_END);
    assert_int_equal(next_event(&c, 3), SOURCE_END);
    conn_close(&c);
}

static void
an_element_that_is_no_record_is_told_apart(void **state)
{
    struct conn_job c;

    (void)state;
    conn_load(&c, "read = function() return { { a = 1 }, 5, { a = 2 } }, 1 end",
              false);
    assert_int_equal(next_event(&c, 3), SOURCE_ADDED);
    batch_clear(&c.batch);
    assert_int_equal(
        script_source_type.poll(c.task, &c.batch, 3, &c.ev, &c.j.e), 0);
    assert_int_equal(c.ev.kind, SOURCE_BATCH);
    assert_int_equal(c.batch.n, 3);
    assert_int_equal(c.ev.bad_count, 1);
    assert_int_equal(c.ev.bad[0].index, 1);
    assert_int_equal(c.ev.bad[0].cause, CAUSE_USER_ERROR);
    assert_non_null(strstr(c.ev.bad[0].msg, "records[2]"));
    assert_string_equal(c.ev.bad[0].where, "job.lua:4");
    conn_close(&c);
}

static void
errors_of_read_end_the_job(void **state)
{
    static const struct {
        const char *code, *text;
        unsigned flags;
    } cases[] = {
        {"read = function() return { 1, 2, 3, 4 } end", "asked for at most 3",
         0},
        {"read = function() return 5 end", "returned a number", 0},
        {"read = function() return { a = 1 } end", "named fields", 0},
        {"read = function() return { {} }, print end", "position", 0},
        {"read = function() error(s.retriable 'gone') end", "gone",
         ERR_RETRIABLE},
        {"open = function() error(s.retriable 'away') end, read = print",
         "away", ERR_RETRIABLE},
    };
    struct conn_job c;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        conn_load(&c, cases[i].code, false);
        assert_int_equal(next_event(&c, 3), SOURCE_ADDED);
        batch_clear(&c.batch);
        assert_int_equal(
            script_source_type.poll(c.task, &c.batch, 3, &c.ev, &c.j.e),
            cases[i].flags != 0 ? ERR_UNAVAILABLE : ERR_FAIL);
        if (strstr(c.j.e.msg, cases[i].text) == NULL)
            fail_msg("'%s' is not in '%s'", cases[i].text, c.j.e.msg);
        assert_string_equal(c.j.e.where, "job.lua:4");
        assert_int_equal(c.j.e.flags & ERR_RETRIABLE, cases[i].flags);
        conn_close(&c);
    }
}

/* ---- source, after a restore ---- */

/* Close `c`, keeping its snapshot as a round of one task. */
static void
conn_keep(struct conn_job *c, struct buf *ret)
{
    buf_init(ret);
    assert_int_equal(script_source_type.snapshot(c->task, ret, &c->j.e), 0);
    conn_close(c);
}

static void
a_position_comes_back_exactly_as_it_was(void **state)
{
    /* What a position may hold: all types, both kinds of numbers, bytes that
     * are no text, lists with holes in their keys, nested tables. */
    static const char code[] =
        "read = function(p, max)\n"
        "  if not p then return { { i = 1 } }, {\n"
        "    true, false, 7, 7.0, -0.0, 1/0, math.mininteger, s.null,\n"
        "    's\\0\\xff\\n', { a = { b = { 1, 2, x = 's' } }, [2.5] = 1,\n"
        "    [-3] = 2, [''] = 0 } } end\n"
        "  assert(#p == 10 and p[1] == true and p[2] == false)\n"
        "  assert(math.type(p[3]) == 'integer' and p[3] == 7)\n"
        "  assert(math.type(p[4]) == 'float' and p[4] == 7)\n"
        "  assert(1 / p[5] == -1/0 and p[6] == 1/0)\n"
        "  assert(p[7] == math.mininteger and p[8] == s.null)\n"
        "  assert(p[9] == 's\\0\\xff\\n')\n"
        "  local t = p[10]\n"
        "  assert(t.a.b[2] == 2 and t.a.b.x == 's' and #t.a.b == 2)\n"
        "  assert(t[2.5] == 1 and t[-3] == 2 and t[''] == 0)\n"
        "  return { { ok = true } }, p\n"
        "end";
    struct step_blobs blobs = {.count = 1};
    struct conn_job c = {0};
    struct buf first, second;

    (void)state;
    conn_load(&c, code, false);
    assert_int_equal(next_event(&c, 3), SOURCE_ADDED);
    assert_int_equal(next_event(&c, 3), SOURCE_BATCH);
    conn_keep(&c, &first);

    blobs.blobs = &first;
    c.restored = &blobs;
    assert_int_equal(conn_open(&c, code, false), 0);
    assert_int_equal(next_event(&c, 3), SOURCE_ADDED);
    assert_false(c.ev.discovered);
    assert_int_equal(next_event(&c, 3), SOURCE_BATCH);
    assert_memory_equal(c.batch.recs[0].val, "{\"ok\":true}", 11);
    assert_int_equal(c.batch.recs[0].offset, 1);
    conn_keep(&c, &second);
    assert_int_equal(second.len, first.len);
    buf_fini(&first);
    buf_fini(&second);
}

static void
a_source_that_had_ended_is_not_asked_again(void **state)
{
    static const char code[] =
        "partitions = 2,\n"
        "read = function(position, max, p)\n"
        "  if p == 0 then return nil end\n"
        "  return { { n = position or 0 } }, (position or 0) + 1\n"
        "end";
    static const char again[] =
        "partitions = 3, open = function(p) assert(p > 0) end,\n"
        "read = function(position, max, p)\n"
        "  return { { n = position or 0 } }, (position or 0) + 1\n"
        "end";
    struct step_blobs blobs = {.count = 1};
    struct conn_job c = {0};
    struct buf blob;

    (void)state;
    conn_load(&c, code, false);
    assert_int_equal(next_event(&c, 3), SOURCE_ADDED);
    assert_int_equal(next_event(&c, 3), SOURCE_ADDED);
    assert_int_equal(next_event(&c, 3), SOURCE_PART_END);
    assert_int_equal(next_event(&c, 3), SOURCE_BATCH);
    conn_keep(&c, &blob);

    blobs.blobs = &blob;
    c.restored = &blobs;
    assert_int_equal(conn_open(&c, again, false), 0);
    assert_int_equal(next_event(&c, 3), SOURCE_ADDED);
    assert_int_equal(next_event(&c, 3), SOURCE_ADDED);
    assert_false(c.ev.discovered);
    assert_int_equal(next_event(&c, 3), SOURCE_ADDED);
    assert_true(c.ev.discovered);
    assert_int_equal(next_event(&c, 3), SOURCE_PART_END);
    assert_int_equal(c.ev.part, 0);
    assert_int_equal(next_event(&c, 3), SOURCE_BATCH);
    assert_memory_equal(c.batch.recs[0].val, "{\"n\":1}", 7);
    assert_int_equal(c.batch.recs[0].offset, 1);
    assert_int_equal(next_event(&c, 3), SOURCE_BATCH);
    assert_memory_equal(c.batch.recs[0].val, "{\"n\":0}", 7);
    conn_close(&c);

    assert_int_equal(conn_open(&c, "read = print", false), ERR_JOBFILE);
    assert_non_null(strstr(c.j.e.msg, "partition 1"));
    assert_string_equal(c.j.e.where, "job.lua:3");
    assert_non_null(strstr(c.j.e.hint, "partitions=2"));
    conn_close(&c);
    buf_fini(&blob);
}

static void
a_source_that_bounded_ended_is_asked_again(void **state)
{
    static const char code[] = "read = function(p) if p then return {}, p end "
                               "return { { a = 1 } }, 1 end";
    struct step_blobs blobs = {.count = 1};
    struct conn_job c = {0};
    struct buf blob;

    (void)state;
    conn_load(&c, code, true);
    assert_int_equal(next_event(&c, 3), SOURCE_ADDED);
    assert_int_equal(next_event(&c, 3), SOURCE_BATCH);
    assert_int_equal(next_event(&c, 3), SOURCE_PART_END);
    conn_keep(&c, &blob);
    blobs.blobs = &blob;
    c.restored = &blobs;
    assert_int_equal(conn_open(&c, code, false), 0);
    assert_int_equal(next_event(&c, 3), SOURCE_ADDED);
    assert_int_equal(next_event(&c, 3), SOURCE_AT_END);
    conn_close(&c);
    buf_fini(&blob);
}

static void
damaged_positions_are_refused(void **state)
{
    struct step_blobs blobs = {.count = 1};
    struct conn_job c = {0};
    struct buf blob;

    (void)state;
    conn_load(&c, numbers, false);
    assert_int_equal(next_event(&c, 3), SOURCE_ADDED);
    assert_int_equal(next_event(&c, 3), SOURCE_BATCH);
    conn_keep(&c, &blob);
    blobs.blobs = &blob;
    c.restored = &blobs;
    buf_addc(&blob, 0);
    assert_int_equal(conn_open(&c, numbers, false), ERR_IO);
    conn_close(&c);
    for (blob.len--; blob.len > 0;) {
        blob.len--;
        assert_int_equal(conn_open(&c, numbers, false), ERR_IO);
        conn_close(&c);
    }
    buf_fini(&blob);
}

/* ---- sink ---- */

static void
sink_gets_the_batch_as_a_list(void **state)
{
    struct conn_env env = {.job = "t", .step = "out", .place = "job.lua:3"};
    struct conn_task conf = {.wake = no_wake};
    struct sink *sink;
    struct sink_task *task;
    struct job_of j;
    uint64_t bytes;
    int i, round;

    (void)state;
    job_load_text(&j, "local s = require 'streamlua'\n"
                      "local job = s.job 't'\n"
                      "local sum, kept, opened = 0, nil, false\n"
                      "job:source('in', s.stdin()):sink('out', s.sink {\n"
                      "open = function() opened = true end,\n"
                      "write = function(batch) assert(opened)\n"
                      "if kept then assert(not pcall(function() return kept.i "
                      "end)) end\n"
                      "kept = batch[1]\n"
                      "for i, e in ipairs(batch) do sum = sum + e.i * #e.l end "
                      "end,\n"
                      "flush = function() error('sum ' .. sum) end })\n"
                      "return job\n");
    env.opts = opt_get(job_step(j.s, "sink"), "conn");
    conf.script = j.s;
    assert_int_equal(script_sink_type.open(&env, &sink, &j.e), 0);
    assert_int_equal(script_sink_type.task_new(sink, &conf, &task, &j.e), 0);
    for (round = 1; round <= 3; round++) {
        for (i = 0; i < 3 * round; i++) {
            job_record(&j, "{\"i\":2,\"l\":[0,0]}");
            assert_int_equal(
                script_sink_type.write(task, &j.rec, NULL, 0, &bytes, &j.e), 0);
            assert_int_equal(bytes, 17);
        }
        if (script_sink_type.batch_end(task, &j.e) != 0)
            fail_msg("%s", j.e.msg);
    }
    assert_int_equal(script_sink_type.flush(task, &j.e), ERR_FAIL);
    assert_string_equal(j.e.msg, "flush: sum 72");
    script_sink_type.task_free(&task);
    script_sink_type.close(&sink);
    job_free(&j);
}

static void
a_retriable_error_of_a_sink_is_for_the_restart_policy(void **state)
{
    struct conn_env env = {.job = "t", .step = "out", .place = "job.lua:3"};
    struct conn_task conf = {.wake = no_wake};
    struct sink_task *task;
    struct sink *sink;
    struct job_of j;
    uint64_t bytes;

    (void)state;
    job_load_text(&j, "local s = require 'streamlua'\n"
                      "local job = s.job 't'\n"
                      "job:source('in', s.stdin()):sink('out', s.sink {\n"
                      "write = function() error(s.retriable 'busy') end,\n"
                      "flush = function() error(s.retriable 'away') end })\n"
                      "return job\n");
    env.opts = opt_get(job_step(j.s, "sink"), "conn");
    conf.script = j.s;
    assert_int_equal(script_sink_type.open(&env, &sink, &j.e), 0);
    assert_int_equal(script_sink_type.task_new(sink, &conf, &task, &j.e), 0);
    assert_int_equal(script_sink_type.flush(task, &j.e), ERR_UNAVAILABLE);
    assert_int_equal(j.e.flags, ERR_RETRIABLE);
    assert_string_equal(j.e.msg, "flush: away");
    job_record(&j, "{\"i\":2}");
    assert_int_equal(
        script_sink_type.write(task, &j.rec, NULL, 0, &bytes, &j.e), 0);
    assert_int_equal(script_sink_type.batch_end(task, &j.e), ERR_UNAVAILABLE);
    assert_int_equal(j.e.flags, ERR_RETRIABLE);
    assert_string_equal(j.e.msg, "write: busy");
    assert_string_equal(j.e.where, "job.lua:4");
    script_sink_type.task_free(&task);
    script_sink_type.close(&sink);
    job_free(&j);
}

/* A sink with commit, and what its target was told, in order. */
struct target_job {
    struct job_of j;
    struct sink *sink;
    struct sink_task *task;
};

static void
target_open(struct target_job *t, const char *code, uint64_t round)
{
    static const uint8_t lineage[CONN_LINEAGE_SIZE];
    static struct conn_ckpt ckpt;
    struct conn_env env = {.job = "t", .step = "out", .place = "job.lua:3"};
    struct conn_task conf = {.wake = no_wake};
    char text[4096];

    (void)snprintf(text, sizeof text,
                   "local s = require 'streamlua'\n"
                   "local job = s.job 't'\n"
                   "local log, round, token = {}, nil, nil\n"
                   "local function say(what) log[#log + 1] = what end\n"
                   "local function told() local t = table.concat(log, ' ') "
                   "log = {} error(t) end\n"
                   "job:source('in', s.generator { fields = { a = 1 } })"
                   ":sink('out', s.sink {\n%s\n})\nreturn job\n",
                   code);
    job_load_text(&t->j, text);
    ckpt = (struct conn_ckpt){.lineage = lineage, .round = round};
    env.ckpt = &ckpt;
    env.opts = opt_get(job_step(t->j.s, "sink"), "conn");
    conf.script = t->j.s;
    assert_int_equal(script_sink_type.open(&env, &t->sink, &t->j.e), 0);
    assert_int_equal(
        script_sink_type.task_new(t->sink, &conf, &t->task, &t->j.e), 0);
}

static void
target_close(struct target_job *t)
{
    script_sink_type.task_free(&t->task);
    script_sink_type.close(&t->sink);
    job_free(&t->j);
}

static void
target_write(struct target_job *t)
{
    uint64_t bytes;

    job_record(&t->j, "{\"i\":1}");
    assert_int_equal(
        script_sink_type.write(t->task, &t->j.rec, NULL, 0, &bytes, &t->j.e),
        0);
}

static const char target_code[] =
    "open = function() say 'open' end,\n"
    "write = function(b) say('write' .. #b) end,\n"
    "flush = function() say 'flush' end,\n"
    "last_round = function() say 'last' if #log > 9 then told() end "
    "return round, token end,\n"
    "commit = function(n, t) say('commit' .. n .. t) round, token = n, t "
    "if n == 9 then told() end end,\n"
    "close = function() end";

static void
nothing_is_written_between_a_barrier_and_its_commit(void **state)
{
    struct conn_round one = {.round = 1, .token = "a"};
    struct conn_round nine = {.round = 9, .token = "b"};
    struct target_job t;
    struct buf b;
    uint32_t i;

    (void)state;
    buf_init(&b);
    target_open(&t, target_code, 0);
    target_write(&t);
    assert_int_equal(script_sink_type.flush(t.task, &t.j.e), 0);
    assert_int_equal(script_sink_type.snapshot(t.task, 1, &b, &t.j.e), 0);

    target_write(&t);
    assert_int_equal(script_sink_type.batch_end(t.task, &t.j.e), 0);
    assert_int_equal(script_sink_type.flush(t.task, &t.j.e), ERR_AGAIN);
    assert_true(script_sink_type.ready(t.task));
    for (i = 0; i < 100000 && script_sink_type.ready(t.task); i++)
        target_write(&t);
    assert_in_range(i, 1000, 10000); /* it is full at some time */

    assert_int_equal(script_sink_type.commit(t.task, &one, &t.j.e), 0);
    assert_true(script_sink_type.ready(t.task));
    assert_int_equal(script_sink_type.flush(t.task, &t.j.e), 0);
    assert_int_equal(script_sink_type.commit(t.task, &nine, &t.j.e), ERR_FAIL);
    assert_non_null(strstr(
        t.j.e.msg, "open last write1 flush commit1a write4096 flush commit9b"));
    assert_false(script_sink_type.ready(t.task)); /* nothing after a failure */
    assert_int_equal(script_sink_type.flush(t.task, &t.j.e), ERR_AGAIN);
    buf_fini(&b);
    target_close(&t);
}

static void
large_records_behind_a_barrier_are_bounded_by_their_bytes(void **state)
{
    static char text[1 << 20];
    struct target_job t;
    uint64_t bytes;
    struct buf b;
    uint32_t i;

    (void)state;
    buf_init(&b);
    memset(text, 'x', sizeof text - 1);
    memcpy(text, "{\"i\":\"", 6);
    memcpy(text + sizeof text - 3, "\"}", 2);
    target_open(&t, target_code, 0);
    assert_int_equal(script_sink_type.flush(t.task, &t.j.e), 0);
    assert_int_equal(script_sink_type.snapshot(t.task, 1, &b, &t.j.e), 0);
    for (i = 0; i < 100 && script_sink_type.ready(t.task); i++) {
        job_record(&t.j, text);
        assert_int_equal(
            script_sink_type.write(t.task, &t.j.rec, NULL, 0, &bytes, &t.j.e),
            0);
    }
    assert_in_range(i, 16, 18);
    buf_fini(&b);
    target_close(&t);
}

static void
what_last_round_answers_is_checked(void **state)
{
    static const struct {
        const char *code, *want;
    } bad[] = {
        {"'7'", "last_round: returned a string; expected the integer"},
        {"1.5", "last_round: returned 1.5; expected the integer"},
        {"-1", "last_round: returned -1; expected the integer"},
        {"1, {}", "last_round: returned a table as the token"},
        {"1, ('x'):rep(500)", "last_round: returned a token that commit()"},
        {"1, 'a\\0b'", "last_round: returned a token that commit()"},
    };
    struct conn_round now;
    struct target_job t;
    char code[512];
    size_t i;

    (void)state;
    for (i = 0; i < sizeof bad / sizeof *bad; i++) {
        (void)snprintf(code, sizeof code,
                       "write = print, commit = print,\n"
                       "last_round = function() return %s end",
                       bad[i].code);
        target_open(&t, code, 0);
        assert_int_equal(script_sink_type.last_round(t.task, &now, &t.j.e),
                         ERR_FAIL);
        assert_non_null(strstr(t.j.e.msg, bad[i].want));
        assert_string_equal(t.j.e.where, "job.lua:8");
        target_close(&t);
    }
    target_open(&t,
                "write = print, commit = print,\n"
                "last_round = function() return 7, 'tok' end",
                7);
    assert_int_equal(script_sink_type.last_round(t.task, &now, &t.j.e), 0);
    assert_true(now.found);
    assert_int_equal(now.round, 7);
    assert_string_equal(now.token, "tok");
    target_close(&t);
}

static void
a_target_that_moved_since_the_start_ends_the_job(void **state)
{
    struct target_job t;

    (void)state;
    target_open(&t,
                "write = print, commit = print,\n"
                "last_round = function() return 8 end",
                7);
    assert_int_equal(script_sink_type.flush(t.task, &t.j.e), ERR_BUSY);
    assert_non_null(strstr(t.j.e.msg, "has checkpoint 8, this job goes on "
                                      "from 7"));
    target_close(&t);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(source_reads_from_position_to_the_end),
        cmocka_unit_test(source_without_records_is_asked_again),
        cmocka_unit_test(bounded_source_ends_at_its_first_pause),
        cmocka_unit_test(partitions_are_read_in_turn),
        cmocka_unit_test(an_element_that_is_no_record_is_told_apart),
        cmocka_unit_test(errors_of_read_end_the_job),
        cmocka_unit_test(a_position_comes_back_exactly_as_it_was),
        cmocka_unit_test(a_source_that_had_ended_is_not_asked_again),
        cmocka_unit_test(a_source_that_bounded_ended_is_asked_again),
        cmocka_unit_test(damaged_positions_are_refused),
        cmocka_unit_test(sink_gets_the_batch_as_a_list),
        cmocka_unit_test(a_retriable_error_of_a_sink_is_for_the_restart_policy),
        cmocka_unit_test(nothing_is_written_between_a_barrier_and_its_commit),
        cmocka_unit_test(
            large_records_behind_a_barrier_are_bounded_by_their_bytes),
        cmocka_unit_test(what_last_round_answers_is_checked),
        cmocka_unit_test(a_target_that_moved_since_the_start_ends_the_job),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
