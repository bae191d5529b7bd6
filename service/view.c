/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What HTTP shows, filled from the daemon's parts. Live requests come from request.c,
 * ended ones from the timing ring; both are numbered by their own sequence. Metrics are
 * brought up to date when they are asked for; the counters themselves live with the
 * parts.
 */
#include "service/view.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kvferry/kvferry.h>

#include "base/alloc.h"
#include "base/log.h"
#include "service/daemon.h"
#include "service/view_metrics.h"

struct kvf_view {
    struct kvf_daemon *daemon;        /* borrows */
    struct kvf_view_metrics *metrics; /* owns */
};

static struct kvf_daemon *daemon_of(void *owner)
{
    struct kvf_view *view = owner;
    return view->daemon;
}

/* ---- readiness */

struct kvf_checks {
    struct kvf_admin_check *out;
    size_t n, max;
};

static void add_check(struct kvf_checks *checks, const char *name, bool is_ok,
                      bool is_warning, const char *detail)
{
    if (checks->n == checks->max) {
        return;
    }
    struct kvf_admin_check *check = &checks->out[checks->n++];
    (void)snprintf(check->name, sizeof(check->name), "%s", name);
    check->is_ok = is_ok;
    check->is_warning = is_warning;
    (void)snprintf(check->detail, sizeof(check->detail), "%s", detail);
}

static void check_peer(struct kvf_checks *checks, const struct kvf_daemon *daemon,
                       const struct kvf_peer *peer)
{
    char name[KVF_ADMIN_NAME], detail[KVF_ADMIN_TEXT] = "";
    (void)snprintf(name, sizeof(name), "peer %.50s", peer->name);
    bool is_up = peer->state == KVF_PEER_UP;
    bool is_fallback = is_up && kvf_view_is_fallback(daemon, peer);
    if (!is_up) {
        (void)snprintf(detail, sizeof(detail), "%s: %.150s",
                       kvf_peer_state_name(peer->state), peer->reason);
    } else if (is_fallback) {
        (void)snprintf(detail, sizeof(detail), "fell back to %s, %s is preferred",
                       peer->transport->ops->name, kvf_view_wanted(daemon));
    }
    add_check(checks, name, is_up && !is_fallback, true, detail);
}

static size_t view_checks(void *owner, struct kvf_admin_check *out, size_t max)
{
    struct kvf_daemon *daemon = daemon_of(owner);
    struct kvf_checks checks = {.out = out, .max = max};
    add_check(&checks, "config", true, false, "");
    char detail[KVF_ADMIN_TEXT] = "";
    size_t n_engines = kvf_sessions_list(daemon->sessions)->n;
    if (daemon->config->ready.require_engine && n_engines == 0) {
        (void)snprintf(detail, sizeof(detail),
                       "none registered, ready.require_engine is set");
    }
    add_check(&checks, "engines", detail[0] == '\0', false, detail);
    for (size_t i = 0; i < daemon->n_transports; i++) {
        char name[KVF_ADMIN_NAME];
        (void)snprintf(name, sizeof(name), "transport %s",
                       daemon->transports[i]->ops->name);
        add_check(&checks, name, true, false, "");
    }
    if (daemon->config->control.insecure_no_auth) {
        add_check(&checks, "control", false, true,
                  "control.insecure_no_auth: anybody on the network may connect");
    }
    for (size_t i = 1; i < kvf_peers_count(daemon->peers); i++) {
        check_peer(&checks, daemon, kvf_peers_at(daemon->peers, i));
    }
    return checks.n;
}

/* ---- status */

static void view_status(void *owner, struct kvf_admin_status *out)
{
    struct kvf_daemon *daemon = daemon_of(owner);
    const struct kvf_request_totals *totals = kvf_requests_totals(daemon->requests);
    memset(out, 0, sizeof(*out));
    (void)snprintf(out->node, sizeof(out->node), "%s", daemon->config->node.name);
    (void)snprintf(out->state, sizeof(out->state), "%s",
                   kvf_daemon_state_name(daemon->state));
    out->uptime_seconds =
        (double)(kvf_loop_clock_ns(daemon->loop) - daemon->started_ns) / 1e9;
    size_t n_queued = kvf_transfers_in_state(daemon->transfers, KVF_TRANSFER_QUEUED)->n;
    out->n_queued = n_queued;
    out->n_in_flight = kvf_requests_live(daemon->requests)->n - n_queued;
    for (int i = 0; i < KVF_DIRECTIONS; i++) {
        out->n_completed += totals->n_ok[i];
        out->n_failed += totals->n_failed[i];
        out->n_cancelled += totals->n_cancelled[i];
    }
    out->is_insecure = daemon->config->control.insecure_no_auth;
}

static size_t view_engines(void *owner, struct kvf_admin_engine *out, size_t max)
{
    struct kvf_daemon *daemon = daemon_of(owner);
    const struct kvf_list *list = kvf_sessions_list(daemon->sessions);
    size_t n = 0;
    for (struct kvf_node *node = kvf_list_first(list); node != NULL && n < max;
         node = kvf_list_next(list, node)) {
        const struct kvf_session *session = KVF_CONTAINER(node, struct kvf_session, node);
        if (!session->is_registered) {
            continue;
        }
        struct kvf_admin_engine *engine = &out[n++];
        memset(engine, 0, sizeof(*engine));
        (void)snprintf(engine->name, sizeof(engine->name), "%s", session->name);
        (void)snprintf(engine->instance, sizeof(engine->instance), "%s",
                       session->instance->name);
        (void)snprintf(engine->role, sizeof(engine->role), "%s",
                       kvf_role_name(session->instance->role));
        (void)snprintf(engine->state, sizeof(engine->state), "registered");
        (void)snprintf(engine->memory, sizeof(engine->memory), "host");
        engine->rank = session->rank;
        engine->pid = session->pid;
        engine->n_pools = (uint32_t)session->pools.n;
        engine->pool_bytes = session->pool_bytes;
        engine->n_requests = session->requests.n;
    }
    return n;
}

static size_t view_peers(void *owner, struct kvf_admin_peer *out, size_t max)
{
    struct kvf_daemon *daemon = daemon_of(owner);
    size_t n = 0;
    for (size_t i = 1; i < kvf_peers_count(daemon->peers) && n < max; i++) {
        struct kvf_peer *peer = kvf_peers_at(daemon->peers, i);
        struct kvf_admin_peer *row = &out[n++];
        memset(row, 0, sizeof(*row));
        char address[KVF_ADDRESS_MAX + 16];
        kvf_address_format(&peer->config->address, address, sizeof(address));
        (void)snprintf(row->name, sizeof(row->name), "%s", peer->name);
        (void)snprintf(row->state, sizeof(row->state), "%s",
                       kvf_peer_state_name(peer->state));
        (void)snprintf(row->address, sizeof(row->address), "%.63s", address);
        (void)snprintf(row->wanted, sizeof(row->wanted), "%s", kvf_view_wanted(daemon));
        (void)snprintf(row->reason, sizeof(row->reason), "%s", peer->reason);
        if (peer->transport != NULL) {
            (void)snprintf(row->transport, sizeof(row->transport), "%s",
                           peer->transport->ops->name);
            if (peer->endpoint != NULL) {
                (void)snprintf(row->lane, sizeof(row->lane), "%s",
                               peer->transport->ops->lane(peer->endpoint));
            }
        }
        row->rtt_seconds = (double)peer->rtt_ns / 1e9;
        row->n_in_flight = peer->transfers.n;
        row->bytes_sent = peer->bytes_sent;
        row->bytes_received = peer->bytes_received;
        row->n_reconnects = peer->n_reconnects;
    }
    return n;
}

static void view_version(void *owner, struct kvf_admin_version *out)
{
    struct kvf_daemon *daemon = daemon_of(owner);
    memset(out, 0, sizeof(*out));
    out->version = KVF_VERSION_TEXT;
    out->control_min = out->control_max = KVF_CONTROL_PROTOCOL;
    out->engine_min = out->engine_max = KVF_ENGINE_PROTOCOL;
    for (size_t i = 0; i < daemon->n_transports; i++) {
        if (strcmp(daemon->transports[i]->ops->name, "ucx") == 0) {
            out->ucx_version = daemon->transports[i]->ops->version(daemon->transports[i]);
        }
    }
}

/* ---- requests */

/* Phases between the points that were reached; they add up to the duration. */
static size_t fill_phases(const struct kvf_timing *t, uint64_t now_ns,
                          struct kvf_admin_phase *out)
{
    bool is_send = strcmp(t->direction, "send") == 0;
    const struct {
        const char *name;
        uint64_t end_ns;
    } points[] = {
        {"queue", t->t_match},
        {"match", t->t_ready},
        {"handshake", is_send ? t->t_first_post : t->t_first_byte},
        {"wire", is_send ? t->t_last_receipt : t->t_last_byte},
        {"notify", t->t_notify},
        {"quiesce", t->t_quiesced},
    };
    size_t n = 0;
    uint64_t previous = t->t_accept;
    for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
        if (points[i].end_ns < previous) {
            continue; /* not reached */
        }
        out[n++] = (struct kvf_admin_phase){.name = points[i].name,
                                            .start_ns = previous - t->t_accept,
                                            .duration_ns = points[i].end_ns - previous};
        previous = points[i].end_ns;
    }
    if (t->t_notify == 0 && now_ns > previous) {
        out[n++] = (struct kvf_admin_phase){.name = "now",
                                            .start_ns = previous - t->t_accept,
                                            .duration_ns = now_ns - previous};
    }
    return n;
}

static void fill_ended(const struct kvf_timing *t, struct kvf_admin_request *out)
{
    memset(out, 0, sizeof(*out));
    out->sequence = t->sequence;
    out->request_id = t->request_id;
    out->attempt = t->attempt;
    (void)snprintf(out->label, sizeof(out->label), "%s", t->label);
    (void)snprintf(out->trace_id, sizeof(out->trace_id), "%s", t->trace_id);
    (void)snprintf(out->direction, sizeof(out->direction), "%s", t->direction);
    (void)snprintf(out->peer, sizeof(out->peer), "%s", t->peer);
    (void)snprintf(out->engine, sizeof(out->engine), "%s", t->engine);
    (void)snprintf(out->state, sizeof(out->state), "done");
    (void)snprintf(out->status, sizeof(out->status), "%s", kvf_status_name(t->outcome));
    (void)snprintf(out->detail, sizeof(out->detail), "%s", t->cause);
    bool is_send = strcmp(t->direction, "send") == 0;
    (void)snprintf(out->path, sizeof(out->path), "%s",
                   is_send ? t->path_send : t->path_recv);
    (void)snprintf(out->transport, sizeof(out->transport), "%s", t->transport);
    (void)snprintf(out->lane, sizeof(out->lane), "%s", t->lane);
    out->n_blocks = t->n_blocks;
    out->n_runs = t->n_runs;
    out->n_bytes = out->n_bytes_done = t->n_bytes;
    out->accepted_wall_ns = t->wall_accept_ns;
    out->duration_ns = t->t_notify > t->t_accept ? t->t_notify - t->t_accept : 0;
    out->n_phases = fill_phases(t, 0, out->phases);
}

static void fill_live(const struct kvf_request *request, uint64_t now_ns,
                      struct kvf_admin_request *out)
{
    const struct kvf_transfer *transfer = request->transfer;
    memset(out, 0, sizeof(*out));
    out->sequence = request->sequence;
    out->is_live = true;
    out->request_id = request->key.request_id;
    out->attempt = request->key.attempt;
    (void)snprintf(out->label, sizeof(out->label), "%s", request->label);
    (void)snprintf(out->direction, sizeof(out->direction), "%s",
                   request->direction == KVF_SEND ? "send" : "recv");
    (void)snprintf(out->engine, sizeof(out->engine), "%s", request->engine);
    (void)snprintf(out->state, sizeof(out->state), "%s",
                   transfer != NULL ? kvf_transfer_state_name(transfer->state)
                                    : "offered");
    (void)snprintf(out->detail, sizeof(out->detail), "%s", request->detail);
    out->n_blocks = request->n_blocks;
    out->accepted_wall_ns = request->accepted_wall_ns;
    out->duration_ns = now_ns - request->accepted_ns;
    if (request->status != KVF_IN_PROGRESS) {
        (void)snprintf(out->status, sizeof(out->status), "%s",
                       kvf_status_name(request->status));
    }
    struct kvf_timing timing = {.direction = out->direction};
    if (transfer != NULL) {
        timing = transfer->timing;
        timing.direction = out->direction;
        (void)snprintf(out->peer, sizeof(out->peer), "%s", transfer->peer->name);
        (void)snprintf(out->path, sizeof(out->path), "%s", kvf_path_name(transfer->path));
        out->n_bytes = transfer->total_bytes;
        out->n_bytes_done = transfer->done_bytes;
        out->n_runs = timing.n_runs;
    }
    timing.t_accept = request->accepted_ns;
    out->n_phases = fill_phases(&timing, now_ns, out->phases);
}

static bool is_failed(const struct kvf_timing *t)
{
    return t->outcome != KVF_OK && t->outcome != KVF_CANCELLED;
}

static bool passes(const struct kvf_admin_filter *filter, const char *peer,
                   const char *engine)
{
    return (filter->peer == NULL || strcmp(filter->peer, peer) == 0) &&
           (filter->engine == NULL || strcmp(filter->engine, engine) == 0);
}

static size_t list_ended(struct kvf_daemon *daemon, const struct kvf_admin_filter *filter,
                         struct kvf_admin_request *out, size_t max, uint64_t *out_next)
{
    uint64_t since = filter->since;
    size_t n = 0;
    const struct kvf_timing *row;
    while ((row = kvf_timings_after(daemon->timings, since)) != NULL) {
        bool is_wanted = is_failed(row) ? filter->want_failed : filter->want_done;
        if (is_wanted && passes(filter, row->peer, row->engine)) {
            if (n == max) {
                *out_next = since;
                return n;
            }
            fill_ended(row, &out[n++]);
        }
        since = row->sequence;
    }
    return n;
}

static size_t list_live(struct kvf_daemon *daemon, const struct kvf_admin_filter *filter,
                        struct kvf_admin_request *out, size_t max)
{
    const struct kvf_list *live = kvf_requests_live(daemon->requests);
    uint64_t now_ns = kvf_loop_clock_ns(daemon->loop);
    size_t n = 0;
    for (struct kvf_node *node = kvf_list_first(live); node != NULL && n < max;
         node = kvf_list_next(live, node)) {
        const struct kvf_request *request =
            KVF_CONTAINER(node, struct kvf_request, live_node);
        const char *peer = request->transfer != NULL ? request->transfer->peer->name : "";
        if (passes(filter, peer, request->engine)) {
            fill_live(request, now_ns, &out[n++]);
        }
    }
    return n;
}

static size_t view_requests(void *owner, const struct kvf_admin_filter *filter,
                            struct kvf_admin_request *out, size_t max, uint64_t *out_next)
{
    struct kvf_daemon *daemon = daemon_of(owner);
    size_t n = 0;
    max = filter->limit < max ? filter->limit : max;
    *out_next = 0;
    /* Live ones come with the first page only: they have no place in the ended ones'
     * order. */
    if (filter->want_active && filter->since == 0) {
        n = list_live(daemon, filter, out, max);
    }
    if (filter->want_done || filter->want_failed) {
        n += list_ended(daemon, filter, out + n, max - n, out_next);
    }
    return n;
}

static bool is_called(uint64_t request_id, const char *label, const char *id)
{
    char decimal[24];
    (void)snprintf(decimal, sizeof(decimal), "%" PRIu64, request_id);
    return strcmp(decimal, id) == 0 || (label[0] != '\0' && strcmp(label, id) == 0);
}

static size_t view_request(void *owner, const char *id, struct kvf_admin_request *out,
                           size_t max)
{
    struct kvf_daemon *daemon = daemon_of(owner);
    const struct kvf_list *live = kvf_requests_live(daemon->requests);
    uint64_t now_ns = kvf_loop_clock_ns(daemon->loop), since = 0;
    size_t n = 0;
    for (struct kvf_node *node = kvf_list_first(live); node != NULL && n < max;
         node = kvf_list_next(live, node)) {
        const struct kvf_request *request =
            KVF_CONTAINER(node, struct kvf_request, live_node);
        if (is_called(request->key.request_id, request->label, id)) {
            fill_live(request, now_ns, &out[n++]);
        }
    }
    const struct kvf_timing *row;
    while (n < max && (row = kvf_timings_after(daemon->timings, since)) != NULL) {
        if (is_called(row->request_id, row->label, id)) {
            fill_ended(row, &out[n++]);
        }
        since = row->sequence;
    }
    return n;
}

static enum kvf_status view_cancel(void *owner, const char *id, const char *who)
{
    struct kvf_daemon *daemon = daemon_of(owner);
    const struct kvf_list *live = kvf_requests_live(daemon->requests);
    char detail[KVF_ADMIN_TEXT];
    (void)snprintf(detail, sizeof(detail), "cancelled over HTTP by %.120s", who);
    size_t n = 0;
    struct kvf_node *next;
    for (struct kvf_node *node = kvf_list_first(live); node != NULL; node = next) {
        struct kvf_request *request = KVF_CONTAINER(node, struct kvf_request, live_node);
        next = kvf_list_next(live, node);
        if (is_called(request->key.request_id, request->label, id)) {
            kvf_request_stop(request, KVF_CANCELLED, detail);
            n++;
        }
    }
    struct kvf_admin_request ended;
    if (n > 0) {
        return KVF_OK;
    }
    return view_request(owner, id, &ended, 1) > 0 ? KVF_TOO_LATE : KVF_NOT_FOUND;
}

/* ---- timings */

static enum kvf_timings_text text_of(enum kvf_admin_timings format)
{
    return format == KVF_ADMIN_TIMINGS_TRTLLM ? KVF_TIMINGS_TEXT_TRTLLM
                                              : KVF_TIMINGS_TEXT_KVFERRY;
}

static size_t view_timings_header(void *owner, enum kvf_admin_timings format, char *out,
                                  size_t max)
{
    (void)owner; /* the columns are the same for everybody */
    return kvf_timings_header(text_of(format), out, max);
}

static size_t view_timings_rows(void *owner, enum kvf_admin_timings format,
                                uint64_t *cursor, char *out, size_t max)
{
    struct kvf_daemon *daemon = daemon_of(owner);
    size_t n_bytes = 0;
    const struct kvf_timing *row;
    while ((row = kvf_timings_after(daemon->timings, *cursor)) != NULL) {
        bool has_row = format == KVF_ADMIN_TIMINGS_KVFERRY || row->n_bytes > 0;
        size_t n =
            has_row ? kvf_timings_row(text_of(format), row, out + n_bytes, max - n_bytes)
                    : 0;
        if (has_row && n == 0) {
            break; /* the slice is full */
        }
        n_bytes += n;
        *cursor = row->sequence;
    }
    return n_bytes;
}

static void view_collect(void *owner)
{
    struct kvf_view *view = owner;
    kvf_view_metrics_collect(view->metrics, view->daemon);
}

static struct kvf_metrics *view_metrics(void *owner)
{
    struct kvf_view *view = owner;
    return kvf_view_metrics_registry(view->metrics);
}

const struct kvf_admin_ops kvf_view_admin_ops = {
    .checks = view_checks,
    .status = view_status,
    .engines = view_engines,
    .peers = view_peers,
    .version = view_version,
    .requests = view_requests,
    .request = view_request,
    .cancel = view_cancel,
    .timings_header = view_timings_header,
    .timings_rows = view_timings_rows,
    .collect = view_collect,
    .metrics = view_metrics,
};

enum kvf_status kvf_view_create(struct kvf_daemon *daemon, struct kvf_view **out_view)
{
    struct kvf_view *view = kvf_alloc(sizeof(*view));
    if (view == NULL) {
        return KVF_NO_MEMORY;
    }
    view->daemon = daemon;
    enum kvf_status status = kvf_view_metrics_create(daemon, &view->metrics);
    if (status != KVF_OK) {
        kvf_view_destroy(view);
        return status;
    }
    *out_view = view;
    return KVF_OK;
}

void kvf_view_destroy(struct kvf_view *view)
{
    if (view == NULL) {
        return;
    }
    kvf_view_metrics_destroy(view->metrics);
    kvf_free(view);
}
