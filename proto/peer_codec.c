/* SPDX-License-Identifier: Apache-2.0 */
/* What daemons say to each other; the table at the end is the list. */
#include <string.h>

#include "proto/codec.h"

#define KVF_NAME_TEXT_MAX    63u
#define KVF_DETAIL_TEXT_MAX  191u
#define KVF_VERSION_TEXT_MAX 32u
#define KVF_BLOBS_MAX        8u
#define KVF_BLOB_BYTES_MAX   1024u
#define KVF_HASHES_MAX       1048576u
#define KVF_NOTIFY_BYTES_MAX 4096u

/* The descriptor's base is the first member of every protobuf-c struct. */
#define BASE(wire)           ((wire) != NULL ? &(wire)->base : NULL)
#define WIRE(type, message)  ((const type *)(const void *)(message))

/* ---- Hello */

static Kvferry__Hello *put_hello_body(struct kvf_encoder *encoder,
                                      const struct kvf_hello *hello)
{
    Kvferry__Hello *wire = kvf_encoder_alloc(encoder, 1, sizeof(*wire));
    kvf_put_limit(encoder, hello->n_data, KVF_BLOBS_MAX, "data");
    Kvferry__DataBlob *blobs =
        kvf_encoder_alloc(encoder, hello->n_data + 1, sizeof(*blobs));
    Kvferry__DataBlob **list =
        kvf_encoder_alloc(encoder, hello->n_data + 1, sizeof(*list));
    if (wire == NULL || blobs == NULL || list == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < hello->n_data; i++) {
        kvferry__data_blob__init(&blobs[i]);
        blobs[i].transport = kvf_put_text(encoder, hello->data[i].transport,
                                          KVF_VERSION_TEXT_MAX, "transport");
        blobs[i].version = kvf_put_text(encoder, hello->data[i].version,
                                        KVF_VERSION_TEXT_MAX, "version");
        kvf_put_limit(encoder, hello->data[i].blob.n, KVF_BLOB_BYTES_MAX, "blob");
        blobs[i].blob = kvf_put_bytes(hello->data[i].blob.data, hello->data[i].blob.n);
        list[i] = &blobs[i];
    }
    kvferry__hello__init(wire);
    wire->version_min = hello->version_min;
    wire->version_max = hello->version_max;
    wire->capabilities = hello->capabilities;
    wire->node = kvf_put_text(encoder, hello->node, KVF_NAME_TEXT_MAX, "node");
    wire->nonce = kvf_put_bytes(hello->nonce, KVF_NONCE_BYTES);
    wire->data_token = kvf_put_bytes(hello->data_token, KVF_NONCE_BYTES);
    wire->n_data = hello->n_data;
    wire->data = list;
    wire->software =
        kvf_put_text(encoder, hello->software, KVF_NAME_TEXT_MAX, "software");
    wire->heartbeat_ms = hello->heartbeat_ms;
    wire->session_tag = hello->session_tag;
    wire->expected_node =
        kvf_put_text(encoder, hello->expected_node, KVF_NAME_TEXT_MAX, "expected_node");
    wire->data_transport = kvf_put_text(encoder, hello->data_transport,
                                        KVF_VERSION_TEXT_MAX, "data_transport");
    return wire;
}

static void get_hello_body(struct kvf_decoder *decoder, const Kvferry__Hello *wire,
                           struct kvf_hello *out)
{
    if (wire == NULL) {
        decoder->bad = "hello";
        return;
    }
    if (!kvf_get_limit(decoder, wire->n_data, KVF_BLOBS_MAX, "data")) {
        return;
    }
    struct kvf_data_blob *blobs =
        kvf_decoder_alloc(decoder, wire->n_data, sizeof(*blobs));
    if (blobs == NULL) {
        return;
    }
    for (size_t i = 0; i < wire->n_data; i++) {
        const Kvferry__DataBlob *blob = wire->data[i];
        blobs[i].transport =
            kvf_get_text(decoder, blob->transport, KVF_VERSION_TEXT_MAX, "transport");
        blobs[i].version =
            kvf_get_text(decoder, blob->version, KVF_VERSION_TEXT_MAX, "version");
        (void)kvf_get_limit(decoder, blob->blob.len, KVF_BLOB_BYTES_MAX, "blob");
        blobs[i].blob = (struct kvf_bytes){.data = blob->blob.data, .n = blob->blob.len};
    }
    out->version_min = wire->version_min;
    out->version_max = wire->version_max;
    out->capabilities = wire->capabilities;
    out->node = kvf_get_text(decoder, wire->node, KVF_NAME_TEXT_MAX, "node");
    kvf_get_exact(decoder, &wire->nonce, out->nonce, KVF_NONCE_BYTES, "nonce");
    kvf_get_exact(decoder, &wire->data_token, out->data_token, KVF_NONCE_BYTES,
                  "data_token");
    out->data = blobs;
    out->n_data = wire->n_data;
    out->software = kvf_get_text(decoder, wire->software, KVF_NAME_TEXT_MAX, "software");
    out->heartbeat_ms = wire->heartbeat_ms;
    out->session_tag = wire->session_tag;
    out->expected_node =
        kvf_get_text(decoder, wire->expected_node, KVF_NAME_TEXT_MAX, "expected_node");
    out->data_transport = kvf_get_text(decoder, wire->data_transport,
                                       KVF_VERSION_TEXT_MAX, "data_transport");
}

static ProtobufCMessage *put_hello(struct kvf_encoder *encoder,
                                   const struct kvf_message *message)
{
    Kvferry__Hello *wire = put_hello_body(encoder, &message->u.hello);
    return BASE(wire);
}

static void get_hello(struct kvf_decoder *decoder, const ProtobufCMessage *wire,
                      struct kvf_message *out)
{
    get_hello_body(decoder, WIRE(Kvferry__Hello, wire), &out->u.hello);
}

static ProtobufCMessage *put_hello_ack(struct kvf_encoder *encoder,
                                       const struct kvf_message *message)
{
    const struct kvf_hello_ack *ack = &message->u.hello_ack;
    Kvferry__HelloAck *wire = kvf_encoder_alloc(encoder, 1, sizeof(*wire));
    if (wire == NULL) {
        return NULL;
    }
    kvferry__hello_ack__init(wire);
    wire->status = ack->status;
    wire->detail = kvf_put_text(encoder, ack->detail, KVF_DETAIL_TEXT_MAX, "detail");
    wire->version = ack->version;
    wire->hello = put_hello_body(encoder, &ack->hello);
    return wire->hello != NULL ? &wire->base : NULL;
}

static void get_hello_ack(struct kvf_decoder *decoder, const ProtobufCMessage *base,
                          struct kvf_message *out)
{
    const Kvferry__HelloAck *wire = WIRE(Kvferry__HelloAck, base);
    out->u.hello_ack.status = wire->status;
    out->u.hello_ack.detail =
        kvf_get_text(decoder, wire->detail, KVF_DETAIL_TEXT_MAX, "detail");
    out->u.hello_ack.version = wire->version;
    get_hello_body(decoder, wire->hello, &out->u.hello_ack.hello);
}

/* ---- RequestInfo, Ready */

static Kvferry__PoolLayout **put_layouts(struct kvf_encoder *encoder,
                                         const struct kvf_pool_layout *layouts, size_t n)
{
    kvf_put_limit(encoder, n, KVF_LAYOUTS_MAX, "layouts");
    Kvferry__PoolLayout **list = kvf_encoder_alloc(encoder, n + 1, sizeof(*list));
    for (size_t i = 0; list != NULL && i < n; i++) {
        list[i] = kvf_put_layout(encoder, &layouts[i]);
        if (list[i] == NULL) {
            return NULL;
        }
    }
    return list;
}

static struct kvf_pool_layout *get_layouts(struct kvf_decoder *decoder,
                                           Kvferry__PoolLayout *const *wire, size_t n)
{
    if (!kvf_get_limit(decoder, n, KVF_LAYOUTS_MAX, "layouts")) {
        return NULL;
    }
    struct kvf_pool_layout *layouts = kvf_decoder_alloc(decoder, n, sizeof(*layouts));
    for (size_t i = 0; layouts != NULL && i < n; i++) {
        kvf_get_layout(decoder, wire[i], &layouts[i]);
    }
    return layouts;
}

static Kvferry__Segment **put_segments(struct kvf_encoder *encoder,
                                       const struct kvf_segment *segments, size_t n)
{
    kvf_put_limit(encoder, n, KVF_SEGMENTS_MAX, "segments");
    Kvferry__Segment **list = kvf_encoder_alloc(encoder, n + 1, sizeof(*list));
    Kvferry__Segment *wire = kvf_encoder_alloc(encoder, n + 1, sizeof(*wire));
    if (list == NULL || wire == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        kvferry__segment__init(&wire[i]);
        wire[i].group = segments[i].group;
        wire[i].token_first = segments[i].token_first;
        wire[i].n_tokens = segments[i].n_tokens;
        wire[i].layer_first = segments[i].layer_first;
        wire[i].n_layers = segments[i].n_layers;
        list[i] = &wire[i];
    }
    return list;
}

static struct kvf_segment *get_segments(struct kvf_decoder *decoder,
                                        Kvferry__Segment *const *wire, size_t n)
{
    if (!kvf_get_limit(decoder, n, KVF_SEGMENTS_MAX, "segments")) {
        return NULL;
    }
    struct kvf_segment *segments = kvf_decoder_alloc(decoder, n, sizeof(*segments));
    for (size_t i = 0; segments != NULL && i < n; i++) {
        segments[i] = (struct kvf_segment){.group = wire[i]->group,
                                           .token_first = wire[i]->token_first,
                                           .n_tokens = wire[i]->n_tokens,
                                           .layer_first = wire[i]->layer_first,
                                           .n_layers = wire[i]->n_layers};
    }
    return segments;
}

static uint64_t *borrow_u64(const uint64_t *values)
{
    union {
        const uint64_t *in;
        uint64_t *out;
    } as = {.in = values};
    return as.out;
}

static ProtobufCMessage *put_request_info(struct kvf_encoder *encoder,
                                          const struct kvf_message *message)
{
    const struct kvf_request_info *info = &message->u.request_info;
    Kvferry__RequestInfo *wire = kvf_encoder_alloc(encoder, 1, sizeof(*wire));
    if (wire == NULL) {
        return NULL;
    }
    kvferry__request_info__init(wire);
    kvf_put_limit(encoder, info->n_block_hashes, KVF_HASHES_MAX, "block_hashes");
    wire->request_id = info->request_id;
    wire->index_from_end = info->index_from_end;
    wire->has_last_block_key = info->has_last_block_key;
    wire->last_block_key = info->has_last_block_key
                               ? kvf_put_block_key(encoder, &info->last_block_key)
                               : NULL;
    wire->trans_state = kvf_put_state(encoder, &info->state);
    wire->attempt = info->attempt;
    wire->instance_nonce = kvf_put_bytes(info->instance_nonce, KVF_NONCE_BYTES);
    wire->context_rank = info->context_rank;
    wire->receiver_session = info->receiver_session;
    wire->lease_generation = info->lease_generation;
    wire->remaining_ms = info->remaining_ms;
    wire->n_segments = info->n_segments;
    wire->segments = put_segments(encoder, info->segments, info->n_segments);
    wire->n_layouts = info->n_layouts;
    wire->layouts = put_layouts(encoder, info->layouts, info->n_layouts);
    wire->n_block_hashes = info->n_block_hashes;
    wire->block_hashes = borrow_u64(info->block_hashes);
    if (info->has_trace_id) {
        wire->trace_id = kvf_put_bytes(info->trace_id, 16);
    }
    wire->integrity = info->integrity;
    wire->max_chunk_bytes = info->max_chunk_bytes;
    wire->credit_chunks = info->credit_chunks;
    wire->path = kvf_put_text(encoder, info->path, KVF_VERSION_TEXT_MAX, "path");
    wire->label = kvf_put_text(encoder, info->label, KVF_NAME_TEXT_MAX + 1, "label");
    wire->n_tokens = info->n_tokens;
    bool is_whole = wire->trans_state != NULL && wire->segments != NULL &&
                    wire->layouts != NULL &&
                    (!info->has_last_block_key || wire->last_block_key != NULL);
    return is_whole ? &wire->base : NULL;
}

static void get_request_info(struct kvf_decoder *decoder, const ProtobufCMessage *base,
                             struct kvf_message *out)
{
    const Kvferry__RequestInfo *wire = WIRE(Kvferry__RequestInfo, base);
    struct kvf_request_info *info = &out->u.request_info;
    info->request_id = wire->request_id;
    info->index_from_end = wire->index_from_end;
    info->has_last_block_key = wire->has_last_block_key;
    if (wire->has_last_block_key) {
        kvf_get_block_key(decoder, wire->last_block_key, &info->last_block_key);
    }
    kvf_get_state(decoder, wire->trans_state, &info->state);
    info->attempt = wire->attempt;
    kvf_get_exact(decoder, &wire->instance_nonce, info->instance_nonce, KVF_NONCE_BYTES,
                  "instance_nonce");
    info->context_rank = wire->context_rank;
    info->receiver_session = wire->receiver_session;
    info->lease_generation = wire->lease_generation;
    info->remaining_ms = wire->remaining_ms;
    info->segments = get_segments(decoder, wire->segments, wire->n_segments);
    info->n_segments = wire->n_segments;
    info->layouts = get_layouts(decoder, wire->layouts, wire->n_layouts);
    info->n_layouts = wire->n_layouts;
    (void)kvf_get_limit(decoder, wire->n_block_hashes, KVF_HASHES_MAX, "block_hashes");
    info->block_hashes = wire->block_hashes;
    info->n_block_hashes = wire->n_block_hashes;
    info->has_trace_id = kvf_get_trace(decoder, &wire->trace_id, info->trace_id);
    info->integrity = wire->integrity;
    info->max_chunk_bytes = wire->max_chunk_bytes;
    info->credit_chunks = wire->credit_chunks;
    info->path = kvf_get_text(decoder, wire->path, KVF_VERSION_TEXT_MAX, "path");
    info->label = kvf_get_text(decoder, wire->label, KVF_NAME_TEXT_MAX + 1, "label");
    info->n_tokens = wire->n_tokens;
}

static ProtobufCMessage *put_ready(struct kvf_encoder *encoder,
                                   const struct kvf_message *message)
{
    const struct kvf_ready *ready = &message->u.ready;
    Kvferry__Ready *wire = kvf_encoder_alloc(encoder, 1, sizeof(*wire));
    if (wire == NULL) {
        return NULL;
    }
    kvferry__ready__init(wire);
    wire->receiver_session = ready->receiver_session;
    wire->ready = ready->is_ready;
    wire->cause = ready->cause;
    wire->detail = kvf_put_text(encoder, ready->detail, KVF_DETAIL_TEXT_MAX, "detail");
    wire->plan_hash = ready->plan_hash;
    wire->sender_session = ready->sender_session;
    wire->lease_generation = ready->lease_generation;
    wire->n_layouts = ready->n_layouts;
    wire->layouts = put_layouts(encoder, ready->layouts, ready->n_layouts);
    wire->total_bytes = ready->total_bytes;
    wire->path = kvf_put_text(encoder, ready->path, KVF_VERSION_TEXT_MAX, "path");
    wire->integrity = ready->integrity;
    wire->will_send = ready->will_send;
    return wire->layouts != NULL ? &wire->base : NULL;
}

static void get_ready(struct kvf_decoder *decoder, const ProtobufCMessage *base,
                      struct kvf_message *out)
{
    const Kvferry__Ready *wire = WIRE(Kvferry__Ready, base);
    out->u.ready = (struct kvf_ready){
        .receiver_session = wire->receiver_session,
        .sender_session = wire->sender_session,
        .lease_generation = wire->lease_generation,
        .plan_hash = wire->plan_hash,
        .total_bytes = wire->total_bytes,
        .is_ready = wire->ready,
        .will_send = wire->will_send,
        .cause = wire->cause,
        .detail = kvf_get_text(decoder, wire->detail, KVF_DETAIL_TEXT_MAX, "detail"),
        .path = kvf_get_text(decoder, wire->path, KVF_VERSION_TEXT_MAX, "path"),
        .layouts = get_layouts(decoder, wire->layouts, wire->n_layouts),
        .n_layouts = wire->n_layouts,
        .integrity = wire->integrity,
    };
}

/* ---- flow */

static ProtobufCMessage *put_receipt(struct kvf_encoder *encoder,
                                     const struct kvf_message *message)
{
    const struct kvf_receipt *receipt = &message->u.receipt;
    size_t n = receipt->n_ranges;
    kvf_put_limit(encoder, n, KVF_RANGES_MAX, "ranges");
    Kvferry__Receipt *wire = kvf_encoder_alloc(encoder, 1, sizeof(*wire));
    Kvferry__ReceiptRange *ranges = kvf_encoder_alloc(encoder, n + 1, sizeof(*ranges));
    Kvferry__ReceiptRange **list = kvf_encoder_alloc(encoder, n + 1, sizeof(*list));
    if (wire == NULL || ranges == NULL || list == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        kvferry__receipt_range__init(&ranges[i]);
        ranges[i].segment = receipt->ranges[i].segment;
        ranges[i].offset = receipt->ranges[i].offset;
        ranges[i].length = receipt->ranges[i].length;
        list[i] = &ranges[i];
    }
    kvferry__receipt__init(wire);
    wire->sender_session = receipt->sender_session;
    wire->n_ranges = n;
    wire->ranges = list;
    wire->credit_chunks = receipt->credit_chunks;
    wire->received_bytes = receipt->received_bytes;
    return &wire->base;
}

static void get_receipt(struct kvf_decoder *decoder, const ProtobufCMessage *base,
                        struct kvf_message *out)
{
    const Kvferry__Receipt *wire = WIRE(Kvferry__Receipt, base);
    if (!kvf_get_limit(decoder, wire->n_ranges, KVF_RANGES_MAX, "ranges")) {
        return;
    }
    struct kvf_receipt_range *ranges =
        kvf_decoder_alloc(decoder, wire->n_ranges, sizeof(*ranges));
    for (size_t i = 0; ranges != NULL && i < wire->n_ranges; i++) {
        ranges[i] = (struct kvf_receipt_range){.segment = wire->ranges[i]->segment,
                                               .offset = wire->ranges[i]->offset,
                                               .length = wire->ranges[i]->length};
    }
    out->u.receipt = (struct kvf_receipt){.sender_session = wire->sender_session,
                                          .credit_chunks = wire->credit_chunks,
                                          .received_bytes = wire->received_bytes,
                                          .ranges = ranges,
                                          .n_ranges = wire->n_ranges};
}

static ProtobufCMessage *put_cancel(struct kvf_encoder *encoder,
                                    const struct kvf_message *message)
{
    const struct kvf_cancel_message *cancel = &message->u.cancel;
    Kvferry__Cancel *wire = kvf_encoder_alloc(encoder, 1, sizeof(*wire));
    if (wire == NULL) {
        return NULL;
    }
    kvferry__cancel__init(wire);
    wire->to_sender = cancel->to_sender;
    wire->session = cancel->session;
    wire->cause = cancel->cause;
    wire->detail = kvf_put_text(encoder, cancel->detail, KVF_DETAIL_TEXT_MAX, "detail");
    wire->has_key = cancel->has_key;
    wire->instance_nonce = kvf_put_bytes(cancel->instance_nonce, KVF_NONCE_BYTES);
    wire->request_id = cancel->request_id;
    wire->attempt = cancel->attempt;
    wire->receiver_session = cancel->receiver_session;
    return &wire->base;
}

static void get_cancel(struct kvf_decoder *decoder, const ProtobufCMessage *base,
                       struct kvf_message *out)
{
    const Kvferry__Cancel *wire = WIRE(Kvferry__Cancel, base);
    struct kvf_cancel_message *cancel = &out->u.cancel;
    cancel->to_sender = wire->to_sender;
    cancel->session = wire->session;
    cancel->cause = wire->cause;
    cancel->detail = kvf_get_text(decoder, wire->detail, KVF_DETAIL_TEXT_MAX, "detail");
    cancel->has_key = wire->has_key;
    cancel->request_id = wire->request_id;
    cancel->attempt = wire->attempt;
    cancel->receiver_session = wire->receiver_session;
    kvf_get_exact(decoder, &wire->instance_nonce, cancel->instance_nonce, KVF_NONCE_BYTES,
                  "instance_nonce");
}

static ProtobufCMessage *put_cancel_ack(struct kvf_encoder *encoder,
                                        const struct kvf_message *message)
{
    Kvferry__CancelAck *wire = kvf_encoder_alloc(encoder, 1, sizeof(*wire));
    if (wire == NULL) {
        return NULL;
    }
    kvferry__cancel_ack__init(wire);
    wire->to_sender = message->u.cancel_ack.to_sender;
    wire->session = message->u.cancel_ack.session;
    wire->status = message->u.cancel_ack.status;
    return &wire->base;
}

static void get_cancel_ack(struct kvf_decoder *decoder, const ProtobufCMessage *base,
                           struct kvf_message *out)
{
    (void)decoder; /* nothing that could be wrong */
    const Kvferry__CancelAck *wire = WIRE(Kvferry__CancelAck, base);
    out->u.cancel_ack = (struct kvf_cancel_ack){
        .to_sender = wire->to_sender, .session = wire->session, .status = wire->status};
}

static ProtobufCMessage *put_done(struct kvf_encoder *encoder,
                                  const struct kvf_message *message)
{
    Kvferry__Done *wire = kvf_encoder_alloc(encoder, 1, sizeof(*wire));
    if (wire == NULL) {
        return NULL;
    }
    kvferry__done__init(wire);
    wire->sender_session = message->u.done.sender_session;
    wire->status = message->u.done.status;
    wire->detail =
        kvf_put_text(encoder, message->u.done.detail, KVF_DETAIL_TEXT_MAX, "detail");
    wire->received_bytes = message->u.done.received_bytes;
    return &wire->base;
}

static void get_done(struct kvf_decoder *decoder, const ProtobufCMessage *base,
                     struct kvf_message *out)
{
    const Kvferry__Done *wire = WIRE(Kvferry__Done, base);
    out->u.done = (struct kvf_done){
        .sender_session = wire->sender_session,
        .received_bytes = wire->received_bytes,
        .status = wire->status,
        .detail = kvf_get_text(decoder, wire->detail, KVF_DETAIL_TEXT_MAX, "detail"),
    };
}

static ProtobufCMessage *put_done_ack(struct kvf_encoder *encoder,
                                      const struct kvf_message *message)
{
    Kvferry__DoneAck *wire = kvf_encoder_alloc(encoder, 1, sizeof(*wire));
    if (wire == NULL) {
        return NULL;
    }
    kvferry__done_ack__init(wire);
    wire->receiver_session = message->u.done_ack.receiver_session;
    return &wire->base;
}

static void get_done_ack(struct kvf_decoder *decoder, const ProtobufCMessage *base,
                         struct kvf_message *out)
{
    (void)decoder; /* nothing that could be wrong */
    out->u.done_ack.receiver_session = WIRE(Kvferry__DoneAck, base)->receiver_session;
}

/* ---- housekeeping */

static ProtobufCMessage *put_error(struct kvf_encoder *encoder,
                                   const struct kvf_message *message)
{
    Kvferry__Error *wire = kvf_encoder_alloc(encoder, 1, sizeof(*wire));
    if (wire == NULL) {
        return NULL;
    }
    kvferry__error__init(wire);
    wire->cause = message->u.error.cause;
    wire->detail =
        kvf_put_text(encoder, message->u.error.detail, KVF_DETAIL_TEXT_MAX, "detail");
    wire->frame_type = message->u.error.frame_type;
    wire->frame_sequence = message->u.error.frame_sequence;
    return &wire->base;
}

static void get_error(struct kvf_decoder *decoder, const ProtobufCMessage *base,
                      struct kvf_message *out)
{
    const Kvferry__Error *wire = WIRE(Kvferry__Error, base);
    out->u.error = (struct kvf_error_message){
        .cause = wire->cause,
        .detail = kvf_get_text(decoder, wire->detail, KVF_DETAIL_TEXT_MAX, "detail"),
        .frame_type = wire->frame_type,
        .frame_sequence = wire->frame_sequence,
    };
}

static ProtobufCMessage *put_ping(struct kvf_encoder *encoder,
                                  const struct kvf_message *message)
{
    Kvferry__Ping *wire = kvf_encoder_alloc(encoder, 1, sizeof(*wire));
    if (wire == NULL) {
        return NULL;
    }
    kvferry__ping__init(wire);
    wire->sequence = message->u.ping.sequence;
    wire->sent_ns = message->u.ping.sent_ns;
    wire->data_progress = message->u.ping.data_progress;
    wire->last_heard_ns = message->u.ping.last_heard_ns;
    return &wire->base;
}

static void get_ping(struct kvf_decoder *decoder, const ProtobufCMessage *base,
                     struct kvf_message *out)
{
    (void)decoder; /* nothing that could be wrong */
    const Kvferry__Ping *wire = WIRE(Kvferry__Ping, base);
    out->u.ping = (struct kvf_ping){.sequence = wire->sequence,
                                    .sent_ns = wire->sent_ns,
                                    .data_progress = wire->data_progress,
                                    .last_heard_ns = wire->last_heard_ns};
}

static ProtobufCMessage *put_pong(struct kvf_encoder *encoder,
                                  const struct kvf_message *message)
{
    Kvferry__Pong *wire = kvf_encoder_alloc(encoder, 1, sizeof(*wire));
    if (wire == NULL) {
        return NULL;
    }
    kvferry__pong__init(wire);
    wire->sequence = message->u.pong.sequence;
    wire->sent_ns = message->u.pong.sent_ns;
    wire->wall_ns = message->u.pong.wall_ns;
    return &wire->base;
}

static void get_pong(struct kvf_decoder *decoder, const ProtobufCMessage *base,
                     struct kvf_message *out)
{
    (void)decoder; /* nothing that could be wrong */
    const Kvferry__Pong *wire = WIRE(Kvferry__Pong, base);
    out->u.pong = (struct kvf_pong){
        .sequence = wire->sequence, .sent_ns = wire->sent_ns, .wall_ns = wire->wall_ns};
}

static ProtobufCMessage *put_drain(struct kvf_encoder *encoder,
                                   const struct kvf_message *message)
{
    Kvferry__Drain *wire = kvf_encoder_alloc(encoder, 1, sizeof(*wire));
    if (wire == NULL) {
        return NULL;
    }
    kvferry__drain__init(wire);
    wire->grace_ms = message->u.drain.grace_ms;
    return &wire->base;
}

static void get_drain(struct kvf_decoder *decoder, const ProtobufCMessage *base,
                      struct kvf_message *out)
{
    (void)decoder; /* nothing that could be wrong */
    out->u.drain.grace_ms = WIRE(Kvferry__Drain, base)->grace_ms;
}

static ProtobufCMessage *put_notify(struct kvf_encoder *encoder,
                                    const struct kvf_message *message)
{
    const struct kvf_notify_message *notify = &message->u.notify;
    Kvferry__Notify *wire = kvf_encoder_alloc(encoder, 1, sizeof(*wire));
    kvf_put_limit(encoder, notify->payload.n, KVF_NOTIFY_BYTES_MAX, "payload");
    if (wire == NULL) {
        return NULL;
    }
    kvferry__notify__init(wire);
    wire->instance =
        kvf_put_text(encoder, notify->instance, KVF_NAME_TEXT_MAX, "instance");
    wire->rank = notify->rank;
    wire->from_instance =
        kvf_put_text(encoder, notify->from_instance, KVF_NAME_TEXT_MAX, "from_instance");
    wire->from_rank = notify->from_rank;
    wire->payload = kvf_put_bytes(notify->payload.data, notify->payload.n);
    return &wire->base;
}

static void get_notify(struct kvf_decoder *decoder, const ProtobufCMessage *base,
                       struct kvf_message *out)
{
    const Kvferry__Notify *wire = WIRE(Kvferry__Notify, base);
    (void)kvf_get_limit(decoder, wire->payload.len, KVF_NOTIFY_BYTES_MAX, "payload");
    out->u.notify = (struct kvf_notify_message){
        .instance = kvf_get_text(decoder, wire->instance, KVF_NAME_TEXT_MAX, "instance"),
        .rank = wire->rank,
        .from_instance = kvf_get_text(decoder, wire->from_instance, KVF_NAME_TEXT_MAX,
                                      "from_instance"),
        .from_rank = wire->from_rank,
        .payload = {.data = wire->payload.data, .n = wire->payload.len},
    };
}

const struct kvf_codec kvf_peer_codecs[] = {
    {KVF_MSG_HELLO, "Hello", &kvferry__hello__descriptor, put_hello, get_hello},
    {KVF_MSG_HELLO_ACK, "HelloAck", &kvferry__hello_ack__descriptor, put_hello_ack,
     get_hello_ack},
    {KVF_MSG_PING, "Ping", &kvferry__ping__descriptor, put_ping, get_ping},
    {KVF_MSG_PONG, "Pong", &kvferry__pong__descriptor, put_pong, get_pong},
    {KVF_MSG_REQUEST_INFO, "RequestInfo", &kvferry__request_info__descriptor,
     put_request_info, get_request_info},
    {KVF_MSG_READY, "Ready", &kvferry__ready__descriptor, put_ready, get_ready},
    {KVF_MSG_RECEIPT, "Receipt", &kvferry__receipt__descriptor, put_receipt, get_receipt},
    {KVF_MSG_CANCEL, "Cancel", &kvferry__cancel__descriptor, put_cancel, get_cancel},
    {KVF_MSG_CANCEL_ACK, "CancelAck", &kvferry__cancel_ack__descriptor, put_cancel_ack,
     get_cancel_ack},
    {KVF_MSG_DONE, "Done", &kvferry__done__descriptor, put_done, get_done},
    {KVF_MSG_DONE_ACK, "DoneAck", &kvferry__done_ack__descriptor, put_done_ack,
     get_done_ack},
    {KVF_MSG_ERROR, "Error", &kvferry__error__descriptor, put_error, get_error},
    {KVF_MSG_DRAIN, "Drain", &kvferry__drain__descriptor, put_drain, get_drain},
    {KVF_MSG_NOTIFY, "Notify", &kvferry__notify__descriptor, put_notify, get_notify},
};
const size_t kvf_n_peer_codecs = sizeof(kvf_peer_codecs) / sizeof(kvf_peer_codecs[0]);
