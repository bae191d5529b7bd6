/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks of what an engine declares about its memory, done once per pool and once per
 * block table, so that nothing later has to look whether an address is inside the pool.
 *
 * Rows are proved disjoint by nesting: sorted by stride, each loop must step over the
 * whole extent of the loops within it. That is sufficient, not necessary; a layout that
 * is disjoint by luck of its numbers is refused, and no engine is known to have one.
 * Pure functions, any thread, no allocation.
 */
#include <inttypes.h>

#include "base/alloc.h"
#include "plan/refusal.h"

/* Blocks seen are marked in a window of this many ids: 32 KiB of stack, one pass for
 * nearly every pool. */
#define WINDOW_BLOCKS 262144u
#define WORD_BITS     64u

struct loop {
    const char *name;
    uint64_t stride; /* layers: the smallest distance between two of them */
    uint64_t span;   /* from the first to the last */
    uint32_t count;
};

enum { LOOP_LAYER, LOOP_BLOCK, LOOP_PLANE, LOOP_HEAD, LOOP_TOKEN, N_LOOPS };

static enum kvf_status check_counts(const struct kvf_layout *layout,
                                    struct kvf_plan_refusal *out_refusal)
{
    if (layout->size < sizeof(*layout)) {
        return kvf_refuse(out_refusal, KVF_INVALID_ARGUMENT,
                          "layout size is %u, this library expects %zu", layout->size,
                          sizeof(*layout));
    }
    if (layout->n_layers == 0 || layout->n_layers > KVF_PLAN_LAYERS_MAX) {
        return kvf_refuse(out_refusal, KVF_INVALID_ARGUMENT,
                          "layout has %u layers, allowed are 1 to %u", layout->n_layers,
                          KVF_PLAN_LAYERS_MAX);
    }
    if (layout->layer_offsets == NULL) {
        return kvf_refuse(out_refusal, KVF_INVALID_ARGUMENT,
                          "layout has no layer offsets");
    }
    if (layout->kv_factor != 1 && layout->kv_factor != 2) {
        return kvf_refuse(out_refusal, KVF_INVALID_ARGUMENT,
                          "kv factor is %u, allowed are 1 and 2", layout->kv_factor);
    }
    if (layout->n_heads == 0 || layout->tokens_per_block == 0 || layout->row_bytes == 0 ||
        layout->n_blocks == 0) {
        return kvf_refuse(out_refusal, KVF_INVALID_ARGUMENT,
                          "layout has a zero count: %u heads, %u tokens per block, %u "
                          "bytes per row, %u blocks",
                          layout->n_heads, layout->tokens_per_block, layout->row_bytes,
                          layout->n_blocks);
    }
    if (layout->dtype > KVF_DTYPE_FP4) {
        return kvf_refuse(out_refusal, KVF_INVALID_ARGUMENT,
                          "data type %u is unknown, the last known is %d", layout->dtype,
                          KVF_DTYPE_FP4);
    }
    return KVF_OK;
}

static uint64_t distance(uint64_t a, uint64_t b)
{
    return a > b ? a - b : b - a;
}

/* Quadratic for layers in no order, which at KVF_PLAN_LAYERS_MAX is a few milliseconds
 * once per pool; linear for layers in rising order. */
static void measure_layers(const struct kvf_layout *layout, struct loop *out)
{
    const uint64_t *offsets = layout->layer_offsets;
    const uint32_t n = layout->n_layers;
    uint64_t lowest = offsets[0], highest = offsets[0], gap = UINT64_MAX;
    bool is_rising = true;

    for (uint32_t i = 1; i < n; i++) {
        is_rising = is_rising && offsets[i] > offsets[i - 1];
        lowest = offsets[i] < lowest ? offsets[i] : lowest;
        highest = offsets[i] > highest ? offsets[i] : highest;
    }
    for (uint32_t i = 1; i < n; i++) {
        for (uint32_t j = is_rising ? i - 1 : 0; j < i; j++) {
            const uint64_t apart = distance(offsets[i], offsets[j]);
            gap = apart < gap ? apart : gap;
        }
    }
    *out = (struct loop){
        .name = "layer", .stride = gap, .span = highest - lowest, .count = n};
}

static enum kvf_status measure_loops(const struct kvf_layout *layout,
                                     struct loop loops[N_LOOPS],
                                     struct kvf_plan_refusal *out_refusal)
{
    measure_layers(layout, &loops[LOOP_LAYER]);
    loops[LOOP_BLOCK] = (struct loop){
        .name = "block", .stride = layout->block_stride, .count = layout->n_blocks};
    loops[LOOP_PLANE] = (struct loop){
        .name = "kv", .stride = layout->kv_stride, .count = layout->kv_factor};
    loops[LOOP_HEAD] = (struct loop){
        .name = "head", .stride = layout->head_stride, .count = layout->n_heads};
    loops[LOOP_TOKEN] = (struct loop){.name = "token",
                                      .stride = layout->token_stride,
                                      .count = layout->tokens_per_block};
    for (int i = LOOP_BLOCK; i < N_LOOPS; i++) {
        if (!kvf_size_mul(loops[i].count - 1u, loops[i].stride, &loops[i].span)) {
            return kvf_refuse(out_refusal, KVF_BAD_REF,
                              "%s stride %" PRIu64 " times %u is beyond any address",
                              loops[i].name, loops[i].stride, loops[i].count);
        }
    }
    return KVF_OK;
}

static enum kvf_status check_inside(const struct kvf_layout *layout,
                                    const struct loop loops[N_LOOPS], uint64_t pool_bytes,
                                    struct kvf_plan_refusal *out_refusal)
{
    uint64_t end = 0;

    for (uint32_t i = 0; i < layout->n_layers; i++) {
        end = layout->layer_offsets[i] > end ? layout->layer_offsets[i] : end;
    }
    bool fits = kvf_size_add(end, layout->row_bytes, &end);
    for (int i = LOOP_BLOCK; i < N_LOOPS; i++) {
        fits = fits && kvf_size_add(end, loops[i].span, &end);
    }
    if (!fits) {
        return kvf_refuse(out_refusal, KVF_BAD_REF,
                          "the layout's last row is beyond any address, the pool has "
                          "%" PRIu64 " bytes",
                          pool_bytes);
    }
    if (end > pool_bytes) {
        return kvf_refuse(out_refusal, KVF_BAD_REF,
                          "the layout ends at byte %" PRIu64 ", the pool has %" PRIu64
                          " bytes",
                          end, pool_bytes);
    }
    return KVF_OK;
}

/* Call after check_inside(): the sums cannot overflow then. Sorts loops. */
static enum kvf_status check_disjoint(struct loop loops[N_LOOPS], uint32_t row_bytes,
                                      struct kvf_plan_refusal *out_refusal)
{
    for (int i = 1; i < N_LOOPS; i++) {
        for (int j = i; j > 0 && loops[j].stride < loops[j - 1].stride; j--) {
            const struct loop swapped = loops[j];
            loops[j] = loops[j - 1];
            loops[j - 1] = swapped;
        }
    }
    uint64_t extent = row_bytes;
    for (int i = 0; i < N_LOOPS; i++) {
        if (loops[i].count == 1) {
            continue; /* its stride is never taken */
        }
        if (loops[i].stride < extent) {
            return kvf_refuse(out_refusal, KVF_INVALID_ARGUMENT,
                              "%s stride %" PRIu64 " is less than the %" PRIu64
                              " bytes that lie within it: rows would overlap",
                              loops[i].name, loops[i].stride, extent);
        }
        extent += loops[i].span;
    }
    return KVF_OK;
}

enum kvf_status kvf_layout_check(const struct kvf_layout *layout, uint64_t pool_bytes,
                                 struct kvf_plan_refusal *out_refusal)
{
    struct loop loops[N_LOOPS];
    enum kvf_status status = check_counts(layout, out_refusal);

    if (status == KVF_OK) {
        status = measure_loops(layout, loops, out_refusal);
    }
    if (status == KVF_OK) {
        status = check_inside(layout, loops, pool_bytes, out_refusal);
    }
    if (status == KVF_OK) {
        status = check_disjoint(loops, layout->row_bytes, out_refusal);
    }
    return status;
}

/* Finds an id that stands twice among those of [first, first + WINDOW_BLOCKS). */
static bool find_twin(const uint32_t *blocks, size_t n, uint32_t first, size_t *out_index)
{
    uint64_t seen[WINDOW_BLOCKS / WORD_BITS] = {0};

    for (size_t i = 0; i < n; i++) {
        const uint32_t at = blocks[i] - first; /* wraps to a large value below first */
        if (at >= WINDOW_BLOCKS) {
            continue;
        }
        const uint64_t bit = UINT64_C(1) << (at % WORD_BITS);
        if (seen[at / WORD_BITS] & bit) {
            *out_index = i;
            return true;
        }
        seen[at / WORD_BITS] |= bit;
    }
    return false;
}

enum kvf_status kvf_blocks_check(const struct kvf_layout *layout, const uint32_t *blocks,
                                 size_t n, bool unique,
                                 struct kvf_plan_refusal *out_refusal)
{
    uint32_t lowest = UINT32_MAX, highest = 0;

    for (size_t i = 0; i < n; i++) {
        if (blocks[i] >= layout->n_blocks) {
            return kvf_refuse(out_refusal, KVF_BAD_REF,
                              "entry %zu of the block table is block %u, the pool has %u",
                              i, blocks[i], layout->n_blocks);
        }
        lowest = blocks[i] < lowest ? blocks[i] : lowest;
        highest = blocks[i] > highest ? blocks[i] : highest;
    }
    if (!unique) {
        return KVF_OK;
    }
    for (uint64_t first = lowest; first <= highest; first += WINDOW_BLOCKS) {
        size_t index;
        if (find_twin(blocks, n, (uint32_t)first, &index)) {
            return kvf_refuse(out_refusal, KVF_BAD_REF,
                              "block %u stands twice in the block table, again at entry "
                              "%zu",
                              blocks[index], index);
        }
    }
    return KVF_OK;
}
