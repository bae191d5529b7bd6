/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From nothing to an epoch: the node whose name sorts first resolves, connects and says
 * Hello; the other accepts, checks and answers. The Hello carries versions, the process
 * nonce, tokens for the data plane and how each transport is reached; the accepting side
 * chooses the transport by its data.prefer, the dialling side may still refuse it.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include <kvferry/kvferry.h>

#include "service/peer_private.h"

static const struct kvf_log_ctx log_ctx = {.comp = "peer"};

enum kvf_status kvf_peers_collect_blobs(struct kvf_peers *peers)
{
    for (size_t i = 0; i < peers->config.n_transports; i++) {
        struct kvf_transport *transport = peers->config.transports[i];
        size_t n = KVF_DATA_BLOB_MAX;
        enum kvf_status status =
            transport->ops->blob(transport, peers->blob_bytes[i], &n);
        if (status != KVF_OK) {
            return status;
        }
        peers->blobs[i] = (struct kvf_data_blob){
            .transport = transport->ops->name,
            .version = transport->ops->version(transport),
            .blob = {.data = peers->blob_bytes[i], .n = n},
        };
        peers->n_blobs = i + 1;
    }
    return KVF_OK;
}

/* Fresh tokens for an attempt. Every transport learns which token may come in. */
static enum kvf_status draw_tokens(struct kvf_peer *peer)
{
    struct kvf_peers *peers = peer->peers;
    kvf_rng_fill(peers->config.rng, peer->our_token, sizeof(peer->our_token));
    do {
        peer->tag_in = kvf_rng_u64(peers->config.rng);
    } while (peer->tag_in == 0); /* 0 is the tag of frames before the Hello */
    for (size_t i = 0; i < peers->config.n_transports; i++) {
        struct kvf_transport *transport = peers->config.transports[i];
        enum kvf_status status = transport->ops->token_add(transport, peer->our_token);
        if (status != KVF_OK) {
            return status;
        }
    }
    return KVF_OK;
}

void kvf_peer_drop_tokens(struct kvf_peer *peer)
{
    for (size_t i = 0; i < peer->peers->config.n_transports; i++) {
        struct kvf_transport *transport = peer->peers->config.transports[i];
        transport->ops->token_remove(transport, peer->our_token);
    }
}

static void fill_hello(const struct kvf_peer *peer, struct kvf_hello *out)
{
    const struct kvf_peers *peers = peer->peers;
    *out = (struct kvf_hello){
        .version_min = KVF_CONTROL_PROTOCOL,
        .version_max = KVF_CONTROL_PROTOCOL,
        .node = peers->config.config->node.name,
        .data = peers->blobs,
        .n_data = peers->n_blobs,
        .software = "kvferry/" KVF_VERSION_TEXT,
        .heartbeat_ms = peers->config.config->control.heartbeat_ms,
        .session_tag = peer->tag_in,
        .expected_node = peer->name,
        .data_transport = peer->transport != NULL ? peer->transport->ops->name : "",
    };
    memcpy(out->nonce, peers->nonce, sizeof(out->nonce));
    memcpy(out->data_token, peer->our_token, sizeof(out->data_token));
}

/* ---- choosing a transport */

const char *kvf_peer_transport_name(enum kvf_data_transport wanted)
{
    static const char *const names[] = {
        [KVF_DATA_RDMA] = "rdma", [KVF_DATA_UCX_TCP] = "ucx", [KVF_DATA_TCP] = "tcp"};
    return names[wanted];
}

static struct kvf_transport *find_transport(const struct kvf_peers *peers,
                                            const char *name)
{
    for (size_t i = 0; i < peers->config.n_transports; i++) {
        if (strcmp(peers->config.transports[i]->ops->name, name) == 0) {
            return peers->config.transports[i];
        }
    }
    return NULL;
}

static const struct kvf_data_blob *find_blob(const struct kvf_hello *hello,
                                             const char *name)
{
    for (size_t i = 0; i < hello->n_data; i++) {
        if (strcmp(hello->data[i].transport, name) == 0) {
            return &hello->data[i];
        }
    }
    return NULL;
}

/* UCX builds of different versions may not interoperate even on one host. */
static bool versions_fit(struct kvf_transport *ours, const struct kvf_data_blob *theirs)
{
    return strcmp(ours->ops->version(ours), theirs->version) == 0;
}

static bool is_allowed(const struct kvf_config *config, enum kvf_data_transport wanted)
{
    return config->data.require_mask == 0 ||
           (config->data.require_mask & (1u << wanted)) != 0;
}

static struct kvf_transport *choose(struct kvf_peer *peer, const struct kvf_hello *hello)
{
    const struct kvf_peers *peers = peer->peers;
    const struct kvf_config *config = peers->config.config;
    for (size_t i = 0; i < config->data.n_prefer; i++) {
        enum kvf_data_transport wanted = config->data.prefer[i];
        struct kvf_transport *ours =
            find_transport(peers, kvf_peer_transport_name(wanted));
        const struct kvf_data_blob *theirs =
            find_blob(hello, kvf_peer_transport_name(wanted));
        if (!is_allowed(config, wanted) || ours == NULL || theirs == NULL) {
            continue;
        }
        if (versions_fit(ours, theirs)) {
            return ours;
        }
        struct kvf_log_ctx ctx = {.comp = "peer", .peer = peer->name};
        kvf_log_warn(&ctx, "transport %s not used: version %s here, another there",
                     ours->ops->name, ours->ops->version(ours));
    }
    return NULL;
}

/* Whether the chosen one is within data.require here. */
static bool accepts(const struct kvf_peer *peer, const char *name)
{
    for (int i = KVF_DATA_RDMA; i <= KVF_DATA_TCP; i++) {
        if (strcmp(kvf_peer_transport_name((enum kvf_data_transport)i), name) == 0) {
            return is_allowed(peer->peers->config.config, (enum kvf_data_transport)i);
        }
    }
    return false;
}

/* "10.0.0.7" of "10.0.0.7:7470", "::1" of "[::1]:7470". */
static void set_host(struct kvf_peer *peer, const char *address)
{
    const char *first = address[0] == '[' ? address + 1 : address;
    const char *end = address[0] == '[' ? strchr(first, ']') : strrchr(first, ':');
    int n = end != NULL ? (int)(end - first) : (int)strlen(first);
    (void)snprintf(peer->host, sizeof(peer->host), "%.*s", n, first);
}

static enum kvf_status connect_data(struct kvf_peer *peer, const struct kvf_hello *hello)
{
    const struct kvf_data_blob *blob = find_blob(hello, peer->transport->ops->name);
    memcpy(peer->peer_token, hello->data_token, sizeof(peer->peer_token));
    memcpy(peer->nonce, hello->nonce, sizeof(peer->nonce));
    peer->tag_out = hello->session_tag;
    if (blob == NULL) {
        return KVF_PROTOCOL;
    }
    peer->endpoint_generation++;
    return peer->transport->ops->connect(peer->transport, blob->blob.data, blob->blob.n,
                                         peer->host, peer->peer_token, peer,
                                         &peer->endpoint);
}

/* ---- dialling */

static void on_dial_timer(void *owner)
{
    kvf_peer_dial(owner);
}

void kvf_peer_dial_later(struct kvf_peer *peer)
{
    if (!peer->is_dialler) {
        return;
    }
    const struct kvf_config *config = peer->peers->config.config;
    uint32_t ceiling = peer->backoff_ms * 2;
    if (ceiling < config->control.reconnect_min_ms) {
        ceiling = config->control.reconnect_min_ms;
    }
    if (ceiling > config->control.reconnect_max_ms) {
        ceiling = config->control.reconnect_max_ms;
    }
    peer->backoff_ms = ceiling;
    /* Half fixed, half random: peers of a restarted node do not come back as a herd, and
     * the first retry is never immediate. */
    uint64_t wait_ms =
        ceiling / 2 + kvf_rng_below(peer->peers->config.rng, ceiling / 2 + 1);
    struct kvf_loop *loop = peer->peers->config.loop;
    if (kvf_loop_timer_start(loop, &peer->timer,
                             kvf_loop_now_ns(loop) + wait_ms * KVF_NS_PER_MS,
                             on_dial_timer, peer) != KVF_OK) {
        kvf_log_error(&log_ctx, "no memory to dial %s again; restart the daemon",
                      peer->name);
    }
}

static void on_resolved(void *owner, enum kvf_status status)
{
    struct kvf_peer *peer = owner;
    if (peer->state != KVF_PEER_CONNECTING) {
        return;
    }
    if (status != KVF_OK) {
        kvf_peer_fail(peer, KVF_PEER_UNREACHABLE, "its name does not resolve");
        return;
    }
    char address[KVF_ADDRESS_MAX];
    struct kvf_stream_config config = kvf_peers_stream_config(peer->peers);
    struct kvf_sock *sock = peer->peers->config.sock;
    kvf_sockaddr_format(&peer->lookup.result, address, sizeof(address));
    set_host(peer, address);
    if (sock->ops->connect(sock, &peer->lookup.result, &config, &kvf_peer_stream_events,
                           peer, &peer->stream) != KVF_OK) {
        kvf_peer_fail(peer, KVF_PEER_UNREACHABLE, "no socket to connect with");
    }
}

void kvf_peer_dial(struct kvf_peer *peer)
{
    if (!peer->is_dialler || peer->state != KVF_PEER_DOWN) {
        return;
    }
    kvf_peer_enter_state(peer, KVF_PEER_CONNECTING);
    struct kvf_resolver *resolver = peer->peers->config.resolver;
    resolver->ops->lookup(resolver, &peer->config->address,
                          peer->peers->config.config->control.connect_timeout_ms,
                          &peer->lookup, on_resolved, peer);
}

static void on_hello_timeout(void *owner)
{
    kvf_peer_fail(owner, KVF_PEER_UNREACHABLE, "no answer to our Hello");
}

void kvf_peer_say_hello(struct kvf_peer *peer)
{
    kvf_peer_enter_state(peer, KVF_PEER_HELLO);
    struct kvf_peers *peers = peer->peers;
    struct kvf_loop *loop = peers->config.loop;
    uint64_t deadline = kvf_loop_now_ns(loop) +
                        peers->config.config->control.hello_timeout_ms * KVF_NS_PER_MS;
    enum kvf_status status = draw_tokens(peer);
    if (status == KVF_OK) {
        status =
            kvf_loop_timer_start(loop, &peer->timer, deadline, on_hello_timeout, peer);
    }
    if (status == KVF_OK) {
        struct kvf_message message = {.type = KVF_MSG_HELLO};
        fill_hello(peer, &message.u.hello);
        status =
            kvf_peers_send_on(peers, peer->stream, &message, 0, ++peer->sequence_out);
    }
    /* The answer still comes under tag 0; the tag we announced counts from then on. */
    peer->announced_tag = peer->tag_in;
    peer->tag_in = 0;
    if (status != KVF_OK) {
        kvf_peer_fail(peer, status, "our Hello could not be sent");
    }
}

void kvf_peer_on_hello_ack(struct kvf_peer *peer, const struct kvf_message *message)
{
    const struct kvf_hello_ack *ack = &message->u.hello_ack;
    if (message->type != KVF_MSG_HELLO_ACK) {
        kvf_peer_fail(peer, KVF_PROTOCOL, "something else than HelloAck came first");
        return;
    }
    if (ack->status != KVF_OK) {
        kvf_peer_fail(peer, (enum kvf_status)ack->status, ack->detail);
        return;
    }
    if (strcmp(ack->hello.node, peer->name) != 0) {
        kvf_peer_fail(peer, KVF_PEER_UNKNOWN, "another node answers at its address");
        return;
    }
    if (ack->version != KVF_CONTROL_PROTOCOL) {
        kvf_peer_fail(peer, KVF_PEER_VERSION,
                      "it chose a protocol version we do not speak");
        return;
    }
    struct kvf_transport *transport =
        find_transport(peer->peers, ack->hello.data_transport);
    if (transport == NULL || !accepts(peer, ack->hello.data_transport)) {
        kvf_peer_fail(peer, KVF_TRANSPORT_REFUSED,
                      "it chose a transport that data.require forbids here");
        return;
    }
    peer->transport = transport;
    peer->tag_in = peer->announced_tag;
    enum kvf_status status = connect_data(peer, &ack->hello);
    if (status != KVF_OK) {
        kvf_peer_fail(peer, KVF_DATA_PATH, "its data plane cannot be connected");
        return;
    }
    kvf_peer_begin_epoch(peer);
}

/* ---- accepting */

static void inbound_free(void *object)
{
    kvf_free(object);
}

static void inbound_close(struct kvf_inbound *inbound)
{
    struct kvf_peers *peers = inbound->peers;
    kvf_loop_timer_stop(&inbound->timer);
    kvf_list_remove(&peers->inbound, &inbound->node);
    peers->config.sock->ops->close(inbound->stream);
    inbound->stream = NULL;
    kvf_loop_destroy_later(peers->config.loop, &inbound->zombie, inbound_free, inbound);
}

void kvf_inbound_destroy_all(struct kvf_peers *peers)
{
    struct kvf_node *node;
    while ((node = kvf_list_first(&peers->inbound)) != NULL) {
        inbound_close(KVF_CONTAINER(node, struct kvf_inbound, node));
    }
}

static void on_inbound_timeout(void *owner)
{
    struct kvf_inbound *inbound = owner;
    kvf_log_info(&log_ctx, "connection from %s said nothing in time, closed",
                 inbound->from);
    inbound_close(inbound);
}

static void on_inbound_lost(void *owner, enum kvf_status status)
{
    (void)status; /* it never was anybody */
    inbound_close(owner);
}

/* Tells why and closes; `to` is whom we answer, NULL when unknown. */
static void inbound_refuse(struct kvf_inbound *inbound, enum kvf_status status,
                           const char *detail)
{
    char text[64];
    kvf_log_warn(&log_ctx, "connection from %s refused: %s",
                 kvf_log_escape(inbound->from, strlen(inbound->from), text, sizeof(text)),
                 detail);
    struct kvf_peers *peers = inbound->peers;
    struct kvf_message message = {
        .type = KVF_MSG_HELLO_ACK,
        .u.hello_ack = {.status = status,
                        .detail = detail,
                        .hello = {.node = peers->config.config->node.name}},
    };
    if (kvf_peers_send_on(peers, inbound->stream, &message, 0, 1) != KVF_OK) {
        kvf_log_debug(&log_ctx, "%s was not told why", inbound->from);
    }
    inbound_close(inbound);
}

/* Who says Hello, and may they? */
static enum kvf_status judge_hello(struct kvf_peers *peers, const struct kvf_hello *hello,
                                   struct kvf_peer **out_peer, const char **out_detail)
{
    struct kvf_peer *peer = kvf_peers_find(peers, hello->node);
    *out_detail = "";
    if (peer == NULL || peer->is_self) {
        *out_detail = "your node name is not under peers: in this daemon's YAML";
        return KVF_PEER_UNKNOWN;
    }
    if (strcmp(hello->expected_node, peers->config.config->node.name) != 0) {
        *out_detail =
            "this node has another name than you expect; check the peer's address";
        return KVF_PEER_UNKNOWN;
    }
    if (peer->is_dialler) {
        *out_detail = "the node whose name sorts first dials; wait for our connection";
        return KVF_PROTOCOL;
    }
    if (hello->version_min > KVF_CONTROL_PROTOCOL ||
        hello->version_max < KVF_CONTROL_PROTOCOL) {
        *out_detail = "no common protocol version; this daemon speaks version 1 only";
        return KVF_PEER_VERSION;
    }
    *out_peer = peer;
    return KVF_OK;
}

/* The stream leaves the inbound and becomes the peer's. */
static void adopt(struct kvf_inbound *inbound, struct kvf_peer *peer,
                  const struct kvf_hello *hello, struct kvf_transport *transport)
{
    struct kvf_peers *peers = inbound->peers;
    struct kvf_stream_config config = kvf_peers_stream_config(peers);
    peer->stream = inbound->stream;
    set_host(peer, inbound->from);
    inbound->stream = NULL;
    inbound_close(inbound);
    peer->sequence_in = 1;
    peer->transport = transport;
    peers->config.sock->ops->attach(peer->stream, &config, &kvf_peer_stream_events, peer);
    enum kvf_status status = draw_tokens(peer);
    if (status == KVF_OK) {
        status = connect_data(peer, hello);
    }
    if (status == KVF_OK) {
        struct kvf_message message = {
            .type = KVF_MSG_HELLO_ACK,
            .u.hello_ack = {.status = KVF_OK,
                            .detail = "",
                            .version = KVF_CONTROL_PROTOCOL},
        };
        fill_hello(peer, &message.u.hello_ack.hello);
        status =
            kvf_peers_send_on(peers, peer->stream, &message, 0, ++peer->sequence_out);
    }
    if (status == KVF_OK) {
        kvf_peer_begin_epoch(peer);
        return;
    }
    kvf_log_error(&log_ctx, "peer %s: its connection cannot be served: %s", peer->name,
                  kvf_status_text(status));
    kvf_peer_drop_tokens(peer);
    peer->transport = NULL;
    peers->config.sock->ops->close(peer->stream);
    peer->stream = NULL;
    peer->sequence_in = peer->sequence_out = 0;
}

static void on_inbound_readable(void *owner)
{
    struct kvf_inbound *inbound = owner;
    struct kvf_peers *peers = inbound->peers;
    struct kvf_frame frame;
    struct kvf_message message;
    const char *detail = "";
    enum kvf_status status =
        kvf_peers_next_message(peers, peers->config.sock->ops->in(inbound->stream),
                               KVF_FRAME_MAX_UNPROVEN, &frame, &message, &detail);
    if (status == KVF_IN_PROGRESS) {
        return;
    }
    if (status == KVF_OK && (message.type != KVF_MSG_HELLO || frame.session_tag != 0 ||
                             frame.sequence != 1)) {
        status = KVF_PROTOCOL;
        detail = "something else than Hello came first";
    }
    struct kvf_peer *peer = NULL;
    if (status == KVF_OK) {
        status = judge_hello(peers, &message.u.hello, &peer, &detail);
    }
    struct kvf_transport *transport = NULL;
    if (status == KVF_OK) {
        transport = choose(peer, &message.u.hello);
        if (transport == NULL) {
            status = KVF_TRANSPORT_REFUSED;
            detail =
                "no data transport in common; compare data.prefer, data.require and the "
                "UCX versions of both nodes";
        }
    }
    if (status != KVF_OK) {
        inbound_refuse(inbound, status, detail);
        return;
    }
    /* It says Hello again: its process or its side of the connection is new. */
    kvf_peer_fail(peer, KVF_PEER_LOST, "replaced by a new connection");
    adopt(inbound, peer, &message.u.hello, transport);
}

static const struct kvf_stream_events inbound_events = {
    .readable = on_inbound_readable,
    .lost = on_inbound_lost,
};

static void on_accepted(void *owner, struct kvf_stream *stream, const char *from)
{
    struct kvf_peers *peers = owner;
    struct kvf_loop *loop = peers->config.loop;
    struct kvf_inbound *inbound = NULL;
    if (peers->inbound.n < KVF_INBOUND_MAX) {
        inbound = kvf_alloc(sizeof(*inbound));
    }
    if (inbound == NULL) {
        kvf_log_warn(&log_ctx, "connection from %s closed: %zu connections wait already",
                     from, peers->inbound.n);
        peers->config.sock->ops->close(stream);
        return;
    }
    inbound->peers = peers;
    inbound->stream = stream;
    (void)snprintf(inbound->from, sizeof(inbound->from), "%s", from); /* cut is fine */
    kvf_list_add_tail(&peers->inbound, &inbound->node);
    uint64_t deadline = kvf_loop_now_ns(loop) +
                        peers->config.config->control.hello_timeout_ms * KVF_NS_PER_MS;
    if (kvf_loop_timer_start(loop, &inbound->timer, deadline, on_inbound_timeout,
                             inbound) != KVF_OK) {
        inbound_close(inbound);
        return;
    }
    struct kvf_stream_config config = kvf_peers_stream_config(peers);
    config.in_max_bytes = KVF_FRAME_MAX_UNPROVEN + KVF_FRAME_HEADER_BYTES;
    peers->config.sock->ops->attach(stream, &config, &inbound_events, inbound);
}

const struct kvf_listener_events kvf_peer_listener_events = {.accepted = on_accepted};
