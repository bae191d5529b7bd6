/* SPDX-License-Identifier: Apache-2.0 */
/* Only leading chunks count, chunks in use stay, and the oldest one leaves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "examples/prefix_cache.h"

#define PER_CHUNK 2

static void insert(struct prefix_cache *cache, uint64_t key, int32_t block)
{
    const int32_t blocks[PER_CHUNK] = {block, block + 1};
    assert_true(prefix_cache_insert(cache, key, (uint32_t)key, blocks));
}

static void test_prefix_cache_gives_leading_chunks_only(void **state)
{
    (void)state;
    struct prefix_cache cache;
    int32_t blocks[8] = {0};
    const uint64_t keys[] = {1, 2, 3, 4}, other[] = {9, 1, 2};
    assert_true(prefix_cache_init(&cache, 4, PER_CHUNK));
    insert(&cache, 1, 10);
    insert(&cache, 2, 20);
    insert(&cache, 4, 40); /* not leading: 3 is missing */
    assert_int_equal(prefix_cache_acquire(&cache, keys, 4, blocks), 2);
    const int32_t expected[] = {10, 11, 20, 21, 0, 0, 0, 0};
    assert_memory_equal(blocks, expected, sizeof(expected));
    assert_int_equal(prefix_cache_acquire(&cache, other, 3, blocks), 0);
    assert_int_equal(prefix_cache_acquire(&cache, keys, 1, blocks), 1);
    prefix_cache_fini(&cache);
}

static void test_prefix_cache_keeps_what_is_used_and_evicts_the_oldest(void **state)
{
    (void)state;
    struct prefix_cache cache;
    int32_t blocks[8];
    const uint64_t keys[] = {1, 2};
    assert_true(prefix_cache_init(&cache, 4, PER_CHUNK));
    insert(&cache, 1, 10);
    insert(&cache, 2, 20);
    insert(&cache, 3, 30);
    insert(&cache, 4, 40);
    assert_int_equal(prefix_cache_acquire(&cache, keys, 1, blocks), 1);
    assert_true(prefix_cache_evict(&cache, blocks));
    assert_int_equal(blocks[0], 20); /* 1 is older, but used */
    prefix_cache_release(&cache, keys, 1);
    assert_true(prefix_cache_evict(&cache, blocks));
    assert_int_equal(blocks[0], 30); /* 1 was used last */
    assert_true(prefix_cache_evict(&cache, blocks));
    assert_int_equal(blocks[0], 40);
    assert_int_equal(prefix_cache_acquire(&cache, keys, 2, blocks), 1);
    assert_false(prefix_cache_evict(&cache, blocks));
    prefix_cache_fini(&cache);
}

static void test_prefix_cache_refuses_twins_and_when_full(void **state)
{
    (void)state;
    struct prefix_cache cache;
    const int32_t blocks[PER_CHUNK] = {50, 51};
    assert_true(prefix_cache_init(&cache, 2, PER_CHUNK));
    insert(&cache, 1, 10);
    assert_false(prefix_cache_insert(&cache, 1, 0, blocks));
    insert(&cache, 2, 20);
    assert_false(prefix_cache_insert(&cache, 3, 0, blocks));
    prefix_cache_fini(&cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prefix_cache_gives_leading_chunks_only),
        cmocka_unit_test(test_prefix_cache_keeps_what_is_used_and_evicts_the_oldest),
        cmocka_unit_test(test_prefix_cache_refuses_twins_and_when_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
