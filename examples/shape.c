/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes and strides of one KV cache shape, and its text form on a command line. */
#include "examples/shape.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool parse_count(const char **text, uint32_t max, uint32_t *out)
{
    char *end = NULL;
    if (**text != ':' || (*text)[1] < '0' || (*text)[1] > '9') {
        return false;
    }
    unsigned long value = strtoul(*text + 1, &end, 10);
    if (value == 0 || value > max) {
        return false;
    }
    *text = end;
    *out = (uint32_t)value;
    return true;
}

bool shape_parse(const char *text, struct shape *out)
{
    struct shape shape = {.n_layers = 0};
    size_t n_name = strcspn(text, ":");
    if (n_name == 0 || n_name >= sizeof(shape.name)) {
        return false;
    }
    memcpy(shape.name, text, n_name);
    text += n_name;
    if (!parse_count(&text, SHAPE_LAYERS_MAX, &shape.n_layers) ||
        !parse_count(&text, 1024, &shape.n_heads) ||
        !parse_count(&text, 4096, &shape.head_dim) ||
        !parse_count(&text, 2, &shape.kv_factor) ||
        !parse_count(&text, 1024, &shape.tokens_per_block) ||
        !parse_count(&text, SHAPE_BLOCKS_MAX, &shape.n_blocks) || *text != '\0') {
        return false;
    }
    /* The generator writes rows in words. */
    if (shape_row_bytes(&shape) % sizeof(uint64_t) != 0) {
        return false;
    }
    *out = shape;
    return true;
}

void shape_format(const struct shape *shape, char out_text[SHAPE_TEXT_MAX])
{
    (void)snprintf(out_text, SHAPE_TEXT_MAX,
                   "%s:%" PRIu32 ":%" PRIu32 ":%" PRIu32 ":%" PRIu32 ":%" PRIu32
                   ":%" PRIu32,
                   shape->name, shape->n_layers, shape->n_heads, shape->head_dim,
                   shape->kv_factor, shape->tokens_per_block, shape->n_blocks);
}

uint64_t shape_row_bytes(const struct shape *shape)
{
    return (uint64_t)shape->head_dim * SHAPE_BF16_BYTES;
}

uint64_t shape_token_bytes(const struct shape *shape)
{
    return shape_row_bytes(shape) * shape->n_layers * shape->kv_factor * shape->n_heads;
}

uint64_t shape_block_bytes(const struct shape *shape)
{
    return shape_token_bytes(shape) * shape->tokens_per_block;
}

uint64_t shape_pool_bytes(const struct shape *shape)
{
    return shape_block_bytes(shape) * shape->n_blocks;
}

uint32_t shape_blocks_for(const struct shape *shape, uint32_t n_tokens)
{
    return n_tokens / shape->tokens_per_block +
           (n_tokens % shape->tokens_per_block != 0 ? 1 : 0);
}

void shape_layout(const struct shape *shape, uint64_t *layer_offsets,
                  struct kvf_layout *out)
{
    struct kvf_layout layout = {
        .size = sizeof(layout),
        .n_layers = shape->n_layers,
        .kv_factor = shape->kv_factor,
        .n_heads = shape->n_heads,
        .tokens_per_block = shape->tokens_per_block,
        .row_bytes = (uint32_t)shape_row_bytes(shape),
        .n_blocks = shape->n_blocks,
        .dtype = KVF_DTYPE_BF16,
        .layer_offsets = layer_offsets,
    };
    layout.token_stride = layout.row_bytes;
    layout.head_stride = layout.token_stride * shape->tokens_per_block;
    layout.kv_stride = layout.head_stride * shape->n_heads;
    layout.block_stride = shape_block_bytes(shape);
    for (uint32_t i = 0; i < shape->n_layers; i++) {
        layer_offsets[i] = i * layout.kv_stride * shape->kv_factor;
    }
    *out = layout;
}
