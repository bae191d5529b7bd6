/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to the ucx transport: transport_ucx.c has chunks, arrivals, endpoints and the
 * ops; ucx_worker.c opens and closes UCX, holds memory and routes UCX's log. Only these
 * two include UCX.
 *
 * The transport owns worker, endpoints and kept announcements. Loop thread.
 */
#ifndef KVF_SERVICE_UCX_H
#define KVF_SERVICE_UCX_H

#include <ucp/api/ucp.h>

#include "base/slab.h"
#include "service/transport.h"

#define KVF_UCX_AM_CHUNK      7u /* id of the one active message */
/* Room for the longest address and for one that lies about its length. */
#define KVF_UCX_ADDRESS_BYTES (2 * KVF_DATA_BLOB_MAX)
#define KVF_UCX_LANE_BYTES    32u

struct kvf_ucx {
    struct kvf_transport base;
    struct kvf_transport_ops ops; /* what base.ops points to: flags depend on config */
    struct kvf_loop *loop;        /* borrows */
    const struct kvf_transport_events *events; /* borrows */
    void *owner;                               /* of the events */
    bool is_contiguous;                        /* one span per chunk */

    ucp_context_h context; /* owns */
    ucp_worker_h worker;   /* owns */
    struct kvf_io wake_io; /* the worker's event descriptor, which UCX owns */
    struct kvf_hook hook;
    bool is_hooked, is_logging;

    struct kvf_slab *slab;      /* owns; of kvf_arrival */
    struct kvf_list fresh;      /* arrivals the owner does not know yet */
    struct kvf_list kept;       /* arrivals the owner holds */
    struct kvf_list lost;       /* held ones that died; the owner is not told yet */
    struct kvf_list endpoints;  /* owns; until closed and without operations */
    struct kvf_list broken;     /* endpoints whose owner is not told yet */
    struct kvf_list operations; /* struct kvf_chunk_op.node: UCX may touch their memory */
};

/* An announced chunk. */
struct kvf_arrival {
    struct kvf_ucx *ucx; /* borrows; owner */
    uint64_t id;         /* of its slab slot */
    struct kvf_node node;
    void *descriptor;  /* owns, UCX's; NULL once lost */
    ucp_ep_h reply_ep; /* borrows; compared only. NULL: not known */
    struct kvf_chunk_header header;
};

struct kvf_endpoint {
    struct kvf_ucx *ucx; /* borrows; owner */
    void *owner;
    ucp_ep_h ep; /* owns until the close */
    struct kvf_node node, broken_node;
    size_t n_posted;
    bool is_dead;         /* UCX reported an error: nothing more is posted */
    bool is_disconnected; /* the owner has let go */
    bool is_closed;       /* UCX has let go */
    char lane[KVF_UCX_LANE_BYTES];
    struct kvf_timer close_timer;
    struct kvf_zombie zombie;
};

struct kvf_transport_memory {
    const uint8_t *base;
    size_t length;
    ucp_mem_h handle; /* owns */
};

static inline struct kvf_ucx *kvf_ucx_of(struct kvf_transport *transport)
{
    return KVF_CONTAINER(transport, struct kvf_ucx, base);
}

/* ---- ucx_worker.c */
/* Everything but the loop: UCX's log, context and worker. On failure close still works.
 */
enum kvf_status KVF_MUST_CHECK kvf_ucx_start(struct kvf_ucx *ucx,
                                             const struct kvf_config *config,
                                             ucp_am_recv_callback_t on_message);
/* Destroys worker and context; nothing touches any memory after it. */
void kvf_ucx_stop(struct kvf_ucx *ucx);
enum kvf_status KVF_MUST_CHECK kvf_ucx_blob(struct kvf_transport *transport, uint8_t *out,
                                            size_t *n);
/* The worker address in a peer's blob, followed by zeros. PROTOCOL: damaged, or of
 * another version of UCX. */
enum kvf_status KVF_MUST_CHECK kvf_ucx_blob_open(
    const uint8_t *blob, size_t n, uint8_t out_address[KVF_UCX_ADDRESS_BYTES]);
const char *kvf_ucx_version(struct kvf_transport *transport);
enum kvf_status KVF_MUST_CHECK kvf_ucx_memory_add(struct kvf_transport *transport,
                                                  void *base, size_t length,
                                                  struct kvf_transport_memory **out);
void kvf_ucx_memory_remove(struct kvf_transport *transport,
                           struct kvf_transport_memory *memory);

#endif
