/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Context params and the comm state as the caller sees them. Reading params needs no
 * engine: routers do it too. Nothing here sends but kvf_comm_state_set(), which asks the
 * daemon before it believes a new name. Caller's thread.
 */
#include <string.h>
#include <unistd.h>

#include "client/engine_private.h"

static enum kvf_status decode(const void *params, size_t params_len,
                              struct kvf_arena *arena, struct kvf_context_params *out)
{
    const char *detail;
    if (params == NULL || params_len > KVF_PARAMS_MAX) {
        return KVF_BAD_PARAMS;
    }
    kvf_arena_init(arena, kvf_message_budget(params_len));
    return kvf_context_params_decode(params, params_len, arena, out, &detail);
}

static void fill_info(const struct kvf_context_params *params,
                      struct kvf_params_info *out_info)
{
    const struct kvf_comm_state *comm = &params->state.comm;
    *out_info = (struct kvf_params_info){
        .size = sizeof(*out_info),
        .attempt = params->attempt,
        .request_id = params->request_id,
        .n_tokens = params->n_tokens,
        .n_first_tokens = (uint32_t)params->n_first_tokens,
        .n_draft_tokens = (uint32_t)params->n_draft_tokens,
    };
    kvf_text_copy(out_info->label, sizeof(out_info->label), params->label);
    if (!params->has_state || !params->state.has_comm) {
        return;
    }
    out_info->rank = (uint32_t)comm->self_rank;
    kvf_text_copy(out_info->instance, sizeof(out_info->instance), comm->instance);
    if (comm->self_rank >= 0 && (size_t)comm->self_rank < comm->n_nodes) {
        kvf_text_copy(out_info->node, sizeof(out_info->node),
                      comm->node_names[comm->self_rank]);
    }
}

enum kvf_status kvf_params_inspect(const void *params, size_t params_len,
                                   struct kvf_params_info *out_info)
{
    struct kvf_arena arena = {.chunks = NULL};
    struct kvf_context_params decoded;
    if (out_info == NULL || out_info->size < sizeof(*out_info)) {
        return KVF_INVALID_ARGUMENT;
    }
    enum kvf_status status = decode(params, params_len, &arena, &decoded);
    if (status == KVF_OK) {
        fill_info(&decoded, out_info);
    }
    kvf_arena_fini(&arena);
    return status;
}

static enum kvf_status copy_tokens(const int32_t *from, size_t n_from, int32_t *tokens,
                                   size_t *n)
{
    size_t capacity = *n;
    *n = n_from;
    if (capacity < n_from) {
        return KVF_BUFFER_TOO_SMALL;
    }
    if (n_from > 0) {
        memcpy(tokens, from, n_from * sizeof(*tokens));
    }
    return KVF_OK;
}

static enum kvf_status read_tokens(const void *params, size_t params_len, bool is_draft,
                                   int32_t *tokens, size_t *n)
{
    struct kvf_arena arena = {.chunks = NULL};
    struct kvf_context_params decoded;
    if (n == NULL || (tokens == NULL && *n > 0)) {
        return KVF_INVALID_ARGUMENT;
    }
    enum kvf_status status = decode(params, params_len, &arena, &decoded);
    if (status == KVF_OK && is_draft) {
        status = copy_tokens(decoded.draft_tokens, decoded.n_draft_tokens, tokens, n);
    } else if (status == KVF_OK) {
        status = copy_tokens(decoded.first_tokens, decoded.n_first_tokens, tokens, n);
    }
    kvf_arena_fini(&arena);
    return status;
}

enum kvf_status kvf_params_first_tokens(const void *params, size_t params_len,
                                        int32_t *tokens, size_t *n)
{
    return read_tokens(params, params_len, false, tokens, n);
}

enum kvf_status kvf_params_draft_tokens(const void *params, size_t params_len,
                                        int32_t *tokens, size_t *n)
{
    return read_tokens(params, params_len, true, tokens, n);
}

/* ---- comm state */

enum kvf_status kvf_comm_state_get(const struct kvf_engine *engine, void *state,
                                   size_t *len)
{
    if (engine == NULL || len == NULL || (state == NULL && *len > 0)) {
        return KVF_INVALID_ARGUMENT;
    }
    if (getpid() != engine->pid) {
        return KVF_FORKED;
    }
    return kvf_comm_state_encode(&engine->state.comm, state, len);
}

static enum kvf_status replace_names(struct kvf_engine *engine, const void *bytes,
                                     size_t n_bytes, struct kvf_arena *arena)
{
    struct kvf_comm_state given;
    const char *detail = "";
    enum kvf_status status =
        kvf_comm_state_decode(bytes, n_bytes, arena, &given, &detail);
    if (status != KVF_OK) {
        return kvf_engine_fail(engine, status, "comm state: %s", detail);
    }
    struct kvf_comm_state wanted = engine->state.comm;
    wanted.node_names = given.node_names;
    wanted.n_nodes = given.n_nodes;
    const struct kvf_message question = {.type = KVF_MSG_COMM_STATE_SET,
                                         .u.comm_state_set = {.state = wanted}};
    const struct kvf_answer expected = {.type = KVF_MSG_COMM_STATE_ACK};
    status = kvf_engine_ask(engine, &question, -1, &expected,
                            kvf_deadline_ns(0, KVF_DEFAULT_TIMEOUT_MS));
    if (status == KVF_OK) {
        engine->state.comm = wanted;
    }
    return status;
}

enum kvf_status kvf_comm_state_set(struct kvf_engine *engine, const void *state,
                                   size_t len)
{
    enum kvf_status status = kvf_engine_enter_live(engine);
    if (status != KVF_OK) {
        return status;
    }
    if (state == NULL || len > KVF_PARAMS_MAX) {
        return kvf_engine_fail(engine, KVF_INVALID_ARGUMENT,
                               "no comm state, or over %u bytes", KVF_PARAMS_MAX);
    }
    struct kvf_arena arena;
    kvf_arena_init(&arena, kvf_message_budget(len));
    status = replace_names(engine, state, len, &arena);
    if (status != KVF_OK) {
        kvf_arena_fini(&arena);
        return status;
    }
    kvf_arena_fini(&engine->names_arena);
    engine->names_arena = arena; /* the names live there */
    return KVF_OK;
}
