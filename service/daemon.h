/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a daemon is made of, in the order of construction. Every part gets what it needs
 * as arguments; this struct is seen by daemon.c and view.c only. Loop thread.
 */
#ifndef KVF_SERVICE_DAEMON_H
#define KVF_SERVICE_DAEMON_H

#include "base/loop.h"
#include "base/resolver.h"
#include "base/rng.h"
#include "base/sock.h"
#include "config/config.h"
#include "service/copy.h"
#include "service/request.h"

struct kvf_admin;
struct kvf_view;

enum kvf_daemon_state {
    KVF_DAEMON_STARTING = 0,
    KVF_DAEMON_READY,
    KVF_DAEMON_DRAINING,
    KVF_DAEMON_STOPPING
};

struct kvf_daemon {
    struct kvf_config *config; /* owns */
    struct kvf_loop *loop;     /* owns, like all that follows */
    struct kvf_rng rng;
    struct kvf_sock sock;
    struct kvf_resolver *resolver;
    struct kvf_copy *copy;
    struct kvf_transport *transports[KVF_TRANSPORTS_MAX];
    size_t n_transports;
    struct kvf_slots *slots;
    struct kvf_timings *timings;
    struct kvf_transfers *transfers;
    struct kvf_requests *requests;
    struct kvf_peers *peers;
    struct kvf_sessions *sessions;
    struct kvf_view *view; /* metrics and what HTTP shows */
    struct kvf_admin *admin;
    enum kvf_daemon_state state;
    struct kvf_timer drain_timer;
    uint64_t stop_at_ns; /* end of the grace, then of the patience after the cancel */
    uint64_t started_ns;
};

const char *kvf_daemon_state_name(enum kvf_daemon_state state);

/* Opens everything; a failure is logged where it is understood. Takes config also when it
 * fails. */
enum kvf_status KVF_MUST_CHECK kvf_daemon_create(struct kvf_config *config,
                                                 struct kvf_daemon **out_daemon);
/* Runs until SIGTERM or SIGINT and the drain that follows. */
void kvf_daemon_run(struct kvf_daemon *daemon);
void kvf_daemon_destroy(struct kvf_daemon *daemon); /* accepts NULL */

#endif
