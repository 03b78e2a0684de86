/* Arenas: pieces are aligned, apart, padded, and given back at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/hash.h"
#include "base/mem.h"

enum { PIECES = 5000 };

static void
pieces_are_aligned_and_do_not_overlap(void **state)
{
    static unsigned char *pieces[PIECES];
    static size_t sizes[PIECES];
    uint64_t random = 1;
    struct arena a;
    size_t i, k;

    (void)state;
    arena_init(&a);
    for (i = 0; i < PIECES; i++) {
        random = hash_splitmix(random);
        sizes[i] = random % (i % 100 == 0 ? 100000 : 200);
        pieces[i] = arena_alloc(&a, sizes[i]);
        assert_int_equal((uintptr_t)pieces[i] % 16, 0);
        memset(pieces[i], (int)(i & 0xff), sizes[i]);
    }

    for (i = 0; i < PIECES; i++)
        for (k = 0; k < sizes[i]; k++)
            assert_int_equal(pieces[i][k], i & 0xff);
    arena_fini(&a);
}

static void
bytes_behind_a_piece_are_readable(void **state)
{
    unsigned sum = 0;
    struct arena a;
    size_t size, k;

    (void)state;
    arena_init(&a);
    for (size = 1; size < 70000; size = size * 3 + 1) {
        const unsigned char *p = arena_alloc(&a, size);

        /* Under ASan this fails if the pad is not part of the block. */
        for (k = 0; k < ARENA_PAD; k++)
            sum += p[size + k];
    }
    assert_true(sum <= 255u * ARENA_PAD * 12);
    arena_fini(&a);
}

static void
copies_are_terminated(void **state)
{
    struct arena a;

    (void)state;
    arena_init(&a);
    assert_string_equal(arena_strdup(&a, "abc"), "abc");
    assert_string_equal(arena_dup(&a, "abcdef", 2), "ab");
    assert_string_equal(arena_dup(&a, NULL, 0), "");
    arena_fini(&a);
}

static void
reset_keeps_a_block_and_takes_no_more(void **state)
{
    struct arena a;
    size_t held = 0;
    int round, i;

    (void)state;
    arena_init(&a);
    assert_int_equal(arena_size(&a), 0);
    for (round = 0; round < 50; round++) {
        for (i = 0; i < 1000; i++)
            (void)arena_alloc(&a, 100);
        arena_reset(&a);
        if (round == 10)
            held = arena_size(&a);
    }

    assert_int_equal(arena_size(&a), held);
    assert_true(held > 0 && held < 1 << 20);
    arena_fini(&a);
    assert_int_equal(arena_size(&a), 0);
}

static void
growing_an_array_keeps_its_elements(void **state)
{
    uint64_t *items = NULL;
    size_t cap = 0, i;

    (void)state;
    for (i = 0; i < 1000; i++) {
        mem_grow(&items, &cap, i + 1, sizeof *items);
        assert_true(cap > i);
        items[i] = i * i;
    }
    for (i = 0; i < 1000; i++)
        assert_int_equal(items[i], i * i);

    free(items);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_aligned_and_do_not_overlap),
        cmocka_unit_test(bytes_behind_a_piece_are_readable),
        cmocka_unit_test(copies_are_terminated),
        cmocka_unit_test(reset_keeps_a_block_and_takes_no_more),
        cmocka_unit_test(growing_an_array_keeps_its_elements),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
