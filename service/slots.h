/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Staging slots: one arena of host memory cut into equal slots, registered once with
 * every transport. A remote peer only ever writes here, never into an engine's pool. A
 * peer holds at most a quarter of the arena. Loop thread; the memory itself is also
 * touched by copy workers and by transports while a slot is taken.
 */
#ifndef KVF_SERVICE_SLOTS_H
#define KVF_SERVICE_SLOTS_H

#include <stdint.h>

#include <kvferry/status.h>

#include "service/transport.h"

#define KVF_TRANSPORTS_MAX 2u
#define KVF_SLOT_NONE      UINT32_MAX

struct kvf_slots;

/* arena_bytes / slot_bytes slots. transports[n] are borrowed until destroy. */
enum kvf_status KVF_MUST_CHECK kvf_slots_create(uint64_t arena_bytes, uint64_t slot_bytes,
                                                struct kvf_transport *const *transports,
                                                size_t n_transports,
                                                struct kvf_slots **out_slots);
void kvf_slots_destroy(struct kvf_slots *slots); /* accepts NULL */

/* A free slot, or KVF_SLOT_NONE. *held counts the slots of one holder (a peer) and is
 * kept by the caller; at a quarter of the arena the holder gets none. */
uint32_t kvf_slots_acquire(struct kvf_slots *slots, uint32_t *held);
void kvf_slots_release(struct kvf_slots *slots, uint32_t slot, uint32_t *held);

void *kvf_slots_base(const struct kvf_slots *slots, uint32_t slot);
struct kvf_transport_memory *kvf_slots_memory(const struct kvf_slots *slots,
                                              const struct kvf_transport *transport);
uint32_t kvf_slots_used(const struct kvf_slots *slots);
uint32_t kvf_slots_total(const struct kvf_slots *slots);

#endif
