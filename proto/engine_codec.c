/* SPDX-License-Identifier: Apache-2.0 */
/* What engines and their daemon say to each other; the table at the end is the list. */
#include <string.h>

#include "proto/codec.h"

#define KVF_NAME_TEXT_MAX    63u
#define KVF_ENGINE_NAME_MAX  127u
#define KVF_LABEL_TEXT_MAX   64u
#define KVF_DETAIL_TEXT_MAX  191u
#define KVF_PATH_TEXT_MAX    31u
#define KVF_TABLES_LIMIT     16u
#define KVF_BLOCKS_LIMIT     1048576u
#define KVF_NOTIFY_BYTES_MAX 4096u

#define WIRE(type, message)  ((const type *)(const void *)(message))

/* ---- registration */

static ProtobufCMessage *put_engine_hello(struct kvf_encoder *encoder,
                                          const struct kvf_message *message)
{
    const struct kvf_engine_hello *hello = &message->u.engine_hello;
    Kvferry__EngineHello *wire = kvf_encoder_alloc(encoder, 1, sizeof(*wire));
    if (wire == NULL) {
        return NULL;
    }
    kvferry__engine_hello__init(wire);
    wire->version_min = hello->version_min;
    wire->version_max = hello->version_max;
    wire->instance =
        kvf_put_text(encoder, hello->instance, KVF_NAME_TEXT_MAX, "instance");
    wire->rank = hello->rank;
    wire->name = kvf_put_text(encoder, hello->name, KVF_ENGINE_NAME_MAX, "name");
    wire->pid = hello->pid;
    wire->software =
        kvf_put_text(encoder, hello->software, KVF_NAME_TEXT_MAX, "software");
    wire->nonce = kvf_put_bytes(hello->nonce, KVF_NONCE_BYTES);
    return &wire->base;
}

static void get_engine_hello(struct kvf_decoder *decoder, const ProtobufCMessage *base,
                             struct kvf_message *out)
{
    const Kvferry__EngineHello *wire = WIRE(Kvferry__EngineHello, base);
    struct kvf_engine_hello *hello = &out->u.engine_hello;
    hello->version_min = wire->version_min;
    hello->version_max = wire->version_max;
    hello->instance =
        kvf_get_text(decoder, wire->instance, KVF_NAME_TEXT_MAX, "instance");
    hello->rank = wire->rank;
    hello->name = kvf_get_text(decoder, wire->name, KVF_ENGINE_NAME_MAX, "name");
    hello->pid = wire->pid;
    hello->software =
        kvf_get_text(decoder, wire->software, KVF_NAME_TEXT_MAX, "software");
    kvf_get_exact(decoder, &wire->nonce, hello->nonce, KVF_NONCE_BYTES, "nonce");
}

static ProtobufCMessage *put_engine_hello_ack(struct kvf_encoder *encoder,
                                              const struct kvf_message *message)
{
    const struct kvf_engine_hello_ack *ack = &message->u.engine_hello_ack;
    Kvferry__EngineHelloAck *wire = kvf_encoder_alloc(encoder, 1, sizeof(*wire));
    if (wire == NULL) {
        return NULL;
    }
    kvferry__engine_hello_ack__init(wire);
    wire->status = ack->status;
    wire->detail = kvf_put_text(encoder, ack->detail, KVF_DETAIL_TEXT_MAX, "detail");
    wire->version = ack->version;
    wire->node = kvf_put_text(encoder, ack->node, KVF_NAME_TEXT_MAX, "node");
    wire->state = kvf_put_state(encoder, &ack->state);
    wire->default_deadline_ms = ack->default_deadline_ms;
    wire->max_deadline_ms = ack->max_deadline_ms;
    wire->max_requests = ack->max_requests;
    wire->daemon_nonce = kvf_put_bytes(ack->daemon_nonce, KVF_NONCE_BYTES);
    return wire->state != NULL ? &wire->base : NULL;
}

static void get_engine_hello_ack(struct kvf_decoder *decoder,
                                 const ProtobufCMessage *base, struct kvf_message *out)
{
    const Kvferry__EngineHelloAck *wire = WIRE(Kvferry__EngineHelloAck, base);
    struct kvf_engine_hello_ack *ack = &out->u.engine_hello_ack;
    ack->status = wire->status;
    ack->detail = kvf_get_text(decoder, wire->detail, KVF_DETAIL_TEXT_MAX, "detail");
    ack->version = wire->version;
    ack->node = kvf_get_text(decoder, wire->node, KVF_NAME_TEXT_MAX, "node");
    kvf_get_state(decoder, wire->state, &ack->state);
    ack->default_deadline_ms = wire->default_deadline_ms;
    ack->max_deadline_ms = wire->max_deadline_ms;
    ack->max_requests = wire->max_requests;
    kvf_get_exact(decoder, &wire->daemon_nonce, ack->daemon_nonce, KVF_NONCE_BYTES,
                  "daemon_nonce");
}

static ProtobufCMessage *put_pool_register(struct kvf_encoder *encoder,
                                           const struct kvf_message *message)
{
    const struct kvf_pool_register_message *pool = &message->u.pool_register;
    Kvferry__PoolRegister *wire = kvf_encoder_alloc(encoder, 1, sizeof(*wire));
    if (wire == NULL) {
        return NULL;
    }
    kvferry__pool_register__init(wire);
    wire->pool_id = pool->pool_id;
    wire->layout = kvf_put_layout(encoder, &pool->layout);
    wire->offset = pool->offset;
    wire->length = pool->length;
    return wire->layout != NULL ? &wire->base : NULL;
}

static void get_pool_register(struct kvf_decoder *decoder, const ProtobufCMessage *base,
                              struct kvf_message *out)
{
    const Kvferry__PoolRegister *wire = WIRE(Kvferry__PoolRegister, base);
    out->u.pool_register.pool_id = wire->pool_id;
    kvf_get_layout(decoder, wire->layout, &out->u.pool_register.layout);
    out->u.pool_register.offset = wire->offset;
    out->u.pool_register.length = wire->length;
}

static ProtobufCMessage *put_pool_registered(struct kvf_encoder *encoder,
                                             const struct kvf_message *message)
{
    const struct kvf_pool_answer *answer = &message->u.pool_answer;
    Kvferry__PoolRegistered *wire = kvf_encoder_alloc(encoder, 1, sizeof(*wire));
    if (wire == NULL) {
        return NULL;
    }
    kvferry__pool_registered__init(wire);
    wire->pool_id = answer->pool_id;
    wire->status = answer->status;
    wire->detail = kvf_put_text(encoder, answer->detail, KVF_DETAIL_TEXT_MAX, "detail");
    return &wire->base;
}

static void get_pool_registered(struct kvf_decoder *decoder, const ProtobufCMessage *base,
                                struct kvf_message *out)
{
    const Kvferry__PoolRegistered *wire = WIRE(Kvferry__PoolRegistered, base);
    out->u.pool_answer = (struct kvf_pool_answer){
        .pool_id = wire->pool_id,
        .status = wire->status,
        .detail = kvf_get_text(decoder, wire->detail, KVF_DETAIL_TEXT_MAX, "detail"),
    };
}

static ProtobufCMessage *put_pool_unregister(struct kvf_encoder *encoder,
                                             const struct kvf_message *message)
{
    Kvferry__PoolUnregister *wire = kvf_encoder_alloc(encoder, 1, sizeof(*wire));
    if (wire == NULL) {
        return NULL;
    }
    kvferry__pool_unregister__init(wire);
    wire->pool_id = message->u.pool_answer.pool_id;
    return &wire->base;
}

static void get_pool_unregister(struct kvf_decoder *decoder, const ProtobufCMessage *base,
                                struct kvf_message *out)
{
    (void)decoder; /* nothing that could be wrong */
    out->u.pool_answer = (struct kvf_pool_answer){
        .pool_id = WIRE(Kvferry__PoolUnregister, base)->pool_id, .detail = ""};
}

static ProtobufCMessage *put_pool_unregistered(struct kvf_encoder *encoder,
                                               const struct kvf_message *message)
{
    const struct kvf_pool_answer *answer = &message->u.pool_answer;
    Kvferry__PoolUnregistered *wire = kvf_encoder_alloc(encoder, 1, sizeof(*wire));
    if (wire == NULL) {
        return NULL;
    }
    kvferry__pool_unregistered__init(wire);
    wire->pool_id = answer->pool_id;
    wire->status = answer->status;
    wire->detail = kvf_put_text(encoder, answer->detail, KVF_DETAIL_TEXT_MAX, "detail");
    return &wire->base;
}

static void get_pool_unregistered(struct kvf_decoder *decoder,
                                  const ProtobufCMessage *base, struct kvf_message *out)
{
    const Kvferry__PoolUnregistered *wire = WIRE(Kvferry__PoolUnregistered, base);
    out->u.pool_answer = (struct kvf_pool_answer){
        .pool_id = wire->pool_id,
        .status = wire->status,
        .detail = kvf_get_text(decoder, wire->detail, KVF_DETAIL_TEXT_MAX, "detail"),
    };
}

/* ---- offers and receives */

static uint32_t *borrow_u32(const uint32_t *values)
{
    union {
        const uint32_t *in;
        uint32_t *out;
    } as = {.in = values};
    return as.out;
}

static uint64_t *borrow_u64(const uint64_t *values)
{
    union {
        const uint64_t *in;
        uint64_t *out;
    } as = {.in = values};
    return as.out;
}

static Kvferry__BlockTable **put_tables(struct kvf_encoder *encoder,
                                        const struct kvf_table *tables, size_t n)
{
    size_t n_blocks = 0;
    kvf_put_limit(encoder, n, KVF_TABLES_LIMIT, "tables");
    Kvferry__BlockTable *wire = kvf_encoder_alloc(encoder, n + 1, sizeof(*wire));
    Kvferry__BlockTable **list = kvf_encoder_alloc(encoder, n + 1, sizeof(*list));
    if (wire == NULL || list == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        kvferry__block_table__init(&wire[i]);
        wire[i].group = tables[i].group;
        wire[i].n_blocks = tables[i].n_blocks;
        wire[i].blocks = borrow_u32(tables[i].blocks);
        list[i] = &wire[i];
        n_blocks += tables[i].n_blocks;
    }
    kvf_put_limit(encoder, n_blocks, KVF_BLOCKS_LIMIT, "blocks");
    return list;
}

static struct kvf_table *get_tables(struct kvf_decoder *decoder,
                                    Kvferry__BlockTable *const *wire, size_t n)
{
    size_t n_blocks = 0;
    if (!kvf_get_limit(decoder, n, KVF_TABLES_LIMIT, "tables")) {
        return NULL;
    }
    struct kvf_table *tables = kvf_decoder_alloc(decoder, n, sizeof(*tables));
    for (size_t i = 0; tables != NULL && i < n; i++) {
        tables[i] = (struct kvf_table){.group = wire[i]->group,
                                       .blocks = wire[i]->blocks,
                                       .n_blocks = wire[i]->n_blocks};
        n_blocks += wire[i]->n_blocks;
    }
    (void)kvf_get_limit(decoder, n_blocks, KVF_BLOCKS_LIMIT, "blocks");
    return tables;
}

static ProtobufCMessage *put_offer(struct kvf_encoder *encoder,
                                   const struct kvf_message *message)
{
    const struct kvf_offer *offer = &message->u.offer;
    Kvferry__Offer *wire = kvf_encoder_alloc(encoder, 1, sizeof(*wire));
    kvf_put_limit(encoder, offer->n_block_hashes, KVF_BLOCKS_LIMIT, "block_hashes");
    if (wire == NULL) {
        return NULL;
    }
    kvferry__offer__init(wire);
    wire->handle = offer->handle;
    wire->request_id = offer->request_id;
    wire->attempt = offer->attempt;
    wire->label = kvf_put_text(encoder, offer->label, KVF_LABEL_TEXT_MAX, "label");
    wire->n_tokens = offer->n_tokens;
    wire->n_tables = offer->n_tables;
    wire->tables = put_tables(encoder, offer->tables, offer->n_tables);
    wire->deadline_ms = offer->deadline_ms;
    wire->is_ready = offer->is_ready;
    wire->n_block_hashes = offer->n_block_hashes;
    wire->block_hashes = borrow_u64(offer->block_hashes);
    if (offer->has_trace_id) {
        wire->trace_id = kvf_put_bytes(offer->trace_id, 16);
    }
    return wire->tables != NULL ? &wire->base : NULL;
}

static void get_offer(struct kvf_decoder *decoder, const ProtobufCMessage *base,
                      struct kvf_message *out)
{
    const Kvferry__Offer *wire = WIRE(Kvferry__Offer, base);
    struct kvf_offer *offer = &out->u.offer;
    (void)kvf_get_limit(decoder, wire->n_block_hashes, KVF_BLOCKS_LIMIT, "block_hashes");
    offer->handle = wire->handle;
    offer->request_id = wire->request_id;
    offer->attempt = wire->attempt;
    offer->label = kvf_get_text(decoder, wire->label, KVF_LABEL_TEXT_MAX, "label");
    offer->n_tokens = wire->n_tokens;
    offer->tables = get_tables(decoder, wire->tables, wire->n_tables);
    offer->n_tables = wire->n_tables;
    offer->deadline_ms = wire->deadline_ms;
    offer->is_ready = wire->is_ready;
    offer->block_hashes = wire->block_hashes;
    offer->n_block_hashes = wire->n_block_hashes;
    offer->has_trace_id = kvf_get_trace(decoder, &wire->trace_id, offer->trace_id);
}

static ProtobufCMessage *put_offer_ready(struct kvf_encoder *encoder,
                                         const struct kvf_message *message)
{
    Kvferry__OfferReady *wire = kvf_encoder_alloc(encoder, 1, sizeof(*wire));
    if (wire == NULL) {
        return NULL;
    }
    kvferry__offer_ready__init(wire);
    wire->handle = message->u.offer_ready.handle;
    wire->status = message->u.offer_ready.status;
    return &wire->base;
}

static void get_offer_ready(struct kvf_decoder *decoder, const ProtobufCMessage *base,
                            struct kvf_message *out)
{
    (void)decoder; /* nothing that could be wrong */
    const Kvferry__OfferReady *wire = WIRE(Kvferry__OfferReady, base);
    out->u.offer_ready =
        (struct kvf_offer_ready){.handle = wire->handle, .status = wire->status};
}

static ProtobufCMessage *put_receive(struct kvf_encoder *encoder,
                                     const struct kvf_message *message)
{
    const struct kvf_receive_message *receive = &message->u.receive;
    Kvferry__Receive *wire = kvf_encoder_alloc(encoder, 1, sizeof(*wire));
    kvf_put_limit(encoder, receive->n_block_hashes, KVF_BLOCKS_LIMIT, "block_hashes");
    if (wire == NULL) {
        return NULL;
    }
    kvferry__receive__init(wire);
    wire->handle = receive->handle;
    wire->params = kvf_put_params(encoder, &receive->params);
    wire->n_prefix_tokens = receive->n_prefix_tokens;
    wire->n_tables = receive->n_tables;
    wire->tables = put_tables(encoder, receive->tables, receive->n_tables);
    wire->deadline_ms = receive->deadline_ms;
    wire->label = kvf_put_text(encoder, receive->label, KVF_LABEL_TEXT_MAX, "label");
    wire->n_block_hashes = receive->n_block_hashes;
    wire->block_hashes = borrow_u64(receive->block_hashes);
    return wire->tables != NULL && wire->params != NULL ? &wire->base : NULL;
}

static void get_receive(struct kvf_decoder *decoder, const ProtobufCMessage *base,
                        struct kvf_message *out)
{
    const Kvferry__Receive *wire = WIRE(Kvferry__Receive, base);
    struct kvf_receive_message *receive = &out->u.receive;
    (void)kvf_get_limit(decoder, wire->n_block_hashes, KVF_BLOCKS_LIMIT, "block_hashes");
    receive->handle = wire->handle;
    kvf_get_params(decoder, wire->params, &receive->params);
    receive->n_prefix_tokens = wire->n_prefix_tokens;
    receive->tables = get_tables(decoder, wire->tables, wire->n_tables);
    receive->n_tables = wire->n_tables;
    receive->deadline_ms = wire->deadline_ms;
    receive->label = kvf_get_text(decoder, wire->label, KVF_LABEL_TEXT_MAX, "label");
    receive->block_hashes = wire->block_hashes;
    receive->n_block_hashes = wire->n_block_hashes;
}

static ProtobufCMessage *put_engine_cancel(struct kvf_encoder *encoder,
                                           const struct kvf_message *message)
{
    Kvferry__EngineCancel *wire = kvf_encoder_alloc(encoder, 1, sizeof(*wire));
    if (wire == NULL) {
        return NULL;
    }
    kvferry__engine_cancel__init(wire);
    wire->by_request = message->u.engine_cancel.by_request;
    wire->handle = message->u.engine_cancel.handle;
    wire->request_id = message->u.engine_cancel.request_id;
    return &wire->base;
}

static void get_engine_cancel(struct kvf_decoder *decoder, const ProtobufCMessage *base,
                              struct kvf_message *out)
{
    (void)decoder; /* nothing that could be wrong */
    const Kvferry__EngineCancel *wire = WIRE(Kvferry__EngineCancel, base);
    out->u.engine_cancel = (struct kvf_engine_cancel){.by_request = wire->by_request,
                                                      .handle = wire->handle,
                                                      .request_id = wire->request_id};
}

static ProtobufCMessage *put_transfer_event(struct kvf_encoder *encoder,
                                            const struct kvf_message *message)
{
    const struct kvf_transfer_event *event = &message->u.transfer_event;
    Kvferry__TransferEvent *wire = kvf_encoder_alloc(encoder, 1, sizeof(*wire));
    if (wire == NULL) {
        return NULL;
    }
    kvferry__transfer_event__init(wire);
    wire->handle = event->handle;
    wire->bits = event->bits;
    wire->status = event->status;
    wire->bytes = event->bytes;
    wire->duration_ns = event->duration_ns;
    wire->peer = kvf_put_text(encoder, event->peer, KVF_NAME_TEXT_MAX, "peer");
    wire->path = kvf_put_text(encoder, event->path, KVF_PATH_TEXT_MAX, "path");
    wire->detail = kvf_put_text(encoder, event->detail, KVF_DETAIL_TEXT_MAX, "detail");
    return &wire->base;
}

static void get_transfer_event(struct kvf_decoder *decoder, const ProtobufCMessage *base,
                               struct kvf_message *out)
{
    const Kvferry__TransferEvent *wire = WIRE(Kvferry__TransferEvent, base);
    out->u.transfer_event = (struct kvf_transfer_event){
        .handle = wire->handle,
        .bytes = wire->bytes,
        .duration_ns = wire->duration_ns,
        .bits = wire->bits,
        .status = wire->status,
        .peer = kvf_get_text(decoder, wire->peer, KVF_NAME_TEXT_MAX, "peer"),
        .path = kvf_get_text(decoder, wire->path, KVF_PATH_TEXT_MAX, "path"),
        .detail = kvf_get_text(decoder, wire->detail, KVF_DETAIL_TEXT_MAX, "detail"),
    };
}

/* ---- names and notifications */

static ProtobufCMessage *put_engine_notify(struct kvf_encoder *encoder,
                                           const struct kvf_message *message)
{
    const struct kvf_engine_notify *notify = &message->u.engine_notify;
    Kvferry__EngineNotify *wire = kvf_encoder_alloc(encoder, 1, sizeof(*wire));
    kvf_put_limit(encoder, notify->payload.n, KVF_NOTIFY_BYTES_MAX, "payload");
    if (wire == NULL) {
        return NULL;
    }
    kvferry__engine_notify__init(wire);
    wire->instance =
        kvf_put_text(encoder, notify->instance, KVF_NAME_TEXT_MAX, "instance");
    wire->rank = notify->rank;
    wire->payload = kvf_put_bytes(notify->payload.data, notify->payload.n);
    return &wire->base;
}

static void get_engine_notify(struct kvf_decoder *decoder, const ProtobufCMessage *base,
                              struct kvf_message *out)
{
    const Kvferry__EngineNotify *wire = WIRE(Kvferry__EngineNotify, base);
    (void)kvf_get_limit(decoder, wire->payload.len, KVF_NOTIFY_BYTES_MAX, "payload");
    out->u.engine_notify = (struct kvf_engine_notify){
        .instance = kvf_get_text(decoder, wire->instance, KVF_NAME_TEXT_MAX, "instance"),
        .rank = wire->rank,
        .payload = {.data = wire->payload.data, .n = wire->payload.len},
    };
}

static ProtobufCMessage *put_notify_event(struct kvf_encoder *encoder,
                                          const struct kvf_message *message)
{
    const struct kvf_engine_notify *notify = &message->u.engine_notify;
    Kvferry__NotifyEvent *wire = kvf_encoder_alloc(encoder, 1, sizeof(*wire));
    kvf_put_limit(encoder, notify->payload.n, KVF_NOTIFY_BYTES_MAX, "payload");
    if (wire == NULL) {
        return NULL;
    }
    kvferry__notify_event__init(wire);
    wire->from_instance =
        kvf_put_text(encoder, notify->instance, KVF_NAME_TEXT_MAX, "from_instance");
    wire->from_rank = notify->rank;
    wire->payload = kvf_put_bytes(notify->payload.data, notify->payload.n);
    return &wire->base;
}

static void get_notify_event(struct kvf_decoder *decoder, const ProtobufCMessage *base,
                             struct kvf_message *out)
{
    const Kvferry__NotifyEvent *wire = WIRE(Kvferry__NotifyEvent, base);
    (void)kvf_get_limit(decoder, wire->payload.len, KVF_NOTIFY_BYTES_MAX, "payload");
    out->u.engine_notify = (struct kvf_engine_notify){
        .instance = kvf_get_text(decoder, wire->from_instance, KVF_NAME_TEXT_MAX,
                                 "from_instance"),
        .rank = wire->from_rank,
        .payload = {.data = wire->payload.data, .n = wire->payload.len},
    };
}

static ProtobufCMessage *put_comm_state_set(struct kvf_encoder *encoder,
                                            const struct kvf_message *message)
{
    Kvferry__CommStateSet *wire = kvf_encoder_alloc(encoder, 1, sizeof(*wire));
    if (wire == NULL) {
        return NULL;
    }
    kvferry__comm_state_set__init(wire);
    wire->state = kvf_put_comm_state(encoder, &message->u.comm_state_set.state);
    return wire->state != NULL ? &wire->base : NULL;
}

static void get_comm_state_set(struct kvf_decoder *decoder, const ProtobufCMessage *base,
                               struct kvf_message *out)
{
    kvf_get_comm_state(decoder, WIRE(Kvferry__CommStateSet, base)->state,
                       &out->u.comm_state_set.state);
}

static ProtobufCMessage *put_comm_state_ack(struct kvf_encoder *encoder,
                                            const struct kvf_message *message)
{
    Kvferry__CommStateAck *wire = kvf_encoder_alloc(encoder, 1, sizeof(*wire));
    if (wire == NULL) {
        return NULL;
    }
    kvferry__comm_state_ack__init(wire);
    wire->status = message->u.comm_state_ack.status;
    wire->detail = kvf_put_text(encoder, message->u.comm_state_ack.detail,
                                KVF_DETAIL_TEXT_MAX, "detail");
    return &wire->base;
}

static void get_comm_state_ack(struct kvf_decoder *decoder, const ProtobufCMessage *base,
                               struct kvf_message *out)
{
    const Kvferry__CommStateAck *wire = WIRE(Kvferry__CommStateAck, base);
    out->u.comm_state_ack = (struct kvf_comm_state_ack){
        .status = wire->status,
        .detail = kvf_get_text(decoder, wire->detail, KVF_DETAIL_TEXT_MAX, "detail"),
    };
}

const struct kvf_codec kvf_engine_codecs[] = {
    {KVF_MSG_ENGINE_HELLO, "EngineHello", &kvferry__engine_hello__descriptor,
     put_engine_hello, get_engine_hello},
    {KVF_MSG_ENGINE_HELLO_ACK, "EngineHelloAck", &kvferry__engine_hello_ack__descriptor,
     put_engine_hello_ack, get_engine_hello_ack},
    {KVF_MSG_POOL_REGISTER, "PoolRegister", &kvferry__pool_register__descriptor,
     put_pool_register, get_pool_register},
    {KVF_MSG_POOL_REGISTERED, "PoolRegistered", &kvferry__pool_registered__descriptor,
     put_pool_registered, get_pool_registered},
    {KVF_MSG_POOL_UNREGISTER, "PoolUnregister", &kvferry__pool_unregister__descriptor,
     put_pool_unregister, get_pool_unregister},
    {KVF_MSG_POOL_UNREGISTERED, "PoolUnregistered",
     &kvferry__pool_unregistered__descriptor, put_pool_unregistered,
     get_pool_unregistered},
    {KVF_MSG_OFFER, "Offer", &kvferry__offer__descriptor, put_offer, get_offer},
    {KVF_MSG_OFFER_READY, "OfferReady", &kvferry__offer_ready__descriptor,
     put_offer_ready, get_offer_ready},
    {KVF_MSG_RECEIVE, "Receive", &kvferry__receive__descriptor, put_receive, get_receive},
    {KVF_MSG_ENGINE_CANCEL, "EngineCancel", &kvferry__engine_cancel__descriptor,
     put_engine_cancel, get_engine_cancel},
    {KVF_MSG_TRANSFER_EVENT, "TransferEvent", &kvferry__transfer_event__descriptor,
     put_transfer_event, get_transfer_event},
    {KVF_MSG_ENGINE_NOTIFY, "EngineNotify", &kvferry__engine_notify__descriptor,
     put_engine_notify, get_engine_notify},
    {KVF_MSG_NOTIFY_EVENT, "NotifyEvent", &kvferry__notify_event__descriptor,
     put_notify_event, get_notify_event},
    {KVF_MSG_COMM_STATE_SET, "CommStateSet", &kvferry__comm_state_set__descriptor,
     put_comm_state_set, get_comm_state_set},
    {KVF_MSG_COMM_STATE_ACK, "CommStateAck", &kvferry__comm_state_ack__descriptor,
     put_comm_state_ack, get_comm_state_ack},
};
const size_t kvf_n_engine_codecs =
    sizeof(kvf_engine_codecs) / sizeof(kvf_engine_codecs[0]);
