/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a decode engine keeps of ended prompts: whole prefix parts ("chunks", equal keys
 * mean equal KV) with their blocks, the least recently used one leaving first. A few
 * thousand entries at most, so that looking through a packed array of keys is enough.
 * Knows ids only; blocks of an entry belong to it until evicted. One thread.
 */
#ifndef KVF_EXAMPLES_PREFIX_CACHE_H
#define KVF_EXAMPLES_PREFIX_CACHE_H

#include <stdbool.h>
#include <stdint.h>

struct prefix_entry {
    uint64_t last_used; /* by the cache's own count of uses */
    uint32_t n_users;   /* live requests that read it; > 0: not evicted */
    uint32_t chunk;     /* its place in the prompt */
};

struct prefix_cache {
    uint64_t *keys;               /* owns; [n] in use */
    struct prefix_entry *entries; /* owns; beside keys */
    int32_t *blocks;              /* owns; [max][blocks_per_chunk] */
    uint32_t n, max, blocks_per_chunk;
    uint64_t n_uses;
};

bool prefix_cache_init(struct prefix_cache *cache, uint32_t max,
                       uint32_t blocks_per_chunk);
void prefix_cache_fini(struct prefix_cache *cache); /* accepts a zeroed one */

/* How many leading keys are held; each gets a user, and its blocks go to out_blocks. */
uint32_t prefix_cache_acquire(struct prefix_cache *cache, const uint64_t *keys,
                              uint32_t n_keys, int32_t *out_blocks);
void prefix_cache_release(struct prefix_cache *cache, const uint64_t *keys,
                          uint32_t n_keys);
/* False: full or held already, the blocks stay the caller's. */
bool prefix_cache_insert(struct prefix_cache *cache, uint64_t key, uint32_t chunk,
                         const int32_t *blocks);
/* Removes the entry unused for longest; false: every entry has users. */
bool prefix_cache_evict(struct prefix_cache *cache, int32_t *out_blocks);

#endif
