/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The generator. A row's start is hashed from its coordinates; along the row words follow
 * an arithmetic sequence whose upper bits are folded down, which a compiler turns into
 * vector code: filling and checking must not be slower than moving.
 */
#include "examples/pattern.h"

#include <string.h>

#define GOLDEN    0x9e3779b97f4a7c15ull /* 2^64 / golden ratio, odd */
#define ROW_WORDS 1024                  /* head_dim <= 4096 elements of 2 bytes */

static uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9ull;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

uint64_t pattern_key(uint64_t a, uint64_t b)
{
    return mix(mix(a + GOLDEN) ^ (b + 1));
}

static void make_row(uint64_t start, uint64_t n_words, uint64_t *out)
{
    for (uint64_t i = 0; i < n_words; i++) {
        uint64_t word = start + i * GOLDEN;
        out[i] = word ^ (word >> 29);
    }
}

static uint64_t count_wrong(const uint8_t *bytes, const uint8_t *wanted, uint64_t n_bytes)
{
    uint64_t n_wrong = 0;
    for (uint64_t i = 0; i < n_bytes; i++) {
        n_wrong += bytes[i] != wanted[i] ? 1 : 0;
    }
    return n_wrong;
}

static uint64_t count_foreign(const uint8_t *bytes, const uint8_t *wanted,
                              uint64_t n_bytes, uint8_t poison)
{
    uint64_t n_foreign = 0;
    for (uint64_t i = 0; i < n_bytes; i++) {
        n_foreign += bytes[i] != wanted[i] && bytes[i] != poison ? 1 : 0;
    }
    return n_foreign;
}

enum visit { FILL, CHECK, CHECK_PARTIAL };

/* The rows of one (layer, kv, head): those with KV, then those without. */
static uint64_t visit_plane(const struct pattern_block *block, enum visit visit,
                            uint64_t plane, uint64_t row[ROW_WORDS], uint8_t *memory)
{
    uint64_t row_bytes = shape_row_bytes(block->shape);
    uint64_t key = pattern_key(block->key, plane);
    uint64_t n_wrong = 0;
    for (uint32_t i = 0; i < block->n_tokens; i++) {
        uint8_t *at = memory + i * row_bytes;
        make_row(mix(key + (block->first_token + i) * GOLDEN),
                 row_bytes / sizeof(uint64_t), row);
        if (visit == FILL) {
            memcpy(at, row, row_bytes);
        } else if (memcmp(at, row, row_bytes) != 0) {
            n_wrong += visit == CHECK ? count_wrong(at, (const uint8_t *)row, row_bytes)
                                      : count_foreign(at, (const uint8_t *)row, row_bytes,
                                                      block->poison);
        }
    }
    uint8_t *tail = memory + block->n_tokens * row_bytes;
    uint64_t n_tail = (block->shape->tokens_per_block - block->n_tokens) * row_bytes;
    if (visit == FILL) {
        pattern_poison(tail, n_tail, block->poison);
    } else {
        n_wrong += pattern_poison_mismatches(tail, n_tail, block->poison);
    }
    return n_wrong;
}

static uint64_t visit_block(const struct pattern_block *block, enum visit visit,
                            uint8_t *memory)
{
    const struct shape *shape = block->shape;
    uint64_t n_planes = (uint64_t)shape->n_layers * shape->kv_factor * shape->n_heads;
    uint64_t plane_bytes = shape_row_bytes(shape) * shape->tokens_per_block;
    uint64_t row[ROW_WORDS] = {0}; /* once a block: clearing it costs as much as a row */
    uint64_t n_wrong = 0;
    for (uint64_t plane = 0; plane < n_planes; plane++) {
        n_wrong += visit_plane(block, visit, plane, row, memory + plane * plane_bytes);
    }
    return n_wrong;
}

void pattern_fill(const struct pattern_block *block, void *memory)
{
    (void)visit_block(block, FILL, memory); /* filling finds nothing wrong */
}

/* The visitor writes only when it fills. */
static uint8_t *read_only(const void *memory)
{
    return (uint8_t *)(uintptr_t)memory;
}

uint64_t pattern_mismatches(const struct pattern_block *block, const void *memory)
{
    return visit_block(block, CHECK, read_only(memory));
}

uint64_t pattern_foreign_bytes(const struct pattern_block *block, const void *memory)
{
    return visit_block(block, CHECK_PARTIAL, read_only(memory));
}

void pattern_poison(void *memory, uint64_t n_bytes, uint8_t poison)
{
    memset(memory, poison, n_bytes);
}

uint64_t pattern_poison_mismatches(const void *memory, uint64_t n_bytes, uint8_t poison)
{
    const uint8_t *bytes = memory;
    /* All bytes equal their neighbour and the first is poison: memcmp's speed. */
    if (n_bytes == 0 ||
        (bytes[0] == poison && memcmp(bytes, bytes + 1, n_bytes - 1) == 0)) {
        return 0;
    }
    uint64_t n_wrong = 0;
    for (uint64_t i = 0; i < n_bytes; i++) {
        n_wrong += bytes[i] != poison ? 1 : 0;
    }
    return n_wrong;
}
