/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages as plain structs, and the codec between them and bytes. Decoding goes
 * through an arena with a budget; every pointer in a decoded struct lives in that arena
 * (or is a static ""), until it is reset. Encoding reads pointers, keeps none. Strings
 * are NUL-terminated, never NULL after decoding; NULL encodes as "". protobuf-c is seen
 * in reader.c and in the *_schema.c tables only. Pure functions; any thread.
 */
#ifndef KVF_PROTO_MESSAGE_H
#define KVF_PROTO_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kvferry/layout.h>
#include <kvferry/status.h>

#include "base/alloc.h"
#include "base/buf.h"

#define KVF_NONCE_BYTES                16u
#define KVF_SEGMENTS_MAX               256u
#define KVF_LAYOUTS_MAX                16u
#define KVF_RANKS_MAX                  1024u
#define KVF_LAYERS_MAX                 4096u
#define KVF_TOKENS_MAX                 65536u
#define KVF_RANGES_MAX                 256u
#define KVF_RANK_CONVENTION_CP_FASTEST 1u

/* What this release speaks, between daemons and with engines. */
#define KVF_CONTROL_PROTOCOL           1u
#define KVF_ENGINE_PROTOCOL            1u

/* Wire values; never renumbered. */
enum kvf_message_type {
    KVF_MSG_HELLO = 1,
    KVF_MSG_HELLO_ACK = 2,
    KVF_MSG_PING = 3,
    KVF_MSG_PONG = 4,
    KVF_MSG_REQUEST_INFO = 5,
    KVF_MSG_READY = 6,
    KVF_MSG_RECEIPT = 7,
    KVF_MSG_CANCEL = 8,
    KVF_MSG_CANCEL_ACK = 9,
    KVF_MSG_DONE = 10,
    KVF_MSG_DONE_ACK = 11,
    KVF_MSG_ERROR = 12,
    KVF_MSG_DRAIN = 13,
    KVF_MSG_NOTIFY = 14,
    KVF_MSG_ENGINE_HELLO = 32,
    KVF_MSG_ENGINE_HELLO_ACK = 33,
    KVF_MSG_POOL_REGISTER = 34,
    KVF_MSG_POOL_REGISTERED = 35,
    KVF_MSG_POOL_UNREGISTER = 36,
    KVF_MSG_POOL_UNREGISTERED = 37,
    KVF_MSG_OFFER = 38,
    KVF_MSG_OFFER_READY = 39,
    KVF_MSG_RECEIVE = 40,
    KVF_MSG_ENGINE_CANCEL = 41,
    KVF_MSG_TRANSFER_EVENT = 42,
    KVF_MSG_ENGINE_NOTIFY = 43,
    KVF_MSG_NOTIFY_EVENT = 44,
    KVF_MSG_COMM_STATE_SET = 45,
    KVF_MSG_COMM_STATE_ACK = 46
};

struct kvf_bytes {
    const uint8_t *data;
    size_t n;
};

/* ---- cache and comm state (struct kvf_cache_state: kvferry/layout.h) */
struct kvf_comm_state {
    const char *const *node_names; /* [n_nodes], per rank */
    size_t n_nodes;
    uint8_t instance_nonce[KVF_NONCE_BYTES];
    int32_t self_rank;
    const char *instance;
};

struct kvf_transceiver_state { /* DataTransceiverState */
    bool has_cache, has_comm, is_arbitrary;
    struct kvf_cache_state cache;
    struct kvf_comm_state comm;
};

struct kvf_unique_token {
    int32_t token_id;
    uint64_t extra_id;
};
struct kvf_extra_key {
    uint8_t hash[32];
    int32_t start_offset;
    const char *uuid;
};
struct kvf_block_key {
    bool uses_extra_ids, has_lora_task_id, has_cache_salt_id;
    uint64_t lora_task_id, cache_salt_id;
    const struct kvf_unique_token *tokens;
    size_t n_tokens;
    const struct kvf_extra_key *extra_keys;
    size_t n_extra_keys;
};

struct kvf_context_params { /* ContextPhaseParams */
    uint64_t request_id;
    uint32_t attempt, n_tokens;
    const int32_t *first_tokens;
    size_t n_first_tokens;
    bool has_draft_tokens;
    const int32_t *draft_tokens;
    size_t n_draft_tokens;
    bool has_state;
    struct kvf_transceiver_state state; /* packed as opaque bytes on the wire */
    const char *label;
    bool has_trace_id;
    uint8_t trace_id[16];
};

struct kvf_segment {
    uint32_t group, token_first, n_tokens, layer_first, n_layers;
};
struct kvf_pool_layout {
    uint32_t group, memory;
    struct kvf_layout layout; /* .layer_offsets in the arena */
};
struct kvf_data_blob {
    const char *transport, *version;
    struct kvf_bytes blob;
};

/* ---- peers */
struct kvf_hello {
    uint32_t version_min, version_max;
    uint64_t capabilities;
    const char *node;
    uint8_t nonce[KVF_NONCE_BYTES], data_token[KVF_NONCE_BYTES];
    const struct kvf_data_blob *data;
    size_t n_data;
    const char *software;
    uint32_t heartbeat_ms;
    uint64_t session_tag;
    const char *expected_node, *data_transport;
};
struct kvf_hello_ack {
    int32_t status;
    const char *detail;
    uint32_t version;
    struct kvf_hello hello;
};
struct kvf_request_info {
    uint64_t request_id;
    int32_t index_from_end;
    bool has_last_block_key;
    struct kvf_block_key last_block_key;
    struct kvf_transceiver_state state; /* the receiver's */
    uint32_t attempt, context_rank, remaining_ms, integrity, max_chunk_bytes, n_tokens;
    uint8_t instance_nonce[KVF_NONCE_BYTES];
    uint64_t receiver_session, lease_generation, credit_chunks;
    const struct kvf_segment *segments;
    size_t n_segments;
    const struct kvf_pool_layout *layouts;
    size_t n_layouts;
    const uint64_t *block_hashes;
    size_t n_block_hashes;
    bool has_trace_id;
    uint8_t trace_id[16];
    const char *path, *label;
};
struct kvf_ready {
    uint64_t receiver_session, sender_session, lease_generation, plan_hash, total_bytes;
    bool is_ready, will_send;
    int32_t cause;
    const char *detail, *path;
    const struct kvf_pool_layout *layouts;
    size_t n_layouts;
    uint32_t integrity;
};
struct kvf_receipt_range {
    uint32_t segment;
    uint64_t offset, length;
};
struct kvf_receipt {
    uint64_t sender_session, credit_chunks, received_bytes;
    const struct kvf_receipt_range *ranges;
    size_t n_ranges;
};
struct kvf_cancel_message {
    bool to_sender, has_key;
    uint64_t session, request_id, receiver_session;
    uint32_t attempt;
    int32_t cause;
    const char *detail;
    uint8_t instance_nonce[KVF_NONCE_BYTES];
};
struct kvf_cancel_ack {
    bool to_sender;
    uint64_t session;
    int32_t status;
};
struct kvf_done {
    uint64_t sender_session, received_bytes;
    int32_t status;
    const char *detail;
};
struct kvf_done_ack {
    uint64_t receiver_session;
};
struct kvf_error_message {
    int32_t cause;
    const char *detail;
    uint32_t frame_type;
    uint64_t frame_sequence;
};
struct kvf_ping {
    uint64_t sequence, sent_ns, data_progress, last_heard_ns;
};
struct kvf_pong {
    uint64_t sequence, sent_ns, wall_ns;
};
struct kvf_drain {
    uint32_t grace_ms;
};
struct kvf_notify_message {
    const char *instance, *from_instance;
    uint32_t rank, from_rank;
    struct kvf_bytes payload;
};

/* ---- engines */
struct kvf_engine_hello {
    uint32_t version_min, version_max, rank, pid;
    const char *instance, *name, *software;
    uint8_t nonce[KVF_NONCE_BYTES];
};
struct kvf_engine_hello_ack {
    int32_t status;
    const char *detail, *node;
    uint32_t version, default_deadline_ms, max_deadline_ms, max_requests;
    struct kvf_transceiver_state state;
    uint8_t daemon_nonce[KVF_NONCE_BYTES];
};
struct kvf_pool_register_message {
    uint32_t pool_id;
    struct kvf_pool_layout layout;
    uint64_t offset, length;
};
struct kvf_pool_answer { /* PoolRegistered, PoolUnregistered; PoolUnregister (id only) */
    uint32_t pool_id;
    int32_t status;
    const char *detail;
};
struct kvf_table { /* BlockTable */
    uint32_t group;
    const uint32_t *blocks;
    size_t n_blocks;
};
struct kvf_offer {
    uint64_t handle, request_id;
    uint32_t attempt, n_tokens, deadline_ms;
    const char *label;
    const struct kvf_table *tables;
    size_t n_tables;
    bool is_ready, has_trace_id;
    const uint64_t *block_hashes;
    size_t n_block_hashes;
    uint8_t trace_id[16];
};
struct kvf_offer_ready {
    uint64_t handle;
    int32_t status;
};
struct kvf_receive_message {
    uint64_t handle;
    struct kvf_context_params params;
    uint32_t n_prefix_tokens, deadline_ms;
    const struct kvf_table *tables;
    size_t n_tables;
    const char *label;
    const uint64_t *block_hashes;
    size_t n_block_hashes;
};
struct kvf_engine_cancel {
    bool by_request;
    uint64_t handle, request_id;
};
struct kvf_transfer_event {
    uint64_t handle, bytes, duration_ns;
    uint32_t bits;
    int32_t status;
    const char *peer, *path, *detail;
};
struct kvf_engine_notify { /* EngineNotify: to; NotifyEvent: from */
    const char *instance;
    uint32_t rank;
    struct kvf_bytes payload;
};
struct kvf_comm_state_set {
    struct kvf_comm_state state;
};
struct kvf_comm_state_ack {
    int32_t status;
    const char *detail;
};

struct kvf_message {
    enum kvf_message_type type;
    union {
        struct kvf_hello hello;
        struct kvf_hello_ack hello_ack;
        struct kvf_ping ping;
        struct kvf_pong pong;
        struct kvf_request_info request_info;
        struct kvf_ready ready;
        struct kvf_receipt receipt;
        struct kvf_cancel_message cancel;
        struct kvf_cancel_ack cancel_ack;
        struct kvf_done done;
        struct kvf_done_ack done_ack;
        struct kvf_error_message error;
        struct kvf_drain drain;
        struct kvf_notify_message notify;
        struct kvf_engine_hello engine_hello;
        struct kvf_engine_hello_ack engine_hello_ack;
        struct kvf_pool_register_message pool_register;
        struct kvf_pool_answer pool_answer;
        struct kvf_offer offer;
        struct kvf_offer_ready offer_ready;
        struct kvf_receive_message receive;
        struct kvf_engine_cancel engine_cancel;
        struct kvf_transfer_event transfer_event;
        struct kvf_engine_notify engine_notify;
        struct kvf_comm_state_set comm_state_set;
        struct kvf_comm_state_ack comm_state_ack;
    } u;
};

/* "RequestInfo", "?" for an unknown number. */
const char *kvf_message_name(uint32_t type);
bool kvf_message_type_is_known(uint32_t type);

/* Appends a sealed frame to out. Errors: BUSY (out is full), NO_MEMORY, INVALID_ARGUMENT
 * (a field is over its limit: our bug or an engine's argument not checked). Allocates
 * nothing in the steady state beyond out's growth. */
enum kvf_status KVF_MUST_CHECK kvf_message_encode(const struct kvf_message *message,
                                                  uint64_t session_tag, uint64_t sequence,
                                                  struct kvf_buf *out);

/* Decodes payload[n] of a known type. The arena's budget bounds memory, whatever the
 * bytes say; kvf_message_budget(n) is enough for honest messages. Limits of kvferry.proto
 * are enforced; *out_detail (static) names the field. Errors: PROTOCOL, NO_MEMORY (over
 * the budget, or none left). */
enum kvf_status KVF_MUST_CHECK kvf_message_decode(uint32_t type, const uint8_t *payload,
                                                  size_t n, struct kvf_arena *arena,
                                                  struct kvf_message *out,
                                                  const char **out_detail);

/* What decoding n payload bytes may cost: a block key's token is worth up to 34 times its
 * bytes while protobuf-c parses it, everything else less than 16 times. */
#define KVF_MESSAGE_BUDGET_MAX (32u << 20)
static inline size_t kvf_message_budget(size_t n)
{
    return n < KVF_MESSAGE_BUDGET_MAX / 40 ? 40 * n + 4096 : KVF_MESSAGE_BUDGET_MAX;
}

/* Bytes kvf_message_encode would add after the frame header: exact. 0 as well for a
 * message that it would refuse. */
size_t kvf_message_size(const struct kvf_message *message);

/* ContextPhaseParams as an opaque, self-checking blob for routers: magic "KVFP", version,
 * length, CRC32C, protobuf. *n: capacity in, length out (BUFFER_TOO_SMALL with the need).
 * INVALID_ARGUMENT: a field is over its limit, or the blob over KVF_PARAMS_MAX. */
enum kvf_status KVF_MUST_CHECK
kvf_context_params_encode(const struct kvf_context_params *p, uint8_t *bytes, size_t *n);
/* Errors: BAD_PARAMS with a static sentence in *out_detail; NO_MEMORY. */
enum kvf_status KVF_MUST_CHECK kvf_context_params_decode(const uint8_t *bytes, size_t n,
                                                         struct kvf_arena *arena,
                                                         struct kvf_context_params *out,
                                                         const char **out_detail);
/* CommState alone, the same envelope with magic "KVFC". */
enum kvf_status KVF_MUST_CHECK kvf_comm_state_encode(const struct kvf_comm_state *state,
                                                     uint8_t *bytes, size_t *n);
enum kvf_status KVF_MUST_CHECK kvf_comm_state_decode(const uint8_t *bytes, size_t n,
                                                     struct kvf_arena *arena,
                                                     struct kvf_comm_state *out,
                                                     const char **out_detail);

/* Field by field. CommState's ignores self_rank. NULL strings equal "". */
bool kvf_cache_state_equal(const struct kvf_cache_state *a,
                           const struct kvf_cache_state *b);
bool kvf_comm_state_equal(const struct kvf_comm_state *a, const struct kvf_comm_state *b);
bool kvf_block_key_equal(const struct kvf_block_key *a, const struct kvf_block_key *b);
bool kvf_request_info_equal(const struct kvf_request_info *a,
                            const struct kvf_request_info *b);
/* "MPI:..." style text for logs and map keys: "kvferry:prefill[node-a,node-b]". */
void kvf_comm_state_format(const struct kvf_comm_state *state, char *out,
                           size_t out_bytes);

#endif
