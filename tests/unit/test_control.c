/*
 * The control socket over real sockets: requests, late answers, and what
 * clients that misbehave cost.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include <ev.h>

#include "run/control.h"
#include "run/control_impl.h"

enum { OPEN_MAX = 32 };

struct rig {
    struct ev_loop *loop;
    char dir[600];
    struct control *control;
    struct control_req *open[OPEN_MAX]; /* asked, not answered */
    unsigned asked;
    bool answer; /* the handler answers at once */
};

static void
answer(struct control_req **req)
{
    struct buf b;

    buf_init(&b);
    buf_adds(&b, "{\"ok\":true,\"was\":");
    opt_put_json(&b, control_request(*req));
    buf_addc(&b, '}');
    control_reply(req, b.data, b.len);
    assert_null(*req);
    buf_fini(&b);
}

static void
handle(void *arg, struct control_req *req)
{
    struct rig *r = arg;

    assert_true(r->asked < OPEN_MAX);
    r->open[r->asked++] = req;
    if (r->answer)
        answer(&r->open[r->asked - 1]);
}

static void
rig_up(struct rig *r)
{
    struct err e;

    memset(r, 0, sizeof *r);
    r->loop = ev_loop_new(EVFLAG_AUTO);
    assert_non_null(r->loop);
    (void)snprintf(r->dir, sizeof r->dir, "/tmp/control-XXXXXX");
    assert_non_null(mkdtemp(r->dir));
    assert_int_equal(control_new(r->loop, r->dir, handle, r, &r->control, &e),
                     0);
}

static void
rig_down(struct rig *r)
{
    control_free(&r->control);
    ev_loop_destroy(r->loop);
    assert_int_equal(rmdir(r->dir), 0); /* the socket is gone */
}

static int
dial(const struct rig *r)
{
    struct sockaddr_un sa;
    int dir_fd = open(r->dir, O_PATH | O_DIRECTORY), fd;

    fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_true(fd != -1 && dir_fd != -1);
    control_path(&sa, r->dir, dir_fd);
    assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof sa), 0);
    (void)close(dir_fd);
    return fd;
}

static void
say(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* Turn the loop until `fd` has something to read or is at its end. */
static ssize_t
hear(struct rig *r, int fd, char *out, size_t size)
{
    ssize_t n;

    while ((n = recv(fd, out, size - 1, MSG_DONTWAIT)) == -1 && errno == EAGAIN)
        (void)ev_run(r->loop, EVRUN_ONCE);
    out[n > 0 ? n : 0] = '\0';
    return n;
}

static void
expect(struct rig *r, int fd, const char *want)
{
    char got[1024];

    (void)hear(r, fd, got, sizeof got);
    assert_string_equal(got, want);
}

static void
expect_end(struct rig *r, int fd)
{
    char got[64];

    assert_true(hear(r, fd, got, sizeof got) <= 0);
    assert_int_equal(close(fd), 0);
}

static void
turn_until_asked(struct rig *r, unsigned count)
{
    while (r->asked < count)
        (void)ev_run(r->loop, EVRUN_ONCE);
}

/* --- promises ------------------------------------------------------------- */

static void
only_the_owner_may_connect(void **state)
{
    char path[700];
    struct stat st;
    static const mode_t masks[] = {0, 0377, 0022};
    struct err e;
    struct rig r;
    mode_t old;
    size_t i;

    (void)state;
    rig_up(&r);
    (void)snprintf(path, sizeof path, "%s/control", r.dir);
    for (i = 0; i < sizeof masks / sizeof *masks; i++) {
        control_free(&r.control);
        old = umask(masks[i]);
        assert_int_equal(control_new(r.loop, r.dir, handle, &r, &r.control, &e),
                         0);
        (void)umask(old);
        assert_int_equal(stat(path, &st), 0);
        assert_true(S_ISSOCK(st.st_mode));
        assert_int_equal(st.st_mode & 07777, 0600);
    }
    rig_down(&r);
}

static void
a_request_that_comes_in_pieces_is_one_request(void **state)
{
    struct rig r;
    int fd;

    (void)state;
    rig_up(&r);
    r.answer = true;
    fd = dial(&r);
    say(fd, "{\"verb\":\"save");
    (void)ev_run(r.loop, EVRUN_ONCE); /* accepts */
    (void)ev_run(r.loop, EVRUN_ONCE); /* reads */
    assert_int_equal(r.asked, 0);
    say(fd, "point\",\"stop\":true,\"to\":\"a\\u0062\"}\n");

    expect(&r, fd,
           "{\"ok\":true,\"was\":{\"verb\":\"savepoint\",\"stop\":true,"
           "\"to\":\"ab\"}}\n");
    expect_end(&r, fd);
    rig_down(&r);
}

static void
answers_come_later_and_in_any_order(void **state)
{
    struct rig r;
    int a, b;

    (void)state;
    rig_up(&r);
    a = dial(&r);
    say(a, "{\"verb\":\"a\"}\n");
    turn_until_asked(&r, 1);
    b = dial(&r);
    say(b, "{\"verb\":\"b\"}\n");
    turn_until_asked(&r, 2);

    answer(&r.open[1]);
    expect(&r, b, "{\"ok\":true,\"was\":{\"verb\":\"b\"}}\n");
    answer(&r.open[0]);
    expect(&r, a, "{\"ok\":true,\"was\":{\"verb\":\"a\"}}\n");
    expect_end(&r, a);
    expect_end(&r, b);
    rig_down(&r);
}

static void
a_refusal_carries_the_exit_code_and_the_hint(void **state)
{
    struct err e;
    struct rig r;
    int fd;

    (void)state;
    rig_up(&r);
    fd = dial(&r);
    say(fd, "{\"verb\":\"x\"}\n");
    turn_until_asked(&r, 1);
    (void)err_set(&e, ERR_CONFIG, "the \"x\" is no verb");
    err_hint(&e, "use y");

    control_refuse(&r.open[0], &e);
    expect(&r, fd,
           "{\"ok\":false,\"code\":78,\"message\":\"the \\\"x\\\" is no "
           "verb\",\"hint\":\"use y\"}\n");
    expect_end(&r, fd);
    rig_down(&r);
}

static void
what_is_no_request_is_refused_and_not_handled(void **state)
{
    static const char *const lines[] = {
        "\n",
        "hello\n",
        "[1]\n",
        "\"verb\"\n",
        "{\"verb\":1}\n",
        "{\"verb\":\"a\"} x\n",
        "{\"verb\":\"a\",\"n\":NaN}\n",
        "{\"to\":\"x\"}\n",
        "{\"verb\":\"\xff\"}\n",
    };
    char got[1024];
    struct rig r;
    size_t i;
    int fd;

    (void)state;
    rig_up(&r);
    for (i = 0; i < sizeof lines / sizeof *lines; i++) {
        fd = dial(&r);
        say(fd, lines[i]);
        (void)hear(&r, fd, got, sizeof got);
        assert_int_equal(strncmp(got, "{\"ok\":false,\"code\":64,", 22), 0);
        expect_end(&r, fd);
    }
    assert_int_equal(r.asked, 0);
    rig_down(&r);
}

static void
a_request_without_end_is_cut_off(void **state)
{
    char *line = malloc(CONTROL_LINE_MAX);
    char got[1024];
    struct rig r;
    int fd;

    (void)state;
    rig_up(&r);
    memset(line, ' ', CONTROL_LINE_MAX);
    fd = dial(&r);
    assert_int_equal(send(fd, line, CONTROL_LINE_MAX, 0), CONTROL_LINE_MAX);

    (void)hear(&r, fd, got, sizeof got);
    assert_non_null(strstr(got, "\"code\":64,\"message\":\"a request has at "
                                "most 65536 bytes\""));
    expect_end(&r, fd);
    free(line);
    rig_down(&r);
}

static void
a_client_that_stalls_is_closed_and_the_others_are_served(void **state)
{
    struct rig r;
    int idle, half, good;

    (void)state;
    rig_up(&r);
    r.answer = true;
    control_set_stall(r.control, 20);
    idle = dial(&r);
    half = dial(&r);
    say(half, "{\"verb\":");
    good = dial(&r);
    say(good, "{\"verb\":\"a\"}\n");

    expect(&r, good, "{\"ok\":true,\"was\":{\"verb\":\"a\"}}\n");
    expect_end(&r, good);
    expect_end(&r, idle);
    expect_end(&r, half);
    assert_int_equal(r.asked, 1);
    rig_down(&r);
}

static void
a_request_under_way_is_no_stall(void **state)
{
    struct rig r;
    int fd, idle;

    (void)state;
    rig_up(&r);
    control_set_stall(r.control, 20);
    fd = dial(&r);
    say(fd, "{\"verb\":\"a\"}\n");
    turn_until_asked(&r, 1);
    idle = dial(&r); /* comes later, so its end says that the time is up */
    expect_end(&r, idle);

    answer(&r.open[0]);
    expect(&r, fd, "{\"ok\":true,\"was\":{\"verb\":\"a\"}}\n");
    expect_end(&r, fd);
    rig_down(&r);
}

static void
a_client_that_vanished_may_be_answered(void **state)
{
    struct rig r;
    int fd;

    (void)state;
    rig_up(&r);
    fd = dial(&r);
    say(fd, "{\"verb\":\"a\"}\n");
    turn_until_asked(&r, 1);
    assert_int_equal(close(fd), 0);
    answer(&r.open[0]);

    r.answer = true;
    fd = dial(&r);
    say(fd, "{\"verb\":\"b\"}\n");
    expect(&r, fd, "{\"ok\":true,\"was\":{\"verb\":\"b\"}}\n");
    expect_end(&r, fd);
    rig_down(&r);
}

static void
clients_that_vanish_in_a_request_leave_their_place(void **state)
{
    struct rig r;
    int fds[CONTROL_CLIENTS_MAX], fd, i;

    (void)state;
    rig_up(&r);
    r.answer = true;
    for (i = 0; i < CONTROL_CLIENTS_MAX; i++) {
        fds[i] = dial(&r);
        say(fds[i], "{\"verb\"");
        (void)ev_run(r.loop, EVRUN_ONCE); /* accepts it */
    }
    for (i = 0; i < CONTROL_CLIENTS_MAX; i++)
        assert_int_equal(close(fds[i]), 0);
    (void)ev_run(r.loop, EVRUN_ONCE); /* reads what they said */
    (void)ev_run(r.loop, EVRUN_ONCE); /* and their ends */

    fd = dial(&r);
    say(fd, "{\"verb\":\"b\"}\n");
    expect(&r, fd, "{\"ok\":true,\"was\":{\"verb\":\"b\"}}\n");
    expect_end(&r, fd);
    rig_down(&r);
}

/* An answer that the system does not take at once. */
static void
a_long_answer_waits_for_its_reader(void **state)
{
    size_t len = CONTROL_ANSWER_MAX - 1, got = 0;
    char *text = malloc(len), part[4096];
    struct rig r;
    ssize_t n;
    int fd;

    (void)state;
    rig_up(&r);
    memset(text, 'x', len);
    fd = dial(&r);
    say(fd, "{\"verb\":\"a\"}\n");
    turn_until_asked(&r, 1);

    control_reply(&r.open[0], text, len);
    while ((n = hear(&r, fd, part, sizeof part)) > 0)
        got += (size_t)n;
    assert_int_equal(n, 0);
    assert_int_equal(got, len + 1);
    assert_int_equal(close(fd), 0);
    free(text);
    rig_down(&r);
}

static void
one_client_too_many_is_told_to_come_back(void **state)
{
    int fds[CONTROL_CLIENTS_MAX], fd;
    char got[1024];
    struct rig r;
    unsigned i;

    (void)state;
    rig_up(&r);
    for (i = 0; i < CONTROL_CLIENTS_MAX; i++) {
        fds[i] = dial(&r);
        say(fds[i], "{\"verb\":\"a\"}\n");
        turn_until_asked(&r, i + 1);
    }
    fd = dial(&r);
    say(fd, "{\"verb\":\"a\"}\n");
    (void)hear(&r, fd, got, sizeof got);
    assert_non_null(strstr(got, "\"code\":75"));
    expect_end(&r, fd);

    for (i = 0; i < CONTROL_CLIENTS_MAX; i++) {
        answer(&r.open[i]);
        expect(&r, fds[i], "{\"ok\":true,\"was\":{\"verb\":\"a\"}}\n");
        expect_end(&r, fds[i]);
    }
    rig_down(&r);
}

static unsigned pending;

static void
count_pending(struct ev_loop *loop)
{
    pending += ev_pending_count(loop);
    ev_invoke_pending(loop);
}

static void
without_descriptors_the_loop_does_not_spin(void **state)
{
    struct rlimit old, few;
    struct rig r;
    unsigned turns;
    int fd, lowest;

    (void)state;
    rig_up(&r);
    r.answer = true;
    fd = dial(&r);
    say(fd, "{\"verb\":\"a\"}\n");
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    few = old;
    lowest = dup(fd); /* the lowest that is free, and none below it */
    assert_int_equal(close(lowest), 0);
    few.rlim_cur = (rlim_t)lowest;
    ev_set_invoke_pending_cb(r.loop, count_pending);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    (void)ev_run(r.loop, EVRUN_ONCE);
    assert_int_equal(pending, 1);
    for (turns = 0; turns < 50; turns++)
        (void)ev_run(r.loop, EVRUN_NOWAIT);
    assert_int_equal(pending, 1);
    assert_int_equal(r.asked, 0);

    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    expect(&r, fd, "{\"ok\":true,\"was\":{\"verb\":\"a\"}}\n");
    expect_end(&r, fd);
    rig_down(&r);
}

static void
what_is_open_at_the_end_is_refused(void **state)
{
    char got[1024];
    struct rig r;
    ssize_t n;
    int fd;

    (void)state;
    rig_up(&r);
    fd = dial(&r);
    say(fd, "{\"verb\":\"a\"}\n");
    turn_until_asked(&r, 1);
    rig_down(&r);

    n = recv(fd, got, sizeof got - 1, MSG_DONTWAIT);
    assert_true(n > 0);
    got[n] = '\0';
    assert_string_equal(got, "{\"ok\":false,\"code\":75,\"message\":\"the job "
                             "ended before it answered\",\"hint\":\"\"}\n");
    assert_int_equal(recv(fd, got, sizeof got, 0), 0);
    assert_int_equal(close(fd), 0);
}

static void
a_socket_left_behind_is_replaced(void **state)
{
    char path[700];
    struct sockaddr_un sa;
    struct err e;
    struct rig r;
    int fd;

    (void)state;
    rig_up(&r);
    control_free(&r.control);
    control_path(&sa, r.dir, -1);
    fd = socket(AF_UNIX, SOCK_STREAM, 0); /* as of a process that died */
    assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof sa), 0);
    assert_int_equal(close(fd), 0);

    r.answer = true;
    assert_int_equal(control_new(r.loop, r.dir, handle, &r, &r.control, &e), 0);
    fd = dial(&r);
    say(fd, "{\"verb\":\"a\"}\n");
    expect(&r, fd, "{\"ok\":true,\"was\":{\"verb\":\"a\"}}\n");
    expect_end(&r, fd);
    control_free(&r.control);

    (void)snprintf(path, sizeof path, "%s/control", r.dir);
    assert_int_equal(mkdir(path, 0700), 0); /* but not what is none */
    assert_int_equal(control_new(r.loop, r.dir, handle, &r, &r.control, &e),
                     ERR_IO);
    assert_non_null(strstr(e.msg, path));
    assert_int_equal(rmdir(path), 0);
    rig_down(&r);
}

/* --- the client's side ---------------------------------------------------- */

struct call {
    const char *dir;
    int r;
    struct err e;
    char verb[64];
};

static void *
call(void *arg)
{
    struct call *c = arg;
    const struct opt *o = NULL;
    struct arena a;

    arena_init(&a);
    c->r = control_call(c->dir, "{\"verb\":\"a\"}", &a, &o, &c->e);
    if (c->r == 1)
        (void)snprintf(c->verb, sizeof c->verb, "%s",
                       opt_str(opt_get(o, "was"), "verb", ""));
    arena_fini(&a);
    return NULL;
}

static void
a_call_waits_for_its_answer(void **state)
{
    struct call c = {0};
    pthread_t t;
    struct err e;
    struct rig r;

    (void)state;
    rig_up(&r);
    c.dir = r.dir;
    assert_int_equal(pthread_create(&t, NULL, call, &c), 0);
    turn_until_asked(&r, 1);
    answer(&r.open[0]);
    assert_int_equal(pthread_join(t, NULL), 0);
    assert_int_equal(c.r, 1);
    assert_string_equal(c.verb, "a");

    assert_int_equal(pthread_create(&t, NULL, call, &c), 0);
    turn_until_asked(&r, 2);
    (void)err_set(&e, ERR_BUSY, "no");
    err_hint(&e, "later");
    control_refuse(&r.open[1], &e);
    assert_int_equal(pthread_join(t, NULL), 0);
    assert_int_equal(c.r, ERR_BUSY);
    assert_string_equal(c.e.msg, "no");
    assert_string_equal(c.e.hint, "later");

    assert_int_equal(pthread_create(&t, NULL, call, &c), 0);
    turn_until_asked(&r, 3);
    rig_down(&r);
    assert_int_equal(pthread_join(t, NULL), 0);
    assert_int_equal(c.r, ERR_TEMP);
}

static void
a_call_says_if_nobody_is_there(void **state)
{
    struct call c = {0};
    struct rig r;
    int fd;
    struct sockaddr_un sa;

    (void)state;
    rig_up(&r);
    control_free(&r.control);
    c.dir = r.dir;
    (void)call(&c); /* no socket */
    assert_int_equal(c.r, 0);
    c.dir = "/tmp/no-such-directory-at-all";
    (void)call(&c);
    assert_int_equal(c.r, 0);

    c.dir = r.dir;
    control_path(&sa, r.dir, -1);
    fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof sa), 0);
    assert_int_equal(close(fd), 0);
    (void)call(&c); /* one that nobody listens to */
    assert_int_equal(c.r, 0);
    assert_int_equal(unlink(sa.sun_path), 0);
    rig_down(&r);
}

static void
a_call_says_if_the_job_dies_before_it_answers(void **state)
{
    struct call c = {0};
    struct sockaddr_un sa;
    struct rig r;
    pthread_t t;
    int fd;

    (void)state;
    rig_up(&r);
    control_free(&r.control);
    control_path(&sa, r.dir, -1);
    fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof sa), 0);
    assert_int_equal(listen(fd, 1), 0);
    c.dir = r.dir;
    assert_int_equal(pthread_create(&t, NULL, call, &c), 0);
    assert_int_equal(close(accept(fd, NULL, NULL)), 0);

    assert_int_equal(pthread_join(t, NULL), 0);
    assert_int_equal(c.r, ERR_TEMP);
    assert_int_equal(close(fd), 0);
    assert_int_equal(unlink(sa.sun_path), 0);
    rig_down(&r);
}

static void
a_path_longer_than_an_address_works(void **state)
{
    char tmp[32] = "/tmp/control-XXXXXX", path[600];
    struct call c = {0};
    pthread_t t;
    struct err e;
    struct rig r;
    size_t len;

    (void)state;
    assert_non_null(mkdtemp(tmp));
    memset(path, 'd', sizeof path);
    len = (size_t)snprintf(path, sizeof path, "%s/", tmp);
    path[len] = 'd';
    path[len + 200] = '\0';
    assert_int_equal(mkdir(path, 0700), 0);
    memset(&r, 0, sizeof r);
    r.loop = ev_loop_new(EVFLAG_AUTO);
    (void)snprintf(r.dir, sizeof r.dir, "%s", path);
    assert_int_equal(control_new(r.loop, r.dir, handle, &r, &r.control, &e), 0);

    c.dir = r.dir;
    assert_int_equal(pthread_create(&t, NULL, call, &c), 0);
    turn_until_asked(&r, 1);
    answer(&r.open[0]);
    assert_int_equal(pthread_join(t, NULL), 0);
    assert_int_equal(c.r, 1);
    rig_down(&r);
    assert_int_equal(rmdir(tmp), 0);
}

static void
objects_are_read_whole(void **state)
{
    static const char text[] =
        "{\"a\":[1,2.5,null,true,\"x\\n\"],\"b\":{\"c\":{}},\"a\":2}";
    struct opt *o = NULL;
    struct arena a;
    struct buf b, deep;
    struct err e;
    int i;

    (void)state;
    arena_init(&a);
    buf_init(&b);
    buf_init(&deep);
    assert_int_equal(control_read(text, sizeof text - 1, &a, &o, &e), 0);
    opt_put_json(&b, o);
    assert_string_equal(buf_cstr(&b), "{\"a\":[1,2.5,null,true,\"x\\n\"],"
                                      "\"b\":{\"c\":{}}}");

    for (i = 0; i < 100; i++)
        buf_adds(&deep, "{\"a\":");
    buf_addc(&deep, '1');
    for (i = 0; i < 100; i++)
        buf_addc(&deep, '}');
    assert_int_equal(control_read(deep.data, deep.len, &a, &o, &e), ERR_USAGE);
    assert_int_equal(control_read("[1]", 3, &a, &o, &e), ERR_USAGE);
    assert_int_equal(control_read("1", 1, &a, &o, &e), ERR_USAGE);
    for (i = 1; i < (int)sizeof text - 1; i++)
        assert_int_equal(control_read(text, (size_t)i, &a, &o, &e), ERR_USAGE);
    buf_fini(&deep);
    buf_fini(&b);
    arena_fini(&a);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_owner_may_connect),
        cmocka_unit_test(a_request_that_comes_in_pieces_is_one_request),
        cmocka_unit_test(answers_come_later_and_in_any_order),
        cmocka_unit_test(a_refusal_carries_the_exit_code_and_the_hint),
        cmocka_unit_test(what_is_no_request_is_refused_and_not_handled),
        cmocka_unit_test(a_request_without_end_is_cut_off),
        cmocka_unit_test(
            a_client_that_stalls_is_closed_and_the_others_are_served),
        cmocka_unit_test(a_request_under_way_is_no_stall),
        cmocka_unit_test(a_client_that_vanished_may_be_answered),
        cmocka_unit_test(clients_that_vanish_in_a_request_leave_their_place),
        cmocka_unit_test(a_long_answer_waits_for_its_reader),
        cmocka_unit_test(one_client_too_many_is_told_to_come_back),
        cmocka_unit_test(without_descriptors_the_loop_does_not_spin),
        cmocka_unit_test(what_is_open_at_the_end_is_refused),
        cmocka_unit_test(a_socket_left_behind_is_replaced),
        cmocka_unit_test(a_call_waits_for_its_answer),
        cmocka_unit_test(a_call_says_if_nobody_is_there),
        cmocka_unit_test(a_call_says_if_the_job_dies_before_it_answers),
        cmocka_unit_test(a_path_longer_than_an_address_works),
        cmocka_unit_test(objects_are_read_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
