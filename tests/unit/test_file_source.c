/* File source: every line once, in order, at its byte offset. */
#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/fault.h"
#include "base/hash.h"
#include "connect/lines.h"
#include "connect_help.h"

/* What one task gave: "path@offset:bytes" a line, in the order given. */
struct given {
    struct buf text;
    uint32_t added, discovered, ended, records, bad;
    enum err_cause cause; /* of the last bad one */
    char msg[256];
};

struct run {
    struct arena a;
    struct conn_env env;

    struct source *s;
    struct source_task *t;
    struct given g;
};

static int
open_from(struct run *r, const struct step_blobs *from, const char *opts,
          uint32_t parallelism, struct err *e)
{
    memset(r, 0, sizeof *r);
    arena_init(&r->a);
    r->env = help_env(&r->a, opts, parallelism);
    r->env.restored = from;
    err_clear(e);
    return file_source_type.open(&r->env, &r->s, e);
}

static int
open_run(struct run *r, const char *opts, uint32_t parallelism, struct err *e)
{
    return open_from(r, NULL, opts, parallelism, e);
}

/* Options with a format and `dir`/`name` as the path. */
static const char *
opts_for(struct arena *a, const char *dir, const char *name, const char *more)
{
    struct buf b;
    const char *text;

    buf_init(&b);
    buf_addf(&b, "{\"path\":\"%s%s%s\"%s}", dir, *name != '\0' ? "/" : "", name,
             more);
    text = arena_dup(a, b.data, b.len);
    buf_fini(&b);
    return text;
}

static void
task(struct run *r, uint32_t subtask)
{
    struct conn_task conf = {.subtask = subtask};
    struct err e;

    if (r->t != NULL)
        file_source_type.task_free(&r->t);
    assert_int_equal(file_source_type.task_new(r->s, &conf, &r->t, &e), 0);
}

static void
take(struct run *r, const struct batch *b, const struct source_event *ev,
     const char *dir)
{
    uint32_t i;

    assert_true(b->n > 0);
    for (i = 0; i < b->n; i++) {
        const struct rec *rec = &b->recs[i];
        const char *path = topic_name(rec->topic);

        assert_int_equal(rec->partition, 0);
        assert_int_equal(rec->src, 5);
        assert_int_equal(rec->topic, b->recs[0].topic);
        assert_memory_equal(path, dir, strlen(dir));
        buf_addf(&r->g.text, "%s@%" PRId64 ":", path + strlen(dir),
                 rec->offset);
        buf_add(&r->g.text, rec->val, rec->val_len);
        buf_addc(&r->g.text, '\n');
    }
    r->g.records += b->n;
    r->g.bad += ev->bad_count;
    for (i = 0; i < ev->bad_count; i++) {
        assert_true(ev->bad[i].index < b->n);
        assert_true(i == 0 || ev->bad[i].index > ev->bad[i - 1].index);
        r->g.cause = ev->bad[i].cause;
        (void)snprintf(r->g.msg, sizeof r->g.msg, "%s", ev->bad[i].msg);
    }
}

/* Poll at most `polls` times; @return whether the task has ended. */
static bool
poll_some(struct run *r, const char *dir, uint32_t max, int polls)
{
    struct source_event ev = {.kind = SOURCE_NONE};
    struct batch b;
    struct err e;

    batch_init(&b);
    while (polls-- != 0 && ev.kind != SOURCE_END) {
        batch_clear(&b);
        if (file_source_type.poll(r->t, &b, max, &ev, &e) != 0)
            fail_msg("%s", e.msg);
        assert_true(b.n <= max);
        assert_int_not_equal(ev.kind, SOURCE_NONE);
        if (ev.kind == SOURCE_BATCH)
            take(r, &b, &ev, dir);
        r->g.added += ev.kind == SOURCE_ADDED;
        r->g.discovered += ev.kind == SOURCE_ADDED && ev.discovered;
        r->g.ended += ev.kind == SOURCE_PART_END;
    }
    batch_fini(&b);
    return ev.kind == SOURCE_END;
}

static void
close_run(struct run *r)
{
    buf_fini(&r->g.text);
    if (r->t != NULL)
        file_source_type.task_free(&r->t);
    file_source_type.close(&r->s);
    arena_fini(&r->a);
}

/* Everything that `opts` gives with one task. */
static void
run_all(struct run *r, const char *dir, const char *name, const char *more,
        uint32_t max)
{
    struct arena a;
    struct err e;

    arena_init(&a);
    if (open_run(r, opts_for(&a, dir, name, more), 1, &e) != 0)
        fail_msg("%s", e.msg);
    arena_fini(&a);
    task(r, 0);
    assert_true(poll_some(r, dir, max, -1));
}

#define RAW ",\"format\":\"raw\""
#define HEADER ",\"format\":\"csv\",\"header\":true"

/* Add the snapshot of the task to those of the round. */
static void
keep(struct run *r, struct step_blobs *blobs)
{
    struct err e;

    assert_int_equal(file_source_type.snapshot(r->t, help_blobs_add(blobs), &e),
                     0);
}

/* Read `polls` events of `dir`/`name` with one task, and keep the round. */
static void
read_some(struct step_blobs *blobs, const char *dir, const char *name,
          const char *more, int polls)
{
    struct arena a;
    struct run r;
    struct err e;

    arena_init(&a);
    if (open_run(&r, opts_for(&a, dir, name, more), 1, &e) != 0)
        fail_msg("%s", e.msg);
    task(&r, 0);
    (void)poll_some(&r, dir, 1, polls);
    keep(&r, blobs);
    close_run(&r);
    arena_fini(&a);
}

/* What a job that goes on from `blobs` gives; or its error at open. */
static int
read_on(struct run *r, const struct step_blobs *blobs, const char *dir,
        const char *name, const char *more, struct err *e)
{
    struct arena a;
    int got;

    arena_init(&a);
    got = open_from(r, blobs, opts_for(&a, dir, name, more), 1, e);
    arena_fini(&a);
    if (got != 0) {
        arena_fini(&r->a);
        return got;
    }
    task(r, 0);
    assert_true(poll_some(r, dir, 100, -1));
    return 0;
}

static void
lines_come_with_their_byte_offsets(void **state)
{
    static const char bytes[] = "{\"i\":1}\n \t\r\n{\"i\":2}\r\n\n{\"i\": 3}";
    char *dir = help_dir_make();
    struct run r;

    (void)state;
    help_file(dir, "a", bytes, sizeof bytes - 1);
    run_all(&r, dir, "a", "", 100);
    assert_string_equal(buf_cstr(&r.g.text), "/a@0:{\"i\":1}\n"
                                             "/a@12:{\"i\":2}\n"
                                             "/a@22:{\"i\": 3}\n");
    assert_int_equal(r.g.added, 1);
    assert_int_equal(r.g.ended, 1);
    close_run(&r);
    help_dir_remove(&dir);
}

static void
directory_and_glob_are_sorted_without_dots_and_folders(void **state)
{
    char *dir = help_dir_make();
    struct arena a;
    struct run r;

    (void)state;
    arena_init(&a);
    help_file(dir, "b.txt", "B\n", 2);
    help_file(dir, "a.txt", "A\n", 2);
    help_file(dir, "Z.txt", "Z", 1);
    help_file(dir, ".h.txt", "H\n", 2);
    help_file(dir, "c.log", "C\n", 2);
    help_file(dir, "empty.txt", "", 0);
    assert_int_equal(mkdir(help_path(&a, dir, "d.txt"), 0777), 0);
    help_file(dir, "d.txt/inner", "I\n", 2);

    run_all(&r, dir, "", RAW, 1);
    assert_string_equal(buf_cstr(&r.g.text), "/Z.txt@0:Z\n/a.txt@0:A\n"
                                             "/b.txt@0:B\n/c.log@0:C\n");
    assert_int_equal(r.g.added, 5);
    assert_int_equal(r.g.ended, 5);
    close_run(&r);
    run_all(&r, dir, "*.txt", RAW, 1);
    assert_string_equal(buf_cstr(&r.g.text),
                        "/Z.txt@0:Z\n/a.txt@0:A\n/b.txt@0:B\n");
    close_run(&r);
    run_all(&r, dir, ".h.txt", RAW, 1); /* named, so it is meant */
    assert_string_equal(buf_cstr(&r.g.text), "/.h.txt@0:H\n");
    close_run(&r);
    arena_fini(&a);
    help_dir_remove(&dir);
}

static void
what_cannot_be_read_is_an_error_that_names_it(void **state)
{
    char *dir = help_dir_make();
    struct arena a;
    struct run r;
    struct err e;

    (void)state;
    arena_init(&a);
    assert_int_equal(open_run(&r, opts_for(&a, dir, "no", ""), 1, &e), ERR_IO);
    assert_non_null(strstr(e.msg, "/no': No such file"));
    assert_string_equal(e.where, "job.lua:2");
    arena_fini(&r.a);
    assert_int_equal(open_run(&r, opts_for(&a, dir, "*.x", ""), 1, &e), ERR_IO);
    assert_non_null(strstr(e.msg, "no file matches"));
    assert_non_null(strstr(e.msg, "/*.x'"));
    arena_fini(&r.a);
    assert_int_equal(mkfifo(help_path(&a, dir, "pipe"), 0666), 0);
    assert_int_equal(open_run(&r, opts_for(&a, dir, "pipe", ""), 1, &e),
                     ERR_IO);
    assert_non_null(strstr(e.msg, "/pipe'"));
    arena_fini(&r.a);
    arena_fini(&a);
    help_dir_remove(&dir);
}

static void
an_empty_directory_is_an_empty_input(void **state)
{
    char *dir = help_dir_make();
    struct run r;

    (void)state;
    run_all(&r, dir, "", RAW, 1);
    assert_int_equal(r.g.added, 0);
    close_run(&r);
    help_dir_remove(&dir);
}

static void
file_i_belongs_to_task_i_mod_parallelism(void **state)
{
    char *dir = help_dir_make(), name[8], want[32];
    struct arena a;
    struct run r;
    struct err e;
    uint32_t i;

    (void)state;
    arena_init(&a);
    for (i = 0; i < 5; i++) {
        (void)snprintf(name, sizeof name, "f%u", i);
        help_file(dir, name, "x\n", 2);
    }
    assert_int_equal(open_run(&r, opts_for(&a, dir, "", RAW), 7, &e), 0);
    for (i = 0; i < 7; i++) {
        task(&r, i);
        buf_clear(&r.g.text);
        assert_true(poll_some(&r, dir, 10, -1));
        (void)snprintf(want, sizeof want, "/f%u@0:x\n", i);
        assert_string_equal(buf_cstr(&r.g.text), i < 5 ? want : "");
    }
    close_run(&r);
    arena_fini(&a);
    help_dir_remove(&dir);
}

static void
bad_records_are_given_with_their_reason(void **state)
{
    static const char bytes[] = "{\"a\":1}\n{\"b\":\"\xff\"}\nnonsense\n"
                                "{\"c\":3}\n";
    char *dir = help_dir_make();
    struct run r;

    (void)state;
    help_file(dir, "a", bytes, sizeof bytes - 1);
    run_all(&r, dir, "a", "", 100);
    assert_int_equal(r.g.records, 4);
    assert_int_equal(r.g.bad, 2);
    assert_int_equal(r.g.cause, CAUSE_DECODE);
    assert_string_equal(buf_cstr(&r.g.text),
                        "/a@0:{\"a\":1}\n/a@8:{\"b\":\"\xff\"}\n"
                        "/a@18:nonsense\n/a@27:{\"c\":3}\n");
    close_run(&r);
    help_dir_remove(&dir);
}

static void
a_quoted_newline_does_not_end_a_csv_record(void **state)
{
    static const char bytes[] = "id,text\n1,\"a\nb\"\n2,\"say \"\"hi\"\"\n\n"
                                "x\"\n3,5\" wide\n4,\"end\"";
    char *dir = help_dir_make();
    struct run r;

    (void)state;
    help_file(dir, "a.csv", bytes, sizeof bytes - 1);
    run_all(&r, dir, "a.csv",
            ",\"format\":\"csv\",\"header\":true,\"delimiter\":\",\"", 1);
    assert_non_null(strstr(buf_cstr(&r.g.text),
                           "/a.csv@8:{\"id\":\"1\",\"text\":\"a\\nb\"}\n"));
    assert_non_null(strstr(buf_cstr(&r.g.text),
                           "/a.csv@16:{\"id\":\"2\",\"text\":"
                           "\"say \\\"hi\\\"\\n\\nx\"}\n"));
    assert_non_null(strstr(buf_cstr(&r.g.text), "/a.csv@34:"));
    assert_non_null(strstr(buf_cstr(&r.g.text),
                           "/a.csv@44:{\"id\":\"4\",\"text\":\"end\"}\n"));
    assert_int_equal(r.g.records, 4);
    close_run(&r);
    help_dir_remove(&dir);
}

static void
each_csv_file_has_its_own_header(void **state)
{
    char *dir = help_dir_make();
    struct run r;

    (void)state;
    help_file(dir, "1", "a,b\n1,2\n3,4\n", 12);
    help_file(dir, "2", "b,a\n5,6\n7,8\n", 12);
    run_all(&r, dir, "", ",\"format\":\"csv\",\"header\":true", 1);
    assert_string_equal(buf_cstr(&r.g.text),
                        "/1@4:{\"a\":\"1\",\"b\":\"2\"}\n"
                        "/1@8:{\"a\":\"3\",\"b\":\"4\"}\n"
                        "/2@4:{\"b\":\"5\",\"a\":\"6\"}\n"
                        "/2@8:{\"b\":\"7\",\"a\":\"8\"}\n");
    close_run(&r);
    help_dir_remove(&dir);
}

static void
a_line_of_the_size_limit_is_read_and_a_longer_one_is_bad(void **state)
{
    size_t size = (size_t)LINE_SIZE_MAX;
    char *dir = help_dir_make(), *bytes = mem_alloc(2 * size + 16);
    struct source_event ev;
    struct batch b;
    struct run r;
    struct err e;
    struct arena a;

    (void)state;
    arena_init(&a);
    memset(bytes, 'x', 2 * size + 16);
    bytes[size] = '\n';         /* a line of the limit */
    bytes[2 * size + 2] = '\n'; /* one byte longer */
    bytes[2 * size + 3] = 'y';
    help_file(dir, "a", bytes, 2 * size + 4);
    free(bytes);
    assert_int_equal(open_run(&r, opts_for(&a, dir, "a", RAW), 1, &e), 0);
    task(&r, 0);
    batch_init(&b);
    assert_int_equal(file_source_type.poll(r.t, &b, 1, &ev, &e), 0);

    assert_int_equal(file_source_type.poll(r.t, &b, 1, &ev, &e), 0);
    assert_int_equal(b.recs[0].val_len, size);
    assert_int_equal(ev.bad_count, 0);
    batch_clear(&b);
    assert_int_equal(file_source_type.poll(r.t, &b, 1, &ev, &e), 0);
    assert_int_equal(b.n, 1);
    assert_int_equal(ev.bad_count, 1);
    assert_int_equal(ev.bad[0].cause, CAUSE_DECODE);
    assert_int_equal(b.recs[0].offset, size + 1);
    batch_clear(&b);
    assert_int_equal(file_source_type.poll(r.t, &b, 1, &ev, &e), 0);
    assert_int_equal(b.n, 1);
    assert_int_equal(b.recs[0].val_len, 1);
    assert_int_equal(b.recs[0].val[0], 'y');
    assert_int_equal(b.recs[0].offset, 2 * size + 3);
    batch_fini(&b);
    close_run(&r);
    arena_fini(&a);
    help_dir_remove(&dir);
}

/* Append a file of random lines and what is expected of it. */
static void
random_file(uint64_t *seed, const char *name, struct buf *bytes,
            struct buf *want)
{
    uint32_t lines, k;

    *seed = hash_splitmix(*seed);
    lines = (uint32_t)(*seed % 400);
    for (k = 0; k < lines; k++) {
        size_t len, i, from = bytes->len;

        *seed = hash_splitmix(*seed);
        len = *seed % (*seed % 97 == 0 ? 700000 : *seed % 5 == 0 ? 5000 : 60);
        buf_addf(want, "%s@%zu:", name, from);
        for (i = 0; i < len; i++)
            buf_addc(bytes, (char)('a' + (i * 7 + k) % 26));
        buf_add(want, bytes->data + from, len);
        buf_addc(want, '\n');
        if (k + 1 < lines || len == 0 || *seed % 2 == 0)
            buf_addc(bytes, '\n');
    }
}

/* The lines of `text` that begin with `name`. */
static void
lines_of(struct buf *text, const char *name, struct buf *out)
{
    const char *p = text->data, *end = p + text->len;

    while (p < end) {
        const char *nl = memchr(p, '\n', (size_t)(end - p)) + 1;

        if (strncmp(p, name, strlen(name)) == 0)
            buf_add(out, p, (size_t)(nl - p));
        p = nl;
    }
}

static void
files_of_any_lines_are_given_whole_and_in_order(void **state)
{
    uint64_t seed = 7331;
    int round, f;

    (void)state;
    print_message("seed %" PRIu64 "\n", seed);
    for (round = 0; round < 12; round++) {
        char *dir = help_dir_make();
        struct buf want[5], bytes, got;
        char name[16], topic[16];
        uint32_t max;
        struct run r;

        for (f = 0; f < 5; f++) {
            (void)snprintf(name, sizeof name, "f%d", f);
            (void)snprintf(topic, sizeof topic, "/f%d", f);
            buf_init(&bytes);
            buf_init(&want[f]);
            random_file(&seed, topic, &bytes, &want[f]);
            help_file(dir, name, buf_cstr(&bytes), bytes.len);
            buf_fini(&bytes);
        }
        seed = hash_splitmix(seed);
        max = 1 + (uint32_t)(seed % 300);
        run_all(&r, dir, "", RAW, max);
        for (f = 0; f < 5; f++) {
            (void)snprintf(topic, sizeof topic, "/f%d@", f);
            buf_init(&got);
            (void)buf_cstr(&r.g.text);
            if (r.g.text.len != 0)
                lines_of(&r.g.text, topic, &got);
            assert_int_equal(got.len, want[f].len);
            assert_memory_equal(buf_cstr(&got), buf_cstr(&want[f]), got.len);
            buf_fini(&got);
            buf_fini(&want[f]);
        }
        assert_int_equal(r.g.ended, 5);
        close_run(&r);
        help_dir_remove(&dir);
    }
}

/* Feed `size` bytes of 'x' in pieces as a pipe gives them. */
static void
feed(struct lines *l, size_t size)
{
    while (size > 0) {
        size_t room, n;
        char *to = lines_space(l, &room);

        n = room < 65536 ? room : 65536;
        n = n < size ? n : size;
        memset(to, 'x', n);
        lines_filled(l, n);
        size -= n;
    }
}

static void
the_rest_of_a_line_that_is_too_long_is_dropped(void **state)
{
    struct line line;
    struct lines l;
    size_t room;

    (void)state;
    lines_init(&l, false, ',');
    lines_start(&l, 0);
    feed(&l, (size_t)LINE_SIZE_MAX + 1);
    assert_int_equal(lines_next(&l, false, &line), LINE_TOO_LONG);
    assert_int_equal(line.len, LINE_CUT);
    assert_int_equal(lines_next(&l, false, &line), LINE_NONE);
    feed(&l, 100);
    assert_int_equal(lines_next(&l, false, &line), LINE_NONE);
    memcpy(lines_space(&l, &room), "x\nabc\n", 6);
    lines_filled(&l, 6);
    assert_int_equal(lines_next(&l, false, &line), LINE_OK);
    assert_int_equal(line.len, 3);
    assert_memory_equal(line.bytes, "abc", 3);
    assert_int_equal(line.offset, (int64_t)LINE_SIZE_MAX + 103);
    assert_int_equal(lines_next(&l, true, &line), LINE_NONE);
    lines_fini(&l);
}

static void
more_files_than_may_be_open_are_read_in_turns(void **state)
{
    enum { FILES = 90, LINES = 300, LINE = 1000 }; /* more than a block each */
    char *dir = help_dir_make(), *bytes = mem_alloc(LINES * LINE), name[16];
    struct rlimit old, small;
    struct run r;
    int f;

    (void)state;
    memset(bytes, 'x', LINES * LINE);
    for (f = LINE - 1; f < LINES * LINE; f += LINE)
        bytes[f] = '\n';
    for (f = 0; f < FILES; f++) {
        (void)snprintf(name, sizeof name, "f%03d", f);
        help_file(dir, name, bytes, LINES * LINE);
    }
    free(bytes);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    small = old;
    small.rlim_cur = 80;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &small), 0);
    run_all(&r, dir, "", RAW, 200);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    assert_int_equal(r.g.records, FILES * LINES);
    assert_int_equal(r.g.ended, FILES);
    close_run(&r);
    help_dir_remove(&dir);
}

static void
stopping_ends_and_the_position_is_that_of_the_next_line(void **state)
{
    char *dir = help_dir_make();
    struct step_blobs blobs = {0};
    struct arena a;
    struct run r;
    struct err e;

    (void)state;
    arena_init(&a);
    help_file(dir, "a", "11\n22\n33\n", 9);
    assert_int_equal(open_run(&r, opts_for(&a, dir, "a", RAW), 1, &e), 0);
    task(&r, 0);
    assert_false(poll_some(&r, dir, 2, 2));
    file_source_type.stop(r.s);
    assert_true(poll_some(&r, dir, 2, -1));
    assert_int_equal(r.g.records, 2);
    assert_int_equal(r.g.ended, 0);
    keep(&r, &blobs);
    close_run(&r);

    assert_int_equal(open_from(&r, &blobs, opts_for(&a, dir, "a", RAW), 1, &e),
                     0);
    task(&r, 0);
    assert_true(poll_some(&r, dir, 2, -1));
    assert_string_equal(buf_cstr(&r.g.text), "/a@6:33\n");
    close_run(&r);
    help_blobs_free(&blobs);
    arena_fini(&a);
    help_dir_remove(&dir);
}

static void
a_file_that_shrinks_or_goes_is_never_skipped(void **state)
{
    char *dir = help_dir_make();
    struct source_event ev;
    struct arena a;
    struct batch b;
    struct run r;
    struct err e;

    (void)state;
    arena_init(&a);
    batch_init(&b);
    help_file(dir, "a", "11\n22\n33\n", 9);
    assert_int_equal(open_run(&r, opts_for(&a, dir, "a", RAW), 1, &e), 0);
    task(&r, 0);
    assert_false(poll_some(&r, dir, 1, 1));
    assert_int_equal(truncate(help_path(&a, dir, "a"), 4), 0);
    assert_int_equal(file_source_type.poll(r.t, &b, 1, &ev, &e), 0);
    batch_clear(&b);
    assert_int_equal(file_source_type.poll(r.t, &b, 1, &ev, &e), ERR_IO);
    assert_non_null(strstr(e.msg, "became shorter"));
    close_run(&r);
    assert_int_equal(open_run(&r, opts_for(&a, dir, "a", RAW), 1, &e), 0);
    task(&r, 0);
    assert_false(poll_some(&r, dir, 1, 1));
    assert_int_equal(unlink(help_path(&a, dir, "a")), 0);
    batch_clear(&b);
    assert_int_equal(file_source_type.poll(r.t, &b, 1, &ev, &e), ERR_IO);
    assert_non_null(strstr(e.msg, "/a': No such file"));
    close_run(&r);
    help_file(dir, "a", "11\n", 3);
    help_file(dir, "b", "22\n", 3);
    assert_int_equal(open_run(&r, opts_for(&a, dir, "a", RAW), 1, &e), 0);
    task(&r, 0);
    assert_false(poll_some(&r, dir, 1, 1));
    assert_int_equal(rename(help_path(&a, dir, "b"), help_path(&a, dir, "a")),
                     0);
    batch_clear(&b);
    assert_int_equal(file_source_type.poll(r.t, &b, 1, &ev, &e), ERR_IO);
    assert_non_null(strstr(e.msg, "was replaced"));
    batch_fini(&b);
    close_run(&r);
    arena_fini(&a);
    help_dir_remove(&dir);
}

static void
a_read_that_fails_names_the_file(void **state)
{
#ifdef STREAMLUA_TEST_MODE
    char *dir = help_dir_make();
    struct source_event ev;
    struct arena a;
    struct batch b;
    struct run r;
    struct err e;

    (void)state;
    arena_init(&a);
    batch_init(&b);
    help_file(dir, "a", "11\n", 3);
    assert_int_equal(open_run(&r, opts_for(&a, dir, "a", RAW), 1, &e), 0);
    task(&r, 0);
    assert_false(poll_some(&r, dir, 1, 1));
    fault_setup("file_source_read=1");
    assert_int_equal(file_source_type.poll(r.t, &b, 1, &ev, &e), ERR_IO);
    fault_setup(NULL);
    assert_non_null(strstr(e.msg, "/a': Input/output error"));
    batch_fini(&b);
    close_run(&r);
    arena_fini(&a);
    help_dir_remove(&dir);
#else
    (void)state;
    skip();
#endif
}

/* --- after a restore ------------------------------------------------------ */

static void
any_number_of_tasks_goes_on_where_the_others_were(void **state)
{
    uint64_t seed = 4242;
    int round, f;

    (void)state;
    print_message("seed %" PRIu64 "\n", seed);
    for (round = 0; round < 20; round++) {
        struct buf all, want[5], bytes, got;
        struct step_blobs blobs = {0};
        char *dir = help_dir_make();
        char name[16];
        uint32_t i, tasks;
        struct arena a;
        struct run r;
        struct err e;

        arena_init(&a);
        buf_init(&all);
        for (f = 0; f < 5; f++) {
            (void)snprintf(name, sizeof name, "/f%d", f);
            buf_init(&bytes);
            buf_init(&want[f]);
            random_file(&seed, name, &bytes, &want[f]);
            help_file(dir, name + 1, buf_cstr(&bytes), bytes.len);
            buf_fini(&bytes);
        }

        tasks = 1 + (uint32_t)(round % 4);
        assert_int_equal(open_run(&r, opts_for(&a, dir, "", RAW), tasks, &e),
                         0);
        for (i = 0; i < tasks; i++) {
            task(&r, i);
            seed = hash_splitmix(seed);
            (void)poll_some(&r, dir, 7, 3 + (int)(seed % 80));
            keep(&r, &blobs);
        }
        buf_add(&all, r.g.text.data, r.g.text.len);
        close_run(&r);
        tasks = 1 + (uint32_t)(seed % 6);
        assert_int_equal(
            open_from(&r, &blobs, opts_for(&a, dir, "", RAW), tasks, &e), 0);
        for (i = 0; i < tasks; i++) {
            task(&r, i);
            assert_true(poll_some(&r, dir, 100, -1));
        }
        buf_add(&all, r.g.text.data, r.g.text.len);
        assert_int_equal(r.g.added, 5);
        assert_int_equal(r.g.ended, 5);
        assert_int_equal(r.g.discovered, 0);
        close_run(&r);

        (void)buf_cstr(&all);
        for (f = 0; f < 5; f++) {
            (void)snprintf(name, sizeof name, "/f%d@", f);
            buf_init(&got);
            if (all.len != 0)
                lines_of(&all, name, &got);
            assert_string_equal(buf_cstr(&got), buf_cstr(&want[f]));
            buf_fini(&got);
            buf_fini(&want[f]);
        }
        buf_fini(&all);
        help_blobs_free(&blobs);
        arena_fini(&a);
        help_dir_remove(&dir);
    }
}

static void
a_csv_file_goes_on_with_its_header(void **state)
{
    static const char bytes[] = "\"i\nd\",b\n1,2\n\"3\n\",4\n5,6\n";
    char *dir = help_dir_make();
    int records;

    (void)state;
    help_file(dir, "a", bytes, sizeof bytes - 1);
    for (records = 0; records <= 3; records++) {
        static const char *const all[] = {
            "/a@8:{\"i\\nd\":\"1\",\"b\":\"2\"}\n",
            "/a@12:{\"i\\nd\":\"3\\n\",\"b\":\"4\"}\n",
            "/a@19:{\"i\\nd\":\"5\",\"b\":\"6\"}\n"};
        struct step_blobs blobs = {0};
        struct buf want;
        struct run r;
        struct err e;
        int i;

        buf_init(&want);
        for (i = records; i < 3; i++)
            buf_adds(&want, all[i]);
        read_some(&blobs, dir, "a", HEADER, 1 + records);
        assert_int_equal(read_on(&r, &blobs, dir, "a", HEADER, &e), 0);
        assert_string_equal(buf_cstr(&r.g.text), buf_cstr(&want));
        assert_int_equal(r.g.bad, 0);
        close_run(&r);
        buf_fini(&want);
        help_blobs_free(&blobs);
    }
    help_dir_remove(&dir);
}

static void
a_bad_line_before_the_csv_header_is_skipped_again(void **state)
{
    static const char bytes[] = "\xff\na,b\n1,2\n3,4\n";
    struct step_blobs blobs = {0};
    char *dir = help_dir_make();
    struct run r;
    struct err e;

    (void)state;
    help_file(dir, "a", bytes, sizeof bytes - 1);
    read_some(&blobs, dir, "a", HEADER, 3); /* the bad one and 1,2 */
    assert_int_equal(read_on(&r, &blobs, dir, "a", HEADER, &e), 0);
    assert_string_equal(buf_cstr(&r.g.text),
                        "/a@10:{\"a\":\"3\",\"b\":\"4\"}\n");
    close_run(&r);
    help_blobs_free(&blobs);
    help_dir_remove(&dir);
}

static void
what_came_or_grew_since_is_read_and_the_rest_has_ended(void **state)
{
    struct step_blobs blobs = {0};
    char *dir = help_dir_make();
    struct run r;
    struct err e;

    (void)state;
    help_file(dir, "b", "1\n2\n", 4);
    help_file(dir, "c", "3\n4", 3);
    help_file(dir, "d", "5\r", 2);
    help_file(dir, "e", "", 0);
    read_some(&blobs, dir, "", RAW, -1);

    assert_int_equal(read_on(&r, &blobs, dir, "", RAW, &e), 0);
    assert_int_equal(r.g.records, 0);
    assert_int_equal(r.g.added, 4);
    assert_int_equal(r.g.ended, 4);
    close_run(&r);

    help_file(dir, "a", "new\n", 4);
    help_file(dir, "b", "1\n2\n6\n", 6);
    help_file(dir, "c", "3\n4\n7\n", 6);
    help_file(dir, "d", "5\r\n8\n", 5);
    help_file(dir, "e", "9", 1);
    assert_int_equal(read_on(&r, &blobs, dir, "", RAW, &e), 0);
    assert_string_equal(buf_cstr(&r.g.text),
                        "/a@0:new\n/b@4:6\n/c@4:7\n/d@3:8\n/e@0:9\n");
    assert_int_equal(r.g.discovered, 1);
    assert_int_equal(r.g.ended, 5);
    close_run(&r);
    help_blobs_free(&blobs);
    help_dir_remove(&dir);
}

static void
a_file_that_is_gone_or_shorter_than_its_position_is_an_error(void **state)
{
    struct step_blobs blobs = {0};
    char *dir = help_dir_make();
    struct arena a;
    struct run r;
    struct err e;

    (void)state;
    arena_init(&a);
    help_file(dir, "a", "1\n2\n", 4);
    help_file(dir, "b", "3\n4\n", 4);
    read_some(&blobs, dir, "", RAW, -1);

    help_file(dir, "a", "1\n2", 3);
    assert_int_equal(read_on(&r, &blobs, dir, "", RAW, &e), ERR_IO);
    assert_non_null(strstr(e.msg, "/a' has 3 bytes"));
    assert_non_null(strstr(e.msg, "has read 4"));
    assert_string_equal(e.where, "job.lua:2");
    assert_non_null(strstr(e.hint, "--fresh"));
    assert_int_equal(unlink(help_path(&a, dir, "a")), 0);
    assert_int_equal(read_on(&r, &blobs, dir, "", RAW, &e), ERR_IO);
    assert_non_null(strstr(e.msg, "/a' is gone"));
    assert_non_null(strstr(e.msg, " 4 bytes"));
    assert_non_null(strstr(e.hint, "--fresh"));
    assert_int_equal(unlink(help_path(&a, dir, "b")), 0);
    assert_int_equal(read_on(&r, &blobs, dir, "*", RAW, &e), ERR_IO);
    assert_non_null(strstr(e.msg, "/a' is gone"));
    help_blobs_free(&blobs);
    arena_fini(&a);
    help_dir_remove(&dir);
}

static void
a_file_with_other_lines_than_those_that_were_read_is_an_error(void **state)
{
    static const struct {
        const char *before, *after, *msg;
        int polls;
    } cases[] = {
        {"11\n22\n", "1111\n22\n", "no line ends at the position", 2},
        {"11\n22", "11\n2233\n", "its last line went on", -1},
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct step_blobs blobs = {0};
        char *dir = help_dir_make();
        struct source_event ev;
        struct arena a;
        struct batch b;
        struct run r;
        struct err e;

        arena_init(&a);
        batch_init(&b);
        help_file(dir, "a", cases[i].before, strlen(cases[i].before));
        read_some(&blobs, dir, "a", RAW, cases[i].polls);
        help_file(dir, "a", cases[i].after, strlen(cases[i].after));
        assert_int_equal(
            open_from(&r, &blobs, opts_for(&a, dir, "a", RAW), 1, &e), 0);
        task(&r, 0);
        assert_false(poll_some(&r, dir, 1, 1));
        assert_int_equal(file_source_type.poll(r.t, &b, 1, &ev, &e), ERR_IO);
        assert_non_null(strstr(e.msg, "/a' was changed"));
        assert_non_null(strstr(e.msg, cases[i].msg));
        assert_int_equal(b.n, 0);
        close_run(&r);
        batch_fini(&b);
        arena_fini(&a);
        help_blobs_free(&blobs);
        help_dir_remove(&dir);
    }
}

static void
the_rest_of_a_line_that_is_too_long_is_no_record_after_a_restore(void **state)
{
    /* More than the block that is read before the line is given up. */
    int64_t size = 3 * (int64_t)LINE_SIZE_MAX;
    char *dir = help_dir_make(), want[32];
    struct step_blobs blobs = {0};
    struct arena a;
    struct run r;
    struct err e;
    FILE *f;

    (void)state;
    arena_init(&a);
    f = fopen(help_path(&a, dir, "a"), "wb");
    assert_non_null(f);
    assert_int_equal(fseeko(f, size, SEEK_SET), 0);
    assert_int_equal(fwrite("\nab\n", 1, 4, f), 4);
    assert_int_equal(fclose(f), 0);
    read_some(&blobs, dir, "a", RAW, 2); /* its first bytes, as a bad one */
    assert_int_equal(read_on(&r, &blobs, dir, "a", RAW, &e), 0);
    (void)snprintf(want, sizeof want, "/a@%" PRId64 ":ab\n", size + 1);
    assert_string_equal(buf_cstr(&r.g.text), want);
    close_run(&r);
    help_blobs_free(&blobs);
    arena_fini(&a);
    help_dir_remove(&dir);
}

static void
damaged_positions_are_refused(void **state)
{
    struct step_blobs blobs = {0};
    char *dir = help_dir_make();
    struct run r;
    struct err e;

    (void)state;
    help_file(dir, "a", "1\n2\n", 4);
    read_some(&blobs, dir, "a", RAW, -1);
    buf_addc(&blobs.blobs[0], 0);
    assert_int_equal(read_on(&r, &blobs, dir, "a", RAW, &e), ERR_IO);
    for (blobs.blobs[0].len--; blobs.blobs[0].len > 0;) {
        blobs.blobs[0].len--;
        assert_int_equal(read_on(&r, &blobs, dir, "a", RAW, &e), ERR_IO);
        assert_non_null(strstr(e.msg, "damaged"));
    }
    help_blobs_free(&blobs);
    help_dir_remove(&dir);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_come_with_their_byte_offsets),
        cmocka_unit_test(
            directory_and_glob_are_sorted_without_dots_and_folders),
        cmocka_unit_test(what_cannot_be_read_is_an_error_that_names_it),
        cmocka_unit_test(an_empty_directory_is_an_empty_input),
        cmocka_unit_test(file_i_belongs_to_task_i_mod_parallelism),
        cmocka_unit_test(bad_records_are_given_with_their_reason),
        cmocka_unit_test(a_quoted_newline_does_not_end_a_csv_record),
        cmocka_unit_test(each_csv_file_has_its_own_header),
        cmocka_unit_test(
            a_line_of_the_size_limit_is_read_and_a_longer_one_is_bad),
        cmocka_unit_test(files_of_any_lines_are_given_whole_and_in_order),
        cmocka_unit_test(the_rest_of_a_line_that_is_too_long_is_dropped),
        cmocka_unit_test(more_files_than_may_be_open_are_read_in_turns),
        cmocka_unit_test(
            stopping_ends_and_the_position_is_that_of_the_next_line),
        cmocka_unit_test(a_file_that_shrinks_or_goes_is_never_skipped),
        cmocka_unit_test(a_read_that_fails_names_the_file),
        cmocka_unit_test(any_number_of_tasks_goes_on_where_the_others_were),
        cmocka_unit_test(a_csv_file_goes_on_with_its_header),
        cmocka_unit_test(a_bad_line_before_the_csv_header_is_skipped_again),
        cmocka_unit_test(
            what_came_or_grew_since_is_read_and_the_rest_has_ended),
        cmocka_unit_test(
            a_file_that_is_gone_or_shorter_than_its_position_is_an_error),
        cmocka_unit_test(
            a_file_with_other_lines_than_those_that_were_read_is_an_error),
        cmocka_unit_test(
            the_rest_of_a_line_that_is_too_long_is_no_record_after_a_restore),
        cmocka_unit_test(damaged_positions_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
