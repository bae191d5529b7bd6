/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The set of live requests of this node: what engines offered and asked for. It
 * validates, matches RequestInfos with offers in any order, owns deadlines and leases,
 * and tells engines outcomes. It is the owner of kvf_session_events and of the session
 * half of peers' news. Loop thread.
 */
#ifndef KVF_SERVICE_REQUEST_H
#define KVF_SERVICE_REQUEST_H

#include "service/transfer.h"

struct kvf_request_totals {
    uint64_t n_ok[KVF_DIRECTIONS], n_failed[KVF_DIRECTIONS], n_cancelled[KVF_DIRECTIONS];
    uint64_t n_refused;
};

struct kvf_requests_config {
    const struct kvf_config *config; /* borrowed for life */
    struct kvf_loop *loop;
    struct kvf_rng *rng;
    struct kvf_transfers *transfers;
    struct kvf_timings *timings;
};

enum kvf_status KVF_MUST_CHECK kvf_requests_create(
    const struct kvf_requests_config *config, struct kvf_requests **out_requests);
/* The two sides that need each other; called once before the loop runs. */
void kvf_requests_connect(struct kvf_requests *requests, struct kvf_sessions *sessions,
                          struct kvf_peers *peers);
void kvf_requests_destroy(struct kvf_requests *requests); /* accepts NULL */

extern const struct kvf_session_events kvf_request_session_events; /* owner: the set */

/* RequestInfo, key cancels and notifications; everything else goes to the transfers. */
void kvf_requests_message(struct kvf_requests *requests, struct kvf_peer *peer,
                          const struct kvf_message *message);
void kvf_requests_peer_down(struct kvf_requests *requests, struct kvf_peer *peer);

/* Live requests in order of acceptance, by struct kvf_request.live_node. */
const struct kvf_list *kvf_requests_live(const struct kvf_requests *requests);
const struct kvf_request_totals *kvf_requests_totals(const struct kvf_requests *requests);
size_t kvf_requests_early(const struct kvf_requests *requests);

/* Stops a live request for a reason; its counterpart is told. */
void kvf_request_stop(struct kvf_request *request, enum kvf_status status,
                      const char *detail);
/* From now on offers and receives are refused with SHUTDOWN. */
void kvf_requests_drain(struct kvf_requests *requests);

#endif
