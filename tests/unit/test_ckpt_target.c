/*
 * The checkpoint thread with the target of a Lua sink in the place of a
 * transaction: in which order a round becomes durable and committed.
 */
#include <semaphore.h>
#include <stdio.h>

#include "base/mem.h"
#include "run/ckpt.h"
#include "store_util.h"

static struct {
    struct ckpt ckpt;
    _Atomic uint64_t durable;
    sem_t woken;
    int result;
    uint64_t committed, pending, durable_then;
} rig;

static int
prepare(void *arg, struct err *e)
{
    (void)arg;
    (void)e;
    return 0;
}

static int
commit(void *arg, uint64_t round, struct err *e)
{
    struct store_status s;

    (void)arg;
    store_status(rig.ckpt.store, &s); /* the store is this thread's */
    rig.pending = s.pending;
    rig.durable_then = atomic_load(&rig.durable);
    if (rig.result != 0)
        return err_set(e, rig.result, "the database is away");
    rig.committed = round;
    return 0;
}

static void
wake(void *arg)
{
    (void)arg;
    (void)sem_post(&rig.woken);
}

static int
do_round(uint64_t n)
{
    struct ckpt_round *c = mem_zalloc(sizeof *c);

    c->parts = mem_zalloc(sizeof *c->parts);
    c->round = n;
    c->owner = "here:1 cafe-0";
    c->target = "lua:out";
    ckpt_give(&rig.ckpt, c);
    while (!ckpt_take_round(&rig.ckpt, &err))
        (void)sem_wait(&rig.woken);
    ckpt_round_free(&c);
    return err.code;
}

static void
a_redo_is_durable_before_the_target_commits(void **state)
{
    char *dir = temp_dir();
    struct store_status s;

    (void)state;
    assert_int_equal(sem_init(&rig.woken, 0, 0), 0);
    rig.ckpt.store = open_store(dir);
    rig.ckpt.durable = &rig.durable;
    rig.ckpt.prepare = prepare;
    rig.ckpt.commit = commit;
    rig.ckpt.wake = wake;
    assert_int_equal(ckpt_start(&rig.ckpt, &err), 0);

    assert_int_equal(do_round(1), 0);
    assert_int_equal(rig.committed, 1);
    assert_int_equal(rig.pending, 1);
    assert_int_equal(rig.durable_then, 1);

    rig.result = ERR_UNAVAILABLE;
    assert_int_equal(do_round(2), ERR_UNAVAILABLE);
    ckpt_stop(&rig.ckpt);
    store_status(rig.ckpt.store, &s);
    assert_int_equal(s.complete, 1);
    assert_int_equal(s.pending, 2); /* for the next start to decide */

    store_close(&rig.ckpt.store);
    remove_dir(dir);
    free(dir);
    (void)sem_destroy(&rig.woken);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_redo_is_durable_before_the_target_commits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
