/* SPDX-License-Identifier: Apache-2.0 */
/* Cache state, comm state, block keys, layouts and context params on the wire. */
#include <string.h>

#include "proto/codec.h"

#define KVF_NODE_NAME_MAX  63u
#define KVF_LABEL_TEXT_MAX 64u
#define KVF_FEW_TOKENS_MAX 4096u
#define KVF_EXTRA_KEYS_MAX 1024u
#define KVF_UUID_MAX       64u

/* Repeated scalars are borrowed as they are; packing only reads them. */
static int32_t *borrow_i32(const int32_t *values)
{
    union {
        const int32_t *in;
        int32_t *out;
    } as = {.in = values};
    return as.out;
}

/* ---- out */

Kvferry__CacheState *kvf_put_cache_state(struct kvf_encoder *encoder,
                                         const struct kvf_cache_state *state)
{
    struct {
        Kvferry__CacheState cache;
        Kvferry__ModelConfig model;
        Kvferry__ParallelConfig parallel;
        Kvferry__AttentionConfig attention;
    } *wire = kvf_encoder_alloc(encoder, 1, sizeof(*wire));
    if (wire == NULL) {
        return NULL;
    }
    kvf_put_limit(encoder, state->n_model_layers, KVF_LAYERS_MAX,
                  "nb_kv_heads_per_layer");
    kvf_put_limit(encoder, state->n_stages, KVF_LAYERS_MAX, "attention_layer_num_per_pp");
    kvferry__model_config__init(&wire->model);
    wire->model.n_nb_kv_heads_per_layer = state->n_model_layers;
    wire->model.nb_kv_heads_per_layer = borrow_i32(state->kv_heads_per_layer);
    wire->model.size_per_head = state->size_per_head;
    wire->model.tokens_per_block = state->tokens_per_block;
    kvferry__parallel_config__init(&wire->parallel);
    wire->parallel.tensor_parallelism = state->tp;
    wire->parallel.pipeline_parallelism = state->pp;
    wire->parallel.context_parallelism = state->cp;
    wire->parallel.enable_attention_dp = state->has_attention_dp != 0;
    wire->parallel.dp_rank = state->dp_rank;
    wire->parallel.dp_size = state->dp_size;
    wire->parallel.n_attention_layer_num_per_pp = state->n_stages;
    wire->parallel.attention_layer_num_per_pp = borrow_i32(state->layers_per_stage);
    kvferry__attention_config__init(&wire->attention);
    wire->attention.attention_type = state->attention;
    wire->attention.kv_factor = state->kv_factor;
    kvferry__cache_state__init(&wire->cache);
    wire->cache.model = &wire->model;
    wire->cache.parallel = &wire->parallel;
    wire->cache.attention = &wire->attention;
    wire->cache.data_type = state->dtype;
    wire->cache.enable_block_reuse = state->has_block_reuse != 0;
    wire->cache.enable_partial_reuse = state->has_partial_reuse != 0;
    wire->cache.has_indexer_k_cache = state->has_indexer != 0;
    wire->cache.indexer_dim_per_head = state->indexer_dim_per_head;
    wire->cache.indexer_k_cache_quant_block_size = state->indexer_quant_block_size;
    wire->cache.indexer_k_cache_use_fp4 = state->indexer_is_fp4 != 0;
    wire->cache.rank_convention = state->rank_convention;
    return &wire->cache;
}

Kvferry__CommState *kvf_put_comm_state(struct kvf_encoder *encoder,
                                       const struct kvf_comm_state *state)
{
    Kvferry__CommState *wire = kvf_encoder_alloc(encoder, 1, sizeof(*wire));
    char **names = kvf_encoder_alloc(encoder, state->n_nodes + 1, sizeof(*names));
    kvf_put_limit(encoder, state->n_nodes, KVF_RANKS_MAX, "node_names");
    if (wire == NULL || names == NULL) {
        return NULL;
    }
    kvferry__comm_state__init(wire);
    for (size_t i = 0; i < state->n_nodes; i++) {
        names[i] =
            kvf_put_text(encoder, state->node_names[i], KVF_NODE_NAME_MAX, "node_names");
    }
    wire->n_node_names = state->n_nodes;
    wire->node_names = names;
    wire->instance_nonce = kvf_put_bytes(state->instance_nonce, KVF_NONCE_BYTES);
    wire->self_rank = state->self_rank;
    wire->instance =
        kvf_put_text(encoder, state->instance, KVF_NODE_NAME_MAX, "instance");
    return wire;
}

Kvferry__DataTransceiverState *kvf_put_state(struct kvf_encoder *encoder,
                                             const struct kvf_transceiver_state *state)
{
    Kvferry__DataTransceiverState *wire = kvf_encoder_alloc(encoder, 1, sizeof(*wire));
    if (wire == NULL) {
        return NULL;
    }
    kvferry__data_transceiver_state__init(wire);
    wire->has_cache_state = state->has_cache;
    wire->cache_state =
        state->has_cache ? kvf_put_cache_state(encoder, &state->cache) : NULL;
    wire->has_comm_state = state->has_comm;
    wire->comm_state = state->has_comm ? kvf_put_comm_state(encoder, &state->comm) : NULL;
    wire->is_arbitrary_transfer_state = state->is_arbitrary;
    return wire;
}

static bool put_tokens(struct kvf_encoder *encoder, const struct kvf_block_key *key,
                       Kvferry__BlockKey *wire)
{
    size_t n = key->n_tokens;
    kvf_put_limit(encoder, n, KVF_TOKENS_MAX, "unique_tokens");
    Kvferry__UniqueToken *tokens = kvf_encoder_alloc(encoder, n + 1, sizeof(*tokens));
    wire->unique_tokens = kvf_encoder_alloc(encoder, n + 1, sizeof(*wire->unique_tokens));
    if (tokens == NULL || wire->unique_tokens == NULL) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        kvferry__unique_token__init(&tokens[i]);
        tokens[i].token_id = key->tokens[i].token_id;
        tokens[i].token_extra_id = key->tokens[i].extra_id;
        wire->unique_tokens[i] = &tokens[i];
    }
    wire->n_unique_tokens = n;
    return true;
}

static bool put_extra_keys(struct kvf_encoder *encoder, const struct kvf_block_key *key,
                           Kvferry__BlockKey *wire)
{
    size_t n = key->n_extra_keys;
    kvf_put_limit(encoder, n, KVF_EXTRA_KEYS_MAX, "extra_keys");
    Kvferry__ExtraKey *keys = kvf_encoder_alloc(encoder, n + 1, sizeof(*keys));
    wire->extra_keys = kvf_encoder_alloc(encoder, n + 1, sizeof(*wire->extra_keys));
    if (keys == NULL || wire->extra_keys == NULL) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        kvferry__extra_key__init(&keys[i]);
        keys[i].hash = kvf_put_bytes(key->extra_keys[i].hash, 32);
        keys[i].start_offset = key->extra_keys[i].start_offset;
        keys[i].uuid =
            kvf_put_text(encoder, key->extra_keys[i].uuid, KVF_UUID_MAX, "uuid");
        wire->extra_keys[i] = &keys[i];
    }
    wire->n_extra_keys = n;
    return true;
}

Kvferry__BlockKey *kvf_put_block_key(struct kvf_encoder *encoder,
                                     const struct kvf_block_key *key)
{
    Kvferry__BlockKey *wire = kvf_encoder_alloc(encoder, 1, sizeof(*wire));
    if (wire == NULL) {
        return NULL;
    }
    kvferry__block_key__init(wire);
    wire->uses_extra_ids = key->uses_extra_ids;
    wire->has_lora_task_id = key->has_lora_task_id;
    wire->lora_task_id = key->lora_task_id;
    wire->has_cache_salt_id = key->has_cache_salt_id;
    wire->cache_salt_id = key->cache_salt_id;
    return put_tokens(encoder, key, wire) && put_extra_keys(encoder, key, wire) ? wire
                                                                                : NULL;
}

Kvferry__PoolLayout *kvf_put_layout(struct kvf_encoder *encoder,
                                    const struct kvf_pool_layout *pool)
{
    const struct kvf_layout *layout = &pool->layout;
    Kvferry__PoolLayout *wire = kvf_encoder_alloc(encoder, 1, sizeof(*wire));
    kvf_put_limit(encoder, layout->n_layers, KVF_LAYERS_MAX, "layer_offsets");
    if (wire == NULL || encoder->bad != NULL) {
        return NULL;
    }
    kvferry__pool_layout__init(wire);
    wire->layer_offsets =
        kvf_encoder_alloc(encoder, layout->n_layers, sizeof(*wire->layer_offsets));
    if (wire->layer_offsets == NULL) {
        return NULL;
    }
    for (uint32_t i = 0; i < layout->n_layers; i++) {
        wire->layer_offsets[i] = (int64_t)layout->layer_offsets[i];
    }
    wire->n_layer_offsets = layout->n_layers;
    wire->group = pool->group;
    wire->memory = pool->memory;
    wire->n_layers = layout->n_layers;
    wire->kv_factor = layout->kv_factor;
    wire->n_heads = layout->n_heads;
    wire->tokens_per_block = layout->tokens_per_block;
    wire->row_bytes = layout->row_bytes;
    wire->n_blocks = layout->n_blocks;
    wire->dtype = layout->dtype;
    wire->block_stride = layout->block_stride;
    wire->kv_stride = layout->kv_stride;
    wire->head_stride = layout->head_stride;
    wire->token_stride = layout->token_stride;
    return wire;
}

Kvferry__ContextPhaseParams *kvf_put_params(struct kvf_encoder *encoder,
                                            const struct kvf_context_params *params)
{
    Kvferry__ContextPhaseParams *wire = kvf_encoder_alloc(encoder, 1, sizeof(*wire));
    if (wire == NULL) {
        return NULL;
    }
    kvferry__context_phase_params__init(wire);
    kvf_put_limit(encoder, params->n_first_tokens, KVF_FEW_TOKENS_MAX,
                  "first_gen_tokens");
    kvf_put_limit(encoder, params->n_draft_tokens, KVF_FEW_TOKENS_MAX, "draft_tokens");
    wire->req_id = params->request_id;
    wire->attempt = params->attempt;
    wire->n_tokens = params->n_tokens;
    wire->n_first_gen_tokens = params->n_first_tokens;
    wire->first_gen_tokens = borrow_i32(params->first_tokens);
    wire->has_draft_tokens = params->has_draft_tokens;
    wire->n_draft_tokens = params->n_draft_tokens;
    wire->draft_tokens = borrow_i32(params->draft_tokens);
    wire->label = kvf_put_text(encoder, params->label, KVF_LABEL_TEXT_MAX, "label");
    if (params->has_trace_id) {
        wire->trace_id = kvf_put_bytes(params->trace_id, 16);
    }
    wire->has_state = params->has_state;
    if (params->has_state) {
        Kvferry__DataTransceiverState *state = kvf_put_state(encoder, &params->state);
        if (state == NULL || encoder->bad != NULL) {
            return NULL;
        }
        size_t n = kvferry__data_transceiver_state__get_packed_size(state);
        wire->state.data = kvf_encoder_alloc(encoder, 1, n + 1);
        if (wire->state.data == NULL) {
            return NULL;
        }
        wire->state.len = kvferry__data_transceiver_state__pack(state, wire->state.data);
    }
    return wire;
}

/* ---- in */

void kvf_get_cache_state(struct kvf_decoder *decoder, const Kvferry__CacheState *wire,
                         struct kvf_cache_state *out)
{
    if (wire == NULL || wire->model == NULL || wire->parallel == NULL ||
        wire->attention == NULL) {
        decoder->bad = "cache_state";
        return;
    }
    if (!kvf_get_limit(decoder, wire->model->n_nb_kv_heads_per_layer, KVF_LAYERS_MAX,
                       "nb_kv_heads_per_layer") ||
        !kvf_get_limit(decoder, wire->parallel->n_attention_layer_num_per_pp,
                       KVF_LAYERS_MAX, "attention_layer_num_per_pp")) {
        return;
    }
    *out = (struct kvf_cache_state){
        .kv_heads_per_layer = wire->model->nb_kv_heads_per_layer,
        .n_model_layers = wire->model->n_nb_kv_heads_per_layer,
        .size_per_head = wire->model->size_per_head,
        .tokens_per_block = wire->model->tokens_per_block,
        .tp = wire->parallel->tensor_parallelism,
        .pp = wire->parallel->pipeline_parallelism,
        .cp = wire->parallel->context_parallelism,
        .has_attention_dp = wire->parallel->enable_attention_dp ? 1 : 0,
        .dp_rank = wire->parallel->dp_rank,
        .dp_size = wire->parallel->dp_size,
        .layers_per_stage = wire->parallel->attention_layer_num_per_pp,
        .n_stages = wire->parallel->n_attention_layer_num_per_pp,
        .attention = wire->attention->attention_type,
        .kv_factor = wire->attention->kv_factor,
        .dtype = wire->data_type,
        .has_block_reuse = wire->enable_block_reuse ? 1 : 0,
        .has_partial_reuse = wire->enable_partial_reuse ? 1 : 0,
        .has_indexer = wire->has_indexer_k_cache ? 1 : 0,
        .indexer_dim_per_head = wire->indexer_dim_per_head,
        .indexer_quant_block_size = wire->indexer_k_cache_quant_block_size,
        .indexer_is_fp4 = wire->indexer_k_cache_use_fp4 ? 1 : 0,
        .rank_convention = wire->rank_convention,
    };
}

void kvf_get_comm_state(struct kvf_decoder *decoder, const Kvferry__CommState *wire,
                        struct kvf_comm_state *out)
{
    if (wire == NULL) {
        decoder->bad = "comm_state";
        return;
    }
    if (!kvf_get_limit(decoder, wire->n_node_names, KVF_RANKS_MAX, "node_names")) {
        return;
    }
    const char **names = kvf_decoder_alloc(decoder, wire->n_node_names, sizeof(*names));
    if (names == NULL) {
        return;
    }
    for (size_t i = 0; i < wire->n_node_names; i++) {
        names[i] =
            kvf_get_text(decoder, wire->node_names[i], KVF_NODE_NAME_MAX, "node_names");
    }
    out->node_names = names;
    out->n_nodes = wire->n_node_names;
    out->self_rank = wire->self_rank;
    out->instance = kvf_get_text(decoder, wire->instance, KVF_NODE_NAME_MAX, "instance");
    kvf_get_exact(decoder, &wire->instance_nonce, out->instance_nonce, KVF_NONCE_BYTES,
                  "instance_nonce");
}

void kvf_get_state(struct kvf_decoder *decoder, const Kvferry__DataTransceiverState *wire,
                   struct kvf_transceiver_state *out)
{
    if (wire == NULL) {
        return; /* nothing said: neither state is there */
    }
    out->has_cache = wire->has_cache_state;
    out->has_comm = wire->has_comm_state;
    out->is_arbitrary = wire->is_arbitrary_transfer_state;
    if (out->has_cache) {
        kvf_get_cache_state(decoder, wire->cache_state, &out->cache);
    }
    if (out->has_comm) {
        kvf_get_comm_state(decoder, wire->comm_state, &out->comm);
    }
}

void kvf_get_block_key(struct kvf_decoder *decoder, const Kvferry__BlockKey *wire,
                       struct kvf_block_key *out)
{
    if (wire == NULL) {
        decoder->bad = "last_block_key";
        return;
    }
    if (!kvf_get_limit(decoder, wire->n_unique_tokens, KVF_TOKENS_MAX, "unique_tokens") ||
        !kvf_get_limit(decoder, wire->n_extra_keys, KVF_EXTRA_KEYS_MAX, "extra_keys")) {
        return;
    }
    struct kvf_unique_token *tokens =
        kvf_decoder_alloc(decoder, wire->n_unique_tokens, sizeof(*tokens));
    struct kvf_extra_key *keys =
        kvf_decoder_alloc(decoder, wire->n_extra_keys, sizeof(*keys));
    if (tokens == NULL || keys == NULL) {
        return;
    }
    for (size_t i = 0; i < wire->n_unique_tokens; i++) {
        tokens[i].token_id = wire->unique_tokens[i]->token_id;
        tokens[i].extra_id = wire->unique_tokens[i]->token_extra_id;
    }
    for (size_t i = 0; i < wire->n_extra_keys; i++) {
        const Kvferry__ExtraKey *key = wire->extra_keys[i];
        kvf_get_exact(decoder, &key->hash, keys[i].hash, sizeof(keys[i].hash), "hash");
        keys[i].start_offset = key->start_offset;
        keys[i].uuid = kvf_get_text(decoder, key->uuid, KVF_UUID_MAX, "uuid");
    }
    *out = (struct kvf_block_key){
        .uses_extra_ids = wire->uses_extra_ids,
        .has_lora_task_id = wire->has_lora_task_id,
        .has_cache_salt_id = wire->has_cache_salt_id,
        .lora_task_id = wire->lora_task_id,
        .cache_salt_id = wire->cache_salt_id,
        .tokens = tokens,
        .n_tokens = wire->n_unique_tokens,
        .extra_keys = keys,
        .n_extra_keys = wire->n_extra_keys,
    };
}

void kvf_get_layout(struct kvf_decoder *decoder, const Kvferry__PoolLayout *wire,
                    struct kvf_pool_layout *out)
{
    if (wire == NULL || wire->n_layers > KVF_LAYERS_MAX ||
        wire->n_layer_offsets != wire->n_layers) {
        decoder->bad = "layer_offsets";
        return;
    }
    uint64_t *offsets = kvf_decoder_alloc(decoder, wire->n_layers, sizeof(*offsets));
    if (offsets == NULL) {
        return;
    }
    for (size_t i = 0; i < wire->n_layers; i++) {
        offsets[i] = (uint64_t)wire->layer_offsets[i];
    }
    *out = (struct kvf_pool_layout){
        .group = wire->group,
        .memory = wire->memory,
        .layout = {.size = sizeof(struct kvf_layout),
                   .n_layers = wire->n_layers,
                   .kv_factor = wire->kv_factor,
                   .n_heads = wire->n_heads,
                   .tokens_per_block = wire->tokens_per_block,
                   .row_bytes = wire->row_bytes,
                   .n_blocks = wire->n_blocks,
                   .dtype = wire->dtype,
                   .block_stride = wire->block_stride,
                   .kv_stride = wire->kv_stride,
                   .head_stride = wire->head_stride,
                   .token_stride = wire->token_stride,
                   .layer_offsets = offsets},
    };
}

void kvf_get_params(struct kvf_decoder *decoder, const Kvferry__ContextPhaseParams *wire,
                    struct kvf_context_params *out)
{
    if (wire == NULL) {
        decoder->bad = "params";
        return;
    }
    if (!kvf_get_limit(decoder, wire->n_first_gen_tokens, KVF_FEW_TOKENS_MAX,
                       "first_gen_tokens") ||
        !kvf_get_limit(decoder, wire->n_draft_tokens, KVF_FEW_TOKENS_MAX,
                       "draft_tokens")) {
        return;
    }
    out->request_id = wire->req_id;
    out->attempt = wire->attempt;
    out->n_tokens = wire->n_tokens;
    out->first_tokens = wire->first_gen_tokens;
    out->n_first_tokens = wire->n_first_gen_tokens;
    out->has_draft_tokens = wire->has_draft_tokens;
    out->draft_tokens = wire->draft_tokens;
    out->n_draft_tokens = wire->n_draft_tokens;
    out->label = kvf_get_text(decoder, wire->label, KVF_LABEL_TEXT_MAX, "label");
    out->has_trace_id = kvf_get_trace(decoder, &wire->trace_id, out->trace_id);
    out->has_state = wire->has_state;
    if (!wire->has_state) {
        return;
    }
    ProtobufCAllocator allocator = kvf_arena_allocator(decoder->arena);
    Kvferry__DataTransceiverState *state = kvferry__data_transceiver_state__unpack(
        &allocator, wire->state.len, wire->state.data);
    if (state == NULL) {
        decoder->bad = "state";
        return;
    }
    kvf_get_state(decoder, state, &out->state);
}
