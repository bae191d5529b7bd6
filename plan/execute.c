/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host executor: strips of a plan turned into loads and stores. Copy, gather and
 * scatter are one loop that differs in where the two sides of a strip are; a slot is a
 * side whose rows follow each other. Rows of up to TINY_BYTES have their own loops,
 * because a call per row costs more than the row. Any thread; touches only the bytes of
 * the plan.
 */
#include "plan/execute.h"

#include <assert.h>
#include <string.h>

#include "base/crc.h"
#include "plan/nest.h"

#define TINY_BYTES     256u
#define DIGEST_BYTES   65536u /* copied, then digested while still in the cache */
#define PREFETCH_LINES 4u
#define LINE_BYTES     64u

/* One side of a strip in memory. */
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
                      uint32_t n_rows)
{
    if (dst.stride == row_bytes && src.stride == row_bytes) {
        row_bytes *= n_rows;
        n_rows = 1;
    }
    if (row_bytes <= TINY_BYTES) {
        copy_tiny(dst, src, row_bytes, n_rows);
        return;
    }
    for (uint32_t i = 0; i < n_rows; i++) {
        memcpy(dst.at + i * dst.stride, src.at + i * src.stride, row_bytes);
    }
}

static uint32_t digest_rows(struct const_side side, uint64_t row_bytes, uint32_t n_rows,
                            uint32_t crc)
{
    if (side.stride == row_bytes) {
        return kvf_crc32c(crc, side.at, row_bytes * n_rows);
    }
    for (uint32_t i = 0; i < n_rows; i++) {
        crc = kvf_crc32c(crc, side.at + i * side.stride, row_bytes);
    }
    return crc;
}

/* Copies a strip in parts that stay in the cache until they are digested. The digest is
 * taken where the bytes do not change behind our back: from the slot if there is one. */
static uint32_t copy_digest_rows(struct side dst, struct const_side src, bool is_gather,
                                 const struct kvf_strip *strip, uint32_t crc)
{
    const bool has_long_rows = strip->row_bytes > DIGEST_BYTES;
    const uint64_t n_fit = DIGEST_BYTES / strip->row_bytes;

    for (uint32_t i = 0; i < strip->n_rows;) {
        const uint64_t left = strip->n_rows - i;
        const uint32_t n = has_long_rows ? 1 : (uint32_t)(n_fit < left ? n_fit : left);
        const uint64_t step = has_long_rows ? DIGEST_BYTES : strip->row_bytes;
        for (uint64_t at = 0; at < strip->row_bytes; at += step) {
            const uint64_t rest = strip->row_bytes - at;
            const uint64_t part = rest < step ? rest : step;
            const struct side to = {dst.at + i * dst.stride + at, dst.stride};
            const struct const_side from = {src.at + i * src.stride + at, src.stride};
            copy_rows(to, from, part, n);
            crc = digest_rows(is_gather ? (struct const_side){to.at, to.stride} : from,
                              part, n, crc);
        }
        i += n;
    }
    return crc;
}

static void prefetch(const char *at)
{
    for (unsigned i = 0; i < PREFETCH_LINES; i++) {
        __builtin_prefetch(at + i * LINE_BYTES);
    }
}

/* src_slot, dst_slot: that side is a slot that begins with stream byte `offset`. */
struct pass {
    const char *src;
    char *dst;
    bool is_src_slot, is_dst_slot;
};

static void run_pass(const struct kvf_plan *plan, const struct pass *pass,
                     uint64_t offset, uint64_t n_bytes, uint32_t *crc)
{
    struct kvf_plan_cursor cursor;
    struct kvf_strip strip;
    uint64_t done = 0;

    kvf_plan_seek(plan, offset, n_bytes, &cursor);
    while (kvf_cursor_strip(&cursor, &strip)) {
        struct const_side src = {pass->src + strip.src_offset, strip.src_stride};
        struct side dst = {pass->dst + strip.dst_offset, strip.dst_stride};
        if (pass->is_src_slot) {
            src = (struct const_side){pass->src + done, strip.row_bytes};
        } else if (cursor.offset < cursor.end) {
            prefetch(pass->src + cursor.src + cursor.within);
        }
        if (pass->is_dst_slot) {
            dst = (struct side){pass->dst + done, strip.row_bytes};
        }
        if (crc != NULL) {
            *crc = copy_digest_rows(dst, src, pass->is_dst_slot, &strip, *crc);
        } else {
            copy_rows(dst, src, strip.row_bytes, strip.n_rows);
        }
        done += strip.row_bytes * strip.n_rows;
    }
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
    struct kvf_strip strip;
    const bool is_src = end == KVF_PLAN_SRC;

    assert(plan->n_bytes == 0 || (is_src ? plan->src.blocks : plan->dst.blocks) != NULL);
    kvf_plan_seek(plan, offset, n_bytes, &cursor);
    while (kvf_cursor_strip(&cursor, &strip)) {
        const struct const_side side = {
            (const char *)base + (is_src ? strip.src_offset : strip.dst_offset),
            is_src ? strip.src_stride : strip.dst_stride};
        crc = digest_rows(side, strip.row_bytes, strip.n_rows, crc);
    }
    return crc;
}
