/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan: which bytes of a sender's pool become which bytes of a receiver's pool, as a
 * loop nest over (layer, block cell, plane, head, token, byte) with a stride per side.
 * Pure arithmetic, any thread, no allocation: a plan is a fixed-size struct and borrows
 * layouts and block tables.
 *
 * The plan also fixes the *stream*: the order in which the bytes cross a wire. It follows
 * the sender's memory: loops farther apart than the sender's blocks go around the cells,
 * everything else lies within a cell, both by falling sender stride. So (segment, offset,
 * length) names the same bytes on both sides and a transfer can stop and go on at any
 * offset. The order depends on layouts, shards and range, never on a block table.
 *
 * A cell is the widest step of a regular token grid whose every step lies within one
 * block on both sides: the greatest common divisor of the two block sizes, which is the
 * smaller one when they divide. Only the first and last cell of a range can be partial.
 */
#ifndef KVF_PLAN_PLAN_H
#define KVF_PLAN_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include <kvferry/layout.h>
#include <kvferry/status.h>

#define KVF_PLAN_DIMS       4    /* layer, plane, head, token; cell and byte are apart */
#define KVF_PLAN_LAYERS_MAX 4096 /* of one layout */

/* One rank's part of one pool group, in global coordinates. */
struct kvf_shard {
    const struct kvf_layout *layout; /* borrowed for the plan's life */
    uint32_t layer_first;            /* global index of the layout's layer 0 */
    uint32_t head_first;             /* global index of the layout's head 0 */
    uint32_t cp_size, cp_rank; /* block g of the sequence is here iff g % size == rank */
    /* blocks[i] holds the rank's i-th block of the sequence; NULL when this side's table
     * is not known here (the remote one). */
    const uint32_t *blocks;
    uint32_t n_blocks;
};

/* The tokens and layers to move, global. */
struct kvf_plan_range {
    uint32_t token_first, n_tokens;
    uint32_t layer_first, n_layers;
};

/* One loop of the nest. Strides are in bytes and wrap around: only those of a side whose
 * table is known are ever followed. A by_layer loop looks layer_offsets up instead. */
struct kvf_plan_level {
    uint64_t src_stride, dst_stride;
    uint32_t count;
    bool is_by_layer;
};

/* The loops within one cell, after merging what is contiguous on every known side. The
 * innermost body is one run of run_bytes. */
struct kvf_plan_shape {
    uint64_t n_bytes; /* of the cell */
    uint64_t run_bytes;
    uint64_t src_last, dst_last; /* from the cell's first byte to the last run's */
    uint32_t n_runs;             /* after merging */
    uint32_t n_levels;
    struct kvf_plan_level levels[KVF_PLAN_DIMS];
};

/* Which steps of the token grid are on this pair of ranks: `length` steps in a row, again
 * every `period` steps. Without context parallelism 1 of 1 from 0. */
struct kvf_plan_comb {
    uint64_t first, length, period;
};

enum kvf_plan_cell { KVF_CELL_FIRST = 0, KVF_CELL_MIDDLE = 1, KVF_CELL_LAST = 2 };

/* Fields are private to plan/; read them through the calls below. */
struct kvf_plan {
    struct kvf_shard src, dst;
    struct kvf_plan_range range;
    uint32_t head_first, n_heads; /* global, intersection of the shards */
    uint64_t n_bytes;             /* of the whole stream */
    uint64_t min_run_bytes;       /* of a middle cell, before blocks are joined */
    bool is_layer_outside; /* layers are farther apart than blocks (per-layer pools) */
    uint64_t row_bytes;

    struct kvf_plan_comb comb;
    uint32_t cell_tokens; /* of a middle cell */
    uint32_t n_cells;
    uint64_t comb_first; /* index of the range's first cell among the comb's steps */

    uint32_t n_outer;      /* loops around the cells */
    uint32_t n_outer_runs; /* their counts, multiplied */
    uint64_t outer_bytes;  /* of all cells, once around */
    struct kvf_plan_level outer[KVF_PLAN_DIMS];
    struct kvf_plan_shape shapes[3]; /* by enum kvf_plan_cell */

    /* Of the first layer, plane 0 and first head of the range in block 0. */
    uint64_t src_origin, dst_origin;
};

/* A piece contiguous on every side whose block table is known. */
struct kvf_run {
    uint64_t src_offset; /* from the pool base; meaningless without src blocks */
    uint64_t dst_offset;
    uint64_t n_bytes;
};

struct kvf_plan_cursor {
    const struct kvf_plan *plan;
    uint64_t offset; /* in the stream, of the next run */
    uint64_t end;
    /* private */
    uint64_t src, dst; /* pool offsets of the current row */
    uint64_t within;   /* bytes of the row already passed */
    uint64_t outer_src, outer_dst;
    uint32_t cell;
    bool is_cell_start;
    uint32_t outer_index[KVF_PLAN_DIMS];
    uint32_t index[KVF_PLAN_DIMS];
    const struct kvf_plan_shape *shape;
};

/* Why a plan was refused, for the user: a sentence with both values. */
struct kvf_plan_refusal {
    char text[192];
};

/* Checks one layout against its pool: every address of every block inside, overflow-safe,
 * rows of different coordinates disjoint. Errors: INVALID_ARGUMENT, BAD_REF. */
enum kvf_status KVF_MUST_CHECK kvf_layout_check(const struct kvf_layout *layout,
                                                uint64_t pool_bytes,
                                                struct kvf_plan_refusal *out_refusal);

/* Checks a block table: ids within the pool, none twice when `unique`. */
enum kvf_status KVF_MUST_CHECK kvf_blocks_check(const struct kvf_layout *layout,
                                                const uint32_t *blocks, size_t n,
                                                bool unique,
                                                struct kvf_plan_refusal *out_refusal);

/* Builds the nest. Errors: LAYOUT_MISMATCH (dtype, row bytes, planes differ; heads or
 * layers do not intersect as asked), BAD_REF (a known table is too short for the range),
 * INVALID_ARGUMENT. Zero tokens are legal: an empty stream. */
enum kvf_status KVF_MUST_CHECK kvf_plan_build(const struct kvf_shard *src,
                                              const struct kvf_shard *dst,
                                              const struct kvf_plan_range *range,
                                              struct kvf_plan *out_plan,
                                              struct kvf_plan_refusal *out_refusal);

/* Length of the stream in bytes. */
uint64_t kvf_plan_bytes(const struct kvf_plan *plan);
/* Both sides compute the same value or the transfer is refused. Covers both layouts and
 * shards, the range and the order of the stream, but not the block tables. */
uint64_t kvf_plan_hash(const struct kvf_plan *plan);
/* Number of runs over the whole stream (O(cells)), as kvf_plan_next counts them without a
 * limit; bytes / runs is the mean run. */
uint64_t kvf_plan_runs(const struct kvf_plan *plan);

/* Starts at `offset`, ends after n_bytes (clipped to the stream). O(1). */
void kvf_plan_seek(const struct kvf_plan *plan, uint64_t offset, uint64_t n_bytes,
                   struct kvf_plan_cursor *out_cursor);
/* The next maximal run, at most max_bytes (>= 1) long; false at the end. Blocks that
 * continue each other on every known side are one run; loops around the cells are not
 * joined. */
bool kvf_plan_next(struct kvf_plan_cursor *cursor, uint64_t max_bytes,
                   struct kvf_run *out);

enum kvf_plan_end { KVF_PLAN_SRC = 0, KVF_PLAN_DST = 1 };
/* Memory pieces of one side, whose table is known, for stream bytes [offset, offset +
 * n_bytes), against `base`; neighbours in memory are one piece.
 * Stops when max pieces are filled; *out_bytes says how far it came. Returns pieces used.
 */
size_t kvf_plan_pieces(const struct kvf_plan *plan, enum kvf_plan_end end, void *base,
                       uint64_t offset, uint64_t n_bytes, struct iovec *pieces,
                       size_t max, uint64_t *out_bytes);

#endif
