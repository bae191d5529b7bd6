/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The block allocator of an example engine: ids of free blocks in a random order, so that
 * the blocks of a prompt lie scattered, as they do in an engine that has run for a while.
 * Knows ids only; the memory is the pool's. One thread.
 */
#ifndef KVF_EXAMPLES_BLOCKS_H
#define KVF_EXAMPLES_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

struct blocks {
    int32_t *free_ids; /* owns; [n_free] are free, a stack */
    bool *is_free;     /* owns; [n_blocks] */
    uint32_t n_free, n_blocks;
    uint64_t random; /* state of the order */
};

bool blocks_init(struct blocks *blocks, uint32_t n_blocks, uint64_t seed);
void blocks_fini(struct blocks *blocks); /* accepts a zeroed one */
/* All n or none. */
bool blocks_take(struct blocks *blocks, uint32_t n, int32_t *out_ids);
void blocks_give(struct blocks *blocks, const int32_t *ids, uint32_t n);

#endif
