/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fixed-size objects with ids. An id is a slot plus a generation, so that a stale id
 * misses instead of reaching the slot's next owner. The ceiling is given at creation;
 * memory comes in steps and stays. Loop thread.
 */
#ifndef KVF_BASE_SLAB_H
#define KVF_BASE_SLAB_H

#include <stddef.h>
#include <stdint.h>

#include <kvferry/status.h>

struct kvf_slab;

/* object_bytes each, at most n_max alive (< 2^31); n_first are allocated now. */
enum kvf_status KVF_MUST_CHECK kvf_slab_create(size_t object_bytes, uint32_t n_first,
                                               uint32_t n_max,
                                               struct kvf_slab **out_slab);
void kvf_slab_destroy(struct kvf_slab *slab); /* accepts NULL */

/* A zeroed object; NULL at the ceiling or without memory. *out_id is never 0. */
void *kvf_slab_acquire(struct kvf_slab *slab, uint64_t *out_id);
/* Object by id, NULL when the id is stale, 0 or made up. An id of another slab is an
 * error of ours and may hit: keep ids apart by their field's name. */
void *kvf_slab_find(const struct kvf_slab *slab, uint64_t id);
/* id must be alive. */
void kvf_slab_release(struct kvf_slab *slab, uint64_t id);

uint32_t kvf_slab_used(const struct kvf_slab *slab);
uint32_t kvf_slab_max(const struct kvf_slab *slab);

#endif
