/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Message types: number, name and schema in one table, and a frame around each. What the
 * fields are is in the *_schema.c files, how they are written and read in writer.c and
 * reader.c. Any thread.
 */
#include "proto/message.h"

#include <assert.h>

#include "proto/frame.h"
#include "proto/schema.h"

struct message_type {
    const char *name; /* as in kvferry.proto */
    const struct kvf_schema *schema;
};

static const struct message_type types[] = {
    [KVF_MSG_HELLO] = {"Hello", &kvf_schema_hello},
    [KVF_MSG_HELLO_ACK] = {"HelloAck", &kvf_schema_hello_ack},
    [KVF_MSG_PING] = {"Ping", &kvf_schema_ping},
    [KVF_MSG_PONG] = {"Pong", &kvf_schema_pong},
    [KVF_MSG_REQUEST_INFO] = {"RequestInfo", &kvf_schema_request_info},
    [KVF_MSG_READY] = {"Ready", &kvf_schema_ready},
    [KVF_MSG_RECEIPT] = {"Receipt", &kvf_schema_receipt},
    [KVF_MSG_CANCEL] = {"Cancel", &kvf_schema_cancel},
    [KVF_MSG_CANCEL_ACK] = {"CancelAck", &kvf_schema_cancel_ack},
    [KVF_MSG_DONE] = {"Done", &kvf_schema_done},
    [KVF_MSG_DONE_ACK] = {"DoneAck", &kvf_schema_done_ack},
    [KVF_MSG_ERROR] = {"Error", &kvf_schema_error},
    [KVF_MSG_DRAIN] = {"Drain", &kvf_schema_drain},
    [KVF_MSG_NOTIFY] = {"Notify", &kvf_schema_notify},
    [KVF_MSG_ENGINE_HELLO] = {"EngineHello", &kvf_schema_engine_hello},
    [KVF_MSG_ENGINE_HELLO_ACK] = {"EngineHelloAck", &kvf_schema_engine_hello_ack},
    [KVF_MSG_POOL_REGISTER] = {"PoolRegister", &kvf_schema_pool_register},
    [KVF_MSG_POOL_REGISTERED] = {"PoolRegistered", &kvf_schema_pool_registered},
    [KVF_MSG_POOL_UNREGISTER] = {"PoolUnregister", &kvf_schema_pool_unregister},
    [KVF_MSG_POOL_UNREGISTERED] = {"PoolUnregistered", &kvf_schema_pool_unregistered},
    [KVF_MSG_OFFER] = {"Offer", &kvf_schema_offer},
    [KVF_MSG_OFFER_READY] = {"OfferReady", &kvf_schema_offer_ready},
    [KVF_MSG_RECEIVE] = {"Receive", &kvf_schema_receive},
    [KVF_MSG_ENGINE_CANCEL] = {"EngineCancel", &kvf_schema_engine_cancel},
    [KVF_MSG_TRANSFER_EVENT] = {"TransferEvent", &kvf_schema_transfer_event},
    [KVF_MSG_ENGINE_NOTIFY] = {"EngineNotify", &kvf_schema_engine_notify},
    [KVF_MSG_NOTIFY_EVENT] = {"NotifyEvent", &kvf_schema_notify_event},
    [KVF_MSG_COMM_STATE_SET] = {"CommStateSet", &kvf_schema_comm_state_set},
    [KVF_MSG_COMM_STATE_ACK] = {"CommStateAck", &kvf_schema_comm_state_ack},
};
#define N_TYPES (sizeof(types) / sizeof(types[0]))

bool kvf_message_type_is_known(uint32_t type)
{
    return type < N_TYPES && types[type].schema != NULL;
}

const char *kvf_message_name(uint32_t type)
{
    return kvf_message_type_is_known(type) ? types[type].name : "?";
}

const struct kvf_schema *kvf_message_schema(uint32_t type)
{
    return kvf_message_type_is_known(type) ? types[type].schema : NULL;
}

/* Checks every limit and counts. False: the message may not be sent. */
static bool measure(const struct kvf_message *message, size_t *out_n)
{
    const struct kvf_schema *schema = kvf_message_schema(message->type);
    struct kvf_writer counter = {.end = NULL};
    if (schema == NULL || kvf_schema_write(schema, &message->u, &counter) != NULL) {
        return false;
    }
    *out_n = counter.n;
    return true;
}

size_t kvf_message_size(const struct kvf_message *message)
{
    size_t n = 0;
    return measure(message, &n) ? n : 0;
}

enum kvf_status kvf_message_encode(const struct kvf_message *message,
                                   uint64_t session_tag, uint64_t sequence,
                                   struct kvf_buf *out)
{
    size_t n = 0;
    if (!measure(message, &n) || n > KVF_FRAME_MAX_ENGINE) {
        return KVF_INVALID_ARGUMENT;
    }
    size_t n_frame = KVF_FRAME_HEADER_BYTES + n;
    uint8_t *bytes = kvf_buf_reserve(out, n_frame);
    if (bytes == NULL) {
        bool is_full = n_frame > out->max_bytes - kvf_buf_length(out);
        return is_full ? KVF_BUSY : KVF_NO_MEMORY;
    }
    struct kvf_writer writer = {.end = bytes + n_frame};
    const char *refusal =
        kvf_schema_write(kvf_message_schema(message->type), &message->u, &writer);
    assert(refusal == NULL && writer.n == n);
    (void)refusal; /* only counting refuses */
    kvf_frame_seal(bytes, (uint16_t)message->type, (uint32_t)n, session_tag, sequence);
    kvf_buf_commit(out, n_frame);
    return KVF_OK;
}

enum kvf_status kvf_message_decode(uint32_t type, const uint8_t *payload, size_t n,
                                   struct kvf_arena *arena, struct kvf_message *out,
                                   const char **out_detail)
{
    const struct kvf_schema *schema = kvf_message_schema(type);
    if (schema == NULL) {
        *out_detail = "message type is unknown";
        return KVF_PROTOCOL;
    }
    enum kvf_status status =
        kvf_schema_read(schema, payload, n, arena, &out->u, out_detail);
    if (status == KVF_OK) {
        out->type = (enum kvf_message_type)type;
    }
    return status;
}
