/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of the messages between an engine and its daemon. How to read a row: schema.h.
 * Const data.
 */
#include "kvferry.pb-c.h"
#include "proto/schema.h"

static const struct kvf_field engine_hello_fields[] = {
    KVF_SCALAR(1, UINT32, engine_hello, version_min),
    KVF_SCALAR(2, UINT32, engine_hello, version_max),
    KVF_TEXT(3, engine_hello, instance, KVF_NAME_MAX),
    KVF_SCALAR(4, UINT32, engine_hello, rank),
    KVF_TEXT(5, engine_hello, name, KVF_ENGINE_NAME_BYTES),
    KVF_SCALAR(6, UINT32, engine_hello, pid),
    KVF_TEXT(7, engine_hello, software, KVF_SOFTWARE_BYTES),
    KVF_DIGEST(8, engine_hello, nonce),
};
const struct kvf_schema kvf_schema_engine_hello = {
    KVF_SCHEMA(engine_hello, kvferry__engine_hello__descriptor, engine_hello_fields)};

static const struct kvf_field engine_hello_ack_fields[] = {
    KVF_SCALAR(1, SINT32, engine_hello_ack, status),
    KVF_TEXT(2, engine_hello_ack, detail, KVF_DETAIL_BYTES),
    KVF_SCALAR(3, UINT32, engine_hello_ack, version),
    KVF_TEXT(4, engine_hello_ack, node, KVF_NAME_MAX),
    KVF_RECORD(5, engine_hello_ack, state, &kvf_schema_transceiver_state),
    KVF_SCALAR(6, UINT32, engine_hello_ack, default_deadline_ms),
    KVF_SCALAR(7, UINT32, engine_hello_ack, max_deadline_ms),
    KVF_SCALAR(8, UINT32, engine_hello_ack, max_requests),
    KVF_DIGEST(9, engine_hello_ack, daemon_nonce),
};
const struct kvf_schema kvf_schema_engine_hello_ack = {KVF_SCHEMA(
    engine_hello_ack, kvferry__engine_hello_ack__descriptor, engine_hello_ack_fields)};

static const struct kvf_field pool_register_fields[] = {
    KVF_SCALAR(1, UINT32, pool_register_message, pool_id),
    KVF_RECORD(2, pool_register_message, layout, &kvf_schema_pool_layout),
    KVF_SCALAR(3, UINT64, pool_register_message, offset),
    KVF_SCALAR(4, UINT64, pool_register_message, length),
};
const struct kvf_schema kvf_schema_pool_register = {KVF_SCHEMA(
    pool_register_message, kvferry__pool_register__descriptor, pool_register_fields)};

static const struct kvf_field pool_answer_fields[] = {
    KVF_SCALAR(1, UINT32, pool_answer, pool_id),
    KVF_SCALAR(2, SINT32, pool_answer, status),
    KVF_TEXT(3, pool_answer, detail, KVF_DETAIL_BYTES),
};
const struct kvf_schema kvf_schema_pool_registered = {
    KVF_SCHEMA(pool_answer, kvferry__pool_registered__descriptor, pool_answer_fields)};
const struct kvf_schema kvf_schema_pool_unregistered = {
    KVF_SCHEMA(pool_answer, kvferry__pool_unregistered__descriptor, pool_answer_fields)};

static const struct kvf_field pool_unregister_fields[] = {
    KVF_SCALAR(1, UINT32, pool_answer, pool_id),
};
const struct kvf_schema kvf_schema_pool_unregister = {KVF_SCHEMA(
    pool_answer, kvferry__pool_unregister__descriptor, pool_unregister_fields)};

static const struct kvf_field table_fields[] = {
    KVF_SCALAR(1, UINT32, table, group),
    KVF_SCALARS(2, FIXED32, table, blocks, n_blocks, KVF_BLOCKS_MAX),
};
static const struct kvf_schema table_schema = {
    KVF_SCHEMA(table, kvferry__block_table__descriptor, table_fields)};

/* Each table is within KVF_BLOCKS_MAX already; so must be all of them. */
static const char *tables_refusal(const struct kvf_table *tables, size_t n_tables)
{
    size_t n_blocks = 0;
    for (size_t i = 0; i < n_tables; i++) {
        n_blocks += tables[i].n_blocks;
    }
    return n_blocks > KVF_BLOCKS_MAX ? "tables have too many blocks together" : NULL;
}

static const struct kvf_field offer_fields[] = {
    KVF_SCALAR(1, UINT64, offer, handle),
    KVF_SCALAR(2, UINT64, offer, request_id),
    KVF_SCALAR(3, UINT32, offer, attempt),
    KVF_TEXT(4, offer, label, KVF_LABEL_MAX),
    KVF_SCALAR(5, UINT32, offer, n_tokens),
    KVF_RECORDS(6, offer, tables, n_tables, &table_schema, KVF_TABLES_MAX),
    KVF_SCALAR(7, UINT32, offer, deadline_ms),
    KVF_SCALAR(8, BOOL, offer, is_ready),
    KVF_SCALARS(9, FIXED64, offer, block_hashes, n_block_hashes, KVF_BLOCKS_MAX),
    KVF_OPTIONAL_DIGEST(10, offer, trace_id, has_trace_id),
};

static const char *offer_refusal(const void *record)
{
    const struct kvf_offer *offer = record;
    return tables_refusal(offer->tables, offer->n_tables);
}

const struct kvf_schema kvf_schema_offer = {
    KVF_SCHEMA(offer, kvferry__offer__descriptor, offer_fields),
    .refusal = offer_refusal};

static const struct kvf_field offer_ready_fields[] = {
    KVF_SCALAR(1, UINT64, offer_ready, handle),
    KVF_SCALAR(2, SINT32, offer_ready, status),
};
const struct kvf_schema kvf_schema_offer_ready = {
    KVF_SCHEMA(offer_ready, kvferry__offer_ready__descriptor, offer_ready_fields)};

static const struct kvf_field receive_fields[] = {
    KVF_SCALAR(1, UINT64, receive_message, handle),
    KVF_RECORD(2, receive_message, params, &kvf_schema_context_params),
    KVF_SCALAR(3, UINT32, receive_message, n_prefix_tokens),
    KVF_RECORDS(4, receive_message, tables, n_tables, &table_schema, KVF_TABLES_MAX),
    KVF_SCALAR(5, UINT32, receive_message, deadline_ms),
    KVF_TEXT(6, receive_message, label, KVF_LABEL_MAX),
    KVF_SCALARS(7, FIXED64, receive_message, block_hashes, n_block_hashes,
                KVF_BLOCKS_MAX),
};

static const char *receive_refusal(const void *record)
{
    const struct kvf_receive_message *receive = record;
    return tables_refusal(receive->tables, receive->n_tables);
}

const struct kvf_schema kvf_schema_receive = {
    KVF_SCHEMA(receive_message, kvferry__receive__descriptor, receive_fields),
    .refusal = receive_refusal};

static const struct kvf_field engine_cancel_fields[] = {
    KVF_SCALAR(1, BOOL, engine_cancel, by_request),
    KVF_SCALAR(2, UINT64, engine_cancel, handle),
    KVF_SCALAR(3, UINT64, engine_cancel, request_id),
};
const struct kvf_schema kvf_schema_engine_cancel = {
    KVF_SCHEMA(engine_cancel, kvferry__engine_cancel__descriptor, engine_cancel_fields)};

static const struct kvf_field transfer_event_fields[] = {
    KVF_SCALAR(1, UINT64, transfer_event, handle),
    KVF_SCALAR(2, UINT32, transfer_event, bits),
    KVF_SCALAR(3, SINT32, transfer_event, status),
    KVF_SCALAR(4, UINT64, transfer_event, bytes),
    KVF_SCALAR(5, UINT64, transfer_event, duration_ns),
    KVF_TEXT(6, transfer_event, peer, KVF_NAME_MAX),
    KVF_TEXT(7, transfer_event, path, KVF_PATH_BYTES),
    KVF_TEXT(8, transfer_event, detail, KVF_DETAIL_BYTES),
};
const struct kvf_schema kvf_schema_transfer_event = {KVF_SCHEMA(
    transfer_event, kvferry__transfer_event__descriptor, transfer_event_fields)};

/* EngineNotify names the receiver, NotifyEvent the sender: the same members. */
static const struct kvf_field engine_notify_fields[] = {
    KVF_TEXT(1, engine_notify, instance, KVF_NAME_MAX),
    KVF_SCALAR(2, UINT32, engine_notify, rank),
    KVF_BLOB(3, engine_notify, payload, KVF_NOTIFY_MAX),
};
const struct kvf_schema kvf_schema_engine_notify = {
    KVF_SCHEMA(engine_notify, kvferry__engine_notify__descriptor, engine_notify_fields)};
const struct kvf_schema kvf_schema_notify_event = {
    KVF_SCHEMA(engine_notify, kvferry__notify_event__descriptor, engine_notify_fields)};

static const struct kvf_field comm_state_set_fields[] = {
    KVF_RECORD(1, comm_state_set, state, &kvf_schema_comm_state),
};
const struct kvf_schema kvf_schema_comm_state_set = {KVF_SCHEMA(
    comm_state_set, kvferry__comm_state_set__descriptor, comm_state_set_fields)};

static const struct kvf_field comm_state_ack_fields[] = {
    KVF_SCALAR(1, SINT32, comm_state_ack, status),
    KVF_TEXT(2, comm_state_ack, detail, KVF_DETAIL_BYTES),
};
const struct kvf_schema kvf_schema_comm_state_ack = {KVF_SCHEMA(
    comm_state_ack, kvferry__comm_state_ack__descriptor, comm_state_ack_fields)};
