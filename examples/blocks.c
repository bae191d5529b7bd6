/* SPDX-License-Identifier: Apache-2.0 */
/* A stack of free ids; every block given back goes to a random place in it. */
#include "examples/blocks.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "examples/pattern.h"

static void push(struct blocks *blocks, int32_t id)
{
    assert(blocks->n_free < blocks->n_blocks && !blocks->is_free[id]);
    blocks->random = pattern_key(blocks->random, blocks->n_free);
    uint32_t at = (uint32_t)(blocks->random % (blocks->n_free + 1));
    blocks->free_ids[blocks->n_free] = blocks->free_ids[at];
    blocks->free_ids[at] = id;
    blocks->is_free[id] = true;
    blocks->n_free++;
}

bool blocks_init(struct blocks *blocks, uint32_t n_blocks, uint64_t seed)
{
    *blocks = (struct blocks){.n_blocks = n_blocks, .random = seed};
    blocks->free_ids = calloc(n_blocks, sizeof(*blocks->free_ids));
    blocks->is_free = calloc(n_blocks, sizeof(*blocks->is_free));
    if (blocks->free_ids == NULL || blocks->is_free == NULL) {
        blocks_fini(blocks);
        return false;
    }
    for (uint32_t i = 0; i < n_blocks; i++) {
        push(blocks, (int32_t)i);
    }
    return true;
}

void blocks_fini(struct blocks *blocks)
{
    free(blocks->free_ids);
    free(blocks->is_free);
    *blocks = (struct blocks){.free_ids = NULL};
}

bool blocks_take(struct blocks *blocks, uint32_t n, int32_t *out_ids)
{
    if (n > blocks->n_free) {
        return false;
    }
    blocks->n_free -= n;
    memcpy(out_ids, blocks->free_ids + blocks->n_free, n * sizeof(*out_ids));
    for (uint32_t i = 0; i < n; i++) {
        blocks->is_free[out_ids[i]] = false;
    }
    return true;
}

void blocks_give(struct blocks *blocks, const int32_t *ids, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        push(blocks, ids[i]);
    }
}
