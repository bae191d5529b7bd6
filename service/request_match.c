/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RequestInfos of peers meet offers of engines, in any order. One that comes early waits
 * as bytes in a bounded table until its offer comes or its time is up; one that comes too
 * late finds a tombstone. Nobody waits for anybody else's request.
 */
#include <stdio.h>
#include <string.h>

#include "proto/frame.h"
#include "service/request_private.h"

static struct kvf_match_key key_of(const struct kvf_request_info *info)
{
    struct kvf_match_key key = {.request_id = info->request_id,
                                .attempt = info->attempt,
                                .rank = info->context_rank};
    memcpy(key.nonce, info->instance_nonce, sizeof(key.nonce));
    return key;
}

/* ---- the early table */

static void early_free(void *object)
{
    struct kvf_early *early = object;
    kvf_buf_fini(&early->frame);
    kvf_free(early);
}

static void early_remove(struct kvf_early *early)
{
    struct kvf_requests *requests = early->requests;
    kvf_loop_timer_stop(&early->timer);
    kvf_list_remove(&requests->early, &early->node);
    requests->early_bytes -= kvf_buf_length(&early->frame);
    kvf_loop_destroy_later(requests->config.loop, &early->zombie, early_free, early);
}

static void on_early_timeout(void *owner)
{
    struct kvf_early *early = owner;
    kvf_transfer_refuse(early->peer, early->receiver_session, KVF_EXPIRED,
                        "the blocks were not offered in time");
    early_remove(early);
}

static enum kvf_status keep_early(struct kvf_requests *requests, struct kvf_peer *peer,
                                  const struct kvf_message *message)
{
    const struct kvf_request_info *info = &message->u.request_info;
    if (requests->early.n >= KVF_EARLY_MAX ||
        requests->early_bytes >= KVF_EARLY_MAX_BYTES) {
        return KVF_BUSY;
    }
    struct kvf_early *early = kvf_alloc(sizeof(*early));
    if (early == NULL) {
        return KVF_NO_MEMORY;
    }
    early->requests = requests;
    early->key = key_of(info);
    early->peer = peer;
    early->receiver_session = info->receiver_session;
    kvf_buf_init(&early->frame, KVF_FRAME_MAX_PEER + KVF_FRAME_HEADER_BYTES);
    enum kvf_status status = kvf_message_encode(message, 0, 0, &early->frame);
    uint64_t deadline_ns =
        kvf_loop_now_ns(requests->config.loop) + info->remaining_ms * KVF_NS_PER_MS;
    if (status == KVF_OK) {
        status = kvf_loop_timer_start(requests->config.loop, &early->timer, deadline_ns,
                                      on_early_timeout, early);
    }
    if (status != KVF_OK) {
        early_free(early);
        return status;
    }
    requests->early_bytes += kvf_buf_length(&early->frame);
    kvf_list_add_tail(&requests->early, &early->node);
    return KVF_OK;
}

void kvf_requests_drop_early(struct kvf_requests *requests, const struct kvf_peer *peer)
{
    struct kvf_node *next;
    for (struct kvf_node *node = kvf_list_first(&requests->early); node != NULL;
         node = next) {
        struct kvf_early *early = KVF_CONTAINER(node, struct kvf_early, node);
        next = kvf_list_next(&requests->early, node);
        if (peer == NULL || early->peer == peer) {
            early_remove(early);
        }
    }
}

void kvf_requests_cancel_early(struct kvf_requests *requests, struct kvf_peer *peer,
                               const struct kvf_cancel_message *cancel)
{
    const uint64_t receiver_session = cancel->receiver_session;
    struct kvf_node *next;
    for (struct kvf_node *node = kvf_list_first(&requests->early); node != NULL;
         node = next) {
        struct kvf_early *early = KVF_CONTAINER(node, struct kvf_early, node);
        next = kvf_list_next(&requests->early, node);
        if (early->peer == peer && early->receiver_session == receiver_session) {
            early_remove(early);
        }
    }
    /* It may have matched already, before our Ready reached the receiver. */
    for (struct kvf_node *node = kvf_list_first(&peer->transfers); node != NULL;
         node = next) {
        struct kvf_transfer *transfer =
            KVF_CONTAINER(node, struct kvf_transfer, peer_node);
        next = kvf_list_next(&peer->transfers, node);
        if (transfer->direction == KVF_SEND &&
            transfer->peer_session == receiver_session) {
            kvf_transfer_stop(transfer, kvf_transfer_cancel_cause(cancel), cancel->detail,
                              false);
        }
    }
}

/* ---- matching */

static enum kvf_status compare_hashes(const struct kvf_request *request,
                                      const struct kvf_request_info *info, char *out,
                                      size_t out_bytes)
{
    size_t n = request->n_block_hashes < info->n_block_hashes ? request->n_block_hashes
                                                              : info->n_block_hashes;
    for (size_t i = 0; i < n; i++) {
        if (request->block_hashes[i] != info->block_hashes[i]) {
            (void)snprintf(out, out_bytes, "block %zu holds other tokens than asked for",
                           i);
            return KVF_HASH_MISMATCH;
        }
    }
    return KVF_OK;
}

static enum kvf_status judge(const struct kvf_request *request,
                             const struct kvf_request_info *info, char *out,
                             size_t out_bytes)
{
    struct kvf_plan_refusal refusal = {.text = ""};
    struct kvf_transceiver_state ours;
    struct kvf_targets targets;
    if (!info->state.has_cache || !info->state.has_comm) {
        (void)snprintf(out, out_bytes, "RequestInfo lacks the receiver's state");
        return KVF_PROTOCOL;
    }
    if (info->n_tokens != request->n_tokens) {
        (void)snprintf(out, out_bytes,
                       "prompt length: sender offers %u tokens, receiver "
                       "wants %u",
                       request->n_tokens, info->n_tokens);
        return KVF_LAYOUT_MISMATCH;
    }
    kvf_session_state(request->session, &ours);
    enum kvf_status status =
        kvf_cache_state_support(&ours.cache, &info->state.cache, &refusal);
    if (status == KVF_OK) {
        status = kvf_rank_targets(&info->state.cache, &ours.cache, (int32_t)request->rank,
                                  &targets, &refusal);
    }
    if (status != KVF_OK) {
        (void)snprintf(out, out_bytes, "%s", refusal.text);
        return status;
    }
    if (targets.n_ranks != 1 || targets.ranks[0] != info->state.comm.self_rank) {
        (void)snprintf(out, out_bytes, "rank %u does not serve rank %d one to one",
                       request->rank, info->state.comm.self_rank);
        return KVF_UNSUPPORTED;
    }
    return compare_hashes(request, info, out, out_bytes);
}

static void match(struct kvf_requests *requests, struct kvf_request *request,
                  struct kvf_peer *peer, const struct kvf_request_info *info)
{
    char detail[KVF_DETAIL_MAX] = "";
    if (request->status != KVF_IN_PROGRESS || request->transfer != NULL) {
        kvf_transfer_refuse(peer, info->receiver_session, KVF_DUPLICATE,
                            "another receiver has these blocks");
        return;
    }
    enum kvf_status status = judge(request, info, detail, sizeof(detail));
    struct kvf_transfer *transfer = NULL;
    if (status == KVF_OK) {
        transfer = kvf_transfer_create(requests->config.transfers, request, peer,
                                       (uint32_t)info->state.comm.self_rank);
        status = transfer != NULL ? KVF_OK : KVF_BUSY;
    }
    if (status != KVF_OK) {
        kvf_transfer_refuse(peer, info->receiver_session, status, detail);
        kvf_request_stop(request, status, detail);
        return;
    }
    kvf_transfer_start_send(transfer, info);
}

void kvf_requests_on_request_info(struct kvf_requests *requests, struct kvf_peer *peer,
                                  const struct kvf_message *message)
{
    const struct kvf_request_info *info = &message->u.request_info;
    struct kvf_match_key key = key_of(info);
    struct kvf_request *request = kvf_request_find(requests, KVF_SEND, &key);
    if (request != NULL) {
        match(requests, request, peer, info);
        return;
    }
    const struct kvf_tombstone *tombstone = kvf_requests_tombstone(requests, &key);
    if (tombstone != NULL) {
        kvf_transfer_refuse(peer, info->receiver_session,
                            tombstone->status == KVF_OK ? KVF_TOO_LATE
                                                        : tombstone->status,
                            "the offer ended before it was asked for");
        return;
    }
    if (kvf_sessions_find_nonce(requests->sessions, key.nonce, key.rank) == NULL) {
        kvf_transfer_refuse(peer, info->receiver_session, KVF_ENGINE_LOST,
                            "the offering engine is not connected to its node any more");
        return;
    }
    enum kvf_status status = keep_early(requests, peer, message);
    if (status != KVF_OK) {
        kvf_transfer_refuse(peer, info->receiver_session, status,
                            "too many requests wait for their offers");
    }
}

void kvf_requests_match_early(struct kvf_requests *requests, struct kvf_request *request)
{
    struct kvf_node *next;
    for (struct kvf_node *node = kvf_list_first(&requests->early); node != NULL;
         node = next) {
        struct kvf_early *early = KVF_CONTAINER(node, struct kvf_early, node);
        next = kvf_list_next(&requests->early, node);
        if (memcmp(&early->key, &request->key, sizeof(early->key)) != 0) {
            continue;
        }
        struct kvf_message message;
        const char *detail = "";
        size_t n = kvf_buf_length(&early->frame) - KVF_FRAME_HEADER_BYTES;
        kvf_arena_reset(&requests->decode, kvf_message_budget(n));
        enum kvf_status status = kvf_message_decode(
            KVF_MSG_REQUEST_INFO, kvf_buf_head(&early->frame) + KVF_FRAME_HEADER_BYTES, n,
            &requests->decode, &message, &detail);
        struct kvf_peer *peer = early->peer;
        if (status == KVF_OK) {
            early_remove(early);
            match(requests, request, peer, &message.u.request_info);
        } else {
            kvf_transfer_refuse(peer, early->receiver_session, status, detail);
            early_remove(early);
        }
    }
}
