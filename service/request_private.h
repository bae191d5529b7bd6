/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by request.c (life of a request), request_accept.c (what engines ask for) and
 * request_match.c (what peers ask for). Loop thread.
 */
#ifndef KVF_SERVICE_REQUEST_PRIVATE_H
#define KVF_SERVICE_REQUEST_PRIVATE_H

#include "base/log.h"
#include "base/map.h"
#include "base/rng.h"
#include "plan/rank_map.h"
#include "service/request.h"

#define KVF_SPARE_ARENAS        64u
#define KVF_EARLY_MAX           1024u
#define KVF_EARLY_MAX_BYTES     (16u << 20)
#define KVF_TOMBSTONES          1024u
#define KVF_REQUEST_ARENA_BYTES (64u << 20) /* 2^20 blocks, hashes and plans fit */

/* A RequestInfo that came before its offer: kept as bytes. */
struct kvf_early {
    struct kvf_requests *requests; /* borrows; owner */
    struct kvf_match_key key;
    struct kvf_peer *peer; /* borrows */
    uint64_t receiver_session;
    struct kvf_buf frame; /* owns; one encoded message */
    struct kvf_timer timer;
    struct kvf_node node;
    struct kvf_zombie zombie;
};

/* An ended request, so that a late RequestInfo is answered at once. */
struct kvf_tombstone {
    struct kvf_match_key key;
    enum kvf_status status;
};

struct kvf_requests {
    struct kvf_requests_config config;
    struct kvf_sessions *sessions;              /* borrows */
    struct kvf_peers *peers;                    /* borrows */
    struct kvf_slab *slab;                      /* owns; struct kvf_request */
    struct kvf_request *by_key[KVF_DIRECTIONS]; /* uthash heads */
    struct kvf_list live;
    struct kvf_arena spare[KVF_SPARE_ARENAS]; /* owns; warm arenas of ended requests */
    size_t n_spare;
    struct kvf_list early;
    size_t early_bytes;
    struct kvf_arena decode; /* early frames, one at a time */
    struct kvf_tombstone tombstones[KVF_TOMBSTONES];
    size_t next_tombstone;
    uint64_t next_sequence;
    struct kvf_request_totals totals;
    bool is_draining;
};

/* request.c */
struct kvf_request *kvf_request_find(struct kvf_requests *requests,
                                     enum kvf_direction direction,
                                     const struct kvf_match_key *key);
struct kvf_request *kvf_request_create(struct kvf_requests *requests,
                                       struct kvf_session *session,
                                       enum kvf_direction direction,
                                       const struct kvf_match_key *key, uint64_t handle);
/* An event for a request that was never accepted. */
void kvf_request_reject(struct kvf_session *session, uint64_t handle,
                        enum kvf_status status, const char *detail);
/* Ends a request that has no transfer. */
void kvf_request_end_now(struct kvf_request *request, enum kvf_status status,
                         const char *detail);
const struct kvf_tombstone *kvf_requests_tombstone(const struct kvf_requests *requests,
                                                   const struct kvf_match_key *key);

/* request_match.c */
void kvf_requests_match_early(struct kvf_requests *requests, struct kvf_request *request);
void kvf_requests_on_request_info(struct kvf_requests *requests, struct kvf_peer *peer,
                                  const struct kvf_message *message);
void kvf_requests_cancel_early(struct kvf_requests *requests, struct kvf_peer *peer,
                               const struct kvf_cancel_message *cancel);
void kvf_requests_drop_early(struct kvf_requests *requests, const struct kvf_peer *peer);

/* request_accept.c */
void kvf_requests_on_offer(void *owner, struct kvf_session *session,
                           const struct kvf_offer *offer);
void kvf_requests_on_receive(void *owner, struct kvf_session *session,
                             const struct kvf_receive_message *receive);

#endif
