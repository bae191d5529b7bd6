/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a request and what the counterpart told to streams: one plan per segment, the hash
 * that both sides compare, and the path. Everything here is decided once per transfer;
 * later steps only read it. Loop thread.
 */
#include <stdio.h>
#include <string.h>

#include "service/transfer_private.h"

/* Below this mean run a gather into a slot beats an IOV of the pool itself. */
#define KVF_DIRECT_MIN_RUN_BYTES (16u << 10)

static struct kvf_shard shard_of(const struct kvf_cache_state *state,
                                 const struct kvf_cache_state *other, uint32_t rank,
                                 uint32_t group, const struct kvf_layout *layout)
{
    struct kvf_rank_place place;
    kvf_rank_place_shared(state, (int32_t)rank, other, &place);
    struct kvf_shard shard = {.layout = layout, .cp_size = 1};
    if (group == 0) { /* other groups are not cut by heads or layers */
        shard.layer_first = place.layer_first;
        shard.head_first = place.head_first;
        shard.cp_size = (uint32_t)state->cp;
        shard.cp_rank = place.cp;
    }
    return shard;
}

static const struct kvf_request_table *find_table(const struct kvf_request *request,
                                                  uint32_t group)
{
    for (size_t i = 0; i < request->n_tables; i++) {
        if (request->tables[i].group == group) {
            return &request->tables[i];
        }
    }
    return NULL;
}

static const struct kvf_layout *find_layout(const struct kvf_pool_layout *layouts,
                                            size_t n, uint32_t group)
{
    for (size_t i = 0; i < n; i++) {
        if (layouts[i].group == group) {
            return &layouts[i].layout;
        }
    }
    return NULL;
}

static enum kvf_status keep_layout(struct kvf_request *request, struct kvf_layout *out,
                                   const struct kvf_layout *layout)
{
    size_t n_bytes = layout->n_layers * sizeof(uint64_t);
    uint64_t *offsets = kvf_arena_alloc(&request->arena, n_bytes);
    if (offsets == NULL) {
        return KVF_NO_MEMORY;
    }
    memcpy(offsets, layout->layer_offsets, n_bytes);
    *out = *layout;
    out->layer_offsets = offsets;
    return KVF_OK;
}

static enum kvf_status plan_stream(struct kvf_transfer *transfer,
                                   const struct kvf_pair *pair,
                                   struct kvf_stream_plan *stream,
                                   struct kvf_plan_refusal *out_refusal)
{
    const struct kvf_segment *segment = &stream->segment;
    struct kvf_request *request = transfer->request;
    const struct kvf_request_table *table = find_table(request, segment->group);
    const struct kvf_layout *peer_layout =
        find_layout(pair->peer_layouts, pair->n_peer_layouts, segment->group);
    if (table == NULL || peer_layout == NULL) {
        (void)snprintf(out_refusal->text, sizeof(out_refusal->text),
                       "pool group %u is known to one side only", segment->group);
        return KVF_LAYOUT_MISMATCH;
    }
    enum kvf_status status = keep_layout(request, &stream->peer_layout, peer_layout);
    if (status != KVF_OK) {
        return status;
    }
    struct kvf_shard ours = shard_of(pair->our_state, pair->peer_state, request->rank,
                                     segment->group, &table->pool->layout);
    ours.blocks = table->blocks;
    ours.n_blocks = table->n_blocks;
    struct kvf_shard theirs =
        shard_of(pair->peer_state, pair->our_state, transfer->peer_rank, segment->group,
                 &stream->peer_layout);
    if (pair->local_sender != NULL) {
        const struct kvf_request_table *source =
            find_table(pair->local_sender->request, segment->group);
        if (source == NULL) {
            return KVF_LAYOUT_MISMATCH;
        }
        theirs.blocks = source->blocks;
        theirs.n_blocks = source->n_blocks;
        stream->other = source->pool;
    }
    const struct kvf_plan_range range = {
        .token_first = segment->token_first,
        .n_tokens = segment->n_tokens,
        .layer_first = segment->layer_first,
        .n_layers = segment->n_layers,
    };
    bool is_sender = transfer->direction == KVF_SEND;
    status = kvf_plan_build(is_sender ? &ours : &theirs, is_sender ? &theirs : &ours,
                            &range, &stream->plan, out_refusal);
    if (status != KVF_OK) {
        return status;
    }
    stream->pool = table->pool;
    stream->n_bytes = kvf_plan_bytes(&stream->plan);
    stream->n_runs = kvf_plan_runs(&stream->plan);
    return KVF_OK;
}

enum kvf_status kvf_transfer_plan(struct kvf_transfer *transfer,
                                  const struct kvf_pair *pair,
                                  struct kvf_plan_refusal *out_refusal)
{
    transfer->total_bytes = 0;
    transfer->plan_hash = transfer->n_streams;
    transfer->timing.n_runs = 0;
    for (size_t i = 0; i < transfer->n_streams; i++) {
        struct kvf_stream_plan *stream = &transfer->streams[i];
        enum kvf_status status = plan_stream(transfer, pair, stream, out_refusal);
        if (status != KVF_OK) {
            return status;
        }
        transfer->total_bytes += stream->n_bytes;
        transfer->timing.n_runs += stream->n_runs;
        transfer->plan_hash =
            transfer->plan_hash * 0x100000001b3u ^ kvf_plan_hash(&stream->plan);
    }
    return KVF_OK;
}

enum kvf_status kvf_transfer_make_streams(struct kvf_transfer *transfer,
                                          const struct kvf_segment *segments, size_t n)
{
    transfer->streams =
        kvf_arena_alloc(&transfer->request->arena, n * sizeof(*transfer->streams));
    if (transfer->streams == NULL && n > 0) {
        return KVF_NO_MEMORY;
    }
    for (size_t i = 0; i < n; i++) {
        transfer->streams[i].segment = segments[i];
    }
    transfer->n_streams = n;
    return KVF_OK;
}

enum kvf_path kvf_transfer_choose_path(const struct kvf_transfer *transfer)
{
    if (transfer->peer->is_self) {
        return KVF_PATH_LOCAL_HOST;
    }
    const struct kvf_transport *transport = transfer->peer->transport;
    bool may_be_direct = transfer->direction == KVF_SEND
                             ? transport->ops->is_direct_send
                             : transport->ops->is_direct_receive;
    uint64_t n_runs = transfer->timing.n_runs;
    uint64_t mean = n_runs > 0 ? transfer->total_bytes / n_runs : UINT64_MAX;
    return may_be_direct && mean >= KVF_DIRECT_MIN_RUN_BYTES ? KVF_PATH_DIRECT
                                                             : KVF_PATH_STAGED;
}

size_t kvf_request_layouts(const struct kvf_request *request, struct kvf_pool_layout *out)
{
    for (size_t i = 0; i < request->n_tables; i++) {
        out[i] = (struct kvf_pool_layout){
            .group = request->tables[i].group,
            .memory = request->tables[i].pool->memory_kind,
            .layout = request->tables[i].pool->layout,
        };
    }
    return request->n_tables;
}
