/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table. Rows stand in the order in which they are printed; keys of one section stand
 * together. Defaults are the time constants and sizes that the promises rest on; minima
 * let a test run everything at a tenth of them.
 */
#include "config/schema.h"

#include <string.h>

#define KIB          (1ull << 10)
#define MIB          (1ull << 20)
#define GIB          (1ull << 30)

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Where a value lies in its object. */
#define AT(type, field)                                                                  \
    .offset = offsetof(struct type, field), .n_bytes = sizeof(((struct type *)0)->field)
#define LIST_AT(type, field, count)                                                      \
    .offset = offsetof(struct type, field),                                              \
    .count_offset = offsetof(struct type, count),                                        \
    .n_bytes = sizeof(((struct type *)0)->field[0])

#define LISTEN (KVF_KEY_TCP | KVF_KEY_PORT_ANY)

static const char *const transports[] = {"rdma", "ucx_tcp", "tcp", NULL};
static const char *const integrities[] = {"off", "full", NULL};
static const char *const timings_formats[] = {"kvferry", "trtllm", NULL};
static const char *const log_formats[] = {"auto", "text", "json", NULL};
static const char *const log_levels[] = {"error", "warn", "info", "debug", "trace", NULL};
static const char *const roles[] = {"context", "generation", "both", NULL};
static const char *const attentions[] = {"default", "mla", NULL};
static const char *const dtypes[] = {"f32", "f16",  "i8",  "i32", "bool", "u8",
                                     "fp8", "bf16", "i64", "i4",  "fp4",  NULL};

/* Choices are read and written as uint32_t. */
_Static_assert(sizeof(enum kvf_role) == sizeof(uint32_t), "enums are four bytes");
_Static_assert(sizeof(enum kvf_data_transport) == sizeof(uint32_t), "likewise");
_Static_assert(sizeof(enum kvf_log_level) == sizeof(uint32_t), "likewise");
_Static_assert(sizeof(enum kvf_dtype) == sizeof(uint32_t), "likewise");

static const struct kvf_key root_keys[] = {
    {.path = "node.name",
     .kind = KVF_VALUE_NAME,
     .flags = KVF_KEY_NULLABLE,
     AT(kvf_config, node.name),
     .doc = "This node's name in the topology. null: the host's name."},

    {.path = "control.listen",
     .kind = KVF_VALUE_ADDRESS,
     .flags = LISTEN,
     .fallback = "127.0.0.1:7470",
     AT(kvf_config, control.listen),
     .doc = "Where peers connect to. The control channel is not authenticated in this "
            "release, so anything but loopback needs control.insecure_no_auth."},
    {.path = "control.heartbeat",
     .kind = KVF_VALUE_DURATION_MS,
     .fallback = "500ms",
     .min = 10,
     .max = 10000,
     AT(kvf_config, control.heartbeat_ms),
     .doc = "How often each side of a control connection says that it lives."},
    {.path = "control.suspect_after",
     .kind = KVF_VALUE_DURATION_MS,
     .fallback = "1500ms",
     .min = 20,
     .max = 60000,
     AT(kvf_config, control.suspect_after_ms),
     .doc = "Silence after which a peer gets no new transfers. Above control.heartbeat."},
    {.path = "control.dead_after",
     .kind = KVF_VALUE_DURATION_MS,
     .fallback = "3s",
     .min = 30,
     .max = 120000,
     AT(kvf_config, control.dead_after_ms),
     .doc = "Silence after which a peer is lost and its transfers fail. Above "
            "control.suspect_after."},
    {.path = "control.connect_timeout",
     .kind = KVF_VALUE_DURATION_MS,
     .fallback = "2s",
     .min = 10,
     .max = 60000,
     AT(kvf_config, control.connect_timeout_ms),
     .doc = "Time for a connection to a peer, name lookup included."},
    {.path = "control.hello_timeout",
     .kind = KVF_VALUE_DURATION_MS,
     .fallback = "2s",
     .min = 10,
     .max = 60000,
     AT(kvf_config, control.hello_timeout_ms),
     .doc = "Time for the first exchange on a new connection."},
    {.path = "control.frame_timeout",
     .kind = KVF_VALUE_DURATION_MS,
     .fallback = "2s",
     .min = 10,
     .max = 60000,
     AT(kvf_config, control.frame_timeout_ms),
     .doc = "Time from the first to the last byte of one message."},
    {.path = "control.reconnect_min",
     .kind = KVF_VALUE_DURATION_MS,
     .fallback = "50ms",
     .min = 1,
     .max = 60000,
     AT(kvf_config, control.reconnect_min_ms),
     .doc = "Lower end of the random pause before a peer is dialled again."},
    {.path = "control.reconnect_max",
     .kind = KVF_VALUE_DURATION_MS,
     .fallback = "5s",
     .min = 1,
     .max = 600000,
     AT(kvf_config, control.reconnect_max_ms),
     .doc = "Upper end of that pause; it doubles up to here with every failure."},
    {.path = "control.insecure_no_auth",
     .kind = KVF_VALUE_BOOLEAN,
     .fallback = "false",
     AT(kvf_config, control.insecure_no_auth),
     .doc = "States that everybody who reaches control.listen is trusted."},

    {.path = "data.listen",
     .kind = KVF_VALUE_ADDRESS,
     .flags = LISTEN | KVF_KEY_PORT_RANGE,
     .fallback = "127.0.0.1:7480-7495",
     AT(kvf_config, data.listen),
     .doc = "Address and ports of the data transports: host:first-last."},
    {.path = "data.prefer",
     .kind = KVF_VALUE_CHOICE,
     .fallback = "rdma, ucx_tcp, tcp",
     .names = transports,
     .capacity = KVF_CONFIG_LIST_MAX,
     LIST_AT(kvf_config, data.prefer, data.n_prefer),
     .doc = "Transports in the order in which they are tried with each peer."},
    {.path = "data.require",
     .kind = KVF_VALUE_CHOICE,
     .flags = KVF_KEY_MASK,
     .fallback = "",
     .names = transports,
     .capacity = KVF_CONFIG_LIST_MAX,
     AT(kvf_config, data.require_mask),
     .doc = "If not empty, a peer that can use none of these is refused instead of "
            "served more slowly."},
    {.path = "data.trusted_network",
     .kind = KVF_VALUE_BOOLEAN,
     .fallback = "false",
     AT(kvf_config, data.trusted_network),
     .doc = "States that nobody hostile reaches data.listen. ucx_tcp takes writes from "
            "anybody who does, so beyond loopback it is only used when this is true."},
    {.path = "data.force_contiguous",
     .kind = KVF_VALUE_BOOLEAN,
     .fallback = "false",
     AT(kvf_config, data.force_contiguous),
     .doc = "Sends every chunk from one contiguous slot, also where the transport could "
            "take the blocks as they lie. For comparison and fault finding."},
    {.path = "data.devices",
     .kind = KVF_VALUE_PATH,
     .fallback = "auto",
     AT(kvf_config, data.devices),
     .doc = "Network devices for UCX as in UCX_NET_DEVICES, for example mlx5_0:1. auto: "
            "those that carry data.listen."},
    {.path = "data.chunk",
     .kind = KVF_VALUE_SIZE,
     .fallback = "2MiB",
     .min = 64 * KIB,
     .max = 4 * MIB,
     AT(kvf_config, data.chunk_bytes),
     .doc = "Bytes of one chunk, which is one staging slot."},
    {.path = "data.window",
     .kind = KVF_VALUE_INTEGER,
     .fallback = "4",
     .min = 1,
     .max = 16,
     AT(kvf_config, data.window),
     .doc = "Chunks of one transfer on the way at a time."},
    {.path = "data.arena",
     .kind = KVF_VALUE_SIZE,
     .fallback = "256MiB",
     .min = 64 * KIB,
     .max = 1024 * GIB,
     AT(kvf_config, data.arena_bytes),
     .doc = "Memory for staging slots; at least data.chunk times data.window. A full "
            "arena slows transfers down and fails none."},
    {.path = "data.copy_workers",
     .kind = KVF_VALUE_INTEGER,
     .fallback = "0",
     .max = 64,
     AT(kvf_config, data.copy_workers),
     .doc = "Threads that copy host memory. 0: one less than cores, at most 4."},
    {.path = "data.spin",
     .kind = KVF_VALUE_DURATION_US,
     .fallback = "50us",
     .max = 10000,
     AT(kvf_config, data.spin_us),
     .doc = "How long the loop polls before it sleeps after data moved."},
    {.path = "data.integrity",
     .kind = KVF_VALUE_CHOICE,
     .fallback = "full",
     .names = integrities,
     AT(kvf_config, data.integrity),
     .doc =
         "full: every chunk carries a checksum that binds it to its request and lease."},

    {.path = "engine.listen",
     .kind = KVF_VALUE_ADDRESS,
     .flags = KVF_KEY_UNIX,
     .fallback = "unix:/run/kvferry/engine.sock",
     AT(kvf_config, engine.listen),
     .doc = "Socket of the local engines."},
    {.path = "engine.dead_after",
     .kind = KVF_VALUE_DURATION_MS,
     .fallback = "1s",
     .min = 10,
     .max = 60000,
     AT(kvf_config, engine.dead_after_ms),
     .doc = "Time in which operations on a dead engine's memory are revoked."},
    {.path = "engine.default_deadline",
     .kind = KVF_VALUE_DURATION_MS,
     .flags = KVF_KEY_RELOADABLE,
     .fallback = "30s",
     .min = 10,
     .max = 3600000,
     AT(kvf_config, engine.default_deadline_ms),
     .doc = "Deadline of requests that bring none."},
    {.path = "engine.max_deadline",
     .kind = KVF_VALUE_DURATION_MS,
     .flags = KVF_KEY_RELOADABLE,
     .fallback = "10m",
     .min = 10,
     .max = 3600000,
     AT(kvf_config, engine.max_deadline_ms),
     .doc = "Longer deadlines are cut to this one."},
    {.path = "engine.max_requests",
     .kind = KVF_VALUE_INTEGER,
     .fallback = "1024",
     .min = 1,
     .max = 65536,
     AT(kvf_config, engine.max_requests),
     .doc = "Live requests of one engine; more are refused as busy."},
    {.path = "engine.max_engines",
     .kind = KVF_VALUE_INTEGER,
     .fallback = "64",
     .min = 1,
     .max = 1024,
     AT(kvf_config, engine.max_engines),
     .doc = "Engines connected at a time."},
    {.path = "engine.max_unread_events",
     .kind = KVF_VALUE_INTEGER,
     .fallback = "4096",
     .min = 16,
     .max = 1048576,
     AT(kvf_config, engine.max_unread_events),
     .doc = "An engine that leaves more events unread is disconnected."},
    {.path = "engine.allow_uids",
     .kind = KVF_VALUE_INTEGER,
     .fallback = "",
     .max = UINT32_MAX - 1,
     .capacity = KVF_CONFIG_LIST_MAX,
     LIST_AT(kvf_config, engine.allow_uids, engine.n_allow_uids),
     .doc = "Users whose engines may connect. Empty: the daemon's own and root."},

    {.path = "observe.listen",
     .kind = KVF_VALUE_ADDRESS,
     .flags = LISTEN | KVF_KEY_UNIX,
     .fallback = "127.0.0.1:7471",
     AT(kvf_config, observe.listen),
     .doc = "Probes and metrics over HTTP; nothing can be changed there."},

    {.path = "admin.listen",
     .kind = KVF_VALUE_ADDRESS,
     .flags = LISTEN | KVF_KEY_UNIX,
     .fallback = "unix:/run/kvferry/admin.sock",
     AT(kvf_config, admin.listen),
     .doc = "Operation over HTTP. Beyond loopback it needs admin.token_file."},
    {.path = "admin.token_file",
     .kind = KVF_VALUE_PATH,
     .flags = KVF_KEY_NULLABLE | KVF_KEY_SECRET,
     AT(kvf_config, admin.token_file),
     .doc = "File with the bearer token that every admin request must carry."},
    {.path = "admin.allow_hosts",
     .kind = KVF_VALUE_NAME,
     .fallback = "",
     .capacity = KVF_CONFIG_LIST_MAX,
     LIST_AT(kvf_config, admin.allow_hosts, admin.n_allow_hosts),
     .doc = "Names accepted in the Host header besides addresses and localhost."},
    {.path = "admin.insecure",
     .kind = KVF_VALUE_BOOLEAN,
     .fallback = "false",
     AT(kvf_config, admin.insecure),
     .doc = "Allows admin.listen beyond loopback without a token."},

    {.path = "timings.dir",
     .kind = KVF_VALUE_PATH,
     .flags = KVF_KEY_NULLABLE,
     AT(kvf_config, timings.dir),
     .doc = "Folder of the timing files. null: rows are kept for HTTP only."},
    {.path = "timings.format",
     .kind = KVF_VALUE_CHOICE,
     .fallback = "kvferry",
     .names = timings_formats,
     AT(kvf_config, timings.format),
     .doc = "Columns of the files: one row per request and counterpart, or those of "
            "TensorRT-LLM's cache transceiver."},
    {.path = "timings.max_bytes",
     .kind = KVF_VALUE_SIZE,
     .fallback = "64MiB",
     .min = 64 * KIB,
     .max = 1024 * GIB,
     AT(kvf_config, timings.max_bytes),
     .doc = "Size at which a file is rotated."},
    {.path = "timings.keep",
     .kind = KVF_VALUE_INTEGER,
     .fallback = "4",
     .min = 1,
     .max = 1000,
     AT(kvf_config, timings.keep),
     .doc = "Rotated files that are kept."},
    {.path = "timings.rows",
     .kind = KVF_VALUE_INTEGER,
     .fallback = "8192",
     .min = 16,
     .max = 1048576,
     AT(kvf_config, timings.rows),
     .doc = "Rows kept in memory for HTTP, about 1 KiB each."},

    {.path = "log.format",
     .kind = KVF_VALUE_CHOICE,
     .fallback = "auto",
     .names = log_formats,
     AT(kvf_config, log.format),
     .doc = "auto: text on a terminal, JSON lines otherwise."},
    {.path = "log.level",
     .kind = KVF_VALUE_CHOICE,
     .flags = KVF_KEY_RELOADABLE,
     .fallback = "info",
     .names = log_levels,
     AT(kvf_config, log.level),
     .doc = "Least important level that is written."},

    {.path = "shutdown.grace",
     .kind = KVF_VALUE_DURATION_MS,
     .flags = KVF_KEY_RELOADABLE,
     .fallback = "20s",
     .max = 3600000,
     AT(kvf_config, shutdown.grace_ms),
     .doc = "Time for transfers to finish after SIGTERM; then they are cancelled."},

    {.path = "ready.require_engine",
     .kind = KVF_VALUE_BOOLEAN,
     .flags = KVF_KEY_RELOADABLE,
     .fallback = "false",
     AT(kvf_config, ready.require_engine),
     .doc = "Ready only while an engine is registered."},
};

static const struct kvf_key peer_keys[] = {
    {.path = "name",
     .kind = KVF_VALUE_NAME,
     .flags = KVF_KEY_REQUIRED,
     AT(kvf_peer_spec, name),
     .doc = "The node.name of that daemon."},
    {.path = "address",
     .kind = KVF_VALUE_ADDRESS,
     .flags = KVF_KEY_REQUIRED | KVF_KEY_TCP,
     AT(kvf_peer_spec, address),
     .doc = "Its control.listen as seen from here."},
};

static const struct kvf_key instance_keys[] = {
    {.path = "name",
     .kind = KVF_VALUE_NAME,
     .flags = KVF_KEY_REQUIRED,
     AT(kvf_instance_spec, name),
     .doc = "The name under which engines register and ask for blocks."},
    {.path = "role",
     .kind = KVF_VALUE_CHOICE,
     .flags = KVF_KEY_REQUIRED,
     .names = roles,
     AT(kvf_instance_spec, role),
     .doc = "context: computes prompts; generation: decodes."},
    {.path = "tp",
     .kind = KVF_VALUE_INTEGER,
     .fallback = "1",
     .min = 1,
     .max = KVF_CONFIG_RANKS_MAX,
     AT(kvf_instance_spec, tp),
     .doc = "Tensor parallelism; a power of two unless attention_dp."},
    {.path = "pp",
     .kind = KVF_VALUE_INTEGER,
     .fallback = "1",
     .min = 1,
     .max = KVF_CONFIG_PP_MAX,
     AT(kvf_instance_spec, pp),
     .doc = "Pipeline stages."},
    {.path = "cp",
     .kind = KVF_VALUE_INTEGER,
     .fallback = "1",
     .min = 1,
     .max = KVF_CONFIG_RANKS_MAX,
     AT(kvf_instance_spec, cp),
     .doc = "Context parallelism; a power of two."},
    {.path = "attention_dp",
     .kind = KVF_VALUE_BOOLEAN,
     .fallback = "false",
     AT(kvf_instance_spec, has_attention_dp),
     .doc = "Every tp rank holds all heads of its own requests."},
    {.path = "layers",
     .kind = KVF_VALUE_INTEGER,
     .flags = KVF_KEY_REQUIRED,
     .max = KVF_CONFIG_LAYERS_MAX,
     .capacity = KVF_CONFIG_PP_MAX,
     LIST_AT(kvf_instance_spec, layers, n_layers),
     .doc = "Attention layers: one number for all stages together, which pp must divide, "
            "or a list with one number a stage."},
    {.path = "kv_heads",
     .kind = KVF_VALUE_INTEGER,
     .fallback = "0",
     .max = 32767,
     AT(kvf_instance_spec, n_kv_heads),
     .doc = "KV heads of the whole model, before tp. Left out for mla."},
    {.path = "head_size",
     .kind = KVF_VALUE_INTEGER,
     .flags = KVF_KEY_REQUIRED,
     .min = 1,
     .max = 65536,
     AT(kvf_instance_spec, head_size),
     .doc = "Elements of one head; the width of the latent for mla."},
    {.path = "tokens_per_block",
     .kind = KVF_VALUE_INTEGER,
     .flags = KVF_KEY_REQUIRED,
     .min = 1,
     .max = 65536,
     AT(kvf_instance_spec, tokens_per_block),
     .doc = "Tokens in one block of the engine's pools; a power of two."},
    {.path = "dtype",
     .kind = KVF_VALUE_CHOICE,
     .fallback = "bf16",
     .names = dtypes,
     AT(kvf_instance_spec, dtype),
     .doc = "Element type of the cache. Compared, never converted."},
    {.path = "attention",
     .kind = KVF_VALUE_CHOICE,
     .fallback = "default",
     .names = attentions,
     AT(kvf_instance_spec, attention),
     .doc = "mla: one latent a token in place of heads."},
    {.path = "kv_factor",
     .kind = KVF_VALUE_INTEGER,
     .fallback = "0",
     .max = 2,
     AT(kvf_instance_spec, kv_factor),
     .doc = "2: K and V, 1: K or a latent alone. 0: 1 for mla, else 2."},
    {.path = "node",
     .kind = KVF_VALUE_NAME,
     .flags = KVF_KEY_NULLABLE,
     AT(kvf_instance_spec, node),
     .doc = "The node of all ranks; or else ranks."},
    {.path = "ranks",
     .kind = KVF_VALUE_NAME,
     .flags = KVF_KEY_ALLOCATED,
     .fallback = "",
     .capacity = KVF_CONFIG_RANKS_MAX,
     .offset = offsetof(struct kvf_instance_spec, ranks),
     .count_offset = offsetof(struct kvf_instance_spec, n_ranks),
     .n_bytes = KVF_CONFIG_NAME_BYTES,
     .doc =
         "The node of each rank, in the order of ranks: cp fastest, then tp, then pp."},
};

_Static_assert(COUNT(root_keys) <= KVF_KEYSET_KEYS_MAX, "places are kept in an array");

static const struct kvf_keyset keysets[KVF_KEYSETS] = {
    [KVF_KEYSET_ROOT] = {.keys = root_keys, .n_keys = COUNT(root_keys)},
    [KVF_KEYSET_PEER] = {.list = "peers",
                         .doc = "The other daemons. The own node may be listed and is "
                                "passed over, so that all nodes can share one file.",
                         .keys = peer_keys,
                         .n_keys = COUNT(peer_keys)},
    [KVF_KEYSET_INSTANCE] = {.list = "instances",
                             .doc = "Engine instances, on whatever node, and how they "
                                    "spread their KV cache over ranks.",
                             .keys = instance_keys,
                             .n_keys = COUNT(instance_keys)},
};

const struct kvf_keyset *kvf_schema_keyset(enum kvf_keyset_id id)
{
    return &keysets[id];
}

const struct kvf_key *kvf_schema_find(enum kvf_keyset_id id, const char *path)
{
    const struct kvf_keyset *keyset = &keysets[id];
    for (size_t i = 0; i < keyset->n_keys; i++) {
        if (strcmp(keyset->keys[i].path, path) == 0) {
            return &keyset->keys[i];
        }
    }
    return NULL;
}

size_t kvf_key_section_length(const struct kvf_key *key)
{
    const char *dot = strchr(key->path, '.');
    return dot == NULL ? 0 : (size_t)(dot - key->path);
}

bool kvf_keyset_opens_section(const struct kvf_keyset *keyset, size_t i)
{
    const struct kvf_key *key = &keyset->keys[i];
    size_t n = kvf_key_section_length(key);
    return i == 0 || kvf_key_section_length(key - 1) != n ||
           strncmp(key[-1].path, key->path, n) != 0;
}

const char *kvf_key_leaf(const struct kvf_key *key)
{
    const char *dot = strchr(key->path, '.');
    return dot == NULL ? key->path : dot + 1;
}

bool kvf_key_is_list(const struct kvf_key *key)
{
    return key->capacity > 0;
}

bool kvf_key_is_text(const struct kvf_key *key)
{
    return key->kind == KVF_VALUE_NAME || key->kind == KVF_VALUE_PATH ||
           key->kind == KVF_VALUE_ADDRESS;
}

const char *kvf_role_name(enum kvf_role role)
{
    return roles[role];
}

const char *kvf_data_transport_name(enum kvf_data_transport transport)
{
    return transports[transport];
}
