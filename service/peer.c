/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a peer once its connection exists: frames in and out, heartbeat, the end of
 * an epoch. What leads to an epoch is in peer_hello.c. An epoch dies as a whole: its
 * stream and its data endpoint are closed together and whoever works in it is told once.
 */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "service/peer_private.h"

#define KVF_OUT_MAX_BYTES                                                                \
    (4u << 20) /* control frames waiting for a peer that reads slowly */

static struct kvf_log_ctx log_of(const struct kvf_peer *peer)
{
    return (struct kvf_log_ctx){.comp = "peer", .peer = peer->name};
}

const char *kvf_peer_state_name(enum kvf_peer_state state)
{
    static const char *const names[KVF_PEER_STATES] = {
        [KVF_PEER_DOWN] = "down",
        [KVF_PEER_CONNECTING] = "connecting",
        [KVF_PEER_HELLO] = "hello",
        [KVF_PEER_UP] = "up",
    };
    return names[state];
}

/* The only place where a peer changes state. */
void kvf_peer_enter_state(struct kvf_peer *peer, enum kvf_peer_state state)
{
    static const uint8_t edges[KVF_PEER_STATES] = {
        /* UP straight from DOWN: the other side dialled */
        [KVF_PEER_DOWN] = 1u << KVF_PEER_CONNECTING | 1u << KVF_PEER_UP,
        [KVF_PEER_CONNECTING] = 1u << KVF_PEER_HELLO | 1u << KVF_PEER_DOWN,
        [KVF_PEER_HELLO] = 1u << KVF_PEER_UP | 1u << KVF_PEER_DOWN,
        [KVF_PEER_UP] = 1u << KVF_PEER_DOWN,
    };
    assert((edges[peer->state] & (1u << state)) != 0);
    struct kvf_peers *peers = peer->peers;
    kvf_list_remove(&peers->by_state[peer->state], &peer->state_node);
    peer->state = state;
    peer->state_since_ns = kvf_loop_now_ns(peers->config.loop);
    kvf_list_add_tail(&peers->by_state[state], &peer->state_node);
}

void kvf_peer_set_reason(struct kvf_peer *peer, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(peer->reason, sizeof(peer->reason), format, arguments);
    va_end(arguments);
}

/* ---- frames out */

enum kvf_status kvf_peers_send_on(struct kvf_peers *peers, struct kvf_stream *stream,
                                  const struct kvf_message *message, uint64_t tag,
                                  uint64_t sequence)
{
    kvf_buf_clear(&peers->frame);
    enum kvf_status status = kvf_message_encode(message, tag, sequence, &peers->frame);
    if (status != KVF_OK) {
        return status;
    }
    return peers->config.sock->ops->send(stream, kvf_buf_head(&peers->frame),
                                         kvf_buf_length(&peers->frame), NULL, 0);
}

static void deliver_loopback(void *owner, enum kvf_status status);

static enum kvf_status send_to_self(struct kvf_peer *peer,
                                    const struct kvf_message *message)
{
    enum kvf_status status =
        kvf_message_encode(message, peer->tag_out, ++peer->sequence_out, &peer->loopback);
    if (status == KVF_OK && peer->loopback_post.loop == NULL) {
        kvf_loop_post(peer->peers->config.loop, &peer->loopback_post, deliver_loopback,
                      peer, KVF_OK);
    }
    return status;
}

enum kvf_status kvf_peer_send(struct kvf_peer *peer, const struct kvf_message *message)
{
    if (peer->state != KVF_PEER_UP) {
        return KVF_PEER_UNREACHABLE;
    }
    peer->n_messages_out++;
    if (peer->is_self) {
        return send_to_self(peer, message);
    }
    enum kvf_status status = kvf_peers_send_on(peer->peers, peer->stream, message,
                                               peer->tag_out, ++peer->sequence_out);
    if (status == KVF_BUSY) {
        kvf_peer_fail(peer, KVF_PEER_LOST, "does not read its control connection");
    }
    return status;
}

void kvf_peer_tell(struct kvf_peer *peer, const struct kvf_message *message)
{
    enum kvf_status status = kvf_peer_send(peer, message);
    if (status != KVF_OK) {
        struct kvf_log_ctx ctx = log_of(peer);
        kvf_log_debug(&ctx, "%s not sent to %s: %s", kvf_message_name(message->type),
                      peer->name, kvf_status_text(status));
    }
}

/* ---- frames in */

enum kvf_status kvf_peers_next_message(struct kvf_peers *peers, struct kvf_buf *in,
                                       uint32_t max_payload, struct kvf_frame *out_frame,
                                       struct kvf_message *out, const char **out_detail)
{
    enum kvf_status status = kvf_frame_parse(kvf_buf_head(in), kvf_buf_length(in),
                                             max_payload, out_frame, out_detail);
    if (status != KVF_OK) {
        return status;
    }
    out->type = 0;
    if (kvf_message_type_is_known(out_frame->type)) {
        kvf_arena_reset(&peers->arena, kvf_message_budget(out_frame->length));
        status = kvf_message_decode(out_frame->type, out_frame->payload,
                                    out_frame->length, &peers->arena, out, out_detail);
    }
    kvf_buf_consume(in, KVF_FRAME_HEADER_BYTES + out_frame->length);
    return status;
}

static void answer_unknown(struct kvf_peer *peer, const struct kvf_frame *frame)
{
    struct kvf_log_ctx ctx = log_of(peer);
    kvf_log_warn(&ctx, "message type %u is unknown here and was refused", frame->type);
    struct kvf_message message = {
        .type = KVF_MSG_ERROR,
        .u.error = {.cause = KVF_UNSUPPORTED,
                    .detail = "unknown message type",
                    .frame_type = frame->type,
                    .frame_sequence = frame->sequence},
    };
    kvf_peer_tell(peer, &message);
}

static void on_ping(struct kvf_peer *peer, const struct kvf_ping *ping)
{
    struct kvf_message message = {
        .type = KVF_MSG_PONG,
        .u.pong = {.sequence = ping->sequence,
                   .sent_ns = ping->sent_ns,
                   .wall_ns = kvf_loop_wall_ns(peer->peers->config.loop)},
    };
    kvf_peer_tell(peer, &message);
}

static void on_pong(struct kvf_peer *peer, const struct kvf_pong *pong)
{
    uint64_t now = kvf_loop_clock_ns(peer->peers->config.loop);
    if (pong->sequence == peer->ping_sequence && pong->sent_ns <= now) {
        peer->rtt_ns = now - pong->sent_ns;
    }
}

static void dispatch(struct kvf_peer *peer, const struct kvf_message *message)
{
    peer->n_messages_in++;
    if (message->type == KVF_MSG_PING) {
        on_ping(peer, &message->u.ping);
    } else if (message->type == KVF_MSG_PONG) {
        on_pong(peer, &message->u.pong);
    } else if (message->type == KVF_MSG_ERROR) {
        struct kvf_log_ctx ctx = log_of(peer);
        char text[192];
        kvf_log_warn(&ctx, "refused our message %s: %s",
                     kvf_message_name(message->u.error.frame_type),
                     kvf_log_escape(message->u.error.detail,
                                    strlen(message->u.error.detail), text, sizeof(text)));
    } else {
        peer->peers->config.events->message(peer->peers->config.owner, peer, message);
    }
}

/* One frame; false when the stream has no whole frame or the epoch ended. */
static bool take_frame(struct kvf_peer *peer, struct kvf_buf *in)
{
    struct kvf_frame frame;
    struct kvf_message message;
    const char *detail = "";
    uint64_t epoch = peer->epoch;
    enum kvf_status status = kvf_peers_next_message(
        peer->peers, in,
        peer->state == KVF_PEER_UP ? KVF_FRAME_MAX_PEER : KVF_FRAME_MAX_UNPROVEN, &frame,
        &message, &detail);
    if (status == KVF_IN_PROGRESS) {
        return false;
    }
    if (status == KVF_OK &&
        (frame.session_tag != peer->tag_in || frame.sequence != peer->sequence_in + 1)) {
        status = KVF_PROTOCOL;
        detail = "session tag or sequence of another session";
    }
    if (status != KVF_OK) {
        kvf_peer_fail(peer, status, detail);
        return false;
    }
    peer->sequence_in = frame.sequence;
    peer->heard_ns = kvf_loop_now_ns(peer->peers->config.loop);
    if (peer->state == KVF_PEER_HELLO) {
        kvf_peer_on_hello_ack(peer, &message);
    } else if (message.type == 0) {
        answer_unknown(peer, &frame);
    } else {
        dispatch(peer, &message);
    }
    return peer->epoch == epoch || peer->state == KVF_PEER_UP;
}

static void on_readable(void *owner)
{
    struct kvf_peer *peer = owner;
    struct kvf_stream *stream = peer->stream;
    /* The message may end the epoch, and with it the stream. */
    while (peer->stream == stream &&
           take_frame(peer, peer->peers->config.sock->ops->in(stream))) {
    }
}

static void deliver_loopback(void *owner, enum kvf_status status)
{
    (void)status;
    struct kvf_peer *peer = owner;
    /* Only what is there now: answers to it go out with the next turn. */
    uint64_t last = peer->sequence_out;
    while (peer->sequence_in < last && take_frame(peer, &peer->loopback)) {
    }
}

/* ---- epochs */

static void send_ping(struct kvf_peer *peer)
{
    struct kvf_message message = {
        .type = KVF_MSG_PING,
        .u.ping = {.sequence = ++peer->ping_sequence,
                   .sent_ns = kvf_loop_clock_ns(peer->peers->config.loop),
                   .data_progress = peer->bytes_sent + peer->bytes_received,
                   .last_heard_ns = peer->heard_ns},
    };
    kvf_peer_tell(peer, &message);
}

static void on_heartbeat(void *owner)
{
    struct kvf_peer *peer = owner;
    struct kvf_loop *loop = peer->peers->config.loop;
    const struct kvf_config *config = peer->peers->config.config;
    uint64_t now = kvf_loop_now_ns(loop);
    if (now - peer->heard_ns > config->control.dead_after_ms * KVF_NS_PER_MS) {
        kvf_peer_fail(peer, KVF_PEER_LOST, "silent for longer than control.dead_after");
        return;
    }
    if (kvf_loop_timer_start(loop, &peer->timer,
                             now + config->control.heartbeat_ms * KVF_NS_PER_MS,
                             on_heartbeat, peer) != KVF_OK) {
        kvf_peer_fail(peer, KVF_NO_MEMORY, "no memory for the heartbeat timer");
        return;
    }
    send_ping(peer);
}

void kvf_peer_begin_epoch(struct kvf_peer *peer)
{
    struct kvf_log_ctx ctx = log_of(peer);
    kvf_peer_enter_state(peer, KVF_PEER_UP);
    if (peer->epoch > 0) {
        peer->n_reconnects++;
    }
    peer->epoch++;
    peer->backoff_ms = 0;
    peer->reason[0] = '\0';
    peer->heard_ns = kvf_loop_now_ns(peer->peers->config.loop);
    kvf_log_info(&ctx, "peer %s up, data over %s", peer->name,
                 peer->transport->ops->name);
    on_heartbeat(peer);
    if (peer->state == KVF_PEER_UP) {
        peer->peers->config.events->up(peer->peers->config.owner, peer);
    }
}

/* Closes what an epoch or an attempt holds; state is the caller's. */
static void release_connection(struct kvf_peer *peer)
{
    struct kvf_peers *peers = peer->peers;
    kvf_loop_timer_stop(&peer->timer);
    if (peer->endpoint != NULL) {
        struct kvf_endpoint *endpoint = peer->endpoint;
        peer->endpoint = NULL;
        peer->transport->ops->disconnect(endpoint);
    }
    kvf_peer_drop_tokens(peer);
    peer->transport = NULL;
    struct kvf_stream *stream = peer->stream;
    peer->stream = NULL;
    peers->config.sock->ops->close(stream);
    peer->tag_in = peer->tag_out = 0;
    peer->sequence_in = peer->sequence_out = 0;
    peer->rtt_ns = 0;
}

void kvf_peer_fail(struct kvf_peer *peer, enum kvf_status status, const char *why)
{
    if (peer->is_self || peer->state == KVF_PEER_DOWN) {
        return;
    }
    struct kvf_log_ctx ctx = log_of(peer);
    bool was_up = peer->state == KVF_PEER_UP;
    char text[128];
    (void)kvf_log_escape(why, strlen(why), text, sizeof(text));
    kvf_peer_set_reason(peer, "%s: %s", kvf_status_text(status), text);
    if (was_up) {
        kvf_log_warn(&ctx, "peer %s lost (%s), %zu transfers affected", peer->name, text,
                     peer->transfers.n);
    } else {
        kvf_log_info(&ctx, "peer %s not reached: %s", peer->name, peer->reason);
    }
    release_connection(peer);
    kvf_peer_enter_state(peer, KVF_PEER_DOWN);
    kvf_peer_dial_later(peer);
    if (was_up) {
        peer->peers->config.events->down(peer->peers->config.owner, peer,
                                         status == KVF_SHUTDOWN ? status : KVF_PEER_LOST);
    }
}

static void on_stream_lost(void *owner, enum kvf_status status)
{
    kvf_peer_fail(owner, status,
                  status == KVF_EXPIRED ? "connection timed out" : "connection closed");
}

static void on_stream_opened(void *owner)
{
    kvf_peer_say_hello(owner);
}

const struct kvf_stream_events kvf_peer_stream_events = {
    .opened = on_stream_opened,
    .readable = on_readable,
    .lost = on_stream_lost,
};

struct kvf_stream_config kvf_peers_stream_config(const struct kvf_peers *peers)
{
    const struct kvf_config *config = peers->config.config;
    return (struct kvf_stream_config){
        .in_max_bytes = KVF_FRAME_MAX_PEER + KVF_FRAME_HEADER_BYTES,
        .out_max_bytes = KVF_OUT_MAX_BYTES,
        .connect_ms = config->control.connect_timeout_ms,
        .user_timeout_ms = config->control.dead_after_ms,
    };
}

/* ---- the set */

static void init_peer(struct kvf_peers *peers, struct kvf_peer *peer, const char *name,
                      const struct kvf_config_peer *config)
{
    peer->peers = peers;
    peer->config = config;
    peer->name = name;
    peer->is_self = config == NULL;
    peer->is_dialler =
        config != NULL && strcmp(peers->config.config->node.name, name) < 0;
    kvf_list_init(&peer->transfers);
    kvf_buf_init(&peer->loopback, KVF_OUT_MAX_BYTES);
    peer->state = peer->is_self ? KVF_PEER_UP : KVF_PEER_DOWN;
    peer->epoch = peer->is_self ? 1 : 0;
    kvf_list_add_tail(&peers->by_state[peer->state], &peer->state_node);
    kvf_peer_set_reason(
        peer, "%s", peer->is_dialler ? "not dialled yet" : "waiting for it to connect");
    if (peer->is_self) {
        memcpy(peer->nonce, peers->nonce, sizeof(peer->nonce));
        peer->reason[0] = '\0';
    }
}

enum kvf_status kvf_peers_create(const struct kvf_peers_config *config,
                                 struct kvf_peers **out_peers)
{
    enum kvf_status status = KVF_NO_MEMORY;
    struct kvf_peers *peers = kvf_alloc(sizeof(*peers));
    if (peers == NULL) {
        return KVF_NO_MEMORY;
    }
    peers->config = *config;
    for (int i = 0; i < KVF_PEER_STATES; i++) {
        kvf_list_init(&peers->by_state[i]);
    }
    kvf_list_init(&peers->inbound);
    kvf_arena_init(&peers->arena, 0);
    kvf_buf_init(&peers->frame, KVF_FRAME_MAX_PEER + KVF_FRAME_HEADER_BYTES);
    kvf_rng_fill(config->rng, peers->nonce, sizeof(peers->nonce));
    size_t n = config->config->n_peers + 1;
    peers->all = kvf_alloc_array(n, sizeof(*peers->all));
    if (peers->all == NULL) {
        goto fail;
    }
    init_peer(peers, &peers->all[0], config->config->node.name, NULL);
    for (size_t i = 1; i < n; i++) {
        const struct kvf_config_peer *peer = &config->config->peers[i - 1];
        init_peer(peers, &peers->all[i], peer->name, peer);
    }
    peers->n = n;
    status = kvf_peers_collect_blobs(peers);
    if (status != KVF_OK) {
        goto fail;
    }
    status =
        config->sock->ops->listen(config->sock, &config->config->control.listen,
                                  &kvf_peer_listener_events, peers, &peers->listener);
    if (status != KVF_OK) {
        goto fail;
    }
    for (size_t i = 1; i < n; i++) {
        kvf_peer_dial(&peers->all[i]);
    }
    *out_peers = peers;
    return KVF_OK;
fail:
    kvf_peers_destroy(peers);
    return status;
}

void kvf_peers_destroy(struct kvf_peers *peers)
{
    if (peers == NULL) {
        return;
    }
    for (size_t i = 0; i < peers->n; i++) {
        struct kvf_peer *peer = &peers->all[i];
        if (!peer->is_self) {
            peers->config.resolver->ops->cancel(peers->config.resolver, &peer->lookup);
            release_connection(peer);
        }
        kvf_loop_post_remove(&peer->loopback_post);
        kvf_buf_fini(&peer->loopback);
    }
    kvf_inbound_destroy_all(peers);
    peers->config.sock->ops->listener_close(peers->listener);
    kvf_buf_fini(&peers->frame);
    kvf_arena_fini(&peers->arena);
    kvf_free(peers->all);
    kvf_free(peers);
}

struct kvf_peer *kvf_peers_find(struct kvf_peers *peers, const char *node)
{
    for (size_t i = 0; i < peers->n; i++) {
        if (strcmp(peers->all[i].name, node) == 0) {
            return &peers->all[i];
        }
    }
    return NULL;
}

struct kvf_peer *kvf_peers_find_token(struct kvf_peers *peers,
                                      const uint8_t token[KVF_NONCE_BYTES])
{
    for (size_t i = 1; i < peers->n; i++) {
        struct kvf_peer *peer = &peers->all[i];
        if (peer->state == KVF_PEER_UP &&
            memcmp(peer->our_token, token, KVF_NONCE_BYTES) == 0) {
            return peer;
        }
    }
    return NULL;
}

size_t kvf_peers_count(const struct kvf_peers *peers)
{
    return peers->n;
}

struct kvf_peer *kvf_peers_at(struct kvf_peers *peers, size_t index)
{
    return &peers->all[index];
}

uint16_t kvf_peers_port(const struct kvf_peers *peers)
{
    return peers->config.sock->ops->listener_port(peers->listener);
}
