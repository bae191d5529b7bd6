/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The executor at the sizes where its paths change: every tiny row, and rows longer than
 * what is digested at once. Layouts in general are test_plan_property's business.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/crc.h"
#include "plan/execute.h"
#include "tests/plan/reference.h"

#define N_TOKENS 7u

struct fixture {
    struct ref_pool src, dst;
    struct kvf_plan plan;
    uint8_t *slot;
};

/* Token-major to head-major: every row is a run of its own on both sides. */
static void fixture_init(struct fixture *fixture, uint32_t row_bytes)
{
    const struct ref_shape shape = {1, 2, 2, 4, row_bytes, 3};
    const struct kvf_plan_range range = {.n_tokens = N_TOKENS, .n_layers = 1};
    struct kvf_plan_refusal refusal = {""};
    struct kvf_rng rng;

    kvf_rng_init_seeded(&rng, row_bytes);
    ref_pool_init(&fixture->src, &rng, REF_WHOLE_NHD, &shape, 2);
    ref_pool_init(&fixture->dst, &rng, REF_WHOLE_HND, &shape, 2);
    ref_pool_fill(&fixture->src, N_TOKENS);
    if (kvf_plan_build(&fixture->src.shard, &fixture->dst.shard, &range, &fixture->plan,
                       &refusal) != KVF_OK) {
        fail_msg("refused: %s", refusal.text);
    }
    assert_int_equal(fixture->plan.min_run_bytes, row_bytes);
    fixture->slot = kvf_alloc(fixture->plan.n_bytes);
}

static void fixture_fini(struct fixture *fixture)
{
    ref_pool_fini(&fixture->src);
    ref_pool_fini(&fixture->dst);
    kvf_free(fixture->slot);
}

static void expect_filled(struct fixture *fixture)
{
    struct ref_pool *dst = &fixture->dst;
    uint8_t *moved = kvf_alloc(dst->n_bytes);

    memcpy(moved, dst->bytes, dst->n_bytes);
    memset(dst->bytes, REF_POISON, dst->n_bytes);
    ref_pool_fill(dst, N_TOKENS);
    assert_memory_equal(moved, dst->bytes, dst->n_bytes);
    memset(dst->bytes, REF_POISON, dst->n_bytes);
    kvf_free(moved);
}

static void check_rows(uint32_t row_bytes)
{
    struct fixture fixture;
    const struct kvf_plan *plan = &fixture.plan;
    uint32_t copied = 0, gathered = 0, scattered = 0;

    fixture_init(&fixture, row_bytes);
    kvf_execute_copy(plan, fixture.src.bytes, fixture.dst.bytes, 0, plan->n_bytes, NULL);
    expect_filled(&fixture);
    kvf_execute_copy(plan, fixture.src.bytes, fixture.dst.bytes, 0, plan->n_bytes,
                     &copied);
    expect_filled(&fixture);
    kvf_execute_gather(plan, fixture.src.bytes, fixture.slot, 0, plan->n_bytes,
                       &gathered);
    kvf_execute_scatter(plan, fixture.slot, fixture.dst.bytes, 0, plan->n_bytes,
                        &scattered);
    expect_filled(&fixture);

    const uint32_t crc = kvf_crc32c(0, fixture.slot, plan->n_bytes);
    assert_int_equal(copied, crc);
    assert_int_equal(gathered, crc);
    assert_int_equal(scattered, crc);
    fixture_fini(&fixture);
}

static void test_execute_moves_rows_of_every_tiny_size(void **state)
{
    (void)state;
    for (uint32_t row_bytes = 1; row_bytes <= 300; row_bytes++) {
        check_rows(row_bytes);
    }
}

static void test_execute_moves_rows_around_the_digest_size(void **state)
{
    static const uint32_t sizes[] = {16384, 65535, 65536, 65537, 200001};

    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        check_rows(sizes[i]);
    }
}

static void test_execute_continues_a_digest_over_parts(void **state)
{
    struct fixture fixture;
    const struct kvf_plan *plan = &fixture.plan;
    uint32_t parts = 0, whole = 0;

    (void)state;
    fixture_init(&fixture, 24);
    for (uint64_t at = 0; at < plan->n_bytes; at += 13) {
        kvf_execute_gather(plan, fixture.src.bytes, fixture.slot + at, at,
                           plan->n_bytes - at < 13 ? plan->n_bytes - at : 13, &parts);
    }
    kvf_execute_gather(plan, fixture.src.bytes, fixture.slot, 0, plan->n_bytes, &whole);
    assert_int_equal(parts, whole);
    assert_int_equal(
        kvf_execute_crc(plan, KVF_PLAN_SRC, fixture.src.bytes, 0, plan->n_bytes, 0),
        whole);
    fixture_fini(&fixture);
}

static void test_execute_of_no_bytes_touches_nothing(void **state)
{
    struct fixture fixture;
    uint32_t crc = 7;

    (void)state;
    fixture_init(&fixture, 8);
    kvf_execute_copy(&fixture.plan, NULL, NULL, 5, 0, &crc);
    kvf_execute_scatter(&fixture.plan, NULL, NULL, fixture.plan.n_bytes, 9, &crc);
    assert_int_equal(crc, 7);
    fixture_fini(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_execute_moves_rows_of_every_tiny_size),
        cmocka_unit_test(test_execute_moves_rows_around_the_digest_size),
        cmocka_unit_test(test_execute_continues_a_digest_over_parts),
        cmocka_unit_test(test_execute_of_no_bytes_touches_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
