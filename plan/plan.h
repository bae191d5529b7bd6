/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan: which bytes of a sender's pool become which bytes of a receiver's pool, as a
 * loop nest over (layer, block cell, plane, head, token, byte) with a stride per side.
 * Pure arithmetic, any thread, no allocation: a plan is a fixed-size struct and borrows
 * layouts and block tables.
 *
 * The plan also fixes the *stream*: the order in which the bytes cross a wire. It follows
 * the sender's memory: the loops are nested by falling sender stride, with the block cell
 * outside whatever lies within a block. So (segment, offset, length) names the same bytes
 * on both sides and a transfer can stop and go on at any offset. A cell is the largest
 * token range that lies within one block on both sides.
 */
#ifndef KVF_PLAN_PLAN_H
#define KVF_PLAN_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include <kvferry/layout.h>
#include <kvferry/status.h>

#define KVF_PLAN_DIMS 5 /* layer, plane, head, token, byte; the cell is handled apart */

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

struct kvf_plan_dim {
    uint64_t count;
    uint64_t src_stride, dst_stride;
};

/* Fields are private to plan/; read them through the calls below. */
struct kvf_plan {
    struct kvf_shard src, dst;
    struct kvf_plan_range range;
    uint32_t head_first, n_heads; /* global, intersection of the shards */
    uint64_t n_bytes;             /* of the whole stream */
    uint64_t min_run_bytes;       /* of a middle cell, before blocks are joined */
    bool is_layer_outside; /* layers are farther apart than blocks (per-layer pools) */
    /* ... the plan module may add what it needs ... */
    uint32_t cell_tokens;
    uint32_t n_cells;
    uint64_t row_bytes;
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
/* Both sides compute the same value or the transfer is refused. Covers everything but the
 * block tables. */
uint64_t kvf_plan_hash(const struct kvf_plan *plan);
/* Number of runs over the whole stream (O(cells)); bytes / runs is the mean run. */
uint64_t kvf_plan_runs(const struct kvf_plan *plan);

/* Starts at `offset`, ends after n_bytes (clipped to the stream). O(1). */
void kvf_plan_seek(const struct kvf_plan *plan, uint64_t offset, uint64_t n_bytes,
                   struct kvf_plan_cursor *out_cursor);
/* The next maximal run, at most max_bytes long; false at the end. */
bool kvf_plan_next(struct kvf_plan_cursor *cursor, uint64_t max_bytes,
                   struct kvf_run *out);

enum kvf_plan_end { KVF_PLAN_SRC = 0, KVF_PLAN_DST = 1 };
/* Memory pieces of one side for stream bytes [offset, offset + n_bytes), against `base`.
 * Stops when max pieces are filled; *out_bytes says how far it came. Returns pieces used.
 */
size_t kvf_plan_pieces(const struct kvf_plan *plan, enum kvf_plan_end end, void *base,
                       uint64_t offset, uint64_t n_bytes, struct iovec *pieces,
                       size_t max, uint64_t *out_bytes);

#endif
