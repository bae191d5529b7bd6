/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The heap behind one counter and one fault point, checked size arithmetic, and the
 * arena that a message decodes into.
 *
 * The counter is what the steady-state tests read; the fault point is how they reach
 * every out-of-memory branch. Both are process-wide and atomic because workers allocate
 * too. An arena itself belongs to one thread.
 */
#include "base/alloc.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define ARENA_ALIGN           16u
#define ARENA_CHUNK_MIN_BYTES 4096u

/* Of the process, like the heap itself.
 * NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables) */
static _Atomic uint64_t n_allocations;
static _Atomic uint64_t fail_countdown; /* 0 = off */
/* NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables) */

/* Counts one allocation; false: the test wants this one to fail. */
static bool admit(void)
{
    atomic_fetch_add_explicit(&n_allocations, 1, memory_order_relaxed);
    uint64_t left = atomic_load_explicit(&fail_countdown, memory_order_relaxed);
    while (left != 0) {
        if (atomic_compare_exchange_weak_explicit(&fail_countdown, &left, left - 1,
                                                  memory_order_relaxed,
                                                  memory_order_relaxed)) {
            return left != 1;
        }
    }
    return true;
}

/* malloc(0) may return NULL; here NULL means out of memory and nothing else. */
static size_t at_least_one(size_t n_bytes)
{
    return n_bytes > 0 ? n_bytes : 1;
}

void *kvf_alloc(size_t n_bytes)
{
    return admit() ? calloc(1, at_least_one(n_bytes)) : NULL;
}

void *kvf_alloc_array(size_t n, size_t size)
{
    uint64_t n_bytes = 0;
    return kvf_size_mul(n, size, &n_bytes) ? kvf_alloc(n_bytes) : NULL;
}

void *kvf_realloc(void *block, size_t n_bytes)
{
    return admit() ? realloc(block, at_least_one(n_bytes)) : NULL;
}

void kvf_free(void *block)
{
    free(block);
}

char *kvf_strdup(const char *text)
{
    size_t n_bytes = strlen(text) + 1;
    char *copy = kvf_alloc(n_bytes);
    if (copy != NULL) {
        memcpy(copy, text, n_bytes);
    }
    return copy;
}

uint64_t kvf_alloc_count(void)
{
    return atomic_load_explicit(&n_allocations, memory_order_relaxed);
}

void kvf_alloc_fail_nth(uint64_t n)
{
    atomic_store_explicit(&fail_countdown, n, memory_order_relaxed);
}

bool kvf_size_add(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t sum;
    if (__builtin_add_overflow(a, b, &sum)) {
        return false;
    }
    *out = sum;
    return true;
}

bool kvf_size_mul(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t product;
    if (__builtin_mul_overflow(a, b, &product)) {
        return false;
    }
    *out = product;
    return true;
}

struct kvf_arena_chunk {
    struct kvf_arena_chunk *next; /* owns; the older one */
    size_t capacity_bytes;
    size_t used_bytes;
    _Alignas(ARENA_ALIGN) uint8_t bytes[];
};

void kvf_arena_init(struct kvf_arena *arena, size_t budget_bytes)
{
    *arena = (struct kvf_arena){.budget_bytes = budget_bytes};
}

static void free_chunks(struct kvf_arena_chunk *chunk)
{
    while (chunk != NULL) {
        struct kvf_arena_chunk *next = chunk->next;
        kvf_free(chunk);
        chunk = next;
    }
}

void kvf_arena_reset(struct kvf_arena *arena, size_t budget_bytes)
{
    struct kvf_arena_chunk *kept = arena->chunks;
    arena->used_bytes = 0;
    arena->budget_bytes = budget_bytes;
    if (kept == NULL) {
        return;
    }
    free_chunks(kept->next);
    kept->next = NULL;
    kept->used_bytes = 0;
}

void kvf_arena_fini(struct kvf_arena *arena)
{
    free_chunks(arena->chunks);
    *arena = (struct kvf_arena){0};
}

/* Twice the newest chunk, so that the one which reset keeps soon holds a whole message,
 * but within the budget. A second chunk is only needed when the budget is larger than the
 * first, so the newest is always the largest. */
static size_t next_chunk_bytes(const struct kvf_arena *arena, size_t n_bytes)
{
    size_t bytes = arena->chunks != NULL ? arena->chunks->capacity_bytes * 2 : 0;
    if (bytes > arena->budget_bytes) {
        bytes = arena->budget_bytes;
    }
    if (bytes < ARENA_CHUNK_MIN_BYTES) {
        bytes = ARENA_CHUNK_MIN_BYTES;
    }
    return bytes > n_bytes ? bytes : n_bytes;
}

static struct kvf_arena_chunk *add_chunk(struct kvf_arena *arena, size_t n_bytes)
{
    size_t capacity = next_chunk_bytes(arena, n_bytes);
    uint64_t total = 0;
    if (!kvf_size_add(capacity, sizeof(struct kvf_arena_chunk), &total)) {
        return NULL;
    }
    struct kvf_arena_chunk *chunk = kvf_alloc(total);
    if (chunk == NULL) {
        return NULL;
    }
    chunk->capacity_bytes = capacity;
    chunk->next = arena->chunks;
    arena->chunks = chunk;
    return chunk;
}

void *kvf_arena_alloc(struct kvf_arena *arena, size_t n_bytes)
{
    assert(arena->used_bytes <= arena->budget_bytes);
    size_t left = arena->budget_bytes - arena->used_bytes;
    if (n_bytes > left) {
        return NULL;
    }
    size_t padded =
        (at_least_one(n_bytes) + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);
    if (padded < n_bytes || padded > left) {
        return NULL;
    }
    struct kvf_arena_chunk *chunk = arena->chunks;
    if (chunk == NULL || chunk->capacity_bytes - chunk->used_bytes < padded) {
        chunk = add_chunk(arena, padded);
    }
    if (chunk == NULL) {
        return NULL;
    }
    void *block = chunk->bytes + chunk->used_bytes;
    memset(block, 0, padded); /* the chunk may have been used before a reset */
    chunk->used_bytes += padded;
    arena->used_bytes += padded;
    return block;
}
