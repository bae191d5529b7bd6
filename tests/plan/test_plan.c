/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans with numbers that can be checked by hand: order of the stream, cells, joining,
 * refusals, hash. That the right bytes move is test_plan_property's business.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "plan/plan.h"
#include "tests/plan/reference.h"

/* Per-layer tensors [block][kv][head][token]: 2 layers, 2 planes, 2 heads, 4 tokens. */
#define ROW         16u
#define HEAD_BYTES  (4 * ROW)
#define PLANE_BYTES (2 * HEAD_BYTES)
#define BLOCK_BYTES (2 * PLANE_BYTES)
#define N_BLOCKS    4u
#define LAYER_BYTES (N_BLOCKS * BLOCK_BYTES)

static const uint64_t offsets[] = {0, LAYER_BYTES};
static const uint32_t in_order[N_BLOCKS] = {0, 1, 2, 3};
static const struct kvf_layout layout = {.size = sizeof(struct kvf_layout),
                                         .n_layers = 2,
                                         .kv_factor = 2,
                                         .n_heads = 2,
                                         .tokens_per_block = 4,
                                         .row_bytes = ROW,
                                         .n_blocks = N_BLOCKS,
                                         .dtype = KVF_DTYPE_BF16,
                                         .block_stride = BLOCK_BYTES,
                                         .kv_stride = PLANE_BYTES,
                                         .head_stride = HEAD_BYTES,
                                         .token_stride = ROW,
                                         .layer_offsets = offsets};
static const struct kvf_plan_range everything = {.n_tokens = 16, .n_layers = 2};

static struct kvf_shard shard_of(const struct kvf_layout *of, const uint32_t *blocks)
{
    return (struct kvf_shard){
        .layout = of, .cp_size = 1, .blocks = blocks, .n_blocks = N_BLOCKS};
}

static void must_build(const struct kvf_shard *src, const struct kvf_shard *dst,
                       const struct kvf_plan_range *range, struct kvf_plan *out)
{
    struct kvf_plan_refusal refusal = {""};

    if (kvf_plan_build(src, dst, range, out, &refusal) != KVF_OK) {
        fail_msg("refused: %s", refusal.text);
    }
}

static void expect_refused(const struct kvf_shard *src, const struct kvf_shard *dst,
                           const struct kvf_plan_range *range, enum kvf_status status,
                           const char *words)
{
    struct kvf_plan_refusal refusal = {""};
    struct kvf_plan plan, untouched;

    memset(&plan, 0x5a, sizeof(plan));
    memset(&untouched, 0x5a, sizeof(untouched));
    assert_int_equal(kvf_plan_build(src, dst, range, &plan, &refusal), status);
    if (strstr(refusal.text, words) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", refusal.text, words);
    }
    assert_memory_equal(&plan, &untouched, sizeof(plan));
}

static void expect_runs(const struct kvf_plan *plan, const struct kvf_run *runs, size_t n)
{
    struct kvf_plan_cursor cursor;
    struct kvf_run run;

    kvf_plan_seek(plan, 0, UINT64_MAX, &cursor);
    for (size_t i = 0; i < n; i++) {
        assert_true(kvf_plan_next(&cursor, UINT64_MAX, &run));
        assert_int_equal(run.src_offset, runs[i].src_offset);
        assert_int_equal(run.dst_offset, runs[i].dst_offset);
        assert_int_equal(run.n_bytes, runs[i].n_bytes);
    }
    assert_false(kvf_plan_next(&cursor, UINT64_MAX, &run));
}

static void test_plan_joins_blocks_but_not_rounds(void **state)
{
    const struct kvf_shard src = shard_of(&layout, in_order);
    const struct kvf_run runs[] = {{0, 0, LAYER_BYTES},
                                   {LAYER_BYTES, LAYER_BYTES, LAYER_BYTES}};
    struct kvf_plan plan;

    (void)state;
    must_build(&src, &src, &everything, &plan);
    assert_true(plan.is_layer_outside);
    assert_int_equal(plan.min_run_bytes, BLOCK_BYTES);
    assert_int_equal(kvf_plan_bytes(&plan), 2 * LAYER_BYTES);
    assert_int_equal(kvf_plan_runs(&plan), 2);
    expect_runs(&plan, runs, 2);
}

static void test_plan_joins_only_what_both_tables_continue(void **state)
{
    const uint32_t scattered[N_BLOCKS] = {2, 3, 1, 0};
    const struct kvf_shard src = shard_of(&layout, in_order);
    const struct kvf_shard dst = shard_of(&layout, scattered);
    const struct kvf_plan_range layer_1 = {
        .n_tokens = 16, .layer_first = 1, .n_layers = 1};
    const struct kvf_run runs[] = {
        {LAYER_BYTES, LAYER_BYTES + 2 * BLOCK_BYTES, 2 * BLOCK_BYTES},
        {LAYER_BYTES + 2 * BLOCK_BYTES, LAYER_BYTES + BLOCK_BYTES, BLOCK_BYTES},
        {LAYER_BYTES + 3 * BLOCK_BYTES, LAYER_BYTES, BLOCK_BYTES}};
    struct kvf_plan plan;

    (void)state;
    must_build(&src, &dst, &layer_1, &plan);
    assert_int_equal(kvf_plan_runs(&plan), 3);
    expect_runs(&plan, runs, 3);
}

static void test_plan_cuts_runs_at_max_bytes(void **state)
{
    const struct kvf_shard src = shard_of(&layout, in_order);
    struct kvf_plan_cursor cursor;
    struct kvf_plan plan;
    struct kvf_run run;

    (void)state;
    must_build(&src, &src, &everything, &plan);
    kvf_plan_seek(&plan, BLOCK_BYTES / 2, 2 * BLOCK_BYTES, &cursor);
    assert_true(kvf_plan_next(&cursor, BLOCK_BYTES, &run));
    assert_int_equal(run.src_offset, BLOCK_BYTES / 2);
    assert_int_equal(run.n_bytes, BLOCK_BYTES);
    assert_true(kvf_plan_next(&cursor, 2 * BLOCK_BYTES, &run));
    assert_int_equal(run.dst_offset, BLOCK_BYTES * 3 / 2);
    assert_int_equal(run.n_bytes, BLOCK_BYTES);
    assert_false(kvf_plan_next(&cursor, 1, &run));
}

static void test_plan_seek_clips_to_the_stream(void **state)
{
    const struct kvf_shard src = shard_of(&layout, in_order);
    struct kvf_plan_cursor cursor;
    struct kvf_plan plan;
    struct kvf_run run;

    (void)state;
    must_build(&src, &src, &everything, &plan);
    kvf_plan_seek(&plan, UINT64_MAX, UINT64_MAX, &cursor);
    assert_false(kvf_plan_next(&cursor, 1, &run));
    kvf_plan_seek(&plan, plan.n_bytes - 3, UINT64_MAX, &cursor);
    assert_true(kvf_plan_next(&cursor, UINT64_MAX, &run));
    assert_int_equal(run.n_bytes, 3);
    assert_int_equal(cursor.offset, plan.n_bytes);
    assert_false(kvf_plan_next(&cursor, 1, &run));
}

/* With the blocks in order the stream runs straight through the sender's memory. */
static void test_plan_streams_in_sender_memory_order(void **state)
{
    static const uint32_t blocks[] = {0, 1, 2};
    const struct ref_shape shape = {2, 2, 2, 4, ROW, 3};
    const struct kvf_shard dst = shard_of(&layout, NULL);
    const struct kvf_plan_range range = {.token_first = 1, .n_tokens = 10, .n_layers = 2};
    struct kvf_rng rng;

    (void)state;
    kvf_rng_init_seeded(&rng, 1);
    for (int kind = 0; kind < REF_KINDS; kind++) {
        struct ref_pool pool;
        struct kvf_plan_cursor cursor;
        struct kvf_plan plan;
        struct kvf_run run;
        uint64_t last = 0;

        if (kind == REF_LAYER_SHUFFLED) {
            continue;
        }
        ref_pool_init(&pool, &rng, (enum ref_kind)kind, &shape, 3);
        struct kvf_shard src = pool.shard;
        src.blocks = blocks;
        must_build(&src, &dst, &range, &plan);
        kvf_plan_seek(&plan, 0, UINT64_MAX, &cursor);
        while (kvf_plan_next(&cursor, 1, &run)) {
            assert_true(cursor.offset == 1 || run.src_offset > last);
            last = run.src_offset;
        }
        ref_pool_fini(&pool);
    }
}

static void test_plan_streams_uneven_layers_in_model_order(void **state)
{
    const uint64_t swapped[] = {LAYER_BYTES, 0};
    struct kvf_layout uneven = layout;
    const struct kvf_shard src = shard_of(&uneven, in_order);
    const struct kvf_shard dst = shard_of(&layout, in_order);
    const struct kvf_run runs[] = {{LAYER_BYTES, 0, LAYER_BYTES},
                                   {0, LAYER_BYTES, LAYER_BYTES}};
    struct kvf_plan plan;

    (void)state;
    uneven.layer_offsets = swapped;
    must_build(&src, &dst, &everything, &plan);
    assert_true(plan.is_layer_outside);
    expect_runs(&plan, runs, 2);
}

static void test_plan_splits_heads(void **state)
{
    struct kvf_layout half = layout;
    const struct kvf_shard src = shard_of(&layout, in_order);
    struct kvf_shard dst = shard_of(&half, in_order);
    const struct kvf_plan_range block_1 = {
        .token_first = 4, .n_tokens = 4, .n_layers = 1};
    const struct kvf_run runs[] = {
        {BLOCK_BYTES + HEAD_BYTES, BLOCK_BYTES, HEAD_BYTES},
        {BLOCK_BYTES + PLANE_BYTES + HEAD_BYTES, BLOCK_BYTES + PLANE_BYTES, HEAD_BYTES}};
    struct kvf_plan plan;

    (void)state;
    half.n_heads = 1;
    dst.head_first = 1;
    must_build(&src, &dst, &block_1, &plan);
    assert_int_equal(plan.head_first, 1);
    assert_int_equal(plan.n_heads, 1);
    assert_int_equal(plan.min_run_bytes, HEAD_BYTES);
    assert_int_equal(kvf_plan_runs(&plan), 2);
    expect_runs(&plan, runs, 2);
}

static void test_plan_deals_blocks_round_robin(void **state)
{
    const uint32_t second[] = {3, 1}; /* blocks 1 and 3 of the sequence */
    const struct kvf_shard src = shard_of(&layout, in_order);
    struct kvf_shard dst = shard_of(&layout, second);
    const struct kvf_plan_range layer_0 = {.n_tokens = 16, .n_layers = 1};
    const struct kvf_run runs[] = {{BLOCK_BYTES, 3 * BLOCK_BYTES, BLOCK_BYTES},
                                   {3 * BLOCK_BYTES, BLOCK_BYTES, BLOCK_BYTES}};
    struct kvf_plan plan;

    (void)state;
    dst.cp_size = 2;
    dst.cp_rank = 1;
    dst.n_blocks = 2;
    must_build(&src, &dst, &layer_0, &plan);
    expect_runs(&plan, runs, 2);
}

static void test_plan_of_nothing_is_empty(void **state)
{
    const struct kvf_plan_range none = {.token_first = 7, .n_layers = 2};
    const struct kvf_plan_range one_block = {.n_tokens = 4, .n_layers = 2};
    const struct kvf_shard src = shard_of(&layout, in_order);
    struct kvf_shard dst = shard_of(&layout, NULL);
    struct kvf_plan_cursor cursor;
    struct kvf_plan plan;
    struct kvf_run run;

    (void)state;
    must_build(&src, &dst, &none, &plan);
    assert_int_equal(kvf_plan_bytes(&plan), 0);
    assert_int_equal(kvf_plan_runs(&plan), 0);
    kvf_plan_seek(&plan, 0, 1, &cursor);
    assert_false(kvf_plan_next(&cursor, 1, &run));

    dst.cp_size = 2; /* the only block is on rank 0 */
    dst.cp_rank = 1;
    dst.blocks = in_order;
    dst.n_blocks = 0;
    must_build(&src, &dst, &one_block, &plan);
    assert_int_equal(kvf_plan_bytes(&plan), 0);
}

static void test_plan_refuses_other_rows(void **state)
{
    const struct kvf_shard src = shard_of(&layout, in_order);
    struct kvf_layout other = layout;
    const struct kvf_shard dst = shard_of(&other, in_order);

    (void)state;
    other.dtype = KVF_DTYPE_FP8;
    expect_refused(&src, &dst, &everything, KVF_LAYOUT_MISMATCH,
                   "data type is 7 at the sender and 6 at the receiver");
    other = layout;
    other.row_bytes = 8;
    expect_refused(&src, &dst, &everything, KVF_LAYOUT_MISMATCH,
                   "row bytes is 16 at the sender and 8 at the receiver");
    other = layout;
    other.kv_factor = 1;
    expect_refused(&src, &dst, &everything, KVF_LAYOUT_MISMATCH,
                   "kv factor is 2 at the sender and 1 at the receiver");
}

static void test_plan_refuses_ranges_outside_the_shards(void **state)
{
    const struct kvf_shard src = shard_of(&layout, in_order);
    struct kvf_shard dst = shard_of(&layout, in_order);
    const struct kvf_plan_range no_layers = {.n_tokens = 1};
    const struct kvf_plan_range wraps = {
        .token_first = 2, .n_tokens = UINT32_MAX - 1, .n_layers = 1};

    (void)state;
    dst.layer_first = 1;
    expect_refused(&src, &dst, &everything, KVF_LAYOUT_MISMATCH,
                   "layers 0 to 1 are wanted, the receiver holds 1 to 2");
    dst.layer_first = 0;
    dst.head_first = 2;
    expect_refused(&src, &dst, &everything, KVF_LAYOUT_MISMATCH,
                   "the sender holds 0 to 1, the receiver 2 to 3");
    dst.head_first = 0;
    expect_refused(&src, &dst, &no_layers, KVF_INVALID_ARGUMENT, "0 layers");
    expect_refused(&src, &dst, &wraps, KVF_INVALID_ARGUMENT, "tokens from 2");
}

static void test_plan_refuses_short_tables(void **state)
{
    const struct kvf_plan_range last_token = {
        .token_first = 15, .n_tokens = 1, .n_layers = 1};
    const struct kvf_shard src = shard_of(&layout, in_order);
    struct kvf_shard dst = shard_of(&layout, in_order);

    (void)state;
    dst.n_blocks = 3;
    expect_refused(&src, &dst, &last_token, KVF_BAD_REF,
                   "the receiver's block table has 3 blocks, token 15 is in block 3");
    expect_refused(&dst, &src, &last_token, KVF_BAD_REF, "the sender's block table");
}

static void test_plan_refuses_incomplete_shards(void **state)
{
    const struct kvf_shard src = shard_of(&layout, in_order);
    struct kvf_layout other = layout;
    struct kvf_shard dst = shard_of(&other, NULL);

    (void)state;
    other.tokens_per_block = 0;
    expect_refused(&src, &dst, &everything, KVF_INVALID_ARGUMENT, "the receiver's");
    expect_refused(&dst, &src, &everything, KVF_INVALID_ARGUMENT, "the sender's");
    other = layout;
    other.layer_offsets = NULL;
    expect_refused(&src, &dst, &everything, KVF_INVALID_ARGUMENT, "incomplete");
    other = layout;
    dst.cp_rank = 1;
    expect_refused(&src, &dst, &everything, KVF_INVALID_ARGUMENT, "rank is 1 of 1");
}

static void test_plan_refuses_unequal_cp_on_both_sides(void **state)
{
    struct kvf_layout other = layout;
    struct kvf_shard src = shard_of(&layout, NULL);
    struct kvf_shard dst = shard_of(&other, NULL);
    struct kvf_plan plan;

    (void)state;
    src.cp_size = 2;
    dst.cp_size = 4;
    must_build(&src, &dst, &everything, &plan);
    dst.cp_size = 3;
    expect_refused(&src, &dst, &everything, KVF_LAYOUT_MISMATCH, "context parallelism 2");
    dst.cp_size = 2;
    other.tokens_per_block = 8;
    expect_refused(&src, &dst, &everything, KVF_LAYOUT_MISMATCH, "blocks of 4 tokens");
}

/* A peer's numbers may be anything; they must not overflow what we compute. */
static void test_plan_refuses_streams_too_large_to_count(void **state)
{
    const struct kvf_plan_range range = {.n_tokens = UINT32_MAX, .n_layers = 2};
    struct kvf_layout huge = layout;
    struct kvf_shard src = shard_of(&huge, NULL), dst = shard_of(&huge, NULL);
    struct kvf_plan plan;

    (void)state;
    huge.n_heads = UINT32_MAX;
    huge.tokens_per_block = UINT32_MAX;
    huge.row_bytes = UINT32_MAX;
    expect_refused(&src, &dst, &range, KVF_INVALID_ARGUMENT, "too large");
    huge.tokens_per_block = 1;
    huge.n_heads = 1u << 29;
    expect_refused(&src, &dst, &range, KVF_INVALID_ARGUMENT, "too large");
    huge.n_heads = 1;
    huge.row_bytes = 1u << 20;
    must_build(&src, &dst, &range, &plan);
    assert_int_equal(kvf_plan_bytes(&plan), (UINT64_C(4) << 20) * UINT32_MAX);
}

static uint64_t hash_of(const struct kvf_shard *src, const struct kvf_shard *dst,
                        const struct kvf_plan_range *range)
{
    struct kvf_plan plan;

    must_build(src, dst, range, &plan);
    return kvf_plan_hash(&plan);
}

static void test_plan_hash_ignores_tables_only(void **state)
{
    const uint32_t scattered[N_BLOCKS] = {3, 1, 2, 0};
    const struct kvf_shard src = shard_of(&layout, in_order);
    struct kvf_shard dst = shard_of(&layout, in_order);
    struct kvf_plan_range range = everything;
    const uint64_t hash = hash_of(&src, &dst, &everything);

    (void)state;
    dst.blocks = scattered;
    assert_int_equal(hash_of(&src, &dst, &everything), hash);
    dst.blocks = NULL;
    dst.n_blocks = 0;
    assert_int_equal(hash_of(&src, &dst, &everything), hash);
    range.n_tokens--;
    assert_int_not_equal(hash_of(&src, &dst, &range), hash);
    dst.head_first = 1;
    assert_int_not_equal(hash_of(&src, &dst, &everything), hash);
}

static void test_plan_hash_covers_the_layout_of_both_sides(void **state)
{
    const uint64_t moved[] = {0, LAYER_BYTES + 64};
    const struct kvf_shard src = shard_of(&layout, in_order);
    struct kvf_layout other = layout;
    const struct kvf_shard dst = shard_of(&other, in_order);
    const uint64_t hash = hash_of(&src, &dst, &everything);
    uint64_t *const strides[] = {&other.block_stride, &other.kv_stride,
                                 &other.head_stride, &other.token_stride};

    (void)state;
    for (size_t i = 0; i < sizeof(strides) / sizeof(strides[0]); i++) {
        *strides[i] += 64;
        assert_int_not_equal(hash_of(&src, &dst, &everything), hash);
        assert_int_not_equal(hash_of(&dst, &src, &everything), hash);
        assert_int_not_equal(hash_of(&dst, &src, &everything),
                             hash_of(&src, &dst, &everything));
        *strides[i] -= 64;
    }
    other.n_blocks++;
    assert_int_not_equal(hash_of(&src, &dst, &everything), hash);
    other.n_blocks--;
    other.layer_offsets = moved;
    assert_int_not_equal(hash_of(&src, &dst, &everything), hash);
}

static void test_plan_pieces_stop_when_full(void **state)
{
    const uint32_t scattered[N_BLOCKS] = {2, 0, 3, 1};
    const struct kvf_shard src = shard_of(&layout, scattered);
    const struct kvf_shard dst = shard_of(&layout, NULL);
    struct iovec pieces[3];
    struct kvf_plan plan;
    char *base = NULL;
    uint64_t came = 0;

    (void)state;
    must_build(&src, &dst, &everything, &plan);
    assert_int_equal(kvf_plan_pieces(&plan, KVF_PLAN_SRC, base, BLOCK_BYTES / 4,
                                     3 * BLOCK_BYTES, pieces, 3, &came),
                     3);
    assert_int_equal(came, BLOCK_BYTES * 11 / 4);
    assert_int_equal((uintptr_t)pieces[0].iov_base, 2 * BLOCK_BYTES + BLOCK_BYTES / 4);
    assert_int_equal(pieces[0].iov_len, BLOCK_BYTES * 3 / 4);
    assert_int_equal((uintptr_t)pieces[1].iov_base, 0);
    assert_int_equal(pieces[2].iov_len, BLOCK_BYTES);
    assert_int_equal(
        kvf_plan_pieces(&plan, KVF_PLAN_SRC, base, plan.n_bytes, 9, pieces, 3, &came), 0);
    assert_int_equal(came, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plan_joins_blocks_but_not_rounds),
        cmocka_unit_test(test_plan_joins_only_what_both_tables_continue),
        cmocka_unit_test(test_plan_cuts_runs_at_max_bytes),
        cmocka_unit_test(test_plan_seek_clips_to_the_stream),
        cmocka_unit_test(test_plan_streams_in_sender_memory_order),
        cmocka_unit_test(test_plan_streams_uneven_layers_in_model_order),
        cmocka_unit_test(test_plan_splits_heads),
        cmocka_unit_test(test_plan_deals_blocks_round_robin),
        cmocka_unit_test(test_plan_of_nothing_is_empty),
        cmocka_unit_test(test_plan_refuses_other_rows),
        cmocka_unit_test(test_plan_refuses_ranges_outside_the_shards),
        cmocka_unit_test(test_plan_refuses_short_tables),
        cmocka_unit_test(test_plan_refuses_incomplete_shards),
        cmocka_unit_test(test_plan_refuses_unequal_cp_on_both_sides),
        cmocka_unit_test(test_plan_refuses_streams_too_large_to_count),
        cmocka_unit_test(test_plan_hash_ignores_tables_only),
        cmocka_unit_test(test_plan_hash_covers_the_layout_of_both_sides),
        cmocka_unit_test(test_plan_pieces_stop_when_full),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
