/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The heap door: zeroing, overflow refusal, the fault point and the counter; and the
 * arena: alignment, budget, and that a reused arena stops allocating.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"

static bool is_zero(const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] != 0) {
            return false;
        }
    }
    return true;
}

static void test_alloc_zeroes(void **state)
{
    (void)state;
    uint8_t *block = kvf_alloc(4096);
    assert_non_null(block);
    assert_true(is_zero(block, 4096));
    kvf_free(block);
}

static void test_alloc_of_nothing_is_not_a_failure(void **state)
{
    (void)state;
    void *block = kvf_alloc(0);
    assert_non_null(block);
    block = kvf_realloc(block, 0);
    assert_non_null(block);
    kvf_free(block);
    kvf_free(NULL);
}

static void test_alloc_array_refuses_overflow(void **state)
{
    (void)state;
    assert_null(kvf_alloc_array(SIZE_MAX / 2, 3));
    void *block = kvf_alloc_array(3, 5);
    assert_non_null(block);
    kvf_free(block);
}

static void test_alloc_fails_the_nth_once(void **state)
{
    (void)state;
    kvf_alloc_fail_nth(2);
    void *first = kvf_alloc(1);
    void *second = kvf_alloc(1);
    void *third = kvf_alloc(1);
    assert_non_null(first);
    assert_null(second);
    assert_non_null(third);
    kvf_free(first);
    kvf_free(third);
}

static void test_alloc_fail_nth_is_switched_off_by_zero(void **state)
{
    (void)state;
    kvf_alloc_fail_nth(1);
    kvf_alloc_fail_nth(0);
    void *block = kvf_alloc(1);
    assert_non_null(block);
    kvf_free(block);
}

static void test_realloc_failure_keeps_the_block(void **state)
{
    (void)state;
    char *block = kvf_strdup("kept");
    kvf_alloc_fail_nth(1);
    assert_null(kvf_realloc(block, 1 << 20));
    assert_string_equal(block, "kept");
    block = kvf_realloc(block, 1 << 20);
    assert_string_equal(block, "kept");
    kvf_free(block);
}

static void test_alloc_counts_every_kind(void **state)
{
    (void)state;
    uint64_t before = kvf_alloc_count();
    void *block = kvf_realloc(kvf_alloc_array(2, 8), 32);
    kvf_free(kvf_strdup("text"));
    kvf_free(block);
    assert_int_equal(kvf_alloc_count() - before, 3);
}

static void test_size_arithmetic_leaves_output_on_overflow(void **state)
{
    (void)state;
    uint64_t out = 7;
    assert_false(kvf_size_add(UINT64_MAX, 1, &out));
    assert_false(kvf_size_mul(UINT64_MAX / 2, 3, &out));
    assert_int_equal(out, 7);
    assert_true(kvf_size_add(UINT64_MAX - 1, 1, &out));
    assert_true(out == UINT64_MAX);
    assert_true(kvf_size_mul(1u << 31, 1ull << 32, &out));
    assert_true(out == 1ull << 63);
}

static void test_arena_blocks_are_aligned_zeroed_and_apart(void **state)
{
    (void)state;
    struct kvf_arena arena;
    kvf_arena_init(&arena, 1 << 20);
    uint8_t *previous = NULL;
    for (size_t n = 0; n < 600; n++) {
        uint8_t *block = kvf_arena_alloc(&arena, n);
        assert_non_null(block);
        assert_int_equal((uintptr_t)block % 16, 0);
        assert_true(is_zero(block, n));
        assert_ptr_not_equal(block, previous);
        memset(block, 0xaa, n);
        previous = block;
    }
    kvf_arena_fini(&arena);
}

static void test_arena_reset_gives_zeroed_memory_again(void **state)
{
    (void)state;
    struct kvf_arena arena;
    kvf_arena_init(&arena, 1024);
    memset(kvf_arena_alloc(&arena, 512), 0xaa, 512);
    kvf_arena_reset(&arena, 1024);
    assert_int_equal(arena.used_bytes, 0);
    uint8_t *block = kvf_arena_alloc(&arena, 512);
    assert_non_null(block);
    assert_true(is_zero(block, 512));
    kvf_arena_fini(&arena);
}

static void test_arena_refuses_over_budget_and_goes_on(void **state)
{
    (void)state;
    struct kvf_arena arena;
    kvf_arena_init(&arena, 64);
    assert_non_null(kvf_arena_alloc(&arena, 33)); /* charged as 48 */
    assert_null(kvf_arena_alloc(&arena, 17));
    assert_null(kvf_arena_alloc(&arena, SIZE_MAX));
    assert_null(kvf_arena_alloc(&arena, SIZE_MAX - 8));
    assert_non_null(kvf_arena_alloc(&arena, 16));
    assert_null(kvf_arena_alloc(&arena, 0));
    assert_int_equal(arena.used_bytes, 64);
    kvf_arena_fini(&arena);
}

static void test_arena_out_of_memory_charges_nothing(void **state)
{
    (void)state;
    struct kvf_arena arena;
    kvf_arena_init(&arena, 1024);
    kvf_alloc_fail_nth(1);
    assert_null(kvf_arena_alloc(&arena, 100));
    assert_int_equal(arena.used_bytes, 0);
    assert_non_null(kvf_arena_alloc(&arena, 100));
    kvf_arena_fini(&arena);
}

/* Messages of 100 KB in pieces of 1000 bytes, under a larger budget. */
static void decode_one(struct kvf_arena *arena)
{
    kvf_arena_reset(arena, 1 << 20);
    for (int i = 0; i < 100; i++) {
        assert_non_null(kvf_arena_alloc(arena, 1000));
    }
}

static void test_arena_reused_stops_allocating(void **state)
{
    (void)state;
    struct kvf_arena arena;
    kvf_arena_init(&arena, 1 << 20);
    for (int i = 0; i < 4; i++) {
        decode_one(&arena);
    }
    uint64_t before = kvf_alloc_count();
    decode_one(&arena);
    kvf_arena_reset(&arena, 64); /* a small message between keeps the memory too */
    decode_one(&arena);
    assert_int_equal(kvf_alloc_count(), before);
    kvf_arena_fini(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alloc_zeroes),
        cmocka_unit_test(test_alloc_of_nothing_is_not_a_failure),
        cmocka_unit_test(test_alloc_array_refuses_overflow),
        cmocka_unit_test(test_alloc_fails_the_nth_once),
        cmocka_unit_test(test_alloc_fail_nth_is_switched_off_by_zero),
        cmocka_unit_test(test_realloc_failure_keeps_the_block),
        cmocka_unit_test(test_alloc_counts_every_kind),
        cmocka_unit_test(test_size_arithmetic_leaves_output_on_overflow),
        cmocka_unit_test(test_arena_blocks_are_aligned_zeroed_and_apart),
        cmocka_unit_test(test_arena_reset_gives_zeroed_memory_again),
        cmocka_unit_test(test_arena_refuses_over_budget_and_goes_on),
        cmocka_unit_test(test_arena_out_of_memory_charges_nothing),
        cmocka_unit_test(test_arena_reused_stops_allocating),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
