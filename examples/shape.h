/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shape of one model's KV cache and where its bytes lie in a pool: whole blocks, that
 * is [block][layer][kv][head][token][dim], bf16. It is what an engine knows about its own
 * cache; libkvferry gets the same facts as a struct kvf_layout. Value type, no ownership;
 * any thread.
 */
#ifndef KVF_EXAMPLES_SHAPE_H
#define KVF_EXAMPLES_SHAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kvferry/layout.h>

#define SHAPE_NAME_MAX    48
#define SHAPE_TEXT_MAX    128
#define SHAPE_LAYERS_MAX  512
#define SHAPE_BLOCKS_MAX  1000000
#define SHAPE_BF16_BYTES  2
#define SHAPES_PER_ENGINE 8

struct shape {
    char name[SHAPE_NAME_MAX]; /* instances are NAME-context and NAME-generation */
    uint32_t n_layers;
    uint32_t n_heads;   /* KV heads, 1 for MLA */
    uint32_t head_dim;  /* elements; the latent width for MLA */
    uint32_t kv_factor; /* 2 = K and V, 1 = latent */
    uint32_t tokens_per_block;
    uint32_t n_blocks; /* of the pool */
};

/* NAME:LAYERS:HEADS:DIM:KV:TOKENS:BLOCKS, what a command line carries. */
bool shape_parse(const char *text, struct shape *out);
void shape_format(const struct shape *shape, char out_text[SHAPE_TEXT_MAX]);

uint64_t shape_row_bytes(const struct shape *shape);
uint64_t shape_token_bytes(const struct shape *shape); /* over all layers and heads */
uint64_t shape_block_bytes(const struct shape *shape);
uint64_t shape_pool_bytes(const struct shape *shape);
uint32_t shape_blocks_for(const struct shape *shape, uint32_t n_tokens);

/* layer_offsets [n_layers] is filled and borrowed by *out. */
void shape_layout(const struct shape *shape, uint64_t *layer_offsets,
                  struct kvf_layout *out);

#endif
