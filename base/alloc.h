/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The only door to the heap. Outside base/ nobody calls malloc, so that tests can fail
 * the nth allocation and count what the steady state allocates (it must be zero). Any
 * thread.
 */
#ifndef KVF_BASE_ALLOC_H
#define KVF_BASE_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kvferry/status.h>

/* Zeroed memory or NULL. kvf_alloc_array refuses n * size overflow. */
void *kvf_alloc(size_t n_bytes);
void *kvf_alloc_array(size_t n, size_t size);
/* Grows or shrinks; new bytes are not zeroed. On NULL the old block stays valid. */
void *kvf_realloc(void *block, size_t n_bytes);
void kvf_free(void *block); /* accepts NULL */
char *kvf_strdup(const char *text);

/* Allocations since start; the steady-state tests compare two readings. */
uint64_t kvf_alloc_count(void);
/* The nth allocation from now returns NULL (1 = next), 0 switches it off. Tests only. */
void kvf_alloc_fail_nth(uint64_t n);

/* Checked size arithmetic: false on overflow, *out untouched. */
bool kvf_size_add(uint64_t a, uint64_t b, uint64_t *out);
bool kvf_size_mul(uint64_t a, uint64_t b, uint64_t *out);

/*
 * A bump arena with a byte budget: what one message decodes into. Reset keeps the newest
 * chunk, which is the largest, so a reused arena soon does not allocate any more.
 */
struct kvf_arena_chunk;
struct kvf_arena {
    struct kvf_arena_chunk *chunks; /* owns; newest first */
    size_t used_bytes;              /* charged against the budget */
    size_t budget_bytes;
};
void kvf_arena_init(struct kvf_arena *arena, size_t budget_bytes);
void kvf_arena_reset(struct kvf_arena *arena, size_t budget_bytes);
void kvf_arena_fini(struct kvf_arena *arena);
/* Zeroed, 16-byte aligned; NULL when over budget or out of memory. */
void *kvf_arena_alloc(struct kvf_arena *arena, size_t n_bytes);

#endif
