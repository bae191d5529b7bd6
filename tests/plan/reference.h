/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The naive truth for plans: every row by itself, addresses by the formula of
 * include/kvferry/layout.h, no strides merged, nothing remembered. Also makes random
 * shards of the layouts that engines have. Test support, one thread.
 */
#ifndef KVF_TESTS_PLAN_REFERENCE_H
#define KVF_TESTS_PLAN_REFERENCE_H

#include "base/rng.h"
#include "plan/plan.h"

/* What a shard is made from; pool memory and tables belong to the fixture. */
enum ref_kind {
    REF_WHOLE_HND, /* [block][layer][kv][head][token]: all layers in one block */
    REF_WHOLE_NHD,
    REF_LAYER_HND,      /* per layer [block][kv][head][token], gaps between layers */
    REF_LAYER_NHD,      /* per layer [kv][block][token][head] */
    REF_LAYER_SHUFFLED, /* per layer, layers in random order in memory */
    REF_PACKED,         /* [layer][block][head][token][kv] */
    REF_HEADS_OUTSIDE,  /* [block][head][layer][kv][token] */
    REF_KINDS
};

struct ref_shape {
    uint32_t n_layers, kv_factor, n_heads, tokens_per_block, row_bytes, n_blocks;
};

/* A pool with its layout and its part in a plan. Poison everywhere until filled. */
struct ref_pool {
    struct kvf_layout layout;
    uint64_t *layer_offsets; /* owned */
    uint32_t *blocks;        /* owned; [shard.n_blocks], distinct */
    struct kvf_shard shard;  /* points into the above */
    uint64_t n_bytes;
    uint8_t *bytes; /* owned */
};

#define REF_POISON 0xa5u

/* n_blocks of the sequence get random distinct ids out of shape->n_blocks; about one time
 * in three they are in order, so that neighbours join. shard: layer_first, head_first and
 * cp are left 0, 0 and 0 of 1. */
void ref_pool_init(struct ref_pool *pool, struct kvf_rng *rng, enum ref_kind kind,
                   const struct ref_shape *shape, uint32_t n_blocks);
void ref_pool_fini(struct ref_pool *pool);

/* Pool offset of a row in global coordinates, or UINT64_MAX: not on this rank. */
uint64_t ref_row(const struct ref_pool *pool, uint32_t layer, uint32_t plane,
                 uint32_t head, uint32_t token);

/* The byte that global row (layer, plane, head, token) has at `byte`. */
uint8_t ref_value(uint32_t layer, uint32_t plane, uint32_t head, uint32_t token,
                  uint32_t byte);

/* Writes ref_value() to every row of tokens [0, n_tokens) that the pool holds. */
void ref_pool_fill(struct ref_pool *pool, uint32_t n_tokens);

/* Copies what both hold of the range from src to dst.bytes, row by row; returns the
 * number of bytes. */
uint64_t ref_copy(const struct ref_pool *src, struct ref_pool *dst,
                  const struct kvf_plan_range *range);

#endif
