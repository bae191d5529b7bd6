/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Offering, asking, fencing, cancelling: each call is judged, written into one frame and
 * remembered in one record, or it leaves nothing. Nothing here waits; the outcome comes
 * through inbox.c. Caller's thread.
 */
#include <string.h>

#include "client/engine_private.h"
#include "proto/frame.h"

static enum kvf_status check_new(struct kvf_engine *engine, uint64_t request_id,
                                 uint32_t attempt, bool is_receive,
                                 const uint8_t nonce[KVF_NONCE_BYTES])
{
    const struct kvf_list *bucket = kvf_record_bucket(engine, request_id);
    for (struct kvf_node *node = kvf_list_first(bucket); node != NULL;
         node = kvf_list_next(bucket, node)) {
        const struct kvf_record *record =
            KVF_CONTAINER(node, struct kvf_record, bucket_node);
        if (record->event.request_id == request_id && record->attempt == attempt &&
            record->is_receive == is_receive &&
            memcmp(record->nonce, nonce, KVF_NONCE_BYTES) == 0) {
            return kvf_engine_fail(engine, KVF_DUPLICATE,
                                   "request %llu attempt %u is live, or its last event "
                                   "was not read",
                                   (unsigned long long)request_id, attempt);
        }
    }
    return KVF_OK;
}

static void hold_pools(struct kvf_engine *engine, struct kvf_record *record,
                       const struct kvf_table *tables, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct kvf_pool *pool = kvf_engine_pool(engine, tables[i].group);
        pool->n_transfers++;
        record->pools[record->n_pools++] = pool;
    }
}

static enum kvf_status fail_limit(struct kvf_engine *engine)
{
    return kvf_engine_fail(engine, KVF_BUSY,
                           "%u transfers are live or unread; the limit is the daemon's "
                           "engine.max_requests (%u)",
                           kvf_slab_used(engine->records), kvf_slab_max(engine->records));
}

/* ---- offering */

static enum kvf_status check_tokens(struct kvf_engine *engine,
                                    const struct kvf_send_args *args)
{
    if (args->n_tokens == 0) {
        return kvf_engine_fail(engine, KVF_INVALID_ARGUMENT, "n_tokens is 0");
    }
    if ((args->first_tokens == NULL && args->n_first_tokens > 0) ||
        (args->draft_tokens == NULL && args->n_draft_tokens > 0)) {
        return kvf_engine_fail(engine, KVF_INVALID_ARGUMENT,
                               "first_tokens or draft_tokens is NULL");
    }
    if ((args->flags & ~(uint32_t)KVF_SEND_NOT_READY) != 0) {
        return kvf_engine_fail(engine, KVF_UNSUPPORTED, "flags %#x: unknown bits",
                               args->flags);
    }
    return KVF_OK;
}

/* Fills in everything of the offer but its handle. */
static enum kvf_status build_offer(struct kvf_engine *engine,
                                   const struct kvf_send_args *args,
                                   struct kvf_table tables[KVF_TABLES_MAX],
                                   struct kvf_offer *out)
{
    enum kvf_status status =
        kvf_arguments_struct(engine, "kvf_send_args", args, sizeof(*args));
    if (status == KVF_OK) {
        status = kvf_arguments_text(engine, "label", args->label, KVF_LABEL_MAX);
    }
    if (status == KVF_OK) {
        status = check_tokens(engine, args);
    }
    if (status == KVF_OK) {
        status = kvf_arguments_tables(engine, args->tables, args->n_tables,
                                      args->n_tokens, tables);
    }
    if (status == KVF_OK && args->trace_id != NULL) {
        status = kvf_arguments_trace_id(engine, args->trace_id, out->trace_id);
    }
    if (status != KVF_OK) {
        return status;
    }
    out->request_id = args->request_id;
    out->attempt = args->attempt;
    out->n_tokens = args->n_tokens;
    out->deadline_ms = args->deadline_ms;
    out->label = args->label;
    out->tables = tables;
    out->n_tables = args->n_tables;
    out->is_ready = (args->flags & KVF_SEND_NOT_READY) == 0;
    out->has_trace_id = args->trace_id != NULL;
    out->block_hashes = args->block_hashes;
    out->n_block_hashes = args->block_hashes != NULL ? tables[0].n_blocks : 0;
    return KVF_OK;
}

static enum kvf_status write_params(struct kvf_engine *engine,
                                    const struct kvf_send_args *args,
                                    const struct kvf_offer *offer, void *params,
                                    size_t *params_len)
{
    struct kvf_context_params what = {
        .request_id = args->request_id,
        .attempt = args->attempt,
        .n_tokens = args->n_tokens,
        .first_tokens = args->first_tokens,
        .n_first_tokens = args->n_first_tokens,
        .has_draft_tokens = args->n_draft_tokens > 0,
        .draft_tokens = args->draft_tokens,
        .n_draft_tokens = args->n_draft_tokens,
        .has_state = true,
        .state = engine->state,
        .label = args->label,
        .has_trace_id = offer->has_trace_id,
    };
    memcpy(what.trace_id, offer->trace_id, sizeof(what.trace_id));
    size_t n = *params_len;
    enum kvf_status status = kvf_context_params_encode(&what, params, &n);
    if ((status == KVF_OK || status == KVF_BUFFER_TOO_SMALL) && n > KVF_PARAMS_MAX) {
        return kvf_engine_fail(engine, KVF_INVALID_ARGUMENT,
                               "the params would have %zu bytes; %u are allowed", n,
                               KVF_PARAMS_MAX);
    }
    if (status == KVF_BUFFER_TOO_SMALL) {
        *params_len = n;
        return kvf_engine_fail(engine, status, "the params have %zu bytes", n);
    }
    if (status != KVF_OK) {
        return kvf_engine_fail(engine, status, "first_tokens or draft_tokens: %s",
                               kvf_status_text(status));
    }
    *params_len = n;
    return KVF_OK;
}

static enum kvf_status post_offer(struct kvf_engine *engine,
                                  const struct kvf_send_args *args,
                                  struct kvf_offer *offer, uint64_t *out_handle)
{
    struct kvf_record *record = kvf_record_create(engine, args->request_id);
    if (record == NULL) {
        return fail_limit(engine);
    }
    record->attempt = args->attempt;
    record->is_fenced = !offer->is_ready;
    record->event.user_data = args->user_data;
    memcpy(record->nonce, engine->state.comm.instance_nonce, sizeof(record->nonce));
    hold_pools(engine, record, offer->tables, args->n_tables);
    offer->handle = record->event.handle;
    const struct kvf_message message = {.type = KVF_MSG_OFFER, .u.offer = *offer};
    enum kvf_status status = kvf_engine_send(engine, &message, -1);
    if (status != KVF_OK) {
        kvf_record_destroy(engine, record);
        return status;
    }
    *out_handle = offer->handle;
    return KVF_OK;
}

enum kvf_status kvf_send_async(struct kvf_engine *engine,
                               const struct kvf_send_args *args, void *params,
                               size_t *params_len, uint64_t *out_handle)
{
    enum kvf_status status = kvf_engine_enter_live(engine);
    if (status != KVF_OK) {
        return status;
    }
    if (params_len == NULL || (params == NULL && *params_len > 0) || out_handle == NULL) {
        return kvf_engine_fail(engine, KVF_INVALID_ARGUMENT, "an output is NULL");
    }
    struct kvf_table tables[KVF_TABLES_MAX];
    struct kvf_offer offer = {.handle = 0};
    status = build_offer(engine, args, tables, &offer);
    if (status == KVF_OK) {
        status = check_new(engine, args->request_id, args->attempt, false,
                           engine->state.comm.instance_nonce);
    }
    size_t n = status == KVF_OK ? *params_len : 0;
    if (status == KVF_OK) {
        status = write_params(engine, args, &offer, params, &n);
    }
    if (status == KVF_OK) {
        status = post_offer(engine, args, &offer, out_handle);
    }
    if (status == KVF_OK || status == KVF_BUFFER_TOO_SMALL) {
        *params_len = n;
    }
    return status;
}

enum kvf_status kvf_send_ready(struct kvf_engine *engine, uint64_t handle,
                               enum kvf_status outcome)
{
    enum kvf_status status = kvf_engine_enter_live(engine);
    if (status != KVF_OK) {
        return status;
    }
    struct kvf_record *record = kvf_record_find(engine, handle);
    if (record == NULL) {
        return kvf_engine_fail(engine, KVF_NOT_FOUND, "no such transfer");
    }
    if (!record->is_fenced || outcome == KVF_IN_PROGRESS) {
        return kvf_engine_fail(engine, KVF_INVALID_ARGUMENT,
                               "the transfer waits for no kvf_send_ready(), or the "
                               "status is none");
    }
    if ((record->event.bits & KVF_EVENT_DONE) != 0) {
        return kvf_engine_fail(engine, KVF_TOO_LATE, "the transfer ended already");
    }
    const struct kvf_message message = {
        .type = KVF_MSG_OFFER_READY,
        .u.offer_ready = {.handle = handle, .status = outcome},
    };
    status = kvf_engine_send(engine, &message, -1);
    if (status == KVF_OK) {
        record->is_fenced = false;
    }
    return status;
}

/* ---- asking */

static enum kvf_status read_params(struct kvf_engine *engine,
                                   const struct kvf_receive_args *args,
                                   struct kvf_context_params *out)
{
    const char *detail = "";
    if (args->params == NULL || args->params_len > KVF_PARAMS_MAX) {
        return kvf_engine_fail(engine, KVF_BAD_PARAMS, "no params, or over %u bytes",
                               KVF_PARAMS_MAX);
    }
    /* The inbox is empty of borrowed messages whenever a call of the engine runs. */
    kvf_arena_reset(&engine->inbox_arena, kvf_message_budget(args->params_len));
    enum kvf_status status = kvf_context_params_decode(
        args->params, args->params_len, &engine->inbox_arena, out, &detail);
    if (status == KVF_OK && (!out->has_state || !out->state.has_comm)) {
        status = KVF_BAD_PARAMS;
        detail = "they do not say who offers";
    }
    return status == KVF_OK
               ? KVF_OK
               : kvf_engine_fail(engine, status, "context params: %s", detail);
}

static enum kvf_status check_prefix(struct kvf_engine *engine,
                                    const struct kvf_receive_args *args,
                                    uint32_t n_tokens)
{
    uint32_t block = kvf_engine_pool(engine, args->tables[0].group)->tokens_per_block;
    bool is_whole = args->n_prefix_tokens == n_tokens;
    if (args->n_prefix_tokens > n_tokens ||
        (!is_whole && args->n_prefix_tokens % block != 0)) {
        return kvf_engine_fail(engine, KVF_INVALID_ARGUMENT,
                               "prefix of %u tokens: not whole blocks of %u, or more "
                               "than the prompt's %u",
                               args->n_prefix_tokens, block, n_tokens);
    }
    return KVF_OK;
}

/* Fills in everything of the message but its handle; it borrows from the inbox arena. */
static enum kvf_status build_receive(struct kvf_engine *engine,
                                     const struct kvf_receive_args *args,
                                     struct kvf_table tables[KVF_TABLES_MAX],
                                     struct kvf_receive_message *out)
{
    enum kvf_status status =
        kvf_arguments_struct(engine, "kvf_receive_args", args, sizeof(*args));
    if (status == KVF_OK) {
        status = kvf_arguments_text(engine, "label", args->label, KVF_LABEL_MAX);
    }
    if (status == KVF_OK) {
        status = read_params(engine, args, &out->params);
    }
    if (status == KVF_OK) {
        status = kvf_arguments_tables(engine, args->tables, args->n_tables,
                                      out->params.n_tokens, tables);
    }
    if (status == KVF_OK) {
        status = check_prefix(engine, args, out->params.n_tokens);
    }
    if (status != KVF_OK) {
        return status;
    }
    out->n_prefix_tokens = args->n_prefix_tokens;
    out->deadline_ms = args->deadline_ms;
    out->tables = tables;
    out->n_tables = args->n_tables;
    out->label = args->label;
    out->block_hashes = args->block_hashes;
    out->n_block_hashes = args->block_hashes != NULL ? tables[0].n_blocks : 0;
    return KVF_OK;
}

enum kvf_status kvf_receive_async(struct kvf_engine *engine,
                                  const struct kvf_receive_args *args,
                                  uint64_t *out_handle)
{
    enum kvf_status status = kvf_engine_enter_live(engine);
    if (status != KVF_OK) {
        return status;
    }
    if (out_handle == NULL) {
        return kvf_engine_fail(engine, KVF_INVALID_ARGUMENT, "out_handle is NULL");
    }
    struct kvf_table tables[KVF_TABLES_MAX];
    struct kvf_message message = {.type = KVF_MSG_RECEIVE};
    struct kvf_receive_message *receive = &message.u.receive;
    status = build_receive(engine, args, tables, receive);
    if (status != KVF_OK) {
        return status;
    }
    const struct kvf_context_params *params = &receive->params;
    const uint8_t *nonce = params->state.comm.instance_nonce;
    status = check_new(engine, params->request_id, params->attempt, true, nonce);
    if (status != KVF_OK) {
        return status;
    }
    struct kvf_record *record = kvf_record_create(engine, params->request_id);
    if (record == NULL) {
        return fail_limit(engine);
    }
    record->is_receive = true;
    record->attempt = params->attempt;
    record->event.user_data = args->user_data;
    memcpy(record->nonce, nonce, sizeof(record->nonce));
    hold_pools(engine, record, tables, args->n_tables);
    receive->handle = record->event.handle;
    status = kvf_engine_send(engine, &message, -1);
    if (status != KVF_OK) {
        kvf_record_destroy(engine, record);
        return status;
    }
    *out_handle = receive->handle;
    return KVF_OK;
}

/* ---- cancelling */

static enum kvf_status cancel_record(struct kvf_engine *engine, struct kvf_record *record)
{
    if (record->is_cancel_sent) {
        return KVF_OK;
    }
    const struct kvf_message message = {
        .type = KVF_MSG_ENGINE_CANCEL,
        .u.engine_cancel = {.handle = record->event.handle},
    };
    enum kvf_status status = kvf_engine_send(engine, &message, -1);
    if (status == KVF_OK) {
        record->is_cancel_sent = true;
    }
    return status;
}

enum kvf_status kvf_cancel(struct kvf_engine *engine, uint64_t handle)
{
    enum kvf_status status = kvf_engine_enter_live(engine);
    if (status != KVF_OK) {
        return status;
    }
    struct kvf_record *record = kvf_record_find(engine, handle);
    if (record == NULL || (record->event.bits & KVF_EVENT_DONE) != 0) {
        return kvf_engine_fail(engine, KVF_NOT_FOUND, "no such live transfer");
    }
    return cancel_record(engine, record);
}

enum kvf_status kvf_cancel_request(struct kvf_engine *engine, uint64_t request_id)
{
    enum kvf_status status = kvf_engine_enter_live(engine);
    if (status != KVF_OK) {
        return status;
    }
    const struct kvf_list *bucket = kvf_record_bucket(engine, request_id);
    size_t n_found = 0;
    for (struct kvf_node *node = kvf_list_first(bucket); node != NULL && status == KVF_OK;
         node = kvf_list_next(bucket, node)) {
        struct kvf_record *record = KVF_CONTAINER(node, struct kvf_record, bucket_node);
        if (record->event.request_id == request_id &&
            (record->event.bits & KVF_EVENT_DONE) == 0) {
            status = cancel_record(engine, record);
            n_found++;
        }
    }
    return n_found > 0 ? status
                       : kvf_engine_fail(engine, KVF_NOT_FOUND,
                                         "request %llu has no live transfer",
                                         (unsigned long long)request_id);
}
