/* Memory: what is freed can be given back. */
#include "config.h"

#include <pthread.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"

enum { PIECES = 64 << 10, PIECE = 1000, FEW = 500 };

static size_t
resident_pages(void)
{
    unsigned long size, resident;
    FILE *f = fopen("/proc/self/statm", "r");

    assert_non_null(f);
    assert_int_equal(fscanf(f, "%lu %lu", &size, &resident), 2);
    assert_int_equal(fclose(f), 0);
    return resident;
}

static char *pieces[PIECES];

/* 64 MB in small pieces: taken, all but a few freed, given back. */
static void *
work(void *arg)
{
    size_t *taken = arg, i;

    for (i = 0; i < PIECES; i++) {
        pieces[i] = mem_alloc(PIECE);
        memset(pieces[i], 1, PIECE);
    }
    *taken = resident_pages();
    for (i = 0; i < PIECES; i++)
        if (i % FEW != 0)
            free(pieces[i]);
    mem_give_back();
    return NULL;
}

static void
what_a_thread_freed_is_given_back_to_the_machine(void **state)
{
    size_t before = resident_pages(), taken = 0, after;
    size_t page = (size_t)sysconf(_SC_PAGESIZE), i;
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, work, &taken), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    after = resident_pages();
    assert_true((taken - before) * page > (size_t)PIECES * PIECE / 2);
    if (strcmp(CONF_SANITIZER, "no") == 0) /* else it has its own heap */
        assert_true((after - before) * 8 < taken - before);
    for (i = 0; i < PIECES; i += FEW)
        free(pieces[i]);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_thread_freed_is_given_back_to_the_machine),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
