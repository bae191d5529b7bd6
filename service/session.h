/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Engine sessions: one rank of one instance, connected through the Unix socket. A session
 * owns its pools and its live requests; when its socket goes, so do they. Frames are
 * judged like a peer's. Loop thread.
 */
#ifndef KVF_SERVICE_SESSION_H
#define KVF_SERVICE_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include <kvferry/status.h>

#include "base/loop.h"
#include "base/map.h"
#include "base/rng.h"
#include "base/sock.h"
#include "config/config.h"
#include "proto/message.h"
#include "service/pool.h"

struct kvf_sessions;

struct kvf_session {
    struct kvf_sessions *sessions;              /* borrows; owner */
    const struct kvf_config_instance *instance; /* borrows from the config */
    uint64_t id;                                /* of its slab slot */
    uint32_t rank, pid;
    char name[128];
    uint8_t nonce[KVF_NONCE_BYTES]; /* what the match key of its offers starts with */
    struct kvf_credentials credentials;
    struct kvf_stream *stream; /* owns; NULL once lost */
    uint64_t sequence_out;
    struct kvf_list pools;    /* kvf_daemon_pool.node */
    struct kvf_list requests; /* kvf_request.session_node */
    struct kvf_node node;
    struct kvf_timer timer; /* hello */
    struct kvf_zombie zombie;
    bool is_registered; /* hello accepted */
    bool is_overrun;    /* its event queue is full: closed in the next completion phase */
    struct kvf_post overrun_post, more_post;
    uint64_t pool_bytes;
    const char **node_names; /* owns the array: what CommState says, one per rank */
};

struct kvf_session_events {
    void (*offer)(void *owner, struct kvf_session *session,
                  const struct kvf_offer *offer);
    void (*offer_ready)(void *owner, struct kvf_session *session,
                        const struct kvf_offer_ready *ready);
    void (*receive)(void *owner, struct kvf_session *session,
                    const struct kvf_receive_message *receive);
    void (*cancel)(void *owner, struct kvf_session *session,
                   const struct kvf_engine_cancel *cancel);
    void (*notify)(void *owner, struct kvf_session *session,
                   const struct kvf_engine_notify *notify);
    void (*lost)(void *owner, struct kvf_session *session);
};

struct kvf_sessions_config {
    const struct kvf_config *config; /* borrowed for life */
    struct kvf_loop *loop;
    struct kvf_sock *sock;
    struct kvf_rng *rng;
    struct kvf_transport *const *transports;
    size_t n_transports;
    const struct kvf_session_events *events;
    void *owner;
};

enum kvf_status KVF_MUST_CHECK kvf_sessions_create(
    const struct kvf_sessions_config *config, struct kvf_sessions **out_sessions);
void kvf_sessions_destroy(struct kvf_sessions *sessions); /* accepts NULL */

/* A registered session, NULL when there is none. */
struct kvf_session *kvf_sessions_find(struct kvf_sessions *sessions, const char *instance,
                                      uint32_t rank);
struct kvf_session *kvf_sessions_find_nonce(struct kvf_sessions *sessions,
                                            const uint8_t nonce[KVF_NONCE_BYTES],
                                            uint32_t rank);
const struct kvf_list *kvf_sessions_list(const struct kvf_sessions *sessions);

struct kvf_daemon_pool *kvf_session_pool(struct kvf_session *session, uint32_t group);

/* Queues a message to the engine; a session whose queue is full is closed (the engine
 * does not read). Never fails visibly: an engine that is gone needs no answer. */
void kvf_session_send(struct kvf_session *session, const struct kvf_message *message);

/* The session's DataTransceiverState, borrowed pointers valid while the session lives. */
void kvf_session_state(const struct kvf_session *session,
                       struct kvf_transceiver_state *out);

#endif
