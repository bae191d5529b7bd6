/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Single-producer single-consumer ring of fixed-size records: the only data that crosses
 * threads. One side pushes, the other pops; wake-ups are the caller's (kvf_loop_wake, or
 * the worker's eventfd). The only file besides counters that uses atomics.
 */
#ifndef KVF_BASE_RING_H
#define KVF_BASE_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kvferry/status.h>

struct kvf_ring;

/* n_records is rounded up to a power of two. */
enum kvf_status KVF_MUST_CHECK kvf_ring_create(size_t record_bytes, size_t n_records,
                                               struct kvf_ring **out_ring);
void kvf_ring_destroy(struct kvf_ring *ring);                  /* accepts NULL */
bool kvf_ring_push(struct kvf_ring *ring, const void *record); /* false: full */
bool kvf_ring_pop(struct kvf_ring *ring, void *out_record);    /* false: empty */
size_t kvf_ring_length(const struct kvf_ring *ring);           /* a moment's reading */

#endif
