/* SPDX-License-Identifier: Apache-2.0 */
/* Naive on purpose: see reference.h. */
#include "tests/plan/reference.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"

#define GAP_BYTES 24u /* between layers of one pool: nothing may touch it */

static void set_whole(struct kvf_layout *layout, bool is_nhd)
{
    const uint64_t plane =
        (uint64_t)layout->n_heads * layout->tokens_per_block * layout->row_bytes;

    layout->token_stride =
        is_nhd ? (uint64_t)layout->n_heads * layout->row_bytes : layout->row_bytes;
    layout->head_stride = is_nhd ? layout->row_bytes
                                 : (uint64_t)layout->tokens_per_block * layout->row_bytes;
    layout->kv_stride = plane;
    layout->block_stride = plane * layout->kv_factor;
}

/* Returns the distance between layers. */
static uint64_t set_strides(struct kvf_layout *layout, enum ref_kind kind)
{
    const uint64_t row = layout->row_bytes, B = layout->tokens_per_block;
    const uint64_t H = layout->n_heads, K = layout->kv_factor, L = layout->n_layers;

    set_whole(layout, kind == REF_WHOLE_NHD || kind == REF_LAYER_NHD);
    switch (kind) {
    case REF_WHOLE_HND:
    case REF_WHOLE_NHD: {
        const uint64_t layer = layout->block_stride;
        layout->block_stride = layer * L;
        return layer;
    }
    case REF_LAYER_NHD:
        layout->block_stride = layout->kv_stride;
        layout->kv_stride = layout->block_stride * layout->n_blocks;
        return layout->kv_stride * K + GAP_BYTES;
    case REF_PACKED:
        layout->kv_stride = row;
        layout->token_stride = row * K;
        layout->head_stride = layout->token_stride * B;
        layout->block_stride = layout->head_stride * H;
        return layout->block_stride * layout->n_blocks;
    case REF_HEADS_OUTSIDE:
        layout->token_stride = row;
        layout->kv_stride = row * B;
        layout->head_stride = layout->kv_stride * K * L;
        layout->block_stride = layout->head_stride * H;
        return layout->kv_stride * K;
    case REF_LAYER_HND:
    case REF_LAYER_SHUFFLED:
    case REF_KINDS:
        break;
    }
    return layout->block_stride * layout->n_blocks + GAP_BYTES;
}

static void shuffle_offsets(struct kvf_rng *rng, uint64_t *offsets, uint32_t n)
{
    for (uint32_t i = n; i > 1; i--) {
        const uint64_t j = kvf_rng_below(rng, i);
        const uint64_t swapped = offsets[i - 1];
        offsets[i - 1] = offsets[j];
        offsets[j] = swapped;
    }
}

static void choose_blocks(struct kvf_rng *rng, uint32_t *blocks, uint32_t n,
                          uint32_t n_pool)
{
    const bool is_in_order = kvf_rng_below(rng, 3) == 0;
    uint32_t *all = kvf_alloc_array(n_pool, sizeof(*all));

    for (uint32_t i = 0; i < n_pool; i++) {
        all[i] = i;
    }
    for (uint32_t i = 0; i < n && !is_in_order; i++) {
        const uint32_t j = i + (uint32_t)kvf_rng_below(rng, n_pool - i);
        const uint32_t swapped = all[i];
        all[i] = all[j];
        all[j] = swapped;
    }
    memcpy(blocks, all, n * sizeof(*all));
    kvf_free(all);
}

void ref_pool_init(struct ref_pool *pool, struct kvf_rng *rng, enum ref_kind kind,
                   const struct ref_shape *shape, uint32_t n_blocks)
{
    *pool = (struct ref_pool){
        .layout = {.size = sizeof(pool->layout),
                   .n_layers = shape->n_layers,
                   .kv_factor = shape->kv_factor,
                   .n_heads = shape->n_heads,
                   .tokens_per_block = shape->tokens_per_block,
                   .row_bytes = shape->row_bytes,
                   .n_blocks = shape->n_blocks,
                   .dtype = KVF_DTYPE_BF16},
    };
    const uint64_t step = set_strides(&pool->layout, kind);
    const uint64_t start = kvf_rng_below(rng, 2) * GAP_BYTES;
    pool->layer_offsets = kvf_alloc_array(shape->n_layers, sizeof(uint64_t));
    for (uint32_t i = 0; i < shape->n_layers; i++) {
        pool->layer_offsets[i] = start + i * step;
    }
    if (kind == REF_LAYER_SHUFFLED) {
        shuffle_offsets(rng, pool->layer_offsets, shape->n_layers);
    }
    pool->layout.layer_offsets = pool->layer_offsets;
    pool->n_bytes = (uint64_t)shape->n_layers * shape->kv_factor * shape->n_heads *
                        shape->tokens_per_block * shape->row_bytes * shape->n_blocks +
                    (shape->n_layers + 1) * GAP_BYTES;
    pool->bytes = kvf_alloc(pool->n_bytes);
    memset(pool->bytes, REF_POISON, pool->n_bytes);
    pool->blocks = kvf_alloc_array(n_blocks + 1, sizeof(uint32_t));
    choose_blocks(rng, pool->blocks, n_blocks, shape->n_blocks);
    pool->shard = (struct kvf_shard){.layout = &pool->layout,
                                     .cp_size = 1,
                                     .blocks = pool->blocks,
                                     .n_blocks = n_blocks};
}

void ref_pool_fini(struct ref_pool *pool)
{
    kvf_free(pool->layer_offsets);
    kvf_free(pool->blocks);
    kvf_free(pool->bytes);
}

uint64_t ref_row(const struct ref_pool *pool, uint32_t layer, uint32_t plane,
                 uint32_t head, uint32_t token)
{
    const struct kvf_layout *layout = &pool->layout;
    const struct kvf_shard *shard = &pool->shard;
    const uint32_t block = token / layout->tokens_per_block;

    if (layer < shard->layer_first || layer - shard->layer_first >= layout->n_layers ||
        head < shard->head_first || head - shard->head_first >= layout->n_heads ||
        block % shard->cp_size != shard->cp_rank) {
        return UINT64_MAX;
    }
    assert(block / shard->cp_size < shard->n_blocks);
    return layout->layer_offsets[layer - shard->layer_first] + plane * layout->kv_stride +
           pool->blocks[block / shard->cp_size] * layout->block_stride +
           (head - shard->head_first) * layout->head_stride +
           token % layout->tokens_per_block * layout->token_stride;
}

uint8_t ref_value(uint32_t layer, uint32_t plane, uint32_t head, uint32_t token,
                  uint32_t byte)
{
    const uint32_t mixed = (layer * 2 + plane) * 0x9e3779b1u + head * 0x85ebca6bu +
                           token * 0xc2b2ae35u + byte * 0x27d4eb2fu;
    return (uint8_t)(mixed >> 24);
}

void ref_pool_fill(struct ref_pool *pool, uint32_t n_tokens)
{
    const struct kvf_layout *layout = &pool->layout;

    for (uint32_t l = 0; l < layout->n_layers; l++) {
        for (uint32_t i = 0; i < layout->kv_factor * layout->n_heads * n_tokens; i++) {
            const uint32_t layer = l + pool->shard.layer_first;
            const uint32_t token = i % n_tokens;
            const uint32_t head = i / n_tokens % layout->n_heads + pool->shard.head_first;
            const uint32_t plane = i / n_tokens / layout->n_heads;
            const uint64_t at = ref_row(pool, layer, plane, head, token);
            for (uint32_t b = 0; at != UINT64_MAX && b < layout->row_bytes; b++) {
                pool->bytes[at + b] = ref_value(layer, plane, head, token, b);
            }
        }
    }
}

static uint64_t copy_layer(const struct ref_pool *src, struct ref_pool *dst,
                           const struct kvf_plan_range *range, uint32_t layer)
{
    uint64_t n_bytes = 0;

    for (uint32_t plane = 0; plane < src->layout.kv_factor; plane++) {
        for (uint32_t h = 0; h < src->layout.n_heads; h++) {
            for (uint32_t t = 0; t < range->n_tokens; t++) {
                const uint32_t head = src->shard.head_first + h;
                const uint32_t token = range->token_first + t;
                const uint64_t from = ref_row(src, layer, plane, head, token);
                const uint64_t to = ref_row(dst, layer, plane, head, token);
                if (from != UINT64_MAX && to != UINT64_MAX) {
                    memcpy(dst->bytes + to, src->bytes + from, src->layout.row_bytes);
                    n_bytes += src->layout.row_bytes;
                }
            }
        }
    }
    return n_bytes;
}

uint64_t ref_copy(const struct ref_pool *src, struct ref_pool *dst,
                  const struct kvf_plan_range *range)
{
    uint64_t n_bytes = 0;

    for (uint32_t l = 0; l < range->n_layers; l++) {
        n_bytes += copy_layer(src, dst, range, range->layer_first + l);
    }
    return n_bytes;
}
