/* stdin and stdout: nothing lost, nothing mixed, no slot held up. */
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>

#include "base/fault.h"
#include "connect_help.h"

/* A stream put in the place of file descriptor 0 or 1. */
struct swapped {
    int target, saved;
};

static struct swapped
swap_in(int target, int fd)
{
    struct swapped s = {target, dup(target)};

    if (target == STDOUT_FILENO)
        (void)fflush(stdout);
    assert_true(dup2(fd, target) == target);
    (void)close(fd);
    return s;
}

static void
swap_out(struct swapped *s)
{
    assert_true(dup2(s->saved, s->target) == s->target);
    (void)close(s->saved);
}

/* --- stdin ---------------------------------------------------------------- */

struct input {
    struct arena a;
    struct conn_env env;
    struct source *s;
    struct source_task *t;
    struct swapped swapped;
    sem_t wakes;
    struct buf text; /* "offset:bytes" a line */
    struct source_event ev;
};

static void
open_input(struct input *in, int fd, const char *opts)
{
    struct conn_task conf = {.wake = help_wake, .wake_arg = &in->wakes};
    struct err e;

    memset(in, 0, sizeof *in);
    arena_init(&in->a);
    (void)sem_init(&in->wakes, 0, 0);
    in->swapped = swap_in(STDIN_FILENO, fd);
    in->env = help_env(&in->a, opts, 2);
    assert_int_equal(stdin_source_type.open(&in->env, &in->s, &e), 0);
    assert_int_equal(stdin_source_type.task_new(in->s, &conf, &in->t, &e), 0);
}

static void
close_input(struct input *in)
{
    stdin_source_type.task_free(&in->t);
    stdin_source_type.close(&in->s);
    swap_out(&in->swapped);
    (void)sem_destroy(&in->wakes);
    buf_fini(&in->text);
    arena_fini(&in->a);
}

/* The source of the next attempt, which begins at `offset`. */
static void
open_next(struct input *in, const char *offset)
{
    struct conn_task conf = {.wake = help_wake, .wake_arg = &in->wakes};
    struct buf blob;
    struct step_blobs restored = {.blobs = &blob, .count = 1};
    struct err e;

    buf_init(&blob);
    buf_adds(&blob, offset);
    stdin_source_type.task_free(&in->t);
    stdin_source_type.close(&in->s);
    buf_clear(&in->text);
    in->env.restored = &restored;
    assert_int_equal(stdin_source_type.open(&in->env, &in->s, &e), 0);
    assert_int_equal(stdin_source_type.task_new(in->s, &conf, &in->t, &e), 0);
    in->env.restored = NULL;
    buf_fini(&blob);
}

/* Poll until there is nothing now, or the end. */
static enum source_event_kind
poll_input(struct input *in, uint32_t max)
{
    struct batch b;
    struct err e;
    uint32_t i;

    batch_init(&b);
    do {
        batch_clear(&b);
        if (stdin_source_type.poll(in->t, &b, max, &in->ev, &e) != 0)
            fail_msg("%s", e.msg);
        for (i = 0; i < b.n; i++) {
            assert_string_equal(topic_name(b.recs[i].topic), "stdin");
            assert_int_equal(b.recs[i].partition, 0);
            buf_addf(&in->text, "%" PRId64 ":", b.recs[i].offset);
            buf_add(&in->text, b.recs[i].val, b.recs[i].val_len);
            buf_addc(&in->text, '\n');
        }
    } while (in->ev.kind != SOURCE_NONE && in->ev.kind != SOURCE_END);
    batch_fini(&b);
    return in->ev.kind;
}

static void
send_text(int fd, const char *text)
{
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

static void
a_pipe_is_read_as_it_comes_and_wakes_the_slot(void **state)
{
    struct input in;
    int fds[2];

    (void)state;
    assert_int_equal(pipe(fds), 0);
    open_input(&in, fds[0], "{\"format\":\"raw\"}");
    assert_int_equal(poll_input(&in, 10), SOURCE_NONE);
    assert_int_equal(in.ev.wait_ms, -1);
    assert_int_equal(in.text.len, 0);

    send_text(fds[1], "ab\ncd\ne");
    assert_true(help_wait(&in.wakes, 10));
    assert_int_equal(poll_input(&in, 1), SOURCE_NONE);
    assert_string_equal(buf_cstr(&in.text), "0:ab\n3:cd\n");

    send_text(fds[1], "f\ng");
    assert_true(help_wait(&in.wakes, 10));
    (void)poll_input(&in, 10);
    (void)close(fds[1]);
    while (in.ev.kind != SOURCE_END) {
        assert_true(help_wait(&in.wakes, 10));
        (void)poll_input(&in, 10);
    }
    assert_string_equal(buf_cstr(&in.text), "0:ab\n3:cd\n6:ef\n9:g\n");
    assert_int_equal(poll_input(&in, 10), SOURCE_END);
    close_input(&in);
}

static void
a_file_as_stdin_never_waits(void **state)
{
    FILE *f = tmpfile();
    struct input in;
    int i;

    (void)state;
    for (i = 0; i < 100000; i++)
        (void)fprintf(f, "{\"i\":%d}\n", i);
    (void)fflush(f);
    rewind(f);
    open_input(&in, dup(fileno(f)), "{}");
    assert_int_equal(poll_input(&in, 1000), SOURCE_END);
    assert_memory_equal(in.text.data, "0:{\"i\":0}\n8:{\"i\":1}\n", 20);
    assert_non_null(strstr(buf_cstr(&in.text), ":{\"i\":99999}\n"));
    assert_int_not_equal(sem_trywait(&in.wakes), 0);
    close_input(&in);
    (void)fclose(f);
}

static void
only_the_first_subtask_reads(void **state)
{
    struct conn_task conf = {.subtask = 1};
    struct source_task *second = NULL;
    struct source_event ev;
    struct input in;
    struct batch b;
    struct err e;

    (void)state;
    batch_init(&b);
    open_input(&in, open("/dev/null", O_RDONLY), "{}");
    assert_int_equal(stdin_source_type.task_new(in.s, &conf, &second, &e), 0);
    assert_int_equal(stdin_source_type.poll(second, &b, 1, &ev, &e), 0);
    assert_int_equal(ev.kind, SOURCE_END);
    stdin_source_type.task_free(&second);
    assert_int_equal(poll_input(&in, 10), SOURCE_END);
    close_input(&in);
    batch_fini(&b);
}

static void
stopping_gives_the_lines_read_and_then_ends(void **state)
{
    struct source_event ev;
    struct input in;
    struct batch b;
    struct err e;
    int fds[2];

    (void)state;
    batch_init(&b);
    assert_int_equal(pipe(fds), 0);
    open_input(&in, fds[0], "{\"format\":\"raw\"}");
    send_text(fds[1], "1\n2\n3");
    assert_int_equal(stdin_source_type.poll(in.t, &b, 1, &ev, &e), 0);
    assert_int_equal(ev.kind, SOURCE_ADDED);
    assert_int_equal(stdin_source_type.poll(in.t, &b, 1, &ev, &e), 0);
    assert_int_equal(ev.kind, SOURCE_BATCH);

    stdin_source_type.stop(in.s);

    assert_true(help_wait(&in.wakes, 10));
    send_text(fds[1], "3\n4\n");
    assert_int_equal(poll_input(&in, 10), SOURCE_END);
    assert_string_equal(buf_cstr(&in.text), "2:2\n");
    close_input(&in);
    (void)close(fds[1]);
    batch_fini(&b);
}

static void
a_read_of_stdin_that_fails_is_an_error(void **state)
{
#ifdef STREAMLUA_TEST_MODE
    struct source_event ev;
    struct input in;
    struct batch b;
    struct err e;
    int r;

    (void)state;
    batch_init(&b);
    open_input(&in, open("/dev/null", O_RDONLY), "{}");
    assert_int_equal(stdin_source_type.poll(in.t, &b, 1, &ev, &e), 0);
    fault_setup("stdin_read=1");
    r = stdin_source_type.poll(in.t, &b, 1, &ev, &e);
    fault_setup(NULL);
    close_input(&in);
    batch_fini(&b);
    assert_int_equal(r, ERR_IO);
    assert_string_equal(e.msg, "cannot read stdin: Input/output error");
#else
    (void)state;
    skip();
#endif
}

/* --- stdout --------------------------------------------------------------- */

struct output {
    struct arena a;
    struct conn_env env;
    struct sink *s;
    struct swapped swapped;
};

static void
open_output(struct output *out, int fd, const char *opts)
{
    struct err e;

    memset(out, 0, sizeof *out);
    arena_init(&out->a);
    out->swapped = swap_in(STDOUT_FILENO, fd);
    out->env = help_env(&out->a, opts, 4);
    assert_int_equal(stdout_sink_type.open(&out->env, &out->s, &e), 0);
}

static void
close_output(struct output *out)
{
    stdout_sink_type.close(&out->s);
    swap_out(&out->swapped);
    arena_fini(&out->a);
}

struct writer {
    struct sink *s;
    struct sink_task *t;
    sem_t wakes;
    uint32_t id, lines;
    int failed; /* a call that gave no 0 */
};

static void
new_writer(struct writer *w, struct output *out, uint32_t id)
{
    struct conn_task conf = {
        .subtask = id, .wake = help_wake, .wake_arg = &w->wakes};
    struct err e;

    memset(w, 0, sizeof *w);
    (void)sem_init(&w->wakes, 0, 0);
    w->s = out->s;
    w->id = id;
    assert_int_equal(stdout_sink_type.task_new(out->s, &conf, &w->t, &e), 0);
}

static void
free_writer(struct writer *w)
{
    stdout_sink_type.task_free(&w->t);
    (void)sem_destroy(&w->wakes);
}

static int
put_line(struct writer *w, uint32_t i, struct err *e)
{
    char json[64];
    struct rec r = {.val = json, .kind = REC_OBJECT};
    uint64_t bytes;

    r.val_len = (uint32_t)snprintf(json, sizeof json, "{\"task\":%u,\"i\":%u}",
                                   w->id, i);
    return stdout_sink_type.write(w->t, &r, NULL, 0, &bytes, e);
}

/* What a slot does: batches, no writing while unready, and a last flush. */
static void *
write_lines(void *arg)
{
    struct writer *w = arg;
    struct err e;
    uint32_t i;
    int r = 0;

    for (i = 0; i < w->lines && r == 0; i++) {
        r = put_line(w, i, &e);
        if (r == 0 && i % 97 == 0)
            r = stdout_sink_type.batch_end(w->t, &e);
        while (i % 97 == 0 && !stdout_sink_type.ready(w->t))
            if (!help_wait(&w->wakes, 20))
                r = ERR_INTERNAL;
    }
    while (r == 0 && (r = stdout_sink_type.flush(w->t, &e)) == ERR_AGAIN)
        r = help_wait(&w->wakes, 20) ? 0 : ERR_INTERNAL;
    w->failed = r;
    return NULL;
}

static void
lines_of_tasks_neither_mix_nor_get_lost(void **state)
{
    enum { WRITERS = 4, LINES = 50000 };
    uint32_t next[WRITERS] = {0}, k, seen = 0;
    struct writer writers[WRITERS];
    pthread_t threads[WRITERS];
    struct output out;
    char line[256];
    int fds[2];
    FILE *f;

    (void)state;
    assert_int_equal(pipe(fds), 0);
    open_output(&out, fds[1], "{}");
    for (k = 0; k < WRITERS; k++) {
        new_writer(&writers[k], &out, k);
        writers[k].lines = LINES;
        assert_int_equal(
            pthread_create(&threads[k], NULL, write_lines, &writers[k]), 0);
    }
    f = fdopen(fds[0], "r");
    while (seen < WRITERS * LINES && fgets(line, sizeof line, f) != NULL) {
        unsigned task = 99, i = 0;
        char rest[8] = "";

        if (sscanf(line, "{\"task\":%u,\"i\":%u%7s", &task, &i, rest) != 3 ||
            strcmp(rest, "}") != 0 || task >= WRITERS || i != next[task])
            break;
        next[task]++;
        seen++;
    }
    for (k = 0; k < WRITERS; k++) {
        (void)pthread_join(threads[k], NULL);
        free_writer(&writers[k]);
    }
    close_output(&out);
    (void)fclose(f);
    assert_int_equal(seen, WRITERS * LINES);
    for (k = 0; k < WRITERS; k++) {
        assert_int_equal(writers[k].failed, 0);
        assert_int_equal(next[k], LINES);
    }
}

static void
a_reader_that_stalls_makes_the_task_unready_not_blocked(void **state)
{
    uint32_t i = 0, lines = 0;
    struct output out;
    struct writer w;
    struct err e;
    char line[256];
    int fds[2];
    FILE *f;
    int r;

    (void)state;
    assert_int_equal(pipe(fds), 0);
    open_output(&out, fds[1], "{}");
    new_writer(&w, &out, 0);
    /* Nobody reads; each call returns all the same. */
    while (stdout_sink_type.ready(w.t) && i < 1000000) {
        if (put_line(&w, i++, &e) != 0)
            break;
        if (i % 100 == 0 && stdout_sink_type.batch_end(w.t, &e) != 0)
            break;
    }
    r = stdout_sink_type.flush(w.t, &e);

    /* Now the reader comes back: the task is woken, nothing is missing. */
    f = fdopen(fds[0], "r");
    while (lines < i && fgets(line, sizeof line, f) != NULL) {
        char want[64];

        (void)snprintf(want, sizeof want, "{\"task\":0,\"i\":%u}\n", lines);
        if (strcmp(line, want) != 0)
            break;
        lines++;
    }
    while (r == ERR_AGAIN && help_wait(&w.wakes, 20))
        r = stdout_sink_type.flush(w.t, &e);
    free_writer(&w);
    close_output(&out);
    (void)fclose(f);
    assert_int_equal(r, 0);
    assert_int_equal(lines, i);
    /* About a MiB was held, however much was offered. */
    assert_true(i > 10000 && i < 200000);
}

static void
a_reader_that_has_gone_is_told_once_then_output_is_dropped(void **state)
{
    struct output out;
    struct writer w;
    struct err e;
    int fds[2], first = 0, told = 0, later = 0, i, r;
    bool is_epipe = false;

    (void)state;
    assert_int_equal(pipe(fds), 0);
    (void)close(fds[0]);
    open_output(&out, fds[1], "{}");
    new_writer(&w, &out, 0);
    (void)put_line(&w, 0, &e);
    for (i = 0; i < 1000 && first == 0; i++) {
        first = stdout_sink_type.flush(w.t, &e);
        if (first == ERR_AGAIN)
            first = help_wait(&w.wakes, 10) ? 0 : ERR_INTERNAL;
        is_epipe = first != 0 && connect_is_epipe(&e);
    }
    for (i = 0; i < 100; i++) {
        later |= put_line(&w, 1, &e);
        later |= stdout_sink_type.batch_end(w.t, &e);
    }
    while ((r = stdout_sink_type.flush(w.t, &e)) == ERR_AGAIN)
        told += !help_wait(&w.wakes, 10);
    free_writer(&w);
    close_output(&out);
    assert_int_equal(first, ERR_IO);
    assert_true(is_epipe);
    assert_int_equal(err_exit_code(first), 74);
    assert_int_equal(later, 0);
    assert_int_equal(told, 0);
    assert_int_equal(r, 0);
}

static void
a_full_disk_behind_stdout_is_no_epipe(void **state)
{
    int full = open("/dev/full", O_WRONLY), r = 0, i;
    struct output out;
    struct writer w;
    struct err e;

    (void)state;
    if (full == -1)
        skip();
    open_output(&out, full, "{}");
    new_writer(&w, &out, 0);
    (void)put_line(&w, 0, &e);
    for (i = 0; i < 1000 && r == 0; i++) {
        r = stdout_sink_type.flush(w.t, &e);
        if (r == ERR_AGAIN)
            r = help_wait(&w.wakes, 10) ? 0 : ERR_INTERNAL;
    }
    free_writer(&w);
    close_output(&out);
    assert_int_equal(r, ERR_IO);
    assert_false(connect_is_epipe(&e));
    assert_string_equal(e.msg,
                        "cannot write to stdout: No space left on device");
}

/* A round acknowledges what was flushed, so done must mean written, however
 * the writer's failure and the question fall together. */
static void
a_flush_that_is_done_has_written_all_or_says_why_not(void **state)
{
    int full = open("/dev/full", O_WRONLY), tries, done = 0, wrong = 0;
    FILE *f = tmpfile();

    (void)state;
    if (full == -1)
        skip();
    for (tries = 0; tries < 600; tries++) {
        bool fails = tries % 3 != 0;
        long before = lseek(fileno(f), 0, SEEK_END);
        struct output out;
        struct writer w;
        struct err e;
        int r;

        open_output(&out, dup(fails ? full : fileno(f)), "{}");
        new_writer(&w, &out, 0);
        (void)put_line(&w, 0, &e);
        do /* at once: this is the moment that is looked for */
            r = stdout_sink_type.flush(w.t, &e);
        while (r == ERR_AGAIN);
        done +=
            r == 0 && !fails && lseek(fileno(f), 0, SEEK_END) == before + 17;
        wrong += fails && r != ERR_IO;
        free_writer(&w);
        close_output(&out);
    }
    (void)close(full);
    (void)fclose(f);
    assert_int_equal(wrong, 0);
    assert_int_equal(done, 200);
}

static void
a_csv_header_comes_once_before_all_lines(void **state)
{
    FILE *f = tmpfile();
    struct writer w[2];
    struct output out;
    char text[256];
    struct err e;
    size_t n;
    int k, r = 0;

    (void)state;
    open_output(&out, dup(fileno(f)),
                "{\"format\":\"csv\",\"header\":true,\"fields\":"
                "[{\"name\":\"task\",\"type\":\"int\"}]}");
    for (k = 0; k < 2; k++)
        new_writer(&w[k], &out, (uint32_t)k);
    for (k = 1; k >= 0; k--) {
        static const char pad[REC_PAD + 32] = "{\"task\":7}";
        struct rec rec = {.val = pad, .val_len = 10, .kind = REC_OBJECT};
        uint64_t bytes;

        r |= stdout_sink_type.write(w[k].t, &rec, NULL, 0, &bytes, &e);
        while ((r |= stdout_sink_type.flush(w[k].t, &e)) == ERR_AGAIN)
            r = help_wait(&w[k].wakes, 10) ? 0 : ERR_INTERNAL;
    }
    for (k = 0; k < 2; k++)
        free_writer(&w[k]);
    close_output(&out);
    rewind(f);
    n = fread(text, 1, sizeof text - 1, f);
    text[n] = '\0';
    (void)fclose(f);
    assert_int_equal(r, 0);
    assert_string_equal(text, "task\n7\n7\n");
}

/* A reload that is rolled back, and the next one before a round of the old
 * version between the two: its last round is what nobody goes behind. */
static void
a_reload_behind_a_rollback_reads_no_byte_again(void **state)
{
    struct input in;
    int fds[2];
    struct err e;

    (void)state;
    assert_int_equal(pipe(fds), 0);
    open_input(&in, fds[0], "{\"format\":\"raw\"}");
    send_text(fds[1], "ab\ncd\n");
    (void)poll_input(&in, 10);
    assert_string_equal(buf_cstr(&in.text), "0:ab\n3:cd\n");

    open_next(&in, "6"); /* the new version, which fails */
    send_text(fds[1], "ef\n");
    (void)poll_input(&in, 10);
    assert_string_equal(buf_cstr(&in.text), "6:ef\n");

    open_next(&in, "6"); /* the old one again */
    send_text(fds[1], "gh\nx");
    (void)poll_input(&in, 10);
    assert_string_equal(buf_cstr(&in.text), "6:ef\n9:gh\n");
    assert_int_equal(stdin_source_type.committed(in.s, NULL, 0, true, &e), 0);

    open_next(&in, "12");
    send_text(fds[1], "y\n");
    (void)poll_input(&in, 10);
    assert_string_equal(buf_cstr(&in.text), "12:xy\n");
    assert_int_equal(stdin_source_type.committed(in.s, NULL, 0, false, &e), 0);
    (void)close(fds[1]);
    (void)poll_input(&in, 10); /* and holds nothing any more */
    close_input(&in);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        /* the first one: what is held of stdin is the process's */
        cmocka_unit_test(a_reload_behind_a_rollback_reads_no_byte_again),
        cmocka_unit_test(a_pipe_is_read_as_it_comes_and_wakes_the_slot),
        cmocka_unit_test(a_file_as_stdin_never_waits),
        cmocka_unit_test(only_the_first_subtask_reads),
        cmocka_unit_test(stopping_gives_the_lines_read_and_then_ends),
        cmocka_unit_test(a_read_of_stdin_that_fails_is_an_error),
        cmocka_unit_test(lines_of_tasks_neither_mix_nor_get_lost),
        cmocka_unit_test(
            a_reader_that_stalls_makes_the_task_unready_not_blocked),
        cmocka_unit_test(
            a_reader_that_has_gone_is_told_once_then_output_is_dropped),
        cmocka_unit_test(a_full_disk_behind_stdout_is_no_epipe),
        cmocka_unit_test(a_flush_that_is_done_has_written_all_or_says_why_not),
        cmocka_unit_test(a_csv_header_comes_once_before_all_lines),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
