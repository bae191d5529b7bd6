/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks under way. A chunk is one stretch of a stream on its way through this node:
 *
 *   sender   direct: [digest ->] post            staged: gather -> post
 *   receiver direct: land [-> digest]            staged: land -> scatter
 *   local    copy
 *
 * The pump goes round the runnable transfers, one chunk each, until nobody can go on:
 * that is the fairness between sessions and the back-pressure when slots or chunks run
 * out. Loop thread.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "service/transfer_private.h"

#define KVF_CHUNKS_MAX  4096u
#define KVF_WAITING_MAX 4096u

enum kvf_chunk_step {
    KVF_CHUNK_COPY, /* a copy job runs: gather, digest, scatter or local copy */
    KVF_CHUNK_WIRE  /* the transport has it */
};

struct kvf_chunk {
    uint64_t id;
    struct kvf_transfer *transfer; /* borrows; outlives its chunks */
    struct kvf_node node;
    enum kvf_chunk_step step;
    struct kvf_stream_plan *stream;
    struct kvf_interval at;
    uint32_t slot; /* KVF_SLOT_NONE on direct and local paths */
    struct kvf_chunk_op op;
    struct kvf_copy_job job;
};

struct kvf_waiting { /* an arrival that could not be answered yet */
    uint64_t id;
    struct kvf_arrival *arrival;
    struct kvf_chunk_header header;
    struct kvf_node node;
};

/* Whether a step was taken, and if not, what would help. */
enum kvf_pump {
    KVF_PUMP_DONE,   /* one step taken, try again */
    KVF_PUMP_IDLE,   /* waits for its own events: leave the list */
    KVF_PUMP_STARVED /* waits for a shared resource: stay on the list */
};

/* ---- scheduling */

static void pump(void *owner, enum kvf_status status);

static void schedule_pump(struct kvf_transfers *transfers)
{
    if (transfers->runnable.n > 0 && transfers->pump_post.loop == NULL) {
        kvf_loop_post(transfers->config.loop, &transfers->pump_post, pump, transfers,
                      KVF_OK);
    }
}

void kvf_transfer_wake(struct kvf_transfer *transfer)
{
    if (!kvf_node_is_linked(&transfer->runnable_node)) {
        kvf_list_add_tail(&transfer->transfers->runnable, &transfer->runnable_node);
    }
    schedule_pump(transfer->transfers);
}

static void drop_waiting(struct kvf_transfer *transfer, struct kvf_waiting *waiting)
{
    kvf_list_remove(&transfer->arrivals, &waiting->node);
    kvf_slab_release(transfer->transfers->waiting, waiting->id);
}

void kvf_transfer_sleep(struct kvf_transfer *transfer)
{
    if (kvf_node_is_linked(&transfer->runnable_node)) {
        kvf_list_remove(&transfer->transfers->runnable, &transfer->runnable_node);
    }
    struct kvf_node *node;
    while ((node = kvf_list_first(&transfer->arrivals)) != NULL) {
        struct kvf_waiting *waiting = KVF_CONTAINER(node, struct kvf_waiting, node);
        struct kvf_arrival *arrival = waiting->arrival;
        drop_waiting(transfer, waiting);
        if (transfer->peer->transport != NULL) {
            transfer->peer->transport->ops->drop(arrival);
        }
    }
}

/* ---- chunk records */

static struct kvf_chunk *chunk_acquire(struct kvf_transfer *transfer,
                                       struct kvf_stream_plan *stream, uint64_t offset,
                                       uint64_t n_bytes)
{
    uint64_t id;
    struct kvf_chunk *chunk = kvf_slab_acquire(transfer->transfers->chunks, &id);
    if (chunk == NULL) {
        return NULL;
    }
    chunk->id = id;
    chunk->transfer = transfer;
    chunk->stream = stream;
    chunk->at.segment = (uint32_t)(stream - transfer->streams);
    chunk->at.offset = offset;
    chunk->at.end = offset + n_bytes;
    chunk->slot = KVF_SLOT_NONE;
    kvf_list_add_tail(&transfer->chunks, &chunk->node);
    return chunk;
}

static uint64_t chunk_bytes(const struct kvf_chunk *chunk)
{
    return chunk->at.end - chunk->at.offset;
}

static void chunk_release(struct kvf_chunk *chunk)
{
    struct kvf_transfer *transfer = chunk->transfer;
    struct kvf_transfers *transfers = transfer->transfers;
    if (chunk->slot != KVF_SLOT_NONE) {
        kvf_slots_release(transfers->config.slots, chunk->slot, &transfer->peer->n_slots);
    }
    kvf_list_remove(&transfer->chunks, &chunk->node);
    kvf_slab_release(transfers->chunks, chunk->id);
    schedule_pump(transfers); /* somebody may wait for the slot or the record */
}

/* The chunk is at rest and its transfer may be too. */
static void chunk_gone(struct kvf_chunk *chunk)
{
    struct kvf_transfer *transfer = chunk->transfer;
    chunk_release(chunk);
    kvf_transfer_chunk_gone(transfer);
}

static bool is_stopped(const struct kvf_transfer *transfer)
{
    return transfer->status != KVF_IN_PROGRESS && transfer->status != KVF_OK;
}

/* A step failed: the transfer stops, the chunk is gone. */
static void chunk_failed(struct kvf_chunk *chunk, enum kvf_status status,
                         const char *detail)
{
    struct kvf_transfer *transfer = chunk->transfer;
    /* Released first, so that stopping finds the transfer at rest if this was the last.
     */
    bool was_stopped = is_stopped(transfer);
    chunk_release(chunk);
    if (was_stopped) {
        kvf_transfer_chunk_gone(transfer);
    } else {
        kvf_transfer_stop(transfer, status, detail, true);
    }
}

/* The wire broke under a chunk. That is the whole data path to the peer, and when the
 * peer died it may show here before it shows on control: the epoch ends, and with it the
 * transfer, so that both orders give the engine the same cause. */
static void wire_failed(struct kvf_chunk *chunk)
{
    struct kvf_transfer *transfer = chunk->transfer;
    bool was_stopped = is_stopped(transfer);
    chunk_release(chunk);
    if (!was_stopped) {
        kvf_peer_fail(transfer->peer, KVF_DATA_PATH, "a chunk broke off on its way");
    }
    kvf_transfer_chunk_gone(transfer); /* freed at the end of the turn, not before */
}

void kvf_chunks_stop(struct kvf_transfer *transfer)
{
    struct kvf_copy *copy = transfer->transfers->config.copy;
    for (struct kvf_node *node = kvf_list_first(&transfer->chunks); node != NULL;
         node = kvf_list_next(&transfer->chunks, node)) {
        struct kvf_chunk *chunk = KVF_CONTAINER(node, struct kvf_chunk, node);
        if (chunk->step == KVF_CHUNK_COPY) {
            copy->ops->cancel(copy, &chunk->job);
        }
    }
}

static enum kvf_status start_job(struct kvf_chunk *chunk, enum kvf_copy_kind kind,
                                 const void *src, void *dst, bool has_digest,
                                 kvf_done_fn done)
{
    struct kvf_copy *copy = chunk->transfer->transfers->config.copy;
    chunk->step = KVF_CHUNK_COPY;
    chunk->job = (struct kvf_copy_job){
        .kind = kind,
        .plan = &chunk->stream->plan,
        .src = src,
        .dst = dst,
        .offset = chunk->at.offset,
        .n_bytes = chunk_bytes(chunk),
        .has_digest = has_digest,
        .done = done,
        .owner = chunk,
    };
    return copy->ops->submit(copy, &chunk->job);
}

/* ---- sender */

static void on_sent(void *owner, enum kvf_status status)
{
    struct kvf_chunk *chunk = owner;
    struct kvf_transfer *transfer = chunk->transfer;
    if (status != KVF_OK) {
        wire_failed(chunk);
        return;
    }
    transfer->peer->bytes_sent += chunk_bytes(chunk);
    if (!is_stopped(transfer)) {
        kvf_transfer_wake(transfer);
    }
    chunk_gone(chunk);
}

static void post_chunk(struct kvf_chunk *chunk)
{
    struct kvf_transfer *transfer = chunk->transfer;
    struct kvf_peer *peer = transfer->peer;
    if (is_stopped(transfer) || peer->endpoint == NULL) {
        chunk_failed(chunk, KVF_DATA_PATH, "the data endpoint is gone");
        return;
    }
    struct kvf_chunk_header *header = &chunk->op.header;
    memcpy(header->token, peer->peer_token, sizeof(header->token));
    header->receiver_session = transfer->peer_session;
    header->lease_generation = transfer->lease_generation;
    header->segment = chunk->at.segment;
    header->endpoint_generation = peer->endpoint_generation;
    header->offset = chunk->at.offset;
    header->length = (uint32_t)chunk_bytes(chunk);
    if (transfer->integrity != KVF_INTEGRITY_OFF) {
        header->flags = KVF_CHUNK_HAS_DIGEST;
        header->digest = chunk->job.digest;
    }
    chunk->op.done = on_sent;
    chunk->op.owner = chunk;
    chunk->step = KVF_CHUNK_WIRE;
    if (transfer->timing.t_first_post == 0) {
        transfer->timing.t_first_post =
            kvf_loop_clock_ns(transfer->transfers->config.loop);
        (void)snprintf(transfer->timing.lane, sizeof(transfer->timing.lane), "%s",
                       peer->transport->ops->lane(peer->endpoint));
    }
    if (peer->transport->ops->post(peer->endpoint, &chunk->op) != KVF_OK) {
        chunk_failed(chunk, KVF_DATA_PATH, "the transport refused a chunk");
    }
}

static void on_prepared(void *owner, enum kvf_status status)
{
    struct kvf_chunk *chunk = owner;
    struct kvf_transfer *transfer = chunk->transfer;
    if (status != KVF_OK) {
        chunk_failed(chunk, status, "gathering was stopped");
        return;
    }
    transfer->timing.t_first_gather_end = transfer->timing.t_first_gather_end != 0
                                              ? transfer->timing.t_first_gather_end
                                              : chunk->job.ended_ns;
    post_chunk(chunk);
}

static struct kvf_stream_plan *next_stream(struct kvf_transfer *transfer)
{
    while (transfer->current_stream < transfer->n_streams) {
        struct kvf_stream_plan *stream = &transfer->streams[transfer->current_stream];
        if (stream->next_offset < stream->n_bytes) {
            return stream;
        }
        transfer->current_stream++;
    }
    return NULL;
}

static uint64_t next_length(const struct kvf_transfer *transfer,
                            const struct kvf_stream_plan *stream)
{
    uint64_t rest = stream->n_bytes - stream->next_offset;
    return rest < transfer->chunk_bytes ? rest : transfer->chunk_bytes;
}

/* Straight from the pool: spans of the plan are the IOV. */
static enum kvf_pump send_direct(struct kvf_transfer *transfer,
                                 struct kvf_stream_plan *stream)
{
    struct kvf_chunk *chunk = chunk_acquire(transfer, stream, stream->next_offset,
                                            next_length(transfer, stream));
    if (chunk == NULL) {
        return KVF_PUMP_STARVED;
    }
    uint64_t covered = 0;
    chunk->op.n_spans =
        kvf_plan_pieces(&stream->plan, KVF_PLAN_SRC, stream->pool->base, chunk->at.offset,
                        chunk_bytes(chunk), chunk->op.spans, KVF_SPANS_MAX, &covered);
    chunk->op.memory = kvf_daemon_pool_memory(stream->pool, transfer->peer->transport);
    chunk->at.end = chunk->at.offset + covered;
    if (transfer->integrity != KVF_INTEGRITY_OFF) {
        if (start_job(chunk, KVF_COPY_CRC_SRC, stream->pool->base, NULL, true,
                      on_prepared) != KVF_OK) {
            chunk_release(chunk);
            return KVF_PUMP_STARVED;
        }
        stream->next_offset += covered;
    } else {
        stream->next_offset += covered;
        post_chunk(chunk);
    }
    return KVF_PUMP_DONE;
}

static enum kvf_pump send_staged(struct kvf_transfer *transfer,
                                 struct kvf_stream_plan *stream)
{
    struct kvf_slots *slots = transfer->transfers->config.slots;
    struct kvf_chunk *chunk = chunk_acquire(transfer, stream, stream->next_offset,
                                            next_length(transfer, stream));
    if (chunk == NULL) {
        return KVF_PUMP_STARVED;
    }
    chunk->slot = kvf_slots_acquire(slots, &transfer->peer->n_slots);
    if (chunk->slot == KVF_SLOT_NONE) {
        chunk_release(chunk);
        return KVF_PUMP_STARVED;
    }
    void *slot = kvf_slots_base(slots, chunk->slot);
    chunk->op.spans[0] = (struct iovec){.iov_base = slot, .iov_len = chunk_bytes(chunk)};
    chunk->op.n_spans = 1;
    chunk->op.memory = kvf_slots_memory(slots, transfer->peer->transport);
    if (start_job(chunk, KVF_COPY_GATHER, stream->pool->base, slot,
                  transfer->integrity != KVF_INTEGRITY_OFF, on_prepared) != KVF_OK) {
        chunk_release(chunk);
        return KVF_PUMP_STARVED;
    }
    stream->next_offset = chunk->at.end;
    return KVF_PUMP_DONE;
}

static enum kvf_pump pump_sender(struct kvf_transfer *transfer)
{
    if (transfer->state != KVF_TRANSFER_SEND_READY &&
        transfer->state != KVF_TRANSFER_SENDING) {
        return KVF_PUMP_IDLE;
    }
    struct kvf_stream_plan *stream = next_stream(transfer);
    if (stream == NULL) {
        kvf_transfer_all_posted(transfer);
        return KVF_PUMP_IDLE;
    }
    if (transfer->n_chunks_posted >= transfer->credit_chunks ||
        transfer->chunks.n >= transfer->window) {
        return KVF_PUMP_IDLE; /* a receipt or a completion wakes it */
    }
    if (transfer->timing.t_first_gather == 0) {
        transfer->timing.t_first_gather =
            kvf_loop_clock_ns(transfer->transfers->config.loop);
    }
    kvf_transfer_first_chunk(transfer);
    transfer->n_chunks_posted++;
    enum kvf_pump result = transfer->path == KVF_PATH_DIRECT
                               ? send_direct(transfer, stream)
                               : send_staged(transfer, stream);
    if (result != KVF_PUMP_DONE) {
        transfer->n_chunks_posted--;
    }
    return result;
}

/* ---- receiver */

static bool overlaps(const struct kvf_interval *a, const struct kvf_interval *b)
{
    return a->segment == b->segment && a->offset < b->end && b->offset < a->end;
}

static bool is_claimed(const struct kvf_transfer *transfer, const struct kvf_interval *at)
{
    for (size_t i = 0; i < transfer->n_landed; i++) {
        if (overlaps(&transfer->landed[i], at)) {
            return true;
        }
    }
    for (struct kvf_node *node = kvf_list_first(&transfer->chunks); node != NULL;
         node = kvf_list_next(&transfer->chunks, node)) {
        if (overlaps(&KVF_CONTAINER(node, struct kvf_chunk, node)->at, at)) {
            return true;
        }
    }
    return false;
}

/* Joins `at` with its neighbours; false when there are too many holes. */
static bool note_landed(struct kvf_transfer *transfer, const struct kvf_interval *at)
{
    struct kvf_interval joined = *at;
    for (size_t i = 0; i < transfer->n_landed;) {
        struct kvf_interval *other = &transfer->landed[i];
        if (other->segment == joined.segment &&
            (other->end == joined.offset || other->offset == joined.end)) {
            joined.offset = other->offset < joined.offset ? other->offset : joined.offset;
            joined.end = other->end > joined.end ? other->end : joined.end;
            *other = transfer->landed[--transfer->n_landed];
        } else {
            i++;
        }
    }
    if (transfer->n_landed == KVF_INTERVALS_MAX) {
        return false;
    }
    transfer->landed[transfer->n_landed++] = joined;
    return true;
}

/* The chunk's bytes are in place and verified. */
static void chunk_done(struct kvf_chunk *chunk)
{
    struct kvf_transfer *transfer = chunk->transfer;
    struct kvf_interval at = chunk->at;
    if (is_stopped(transfer)) {
        chunk_gone(chunk);
        return;
    }
    if (!note_landed(transfer, &at)) {
        chunk_failed(chunk, KVF_PROTOCOL, "the sender's chunks leave too many holes");
        return;
    }
    chunk_release(chunk);
    kvf_transfer_wake(transfer);
    kvf_transfer_bytes_done(transfer, &at);
}

static void on_placed(void *owner, enum kvf_status status)
{
    struct kvf_chunk *chunk = owner;
    if (status != KVF_OK) {
        chunk_failed(chunk, status, "scattering was stopped");
        return;
    }
    if (chunk->job.has_digest && chunk->job.digest != chunk->op.header.digest) {
        char detail[96];
        (void)snprintf(detail, sizeof(detail),
                       "chunk at offset %llu of segment %u arrived damaged",
                       (unsigned long long)chunk->at.offset, chunk->at.segment);
        chunk_failed(chunk, KVF_INTEGRITY, detail);
        return;
    }
    chunk_done(chunk);
}

static void on_landed(void *owner, enum kvf_status status)
{
    struct kvf_chunk *chunk = owner;
    struct kvf_transfer *transfer = chunk->transfer;
    if (status != KVF_OK) {
        wire_failed(chunk);
        return;
    }
    if (is_stopped(transfer)) {
        chunk_gone(chunk);
        return;
    }
    bool has_digest = (chunk->op.header.flags & KVF_CHUNK_HAS_DIGEST) != 0;
    struct kvf_stream_plan *stream = chunk->stream;
    kvf_transfer_bytes_arrived(transfer, chunk_bytes(chunk));
    if (chunk->slot == KVF_SLOT_NONE && !has_digest) {
        chunk_done(chunk);
        return;
    }
    if (chunk->slot != KVF_SLOT_NONE) {
        status = start_job(chunk, KVF_COPY_SCATTER,
                           kvf_slots_base(transfer->transfers->config.slots, chunk->slot),
                           stream->pool->base, has_digest, on_placed);
    } else {
        status =
            start_job(chunk, KVF_COPY_CRC_DST, NULL, stream->pool->base, true, on_placed);
    }
    if (status != KVF_OK) {
        chunk_failed(chunk, status, "the copy workers' queues are full");
    }
}

/* Where the chunk lands: destination blocks when the path is direct and the pieces fit,
 * else a slot. False: no slot now. */
static bool choose_landing(struct kvf_chunk *chunk)
{
    struct kvf_transfer *transfer = chunk->transfer;
    struct kvf_stream_plan *stream = chunk->stream;
    struct kvf_slots *slots = transfer->transfers->config.slots;
    uint64_t covered = 0;
    if (transfer->path == KVF_PATH_DIRECT) {
        chunk->op.n_spans = kvf_plan_pieces(
            &stream->plan, KVF_PLAN_DST, stream->pool->base, chunk->at.offset,
            chunk_bytes(chunk), chunk->op.spans, KVF_SPANS_MAX, &covered);
        chunk->op.memory =
            kvf_daemon_pool_memory(stream->pool, transfer->peer->transport);
        if (covered == chunk_bytes(chunk)) {
            return true;
        }
    }
    chunk->slot = kvf_slots_acquire(slots, &transfer->peer->n_slots);
    if (chunk->slot == KVF_SLOT_NONE) {
        return false;
    }
    chunk->op.spans[0] = (struct iovec){.iov_base = kvf_slots_base(slots, chunk->slot),
                                        .iov_len = chunk_bytes(chunk)};
    chunk->op.n_spans = 1;
    chunk->op.memory = kvf_slots_memory(slots, transfer->peer->transport);
    return true;
}

static enum kvf_pump land(struct kvf_transfer *transfer, struct kvf_waiting *waiting)
{
    const struct kvf_chunk_header *header = &waiting->header;
    struct kvf_transport *transport = transfer->peer->transport;
    struct kvf_arrival *arrival = waiting->arrival;
    struct kvf_chunk *chunk = chunk_acquire(transfer, &transfer->streams[header->segment],
                                            header->offset, header->length);
    if (chunk == NULL) {
        return KVF_PUMP_STARVED;
    }
    if (!choose_landing(chunk)) {
        chunk_release(chunk);
        return KVF_PUMP_STARVED;
    }
    chunk->op.header = *header;
    chunk->op.done = on_landed;
    chunk->op.owner = chunk;
    chunk->step = KVF_CHUNK_WIRE;
    if (transfer->timing.t_first_byte == 0) {
        transfer->timing.t_first_byte =
            kvf_loop_clock_ns(transfer->transfers->config.loop);
    }
    drop_waiting(transfer, waiting);
    kvf_transfer_first_chunk(transfer);
    enum kvf_status status = transport->ops->receive(arrival, &chunk->op);
    if (status != KVF_OK) {
        chunk_failed(chunk, KVF_DATA_PATH, "the transport could not take a chunk");
    }
    return KVF_PUMP_DONE;
}

/* Whether the header names bytes of this transfer that are still wanted. */
static enum kvf_status judge_arrival(const struct kvf_transfer *transfer,
                                     const struct kvf_chunk_header *header)
{
    uint64_t end;
    if (header->segment >= transfer->n_streams || header->length == 0 ||
        header->length > transfer->chunk_bytes ||
        !kvf_size_add(header->offset, header->length, &end) ||
        end > transfer->streams[header->segment].n_bytes) {
        return KVF_BAD_REF;
    }
    const struct kvf_interval at = {
        .segment = header->segment, .offset = header->offset, .end = end};
    return is_claimed(transfer, &at) ? KVF_DUPLICATE : KVF_OK;
}

static enum kvf_pump answer_arrival(struct kvf_transfer *transfer)
{
    struct kvf_node *node = kvf_list_first(&transfer->arrivals);
    bool may_land = transfer->state == KVF_TRANSFER_RECEIVE_READY ||
                    transfer->state == KVF_TRANSFER_RECEIVING;
    if (node == NULL || !may_land) {
        return KVF_PUMP_IDLE;
    }
    struct kvf_waiting *waiting = KVF_CONTAINER(node, struct kvf_waiting, node);
    enum kvf_status status = judge_arrival(transfer, &waiting->header);
    if (status == KVF_OK) {
        return land(transfer, waiting);
    }
    struct kvf_arrival *arrival = waiting->arrival;
    drop_waiting(transfer, waiting);
    transfer->peer->transport->ops->drop(arrival);
    if (status == KVF_BAD_REF) {
        kvf_transfer_stop(transfer, KVF_BAD_REF,
                          "the sender named bytes outside the plan", true);
        return KVF_PUMP_IDLE;
    }
    return KVF_PUMP_DONE;
}

static void on_copied(void *owner, enum kvf_status status)
{
    struct kvf_chunk *chunk = owner;
    if (status != KVF_OK) {
        chunk_failed(chunk, status, "the local copy was stopped");
        return;
    }
    if (!is_stopped(chunk->transfer)) {
        kvf_transfer_bytes_arrived(chunk->transfer, chunk_bytes(chunk));
    }
    chunk_done(chunk);
}

static enum kvf_pump pump_local(struct kvf_transfer *transfer)
{
    struct kvf_stream_plan *stream = next_stream(transfer);
    if (stream == NULL || transfer->chunks.n >= transfer->window) {
        return KVF_PUMP_IDLE;
    }
    struct kvf_chunk *chunk = chunk_acquire(transfer, stream, stream->next_offset,
                                            next_length(transfer, stream));
    if (chunk == NULL) {
        return KVF_PUMP_STARVED;
    }
    if (start_job(chunk, KVF_COPY_LOCAL, stream->other->base, stream->pool->base, false,
                  on_copied) != KVF_OK) {
        chunk_release(chunk);
        return KVF_PUMP_STARVED;
    }
    if (transfer->timing.t_first_byte == 0) {
        transfer->timing.t_first_byte =
            kvf_loop_clock_ns(transfer->transfers->config.loop);
    }
    stream->next_offset = chunk->at.end;
    kvf_transfer_first_chunk(transfer);
    return KVF_PUMP_DONE;
}

static enum kvf_pump pump_receiver(struct kvf_transfer *transfer)
{
    if (transfer->path == KVF_PATH_LOCAL_HOST) {
        return transfer->state == KVF_TRANSFER_RECEIVE_READY ||
                       transfer->state == KVF_TRANSFER_RECEIVING
                   ? pump_local(transfer)
                   : KVF_PUMP_IDLE;
    }
    return answer_arrival(transfer);
}

/* Round the list, one step each, until a whole round brought nothing. */
static void pump(void *owner, enum kvf_status status)
{
    (void)status;
    struct kvf_transfers *transfers = owner;
    size_t n_without_progress = 0;
    while (transfers->runnable.n > 0 && n_without_progress < transfers->runnable.n) {
        struct kvf_node *node = kvf_list_pop(&transfers->runnable);
        struct kvf_transfer *transfer =
            KVF_CONTAINER(node, struct kvf_transfer, runnable_node);
        /* Back on the list first: a step may end the transfer, which takes it off. */
        kvf_list_add_tail(&transfers->runnable, node);
        enum kvf_pump result = transfer->direction == KVF_SEND ? pump_sender(transfer)
                                                               : pump_receiver(transfer);
        if (result == KVF_PUMP_DONE) {
            n_without_progress = 0;
        } else if (result == KVF_PUMP_STARVED) {
            n_without_progress++;
        } else if (kvf_node_is_linked(node)) {
            kvf_list_remove(&transfers->runnable, node);
        }
    }
}

void kvf_transfers_arrived(struct kvf_transfers *transfers, struct kvf_peer *peer,
                           struct kvf_arrival *arrival,
                           const struct kvf_chunk_header *header)
{
    struct kvf_transfer *transfer =
        kvf_slab_find(transfers->slab, header->receiver_session);
    uint64_t id = 0;
    struct kvf_waiting *waiting = NULL;
    if (transfer != NULL && transfer->peer == peer &&
        transfer->direction == KVF_RECEIVE && transfer->status == KVF_IN_PROGRESS &&
        transfer->request->lease_generation == header->lease_generation) {
        waiting = kvf_slab_acquire(transfers->waiting, &id);
    }
    if (waiting == NULL) {
        peer->transport->ops->drop(arrival); /* cancelled, foreign, or too many wait */
        return;
    }
    waiting->id = id;
    waiting->arrival = arrival;
    waiting->header = *header;
    kvf_list_add_tail(&transfer->arrivals, &waiting->node);
    kvf_transfer_wake(transfer);
}

static bool forget_in(struct kvf_transfer *transfer, const struct kvf_arrival *arrival)
{
    for (struct kvf_node *node = kvf_list_first(&transfer->arrivals); node != NULL;
         node = kvf_list_next(&transfer->arrivals, node)) {
        struct kvf_waiting *waiting = KVF_CONTAINER(node, struct kvf_waiting, node);
        if (waiting->arrival == arrival) {
            drop_waiting(transfer, waiting);
            return true;
        }
    }
    return false;
}

void kvf_transfers_arrival_lost(struct kvf_transfers *transfers,
                                struct kvf_arrival *arrival)
{
    static const enum kvf_transfer_state states[] = {
        KVF_TRANSFER_REQUESTED, KVF_TRANSFER_RECEIVE_READY, KVF_TRANSFER_RECEIVING};
    for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
        struct kvf_list *list = &transfers->by_state[states[i]];
        for (struct kvf_node *node = kvf_list_first(list); node != NULL;
             node = kvf_list_next(list, node)) {
            if (forget_in(KVF_CONTAINER(node, struct kvf_transfer, state_node),
                          arrival)) {
                return;
            }
        }
    }
}

enum kvf_status kvf_chunks_create(struct kvf_transfers *transfers)
{
    enum kvf_status status =
        kvf_slab_create(sizeof(struct kvf_chunk), 64, KVF_CHUNKS_MAX, &transfers->chunks);
    if (status == KVF_OK) {
        status = kvf_slab_create(sizeof(struct kvf_waiting), 64, KVF_WAITING_MAX,
                                 &transfers->waiting);
    }
    return status;
}

void kvf_chunks_destroy(struct kvf_transfers *transfers)
{
    kvf_loop_post_remove(&transfers->pump_post);
    kvf_slab_destroy(transfers->chunks);
    kvf_slab_destroy(transfers->waiting);
}
