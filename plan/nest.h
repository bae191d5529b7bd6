/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of plan/ share about the inside of a plan: cells, the loops around and
 * within them, and tiles for the executor. Private to plan/. Pure functions, any thread.
 */
#ifndef KVF_PLAN_NEST_H
#define KVF_PLAN_NEST_H

#include "plan/plan.h"

/* Lays the token grid over the range: comb, cell_tokens, n_cells. Expects shards and
 * range to be checked. LAYOUT_MISMATCH, BAD_REF (a known table is too short). */
enum kvf_status KVF_MUST_CHECK kvf_cells_build(struct kvf_plan *plan,
                                               struct kvf_plan_refusal *out_refusal);
/* Tokens of cell 0 .. n_cells-1, global, clipped to the range. */
void kvf_cell_tokens(const struct kvf_plan *plan, uint32_t cell, uint64_t *out_first,
                     uint64_t *out_end);
/* Pool offset of the cell's first byte without the loops around it; 0 on a side whose
 * table is not known. */
void kvf_cell_place(const struct kvf_plan *plan, uint32_t cell, uint64_t *out_src,
                    uint64_t *out_dst);

/* Step i of a loop, from its step 0, on both sides. */
static inline void kvf_level_offset(const struct kvf_plan *plan,
                                    const struct kvf_plan_level *level, uint64_t i,
                                    uint64_t *out_src, uint64_t *out_dst)
{
    if (!level->is_by_layer) {
        *out_src = i * level->src_stride;
        *out_dst = i * level->dst_stride;
        return;
    }
    const uint32_t layer = plan->range.layer_first;
    const uint64_t *src =
        plan->src.layout->layer_offsets + (layer - plan->src.layer_first);
    const uint64_t *dst =
        plan->dst.layout->layer_offsets + (layer - plan->dst.layer_first);
    *out_src = src[i] - src[0]; /* wraps for layers that go down in memory */
    *out_dst = dst[i] - dst[0];
}

static inline const struct kvf_plan_shape *kvf_cell_shape(const struct kvf_plan *plan,
                                                          uint32_t cell)
{
    if (cell == 0) {
        return &plan->shapes[KVF_CELL_FIRST];
    }
    return &plan->shapes[cell + 1 < plan->n_cells ? KVF_CELL_MIDDLE : KVF_CELL_LAST];
}

/* Rows that follow each other in the stream and are evenly spaced on each side: n_lines
 * times n_rows times row_bytes. */
struct kvf_tile {
    uint64_t src_offset, dst_offset;
    uint64_t row_bytes;
    uint32_t n_rows, n_lines;
    uint64_t src_row, dst_row;   /* strides from row to row */
    uint64_t src_line, dst_line; /* and from line to line */
};

/* Like kvf_plan_next, but up to two inner loops at once and no joining of blocks. At most
 * max_bytes (>= 1). The cursor is already on what follows: src and dst there are worth a
 * prefetch. */
bool kvf_cursor_tile(struct kvf_plan_cursor *cursor, uint64_t max_bytes,
                     struct kvf_tile *out);

#endif
