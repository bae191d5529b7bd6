/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a request from acceptance to its last event: lease, deadline, outcome. One
 * terminal outcome, set once; the engine hears DONE when it is known and REUSABLE when no
 * copy of ours touches its blocks any more. Timing rows are written here, whatever the
 * end.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "service/request_private.h"

/* ---- storage */

/* Warm arenas are handed on, so that a steady stream of requests does not allocate. */
static void lend_arena(struct kvf_requests *requests, struct kvf_request *request)
{
    if (requests->n_spare > 0) {
        request->arena = requests->spare[--requests->n_spare];
        kvf_arena_reset(&request->arena, KVF_REQUEST_ARENA_BYTES);
    } else {
        kvf_arena_init(&request->arena, KVF_REQUEST_ARENA_BYTES);
    }
}

static void return_arena(struct kvf_requests *requests, struct kvf_request *request)
{
    if (requests->n_spare < KVF_SPARE_ARENAS) {
        kvf_arena_reset(&request->arena, KVF_REQUEST_ARENA_BYTES);
        requests->spare[requests->n_spare++] = request->arena;
    } else {
        kvf_arena_fini(&request->arena);
    }
}

struct kvf_request *kvf_request_find(struct kvf_requests *requests,
                                     enum kvf_direction direction,
                                     const struct kvf_match_key *key)
{
    struct kvf_request *found = NULL;
    HASH_FIND(hh, requests->by_key[direction], key, sizeof(*key), found);
    return found;
}

struct kvf_request *kvf_request_create(struct kvf_requests *requests,
                                       struct kvf_session *session,
                                       enum kvf_direction direction,
                                       const struct kvf_match_key *key, uint64_t handle)
{
    uint64_t id;
    struct kvf_request *request = kvf_slab_acquire(requests->slab, &id);
    if (request == NULL) {
        return NULL;
    }
    request->id = id;
    request->requests = requests;
    request->direction = direction;
    request->key = *key;
    HASH_ADD(hh, requests->by_key[direction], key, sizeof(request->key), request);
    if (!KVF_MAP_ADDED(request)) {
        kvf_slab_release(requests->slab, id);
        return NULL;
    }
    lend_arena(requests, request);
    request->sequence = ++requests->next_sequence;
    request->session = session;
    request->handle = handle;
    request->rank = session->rank;
    request->status = KVF_IN_PROGRESS;
    (void)snprintf(request->engine, sizeof(request->engine), "%s", session->name);
    (void)snprintf(request->instance, sizeof(request->instance), "%s",
                   session->instance->name);
    do {
        request->lease_generation = kvf_rng_u64(requests->config.rng);
    } while (request->lease_generation == 0);
    request->accepted_ns = kvf_loop_clock_ns(requests->config.loop);
    request->accepted_wall_ns = kvf_loop_wall_ns(requests->config.loop);
    kvf_list_add_tail(&requests->live, &request->live_node);
    kvf_list_add_tail(&session->requests, &request->session_node);
    return request;
}

static void request_free(void *object)
{
    struct kvf_request *request = object;
    struct kvf_requests *requests = request->requests;
    return_arena(requests, request);
    kvf_slab_release(requests->slab, request->id);
}

/* ---- what the engine hears */

static void send_event(const struct kvf_request *request)
{
    if (request->session == NULL) {
        return;
    }
    const struct kvf_transfer *transfer = request->transfer;
    char path[32] = "";
    if (transfer != NULL && transfer->path != KVF_PATH_NONE) {
        const struct kvf_transport *transport = transfer->peer->transport;
        (void)snprintf(path, sizeof(path), "%s%s%s", kvf_path_name(transfer->path),
                       transport != NULL ? "/" : "",
                       transport != NULL ? transport->ops->name : "");
    }
    struct kvf_message message = {
        .type = KVF_MSG_TRANSFER_EVENT,
        .u.transfer_event = {.handle = request->handle,
                             .bits = request->bits,
                             .status = request->status,
                             .bytes = transfer != NULL ? transfer->done_bytes : 0,
                             .duration_ns = request->decided_ns - request->accepted_ns,
                             .peer = transfer != NULL ? transfer->peer->name : "",
                             .path = path,
                             .detail = request->detail},
    };
    kvf_session_send(request->session, &message);
}

void kvf_request_reject(struct kvf_session *session, uint64_t handle,
                        enum kvf_status status, const char *detail)
{
    struct kvf_log_ctx ctx = {.comp = "request", .engine = session->name};
    kvf_log_debug(&ctx, "request of %s refused: %s", session->name, detail);
    struct kvf_message message = {
        .type = KVF_MSG_TRANSFER_EVENT,
        .u.transfer_event = {.handle = handle,
                             .bits =
                                 KVF_EVENT_DONE | KVF_EVENT_QUIESCED | KVF_EVENT_REUSABLE,
                             .status = status,
                             .peer = "",
                             .path = "",
                             .detail = detail},
    };
    kvf_session_send(session, &message);
}

/* ---- outcome */

static void decide(struct kvf_request *request, enum kvf_status status,
                   const char *detail)
{
    assert(request->status == KVF_IN_PROGRESS && status != KVF_IN_PROGRESS);
    request->status = status;
    request->decided_ns = kvf_loop_clock_ns(request->requests->config.loop);
    (void)kvf_log_escape(detail, strlen(detail), request->detail,
                         sizeof(request->detail));
    kvf_loop_timer_stop(&request->timer);
    request->bits |= KVF_EVENT_DONE;
}

void kvf_request_decided(struct kvf_request *request, enum kvf_status status,
                         const char *detail)
{
    decide(request, status, detail);
    if (request->transfer != NULL && request->transfer->chunks.n == 0 &&
        request->transfer->n_local_readers == 0) {
        return; /* at rest already: one event says it all in a moment */
    }
    send_event(request);
}

static void count(struct kvf_requests *requests, const struct kvf_request *request)
{
    struct kvf_request_totals *totals = &requests->totals;
    if (request->status == KVF_OK) {
        totals->n_ok[request->direction]++;
    } else if (request->status == KVF_CANCELLED) {
        totals->n_cancelled[request->direction]++;
    } else {
        totals->n_failed[request->direction]++;
    }
}

static void add_timing(struct kvf_request *request, struct kvf_transfer *transfer)
{
    struct kvf_timing empty = {.direction = ""};
    struct kvf_timing *row = transfer != NULL ? &transfer->timing : &empty;
    bool is_send = request->direction == KVF_SEND;
    row->request_id = request->key.request_id;
    row->attempt = request->key.attempt;
    row->rank = request->rank;
    row->direction = is_send ? "send" : "recv";
    (void)snprintf(row->instance, sizeof(row->instance), "%s", request->instance);
    (void)snprintf(row->engine, sizeof(row->engine), "%s", request->engine);
    (void)snprintf(row->label, sizeof(row->label), "%s", request->label);
    for (size_t i = 0; request->has_trace_id && i < sizeof(request->trace_id); i++) {
        (void)snprintf(row->trace_id + 2 * i, 3, "%02x", request->trace_id[i]);
    }
    row->outcome = request->status;
    (void)snprintf(row->cause, sizeof(row->cause), "%s", request->detail);
    row->integrity = "off";
    row->n_tokens = request->n_tokens - request->n_prefix_tokens;
    row->n_blocks = request->n_blocks;
    row->wall_accept_ns = request->accepted_wall_ns;
    row->t_accept = request->accepted_ns;
    row->t_notify = request->decided_ns;
    if (transfer != NULL) {
        const char *ours = kvf_path_name(transfer->path);
        row->peer_rank = transfer->peer_rank;
        (void)snprintf(row->peer, sizeof(row->peer), "%s", transfer->peer->name);
        (void)snprintf(row->path_send, sizeof(row->path_send), "%s",
                       is_send ? ours : transfer->peer_path);
        (void)snprintf(row->path_recv, sizeof(row->path_recv), "%s",
                       is_send ? transfer->peer_path : ours);
        (void)snprintf(row->transport, sizeof(row->transport), "%s",
                       transfer->peer->transport != NULL
                           ? transfer->peer->transport->ops->name
                           : "");
        row->integrity = transfer->integrity != KVF_INTEGRITY_OFF ? "full" : "off";
        row->n_bytes = transfer->done_bytes;
    }
    kvf_timings_add(request->requests->config.timings, row);
}

static void bury(struct kvf_requests *requests, const struct kvf_request *request)
{
    if (request->direction == KVF_SEND) {
        requests->tombstones[requests->next_tombstone++ % KVF_TOMBSTONES] =
            (struct kvf_tombstone){.key = request->key, .status = request->status};
    }
}

const struct kvf_tombstone *kvf_requests_tombstone(const struct kvf_requests *requests,
                                                   const struct kvf_match_key *key)
{
    for (size_t i = 0; i < KVF_TOMBSTONES; i++) {
        if (memcmp(&requests->tombstones[i].key, key, sizeof(*key)) == 0) {
            return &requests->tombstones[i];
        }
    }
    return NULL;
}

/* Outcome decided, nothing under way: the lease ends here and nowhere else. */
static void retire(struct kvf_request *request, struct kvf_transfer *transfer)
{
    struct kvf_requests *requests = request->requests;
    request->bits |= KVF_EVENT_DONE | KVF_EVENT_QUIESCED | KVF_EVENT_REUSABLE;
    request->transfer = transfer;
    send_event(request);
    add_timing(request, transfer);
    request->transfer = NULL;
    count(requests, request);
    bury(requests, request);
    for (size_t i = 0; i < request->n_tables; i++) {
        kvf_daemon_pool_release(request->tables[i].pool);
    }
    request->n_tables = 0;
    HASH_DELETE(hh, requests->by_key[request->direction], request);
    kvf_list_remove(&requests->live, &request->live_node);
    if (request->session != NULL) {
        kvf_list_remove(&request->session->requests, &request->session_node);
        request->session = NULL;
    }
    kvf_loop_destroy_later(requests->config.loop, &request->zombie, request_free,
                           request);
}

void kvf_request_ended(struct kvf_request *request, struct kvf_transfer *transfer)
{
    if (request->status == KVF_IN_PROGRESS) {
        decide(request, transfer->status, "");
    }
    retire(request, transfer);
}

void kvf_request_end_now(struct kvf_request *request, enum kvf_status status,
                         const char *detail)
{
    assert(request->transfer == NULL);
    decide(request, status, detail);
    retire(request, NULL);
}

void kvf_request_stop(struct kvf_request *request, enum kvf_status status,
                      const char *detail)
{
    if (request->status != KVF_IN_PROGRESS) {
        return;
    }
    if (request->transfer != NULL) {
        kvf_transfer_stop(request->transfer, status, detail, true);
    } else {
        kvf_request_end_now(request, status, detail);
    }
}

/* ---- deadlines */

static void on_deadline(void *owner)
{
    struct kvf_request *request = owner;
    const struct kvf_transfer *transfer = request->transfer;
    char detail[KVF_DETAIL_MAX];
    if (transfer != NULL && transfer->state == KVF_TRANSFER_QUEUED) {
        (void)snprintf(detail, sizeof(detail), "node %s is %s: %.100s",
                       transfer->peer->name, kvf_peer_state_name(transfer->peer->state),
                       transfer->peer->reason);
        kvf_request_stop(request, KVF_PEER_UNREACHABLE, detail);
        return;
    }
    (void)snprintf(detail, sizeof(detail), "deadline passed while %s",
                   transfer != NULL ? kvf_transfer_state_name(transfer->state)
                                    : "no receiver had asked for the blocks");
    kvf_request_stop(request, KVF_EXPIRED, detail);
}

void kvf_request_arm_timer(struct kvf_request *request)
{
    struct kvf_requests *requests = request->requests;
    const struct kvf_transfer *transfer = request->transfer;
    uint64_t deadline_ns = request->deadline_ns;
    if (transfer != NULL && transfer->peer->state != KVF_PEER_UP) {
        /* A node that is down may come back within the time in which a silent one counts
         * as lost; longer waits only delay the engine's recomputation. */
        uint64_t patience_ns =
            kvf_loop_now_ns(requests->config.loop) +
            requests->config.config->control.dead_after_ms * KVF_NS_PER_MS;
        deadline_ns = patience_ns < deadline_ns ? patience_ns : deadline_ns;
    }
    if (kvf_loop_timer_start(requests->config.loop, &request->timer, deadline_ns,
                             on_deadline, request) != KVF_OK) {
        kvf_request_stop(request, KVF_NO_MEMORY, "no memory for the deadline timer");
    }
}

/* ---- engines' other wishes */

static struct kvf_request *find_handle(struct kvf_session *session, uint64_t handle)
{
    for (struct kvf_node *node = kvf_list_first(&session->requests); node != NULL;
         node = kvf_list_next(&session->requests, node)) {
        struct kvf_request *request =
            KVF_CONTAINER(node, struct kvf_request, session_node);
        if (request->handle == handle) {
            return request;
        }
    }
    return NULL;
}

static void on_offer_ready(void *owner, struct kvf_session *session,
                           const struct kvf_offer_ready *ready)
{
    (void)owner;
    struct kvf_request *request = find_handle(session, ready->handle);
    if (request == NULL || request->direction != KVF_SEND ||
        request->status != KVF_IN_PROGRESS) {
        return; /* ended meanwhile; the engine reads that */
    }
    if (ready->status != KVF_OK) {
        char detail[96];
        (void)snprintf(detail, sizeof(detail), "the sending engine refused: %s",
                       kvf_status_text(ready->status));
        kvf_request_stop(request, KVF_NOT_READY, detail);
        return;
    }
    request->is_fenced = true;
    if (request->transfer != NULL) {
        kvf_transfer_fence_closed(request->transfer);
    }
}

static void on_cancel(void *owner, struct kvf_session *session,
                      const struct kvf_engine_cancel *cancel)
{
    (void)owner;
    struct kvf_node *next;
    for (struct kvf_node *node = kvf_list_first(&session->requests); node != NULL;
         node = next) {
        struct kvf_request *request =
            KVF_CONTAINER(node, struct kvf_request, session_node);
        next = kvf_list_next(&session->requests, node);
        bool is_meant = cancel->by_request ? request->key.request_id == cancel->request_id
                                           : request->handle == cancel->handle;
        if (is_meant) {
            kvf_request_stop(request, KVF_CANCELLED, "cancelled by its engine");
        }
    }
}

static void on_session_lost(void *owner, struct kvf_session *session)
{
    (void)owner;
    struct kvf_node *node;
    while ((node = kvf_list_pop(&session->requests)) != NULL) {
        struct kvf_request *request =
            KVF_CONTAINER(node, struct kvf_request, session_node);
        char detail[KVF_DETAIL_MAX];
        (void)snprintf(detail, sizeof(detail), "engine %.100s disappeared",
                       session->name);
        request->session = NULL;
        kvf_request_stop(request, KVF_ENGINE_LOST, detail);
    }
}

/* ---- notifications */

static void deliver_notify(struct kvf_requests *requests, const char *to,
                           uint32_t to_rank, const char *from, uint32_t from_rank,
                           struct kvf_bytes payload)
{
    struct kvf_session *session = kvf_sessions_find(requests->sessions, to, to_rank);
    if (session == NULL) {
        return; /* best effort */
    }
    struct kvf_message message = {
        .type = KVF_MSG_NOTIFY_EVENT,
        .u.engine_notify = {.instance = from, .rank = from_rank, .payload = payload},
    };
    kvf_session_send(session, &message);
}

static void on_notify(void *owner, struct kvf_session *session,
                      const struct kvf_engine_notify *notify)
{
    struct kvf_requests *requests = owner;
    const struct kvf_config_instance *instance =
        kvf_config_find_instance(requests->config.config, notify->instance);
    if (instance == NULL || notify->rank >= instance->n_ranks) {
        return; /* best effort */
    }
    struct kvf_peer *peer =
        kvf_peers_find(requests->peers, instance->rank_nodes[notify->rank]);
    if (peer == NULL) {
        return;
    }
    struct kvf_message message = {
        .type = KVF_MSG_NOTIFY,
        .u.notify = {.instance = notify->instance,
                     .rank = notify->rank,
                     .from_instance = session->instance->name,
                     .from_rank = session->rank,
                     .payload = notify->payload},
    };
    kvf_peer_tell(peer, &message);
}

const struct kvf_session_events kvf_request_session_events = {
    .offer = kvf_requests_on_offer,
    .offer_ready = on_offer_ready,
    .receive = kvf_requests_on_receive,
    .cancel = on_cancel,
    .notify = on_notify,
    .lost = on_session_lost,
};

void kvf_requests_message(struct kvf_requests *requests, struct kvf_peer *peer,
                          const struct kvf_message *message)
{
    switch ((int)message->type) {
    case KVF_MSG_REQUEST_INFO:
        kvf_requests_on_request_info(requests, peer, message);
        break;
    case KVF_MSG_CANCEL:
        if (message->u.cancel.has_key) {
            kvf_requests_cancel_early(requests, peer, &message->u.cancel);
        }
        kvf_transfers_message(requests->config.transfers, peer, message);
        break;
    case KVF_MSG_NOTIFY: {
        const struct kvf_notify_message *notify = &message->u.notify;
        deliver_notify(requests, notify->instance, notify->rank, notify->from_instance,
                       notify->from_rank, notify->payload);
        break;
    }
    default:
        kvf_transfers_message(requests->config.transfers, peer, message);
        break;
    }
}

void kvf_requests_peer_down(struct kvf_requests *requests, struct kvf_peer *peer)
{
    kvf_requests_drop_early(requests, peer);
}

/* ---- the set */

enum kvf_status kvf_requests_create(const struct kvf_requests_config *config,
                                    struct kvf_requests **out_requests)
{
    struct kvf_requests *requests = kvf_alloc(sizeof(*requests));
    if (requests == NULL) {
        return KVF_NO_MEMORY;
    }
    requests->config = *config;
    kvf_list_init(&requests->live);
    kvf_list_init(&requests->early);
    kvf_arena_init(&requests->decode, 0);
    uint32_t n_max =
        config->config->engine.max_requests * config->config->engine.max_engines;
    enum kvf_status status =
        kvf_slab_create(sizeof(struct kvf_request), 64, n_max, &requests->slab);
    if (status != KVF_OK) {
        kvf_requests_destroy(requests);
        return status;
    }
    *out_requests = requests;
    return KVF_OK;
}

void kvf_requests_connect(struct kvf_requests *requests, struct kvf_sessions *sessions,
                          struct kvf_peers *peers)
{
    requests->sessions = sessions;
    requests->peers = peers;
}

void kvf_requests_destroy(struct kvf_requests *requests)
{
    if (requests == NULL) {
        return;
    }
    kvf_requests_drop_early(requests, NULL);
    for (size_t i = 0; i < requests->n_spare; i++) {
        kvf_arena_fini(&requests->spare[i]);
    }
    kvf_arena_fini(&requests->decode);
    kvf_slab_destroy(requests->slab);
    kvf_free(requests);
}

const struct kvf_list *kvf_requests_live(const struct kvf_requests *requests)
{
    return &requests->live;
}

const struct kvf_request_totals *kvf_requests_totals(const struct kvf_requests *requests)
{
    return &requests->totals;
}

size_t kvf_requests_early(const struct kvf_requests *requests)
{
    return requests->early.n;
}

void kvf_requests_drain(struct kvf_requests *requests)
{
    requests->is_draining = true;
}
