/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An engine's registered pool inside the daemon: its mapping, its layout, its
 * registrations with the transports. References count the transfers that use it; it is
 * unmapped when it was removed and the last reference went, so it may outlive the engine.
 * Loop thread.
 */
#ifndef KVF_SERVICE_POOL_H
#define KVF_SERVICE_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include <kvferry/layout.h>
#include <kvferry/status.h>

#include "plan/plan.h"
#include "service/slots.h"

struct kvf_daemon_pool {
    uint32_t pool_id, group, memory_kind;
    struct kvf_layout layout; /* layer_offsets points to layer_offsets below */
    uint64_t *layer_offsets;  /* owns; from the pool base */
    uint8_t *base;            /* owns, mmap; start of the pool, not of the file */
    uint64_t length;
    void *map_base; /* page-aligned start of the mapping */
    uint64_t map_length;
    uint32_t n_references;
    bool is_removed; /* no new references; the last release frees it */
    size_t n_transports;
    struct kvf_transport *transports[KVF_TRANSPORTS_MAX];    /* borrows */
    struct kvf_transport_memory *memory[KVF_TRANSPORTS_MAX]; /* owns */
    struct kvf_node node;                                    /* in its session's list */
};

struct kvf_pool_wanted {
    uint32_t pool_id, group, memory_kind;
    const struct kvf_layout *layout;
    uint64_t offset, length; /* in the file */
    int fd;                  /* borrowed */
};

/* Checks the file (a memfd sealed against shrinking, long enough), the layout, maps it
 * and registers it. Errors with a sentence in *out_refusal: POOL_UNSEALED, BAD_REF,
 * INVALID_ARGUMENT, UNSUPPORTED, NO_MEMORY, SYSTEM. */
enum kvf_status KVF_MUST_CHECK kvf_daemon_pool_create(
    const struct kvf_pool_wanted *wanted, struct kvf_transport *const *transports,
    size_t n_transports, struct kvf_daemon_pool **out_pool,
    struct kvf_plan_refusal *out_refusal);

void kvf_daemon_pool_acquire(struct kvf_daemon_pool *pool);
/* Frees the pool when it was removed and this was the last reference. */
void kvf_daemon_pool_release(struct kvf_daemon_pool *pool);
/* Takes the pool from its owner; must be off every list. Accepts NULL. */
void kvf_daemon_pool_remove(struct kvf_daemon_pool *pool);

struct kvf_transport_memory *
kvf_daemon_pool_memory(const struct kvf_daemon_pool *pool,
                       const struct kvf_transport *transport);

#endif
