/* SPDX-License-Identifier: Apache-2.0 */
/* Every block is handed out once, in an order that the seed decides. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "examples/blocks.h"

#define N 100

static void test_blocks_are_each_handed_out_once(void **state)
{
    (void)state;
    struct blocks blocks;
    int32_t ids[N];
    bool is_seen[N] = {false};
    assert_true(blocks_init(&blocks, N, 1));
    for (int round = 0; round < 3; round++) {
        memset(is_seen, 0, sizeof(is_seen));
        assert_true(blocks_take(&blocks, N, ids));
        for (int i = 0; i < N; i++) {
            assert_in_range(ids[i], 0, N - 1);
            assert_false(is_seen[ids[i]] || blocks.is_free[ids[i]]);
            is_seen[ids[i]] = true;
        }
        blocks_give(&blocks, ids, N);
    }
    blocks_fini(&blocks);
}

static void test_blocks_takes_all_or_none(void **state)
{
    (void)state;
    struct blocks blocks;
    int32_t ids[N];
    assert_true(blocks_init(&blocks, N, 1));
    assert_true(blocks_take(&blocks, 60, ids));
    assert_false(blocks_take(&blocks, 41, ids + 60));
    assert_int_equal(blocks.n_free, 40);
    assert_true(blocks_take(&blocks, 40, ids + 60));
    blocks_fini(&blocks);
}

static void test_blocks_come_in_the_seed_s_order(void **state)
{
    (void)state;
    struct blocks blocks;
    int32_t first[N], again[N], other[N];
    assert_true(blocks_init(&blocks, N, 1));
    assert_true(blocks_take(&blocks, N, first));
    blocks_fini(&blocks);
    assert_true(blocks_init(&blocks, N, 1));
    assert_true(blocks_take(&blocks, N, again));
    blocks_fini(&blocks);
    assert_true(blocks_init(&blocks, N, 2));
    assert_true(blocks_take(&blocks, N, other));
    blocks_fini(&blocks);
    assert_memory_equal(first, again, sizeof(first));
    assert_memory_not_equal(first, other, sizeof(first));
    int n_neighbours = 0;
    for (int i = 1; i < N; i++) {
        n_neighbours += first[i] == first[i - 1] + 1 ? 1 : 0;
    }
    assert_true(n_neighbours < N / 10); /* scattered */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_are_each_handed_out_once),
        cmocka_unit_test(test_blocks_takes_all_or_none),
        cmocka_unit_test(test_blocks_come_in_the_seed_s_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
