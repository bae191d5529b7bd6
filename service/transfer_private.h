/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by transfer.c (states, messages) and flow.c (chunks under way). Nobody else
 * includes it. Loop thread.
 */
#ifndef KVF_SERVICE_TRANSFER_PRIVATE_H
#define KVF_SERVICE_TRANSFER_PRIVATE_H

#include "base/alloc.h"
#include "base/log.h"
#include "plan/rank_map.h"
#include "service/transfer.h"

struct kvf_transfers {
    struct kvf_transfers_config config;
    struct kvf_slab *slab;    /* owns; struct kvf_transfer */
    struct kvf_slab *chunks;  /* owns; flow.c's records */
    struct kvf_slab *waiting; /* owns; unanswered arrivals */
    struct kvf_list by_state[KVF_TRANSFER_STATES];
    struct kvf_list runnable; /* may have something to post or to answer */
    struct kvf_post pump_post;
};

/* ---- transfer_plan.c */
/* What one side knows about both. */
struct kvf_pair {
    const struct kvf_cache_state *our_state, *peer_state;
    const struct kvf_pool_layout *peer_layouts;
    size_t n_peer_layouts;
    struct kvf_transfer *local_sender; /* whose block tables we may read, or NULL */
};
/* Streams for segments[n], not planned yet, in the request's arena. */
enum kvf_status KVF_MUST_CHECK kvf_transfer_make_streams(
    struct kvf_transfer *transfer, const struct kvf_segment *segments, size_t n);
/* Plans every stream; total_bytes, plan_hash and the number of runs are set. */
enum kvf_status KVF_MUST_CHECK kvf_transfer_plan(struct kvf_transfer *transfer,
                                                 const struct kvf_pair *pair,
                                                 struct kvf_plan_refusal *out_refusal);
enum kvf_path kvf_transfer_choose_path(const struct kvf_transfer *transfer);
/* Layouts of the request's pools as they go into messages; out[KVF_TABLES_MAX]. */
size_t kvf_request_layouts(const struct kvf_request *request,
                           struct kvf_pool_layout *out);

/* ---- flow.c */
enum kvf_status KVF_MUST_CHECK kvf_chunks_create(struct kvf_transfers *transfers);
void kvf_chunks_destroy(struct kvf_transfers *transfers);
/* Puts the transfer on the runnable list and schedules a pump. */
void kvf_transfer_wake(struct kvf_transfer *transfer);
/* Takes it off the list and drops its unanswered arrivals. */
void kvf_transfer_sleep(struct kvf_transfer *transfer);
/* Marks the copy jobs of all chunks under way as cancelled. */
void kvf_chunks_stop(struct kvf_transfer *transfer);

/* ---- transfer.c, for flow.c */
void kvf_transfer_first_chunk(struct kvf_transfer *transfer);
void kvf_transfer_all_posted(struct kvf_transfer *transfer);
void kvf_transfer_bytes_arrived(struct kvf_transfer *transfer, uint64_t n_bytes);
void kvf_transfer_bytes_done(struct kvf_transfer *transfer,
                             const struct kvf_interval *landed);
/* A chunk came to rest; the transfer may end here. */
void kvf_transfer_chunk_gone(struct kvf_transfer *transfer);

#endif
