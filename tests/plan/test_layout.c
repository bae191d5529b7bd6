/* SPDX-License-Identifier: Apache-2.0 */
/* What kvf_layout_check() and kvf_blocks_check() let through, and what they say. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "tests/plan/reference.h"

/* [block][layer][kv][head][token], 3 layers, 2 planes, 4 heads, 8 tokens, 5 blocks. */
#define ROW         32u
#define LAYER_BYTES (2u * 4 * 8 * ROW)
#define POOL_BYTES  (5u * 3 * LAYER_BYTES)

static const uint64_t offsets[] = {0, LAYER_BYTES, 2 * LAYER_BYTES};

static struct kvf_layout good_layout(void)
{
    return (struct kvf_layout){.size = sizeof(struct kvf_layout),
                               .n_layers = 3,
                               .kv_factor = 2,
                               .n_heads = 4,
                               .tokens_per_block = 8,
                               .row_bytes = ROW,
                               .n_blocks = 5,
                               .dtype = KVF_DTYPE_F16,
                               .block_stride = 3 * LAYER_BYTES,
                               .kv_stride = 4 * 8 * ROW,
                               .head_stride = 8 * ROW,
                               .token_stride = ROW,
                               .layer_offsets = offsets};
}

static void expect_refused(const struct kvf_layout *layout, uint64_t pool_bytes,
                           enum kvf_status status, const char *words)
{
    struct kvf_plan_refusal refusal = {""};

    assert_int_equal(kvf_layout_check(layout, pool_bytes, &refusal), status);
    if (strstr(refusal.text, words) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", refusal.text, words);
    }
}

static void test_layout_fits_its_pool_exactly(void **state)
{
    const struct kvf_layout layout = good_layout();

    (void)state;
    assert_int_equal(kvf_layout_check(&layout, POOL_BYTES, NULL), KVF_OK);
    expect_refused(&layout, POOL_BYTES - 1, KVF_BAD_REF, "the pool has 30719");
}

static void test_layout_accepts_every_known_kind(void **state)
{
    const struct ref_shape shape = {3, 2, 2, 4, 10, 6};
    struct kvf_rng rng;
    struct ref_pool pool;
    struct kvf_plan_refusal refusal = {""};

    (void)state;
    kvf_rng_init_seeded(&rng, 3);
    for (int kind = 0; kind < REF_KINDS; kind++) {
        ref_pool_init(&pool, &rng, (enum ref_kind)kind, &shape, 4);
        if (kvf_layout_check(&pool.layout, pool.n_bytes, &refusal) != KVF_OK) {
            fail_msg("kind %d: %s", kind, refusal.text);
        }
        ref_pool_fini(&pool);
    }
}

static void test_layout_rejects_zero_counts(void **state)
{
    struct kvf_layout layout = good_layout();
    uint32_t *const counts[] = {&layout.n_heads, &layout.tokens_per_block,
                                &layout.row_bytes, &layout.n_blocks};

    (void)state;
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        const uint32_t kept = *counts[i];
        *counts[i] = 0;
        expect_refused(&layout, POOL_BYTES, KVF_INVALID_ARGUMENT, "zero count");
        *counts[i] = kept;
    }
}

static void test_layout_rejects_unknown_sizes_and_types(void **state)
{
    struct kvf_layout layout = good_layout();

    (void)state;
    layout.size--;
    expect_refused(&layout, POOL_BYTES, KVF_INVALID_ARGUMENT, "size");
    layout = good_layout();
    layout.dtype = 11;
    expect_refused(&layout, POOL_BYTES, KVF_INVALID_ARGUMENT, "data type 11");
    layout = good_layout();
    layout.kv_factor = 3;
    expect_refused(&layout, POOL_BYTES, KVF_INVALID_ARGUMENT, "kv factor is 3");
    layout = good_layout();
    layout.n_layers = KVF_PLAN_LAYERS_MAX + 1;
    expect_refused(&layout, POOL_BYTES, KVF_INVALID_ARGUMENT, "4097 layers");
    layout.n_layers = 0;
    expect_refused(&layout, POOL_BYTES, KVF_INVALID_ARGUMENT, "0 layers");
    layout = good_layout();
    layout.layer_offsets = NULL;
    expect_refused(&layout, POOL_BYTES, KVF_INVALID_ARGUMENT, "no layer offsets");
}

static void test_layout_rejects_overlapping_rows(void **state)
{
    const uint64_t close_layers[] = {0, LAYER_BYTES - 1, 3 * LAYER_BYTES};
    const uint64_t same_layers[] = {LAYER_BYTES, 0, LAYER_BYTES};
    struct kvf_layout layout = good_layout();

    (void)state;
    layout.token_stride = ROW - 1;
    expect_refused(&layout, POOL_BYTES, KVF_INVALID_ARGUMENT, "token stride 31");
    layout = good_layout();
    layout.head_stride = 8 * ROW - 1;
    expect_refused(&layout, POOL_BYTES, KVF_INVALID_ARGUMENT, "head stride 255");
    layout = good_layout();
    layout.kv_stride = 0;
    expect_refused(&layout, POOL_BYTES, KVF_INVALID_ARGUMENT, "kv stride 0");
    layout = good_layout();
    layout.block_stride -= 1;
    expect_refused(&layout, POOL_BYTES, KVF_INVALID_ARGUMENT, "block stride 6143");
    layout = good_layout();
    layout.layer_offsets = close_layers;
    expect_refused(&layout, 2 * POOL_BYTES, KVF_INVALID_ARGUMENT, "layer stride 2047");
    layout.layer_offsets = same_layers;
    expect_refused(&layout, POOL_BYTES, KVF_INVALID_ARGUMENT, "layer stride 0");
}

static void test_layout_ignores_strides_that_are_never_taken(void **state)
{
    const uint64_t one[] = {16};
    struct kvf_layout layout = {.size = sizeof(layout),
                                .n_layers = 1,
                                .kv_factor = 1,
                                .n_heads = 1,
                                .tokens_per_block = 1,
                                .row_bytes = 100,
                                .n_blocks = 1,
                                .layer_offsets = one};

    (void)state;
    assert_int_equal(kvf_layout_check(&layout, 116, NULL), KVF_OK);
    layout.head_stride = UINT64_MAX;
    assert_int_equal(kvf_layout_check(&layout, 116, NULL), KVF_OK);
}

static void test_layout_survives_overflow(void **state)
{
    const uint64_t far[] = {0, LAYER_BYTES, UINT64_MAX};
    struct kvf_layout layout = good_layout();

    (void)state;
    layout.block_stride = UINT64_MAX / 2;
    expect_refused(&layout, UINT64_MAX, KVF_BAD_REF, "block stride");
    layout.block_stride = UINT64_MAX / 4;
    expect_refused(&layout, UINT64_MAX, KVF_BAD_REF, "beyond any address");
    layout = good_layout();
    layout.layer_offsets = far;
    expect_refused(&layout, UINT64_MAX, KVF_BAD_REF, "beyond any address");
}

/* Marks every row; false when two rows meet or one leaves the pool. */
static bool paint(const struct kvf_layout *layout, uint8_t *pool, uint64_t pool_bytes)
{
    const uint32_t counts[] = {layout->n_layers, layout->kv_factor, layout->n_heads,
                               layout->tokens_per_block};
    const uint32_t n_rows = counts[0] * counts[1] * counts[2] * counts[3];

    memset(pool, 0, pool_bytes);
    for (uint32_t i = 0; i < n_rows * layout->n_blocks; i++) {
        const uint32_t row = i % n_rows;
        const uint64_t at =
            layout->layer_offsets[row % counts[0]] +
            row / counts[0] % counts[1] * layout->kv_stride +
            row / counts[0] / counts[1] % counts[2] * layout->head_stride +
            row / counts[0] / counts[1] / counts[2] * layout->token_stride +
            i / n_rows * layout->block_stride;
        for (uint64_t b = at; b < at + layout->row_bytes; b++) {
            if (b >= pool_bytes || pool[b]++ != 0) {
                return false;
            }
        }
    }
    return true;
}

static void test_layout_that_passes_has_disjoint_rows_inside(void **state)
{
    enum { POOL = 400, CASES = 50000 };
    uint64_t layers[3];
    uint8_t pool[POOL];
    uint32_t n_passed = 0;
    struct kvf_rng rng;

    (void)state;
    kvf_rng_init_seeded(&rng, 11);
    for (int i = 0; i < CASES; i++) {
        struct kvf_layout layout = good_layout();
        uint32_t *const counts[] = {&layout.n_layers, &layout.kv_factor, &layout.n_heads,
                                    &layout.tokens_per_block, &layout.n_blocks};
        uint64_t *const strides[] = {&layout.kv_stride,
                                     &layout.head_stride,
                                     &layout.token_stride,
                                     &layout.block_stride,
                                     &layers[0],
                                     &layers[1],
                                     &layers[2]};
        for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
            *counts[c] = 1 + (uint32_t)kvf_rng_below(&rng, c < 2 ? 2 : 3);
        }
        layout.row_bytes = 1 + (uint32_t)kvf_rng_below(&rng, 3);
        for (size_t c = 0; c < sizeof(strides) / sizeof(strides[0]); c++) {
            *strides[c] = kvf_rng_below(&rng, 1u << kvf_rng_below(&rng, 9));
        }
        layout.layer_offsets = layers;
        if (kvf_layout_check(&layout, POOL, NULL) == KVF_OK) {
            n_passed++;
            assert_true(paint(&layout, pool, POOL));
        }
    }
    assert_in_range(n_passed, CASES / 100, CASES);
}

static void test_blocks_inside_the_pool_pass(void **state)
{
    const struct kvf_layout layout = good_layout();
    const uint32_t blocks[] = {4, 0, 3, 1, 2};

    (void)state;
    assert_int_equal(kvf_blocks_check(&layout, blocks, 5, true, NULL), KVF_OK);
    assert_int_equal(kvf_blocks_check(&layout, NULL, 0, true, NULL), KVF_OK);
}

static void test_blocks_outside_the_pool_are_named(void **state)
{
    const struct kvf_layout layout = good_layout();
    const uint32_t blocks[] = {4, 5};
    struct kvf_plan_refusal refusal = {""};

    (void)state;
    assert_int_equal(kvf_blocks_check(&layout, blocks, 2, false, &refusal), KVF_BAD_REF);
    assert_string_equal(refusal.text,
                        "entry 1 of the block table is block 5, the pool has 5");
}

static void test_blocks_twice_are_found_when_unique(void **state)
{
    enum { N = 700000 };
    struct kvf_layout layout = good_layout();
    uint32_t *blocks = kvf_alloc_array(N, sizeof(*blocks));
    struct kvf_plan_refusal refusal = {""};

    (void)state;
    layout.n_blocks = UINT32_MAX;
    for (uint32_t i = 0; i < N; i++) {
        blocks[i] = UINT32_MAX - 1 - i; /* up to the last id, over several windows */
    }
    assert_int_equal(kvf_blocks_check(&layout, blocks, N, true, NULL), KVF_OK);
    blocks[N - 1] = blocks[3];
    assert_int_equal(kvf_blocks_check(&layout, blocks, N, false, NULL), KVF_OK);
    assert_int_equal(kvf_blocks_check(&layout, blocks, N, true, &refusal), KVF_BAD_REF);
    assert_non_null(strstr(refusal.text, "block 4294967291 stands twice"));
    kvf_free(blocks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layout_fits_its_pool_exactly),
        cmocka_unit_test(test_layout_accepts_every_known_kind),
        cmocka_unit_test(test_layout_rejects_zero_counts),
        cmocka_unit_test(test_layout_rejects_unknown_sizes_and_types),
        cmocka_unit_test(test_layout_rejects_overlapping_rows),
        cmocka_unit_test(test_layout_ignores_strides_that_are_never_taken),
        cmocka_unit_test(test_layout_survives_overflow),
        cmocka_unit_test(test_layout_that_passes_has_disjoint_rows_inside),
        cmocka_unit_test(test_blocks_inside_the_pool_pass),
        cmocka_unit_test(test_blocks_outside_the_pool_are_named),
        cmocka_unit_test(test_blocks_twice_are_found_when_unique),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
