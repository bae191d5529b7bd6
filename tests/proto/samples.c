/* SPDX-License-Identifier: Apache-2.0 */
/* See samples.h. The block key is the one of the original's serializer test. */
#include "samples.h"

#include <assert.h>

#include <kvferry/kvferry.h>

#define NONCE(first)                                                                     \
    {                                                                                    \
        first, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15                         \
    }
#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define ARRAY(array)  (array), LENGTH(array)

static const int32_t heads[] = {12, 12, 12, 12, 12, 12, 12, 12, 12, 12};
static const int32_t stages[] = {6, 4};
static const char *const nodes[] = {"node-a", "node-b", "",
                                    "n\xc3\xb6"
                                    "de"};
static const struct kvf_unique_token tokens[] = {{10, 100}, {20, 200}, {-1, UINT64_MAX}};
static const struct kvf_extra_key extra_keys[] = {
    {.hash = {0xaa, 0xbb, 0xcc}, .start_offset = 0, .uuid = "image-1"},
    {.hash = {[31] = 0xdd}, .start_offset = 5, .uuid = ""},
};
static const uint64_t offsets[] = {4096, 0, 1ull << 40};
static const struct kvf_segment segments[] = {
    {.group = 1, .token_first = 64, .n_tokens = 128, .layer_first = 2, .n_layers = 3},
    {.group = 2, .token_first = 0, .n_tokens = 300, .layer_first = 0, .n_layers = 1},
};
static const uint64_t hashes[] = {0x0123456789abcdefull, 0, UINT64_MAX};
static const uint32_t blocks_a[] = {7, 0, 4294967295u, 100};
static const uint32_t blocks_b[] = {1};
static const struct kvf_table tables[] = {
    {.group = 3, .blocks = blocks_a, .n_blocks = LENGTH(blocks_a)},
    {.group = 4, .blocks = blocks_b, .n_blocks = LENGTH(blocks_b)},
};
static const int32_t first_tokens[] = {15, -2, 128000};
static const int32_t draft_tokens[] = {1, 2};
static const uint8_t payload[] = {0, 1, 2, 255, 0};
static const struct kvf_receipt_range ranges[] = {
    {.segment = 1, .offset = 4096, .length = 1048576},
    {.segment = 0, .offset = 0, .length = 1ull << 33},
};
static const struct kvf_data_blob data[] = {
    {.transport = "ucx", .version = "1.13.1", .blob = {ARRAY(payload)}},
    {.transport = "tcp", .version = "1", .blob = {NULL, 0}},
};

#define LAYOUT                                                                           \
    {                                                                                    \
        .group = 5, .memory = KVF_MEMORY_CUDA, .layout = {                               \
            .size = sizeof(struct kvf_layout),                                           \
            .n_layers = LENGTH(offsets),                                                 \
            .kv_factor = 2,                                                              \
            .n_heads = 12,                                                               \
            .tokens_per_block = 64,                                                      \
            .row_bytes = 256,                                                            \
            .n_blocks = 1000,                                                            \
            .dtype = KVF_DTYPE_BF16,                                                     \
            .block_stride = 393216,                                                      \
            .kv_stride = 196608,                                                         \
            .head_stride = 16384,                                                        \
            .token_stride = 256,                                                         \
            .layer_offsets = offsets                                                     \
        }                                                                                \
    }
static const struct kvf_pool_layout layouts[] = {LAYOUT};

#define COMM_STATE                                                                       \
    {                                                                                    \
        .node_names = nodes, .n_nodes = LENGTH(nodes), .instance_nonce = NONCE(0x11),    \
        .self_rank = 3, .instance = "prefill"                                            \
    }
#define STATE                                                                            \
    {                                                                                    \
        .has_cache = true, .has_comm = true, .is_arbitrary = true,                       \
        .cache = {.kv_heads_per_layer = heads,                                           \
                  .n_model_layers = LENGTH(heads),                                       \
                  .size_per_head = 768,                                                  \
                  .tokens_per_block = 64,                                                \
                  .tp = 8,                                                               \
                  .pp = 2,                                                               \
                  .cp = 2,                                                               \
                  .has_attention_dp = 1,                                                 \
                  .dp_rank = 3,                                                          \
                  .dp_size = 4,                                                          \
                  .layers_per_stage = stages,                                            \
                  .n_stages = LENGTH(stages),                                            \
                  .attention = KVF_ATTENTION_MLA,                                        \
                  .kv_factor = 2,                                                        \
                  .dtype = KVF_DTYPE_FP8,                                                \
                  .has_block_reuse = 1,                                                  \
                  .has_partial_reuse = 1,                                                \
                  .has_indexer = 1,                                                      \
                  .indexer_dim_per_head = 256,                                           \
                  .indexer_quant_block_size = 128,                                       \
                  .indexer_is_fp4 = 1,                                                   \
                  .rank_convention = KVF_RANK_CONVENTION_CP_FASTEST},                    \
        .comm = COMM_STATE                                                               \
    }
#define HELLO                                                                            \
    {                                                                                    \
        .version_min = 1, .version_max = 3, .capabilities = 0x8000000000000001ull,       \
        .node = "node-a", .nonce = NONCE(0x21), .data_token = NONCE(0x22), .data = data, \
        .n_data = LENGTH(data), .software = "kvferry/0.1.0", .heartbeat_ms = 1000,       \
        .session_tag = 77, .expected_node = "node-b", .data_transport = "ucx"            \
    }
#define PARAMS                                                                           \
    {                                                                                    \
        .request_id = 1ull << 63, .attempt = 2, .n_tokens = 300,                         \
        .first_tokens = first_tokens, .n_first_tokens = LENGTH(first_tokens),            \
        .has_draft_tokens = true, .draft_tokens = draft_tokens,                          \
        .n_draft_tokens = LENGTH(draft_tokens), .has_state = true, .state = STATE,       \
        .label = "chat-42", .has_trace_id = true, .trace_id = NONCE(0x31)                \
    }

static const struct kvf_message samples[] = {
    {.type = KVF_MSG_HELLO, .u.hello = HELLO},
    {.type = KVF_MSG_HELLO_ACK,
     .u.hello_ack = {.status = KVF_PEER_VERSION,
                     .detail = "speaks 1 only",
                     .version = 1,
                     .hello = HELLO}},
    {.type = KVF_MSG_PING,
     .u.ping = {.sequence = 1, .sent_ns = 2, .data_progress = 3, .last_heard_ns = 4}},
    {.type = KVF_MSG_PONG,
     .u.pong = {.sequence = 1, .sent_ns = 2, .wall_ns = 1700000000000000000ull}},
    {.type = KVF_MSG_REQUEST_INFO,
     .u.request_info = {.request_id = 2,
                        .index_from_end = 3,
                        .has_last_block_key = true,
                        .last_block_key = {.uses_extra_ids = true,
                                           .has_lora_task_id = true,
                                           .lora_task_id = 42,
                                           .has_cache_salt_id = true,
                                           .cache_salt_id = 9,
                                           .tokens = tokens,
                                           .n_tokens = LENGTH(tokens),
                                           .extra_keys = extra_keys,
                                           .n_extra_keys = LENGTH(extra_keys)},
                        .state = STATE,
                        .attempt = 1,
                        .context_rank = 5,
                        .remaining_ms = 29000,
                        .integrity = 1,
                        .max_chunk_bytes = 4194304,
                        .n_tokens = 300,
                        .instance_nonce = NONCE(0x41),
                        .receiver_session = 0x100000002ull,
                        .lease_generation = 6,
                        .credit_chunks = 4,
                        .segments = segments,
                        .n_segments = LENGTH(segments),
                        .layouts = layouts,
                        .n_layouts = LENGTH(layouts),
                        .block_hashes = hashes,
                        .n_block_hashes = LENGTH(hashes),
                        .has_trace_id = true,
                        .trace_id = NONCE(0x42),
                        .path = "staged",
                        .label = "chat-42"}},
    {.type = KVF_MSG_READY,
     .u.ready = {.receiver_session = 1,
                 .sender_session = 2,
                 .lease_generation = 3,
                 .plan_hash = 0xfedcba9876543210ull,
                 .total_bytes = 5,
                 .is_ready = true,
                 .will_send = true,
                 .cause = KVF_NOT_READY,
                 .detail = "cause",
                 .path = "direct",
                 .layouts = layouts,
                 .n_layouts = LENGTH(layouts),
                 .integrity = 1}},
    {.type = KVF_MSG_RECEIPT,
     .u.receipt = {.sender_session = 1,
                   .credit_chunks = 2,
                   .received_bytes = 3,
                   .ranges = ranges,
                   .n_ranges = LENGTH(ranges)}},
    {.type = KVF_MSG_CANCEL,
     .u.cancel = {.to_sender = true,
                  .has_key = true,
                  .session = 1,
                  .request_id = 2,
                  .receiver_session = 3,
                  .attempt = 4,
                  .cause = KVF_CANCELLED,
                  .detail = "user",
                  .instance_nonce = NONCE(0x51)}},
    {.type = KVF_MSG_CANCEL_ACK,
     .u.cancel_ack = {.to_sender = true, .session = 1, .status = KVF_TOO_LATE}},
    {.type = KVF_MSG_DONE,
     .u.done = {.sender_session = 1,
                .received_bytes = 2,
                .status = KVF_INTEGRITY,
                .detail = "chunk 3"}},
    {.type = KVF_MSG_DONE_ACK, .u.done_ack = {.receiver_session = 1}},
    {.type = KVF_MSG_ERROR,
     .u.error = {.cause = KVF_PROTOCOL,
                 .detail = "node is too long",
                 .frame_type = 5,
                 .frame_sequence = 6}},
    {.type = KVF_MSG_DRAIN, .u.drain = {.grace_ms = 5000}},
    {.type = KVF_MSG_NOTIFY,
     .u.notify = {.instance = "decode",
                  .from_instance = "prefill",
                  .rank = 1,
                  .from_rank = 2,
                  .payload = {ARRAY(payload)}}},
    {.type = KVF_MSG_ENGINE_HELLO,
     .u.engine_hello = {.version_min = 1,
                        .version_max = 2,
                        .rank = 3,
                        .pid = 4,
                        .instance = "prefill",
                        .name = "prefill/3",
                        .software = "kvferry/0.1.0",
                        .nonce = NONCE(0x61)}},
    {.type = KVF_MSG_ENGINE_HELLO_ACK,
     .u.engine_hello_ack = {.status = KVF_NAME_TAKEN,
                            .detail = "rank 3 is held",
                            .node = "node-a",
                            .version = 1,
                            .default_deadline_ms = 30000,
                            .max_deadline_ms = 600000,
                            .max_requests = 4096,
                            .state = STATE,
                            .daemon_nonce = NONCE(0x62)}},
    {.type = KVF_MSG_POOL_REGISTER,
     .u.pool_register = {.pool_id = 1, .layout = LAYOUT, .offset = 4096, .length = 8192}},
    {.type = KVF_MSG_POOL_REGISTERED,
     .u.pool_answer = {.pool_id = 1, .status = KVF_POOL_UNSEALED, .detail = "seals"}},
    {.type = KVF_MSG_POOL_UNREGISTER, .u.pool_answer = {.pool_id = 1}},
    {.type = KVF_MSG_POOL_UNREGISTERED,
     .u.pool_answer = {.pool_id = 1, .status = KVF_BUSY, .detail = "two transfers"}},
    {.type = KVF_MSG_OFFER,
     .u.offer = {.handle = 1,
                 .request_id = 2,
                 .attempt = 3,
                 .n_tokens = 300,
                 .deadline_ms = 4,
                 .label = "chat-42",
                 .tables = tables,
                 .n_tables = LENGTH(tables),
                 .is_ready = true,
                 .has_trace_id = true,
                 .block_hashes = hashes,
                 .n_block_hashes = LENGTH(hashes),
                 .trace_id = NONCE(0x71)}},
    {.type = KVF_MSG_OFFER_READY,
     .u.offer_ready = {.handle = 1, .status = KVF_NOT_READY}},
    {.type = KVF_MSG_RECEIVE,
     .u.receive = {.handle = 1,
                   .params = PARAMS,
                   .n_prefix_tokens = 64,
                   .deadline_ms = 2,
                   .tables = tables,
                   .n_tables = LENGTH(tables),
                   .label = "chat-42",
                   .block_hashes = hashes,
                   .n_block_hashes = LENGTH(hashes)}},
    {.type = KVF_MSG_ENGINE_CANCEL,
     .u.engine_cancel = {.by_request = true, .handle = 1, .request_id = 2}},
    {.type = KVF_MSG_TRANSFER_EVENT,
     .u.transfer_event = {.handle = 1,
                          .bytes = 2,
                          .duration_ns = 3,
                          .bits = KVF_EVENT_DONE | KVF_EVENT_QUIESCED,
                          .status = KVF_EXPIRED,
                          .peer = "node-b",
                          .path = "direct/tcp",
                          .detail = "nobody came"}},
    {.type = KVF_MSG_ENGINE_NOTIFY,
     .u.engine_notify = {.instance = "decode", .rank = 1, .payload = {ARRAY(payload)}}},
    {.type = KVF_MSG_NOTIFY_EVENT,
     .u.engine_notify = {.instance = "prefill", .rank = 2, .payload = {ARRAY(payload)}}},
    {.type = KVF_MSG_COMM_STATE_SET, .u.comm_state_set = {.state = COMM_STATE}},
    {.type = KVF_MSG_COMM_STATE_ACK,
     .u.comm_state_ack = {.status = KVF_UNKNOWN_INSTANCE, .detail = "node-c"}},
};
_Static_assert(LENGTH(samples) == N_SAMPLES, "one sample of every message type");

const struct kvf_message *sample(size_t i)
{
    assert(i < N_SAMPLES);
    return &samples[i];
}

const struct kvf_message *sample_of(enum kvf_message_type type)
{
    size_t i = 0;
    while (i + 1 < N_SAMPLES && samples[i].type != type) {
        i++;
    }
    assert(samples[i].type == type);
    return &samples[i];
}
