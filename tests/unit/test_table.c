/* Hot tables: a map by any other name, entries that stay put, clearing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "core/table.h"

enum { KEYS = 20000 };

static uint32_t
make_key(uint32_t i, char *to)
{
    /* Lengths differ, one in 97 is large, so that pages fill unevenly. */
    uint32_t len = 4 + i % 23 + (i % 97 == 0 ? 3000 : 0);

    memset(to, (int)(i & 0x7f), len);
    memcpy(to, &i, sizeof i);
    return len;
}

static void
every_key_is_found_where_it_was_put(void **state)
{
    static struct table_entry *at[KEYS];
    char key[4096];
    struct table t;
    bool fresh;
    uint32_t i;

    (void)state;
    table_init(&t, 16);
    for (i = 0; i < KEYS; i++) {
        uint32_t len = make_key(i, key);

        at[i] = table_upsert(&t, hash_key(key, len), key, len, &fresh);
        assert_true(fresh);
        at[i]->block[0] = i;
    }
    assert_int_equal(t.count, KEYS);
    for (i = 0; i < KEYS; i++) {
        uint32_t len = make_key(i, key);

        assert_ptr_equal(table_find(&t, hash_key(key, len), key, len), at[i]);
        assert_ptr_equal(table_upsert(&t, hash_key(key, len), key, len, &fresh),
                         at[i]);
        assert_false(fresh);
        assert_int_equal(at[i]->block[0], i);
        assert_memory_equal(table_key(&t, at[i]), key, len);
    }
    table_fini(&t);
}

static void
keys_of_equal_hash_stay_apart(void **state)
{
    struct table t;
    bool fresh;
    struct table_entry *a, *b;

    (void)state;
    table_init(&t, 8);
    a = table_upsert(&t, 42, "aa", 2, &fresh);
    b = table_upsert(&t, 42, "ab", 2, &fresh);
    assert_true(fresh);
    assert_ptr_not_equal(a, b);
    assert_ptr_equal(table_find(&t, 42, "aa", 2), a);
    assert_ptr_equal(table_find(&t, 42, "ab", 2), b);
    assert_null(table_find(&t, 42, "a", 1));
    table_fini(&t);
}

static void
walking_gives_each_entry_once_in_order_of_insertion(void **state)
{
    struct table_iter it = {0, 0};
    struct table_entry *e;
    char key[4096];
    struct table t;
    uint32_t i, n = 0;
    bool fresh;

    (void)state;
    table_init(&t, 8);
    assert_null(table_next(&t, &it));
    for (i = 0; i < KEYS; i++) {
        uint32_t len = make_key(i, key);

        table_upsert(&t, hash_key(key, len), key, len, &fresh)->block[0] = i;
    }
    while ((e = table_next(&t, &it)) != NULL)
        assert_int_equal(e->block[0], n++);
    assert_int_equal(n, KEYS);
    table_fini(&t);
}

static void
a_cleared_table_is_empty_and_usable(void **state)
{
    struct table_iter it;
    char key[4096];
    struct table t;
    uint32_t i, round;
    bool fresh;

    (void)state;
    table_init(&t, 8);
    for (round = 0; round < 50; round++) {
        for (i = 0; i < 500; i++) {
            uint32_t len = make_key(i + round, key);

            (void)table_upsert(&t, hash_key(key, len), key, len, &fresh);
            assert_true(fresh);
        }
        table_clear(&t);
        memset(&it, 0, sizeof it);
        assert_int_equal(t.count, 0);
        assert_null(table_next(&t, &it));
    }
    table_fini(&t);
    assert_int_equal(t.bytes, 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_is_found_where_it_was_put),
        cmocka_unit_test(keys_of_equal_hash_stay_apart),
        cmocka_unit_test(walking_gives_each_entry_once_in_order_of_insertion),
        cmocka_unit_test(a_cleared_table_is_empty_and_usable),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
