/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cells: the token grid laid over a range, and which of its steps are on this pair of
 * ranks. Block g of a sequence is on context parallel rank g mod size and is entry
 * g / size of that rank's table, whatever range is moved: a table starts at token 0.
 * Everything here is a division or two, so that a plan can start at any offset.
 * Pure functions, any thread.
 */
#include <assert.h>
#include <inttypes.h>

#include "plan/nest.h"
#include "plan/refusal.h"

static uint32_t greatest_common_divisor(uint32_t a, uint32_t b)
{
    while (b != 0) {
        const uint32_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* With context parallelism on both sides the common steps form one comb only when the
 * blocks are equal and one group size divides the other. Everything in use is of that
 * kind; the rest would need a table per period. */
static enum kvf_status build_comb(struct kvf_plan *plan,
                                  struct kvf_plan_refusal *out_refusal)
{
    const struct kvf_shard *src = &plan->src, *dst = &plan->dst;
    const uint64_t src_steps = src->layout->tokens_per_block / plan->cell_tokens;
    const uint64_t dst_steps = dst->layout->tokens_per_block / plan->cell_tokens;

    if (dst->cp_size == 1) {
        plan->comb = (struct kvf_plan_comb){.first = src_steps * src->cp_rank,
                                            .length = src_steps,
                                            .period = src_steps * src->cp_size};
        return KVF_OK;
    }
    if (src->cp_size == 1) {
        plan->comb = (struct kvf_plan_comb){.first = dst_steps * dst->cp_rank,
                                            .length = dst_steps,
                                            .period = dst_steps * dst->cp_size};
        return KVF_OK;
    }
    const struct kvf_shard *wide = src->cp_size > dst->cp_size ? src : dst;
    const struct kvf_shard *narrow = wide == src ? dst : src;
    if (src_steps != dst_steps || wide->cp_size % narrow->cp_size != 0) {
        return kvf_refuse(out_refusal, KVF_LAYOUT_MISMATCH,
                          "context parallelism %u with blocks of %u tokens at the sender "
                          "does not fit %u with %u at the receiver",
                          src->cp_size, src->layout->tokens_per_block, dst->cp_size,
                          dst->layout->tokens_per_block);
    }
    const bool has_common = wide->cp_rank % narrow->cp_size == narrow->cp_rank;
    plan->comb = (struct kvf_plan_comb){
        .first = wide->cp_rank, .length = has_common, .period = wide->cp_size};
    return KVF_OK;
}

/* Steps of the comb below step `step` of the token grid. */
static uint64_t comb_below(const struct kvf_plan_comb *comb, uint64_t step)
{
    assert(comb->period > 0);
    const uint64_t phase = step % comb->period;
    uint64_t part = phase > comb->first ? phase - comb->first : 0;

    part = part < comb->length ? part : comb->length;
    return step / comb->period * comb->length + part;
}

static uint64_t comb_step(const struct kvf_plan_comb *comb, uint64_t index)
{
    assert(comb->length > 0); /* else there are no cells */
    return index / comb->length * comb->period + comb->first + index % comb->length;
}

void kvf_cell_tokens(const struct kvf_plan *plan, uint32_t cell, uint64_t *out_first,
                     uint64_t *out_end)
{
    const uint64_t first =
        comb_step(&plan->comb, plan->comb_first + cell) * plan->cell_tokens;
    const uint64_t end = first + plan->cell_tokens;
    const uint64_t range_end = (uint64_t)plan->range.token_first + plan->range.n_tokens;

    *out_first = first > plan->range.token_first ? first : plan->range.token_first;
    *out_end = end < range_end ? end : range_end;
}

static void count_cells(struct kvf_plan *plan)
{
    const struct kvf_plan_range *range = &plan->range;
    const uint64_t end = (uint64_t)range->token_first + range->n_tokens;
    const uint64_t step_end = (end + plan->cell_tokens - 1) / plan->cell_tokens;

    plan->comb_first = comb_below(&plan->comb, range->token_first / plan->cell_tokens);
    if (range->n_tokens > 0) {
        plan->n_cells = (uint32_t)(comb_below(&plan->comb, step_end) - plan->comb_first);
    }
}

static enum kvf_status check_table(const struct kvf_plan *plan,
                                   const struct kvf_shard *shard, const char *side,
                                   struct kvf_plan_refusal *out_refusal)
{
    uint64_t first, end;

    if (shard->blocks == NULL || plan->n_cells == 0) {
        return KVF_OK;
    }
    kvf_cell_tokens(plan, plan->n_cells - 1, &first, &end);
    const uint64_t block = first / shard->layout->tokens_per_block / shard->cp_size;
    if (block >= shard->n_blocks) {
        return kvf_refuse(out_refusal, KVF_BAD_REF,
                          "the %s's block table has %u blocks, token %" PRIu64
                          " is in block %" PRIu64,
                          side, shard->n_blocks, end - 1, block);
    }
    return KVF_OK;
}

enum kvf_status kvf_cells_build(struct kvf_plan *plan,
                                struct kvf_plan_refusal *out_refusal)
{
    plan->cell_tokens = greatest_common_divisor(plan->src.layout->tokens_per_block,
                                                plan->dst.layout->tokens_per_block);
    enum kvf_status status = build_comb(plan, out_refusal);
    if (status != KVF_OK) {
        return status;
    }
    count_cells(plan);
    status = check_table(plan, &plan->src, "sender", out_refusal);
    return status != KVF_OK ? status
                            : check_table(plan, &plan->dst, "receiver", out_refusal);
}

static uint64_t block_offset(const struct kvf_shard *shard, uint64_t token)
{
    const struct kvf_layout *layout = shard->layout;
    const uint64_t block = token / layout->tokens_per_block;
    const uint64_t within = token - block * layout->tokens_per_block;

    return shard->blocks[block / shard->cp_size] * layout->block_stride +
           within * layout->token_stride;
}

void kvf_cell_place(const struct kvf_plan *plan, uint32_t cell, uint64_t *out_src,
                    uint64_t *out_dst)
{
    uint64_t first, end;

    kvf_cell_tokens(plan, cell, &first, &end);
    *out_src = 0;
    *out_dst = 0;
    if (plan->src.blocks != NULL) {
        *out_src = plan->src_origin + block_offset(&plan->src, first);
    }
    if (plan->dst.blocks != NULL) {
        *out_dst = plan->dst_origin + block_offset(&plan->dst, first);
    }
}
