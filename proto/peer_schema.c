/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of the messages between daemons. How to read a row: schema.h. Const data.
 */
#include "kvferry.pb-c.h"
#include "proto/schema.h"

static const struct kvf_field data_blob_fields[] = {
    KVF_TEXT(1, data_blob, transport, KVF_TRANSPORT_BYTES),
    KVF_BLOB(2, data_blob, blob, KVF_BLOB_BYTES),
    KVF_TEXT(3, data_blob, version, KVF_VERSION_BYTES),
};
static const struct kvf_schema data_blob_schema = {
    KVF_SCHEMA(data_blob, kvferry__data_blob__descriptor, data_blob_fields)};

static const struct kvf_field hello_fields[] = {
    KVF_SCALAR(1, UINT32, hello, version_min),
    KVF_SCALAR(2, UINT32, hello, version_max),
    KVF_SCALAR(3, UINT64, hello, capabilities),
    KVF_TEXT(4, hello, node, KVF_NAME_MAX),
    KVF_DIGEST(5, hello, nonce),
    KVF_DIGEST(6, hello, data_token),
    KVF_RECORDS(7, hello, data, n_data, &data_blob_schema, KVF_BLOBS_MAX),
    KVF_TEXT(8, hello, software, KVF_SOFTWARE_BYTES),
    KVF_SCALAR(9, UINT32, hello, heartbeat_ms),
    KVF_SCALAR(10, UINT64, hello, session_tag),
    KVF_TEXT(11, hello, expected_node, KVF_NAME_MAX),
    KVF_TEXT(12, hello, data_transport, KVF_TRANSPORT_BYTES),
};
const struct kvf_schema kvf_schema_hello = {
    KVF_SCHEMA(hello, kvferry__hello__descriptor, hello_fields)};

static const struct kvf_field hello_ack_fields[] = {
    KVF_SCALAR(1, SINT32, hello_ack, status),
    KVF_TEXT(2, hello_ack, detail, KVF_DETAIL_BYTES),
    KVF_SCALAR(3, UINT32, hello_ack, version),
    KVF_RECORD(4, hello_ack, hello, &kvf_schema_hello),
};
const struct kvf_schema kvf_schema_hello_ack = {
    KVF_SCHEMA(hello_ack, kvferry__hello_ack__descriptor, hello_ack_fields)};

static const struct kvf_field request_info_fields[] = {
    KVF_SCALAR(1, UINT64, request_info, request_id),
    KVF_SCALAR(2, INT32, request_info, index_from_end),
    KVF_SCALAR(3, BOOL, request_info, has_last_block_key),
    KVF_OPTIONAL_RECORD(4, request_info, last_block_key, has_last_block_key,
                        &kvf_schema_block_key),
    KVF_RECORD(5, request_info, state, &kvf_schema_transceiver_state),
    KVF_SCALAR(16, UINT32, request_info, attempt),
    KVF_DIGEST(17, request_info, instance_nonce),
    KVF_SCALAR(18, UINT32, request_info, context_rank),
    KVF_SCALAR(19, UINT64, request_info, receiver_session),
    KVF_SCALAR(20, UINT64, request_info, lease_generation),
    KVF_SCALAR(21, UINT32, request_info, remaining_ms),
    KVF_RECORDS(22, request_info, segments, n_segments, &kvf_schema_segment,
                KVF_SEGMENTS_MAX),
    KVF_RECORDS(23, request_info, layouts, n_layouts, &kvf_schema_pool_layout,
                KVF_LAYOUTS_MAX),
    KVF_SCALARS(24, FIXED64, request_info, block_hashes, n_block_hashes, KVF_BLOCKS_MAX),
    KVF_OPTIONAL_DIGEST(25, request_info, trace_id, has_trace_id),
    KVF_SCALAR(26, UINT32, request_info, integrity),
    KVF_SCALAR(27, UINT32, request_info, max_chunk_bytes),
    KVF_SCALAR(28, UINT64, request_info, credit_chunks),
    KVF_TEXT(29, request_info, path, KVF_PATH_BYTES),
    KVF_TEXT(30, request_info, label, KVF_LABEL_MAX),
    KVF_SCALAR(31, UINT32, request_info, n_tokens),
    KVF_RESERVED(32, lease, KVF_RESERVED_BYTES),
    KVF_RESERVED(33, ticket, KVF_RESERVED_BYTES),
    KVF_RESERVED(34, token, KVF_RESERVED_BYTES),
};
const struct kvf_schema kvf_schema_request_info = {
    KVF_SCHEMA(request_info, kvferry__request_info__descriptor, request_info_fields)};

static const struct kvf_field ready_fields[] = {
    KVF_SCALAR(1, UINT64, ready, receiver_session),
    KVF_SCALAR(2, BOOL, ready, is_ready),
    KVF_SCALAR(3, SINT32, ready, cause),
    KVF_TEXT(4, ready, detail, KVF_DETAIL_BYTES),
    KVF_SCALAR(5, UINT64, ready, plan_hash),
    KVF_SCALAR(6, UINT64, ready, sender_session),
    KVF_SCALAR(7, UINT64, ready, lease_generation),
    KVF_RECORDS(8, ready, layouts, n_layouts, &kvf_schema_pool_layout, KVF_LAYOUTS_MAX),
    KVF_SCALAR(9, UINT64, ready, total_bytes),
    KVF_TEXT(10, ready, path, KVF_PATH_BYTES),
    KVF_SCALAR(11, UINT32, ready, integrity),
    KVF_SCALAR(12, BOOL, ready, will_send),
};
const struct kvf_schema kvf_schema_ready = {
    KVF_SCHEMA(ready, kvferry__ready__descriptor, ready_fields)};

static const struct kvf_field receipt_range_fields[] = {
    KVF_SCALAR(1, UINT32, receipt_range, segment),
    KVF_SCALAR(2, UINT64, receipt_range, offset),
    KVF_SCALAR(3, UINT64, receipt_range, length),
};
static const struct kvf_schema receipt_range_schema = {
    KVF_SCHEMA(receipt_range, kvferry__receipt_range__descriptor, receipt_range_fields)};

static const struct kvf_field receipt_fields[] = {
    KVF_SCALAR(1, UINT64, receipt, sender_session),
    KVF_RECORDS(2, receipt, ranges, n_ranges, &receipt_range_schema, KVF_RANGES_MAX),
    KVF_SCALAR(3, UINT64, receipt, credit_chunks),
    KVF_SCALAR(4, UINT64, receipt, received_bytes),
};
const struct kvf_schema kvf_schema_receipt = {
    KVF_SCHEMA(receipt, kvferry__receipt__descriptor, receipt_fields)};

static const struct kvf_field cancel_fields[] = {
    KVF_SCALAR(1, BOOL, cancel_message, to_sender),
    KVF_SCALAR(2, UINT64, cancel_message, session),
    KVF_SCALAR(3, SINT32, cancel_message, cause),
    KVF_TEXT(4, cancel_message, detail, KVF_DETAIL_BYTES),
    KVF_SCALAR(5, BOOL, cancel_message, has_key),
    KVF_DIGEST(6, cancel_message, instance_nonce),
    KVF_SCALAR(7, UINT64, cancel_message, request_id),
    KVF_SCALAR(8, UINT32, cancel_message, attempt),
    KVF_SCALAR(9, UINT64, cancel_message, receiver_session),
};
const struct kvf_schema kvf_schema_cancel = {
    KVF_SCHEMA(cancel_message, kvferry__cancel__descriptor, cancel_fields)};

static const struct kvf_field cancel_ack_fields[] = {
    KVF_SCALAR(1, BOOL, cancel_ack, to_sender),
    KVF_SCALAR(2, UINT64, cancel_ack, session),
    KVF_SCALAR(3, SINT32, cancel_ack, status),
};
const struct kvf_schema kvf_schema_cancel_ack = {
    KVF_SCHEMA(cancel_ack, kvferry__cancel_ack__descriptor, cancel_ack_fields)};

static const struct kvf_field done_fields[] = {
    KVF_SCALAR(1, UINT64, done, sender_session),
    KVF_SCALAR(2, SINT32, done, status),
    KVF_TEXT(3, done, detail, KVF_DETAIL_BYTES),
    KVF_SCALAR(4, UINT64, done, received_bytes),
};
const struct kvf_schema kvf_schema_done = {
    KVF_SCHEMA(done, kvferry__done__descriptor, done_fields)};

static const struct kvf_field done_ack_fields[] = {
    KVF_SCALAR(1, UINT64, done_ack, receiver_session),
};
const struct kvf_schema kvf_schema_done_ack = {
    KVF_SCHEMA(done_ack, kvferry__done_ack__descriptor, done_ack_fields)};

static const struct kvf_field error_fields[] = {
    KVF_SCALAR(1, SINT32, error_message, cause),
    KVF_TEXT(2, error_message, detail, KVF_DETAIL_BYTES),
    KVF_SCALAR(3, UINT32, error_message, frame_type),
    KVF_SCALAR(4, UINT64, error_message, frame_sequence),
};
const struct kvf_schema kvf_schema_error = {
    KVF_SCHEMA(error_message, kvferry__error__descriptor, error_fields)};

static const struct kvf_field ping_fields[] = {
    KVF_SCALAR(1, UINT64, ping, sequence),
    KVF_SCALAR(2, UINT64, ping, sent_ns),
    KVF_SCALAR(3, UINT64, ping, data_progress),
    KVF_SCALAR(4, UINT64, ping, last_heard_ns),
};
const struct kvf_schema kvf_schema_ping = {
    KVF_SCHEMA(ping, kvferry__ping__descriptor, ping_fields)};

static const struct kvf_field pong_fields[] = {
    KVF_SCALAR(1, UINT64, pong, sequence),
    KVF_SCALAR(2, UINT64, pong, sent_ns),
    KVF_SCALAR(3, UINT64, pong, wall_ns),
};
const struct kvf_schema kvf_schema_pong = {
    KVF_SCHEMA(pong, kvferry__pong__descriptor, pong_fields)};

static const struct kvf_field drain_fields[] = {
    KVF_SCALAR(1, UINT32, drain, grace_ms),
};
const struct kvf_schema kvf_schema_drain = {
    KVF_SCHEMA(drain, kvferry__drain__descriptor, drain_fields)};

static const struct kvf_field notify_fields[] = {
    KVF_TEXT(1, notify_message, instance, KVF_NAME_MAX),
    KVF_SCALAR(2, UINT32, notify_message, rank),
    KVF_TEXT(3, notify_message, from_instance, KVF_NAME_MAX),
    KVF_SCALAR(4, UINT32, notify_message, from_rank),
    KVF_BLOB(5, notify_message, payload, KVF_NOTIFY_MAX),
};
const struct kvf_schema kvf_schema_notify = {
    KVF_SCHEMA(notify_message, kvferry__notify__descriptor, notify_fields)};
