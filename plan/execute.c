/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host executor: tiles of a plan turned into loads and stores. Copy, gather and
 * scatter are one loop that differs in where the two sides of a tile are; a slot is a
 * side whose rows follow each other. Rows of up to TINY_BYTES have their own loops,
 * because a call per row costs more than the row. Any thread; touches only the bytes of
 * the plan.
 */
#include "plan/execute.h"

#include <assert.h>
#include <string.h>

#include "base/crc.h"
#include "plan/bypass.h"
#include "plan/nest.h"

#define TINY_BYTES     256u
#define TILE_BYTES     65536u /* copied, then digested while still in the cache */
#define TURN_BYTES     32u
#define BYPASS_BYTES   1024u /* rows that bypass the cache whatever their alignment */
#define PREFETCH_LINES 4u
#define LINE_BYTES     64u

/* A slot begins with the first byte of the pass and is digested instead of the pool: its
 * bytes do not change behind our back. */
struct pass {
    const char *src;
    char *dst;
    bool is_src_slot, is_dst_slot;
};

/* One side of a line of rows. */
struct side {
    char *at;
    uint64_t stride;
};
struct const_side {
    const char *at;
    uint64_t stride;
};

/* The constant row size after inlining is the point: no call, no branch on length. */
static inline __attribute__((always_inline)) void
copy_fixed(struct side dst, struct const_side src, size_t row_bytes, uint32_t n_rows)
{
    for (uint32_t i = 0; i < n_rows; i++) {
        memcpy(dst.at, src.at, row_bytes);
        dst.at += dst.stride;
        src.at += src.stride;
    }
}

/* Any size from 16 bytes on: whole 16-byte words, the last one overlapping. */
static void copy_words(struct side dst, struct const_side src, size_t row_bytes,
                       uint32_t n_rows)
{
    for (uint32_t i = 0; i < n_rows; i++) {
        for (size_t at = 0; at + 16 < row_bytes; at += 16) {
            memcpy(dst.at + at, src.at + at, 16);
        }
        memcpy(dst.at + row_bytes - 16, src.at + row_bytes - 16, 16);
        dst.at += dst.stride;
        src.at += src.stride;
    }
}

static void copy_tiny(struct side dst, struct const_side src, size_t row_bytes,
                      uint32_t n_rows)
{
    switch (row_bytes) {
    case 2:
        copy_fixed(dst, src, 2, n_rows);
        return;
    case 4:
        copy_fixed(dst, src, 4, n_rows);
        return;
    case 8:
        copy_fixed(dst, src, 8, n_rows);
        return;
    case 16:
        copy_fixed(dst, src, 16, n_rows);
        return;
    case 32:
        copy_fixed(dst, src, 32, n_rows);
        return;
    case 64:
        copy_fixed(dst, src, 64, n_rows);
        return;
    case 128:
        copy_fixed(dst, src, 128, n_rows);
        return;
    case 256:
        copy_fixed(dst, src, 256, n_rows);
        return;
    default:
        break;
    }
    if (row_bytes >= 16) {
        copy_words(dst, src, row_bytes, n_rows);
    } else {
        copy_fixed(dst, src, row_bytes, n_rows);
    }
}

static void copy_rows(struct side dst, struct const_side src, uint64_t row_bytes,
                      uint32_t n_rows, bool is_bypass)
{
    if (is_bypass) {
        for (uint32_t i = 0; i < n_rows; i++) {
            kvf_bypass_copy(dst.at + i * dst.stride, src.at + i * src.stride, row_bytes);
        }
        return;
    }
    if (row_bytes <= TINY_BYTES) {
        copy_tiny(dst, src, row_bytes, n_rows);
        return;
    }
    for (uint32_t i = 0; i < n_rows; i++) {
        memcpy(dst.at + i * dst.stride, src.at + i * src.stride, row_bytes);
    }
}

/* Whether stores go past the cache. Never into a slot: it is sent or read at once. Short
 * rows only in whole lines, and from a source that is warm or read in order; measured,
 * see bypass_sse2.c. */
static bool bypasses_cache(const char *dst, const struct kvf_tile *tile,
                           const struct pass *pass)
{
    const uint64_t odd =
        (uintptr_t)dst | tile->row_bytes | tile->dst_row | tile->dst_line;

    if (pass->is_dst_slot || tile->row_bytes >= BYPASS_BYTES) {
        return !pass->is_dst_slot;
    }
    return odd % LINE_BYTES == 0 &&
           (pass->is_src_slot || tile->src_row == tile->row_bytes);
}

/* Within a tile the order is free. Stores gain from following each other, so the loop
 * with the smaller destination stride goes inside - unless the source is cold and its
 * rows are long enough that reading it in order gains more. */
static void copy_tile(char *dst, const char *src, struct kvf_tile tile,
                      const struct pass *pass)
{
    const bool may_turn = pass->is_src_slot || tile.row_bytes <= TURN_BYTES;
    const bool is_bypass = bypasses_cache(dst, &tile, pass);

    if (may_turn && tile.n_lines > 1 && tile.dst_line < tile.dst_row) {
        const struct kvf_tile turned = tile;
        tile.n_rows = turned.n_lines;
        tile.n_lines = turned.n_rows;
        tile.src_row = turned.src_line;
        tile.src_line = turned.src_row;
        tile.dst_row = turned.dst_line;
        tile.dst_line = turned.dst_row;
    }
    for (uint32_t i = 0; i < tile.n_lines; i++) {
        const struct side to = {dst + i * tile.dst_line, tile.dst_row};
        const struct const_side from = {src + i * tile.src_line, tile.src_row};
        copy_rows(to, from, tile.row_bytes, tile.n_rows, is_bypass);
    }
}

/* In stream order. */
static uint32_t digest_tile(const char *at, const struct kvf_tile *tile, uint64_t row,
                            uint64_t line, uint32_t crc)
{
    const uint64_t line_bytes = tile->row_bytes * tile->n_rows;

    if (row == tile->row_bytes && (line == line_bytes || tile->n_lines == 1)) {
        return kvf_crc32c(crc, at, line_bytes * tile->n_lines);
    }
    for (uint32_t i = 0; i < tile->n_lines; i++) {
        for (uint32_t j = 0; j < tile->n_rows; j++) {
            crc = kvf_crc32c(crc, at + i * line + j * row, tile->row_bytes);
        }
    }
    return crc;
}

static void prefetch(const char *at)
{
    for (unsigned i = 0; i < PREFETCH_LINES; i++) {
        __builtin_prefetch(at + i * LINE_BYTES);
    }
}

static void run_pass(const struct kvf_plan *plan, const struct pass *pass,
                     uint64_t offset, uint64_t n_bytes, uint32_t *crc)
{
    struct kvf_plan_cursor cursor;
    struct kvf_tile tile;
    uint64_t done = 0;

    kvf_plan_seek(plan, offset, n_bytes, &cursor);
    while (kvf_cursor_tile(&cursor, TILE_BYTES, &tile)) {
        const char *src = pass->src + (pass->is_src_slot ? done : tile.src_offset);
        char *dst = pass->dst + (pass->is_dst_slot ? done : tile.dst_offset);
        const uint64_t line_bytes = tile.row_bytes * tile.n_rows;

        if (pass->is_src_slot) {
            tile.src_row = tile.row_bytes;
            tile.src_line = line_bytes;
        } else if (cursor.offset < cursor.end) {
            prefetch(pass->src + cursor.src + cursor.within);
        }
        if (pass->is_dst_slot) {
            tile.dst_row = tile.row_bytes;
            tile.dst_line = line_bytes;
        }
        copy_tile(dst, src, tile, pass);
        if (crc != NULL && pass->is_dst_slot) {
            *crc = digest_tile(dst, &tile, tile.dst_row, tile.dst_line, *crc);
        } else if (crc != NULL) {
            *crc = digest_tile(src, &tile, tile.src_row, tile.src_line, *crc);
        }
        done += line_bytes * tile.n_lines;
    }
    kvf_bypass_fence();
}

void kvf_execute_copy(const struct kvf_plan *plan, const void *src_base, void *dst_base,
                      uint64_t offset, uint64_t n_bytes, uint32_t *crc)
{
    const struct pass pass = {.src = src_base, .dst = dst_base};

    assert(plan->n_bytes == 0 || (plan->src.blocks != NULL && plan->dst.blocks != NULL));
    run_pass(plan, &pass, offset, n_bytes, crc);
}

void kvf_execute_gather(const struct kvf_plan *plan, const void *src_base, void *slot,
                        uint64_t offset, uint64_t n_bytes, uint32_t *crc)
{
    const struct pass pass = {.src = src_base, .dst = slot, .is_dst_slot = true};

    assert(plan->n_bytes == 0 || plan->src.blocks != NULL);
    run_pass(plan, &pass, offset, n_bytes, crc);
}

void kvf_execute_scatter(const struct kvf_plan *plan, const void *slot, void *dst_base,
                         uint64_t offset, uint64_t n_bytes, uint32_t *crc)
{
    const struct pass pass = {.src = slot, .dst = dst_base, .is_src_slot = true};

    assert(plan->n_bytes == 0 || plan->dst.blocks != NULL);
    run_pass(plan, &pass, offset, n_bytes, crc);
}

uint32_t kvf_execute_crc(const struct kvf_plan *plan, enum kvf_plan_end end,
                         const void *base, uint64_t offset, uint64_t n_bytes,
                         uint32_t crc)
{
    struct kvf_plan_cursor cursor;
    struct kvf_tile tile;
    const bool is_src = end == KVF_PLAN_SRC;

    assert(plan->n_bytes == 0 || (is_src ? plan->src.blocks : plan->dst.blocks) != NULL);
    kvf_plan_seek(plan, offset, n_bytes, &cursor);
    while (kvf_cursor_tile(&cursor, TILE_BYTES, &tile)) {
        const uint64_t at = is_src ? tile.src_offset : tile.dst_offset;
        crc = digest_tile((const char *)base + at, &tile,
                          is_src ? tile.src_row : tile.dst_row,
                          is_src ? tile.src_line : tile.dst_line, crc);
    }
    return crc;
}
