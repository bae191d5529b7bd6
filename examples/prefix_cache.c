/* SPDX-License-Identifier: Apache-2.0 */
/* Entries in no order; removal moves the last one into the hole. */
#include "examples/prefix_cache.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define NOT_HELD UINT32_MAX

bool prefix_cache_init(struct prefix_cache *cache, uint32_t max,
                       uint32_t blocks_per_chunk)
{
    *cache = (struct prefix_cache){.max = max, .blocks_per_chunk = blocks_per_chunk};
    cache->keys = calloc(max, sizeof(*cache->keys));
    cache->entries = calloc(max, sizeof(*cache->entries));
    cache->blocks = calloc((size_t)max * blocks_per_chunk, sizeof(*cache->blocks));
    if (cache->keys == NULL || cache->entries == NULL || cache->blocks == NULL) {
        prefix_cache_fini(cache);
        return false;
    }
    return true;
}

void prefix_cache_fini(struct prefix_cache *cache)
{
    free(cache->keys);
    free(cache->entries);
    free(cache->blocks);
    *cache = (struct prefix_cache){.keys = NULL};
}

static uint32_t find(const struct prefix_cache *cache, uint64_t key)
{
    for (uint32_t i = 0; i < cache->n; i++) {
        if (cache->keys[i] == key) {
            return i;
        }
    }
    return NOT_HELD;
}

static int32_t *blocks_of(const struct prefix_cache *cache, uint32_t entry)
{
    return cache->blocks + (size_t)entry * cache->blocks_per_chunk;
}

static size_t chunk_size(const struct prefix_cache *cache)
{
    return cache->blocks_per_chunk * sizeof(*cache->blocks);
}

uint32_t prefix_cache_acquire(struct prefix_cache *cache, const uint64_t *keys,
                              uint32_t n_keys, int32_t *out_blocks)
{
    for (uint32_t i = 0; i < n_keys; i++) {
        uint32_t entry = find(cache, keys[i]);
        if (entry == NOT_HELD) {
            return i;
        }
        cache->entries[entry].n_users++;
        memcpy(out_blocks + (size_t)i * cache->blocks_per_chunk, blocks_of(cache, entry),
               chunk_size(cache));
    }
    return n_keys;
}

void prefix_cache_release(struct prefix_cache *cache, const uint64_t *keys,
                          uint32_t n_keys)
{
    for (uint32_t i = 0; i < n_keys; i++) {
        uint32_t entry = find(cache, keys[i]);
        assert(entry != NOT_HELD && cache->entries[entry].n_users > 0);
        cache->entries[entry].n_users--;
        cache->entries[entry].last_used = ++cache->n_uses;
    }
}

bool prefix_cache_insert(struct prefix_cache *cache, uint64_t key, uint32_t chunk,
                         const int32_t *blocks)
{
    if (cache->n == cache->max || find(cache, key) != NOT_HELD) {
        return false;
    }
    uint32_t entry = cache->n++;
    cache->keys[entry] = key;
    cache->entries[entry] =
        (struct prefix_entry){.last_used = ++cache->n_uses, .chunk = chunk};
    memcpy(blocks_of(cache, entry), blocks, chunk_size(cache));
    return true;
}

bool prefix_cache_evict(struct prefix_cache *cache, int32_t *out_blocks)
{
    uint32_t oldest = NOT_HELD;
    for (uint32_t i = 0; i < cache->n; i++) {
        const struct prefix_entry *entry = &cache->entries[i];
        if (entry->n_users == 0 &&
            (oldest == NOT_HELD || entry->last_used < cache->entries[oldest].last_used)) {
            oldest = i;
        }
    }
    if (oldest == NOT_HELD) {
        return false;
    }
    uint32_t last = --cache->n;
    memcpy(out_blocks, blocks_of(cache, oldest), chunk_size(cache));
    if (last != oldest) {
        cache->keys[oldest] = cache->keys[last];
        cache->entries[oldest] = cache->entries[last];
        memcpy(blocks_of(cache, oldest), blocks_of(cache, last), chunk_size(cache));
    }
    return true;
}
