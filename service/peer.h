/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peers: the other daemons of the topology, and ourselves. A peer is DOWN, CONNECTING,
 * HELLO or UP; while UP it has an epoch (the pair of process nonces), a control stream
 * and a data endpoint. The node whose name sorts first dials, so there is one connection
 * per pair. The own node is a peer too, whose messages come back through the loop: local
 * transfers take the same code path. Loop thread.
 */
#ifndef KVF_SERVICE_PEER_H
#define KVF_SERVICE_PEER_H

#include <stdbool.h>
#include <stdint.h>

#include <kvferry/status.h>

#include "base/loop.h"
#include "base/resolver.h"
#include "base/rng.h"
#include "base/sock.h"
#include "config/config.h"
#include "proto/message.h"
#include "service/transport.h"

enum kvf_peer_state {
    KVF_PEER_DOWN = 0, /* waiting to dial, or to be dialled */
    KVF_PEER_CONNECTING = 1,
    KVF_PEER_HELLO = 2,
    KVF_PEER_UP = 3,
    KVF_PEER_STATES = 4
};

struct kvf_peers;

struct kvf_peer {
    struct kvf_peers *peers;              /* borrows; owner */
    const struct kvf_config_peer *config; /* borrows; NULL for the own node */
    const char *name;                     /* borrows from the config */
    bool is_self, is_dialler;
    enum kvf_peer_state state;
    struct kvf_node state_node;
    uint64_t state_since_ns;

    /* epoch: valid while UP (and HELLO as far as known) */
    uint64_t epoch;                      /* counts up with every UP; 0 = never */
    uint8_t nonce[KVF_NONCE_BYTES];      /* the peer's process */
    uint8_t our_token[KVF_NONCE_BYTES];  /* it must show this on its data */
    uint8_t peer_token[KVF_NONCE_BYTES]; /* we must show this on ours */
    uint64_t tag_in, tag_out; /* of frames to us and from us; 0 before the Hello */
    uint64_t announced_tag;   /* becomes tag_in when the answer came */
    uint64_t sequence_in, sequence_out;

    struct kvf_stream *stream;       /* owns */
    struct kvf_transport *transport; /* borrows; chosen in the Hello; NULL for self */
    struct kvf_endpoint *endpoint;   /* owns */
    uint32_t endpoint_generation;
    uint32_t n_slots; /* staging slots held on behalf of this peer */

    char host[64]; /* numeric, of its control connection */
    struct kvf_lookup lookup;
    struct kvf_timer timer; /* dial, hello or heartbeat, by state */
    uint32_t backoff_ms;
    uint64_t heard_ns, rtt_ns;
    uint64_t ping_sequence;
    char reason[192]; /* why it is not up */

    struct kvf_buf loopback; /* self: frames on their way back to us */
    struct kvf_post loopback_post;

    struct kvf_list transfers; /* by struct kvf_transfer.peer_node */
    uint64_t bytes_sent, bytes_received, n_reconnects;
    uint64_t n_messages_in, n_messages_out;
};

/* Where a peer's news go. All from the loop, never inside a call of this header except
 * `down` which kvf_peer_fail causes at once. */
struct kvf_peer_events {
    void (*up)(void *owner, struct kvf_peer *peer);
    void (*down)(void *owner, struct kvf_peer *peer, enum kvf_status status);
    /* Session messages: RequestInfo .. Notify. The message is valid during the call. */
    void (*message)(void *owner, struct kvf_peer *peer,
                    const struct kvf_message *message);
};

struct kvf_peers_config {
    const struct kvf_config *config; /* borrowed for life */
    struct kvf_loop *loop;
    struct kvf_sock *sock;
    struct kvf_resolver *resolver;
    struct kvf_rng *rng;
    struct kvf_transport *const *transports; /* [n_transports], borrowed for life */
    size_t n_transports;
    const struct kvf_peer_events *events;
    void *owner;
};

/* Opens the control listener and starts dialling. */
enum kvf_status KVF_MUST_CHECK kvf_peers_create(const struct kvf_peers_config *config,
                                                struct kvf_peers **out_peers);
void kvf_peers_destroy(struct kvf_peers *peers); /* accepts NULL */

/* NULL when the topology does not know the name. The own node's name finds the self peer.
 */
struct kvf_peer *kvf_peers_find(struct kvf_peers *peers, const char *node);
/* The peer whose data token (ours, shown by it) this is; NULL: unknown. */
struct kvf_peer *kvf_peers_find_token(struct kvf_peers *peers,
                                      const uint8_t token[KVF_NONCE_BYTES]);
size_t kvf_peers_count(const struct kvf_peers *peers);
struct kvf_peer *kvf_peers_at(struct kvf_peers *peers, size_t index);
uint16_t kvf_peers_port(const struct kvf_peers *peers); /* bound control port */

/* Queues a message. PEER_UNREACHABLE when not up; BUSY when its queue is full, which also
 * ends the epoch: a peer that does not read is as good as gone. */
enum kvf_status KVF_MUST_CHECK kvf_peer_send(struct kvf_peer *peer,
                                             const struct kvf_message *message);

/* The same for messages whose loss needs no answer here: when it fails, the epoch ended
 * or is about to, and whoever works in it hears that. */
void kvf_peer_tell(struct kvf_peer *peer, const struct kvf_message *message);

/* Ends the epoch now and reconnects with backoff. No-op for self and when DOWN. */
void kvf_peer_fail(struct kvf_peer *peer, enum kvf_status status, const char *why);

const char *kvf_peer_state_name(enum kvf_peer_state state);
/* What a word of data.prefer is called among the transports. */
const char *kvf_peer_transport_name(enum kvf_data_transport wanted);

#endif
