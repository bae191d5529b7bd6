/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks a plan: runs for whoever wants addresses, tiles for the executor, memory pieces
 * for a transport. A seek is a handful of divisions; after it the cursor keeps one index
 * per loop and adds strides. Every call leaves the cursor on a row that exists, so block
 * tables are never read past their end.
 * Pure functions, any thread; a cursor belongs to its caller.
 */
#include <assert.h>

#include "plan/nest.h"

static void locate_outer(struct kvf_plan_cursor *cursor)
{
    const struct kvf_plan *plan = cursor->plan;

    cursor->outer_src = 0;
    cursor->outer_dst = 0;
    for (uint32_t i = 0; i < plan->n_outer; i++) {
        uint64_t src, dst;
        kvf_level_offset(plan, &plan->outer[i], cursor->outer_index[i], &src, &dst);
        cursor->outer_src += src;
        cursor->outer_dst += dst;
    }
}

/* On the first row of cell cursor->cell. */
static void enter_cell(struct kvf_plan_cursor *cursor)
{
    cursor->shape = kvf_cell_shape(cursor->plan, cursor->cell);
    kvf_cell_place(cursor->plan, cursor->cell, &cursor->src, &cursor->dst);
    cursor->src += cursor->outer_src;
    cursor->dst += cursor->outer_dst;
    cursor->is_cell_start = true;
}

static void next_outer(struct kvf_plan_cursor *cursor)
{
    for (uint32_t i = cursor->plan->n_outer; i-- > 0;) {
        if (++cursor->outer_index[i] < cursor->plan->outer[i].count) {
            break;
        }
        cursor->outer_index[i] = 0;
    }
    locate_outer(cursor);
}

static void next_cell(struct kvf_plan_cursor *cursor)
{
    cursor->cell++;
    if (cursor->cell == cursor->plan->n_cells) {
        cursor->cell = 0;
        next_outer(cursor);
    }
    enter_cell(cursor);
    /* Only neighbours within one round may be joined. */
    cursor->is_cell_start = cursor->cell > 0;
}

/* Moves n steps on in the innermost but `depth` loop, at most to its end. The loops
 * within it are at their start. */
static void skip(struct kvf_plan_cursor *cursor, uint32_t depth, uint32_t n)
{
    const struct kvf_plan_shape *shape = cursor->shape;

    cursor->is_cell_start = false;
    for (uint32_t i = shape->n_levels - depth; i-- > 0;) {
        const struct kvf_plan_level *level = &shape->levels[i];
        const uint32_t from = cursor->index[i];
        const uint32_t to = from + n < level->count ? from + n : 0;
        uint64_t src_from, dst_from, src_to, dst_to;

        kvf_level_offset(cursor->plan, level, from, &src_from, &dst_from);
        kvf_level_offset(cursor->plan, level, to, &src_to, &dst_to);
        cursor->src += src_to - src_from;
        cursor->dst += dst_to - dst_from;
        cursor->index[i] = to;
        if (to != 0) {
            return;
        }
        n = 1;
    }
    next_cell(cursor);
}

/* Passes n_bytes, which go at most to the end of the current row. */
static void pass(struct kvf_plan_cursor *cursor, uint64_t n_bytes)
{
    cursor->offset += n_bytes;
    cursor->within += n_bytes;
    if (cursor->within == cursor->shape->run_bytes) {
        cursor->within = 0;
        if (cursor->offset < cursor->plan->n_bytes) {
            skip(cursor, 0, 1);
        }
    }
}

static void seek_cell(struct kvf_plan_cursor *cursor, uint64_t rest)
{
    const struct kvf_plan *plan = cursor->plan;
    const uint64_t first_bytes = plan->shapes[KVF_CELL_FIRST].n_bytes;

    if (rest >= first_bytes) {
        const uint64_t middle_bytes = plan->shapes[KVF_CELL_MIDDLE].n_bytes;
        rest -= first_bytes;
        cursor->cell = 1 + (uint32_t)(rest / middle_bytes);
        rest %= middle_bytes;
    }
    enter_cell(cursor);

    const struct kvf_plan_shape *shape = cursor->shape;
    uint64_t row = rest / shape->run_bytes;
    cursor->within = rest % shape->run_bytes;
    for (uint32_t i = shape->n_levels; i-- > 0;) {
        uint64_t src, dst;
        cursor->index[i] = (uint32_t)(row % shape->levels[i].count);
        row /= shape->levels[i].count;
        kvf_level_offset(plan, &shape->levels[i], cursor->index[i], &src, &dst);
        cursor->src += src;
        cursor->dst += dst;
    }
}

void kvf_plan_seek(const struct kvf_plan *plan, uint64_t offset, uint64_t n_bytes,
                   struct kvf_plan_cursor *out_cursor)
{
    offset = offset < plan->n_bytes ? offset : plan->n_bytes;
    n_bytes = n_bytes < plan->n_bytes - offset ? n_bytes : plan->n_bytes - offset;
    *out_cursor =
        (struct kvf_plan_cursor){.plan = plan, .offset = offset, .end = offset + n_bytes};
    if (n_bytes == 0) {
        return;
    }
    uint64_t round = offset / plan->outer_bytes;
    for (uint32_t i = plan->n_outer; i-- > 0;) {
        out_cursor->outer_index[i] = (uint32_t)(round % plan->outer[i].count);
        round /= plan->outer[i].count;
    }
    locate_outer(out_cursor);
    seek_cell(out_cursor, offset % plan->outer_bytes);
}

/* Whether the cursor's row begins where memory offsets src and dst are, as far as the
 * tables are known. */
static bool continues(const struct kvf_plan_cursor *cursor, uint64_t src, uint64_t dst)
{
    return (cursor->plan->src.blocks == NULL || cursor->src == src) &&
           (cursor->plan->dst.blocks == NULL || cursor->dst == dst);
}

bool kvf_plan_next(struct kvf_plan_cursor *cursor, uint64_t max_bytes,
                   struct kvf_run *out)
{
    if (cursor->offset >= cursor->end) {
        return false;
    }
    struct kvf_run run = {.src_offset = cursor->src + cursor->within,
                          .dst_offset = cursor->dst + cursor->within};
    do {
        uint64_t n = cursor->shape->run_bytes - cursor->within;
        n = n < cursor->end - cursor->offset ? n : cursor->end - cursor->offset;
        n = n < max_bytes - run.n_bytes ? n : max_bytes - run.n_bytes;
        pass(cursor, n);
        run.n_bytes += n;
    } while (
        run.n_bytes < max_bytes && cursor->offset < cursor->end &&
        cursor->is_cell_start &&
        continues(cursor, run.src_offset + run.n_bytes, run.dst_offset + run.n_bytes));
    *out = run;
    return true;
}

static uint32_t steps_left(const struct kvf_plan_cursor *cursor, uint32_t level,
                           uint64_t limit)
{
    const uint64_t left = cursor->shape->levels[level].count - cursor->index[level];

    return (uint32_t)(left < limit ? left : limit);
}

/* Widens a tile of one row to what fits n_bytes; the cursor is at the row's start.
 * Returns the depth of the loop that the tile steps through. */
static uint32_t widen(const struct kvf_plan_cursor *cursor, uint64_t n_bytes,
                      struct kvf_tile *tile)
{
    const struct kvf_plan_shape *shape = cursor->shape;
    const uint32_t inner = shape->n_levels - 1;
    const struct kvf_plan_level *rows = &shape->levels[inner];
    const struct kvf_plan_level *lines = rows - 1;

    if (rows->is_by_layer) {
        return 0;
    }
    tile->n_rows = steps_left(cursor, inner, n_bytes / tile->row_bytes);
    tile->src_row = rows->src_stride;
    tile->dst_row = rows->dst_stride;
    if (inner == 0 || tile->n_rows < rows->count || lines->is_by_layer) {
        return 0;
    }
    tile->n_lines =
        steps_left(cursor, inner - 1, n_bytes / (tile->row_bytes * rows->count));
    tile->src_line = lines->src_stride;
    tile->dst_line = lines->dst_stride;
    return 1;
}

bool kvf_cursor_tile(struct kvf_plan_cursor *cursor, uint64_t max_bytes,
                     struct kvf_tile *out)
{
    const struct kvf_plan_shape *shape = cursor->shape;
    uint64_t left = cursor->end - cursor->offset;

    if (left == 0) {
        return false;
    }
    left = left < max_bytes ? left : max_bytes;
    *out = (struct kvf_tile){.src_offset = cursor->src + cursor->within,
                             .dst_offset = cursor->dst + cursor->within,
                             .row_bytes = shape->run_bytes - cursor->within,
                             .n_rows = 1,
                             .n_lines = 1};
    if (cursor->within > 0 || left <= shape->run_bytes || shape->n_levels == 0) {
        out->row_bytes = left < out->row_bytes ? left : out->row_bytes;
        pass(cursor, out->row_bytes);
        return true;
    }
    const uint32_t depth = widen(cursor, left, out);
    cursor->offset += out->row_bytes * out->n_rows * out->n_lines;
    if (cursor->offset < cursor->plan->n_bytes) {
        skip(cursor, depth, depth == 0 ? out->n_rows : out->n_lines);
    }
    return true;
}

uint64_t kvf_plan_runs(const struct kvf_plan *plan)
{
    struct kvf_plan_cursor cursor = {.plan = plan};
    uint64_t n_runs = 0, src_end = 0, dst_end = 0;

    for (; cursor.cell < plan->n_cells; cursor.cell++) {
        enter_cell(&cursor);
        n_runs += cursor.shape->n_runs;
        if (cursor.cell > 0 && continues(&cursor, src_end, dst_end)) {
            n_runs--;
        }
        src_end = cursor.src + cursor.shape->src_last + cursor.shape->run_bytes;
        dst_end = cursor.dst + cursor.shape->dst_last + cursor.shape->run_bytes;
    }
    return n_runs * plan->n_outer_runs;
}

/* NOLINTNEXTLINE(readability-function-size): an interval of a plan, and an array */
size_t kvf_plan_pieces(const struct kvf_plan *plan, enum kvf_plan_end end, void *base,
                       uint64_t offset, uint64_t n_bytes, struct iovec *pieces,
                       size_t max, uint64_t *out_bytes)
{
    struct kvf_plan_cursor cursor;
    struct kvf_run run;
    uint64_t expected = 0;
    size_t n = 0;

    kvf_plan_seek(plan, offset, n_bytes, &cursor);
    const uint64_t start = cursor.offset;
    uint64_t done = 0;
    assert(cursor.end == start ||
           (end == KVF_PLAN_SRC ? plan->src.blocks : plan->dst.blocks) != NULL);
    while (kvf_plan_next(&cursor, UINT64_MAX, &run)) {
        const uint64_t at = end == KVF_PLAN_SRC ? run.src_offset : run.dst_offset;
        if (n > 0 && at == expected) {
            pieces[n - 1].iov_len += run.n_bytes;
        } else if (n < max) {
            pieces[n].iov_base = (char *)base + at;
            pieces[n].iov_len = run.n_bytes;
            n++;
        } else {
            break;
        }
        expected = at + run.n_bytes;
        done = cursor.offset - start;
    }
    *out_bytes = done;
    return n;
}
