/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine that moves bytes: the only file that sees plan, transport and reply
 * together. A transfer is one counterpart's part of a request. The receiver asks
 * (RequestInfo), the sender answers (Ready) and streams chunks within the receiver's
 * credit; the receiver's receipts are the only proof of delivery. enter_state() is the
 * one transition function. Chunks under way are flow.c's; how each end touches memory is
 * decided once, when the streams are planned. Loop thread.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "service/transfer_private.h"

/* ---- states */

const char *kvf_transfer_state_name(enum kvf_transfer_state state)
{
    static const char *const names[KVF_TRANSFER_STATES] = {
        [KVF_TRANSFER_NEW] = "new",
        [KVF_TRANSFER_MATCHED] = "matched",
        [KVF_TRANSFER_SEND_READY] = "ready",
        [KVF_TRANSFER_SENDING] = "streaming",
        [KVF_TRANSFER_CLOSING] = "closing",
        [KVF_TRANSFER_QUEUED] = "queued",
        [KVF_TRANSFER_REQUESTED] = "requested",
        [KVF_TRANSFER_RECEIVE_READY] = "ready",
        [KVF_TRANSFER_RECEIVING] = "streaming",
        [KVF_TRANSFER_VERIFYING] = "verifying",
        [KVF_TRANSFER_DRAINING] = "draining",
        [KVF_TRANSFER_ENDED] = "ended",
    };
    return names[state];
}

const char *kvf_path_name(enum kvf_path path)
{
    static const char *const names[] = {
        [KVF_PATH_NONE] = "",
        [KVF_PATH_LOCAL_HOST] = "local_host",
        [KVF_PATH_DIRECT] = "direct",
        [KVF_PATH_STAGED] = "staged",
    };
    return names[path];
}

#define TO(state) (1u << KVF_TRANSFER_##state)
#define STOP      (TO(DRAINING) | TO(ENDED))
static const uint32_t edges[KVF_TRANSFER_STATES] = {
    [KVF_TRANSFER_NEW] = TO(MATCHED) | TO(QUEUED) | STOP,
    [KVF_TRANSFER_MATCHED] = TO(SEND_READY) | STOP,
    /* An empty stream closes without a chunk; a local receiver copies by itself. */
    [KVF_TRANSFER_SEND_READY] = TO(SENDING) | TO(CLOSING) | STOP,
    [KVF_TRANSFER_SENDING] = TO(CLOSING) | STOP,
    [KVF_TRANSFER_CLOSING] = STOP,
    [KVF_TRANSFER_QUEUED] = TO(REQUESTED) | STOP,
    [KVF_TRANSFER_REQUESTED] = TO(RECEIVE_READY) | STOP,
    [KVF_TRANSFER_RECEIVE_READY] = TO(RECEIVING) | TO(VERIFYING) | STOP,
    [KVF_TRANSFER_RECEIVING] = TO(VERIFYING) | STOP,
    [KVF_TRANSFER_VERIFYING] = STOP,
    [KVF_TRANSFER_DRAINING] = TO(ENDED),
    [KVF_TRANSFER_ENDED] = 0,
};

static void enter_state(struct kvf_transfer *transfer, enum kvf_transfer_state state)
{
    struct kvf_transfers *transfers = transfer->transfers;
    assert((edges[transfer->state] & (1u << state)) != 0);
    kvf_list_remove(&transfers->by_state[transfer->state], &transfer->state_node);
    transfer->state = state;
    transfer->state_since_ns = kvf_loop_clock_ns(transfers->config.loop);
    kvf_list_add_tail(&transfers->by_state[state], &transfer->state_node);
}

static bool is_over(const struct kvf_transfer *transfer)
{
    return transfer->state == KVF_TRANSFER_DRAINING ||
           transfer->state == KVF_TRANSFER_ENDED;
}

static bool is_local(const struct kvf_transfer *transfer)
{
    return transfer->peer->is_self;
}

/* ---- end */

static void transfer_free(void *object)
{
    struct kvf_transfer *transfer = object;
    kvf_slab_release(transfer->transfers->slab, transfer->id);
}

/* A local receiver reads the sender's blocks; the sender is at rest only without readers.
 * Returns the sender, NULL when it is gone or was none. */
static struct kvf_transfer *let_go_of_sender(struct kvf_transfer *receiver)
{
    if (receiver->local_sender == 0) {
        return NULL;
    }
    struct kvf_transfer *sender =
        kvf_slab_find(receiver->transfers->slab, receiver->local_sender);
    receiver->local_sender = 0;
    if (sender != NULL) {
        assert(sender->n_local_readers > 0);
        sender->n_local_readers--;
    }
    return sender;
}

/* Returns the sender that may be at rest now too, or NULL. */
static struct kvf_transfer *finish(struct kvf_transfer *transfer)
{
    struct kvf_transfers *transfers = transfer->transfers;
    struct kvf_request *request = transfer->request;
    transfer->timing.t_quiesced = kvf_loop_clock_ns(transfers->config.loop);
    enter_state(transfer, KVF_TRANSFER_ENDED);
    kvf_transfer_sleep(transfer);
    kvf_list_remove(&transfer->peer->transfers, &transfer->peer_node);
    struct kvf_transfer *sender = let_go_of_sender(transfer);
    kvf_list_remove(&transfers->by_state[KVF_TRANSFER_ENDED], &transfer->state_node);
    request->transfer = NULL;
    kvf_request_ended(request, transfer);
    kvf_loop_destroy_later(transfers->config.loop, &transfer->zombie, transfer_free,
                           transfer);
    return sender;
}

/* The outcome is known (OK by a Done, or DRAINING) and nothing of ours is under way. */
static bool is_at_rest(const struct kvf_transfer *transfer)
{
    bool is_decided = transfer->state == KVF_TRANSFER_DRAINING || transfer->is_done;
    return is_decided && transfer->state != KVF_TRANSFER_ENDED &&
           transfer->chunks.n == 0 && transfer->n_local_readers == 0;
}

static void end_if_at_rest(struct kvf_transfer *transfer)
{
    while (transfer != NULL && is_at_rest(transfer)) {
        transfer = finish(transfer);
    }
}

void kvf_transfer_chunk_gone(struct kvf_transfer *transfer)
{
    end_if_at_rest(transfer);
}

static void tell_cancel(struct kvf_transfer *transfer, enum kvf_status cause,
                        const char *detail)
{
    const struct kvf_request *request = transfer->request;
    struct kvf_message message = {
        .type = KVF_MSG_CANCEL,
        .u.cancel = {.to_sender = transfer->direction == KVF_RECEIVE,
                     .session = transfer->peer_session,
                     .cause = cause,
                     .detail = detail,
                     .has_key = transfer->peer_session == 0,
                     .request_id = request->key.request_id,
                     .attempt = request->key.attempt,
                     .receiver_session = transfer->id},
    };
    memcpy(message.u.cancel.instance_nonce, request->key.nonce, KVF_NONCE_BYTES);
    kvf_peer_tell(transfer->peer, &message);
}

void kvf_transfer_stop(struct kvf_transfer *transfer, enum kvf_status status,
                       const char *detail, bool tell_peer)
{
    if (is_over(transfer)) {
        return;
    }
    bool is_known_to_peer =
        transfer->state != KVF_TRANSFER_NEW && transfer->state != KVF_TRANSFER_QUEUED;
    transfer->status = status;
    kvf_transfer_sleep(transfer);
    if (tell_peer && is_known_to_peer) {
        tell_cancel(transfer, status, detail);
    }
    kvf_chunks_stop(transfer);
    enter_state(transfer, KVF_TRANSFER_DRAINING);
    kvf_request_decided(transfer->request, status, detail);
    end_if_at_rest(transfer);
}

/* ---- sender */

void kvf_transfer_refuse(struct kvf_peer *peer, uint64_t receiver_session,
                         enum kvf_status cause, const char *detail)
{
    struct kvf_message message = {
        .type = KVF_MSG_READY,
        .u.ready = {.receiver_session = receiver_session,
                    .is_ready = false,
                    .cause = cause,
                    .detail = detail},
    };
    kvf_peer_tell(peer, &message);
}

static enum kvf_status plan_send(struct kvf_transfer *transfer,
                                 const struct kvf_request_info *info,
                                 struct kvf_plan_refusal *out_refusal)
{
    enum kvf_status status =
        kvf_transfer_make_streams(transfer, info->segments, info->n_segments);
    if (status != KVF_OK) {
        return status;
    }
    struct kvf_transceiver_state state;
    kvf_session_state(transfer->request->session, &state);
    const struct kvf_pair pair = {
        .our_state = &state.cache,
        .peer_state = &info->state.cache,
        .peer_layouts = info->layouts,
        .n_peer_layouts = info->n_layouts,
    };
    return kvf_transfer_plan(transfer, &pair, out_refusal);
}

void kvf_transfer_start_send(struct kvf_transfer *transfer,
                             const struct kvf_request_info *info)
{
    struct kvf_transfers *transfers = transfer->transfers;
    struct kvf_plan_refusal refusal = {.text = ""};
    transfer->peer_session = info->receiver_session;
    transfer->lease_generation = info->lease_generation;
    transfer->timing.t_match = kvf_loop_clock_ns(transfers->config.loop);
    enter_state(transfer, KVF_TRANSFER_MATCHED);
    enum kvf_status status = plan_send(transfer, info, &refusal);
    if (status != KVF_OK) {
        kvf_transfer_refuse(transfer->peer, info->receiver_session, status, refusal.text);
        kvf_transfer_stop(transfer, status, refusal.text, false);
        return;
    }
    transfer->path = kvf_transfer_choose_path(transfer);
    (void)snprintf(transfer->peer_path, sizeof(transfer->peer_path), "%s", info->path);
    transfer->integrity = info->integrity > transfers->config.config->data.integrity
                              ? info->integrity
                              : transfers->config.config->data.integrity;
    transfer->credit_chunks = info->credit_chunks;
    if (info->max_chunk_bytes > 0 && info->max_chunk_bytes < transfer->chunk_bytes) {
        transfer->chunk_bytes = info->max_chunk_bytes;
    }
    if (transfer->request->is_fenced) {
        kvf_transfer_fence_closed(transfer);
    }
}

void kvf_transfer_fence_closed(struct kvf_transfer *transfer)
{
    if (transfer->state != KVF_TRANSFER_MATCHED) {
        return;
    }
    struct kvf_pool_layout layouts[KVF_TABLES_MAX];
    struct kvf_message message = {
        .type = KVF_MSG_READY,
        .u.ready = {.receiver_session = transfer->peer_session,
                    .sender_session = transfer->id,
                    .lease_generation = transfer->request->lease_generation,
                    .plan_hash = transfer->plan_hash,
                    .total_bytes = transfer->total_bytes,
                    .is_ready = true,
                    .will_send = true,
                    .detail = "",
                    .path = kvf_path_name(transfer->path),
                    .integrity = transfer->integrity,
                    .layouts = layouts,
                    .n_layouts = kvf_request_layouts(transfer->request, layouts)},
    };
    enter_state(transfer, KVF_TRANSFER_SEND_READY);
    transfer->timing.t_ready = kvf_loop_clock_ns(transfer->transfers->config.loop);
    enum kvf_status status = kvf_peer_send(transfer->peer, &message);
    if (status != KVF_OK) {
        kvf_transfer_stop(transfer, KVF_PEER_LOST, "Ready could not be sent", false);
        return;
    }
    if (is_local(transfer) || transfer->total_bytes == 0) {
        enter_state(transfer, KVF_TRANSFER_CLOSING);
    } else {
        kvf_transfer_wake(transfer);
    }
}

void kvf_transfer_first_chunk(struct kvf_transfer *transfer)
{
    if (transfer->state == KVF_TRANSFER_SEND_READY) {
        enter_state(transfer, KVF_TRANSFER_SENDING);
    } else if (transfer->state == KVF_TRANSFER_RECEIVE_READY) {
        enter_state(transfer, KVF_TRANSFER_RECEIVING);
    }
}

void kvf_transfer_all_posted(struct kvf_transfer *transfer)
{
    if (transfer->state == KVF_TRANSFER_SENDING) {
        enter_state(transfer, KVF_TRANSFER_CLOSING);
    }
}

static void on_receipt(struct kvf_transfer *transfer, const struct kvf_receipt *receipt)
{
    if (receipt->credit_chunks > transfer->credit_chunks) {
        transfer->credit_chunks = receipt->credit_chunks;
    }
    transfer->timing.t_last_receipt = kvf_loop_clock_ns(transfer->transfers->config.loop);
    if (receipt->received_bytes > transfer->done_bytes &&
        receipt->received_bytes <= transfer->total_bytes) {
        transfer->done_bytes = receipt->received_bytes;
    }
    kvf_transfer_wake(transfer);
}

static void on_done(struct kvf_transfer *transfer, const struct kvf_done *done)
{
    if (transfer->state != KVF_TRANSFER_CLOSING || done->status != KVF_OK ||
        done->received_bytes != transfer->total_bytes) {
        kvf_transfer_stop(transfer, KVF_PROTOCOL, "Done came before everything was sent",
                          true);
        return;
    }
    transfer->is_done = true;
    transfer->status = KVF_OK;
    transfer->done_bytes = transfer->total_bytes;
    end_if_at_rest(transfer);
}

/* ---- receiver */

static size_t make_segments(const struct kvf_request *request, struct kvf_segment *out,
                            const struct kvf_cache_state *state)
{
    struct kvf_rank_place place;
    kvf_rank_place(state, (int32_t)request->rank, &place);
    for (size_t i = 0; i < request->n_tables; i++) {
        const struct kvf_request_table *table = &request->tables[i];
        out[i] = (struct kvf_segment){
            .group = table->group,
            .token_first = request->n_prefix_tokens,
            .n_tokens = request->n_tokens - request->n_prefix_tokens,
            .layer_first = table->group == 0 ? place.layer_first : 0,
            .n_layers = table->pool->layout.n_layers,
        };
    }
    return request->n_tables;
}

static void send_request(struct kvf_transfer *transfer)
{
    struct kvf_transfers *transfers = transfer->transfers;
    struct kvf_request *request = transfer->request;
    struct kvf_segment segments[KVF_TABLES_MAX];
    struct kvf_pool_layout layouts[KVF_TABLES_MAX];
    struct kvf_message message = {.type = KVF_MSG_REQUEST_INFO};
    struct kvf_request_info *info = &message.u.request_info;
    uint64_t now = kvf_loop_now_ns(transfers->config.loop);
    kvf_session_state(request->session, &info->state);
    size_t n_segments = make_segments(request, segments, &info->state.cache);
    enum kvf_status status = kvf_transfer_make_streams(transfer, segments, n_segments);
    if (status != KVF_OK) {
        kvf_transfer_stop(transfer, status, "no memory for the streams", false);
        return;
    }
    info->request_id = request->key.request_id;
    info->attempt = request->key.attempt;
    memcpy(info->instance_nonce, request->key.nonce, KVF_NONCE_BYTES);
    info->context_rank = transfer->peer_rank;
    info->receiver_session = transfer->id;
    info->lease_generation = request->lease_generation;
    info->remaining_ms = request->deadline_ns > now
                             ? (uint32_t)((request->deadline_ns - now) / KVF_NS_PER_MS)
                             : 0;
    info->segments = segments;
    info->n_segments = n_segments;
    info->layouts = layouts;
    info->n_layouts = kvf_request_layouts(request, layouts);
    info->block_hashes = request->block_hashes;
    info->n_block_hashes = request->n_block_hashes;
    info->has_trace_id = request->has_trace_id;
    memcpy(info->trace_id, request->trace_id, sizeof(info->trace_id));
    info->integrity = transfers->config.config->data.integrity;
    info->max_chunk_bytes = transfer->chunk_bytes;
    info->credit_chunks = transfer->window;
    info->path = "";
    info->label = request->label;
    info->n_tokens = request->n_tokens;
    enter_state(transfer, KVF_TRANSFER_REQUESTED);
    transfer->timing.t_match = kvf_loop_clock_ns(transfers->config.loop);
    status = kvf_peer_send(transfer->peer, &message);
    if (status != KVF_OK) {
        kvf_transfer_stop(transfer, status, "RequestInfo could not be sent", false);
    }
}

void kvf_transfer_start_receive(struct kvf_transfer *transfer)
{
    enter_state(transfer, KVF_TRANSFER_QUEUED);
    if (transfer->peer->state == KVF_PEER_UP) {
        send_request(transfer);
    }
}

/* Binds to the sender on this node, so that its blocks are there while we read them. */
static struct kvf_transfer *bind_local_sender(struct kvf_transfer *transfer)
{
    struct kvf_transfer *sender =
        kvf_slab_find(transfer->transfers->slab, transfer->peer_session);
    if (sender == NULL || sender->direction != KVF_SEND || is_over(sender) ||
        sender->peer_session != transfer->id) {
        return NULL;
    }
    sender->n_local_readers++;
    transfer->local_sender = sender->id;
    return sender;
}

static enum kvf_status plan_receive(struct kvf_transfer *transfer,
                                    const struct kvf_ready *ready,
                                    struct kvf_plan_refusal *out_refusal)
{
    struct kvf_transceiver_state state;
    kvf_session_state(transfer->request->session, &state);
    struct kvf_pair pair = {
        .our_state = &state.cache,
        .peer_state = &transfer->request->peer_state,
        .peer_layouts = ready->layouts,
        .n_peer_layouts = ready->n_layouts,
    };
    if (is_local(transfer)) {
        pair.local_sender = bind_local_sender(transfer);
        if (pair.local_sender == NULL) {
            (void)snprintf(out_refusal->text, sizeof(out_refusal->text),
                           "the sender ended meanwhile");
            return KVF_CANCELLED;
        }
    }
    enum kvf_status status = kvf_transfer_plan(transfer, &pair, out_refusal);
    if (status == KVF_OK && (transfer->plan_hash != ready->plan_hash ||
                             transfer->total_bytes != ready->total_bytes)) {
        (void)snprintf(out_refusal->text, sizeof(out_refusal->text),
                       "sender plans %llu bytes (%016llx), receiver %llu (%016llx)",
                       (unsigned long long)ready->total_bytes,
                       (unsigned long long)ready->plan_hash,
                       (unsigned long long)transfer->total_bytes,
                       (unsigned long long)transfer->plan_hash);
        status = KVF_PLAN_MISMATCH;
    }
    return status;
}

static void complete_receive(struct kvf_transfer *transfer)
{
    struct kvf_message message = {
        .type = KVF_MSG_DONE,
        .u.done = {.sender_session = transfer->peer_session,
                   .status = KVF_OK,
                   .detail = "",
                   .received_bytes = transfer->total_bytes},
    };
    transfer->is_done = true;
    transfer->status = KVF_OK;
    kvf_peer_tell(transfer->peer, &message); /* a failure ends the epoch there too */
    end_if_at_rest(transfer);
}

static void on_ready(struct kvf_transfer *transfer, const struct kvf_ready *ready)
{
    struct kvf_plan_refusal refusal = {.text = ""};
    if (transfer->state != KVF_TRANSFER_REQUESTED) {
        return; /* a repeat, or it crossed our cancel */
    }
    if (!ready->is_ready) {
        enum kvf_status cause =
            ready->cause < 0 ? (enum kvf_status)ready->cause : KVF_NOT_READY;
        kvf_transfer_stop(transfer, cause, ready->detail, false);
        return;
    }
    transfer->peer_session = ready->sender_session;
    transfer->timing.t_ready = kvf_loop_clock_ns(transfer->transfers->config.loop);
    enum kvf_status status = plan_receive(transfer, ready, &refusal);
    if (status != KVF_OK) {
        kvf_transfer_stop(transfer, status, refusal.text, true);
        return;
    }
    transfer->lease_generation = transfer->request->lease_generation;
    transfer->path = kvf_transfer_choose_path(transfer);
    transfer->integrity = ready->integrity;
    (void)snprintf(transfer->peer_path, sizeof(transfer->peer_path), "%s", ready->path);
    enter_state(transfer, KVF_TRANSFER_RECEIVE_READY);
    if (transfer->total_bytes == 0) {
        enter_state(transfer, KVF_TRANSFER_VERIFYING);
        complete_receive(transfer);
    } else {
        kvf_transfer_wake(transfer);
    }
}

void kvf_transfer_bytes_arrived(struct kvf_transfer *transfer, uint64_t n_bytes)
{
    transfer->arrived_bytes += n_bytes;
    transfer->timing.t_last_byte = kvf_loop_clock_ns(transfer->transfers->config.loop);
    if (transfer->arrived_bytes == transfer->total_bytes &&
        transfer->state == KVF_TRANSFER_RECEIVING) {
        enter_state(transfer, KVF_TRANSFER_VERIFYING);
    }
}

void kvf_transfer_bytes_done(struct kvf_transfer *transfer,
                             const struct kvf_interval *landed)
{
    struct kvf_transfers *transfers = transfer->transfers;
    uint64_t n_bytes = landed->end - landed->offset;
    transfer->done_bytes += n_bytes;
    transfer->n_chunks_receipted++;
    transfer->peer->bytes_received += n_bytes;
    transfer->timing.t_last_scatter = kvf_loop_clock_ns(transfers->config.loop);
    if (transfer->done_bytes == transfer->total_bytes) {
        complete_receive(transfer);
        return;
    }
    if (is_local(transfer)) {
        return;
    }
    const struct kvf_receipt_range range = {
        .segment = landed->segment, .offset = landed->offset, .length = n_bytes};
    struct kvf_message message = {
        .type = KVF_MSG_RECEIPT,
        .u.receipt = {.sender_session = transfer->peer_session,
                      .credit_chunks = transfer->n_chunks_receipted + transfer->window,
                      .received_bytes = transfer->done_bytes,
                      .ranges = &range,
                      .n_ranges = 1},
    };
    kvf_peer_tell(transfer->peer, &message);
}

/* ---- messages and news */

static struct kvf_transfer *find(struct kvf_transfers *transfers, struct kvf_peer *peer,
                                 uint64_t id, enum kvf_direction direction)
{
    struct kvf_transfer *transfer = kvf_slab_find(transfers->slab, id);
    if (transfer == NULL || transfer->peer != peer || transfer->direction != direction ||
        is_over(transfer)) {
        return NULL; /* ended here already; the sender of the message will learn it */
    }
    return transfer;
}

enum kvf_status kvf_transfer_cancel_cause(const struct kvf_cancel_message *cancel)
{
    return cancel->cause < 0 ? (enum kvf_status)cancel->cause : KVF_CANCELLED;
}

static void on_cancel(struct kvf_transfers *transfers, struct kvf_peer *peer,
                      const struct kvf_cancel_message *cancel)
{
    struct kvf_transfer *transfer = find(transfers, peer, cancel->session,
                                         cancel->to_sender ? KVF_SEND : KVF_RECEIVE);
    if (transfer != NULL) {
        kvf_transfer_stop(transfer, kvf_transfer_cancel_cause(cancel), cancel->detail,
                          false);
    }
}

void kvf_transfers_message(struct kvf_transfers *transfers, struct kvf_peer *peer,
                           const struct kvf_message *message)
{
    struct kvf_transfer *transfer;
    switch ((int)message->type) {
    case KVF_MSG_READY:
        transfer = find(transfers, peer, message->u.ready.receiver_session, KVF_RECEIVE);
        if (transfer != NULL) {
            on_ready(transfer, &message->u.ready);
        }
        break;
    case KVF_MSG_RECEIPT:
        transfer = find(transfers, peer, message->u.receipt.sender_session, KVF_SEND);
        if (transfer != NULL) {
            on_receipt(transfer, &message->u.receipt);
        }
        break;
    case KVF_MSG_DONE:
        transfer = find(transfers, peer, message->u.done.sender_session, KVF_SEND);
        if (transfer != NULL) {
            on_done(transfer, &message->u.done);
        }
        break;
    case KVF_MSG_CANCEL:
        on_cancel(transfers, peer, &message->u.cancel);
        break;
    default:
        break;
    }
}

void kvf_transfers_peer_up(struct kvf_transfers *transfers, struct kvf_peer *peer)
{
    (void)transfers;
    struct kvf_node *next;
    for (struct kvf_node *node = kvf_list_first(&peer->transfers); node != NULL;
         node = next) {
        struct kvf_transfer *transfer =
            KVF_CONTAINER(node, struct kvf_transfer, peer_node);
        next = kvf_list_next(&peer->transfers, node);
        if (transfer->state == KVF_TRANSFER_QUEUED) {
            kvf_request_arm_timer(transfer->request);
            send_request(transfer);
        }
    }
}

void kvf_transfers_peer_down(struct kvf_transfers *transfers, struct kvf_peer *peer,
                             enum kvf_status status)
{
    (void)transfers;
    struct kvf_node *next;
    for (struct kvf_node *node = kvf_list_first(&peer->transfers); node != NULL;
         node = next) {
        struct kvf_transfer *transfer =
            KVF_CONTAINER(node, struct kvf_transfer, peer_node);
        next = kvf_list_next(&peer->transfers, node);
        if (transfer->state != KVF_TRANSFER_QUEUED) {
            kvf_transfer_stop(transfer, status, peer->reason, false);
        }
    }
}

/* ---- the set */

struct kvf_transfer *kvf_transfer_create(struct kvf_transfers *transfers,
                                         struct kvf_request *request,
                                         struct kvf_peer *peer, uint32_t peer_rank)
{
    uint64_t id;
    struct kvf_transfer *transfer = kvf_slab_acquire(transfers->slab, &id);
    if (transfer == NULL) {
        return NULL;
    }
    const struct kvf_config *config = transfers->config.config;
    transfer->id = id;
    transfer->transfers = transfers;
    transfer->request = request;
    transfer->peer = peer;
    transfer->peer_rank = peer_rank;
    transfer->direction = request->direction;
    transfer->status = KVF_IN_PROGRESS;
    transfer->chunk_bytes = (uint32_t)config->data.chunk_bytes;
    transfer->window = config->data.window;
    kvf_list_init(&transfer->chunks);
    kvf_list_init(&transfer->arrivals);
    kvf_list_add_tail(&transfers->by_state[KVF_TRANSFER_NEW], &transfer->state_node);
    kvf_list_add_tail(&peer->transfers, &transfer->peer_node);
    request->transfer = transfer;
    return transfer;
}

enum kvf_status kvf_transfers_create(const struct kvf_transfers_config *config,
                                     struct kvf_transfers **out)
{
    struct kvf_transfers *transfers = kvf_alloc(sizeof(*transfers));
    if (transfers == NULL) {
        return KVF_NO_MEMORY;
    }
    transfers->config = *config;
    kvf_list_init(&transfers->runnable);
    for (int i = 0; i < KVF_TRANSFER_STATES; i++) {
        kvf_list_init(&transfers->by_state[i]);
    }
    uint32_t n_max =
        config->config->engine.max_requests * config->config->engine.max_engines;
    enum kvf_status status =
        kvf_slab_create(sizeof(struct kvf_transfer), 64, n_max, &transfers->slab);
    if (status == KVF_OK) {
        status = kvf_chunks_create(transfers);
    }
    if (status != KVF_OK) {
        kvf_transfers_destroy(transfers);
        return status;
    }
    *out = transfers;
    return KVF_OK;
}

void kvf_transfers_destroy(struct kvf_transfers *transfers)
{
    if (transfers == NULL) {
        return;
    }
    kvf_chunks_destroy(transfers);
    kvf_slab_destroy(transfers->slab);
    kvf_free(transfers);
}

const struct kvf_list *kvf_transfers_in_state(const struct kvf_transfers *transfers,
                                              enum kvf_transfer_state state)
{
    return &transfers->by_state[state];
}
