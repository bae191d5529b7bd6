/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seeded sequence is frozen (recorded simulator seeds must replay), bounded draws
 * are uniform and in range, and the system source really fills.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <string.h>

#include "base/rng.h"

/* Change these and every seed in a bug report stops replaying. The words were computed by
 * an independent implementation of splitmix64 and xoroshiro128++. */
static void test_rng_seeded_sequence_is_frozen(void **state)
{
    (void)state;
    static const uint64_t expected[] = {0xe88af6caef1d3c23ull, 0x54a303b2a5a54931ull,
                                        0xf370812ccd646345ull, 0x345839c63f9abb35ull};
    struct kvf_rng rng;
    kvf_rng_init_seeded(&rng, 42);
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        assert_true(kvf_rng_u64(&rng) == expected[i]);
    }
}

static void test_rng_seeds_differ_and_repeat(void **state)
{
    (void)state;
    uint8_t a[37], b[37], c[37];
    struct kvf_rng rng;
    kvf_rng_init_seeded(&rng, 0);
    kvf_rng_fill(&rng, a, sizeof(a));
    kvf_rng_init_seeded(&rng, 0);
    kvf_rng_fill(&rng, b, sizeof(b));
    kvf_rng_init_seeded(&rng, 1);
    kvf_rng_fill(&rng, c, sizeof(c));
    assert_memory_equal(a, b, sizeof(a));
    assert_memory_not_equal(a, c, sizeof(a));
}

static void test_rng_fill_stays_in_bounds(void **state)
{
    (void)state;
    struct kvf_rng rng;
    kvf_rng_init_seeded(&rng, 3);
    for (size_t n = 0; n < 24; n++) {
        uint8_t bytes[32];
        memset(bytes, 0x5a, sizeof(bytes));
        kvf_rng_fill(&rng, bytes, n);
        for (size_t i = n; i < sizeof(bytes); i++) {
            assert_int_equal(bytes[i], 0x5a);
        }
    }
}

static void test_rng_below_is_uniform(void **state)
{
    (void)state;
    enum { N = 7, DRAWS = 70000 };
    uint32_t counts[N] = {0};
    struct kvf_rng rng;
    kvf_rng_init_seeded(&rng, 5);
    for (int i = 0; i < DRAWS; i++) {
        uint64_t drawn = kvf_rng_below(&rng, N);
        assert_true(drawn < N);
        counts[drawn]++;
    }
    for (int i = 0; i < N; i++) { /* 10000 expected, standard deviation 93 */
        assert_in_range(counts[i], 9500, 10500);
    }
}

/* For n just above 2^63 a plain remainder would give the low half twice as often. */
static void test_rng_below_large_has_no_bias(void **state)
{
    (void)state;
    uint64_t n = (1ull << 63) + (1ull << 62);
    uint32_t n_low = 0;
    struct kvf_rng rng;
    kvf_rng_init_seeded(&rng, 6);
    for (int i = 0; i < 30000; i++) {
        n_low += kvf_rng_below(&rng, n) < n / 3;
    }
    assert_in_range(n_low, 9500, 10500);
}

static void test_rng_below_edges(void **state)
{
    (void)state;
    struct kvf_rng rng;
    kvf_rng_init_seeded(&rng, 7);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(kvf_rng_below(&rng, 1), 0);
        assert_true(kvf_rng_below(&rng, UINT64_MAX) < UINT64_MAX);
    }
}

static void test_rng_system_fills_every_byte(void **state)
{
    (void)state;
    struct kvf_rng rng;
    kvf_rng_init_system(&rng);
    uint8_t seen[1000] = {0};
    for (int round = 0; round < 8; round++) { /* all zero at one place: 256^-8 */
        uint8_t bytes[sizeof(seen)] = {0};
        kvf_rng_fill(&rng, bytes, sizeof(bytes));
        for (size_t i = 0; i < sizeof(bytes); i++) {
            seen[i] |= bytes[i];
        }
    }
    assert_null(memchr(seen, 0, sizeof(seen)));
    assert_true(kvf_rng_u64(&rng) != kvf_rng_u64(&rng));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rng_seeded_sequence_is_frozen),
        cmocka_unit_test(test_rng_seeds_differ_and_repeat),
        cmocka_unit_test(test_rng_fill_stays_in_bounds),
        cmocka_unit_test(test_rng_below_is_uniform),
        cmocka_unit_test(test_rng_below_large_has_no_bias),
        cmocka_unit_test(test_rng_below_edges),
        cmocka_unit_test(test_rng_system_fills_every_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
