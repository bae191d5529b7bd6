/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds a plan: intersects two shards, decides which loops go around the cells and which
 * lie within, and merges what is contiguous. Walking a plan is cursor.c.
 *
 * The remote side's layout comes from a peer. Its numbers may be anything: they decide
 * the order of the stream and nothing else, because an address is formed only for a side
 * whose block table is known here, from a layout that kvf_layout_check() accepted.
 * Pure functions, any thread, no allocation.
 */
#include "plan/plan.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "plan/nest.h"
#include "plan/refusal.h"

/* Part of the plan hash: raise it when the order of the stream changes. */
#define STREAM_VERSION 1u

enum dim { DIM_LAYER, DIM_PLANE, DIM_HEAD, DIM_TOKEN };

/* The dims of the nest while it is built, outermost first. */
struct nest {
    enum dim order[KVF_PLAN_DIMS];
    uint32_t n_outer; /* the first n_outer go around the cells */
    struct kvf_plan_level levels[KVF_PLAN_DIMS]; /* by enum dim */
};

static enum kvf_status check_shard(const struct kvf_shard *shard, const char *side,
                                   struct kvf_plan_refusal *out_refusal)
{
    const struct kvf_layout *layout = shard->layout;

    if (layout == NULL || layout->layer_offsets == NULL || layout->n_layers == 0 ||
        layout->kv_factor == 0 || layout->n_heads == 0 || layout->row_bytes == 0 ||
        layout->tokens_per_block == 0) {
        return kvf_refuse(out_refusal, KVF_INVALID_ARGUMENT,
                          "the %s's layout is incomplete or has a zero count", side);
    }
    if (shard->cp_rank >= shard->cp_size) {
        return kvf_refuse(out_refusal, KVF_INVALID_ARGUMENT,
                          "the %s's context parallel rank is %u of %u", side,
                          shard->cp_rank, shard->cp_size);
    }
    return KVF_OK;
}

static enum kvf_status check_same_rows(const struct kvf_layout *src,
                                       const struct kvf_layout *dst,
                                       struct kvf_plan_refusal *out_refusal)
{
    const struct {
        const char *name;
        uint32_t src, dst;
    } fields[] = {
        {"data type", src->dtype, dst->dtype},
        {"row bytes", src->row_bytes, dst->row_bytes},
        {"kv factor", src->kv_factor, dst->kv_factor},
    };

    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        if (fields[i].src != fields[i].dst) {
            return kvf_refuse(out_refusal, KVF_LAYOUT_MISMATCH,
                              "%s is %u at the sender and %u at the receiver",
                              fields[i].name, fields[i].src, fields[i].dst);
        }
    }
    return KVF_OK;
}

static enum kvf_status check_layers(const struct kvf_shard *shard, const char *side,
                                    const struct kvf_plan_range *range,
                                    struct kvf_plan_refusal *out_refusal)
{
    const uint64_t first = shard->layer_first;
    const uint64_t end = first + shard->layout->n_layers;

    if (range->layer_first < first ||
        (uint64_t)range->layer_first + range->n_layers > end) {
        return kvf_refuse(
            out_refusal, KVF_LAYOUT_MISMATCH,
            "layers %u to %" PRIu64 " are wanted, the %s holds %" PRIu64 " to %" PRIu64,
            range->layer_first, (uint64_t)range->layer_first + range->n_layers - 1, side,
            first, end - 1);
    }
    return KVF_OK;
}

static enum kvf_status check_range(const struct kvf_shard *src,
                                   const struct kvf_shard *dst,
                                   const struct kvf_plan_range *range,
                                   struct kvf_plan_refusal *out_refusal)
{
    if (range->n_layers == 0 || range->n_tokens > UINT32_MAX - range->token_first) {
        return kvf_refuse(out_refusal, KVF_INVALID_ARGUMENT,
                          "the range has %u layers and %u tokens from %u",
                          range->n_layers, range->n_tokens, range->token_first);
    }
    const enum kvf_status status = check_layers(src, "sender", range, out_refusal);
    return status != KVF_OK ? status : check_layers(dst, "receiver", range, out_refusal);
}

static enum kvf_status intersect_heads(struct kvf_plan *plan,
                                       struct kvf_plan_refusal *out_refusal)
{
    const uint64_t src_first = plan->src.head_first, dst_first = plan->dst.head_first;
    const uint64_t src_end = src_first + plan->src.layout->n_heads;
    const uint64_t dst_end = dst_first + plan->dst.layout->n_heads;
    const uint64_t first = src_first > dst_first ? src_first : dst_first;
    const uint64_t end = src_end < dst_end ? src_end : dst_end;

    if (first >= end) {
        return kvf_refuse(out_refusal, KVF_LAYOUT_MISMATCH,
                          "no common heads: the sender holds %" PRIu64 " to %" PRIu64
                          ", the receiver %" PRIu64 " to %" PRIu64,
                          src_first, src_end - 1, dst_first, dst_end - 1);
    }
    plan->head_first = (uint32_t)first;
    plan->n_heads = (uint32_t)(end - first);
    return KVF_OK;
}

/* The one distance between layers of the range, or 0: there is none. */
static uint64_t layer_stride(const struct kvf_shard *shard,
                             const struct kvf_plan_range *range)
{
    const uint64_t *offsets =
        shard->layout->layer_offsets + (range->layer_first - shard->layer_first);

    if (range->n_layers < 2 || offsets[1] <= offsets[0]) {
        return 0;
    }
    const uint64_t stride = offsets[1] - offsets[0];
    for (uint32_t i = 2; i < range->n_layers; i++) {
        if (offsets[i] - offsets[i - 1] != stride) {
            return 0;
        }
    }
    return stride;
}

static void measure_dims(const struct kvf_plan *plan, struct nest *out)
{
    const struct kvf_layout *src = plan->src.layout, *dst = plan->dst.layout;
    const uint64_t src_layer = layer_stride(&plan->src, &plan->range);
    const uint64_t dst_layer = layer_stride(&plan->dst, &plan->range);
    const bool src_needs = plan->src.blocks != NULL && src_layer == 0;
    const bool dst_needs = plan->dst.blocks != NULL && dst_layer == 0;

    out->levels[DIM_LAYER] =
        (struct kvf_plan_level){.src_stride = src_layer,
                                .dst_stride = dst_layer,
                                .count = plan->range.n_layers,
                                .is_by_layer = src_needs || dst_needs};
    out->levels[DIM_PLANE] = (struct kvf_plan_level){.src_stride = src->kv_stride,
                                                     .dst_stride = dst->kv_stride,
                                                     .count = src->kv_factor};
    out->levels[DIM_HEAD] = (struct kvf_plan_level){.src_stride = src->head_stride,
                                                    .dst_stride = dst->head_stride,
                                                    .count = plan->n_heads};
    out->levels[DIM_TOKEN] = (struct kvf_plan_level){.src_stride = src->token_stride,
                                                     .dst_stride = dst->token_stride,
                                                     .count = plan->cell_tokens};
}

/* Sender strides decide, so that both sides come to the same order. Layers that are not
 * evenly spaced go around everything. Tokens always lie within the cell. */
static void order_dims(const struct kvf_plan *plan, struct nest *nest)
{
    const uint64_t block_stride = plan->src.layout->block_stride;
    uint64_t keys[KVF_PLAN_DIMS];
    bool is_outer[KVF_PLAN_DIMS];

    for (int d = 0; d < KVF_PLAN_DIMS; d++) {
        keys[d] = nest->levels[d].src_stride;
        if (d == DIM_LAYER && keys[d] == 0) {
            keys[d] = UINT64_MAX;
        }
        is_outer[d] = d != DIM_TOKEN && keys[d] > block_stride;
        nest->n_outer += is_outer[d];
    }
    for (int d = 0; d < KVF_PLAN_DIMS; d++) {
        int at = d;
        while (at > 0 && (is_outer[d] > is_outer[nest->order[at - 1]] ||
                          (is_outer[d] == is_outer[nest->order[at - 1]] &&
                           keys[d] > keys[nest->order[at - 1]]))) {
            nest->order[at] = nest->order[at - 1];
            at--;
        }
        nest->order[at] = (enum dim)d;
    }
}

/* Whether `outer` steps over exactly these bytes on every side whose memory is followed.
 * Never true for a by_layer loop: its stride is 0 on a side that is followed. */
static bool steps_over(const struct kvf_plan *plan, const struct kvf_plan_level *outer,
                       uint64_t src_bytes, uint64_t dst_bytes)
{
    return (plan->src.blocks == NULL || outer->src_stride == src_bytes) &&
           (plan->dst.blocks == NULL || outer->dst_stride == dst_bytes);
}

/* Adds a loop inside those the shape has; joins the two innermost when they are one. */
static void push_level(const struct kvf_plan *plan, struct kvf_plan_shape *shape,
                       const struct kvf_plan_level *level)
{
    struct kvf_plan_level *above = &shape->levels[shape->n_levels];

    if (level->count == 1) {
        return;
    }
    if (shape->n_levels > 0) {
        above--;
        if (steps_over(plan, above, level->src_stride * level->count,
                       level->dst_stride * level->count)) {
            const uint32_t count = above->count * level->count;
            *above = *level;
            above->count = count;
            return;
        }
        above++;
    }
    *above = *level;
    shape->n_levels++;
}

static void build_shape(const struct kvf_plan *plan, const struct nest *nest,
                        uint64_t n_tokens, struct kvf_plan_shape *out)
{
    *out = (struct kvf_plan_shape){.run_bytes = plan->row_bytes, .n_runs = 1};
    for (uint32_t i = nest->n_outer; i < KVF_PLAN_DIMS; i++) {
        struct kvf_plan_level level = nest->levels[nest->order[i]];
        if (nest->order[i] == DIM_TOKEN) {
            level.count = (uint32_t)n_tokens;
        }
        push_level(plan, out, &level);
    }
    while (out->n_levels > 0 && steps_over(plan, &out->levels[out->n_levels - 1],
                                           out->run_bytes, out->run_bytes)) {
        out->n_levels--;
        out->run_bytes *= out->levels[out->n_levels].count;
    }
    for (uint32_t i = 0; i < out->n_levels; i++) {
        uint64_t src, dst;
        kvf_level_offset(plan, &out->levels[i], out->levels[i].count - 1, &src, &dst);
        out->src_last += src;
        out->dst_last += dst;
        out->n_runs *= out->levels[i].count;
    }
    out->n_bytes = out->run_bytes * out->n_runs;
}

/* Every loop of one cell fits 32 bits and the stream 63: no later product overflows. */
static enum kvf_status check_size(const struct kvf_plan *plan,
                                  struct kvf_plan_refusal *out_refusal)
{
    uint64_t n_rows = plan->range.n_layers, n_bytes;
    bool fits = kvf_size_mul(n_rows, plan->src.layout->kv_factor, &n_rows) &&
                kvf_size_mul(n_rows, plan->n_heads, &n_rows) &&
                kvf_size_mul(n_rows, plan->cell_tokens, &n_rows) && n_rows <= UINT32_MAX;

    fits = fits && kvf_size_mul(n_rows * plan->row_bytes, plan->n_cells, &n_bytes) &&
           n_bytes <= INT64_MAX;
    if (!fits) {
        return kvf_refuse(
            out_refusal, KVF_INVALID_ARGUMENT,
            "%u layers of %u heads and %u tokens are too large for one plan",
            plan->range.n_layers, plan->n_heads, plan->range.n_tokens);
    }
    return KVF_OK;
}

static void build_shapes(struct kvf_plan *plan, const struct nest *nest)
{
    uint64_t first = 0, end = 0;

    build_shape(plan, nest, plan->cell_tokens, &plan->shapes[KVF_CELL_MIDDLE]);
    plan->min_run_bytes = plan->shapes[KVF_CELL_MIDDLE].run_bytes;
    if (plan->n_cells == 0) {
        return;
    }
    kvf_cell_tokens(plan, 0, &first, &end);
    build_shape(plan, nest, end - first, &plan->shapes[KVF_CELL_FIRST]);
    kvf_cell_tokens(plan, plan->n_cells - 1, &first, &end);
    build_shape(plan, nest, end - first, &plan->shapes[KVF_CELL_LAST]);
    plan->outer_bytes = plan->shapes[KVF_CELL_FIRST].n_bytes;
    if (plan->n_cells > 1) {
        plan->outer_bytes += (plan->n_cells - 2) * plan->shapes[KVF_CELL_MIDDLE].n_bytes +
                             plan->shapes[KVF_CELL_LAST].n_bytes;
    }
}

static void build_outer(struct kvf_plan *plan, const struct nest *nest)
{
    plan->n_outer_runs = 1;
    for (uint32_t i = 0; i < nest->n_outer; i++) {
        const struct kvf_plan_level *level = &nest->levels[nest->order[i]];
        plan->is_layer_outside |= nest->order[i] == DIM_LAYER;
        if (level->count > 1) {
            plan->outer[plan->n_outer++] = *level;
            plan->n_outer_runs *= level->count;
        }
    }
}

static uint64_t origin(const struct kvf_plan *plan, const struct kvf_shard *shard)
{
    return shard->layout->layer_offsets[plan->range.layer_first - shard->layer_first] +
           (plan->head_first - shard->head_first) * shard->layout->head_stride;
}

static enum kvf_status check_sides(const struct kvf_shard *src,
                                   const struct kvf_shard *dst,
                                   const struct kvf_plan_range *range,
                                   struct kvf_plan_refusal *out_refusal)
{
    enum kvf_status status = check_shard(src, "sender", out_refusal);

    if (status == KVF_OK) {
        status = check_shard(dst, "receiver", out_refusal);
    }
    if (status == KVF_OK) {
        status = check_same_rows(src->layout, dst->layout, out_refusal);
    }
    if (status == KVF_OK) {
        status = check_range(src, dst, range, out_refusal);
    }
    return status;
}

enum kvf_status kvf_plan_build(const struct kvf_shard *src, const struct kvf_shard *dst,
                               const struct kvf_plan_range *range,
                               struct kvf_plan *out_plan,
                               struct kvf_plan_refusal *out_refusal)
{
    struct kvf_plan plan = {.src = *src, .dst = *dst, .range = *range};
    struct nest nest = {.n_outer = 0};
    enum kvf_status status = check_sides(src, dst, range, out_refusal);

    if (status == KVF_OK) {
        plan.row_bytes = src->layout->row_bytes;
        status = intersect_heads(&plan, out_refusal);
    }
    if (status == KVF_OK) {
        status = kvf_cells_build(&plan, out_refusal);
    }
    if (status == KVF_OK) {
        status = check_size(&plan, out_refusal);
    }
    if (status != KVF_OK) {
        return status;
    }
    plan.src_origin = origin(&plan, src);
    plan.dst_origin = origin(&plan, dst);
    measure_dims(&plan, &nest);
    order_dims(&plan, &nest);
    build_outer(&plan, &nest);
    build_shapes(&plan, &nest);
    plan.n_bytes = plan.outer_bytes * plan.n_outer_runs;
    *out_plan = plan;
    return KVF_OK;
}

uint64_t kvf_plan_bytes(const struct kvf_plan *plan)
{
    return plan->n_bytes;
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ (hash >> 29);
}

static uint64_t mix_shard(uint64_t hash, const struct kvf_shard *shard)
{
    const struct kvf_layout *layout = shard->layout;
    const uint64_t fields[] = {
        shard->layer_first, shard->head_first,   shard->cp_size,
        shard->cp_rank,     layout->n_layers,    layout->kv_factor,
        layout->n_heads,    layout->row_bytes,   layout->tokens_per_block,
        layout->n_blocks,   layout->dtype,       layout->block_stride,
        layout->kv_stride,  layout->head_stride, layout->token_stride,
    };

    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        hash = mix(hash, fields[i]);
    }
    for (uint32_t i = 0; i < layout->n_layers; i++) {
        hash = mix(hash, layout->layer_offsets[i]);
    }
    return hash;
}

uint64_t kvf_plan_hash(const struct kvf_plan *plan)
{
    const uint64_t fields[] = {
        plan->range.token_first, plan->range.n_tokens, plan->range.layer_first,
        plan->range.n_layers,    plan->head_first,     plan->n_heads,
        plan->cell_tokens,       plan->n_cells,        plan->n_bytes,
    };
    uint64_t hash = mix(0, STREAM_VERSION);

    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        hash = mix(hash, fields[i]);
    }
    hash = mix_shard(hash, &plan->src);
    return mix_shard(hash, &plan->dst);
}
