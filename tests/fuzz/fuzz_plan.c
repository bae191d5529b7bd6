/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two layouts, two block tables and a range out of arbitrary bytes. Whatever they are,
 * the checks answer; what they accept becomes a plan, and no run of a plan may leave
 * either pool, overlap the end of the stream or get lost: the runs add up to the stream.
 *
 * Numbers are taken one byte at a time and scaled, with now and then a full 64-bit one,
 * so that both nearly right layouts and overflowing ones are common.
 */
#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "plan/plan.h"
#include "tests/fuzz/fuzz.h"

#define POOL_BYTES ((uint64_t)1 << 20)
#define LAYERS_MAX 8
#define BLOCKS_MAX 16
#define RUNS_MAX   100000 /* of one byte each would only take time */

struct input {
    const uint8_t *next, *end;
};

static uint8_t take_byte(struct input *input)
{
    return input->next < input->end ? *input->next++ : 0;
}

static uint64_t take_number(struct input *input, uint64_t scale)
{
    uint8_t first = take_byte(input);
    if (first != 255) {
        return first * scale;
    }
    uint64_t number = 0;
    for (int i = 0; i < 8; i++) {
        number = number << 8 | take_byte(input);
    }
    return number;
}

struct side {
    uint64_t layer_offsets[LAYERS_MAX];
    uint32_t blocks[BLOCKS_MAX];
    struct kvf_layout layout;
    struct kvf_shard shard;
};

static void take_side(struct input *input, struct side *out)
{
    uint64_t unit = (uint64_t)1 << (take_byte(input) % 13);
    struct kvf_layout *layout = &out->layout;
    *layout = (struct kvf_layout){
        .size = sizeof(*layout),
        .n_layers = take_byte(input) % (LAYERS_MAX + 1),
        .kv_factor = (uint32_t)take_number(input, 1),
        .n_heads = (uint32_t)take_number(input, 1),
        .tokens_per_block = (uint32_t)take_number(input, 1),
        .row_bytes = (uint32_t)take_number(input, 1),
        .n_blocks = (uint32_t)take_number(input, 1),
        .dtype = take_byte(input),
        .block_stride = take_number(input, unit),
        .kv_stride = take_number(input, unit),
        .head_stride = take_number(input, 16),
        .token_stride = take_number(input, 16),
        .layer_offsets = out->layer_offsets,
    };
    for (int i = 0; i < LAYERS_MAX; i++) {
        out->layer_offsets[i] = take_number(input, unit);
    }
    for (int i = 0; i < BLOCKS_MAX; i++) {
        out->blocks[i] = take_byte(input);
    }
    out->shard = (struct kvf_shard){
        .layout = layout,
        .layer_first = (uint32_t)take_number(input, 1),
        .head_first = (uint32_t)take_number(input, 1),
        .cp_size = (uint32_t)take_number(input, 1),
        .cp_rank = (uint32_t)take_number(input, 1),
        .blocks = out->blocks,
        .n_blocks = take_byte(input) % (BLOCKS_MAX + 1),
    };
}

static bool accept(const struct side *side)
{
    struct kvf_plan_refusal refusal;
    return kvf_layout_check(&side->layout, POOL_BYTES, &refusal) == KVF_OK &&
           kvf_blocks_check(&side->layout, side->blocks, side->shard.n_blocks, true,
                            &refusal) == KVF_OK;
}

static void check_runs(const struct kvf_plan *plan, uint64_t offset, uint64_t max_bytes)
{
    uint64_t left = kvf_plan_bytes(plan) - offset;
    struct kvf_plan_cursor cursor;
    kvf_plan_seek(plan, offset, left, &cursor);
    struct kvf_run run;
    int n = 0;
    for (; n < RUNS_MAX && kvf_plan_next(&cursor, max_bytes, &run); n++) {
        assert(run.n_bytes > 0 && run.n_bytes <= max_bytes && run.n_bytes <= left);
        assert(run.src_offset <= POOL_BYTES - run.n_bytes);
        assert(run.dst_offset <= POOL_BYTES - run.n_bytes);
        left -= run.n_bytes;
    }
    assert(left == 0 || n == RUNS_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct input input = {.next = bytes, .end = bytes + n};
    struct side src, dst;
    take_side(&input, &src);
    bool is_same_layout = take_byte(&input) % 2 == 0;
    if (is_same_layout) {
        dst = src;
        dst.layout.layer_offsets = dst.layer_offsets;
        dst.shard.layout = &dst.layout;
        dst.shard.blocks = dst.blocks;
    } else {
        take_side(&input, &dst);
    }
    struct kvf_plan_range range = {
        .token_first = (uint32_t)take_number(&input, 1),
        .n_tokens = (uint32_t)take_number(&input, 1),
        .layer_first = (uint32_t)take_number(&input, 1),
        .n_layers = (uint32_t)take_number(&input, 1),
    };
    struct kvf_plan plan;
    struct kvf_plan_refusal refusal;
    if (!accept(&src) || !accept(&dst) ||
        kvf_plan_build(&src.shard, &dst.shard, &range, &plan, &refusal) != KVF_OK) {
        return 0;
    }
    uint64_t n_bytes = kvf_plan_bytes(&plan);
    check_runs(&plan, 0, UINT64_MAX);
    check_runs(&plan, n_bytes == 0 ? 0 : take_number(&input, 1) % n_bytes, 1 + n % 64);
    return 0;
}
