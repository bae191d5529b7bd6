/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What engines ask for, judged: every block id lies in its pool, every table covers the
 * prompt, the counterpart exists. A refusal is an event for the engine; nothing of a
 * refused request stays.
 */
#include <stdio.h>
#include <string.h>

#include "service/request_private.h"

/* Room for a sentence about a refusal. */
struct kvf_sentence {
    char text[KVF_DETAIL_MAX];
};

#define REFUSE(sentence, status, ...)                                                    \
    ((void)snprintf((sentence)->text, sizeof((sentence)->text), __VA_ARGS__), (status))

static enum kvf_status copy_table(struct kvf_request *request,
                                  const struct kvf_table *table, struct kvf_sentence *out)
{
    struct kvf_daemon_pool *pool = kvf_session_pool(request->session, table->group);
    if (pool == NULL) {
        return REFUSE(out, KVF_BAD_REF, "no pool of group %u is registered",
                      table->group);
    }
    uint64_t covered = (uint64_t)table->n_blocks * pool->layout.tokens_per_block;
    if (table->n_blocks == 0 || covered < request->n_tokens) {
        return REFUSE(out, KVF_INVALID_ARGUMENT,
                      "group %u: %zu blocks of %u tokens do not hold %u tokens",
                      table->group, table->n_blocks, pool->layout.tokens_per_block,
                      request->n_tokens);
    }
    struct kvf_plan_refusal refusal = {.text = ""};
    enum kvf_status status =
        kvf_blocks_check(&pool->layout, table->blocks, table->n_blocks,
                         request->direction == KVF_RECEIVE, &refusal);
    if (status != KVF_OK) {
        return REFUSE(out, status, "group %u: %s", table->group, refusal.text);
    }
    uint32_t *blocks =
        kvf_arena_alloc(&request->arena, table->n_blocks * sizeof(*table->blocks));
    if (blocks == NULL) {
        return REFUSE(out, KVF_NO_MEMORY, "no memory for the block table");
    }
    memcpy(blocks, table->blocks, table->n_blocks * sizeof(*blocks));
    kvf_daemon_pool_acquire(pool);
    request->tables[request->n_tables++] = (struct kvf_request_table){
        .group = table->group,
        .n_blocks = (uint32_t)table->n_blocks,
        .blocks = blocks,
        .pool = pool,
    };
    request->n_blocks += table->n_blocks;
    return KVF_OK;
}

static enum kvf_status copy_tables(struct kvf_request *request,
                                   const struct kvf_table *tables, size_t n,
                                   struct kvf_sentence *out)
{
    if (n == 0 || n > KVF_TABLES_MAX) {
        return REFUSE(out, KVF_INVALID_ARGUMENT, "%zu block tables; 1 to %u are allowed",
                      n, KVF_TABLES_MAX);
    }
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < i; j++) {
            if (tables[j].group == tables[i].group) {
                return REFUSE(out, KVF_INVALID_ARGUMENT, "group %u has two block tables",
                              tables[i].group);
            }
        }
        enum kvf_status status = copy_table(request, &tables[i], out);
        if (status != KVF_OK) {
            return status;
        }
    }
    return KVF_OK;
}

static enum kvf_status copy_hashes(struct kvf_request *request, const uint64_t *hashes,
                                   size_t n, struct kvf_sentence *out)
{
    if (n == 0) {
        return KVF_OK;
    }
    uint64_t *copy = kvf_arena_alloc(&request->arena, n * sizeof(*copy));
    if (copy == NULL) {
        return REFUSE(out, KVF_NO_MEMORY, "no memory for the block hashes");
    }
    memcpy(copy, hashes, n * sizeof(*copy));
    request->block_hashes = copy;
    request->n_block_hashes = n;
    return KVF_OK;
}

static void set_common(struct kvf_request *request, const char *label,
                       uint32_t deadline_ms, bool has_trace_id,
                       const uint8_t trace_id[16])
{
    const struct kvf_config *config = request->requests->config.config;
    (void)kvf_log_escape(label, strlen(label), request->label, sizeof(request->label));
    if (deadline_ms == 0) {
        deadline_ms = config->engine.default_deadline_ms;
    }
    if (deadline_ms > config->engine.max_deadline_ms) {
        deadline_ms = config->engine.max_deadline_ms;
    }
    request->deadline_ns = request->accepted_ns + deadline_ms * KVF_NS_PER_MS;
    request->has_trace_id = has_trace_id;
    memcpy(request->trace_id, trace_id, sizeof(request->trace_id));
}

/* Whether the session may have one more request under this key. */
static enum kvf_status admit(struct kvf_requests *requests, struct kvf_session *session,
                             enum kvf_direction direction,
                             const struct kvf_match_key *key, struct kvf_sentence *out)
{
    const struct kvf_config *config = requests->config.config;
    if (requests->is_draining) {
        return REFUSE(out, KVF_SHUTDOWN, "this node drains");
    }
    if (session->requests.n >= config->engine.max_requests) {
        return REFUSE(out, KVF_BUSY,
                      "%u requests of this engine are live, the limit is "
                      "engine.max_requests",
                      config->engine.max_requests);
    }
    if (kvf_request_find(requests, direction, key) != NULL) {
        return REFUSE(out, KVF_DUPLICATE, "request %llu attempt %u is live",
                      (unsigned long long)key->request_id, key->attempt);
    }
    return KVF_OK;
}

void kvf_requests_on_offer(void *owner, struct kvf_session *session,
                           const struct kvf_offer *offer)
{
    struct kvf_requests *requests = owner;
    struct kvf_sentence sentence = {.text = ""};
    struct kvf_match_key key = {.request_id = offer->request_id,
                                .attempt = offer->attempt,
                                .rank = session->rank};
    memcpy(key.nonce, session->nonce, sizeof(key.nonce));
    enum kvf_status status = admit(requests, session, KVF_SEND, &key, &sentence);
    if (status == KVF_OK && session->instance->role == KVF_ROLE_GENERATION) {
        status = REFUSE(&sentence, KVF_PERMISSION, "instance %s is a generation instance",
                        session->instance->name);
    }
    struct kvf_request *request =
        status == KVF_OK
            ? kvf_request_create(requests, session, KVF_SEND, &key, offer->handle)
            : NULL;
    if (request == NULL) {
        kvf_request_reject(session, offer->handle, status == KVF_OK ? KVF_BUSY : status,
                           sentence.text);
        requests->totals.n_refused++;
        return;
    }
    request->n_tokens = offer->n_tokens;
    request->is_fenced = offer->is_ready;
    set_common(request, offer->label, offer->deadline_ms, offer->has_trace_id,
               offer->trace_id);
    status =
        offer->n_tokens > 0
            ? copy_tables(request, offer->tables, offer->n_tables, &sentence)
            : REFUSE(&sentence, KVF_INVALID_ARGUMENT, "an offer needs n_tokens >= 1");
    if (status == KVF_OK) {
        status =
            copy_hashes(request, offer->block_hashes, offer->n_block_hashes, &sentence);
    }
    if (status != KVF_OK) {
        kvf_request_end_now(request, status, sentence.text);
        return;
    }
    kvf_request_arm_timer(request);
    kvf_requests_match_early(requests, request);
}

/* ---- receive */

static int32_t *copy_ints(struct kvf_request *request, const int32_t *from, uint64_t n)
{
    int32_t *copy = kvf_arena_alloc(&request->arena, n * sizeof(*copy) + 1);
    if (copy != NULL) {
        memcpy(copy, from, n * sizeof(*copy));
    }
    return copy;
}

static enum kvf_status copy_peer_state(struct kvf_request *request,
                                       const struct kvf_cache_state *state,
                                       struct kvf_sentence *out)
{
    request->peer_state = *state;
    request->peer_state.kv_heads_per_layer =
        copy_ints(request, state->kv_heads_per_layer, state->n_model_layers);
    request->peer_state.layers_per_stage =
        copy_ints(request, state->layers_per_stage, state->n_stages);
    if (request->peer_state.kv_heads_per_layer == NULL ||
        request->peer_state.layers_per_stage == NULL) {
        return REFUSE(out, KVF_NO_MEMORY, "no memory for the cache state");
    }
    return KVF_OK;
}

/* The one rank of the context instance that serves us. Several are for the fan-out. */
static enum kvf_status find_counterpart(struct kvf_request *request, uint32_t *out_rank,
                                        struct kvf_sentence *out)
{
    struct kvf_transceiver_state ours;
    struct kvf_plan_refusal refusal = {.text = ""};
    struct kvf_targets targets;
    uint32_t picked[KVF_TARGETS_MAX];
    kvf_session_state(request->session, &ours);
    enum kvf_status status =
        kvf_cache_state_support(&request->peer_state, &ours.cache, &refusal);
    if (status == KVF_OK) {
        status = kvf_rank_targets(&request->peer_state, &ours.cache,
                                  (int32_t)request->rank, &targets, &refusal);
    }
    if (status != KVF_OK) {
        return REFUSE(out, status, "%s", refusal.text);
    }
    size_t n = kvf_rank_pick_recv(&ours.cache, (int32_t)request->rank,
                                  &request->peer_state, &targets, picked);
    if (n != 1 || targets.n_ranks != 1) {
        return REFUSE(
            out, KVF_UNSUPPORTED,
            "rank %u would talk to %u context ranks; this release serves ranks one "
            "to one",
            request->rank, targets.n_ranks);
    }
    *out_rank = (uint32_t)targets.ranks[picked[0]];
    return KVF_OK;
}

static enum kvf_status find_node(struct kvf_requests *requests,
                                 const struct kvf_comm_state *comm, uint32_t rank,
                                 struct kvf_peer **out_peer, struct kvf_sentence *out)
{
    if (rank >= comm->n_nodes) {
        return REFUSE(out, KVF_BAD_PARAMS, "the params name %zu nodes, rank %u is wanted",
                      comm->n_nodes, rank);
    }
    struct kvf_peer *peer = kvf_peers_find(requests->peers, comm->node_names[rank]);
    if (peer == NULL) {
        char name[80];
        return REFUSE(out, KVF_PEER_UNKNOWN, "node '%s' is not in this node's topology",
                      kvf_log_escape(comm->node_names[rank],
                                     strlen(comm->node_names[rank]), name, sizeof(name)));
    }
    *out_peer = peer;
    return KVF_OK;
}

static enum kvf_status prepare_receive(struct kvf_request *request,
                                       const struct kvf_receive_message *receive,
                                       uint32_t *out_rank, struct kvf_peer **out_peer,
                                       struct kvf_sentence *out)
{
    const struct kvf_transceiver_state *state = &receive->params.state;
    if (receive->n_prefix_tokens > request->n_tokens) {
        return REFUSE(out, KVF_INVALID_ARGUMENT, "prefix of %u tokens, the prompt has %u",
                      receive->n_prefix_tokens, request->n_tokens);
    }
    request->n_prefix_tokens = receive->n_prefix_tokens;
    enum kvf_status status =
        copy_tables(request, receive->tables, receive->n_tables, out);
    if (status == KVF_OK) {
        status =
            copy_hashes(request, receive->block_hashes, receive->n_block_hashes, out);
    }
    if (status == KVF_OK) {
        status = copy_peer_state(request, &state->cache, out);
    }
    if (status == KVF_OK) {
        status = find_counterpart(request, out_rank, out);
    }
    if (status == KVF_OK) {
        status = find_node(request->requests, &state->comm, *out_rank, out_peer, out);
    }
    return status;
}

static enum kvf_status judge_params(const struct kvf_receive_message *receive,
                                    const struct kvf_session *session,
                                    struct kvf_sentence *out)
{
    const struct kvf_context_params *params = &receive->params;
    if (!params->has_state || !params->state.has_cache || !params->state.has_comm) {
        return REFUSE(out, KVF_BAD_PARAMS, "the params lack the transceiver state");
    }
    if (params->n_tokens == 0) {
        return REFUSE(out, KVF_BAD_PARAMS, "the params describe an empty prompt");
    }
    if (session->instance->role == KVF_ROLE_CONTEXT) {
        return REFUSE(out, KVF_PERMISSION, "instance %s is a context instance",
                      session->instance->name);
    }
    return KVF_OK;
}

void kvf_requests_on_receive(void *owner, struct kvf_session *session,
                             const struct kvf_receive_message *receive)
{
    struct kvf_requests *requests = owner;
    const struct kvf_context_params *params = &receive->params;
    struct kvf_sentence sentence = {.text = ""};
    struct kvf_match_key key = {.request_id = params->request_id,
                                .attempt = params->attempt,
                                .rank = session->rank};
    memcpy(key.nonce, params->state.comm.instance_nonce, sizeof(key.nonce));
    enum kvf_status status = judge_params(receive, session, &sentence);
    if (status == KVF_OK) {
        status = admit(requests, session, KVF_RECEIVE, &key, &sentence);
    }
    struct kvf_request *request =
        status == KVF_OK
            ? kvf_request_create(requests, session, KVF_RECEIVE, &key, receive->handle)
            : NULL;
    if (request == NULL) {
        kvf_request_reject(session, receive->handle, status == KVF_OK ? KVF_BUSY : status,
                           sentence.text);
        requests->totals.n_refused++;
        return;
    }
    request->n_tokens = params->n_tokens;
    const char *label = receive->label[0] != '\0' ? receive->label : params->label;
    set_common(request, label, receive->deadline_ms, params->has_trace_id,
               params->trace_id);
    uint32_t rank = 0;
    struct kvf_peer *peer = NULL;
    status = prepare_receive(request, receive, &rank, &peer, &sentence);
    if (status != KVF_OK) {
        kvf_request_end_now(request, status, sentence.text);
        return;
    }
    struct kvf_transfer *transfer =
        kvf_transfer_create(requests->config.transfers, request, peer, rank);
    if (transfer == NULL) {
        kvf_request_end_now(request, KVF_BUSY,
                            "too many transfers are live on this node");
        return;
    }
    kvf_request_arm_timer(request);
    if (request->status == KVF_IN_PROGRESS) {
        kvf_transfer_start_receive(transfer);
    }
}
