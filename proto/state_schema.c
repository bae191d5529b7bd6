/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of what travels inside messages: cache and comm state, block keys, context params,
 * segments and layouts. How to read a row: schema.h. Const data.
 */
#include "kvferry.pb-c.h"
#include "proto/schema.h"

/* ModelConfig, ParallelConfig and AttentionConfig are messages on the wire but members of
 * struct kvf_cache_state here, hence its size. */
static const struct kvf_field model_fields[] = {
    KVF_SCALARS(1, INT32, cache_state, kv_heads_per_layer, n_model_layers,
                KVF_LAYERS_MAX),
    KVF_SCALAR(2, INT32, cache_state, size_per_head),
    KVF_SCALAR(3, INT32, cache_state, tokens_per_block),
};
static const struct kvf_schema model_schema = {
    KVF_SCHEMA(cache_state, kvferry__model_config__descriptor, model_fields)};

static const struct kvf_field parallel_fields[] = {
    KVF_SCALAR(1, INT32, cache_state, tp),
    KVF_SCALAR(2, INT32, cache_state, pp),
    KVF_SCALAR(3, INT32, cache_state, cp),
    KVF_SCALAR(4, BOOL, cache_state, has_attention_dp),
    KVF_SCALAR(5, INT32, cache_state, dp_rank),
    KVF_SCALAR(6, INT32, cache_state, dp_size),
    KVF_SCALARS(7, INT32, cache_state, layers_per_stage, n_stages, KVF_LAYERS_MAX),
};
static const struct kvf_schema parallel_schema = {
    KVF_SCHEMA(cache_state, kvferry__parallel_config__descriptor, parallel_fields)};

static const struct kvf_field attention_fields[] = {
    KVF_SCALAR(1, INT32, cache_state, attention),
    KVF_SCALAR(2, INT32, cache_state, kv_factor),
};
static const struct kvf_schema attention_schema = {
    KVF_SCHEMA(cache_state, kvferry__attention_config__descriptor, attention_fields)};

static const struct kvf_field cache_state_fields[] = {
    KVF_INLINE_RECORD(1, model, &model_schema),
    KVF_INLINE_RECORD(2, parallel, &parallel_schema),
    KVF_INLINE_RECORD(3, attention, &attention_schema),
    KVF_SCALAR(4, INT32, cache_state, dtype),
    KVF_SCALAR(5, BOOL, cache_state, has_block_reuse),
    KVF_SCALAR(6, BOOL, cache_state, has_partial_reuse),
    KVF_SCALAR(7, BOOL, cache_state, has_indexer),
    KVF_SCALAR(8, INT32, cache_state, indexer_dim_per_head),
    KVF_SCALAR(9, INT32, cache_state, indexer_quant_block_size),
    KVF_SCALAR(10, BOOL, cache_state, indexer_is_fp4),
    KVF_SCALAR(11, UINT32, cache_state, rank_convention),
};
const struct kvf_schema kvf_schema_cache_state = {
    KVF_SCHEMA(cache_state, kvferry__cache_state__descriptor, cache_state_fields)};

static const struct kvf_field comm_state_fields[] = {
    KVF_TEXTS(1, comm_state, node_names, n_nodes, KVF_RANKS_MAX),
    KVF_DIGEST(2, comm_state, instance_nonce),
    KVF_UNCOMPARED_SCALAR(3, INT32, comm_state, self_rank),
    KVF_TEXT(4, comm_state, instance, KVF_NAME_MAX),
};
const struct kvf_schema kvf_schema_comm_state = {
    KVF_SCHEMA(comm_state, kvferry__comm_state__descriptor, comm_state_fields)};

static const struct kvf_field transceiver_state_fields[] = {
    KVF_SCALAR(1, BOOL, transceiver_state, has_cache),
    KVF_OPTIONAL_RECORD(2, transceiver_state, cache, has_cache, &kvf_schema_cache_state),
    KVF_SCALAR(3, BOOL, transceiver_state, has_comm),
    KVF_OPTIONAL_RECORD(4, transceiver_state, comm, has_comm, &kvf_schema_comm_state),
    KVF_SCALAR(5, BOOL, transceiver_state, is_arbitrary),
};
const struct kvf_schema kvf_schema_transceiver_state = {
    KVF_SCHEMA(transceiver_state, kvferry__data_transceiver_state__descriptor,
               transceiver_state_fields)};

static const struct kvf_field unique_token_fields[] = {
    KVF_SCALAR(1, INT32, unique_token, token_id),
    KVF_SCALAR(2, UINT64, unique_token, extra_id),
};
static const struct kvf_schema unique_token_schema = {
    KVF_SCHEMA(unique_token, kvferry__unique_token__descriptor, unique_token_fields)};

static const struct kvf_field extra_key_fields[] = {
    KVF_DIGEST(1, extra_key, hash),
    KVF_SCALAR(2, INT32, extra_key, start_offset),
    KVF_TEXT(3, extra_key, uuid, KVF_UUID_BYTES),
};
static const struct kvf_schema extra_key_schema = {
    KVF_SCHEMA(extra_key, kvferry__extra_key__descriptor, extra_key_fields)};

static const struct kvf_field block_key_fields[] = {
    KVF_SCALAR(1, BOOL, block_key, uses_extra_ids),
    KVF_SCALAR(2, BOOL, block_key, has_lora_task_id),
    KVF_SCALAR(3, UINT64, block_key, lora_task_id),
    KVF_RECORDS(4, block_key, tokens, n_tokens, &unique_token_schema, KVF_TOKENS_MAX),
    KVF_RECORDS(5, block_key, extra_keys, n_extra_keys, &extra_key_schema,
                KVF_EXTRA_KEYS_MAX),
    KVF_SCALAR(6, BOOL, block_key, has_cache_salt_id),
    KVF_SCALAR(7, UINT64, block_key, cache_salt_id),
};
const struct kvf_schema kvf_schema_block_key = {
    KVF_SCHEMA(block_key, kvferry__block_key__descriptor, block_key_fields)};

static const struct kvf_field context_params_fields[] = {
    KVF_SCALAR(1, UINT64, context_params, request_id),
    KVF_SCALARS(2, INT32, context_params, first_tokens, n_first_tokens,
                KVF_FIRST_TOKENS_MAX),
    KVF_SCALAR(3, BOOL, context_params, has_draft_tokens),
    KVF_SCALARS(4, INT32, context_params, draft_tokens, n_draft_tokens,
                KVF_FIRST_TOKENS_MAX),
    KVF_SCALAR(5, BOOL, context_params, has_state),
    KVF_PACKED_RECORD(6, context_params, state, has_state, &kvf_schema_transceiver_state,
                      KVF_PARAMS_MAX),
    KVF_SCALAR(7, UINT32, context_params, attempt),
    KVF_SCALAR(8, UINT32, context_params, n_tokens),
    KVF_TEXT(9, context_params, label, KVF_LABEL_MAX),
    KVF_OPTIONAL_DIGEST(10, context_params, trace_id, has_trace_id),
    KVF_RESERVED(11, ticket, KVF_TICKET_BYTES),
};
const struct kvf_schema kvf_schema_context_params = {KVF_SCHEMA(
    context_params, kvferry__context_phase_params__descriptor, context_params_fields)};

static const struct kvf_field segment_fields[] = {
    KVF_SCALAR(1, UINT32, segment, group),    KVF_SCALAR(2, UINT32, segment, token_first),
    KVF_SCALAR(3, UINT32, segment, n_tokens), KVF_SCALAR(4, UINT32, segment, layer_first),
    KVF_SCALAR(5, UINT32, segment, n_layers),
};
const struct kvf_schema kvf_schema_segment = {
    KVF_SCHEMA(segment, kvferry__segment__descriptor, segment_fields)};

static const struct kvf_field pool_layout_fields[] = {
    KVF_SCALAR(1, UINT32, pool_layout, group),
    KVF_SCALAR(2, UINT32, pool_layout, layout.n_layers),
    KVF_SCALAR(3, UINT32, pool_layout, layout.kv_factor),
    KVF_SCALAR(4, UINT32, pool_layout, layout.n_heads),
    KVF_SCALAR(5, UINT32, pool_layout, layout.tokens_per_block),
    KVF_SCALAR(6, UINT32, pool_layout, layout.row_bytes),
    KVF_SCALAR(7, UINT32, pool_layout, layout.n_blocks),
    KVF_SCALAR(8, UINT32, pool_layout, layout.dtype),
    KVF_SCALAR(9, UINT64, pool_layout, layout.block_stride),
    KVF_SCALAR(10, UINT64, pool_layout, layout.kv_stride),
    KVF_SCALAR(11, UINT64, pool_layout, layout.head_stride),
    KVF_SCALAR(12, UINT64, pool_layout, layout.token_stride),
    KVF_COUNTED_SCALARS(13, SINT64, pool_layout, layout.layer_offsets, layout.n_layers,
                        KVF_LAYERS_MAX),
    KVF_SCALAR(14, UINT32, pool_layout, memory),
};

static void complete_pool_layout(void *record)
{
    struct kvf_pool_layout *pool = record;
    pool->layout.size = sizeof(pool->layout);
}

const struct kvf_schema kvf_schema_pool_layout = {
    KVF_SCHEMA(pool_layout, kvferry__pool_layout__descriptor, pool_layout_fields),
    .complete = complete_pool_layout};
