/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What exists, in what order, and how it ends. The first SIGTERM or SIGINT drains: new
 * requests are refused, live ones have shutdown.grace; then, or at the second signal,
 * they are cancelled and the daemon stops once nothing of theirs is under way.
 */
#include "service/daemon.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "admin/admin.h"
#include "base/alloc.h"
#include "base/log.h"
#include "service/view.h"

/* After the cancel everything comes to rest by itself; a peer that does not answer is
 * lost within control.dead_after. This is the last resort. */
#define KVF_STOP_LIMIT_MS 5000u

static const struct kvf_log_ctx log_ctx = {.comp = "daemon"};

const char *kvf_daemon_state_name(enum kvf_daemon_state state)
{
    static const char *const names[] = {
        [KVF_DAEMON_STARTING] = "starting",
        [KVF_DAEMON_READY] = "ready",
        [KVF_DAEMON_DRAINING] = "draining",
        [KVF_DAEMON_STOPPING] = "stopping",
    };
    return names[state];
}

/* ---- news between the parts */

static void on_peer_up(void *owner, struct kvf_peer *peer)
{
    struct kvf_daemon *daemon = owner;
    kvf_transfers_peer_up(daemon->transfers, peer);
}

static void on_peer_down(void *owner, struct kvf_peer *peer, enum kvf_status status)
{
    struct kvf_daemon *daemon = owner;
    kvf_requests_peer_down(daemon->requests, peer);
    kvf_transfers_peer_down(daemon->transfers, peer, status);
}

static void on_peer_message(void *owner, struct kvf_peer *peer,
                            const struct kvf_message *message)
{
    struct kvf_daemon *daemon = owner;
    kvf_requests_message(daemon->requests, peer, message);
}

static const struct kvf_peer_events peer_events = {
    .up = on_peer_up,
    .down = on_peer_down,
    .message = on_peer_message,
};

static void on_arrived(void *owner, struct kvf_transport *transport,
                       struct kvf_arrival *arrival, const struct kvf_chunk_header *header)
{
    struct kvf_daemon *daemon = owner;
    struct kvf_peer *peer = kvf_peers_find_token(daemon->peers, header->token);
    if (peer == NULL) {
        /* Not of a live epoch: nobody will ever want it. */
        transport->ops->drop(arrival);
        return;
    }
    kvf_transfers_arrived(daemon->transfers, peer, arrival, header);
}

static void on_arrival_lost(void *owner, struct kvf_arrival *arrival)
{
    struct kvf_daemon *daemon = owner;
    kvf_transfers_arrival_lost(daemon->transfers, arrival);
}

static void on_endpoint_lost(void *owner, void *endpoint_owner, enum kvf_status status)
{
    (void)owner;
    struct kvf_peer *peer = endpoint_owner;
    kvf_peer_fail(peer, status, "its data connection broke");
}

static const struct kvf_transport_events transport_events = {
    .arrived = on_arrived,
    .arrival_lost = on_arrival_lost,
    .endpoint_lost = on_endpoint_lost,
};

/* ---- construction */

/* UCX over TCP writes wherever its sender says: it is opened only where that is typed to
 * be fine, or where nobody but this host can reach it. */
static bool may_use_ucx(const struct kvf_config *config)
{
    return config->data.trusted_network || kvf_address_is_loopback(&config->data.listen);
}

static bool is_wanted(const struct kvf_config *config, enum kvf_data_transport wanted)
{
    for (size_t i = 0; i < config->data.n_prefer; i++) {
        if (config->data.prefer[i] == wanted) {
            return true;
        }
    }
    return false;
}

static enum kvf_status open_transport(struct kvf_daemon *daemon,
                                      const struct kvf_transport_ops *ops)
{
    const struct kvf_transport_config config = {
        .loop = daemon->loop,
        .config = daemon->config,
        .events = &transport_events,
        .owner = daemon,
        .max_kept = 4096,
    };
    struct kvf_transport *transport;
    enum kvf_status status = ops->open(&config, &transport);
    if (status != KVF_OK) {
        kvf_log_error(&log_ctx, "transport %s cannot be opened: %s", ops->name,
                      kvf_status_text(status));
        return status;
    }
    daemon->transports[daemon->n_transports++] = transport;
    return KVF_OK;
}

static enum kvf_status open_transports(struct kvf_daemon *daemon)
{
    const struct kvf_config *config = daemon->config;
    enum kvf_status status = KVF_OK;
    if (is_wanted(config, KVF_DATA_UCX_TCP) && may_use_ucx(config)) {
        status = open_transport(daemon, &kvf_transport_ucx);
    } else if (is_wanted(config, KVF_DATA_UCX_TCP)) {
        kvf_log_warn(&log_ctx, "ucx_tcp is not used: UCX over TCP has no authentication; "
                               "data.trusted_network: true allows it on this network");
    }
    if (status == KVF_OK && is_wanted(config, KVF_DATA_TCP)) {
        status = open_transport(daemon, &kvf_transport_tcp);
    }
    if (status == KVF_OK && daemon->n_transports == 0) {
        kvf_log_error(&log_ctx, "no data transport is left; see data.prefer");
        status = KVF_CONFIG;
    }
    return status;
}

static uint32_t worker_count(const struct kvf_config *config)
{
    if (config->data.copy_workers > 0) {
        return config->data.copy_workers;
    }
    long n_cores = sysconf(_SC_NPROCESSORS_ONLN);
    return n_cores <= 2 ? 1 : n_cores > 5 ? 4 : (uint32_t)n_cores - 1;
}

static enum kvf_status create_data_path(struct kvf_daemon *daemon)
{
    const struct kvf_config *config = daemon->config;
    enum kvf_status status =
        kvf_copy_create_host(daemon->loop, worker_count(config), &daemon->copy);
    if (status == KVF_OK) {
        status = open_transports(daemon);
    }
    if (status == KVF_OK) {
        status =
            kvf_slots_create(config->data.arena_bytes, config->data.chunk_bytes,
                             daemon->transports, daemon->n_transports, &daemon->slots);
    }
    return status;
}

static enum kvf_status create_core(struct kvf_daemon *daemon)
{
    const struct kvf_config *config = daemon->config;
    enum kvf_status status = kvf_timings_create(config, &daemon->timings);
    if (status != KVF_OK) {
        return status;
    }
    const struct kvf_transfers_config transfers = {
        .config = config,
        .loop = daemon->loop,
        .copy = daemon->copy,
        .slots = daemon->slots,
    };
    status = kvf_transfers_create(&transfers, &daemon->transfers);
    if (status != KVF_OK) {
        return status;
    }
    const struct kvf_requests_config requests = {
        .config = config,
        .loop = daemon->loop,
        .rng = &daemon->rng,
        .transfers = daemon->transfers,
        .timings = daemon->timings,
    };
    return kvf_requests_create(&requests, &daemon->requests);
}

static enum kvf_status create_control(struct kvf_daemon *daemon)
{
    const struct kvf_peers_config peers = {
        .config = daemon->config,
        .loop = daemon->loop,
        .sock = &daemon->sock,
        .resolver = daemon->resolver,
        .rng = &daemon->rng,
        .transports = daemon->transports,
        .n_transports = daemon->n_transports,
        .events = &peer_events,
        .owner = daemon,
    };
    enum kvf_status status = kvf_peers_create(&peers, &daemon->peers);
    if (status != KVF_OK) {
        kvf_log_error(&log_ctx, "control cannot listen: %s", kvf_status_text(status));
        return status;
    }
    const struct kvf_sessions_config sessions = {
        .config = daemon->config,
        .loop = daemon->loop,
        .sock = &daemon->sock,
        .rng = &daemon->rng,
        .transports = daemon->transports,
        .n_transports = daemon->n_transports,
        .events = &kvf_request_session_events,
        .owner = daemon->requests,
    };
    status = kvf_sessions_create(&sessions, &daemon->sessions);
    if (status != KVF_OK) {
        kvf_log_error(&log_ctx, "engine socket %s cannot listen: %s",
                      daemon->config->engine.listen.host, kvf_status_text(status));
        return status;
    }
    kvf_requests_connect(daemon->requests, daemon->sessions, daemon->peers);
    return KVF_OK;
}

static enum kvf_status create_admin(struct kvf_daemon *daemon)
{
    const struct kvf_config *config = daemon->config;
    const char *hosts[KVF_CONFIG_LIST_MAX];
    for (size_t i = 0; i < config->admin.n_allow_hosts; i++) {
        hosts[i] = config->admin.allow_hosts[i];
    }
    enum kvf_status status = kvf_view_create(daemon, &daemon->view);
    if (status != KVF_OK) {
        return status;
    }
    const struct kvf_admin_config admin = {
        .loop = daemon->loop,
        .observe = &config->observe.listen,
        .admin = &config->admin.listen,
        .token_file = config->admin.token_file,
        .is_insecure = config->admin.insecure,
        .allow_hosts = hosts,
        .n_allow_hosts = config->admin.n_allow_hosts,
        .ops = &kvf_view_admin_ops,
        .owner = daemon->view,
    };
    return kvf_admin_open(&admin, &daemon->admin);
}

static void on_signal(void *owner, int signo);

enum kvf_status kvf_daemon_create(struct kvf_config *config,
                                  struct kvf_daemon **out_daemon)
{
    static const int signos[] = {SIGTERM, SIGINT};
    enum kvf_status status = KVF_NO_MEMORY;
    struct kvf_daemon *daemon = kvf_alloc(sizeof(*daemon));
    if (daemon == NULL) {
        kvf_config_destroy(config);
        return KVF_NO_MEMORY;
    }
    daemon->config = config;
    const struct kvf_loop_config loop = {
        .clock = &kvf_clock_system,
        .spin_ns = config->data.spin_us * KVF_NS_PER_US,
    };
    status = kvf_loop_create(&loop, &daemon->loop);
    if (status != KVF_OK) {
        goto fail;
    }
    daemon->started_ns = kvf_loop_clock_ns(daemon->loop);
    kvf_rng_init_system(&daemon->rng);
    kvf_sock_init_system(&daemon->sock, daemon->loop);
    /* Signals first: threads made later inherit the mask. */
    status = kvf_loop_signals_open(daemon->loop, signos,
                                   sizeof(signos) / sizeof(signos[0]), on_signal, daemon);
    if (status == KVF_OK) {
        status = kvf_resolver_create_system(daemon->loop, &daemon->resolver);
    }
    if (status == KVF_OK) {
        status = create_data_path(daemon);
    }
    if (status == KVF_OK) {
        status = create_core(daemon);
    }
    if (status == KVF_OK) {
        status = create_control(daemon);
    }
    if (status == KVF_OK) {
        status = create_admin(daemon);
    }
    if (status != KVF_OK) {
        goto fail;
    }
    daemon->state = KVF_DAEMON_READY;
    kvf_log_info(&log_ctx, "node %s ready, control port %u, %zu peers, %zu instances",
                 config->node.name, kvf_peers_port(daemon->peers), config->n_peers,
                 config->n_instances);
    *out_daemon = daemon;
    return KVF_OK;
fail:
    kvf_daemon_destroy(daemon);
    return status;
}

/* ---- end */

static bool is_idle(const struct kvf_daemon *daemon)
{
    return kvf_requests_live(daemon->requests)->n == 0;
}

static void on_drain_tick(void *owner);

static void tick_again(struct kvf_daemon *daemon)
{
    if (kvf_loop_timer_start(daemon->loop, &daemon->drain_timer,
                             kvf_loop_now_ns(daemon->loop) + 10 * KVF_NS_PER_MS,
                             on_drain_tick, daemon) != KVF_OK) {
        kvf_loop_stop(daemon->loop);
    }
}

static void cancel_all(struct kvf_daemon *daemon)
{
    const struct kvf_list *live = kvf_requests_live(daemon->requests);
    kvf_log_warn(&log_ctx, "cancelling %zu live requests", live->n);
    struct kvf_node *next;
    for (struct kvf_node *node = kvf_list_first(live); node != NULL; node = next) {
        next = kvf_list_next(live, node);
        kvf_request_stop(KVF_CONTAINER(node, struct kvf_request, live_node), KVF_SHUTDOWN,
                         "this node shuts down");
    }
}

static void stop(struct kvf_daemon *daemon)
{
    daemon->state = KVF_DAEMON_STOPPING;
    daemon->stop_at_ns =
        kvf_loop_now_ns(daemon->loop) + KVF_STOP_LIMIT_MS * KVF_NS_PER_MS;
    cancel_all(daemon);
    tick_again(daemon);
}

static void on_drain_tick(void *owner)
{
    struct kvf_daemon *daemon = owner;
    uint64_t now = kvf_loop_now_ns(daemon->loop);
    if (is_idle(daemon)) {
        kvf_loop_stop(daemon->loop);
    } else if (now < daemon->stop_at_ns) {
        tick_again(daemon);
    } else if (daemon->state == KVF_DAEMON_DRAINING) {
        stop(daemon);
    } else {
        kvf_log_error(&log_ctx, "%zu requests did not come to rest, leaving anyway",
                      kvf_requests_live(daemon->requests)->n);
        kvf_loop_stop(daemon->loop);
    }
}

static void on_signal(void *owner, int signo)
{
    struct kvf_daemon *daemon = owner;
    if (daemon->state == KVF_DAEMON_READY) {
        kvf_log_info(&log_ctx, "signal %d, draining for at most %u ms", signo,
                     daemon->config->shutdown.grace_ms);
        daemon->state = KVF_DAEMON_DRAINING;
        daemon->stop_at_ns = kvf_loop_now_ns(daemon->loop) +
                             daemon->config->shutdown.grace_ms * KVF_NS_PER_MS;
        kvf_requests_drain(daemon->requests);
        on_drain_tick(daemon);
    } else if (daemon->state == KVF_DAEMON_DRAINING) {
        stop(daemon);
    }
}

void kvf_daemon_run(struct kvf_daemon *daemon)
{
    kvf_loop_run(daemon->loop);
}

/* What still ends by itself after everything was closed: completions and zombies. */
static void settle(struct kvf_daemon *daemon)
{
    for (int i = 0; i < 1000 && !is_idle(daemon); i++) {
        kvf_loop_turn(daemon->loop, KVF_NS_PER_MS);
    }
    kvf_loop_turn(daemon->loop, 0);
}

void kvf_daemon_destroy(struct kvf_daemon *daemon)
{
    if (daemon == NULL) {
        return;
    }
    kvf_admin_close(daemon->admin);
    kvf_view_destroy(daemon->view);
    if (daemon->requests != NULL && daemon->loop != NULL) {
        kvf_requests_drain(daemon->requests);
    }
    kvf_sessions_destroy(daemon->sessions);
    if (daemon->requests != NULL) {
        settle(daemon);
    }
    kvf_peers_destroy(daemon->peers);
    if (daemon->loop != NULL) {
        kvf_loop_turn(daemon->loop, 0);
    }
    kvf_requests_destroy(daemon->requests);
    kvf_transfers_destroy(daemon->transfers);
    kvf_timings_destroy(daemon->timings);
    kvf_slots_destroy(daemon->slots);
    for (size_t i = 0; i < daemon->n_transports; i++) {
        daemon->transports[i]->ops->close(daemon->transports[i]);
    }
    if (daemon->copy != NULL) {
        daemon->copy->ops->destroy(daemon->copy);
    }
    if (daemon->resolver != NULL) {
        daemon->resolver->ops->destroy(daemon->resolver);
    }
    if (daemon->loop != NULL) {
        kvf_loop_timer_stop(&daemon->drain_timer);
        kvf_loop_destroy(daemon->loop);
    }
    kvf_config_destroy(daemon->config);
    kvf_free(daemon);
}
