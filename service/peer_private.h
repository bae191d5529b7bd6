/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by peer.c (epochs, frames, heartbeat) and peer_hello.c (dialling, accepting, the
 * handshake). Nobody else includes it. Loop thread.
 */
#ifndef KVF_SERVICE_PEER_PRIVATE_H
#define KVF_SERVICE_PEER_PRIVATE_H

#include "base/alloc.h"
#include "base/log.h"
#include "proto/frame.h"
#include "service/peer.h"
#include "service/slots.h"

#define KVF_INBOUND_MAX 64u

/* A connection that has not said who it is. */
struct kvf_inbound {
    struct kvf_peers *peers;   /* borrows; owner */
    struct kvf_stream *stream; /* owns until a peer adopts it */
    struct kvf_timer timer;
    struct kvf_node node;
    struct kvf_zombie zombie;
    char from[KVF_ADDRESS_MAX];
};

struct kvf_peers {
    struct kvf_peers_config config;
    struct kvf_peer *all; /* owns; [n], the first is ourselves */
    size_t n;
    struct kvf_list by_state[KVF_PEER_STATES];
    struct kvf_listener *listener; /* owns */
    struct kvf_list inbound;
    struct kvf_arena arena; /* decoding, one message at a time */
    struct kvf_buf frame;   /* encoding, one frame at a time */
    uint8_t nonce[KVF_NONCE_BYTES];
    struct kvf_data_blob blobs[KVF_TRANSPORTS_MAX];
    uint8_t blob_bytes[KVF_TRANSPORTS_MAX][KVF_DATA_BLOB_MAX];
    size_t n_blobs;
};

void kvf_peer_enter_state(struct kvf_peer *peer, enum kvf_peer_state state);
/* The epoch starts: tags, tokens and transport are set. */
void kvf_peer_begin_epoch(struct kvf_peer *peer);
void kvf_peer_dial_later(struct kvf_peer *peer);
void kvf_peer_dial(struct kvf_peer *peer);
void kvf_peer_set_reason(struct kvf_peer *peer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Encodes and queues on any stream; used before an epoch exists. */
enum kvf_status KVF_MUST_CHECK kvf_peers_send_on(struct kvf_peers *peers,
                                                 struct kvf_stream *stream,
                                                 const struct kvf_message *message,
                                                 uint64_t tag, uint64_t sequence);
/* Parses and decodes the next frame of a stream into peers->arena. KVF_OK: *out is valid
 * and *out_frame tells tag and sequence; the bytes are consumed. */
enum kvf_status KVF_MUST_CHECK kvf_peers_next_message(
    struct kvf_peers *peers, struct kvf_buf *in, uint32_t max_payload,
    struct kvf_frame *out_frame, struct kvf_message *out, const char **out_detail);
/* Incoming data under our token is not heard any more; harmless when none was drawn. */
void kvf_peer_drop_tokens(struct kvf_peer *peer);
void kvf_peer_say_hello(struct kvf_peer *peer);
void kvf_peer_on_hello_ack(struct kvf_peer *peer, const struct kvf_message *message);

extern const struct kvf_stream_events kvf_peer_stream_events;
extern const struct kvf_listener_events kvf_peer_listener_events;
struct kvf_stream_config kvf_peers_stream_config(const struct kvf_peers *peers);
void kvf_inbound_destroy_all(struct kvf_peers *peers);
enum kvf_status KVF_MUST_CHECK kvf_peers_collect_blobs(struct kvf_peers *peers);

#endif
