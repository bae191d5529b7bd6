/* SPDX-License-Identifier: Apache-2.0 */
/* Equality of states and requests, field by field; how a comm state reads in a log. */
#include <stdio.h>
#include <string.h>

#include "proto/message.h"

static bool same_text(const char *a, const char *b)
{
    return strcmp(a != NULL ? a : "", b != NULL ? b : "") == 0;
}

static bool same_bytes(const void *a, const void *b, size_t n)
{
    return n == 0 || memcmp(a, b, n) == 0;
}

bool kvf_cache_state_equal(const struct kvf_cache_state *a,
                           const struct kvf_cache_state *b)
{
    return a->n_model_layers == b->n_model_layers && a->n_stages == b->n_stages &&
           same_bytes(a->kv_heads_per_layer, b->kv_heads_per_layer,
                      a->n_model_layers * sizeof(*a->kv_heads_per_layer)) &&
           same_bytes(a->layers_per_stage, b->layers_per_stage,
                      a->n_stages * sizeof(*a->layers_per_stage)) &&
           a->size_per_head == b->size_per_head &&
           a->tokens_per_block == b->tokens_per_block && a->tp == b->tp &&
           a->pp == b->pp && a->cp == b->cp &&
           a->has_attention_dp == b->has_attention_dp && a->dp_rank == b->dp_rank &&
           a->dp_size == b->dp_size && a->attention == b->attention &&
           a->kv_factor == b->kv_factor && a->dtype == b->dtype &&
           a->has_block_reuse == b->has_block_reuse &&
           a->has_partial_reuse == b->has_partial_reuse &&
           a->has_indexer == b->has_indexer &&
           a->indexer_dim_per_head == b->indexer_dim_per_head &&
           a->indexer_quant_block_size == b->indexer_quant_block_size &&
           a->indexer_is_fp4 == b->indexer_is_fp4 &&
           a->rank_convention == b->rank_convention;
}

bool kvf_comm_state_equal(const struct kvf_comm_state *a, const struct kvf_comm_state *b)
{
    if (a->n_nodes != b->n_nodes || !same_text(a->instance, b->instance) ||
        memcmp(a->instance_nonce, b->instance_nonce, KVF_NONCE_BYTES) != 0) {
        return false;
    }
    for (size_t i = 0; i < a->n_nodes; i++) {
        if (!same_text(a->node_names[i], b->node_names[i])) {
            return false;
        }
    }
    return true;
}

static bool same_state(const struct kvf_transceiver_state *a,
                       const struct kvf_transceiver_state *b)
{
    return a->has_cache == b->has_cache && a->has_comm == b->has_comm &&
           a->is_arbitrary == b->is_arbitrary &&
           (!a->has_cache || kvf_cache_state_equal(&a->cache, &b->cache)) &&
           (!a->has_comm || kvf_comm_state_equal(&a->comm, &b->comm));
}

bool kvf_block_key_equal(const struct kvf_block_key *a, const struct kvf_block_key *b)
{
    if (a->uses_extra_ids != b->uses_extra_ids ||
        a->has_lora_task_id != b->has_lora_task_id ||
        (a->has_lora_task_id && a->lora_task_id != b->lora_task_id) ||
        a->has_cache_salt_id != b->has_cache_salt_id ||
        (a->has_cache_salt_id && a->cache_salt_id != b->cache_salt_id) ||
        a->n_tokens != b->n_tokens || a->n_extra_keys != b->n_extra_keys) {
        return false;
    }
    for (size_t i = 0; i < a->n_tokens; i++) {
        if (a->tokens[i].token_id != b->tokens[i].token_id ||
            a->tokens[i].extra_id != b->tokens[i].extra_id) {
            return false;
        }
    }
    for (size_t i = 0; i < a->n_extra_keys; i++) {
        const struct kvf_extra_key *left = &a->extra_keys[i], *right = &b->extra_keys[i];
        if (memcmp(left->hash, right->hash, sizeof(left->hash)) != 0 ||
            left->start_offset != right->start_offset ||
            !same_text(left->uuid, right->uuid)) {
            return false;
        }
    }
    return true;
}

static bool same_layout(const struct kvf_pool_layout *a, const struct kvf_pool_layout *b)
{
    const struct kvf_layout *left = &a->layout, *right = &b->layout;
    return a->group == b->group && a->memory == b->memory &&
           left->n_layers == right->n_layers && left->kv_factor == right->kv_factor &&
           left->n_heads == right->n_heads &&
           left->tokens_per_block == right->tokens_per_block &&
           left->row_bytes == right->row_bytes && left->n_blocks == right->n_blocks &&
           left->dtype == right->dtype && left->block_stride == right->block_stride &&
           left->kv_stride == right->kv_stride &&
           left->head_stride == right->head_stride &&
           left->token_stride == right->token_stride &&
           same_bytes(left->layer_offsets, right->layer_offsets,
                      left->n_layers * sizeof(*left->layer_offsets));
}

static bool same_lists(const struct kvf_request_info *a, const struct kvf_request_info *b)
{
    if (a->n_segments != b->n_segments || a->n_layouts != b->n_layouts ||
        a->n_block_hashes != b->n_block_hashes ||
        !same_bytes(a->segments, b->segments, a->n_segments * sizeof(*a->segments)) ||
        !same_bytes(a->block_hashes, b->block_hashes,
                    a->n_block_hashes * sizeof(*a->block_hashes))) {
        return false;
    }
    for (size_t i = 0; i < a->n_layouts; i++) {
        if (!same_layout(&a->layouts[i], &b->layouts[i])) {
            return false;
        }
    }
    return true;
}

bool kvf_request_info_equal(const struct kvf_request_info *a,
                            const struct kvf_request_info *b)
{
    return a->request_id == b->request_id && a->index_from_end == b->index_from_end &&
           a->has_last_block_key == b->has_last_block_key &&
           (!a->has_last_block_key ||
            kvf_block_key_equal(&a->last_block_key, &b->last_block_key)) &&
           same_state(&a->state, &b->state) && a->attempt == b->attempt &&
           a->context_rank == b->context_rank && a->remaining_ms == b->remaining_ms &&
           a->integrity == b->integrity && a->max_chunk_bytes == b->max_chunk_bytes &&
           a->n_tokens == b->n_tokens &&
           memcmp(a->instance_nonce, b->instance_nonce, KVF_NONCE_BYTES) == 0 &&
           a->receiver_session == b->receiver_session &&
           a->lease_generation == b->lease_generation &&
           a->credit_chunks == b->credit_chunks && same_lists(a, b) &&
           a->has_trace_id == b->has_trace_id &&
           (!a->has_trace_id || memcmp(a->trace_id, b->trace_id, 16) == 0) &&
           same_text(a->path, b->path) && same_text(a->label, b->label);
}

void kvf_comm_state_format(const struct kvf_comm_state *state, char *out,
                           size_t out_bytes)
{
    int n = snprintf(out, out_bytes, "kvferry:%s[", state->instance);
    size_t at = n > 0 ? (size_t)n : 0;
    for (size_t i = 0; i < state->n_nodes && at < out_bytes; i++) {
        n = snprintf(out + at, out_bytes - at, "%s%s", i > 0 ? "," : "",
                     state->node_names[i]);
        at += n > 0 ? (size_t)n : 0;
    }
    if (at < out_bytes) {
        (void)snprintf(out + at, out_bytes - at, "]"); /* cut is fine */
    }
}
