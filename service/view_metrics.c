/* SPDX-License-Identifier: Apache-2.0 */
/* See view_metrics.h. A new metric is one row in families[] and one line in collect. */
#include "service/view_metrics.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <kvferry/kvferry.h>

#include "admin/http_metrics.h"
#include "base/alloc.h"
#include "base/log.h"

static const double duration_buckets[] = {0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025,
                                          0.005,   0.01,   0.025,   0.05,   0.1,   0.25,
                                          0.5,     1,      2.5,     5,      10,    30};
static const double size_buckets[] = {65536,      262144,     1048576,   4194304,
                                      16777216,   67108864,   268435456, 1073741824,
                                      4294967296, 17179869184};
#define BUCKETS(name) .buckets = (name), .n_buckets = sizeof(name) / sizeof((name)[0])

enum {
    BUILD_INFO,
    START_TIME,
    STATE,
    ENGINES,
    POOL_BYTES,
    POOLS,
    PEERS,
    PEER_UP,
    RECONNECTS,
    PEER_BYTES,
    MESSAGES,
    RTT,
    TRANSFERS,
    BYTES,
    BLOCKS,
    DESCRIPTORS,
    IN_FLIGHT,
    IN_STATE,
    DURATION,
    SIZE,
    CANCELLATIONS,
    EXPIRED,
    REJECTIONS,
    EARLY,
    SLOTS,
    SLOTS_USED,
    FALLBACK,
    CONTROL_INSECURE,
    TIMINGS_DROPPED,
    LOG_MESSAGES,
    LOG_DROPPED,
    LOOP_TURNS,
    LOOP_SLEEPS,
    PROCESS_CPU,
    PROCESS_RSS,
    PROCESS_FDS,
    PROCESS_MAX_FDS,
    PROCESS_START,
    OWN_FAMILIES
};

static const struct kvf_metric_family families[] = {
    [BUILD_INFO] = {"kvferry_build_info",
                    KVF_METRIC_GAUGE,
                    "Version of this daemon.",
                    {"version", "ucx_version"},
                    NULL,
                    0},
    [START_TIME] = {"kvferry_start_time_seconds",
                    KVF_METRIC_GAUGE,
                    "Start, Unix time.",
                    {NULL},
                    NULL,
                    0},
    [STATE] = {"kvferry_state",
               KVF_METRIC_GAUGE,
               "1 for the state the daemon is in.",
               {"state"},
               NULL,
               0},
    [ENGINES] = {"kvferry_engines_connected",
                 KVF_METRIC_GAUGE,
                 "Registered engines.",
                 {"role"},
                 NULL,
                 0},
    [POOL_BYTES] = {"kvferry_registered_memory_bytes",
                    KVF_METRIC_GAUGE,
                    "Bytes of registered pools.",
                    {"memory"},
                    NULL,
                    0},
    [POOLS] = {"kvferry_registered_regions",
               KVF_METRIC_GAUGE,
               "Registered pools.",
               {"memory"},
               NULL,
               0},
    [PEERS] = {"kvferry_peers", KVF_METRIC_GAUGE, "Peers by state.", {"state"}, NULL, 0},
    [PEER_UP] = {"kvferry_peer_up",
                 KVF_METRIC_GAUGE,
                 "1 while the peer is connected.",
                 {"peer"},
                 NULL,
                 0},
    [RECONNECTS] = {"kvferry_peer_reconnects_total",
                    KVF_METRIC_COUNTER,
                    "Connections after the first.",
                    {"peer"},
                    NULL,
                    0},
    [PEER_BYTES] = {"kvferry_peer_bytes_total",
                    KVF_METRIC_COUNTER,
                    "Payload exchanged with the peer.",
                    {"direction", "peer"},
                    NULL,
                    0},
    [MESSAGES] = {"kvferry_control_messages_total",
                  KVF_METRIC_COUNTER,
                  "Control messages exchanged with the peer.",
                  {"direction", "peer"},
                  NULL,
                  0},
    [RTT] = {"kvferry_peer_rtt_seconds",
             KVF_METRIC_GAUGE,
             "Last heartbeat's round trip.",
             {"peer"},
             NULL,
             0},
    [TRANSFERS] = {"kvferry_transfers_total",
                   KVF_METRIC_COUNTER,
                   "Ended transfers.",
                   {"direction", "transport", "status"},
                   NULL,
                   0},
    [BYTES] = {"kvferry_transfer_bytes_total",
               KVF_METRIC_COUNTER,
               "Payload of ended transfers.",
               {"direction", "transport"},
               NULL,
               0},
    [BLOCKS] = {"kvferry_transfer_blocks_total",
                KVF_METRIC_COUNTER,
                "Blocks of ended transfers.",
                {"direction"},
                NULL,
                0},
    [DESCRIPTORS] = {"kvferry_transfer_descriptors_total",
                     KVF_METRIC_COUNTER,
                     "Contiguous runs of ended transfers, after coalescing.",
                     {"direction"},
                     NULL,
                     0},
    [IN_FLIGHT] = {"kvferry_requests_in_flight",
                   KVF_METRIC_GAUGE,
                   "Live requests.",
                   {"direction"},
                   NULL,
                   0},
    [IN_STATE] = {"kvferry_transfers_in_state",
                  KVF_METRIC_GAUGE,
                  "Live transfers by state.",
                  {"direction", "state"},
                  NULL,
                  0},
    [DURATION] = {"kvferry_transfer_duration_seconds",
                  KVF_METRIC_HISTOGRAM,
                  "From acceptance to the engine's notification.",
                  {"direction"},
                  BUCKETS(duration_buckets)},
    [SIZE] = {"kvferry_transfer_size_bytes",
              KVF_METRIC_HISTOGRAM,
              "Payload per transfer.",
              {"direction"},
              BUCKETS(size_buckets)},
    [CANCELLATIONS] = {"kvferry_cancellations_total",
                       KVF_METRIC_COUNTER,
                       "Requests that ended cancelled.",
                       {"direction"},
                       NULL,
                       0},
    [EXPIRED] = {"kvferry_requests_expired_total",
                 KVF_METRIC_COUNTER,
                 "Requests whose deadline passed.",
                 {"direction"},
                 NULL,
                 0},
    [REJECTIONS] = {"kvferry_admission_rejections_total",
                    KVF_METRIC_COUNTER,
                    "Requests refused at the door.",
                    {NULL},
                    NULL,
                    0},
    [EARLY] = {"kvferry_requests_waiting_for_offer",
               KVF_METRIC_GAUGE,
               "Requests of peers whose offer has not come yet.",
               {NULL},
               NULL,
               0},
    [SLOTS] = {"kvferry_staging_buffers",
               KVF_METRIC_GAUGE,
               "Staging slots.",
               {"memory"},
               NULL,
               0},
    [SLOTS_USED] = {"kvferry_staging_buffers_in_use",
                    KVF_METRIC_GAUGE,
                    "Staging slots taken.",
                    {"memory"},
                    NULL,
                    0},
    [FALLBACK] = {"kvferry_peer_transport_fallback",
                  KVF_METRIC_GAUGE,
                  "1 while the peer does not use the first of data.prefer.",
                  {"peer"},
                  NULL,
                  0},
    [CONTROL_INSECURE] = {"kvferry_insecure",
                          KVF_METRIC_GAUGE,
                          "1 when control runs without authentication beyond loopback.",
                          {NULL},
                          NULL,
                          0},
    [TIMINGS_DROPPED] = {"kvferry_timing_records_dropped_total",
                         KVF_METRIC_COUNTER,
                         "Rows that the timings files lost.",
                         {NULL},
                         NULL,
                         0},
    [LOG_MESSAGES] = {"kvferry_log_messages_total",
                      KVF_METRIC_COUNTER,
                      "Log lines.",
                      {"level"},
                      NULL,
                      0},
    [LOG_DROPPED] = {"kvferry_log_messages_dropped_total",
                     KVF_METRIC_COUNTER,
                     "Log lines lost to a slow sink.",
                     {NULL},
                     NULL,
                     0},
    [LOOP_TURNS] = {"kvferry_event_loop_turns_total",
                    KVF_METRIC_COUNTER,
                    "Turns of the event loop.",
                    {NULL},
                    NULL,
                    0},
    [LOOP_SLEEPS] = {"kvferry_event_loop_sleeps_total",
                     KVF_METRIC_COUNTER,
                     "Turns that ended asleep.",
                     {NULL},
                     NULL,
                     0},
    [PROCESS_CPU] = {"process_cpu_seconds_total",
                     KVF_METRIC_COUNTER,
                     "User and system time.",
                     {NULL},
                     NULL,
                     0},
    [PROCESS_RSS] = {"process_resident_memory_bytes",
                     KVF_METRIC_GAUGE,
                     "Resident memory.",
                     {NULL},
                     NULL,
                     0},
    [PROCESS_FDS] =
        {"process_open_fds", KVF_METRIC_GAUGE, "Open descriptors.", {NULL}, NULL, 0},
    [PROCESS_MAX_FDS] =
        {"process_max_fds", KVF_METRIC_GAUGE, "Descriptor limit.", {NULL}, NULL, 0},
    [PROCESS_START] = {"process_start_time_seconds",
                       KVF_METRIC_GAUGE,
                       "Start, Unix time.",
                       {NULL},
                       NULL,
                       0},
    [OWN_FAMILIES] = KVF_HTTP_METRIC_FAMILIES,
};

struct kvf_view_metrics {
    struct kvf_metrics *registry; /* owns */
    uint64_t last_row;            /* timing rows up to here are counted */
    double start_time_seconds;
};

static void set(struct kvf_view_metrics *metrics, size_t family,
                const char *const *labels, double value)
{
    kvf_series_set(kvf_metrics_series(metrics->registry, family, labels), value);
}

#define LABELS(...) ((const char *const[]){__VA_ARGS__, NULL})
static const char *const no_labels[] = {NULL};
static const char *const directions[KVF_DIRECTIONS] = {"send", "recv"};

const char *kvf_view_wanted(const struct kvf_daemon *daemon)
{
    if (daemon->config->data.n_prefer == 0) {
        return "";
    }
    return kvf_peer_transport_name(daemon->config->data.prefer[0]);
}

bool kvf_view_is_fallback(const struct kvf_daemon *daemon, const struct kvf_peer *peer)
{
    return peer->transport != NULL &&
           strcmp(peer->transport->ops->name, kvf_view_wanted(daemon)) != 0;
}

/* ---- values */

static void collect_peers(struct kvf_view_metrics *metrics, struct kvf_daemon *daemon)
{
    double n_in_state[KVF_PEER_STATES] = {0};
    for (size_t i = 1; i < kvf_peers_count(daemon->peers); i++) {
        const struct kvf_peer *peer = kvf_peers_at(daemon->peers, i);
        n_in_state[peer->state] += 1;
        set(metrics, PEER_UP, LABELS(peer->name), peer->state == KVF_PEER_UP);
        set(metrics, RECONNECTS, LABELS(peer->name), (double)peer->n_reconnects);
        set(metrics, PEER_BYTES, LABELS("send", peer->name), (double)peer->bytes_sent);
        set(metrics, PEER_BYTES, LABELS("recv", peer->name),
            (double)peer->bytes_received);
        set(metrics, MESSAGES, LABELS("send", peer->name), (double)peer->n_messages_out);
        set(metrics, MESSAGES, LABELS("recv", peer->name), (double)peer->n_messages_in);
        set(metrics, RTT, LABELS(peer->name), (double)peer->rtt_ns / 1e9);
        set(metrics, FALLBACK, LABELS(peer->name), kvf_view_is_fallback(daemon, peer));
    }
    for (int i = 0; i < KVF_PEER_STATES; i++) {
        set(metrics, PEERS, LABELS(kvf_peer_state_name((enum kvf_peer_state)i)),
            n_in_state[i]);
    }
}

static void collect_engines(struct kvf_view_metrics *metrics, struct kvf_daemon *daemon)
{
    double n_engines[3] = {0}, n_bytes = 0, n_pools = 0;
    const struct kvf_list *list = kvf_sessions_list(daemon->sessions);
    for (struct kvf_node *node = kvf_list_first(list); node != NULL;
         node = kvf_list_next(list, node)) {
        const struct kvf_session *session = KVF_CONTAINER(node, struct kvf_session, node);
        if (session->is_registered) {
            n_engines[session->instance->role] += 1;
            n_bytes += (double)session->pool_bytes;
            n_pools += (double)session->pools.n;
        }
    }
    for (int i = 0; i < 3; i++) {
        set(metrics, ENGINES, LABELS(kvf_role_name((enum kvf_role)i)), n_engines[i]);
    }
    set(metrics, POOL_BYTES, LABELS("host"), n_bytes);
    set(metrics, POOLS, LABELS("host"), n_pools);
}

/* Direction of a transfer state, -1 for those of both. */
static int direction_of(enum kvf_transfer_state state)
{
    if (state >= KVF_TRANSFER_MATCHED && state <= KVF_TRANSFER_CLOSING) {
        return KVF_SEND;
    }
    return state >= KVF_TRANSFER_QUEUED && state <= KVF_TRANSFER_VERIFYING ? KVF_RECEIVE
                                                                           : -1;
}

static void collect_requests(struct kvf_view_metrics *metrics, struct kvf_daemon *daemon)
{
    double n_live[KVF_DIRECTIONS] = {0};
    const struct kvf_list *live = kvf_requests_live(daemon->requests);
    for (struct kvf_node *node = kvf_list_first(live); node != NULL;
         node = kvf_list_next(live, node)) {
        n_live[KVF_CONTAINER(node, struct kvf_request, live_node)->direction] += 1;
    }
    for (int i = 0; i < KVF_DIRECTIONS; i++) {
        set(metrics, IN_FLIGHT, LABELS(directions[i]), n_live[i]);
    }
    for (int i = KVF_TRANSFER_MATCHED; i < KVF_TRANSFER_ENDED; i++) {
        int direction = direction_of((enum kvf_transfer_state)i);
        set(metrics, IN_STATE,
            LABELS(direction >= 0 ? directions[direction] : "both",
                   kvf_transfer_state_name((enum kvf_transfer_state)i)),
            (double)kvf_transfers_in_state(daemon->transfers, (enum kvf_transfer_state)i)
                ->n);
    }
    set(metrics, REJECTIONS, no_labels,
        (double)kvf_requests_totals(daemon->requests)->n_refused);
    set(metrics, EARLY, no_labels, (double)kvf_requests_early(daemon->requests));
    set(metrics, SLOTS, LABELS("host"), kvf_slots_total(daemon->slots));
    set(metrics, SLOTS_USED, LABELS("host"), kvf_slots_used(daemon->slots));
}

/* The label set of `status` is closed: admin's list, everything else is internal. */
static const char *status_label(int status)
{
    switch (status) {
    case KVF_OK:
        return "ok";
    case KVF_CANCELLED:
        return "cancelled";
    case KVF_EXPIRED:
        return "timeout";
    case KVF_PEER_LOST:
    case KVF_PEER_UNREACHABLE:
    case KVF_DATA_PATH:
        return "peer_lost";
    case KVF_ENGINE_LOST:
        return "engine_lost";
    case KVF_INTEGRITY:
        return "integrity";
    case KVF_NO_MEMORY:
    case KVF_BUSY:
        return "no_memory";
    case KVF_INTERNAL:
    case KVF_SYSTEM:
        return "internal";
    default:
        return "rejected";
    }
}

static void count_row(struct kvf_view_metrics *metrics, const struct kvf_timing *row)
{
    struct kvf_metrics *registry = metrics->registry;
    const char *transport = row->transport[0] != '\0' ? row->transport : "self";
    const char *direction = row->direction;
    kvf_series_add(
        kvf_metrics_series(registry, TRANSFERS,
                           LABELS(direction, transport, status_label(row->outcome))),
        1);
    kvf_series_add(kvf_metrics_series(registry, BYTES, LABELS(direction, transport)),
                   (double)row->n_bytes);
    kvf_series_add(kvf_metrics_series(registry, BLOCKS, LABELS(direction)),
                   (double)row->n_blocks);
    kvf_series_add(kvf_metrics_series(registry, DESCRIPTORS, LABELS(direction)),
                   (double)row->n_runs);
    if (row->outcome == KVF_OK) {
        kvf_series_observe(kvf_metrics_series(registry, DURATION, LABELS(direction)),
                           (double)(row->t_notify - row->t_accept) / 1e9);
        kvf_series_observe(kvf_metrics_series(registry, SIZE, LABELS(direction)),
                           (double)row->n_bytes);
    } else if (row->outcome == KVF_CANCELLED || row->outcome == KVF_EXPIRED) {
        size_t family = row->outcome == KVF_CANCELLED ? CANCELLATIONS : EXPIRED;
        kvf_series_add(kvf_metrics_series(registry, family, LABELS(direction)), 1);
    }
}

static void collect_rows(struct kvf_view_metrics *metrics, struct kvf_daemon *daemon)
{
    const struct kvf_timing *row;
    while ((row = kvf_timings_after(daemon->timings, metrics->last_row)) != NULL) {
        count_row(metrics, row);
        metrics->last_row = row->sequence;
    }
}

static double count_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    double n = 0;
    if (dir == NULL) {
        return 0;
    }
    while (readdir(dir) != NULL) {
        n += 1;
    }
    (void)closedir(dir);
    return n - 3; /* ".", ".." and the directory itself */
}

static double resident_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    char line[128] = "";
    if (file == NULL) {
        return 0;
    }
    bool is_read = fgets(line, sizeof(line), file) != NULL;
    (void)fclose(file);
    const char *second = strchr(line, ' ');
    return is_read && second != NULL
               ? (double)strtoull(second, NULL, 10) * (double)sysconf(_SC_PAGESIZE)
               : 0;
}

static void collect_process(struct kvf_view_metrics *metrics, struct kvf_daemon *daemon)
{
    struct rusage usage;
    struct rlimit limit;
    struct kvf_loop_stats stats;
    if (getrusage(RUSAGE_SELF, &usage) == 0) {
        double seconds = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                         (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
        set(metrics, PROCESS_CPU, no_labels, seconds);
    }
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        set(metrics, PROCESS_MAX_FDS, no_labels, (double)limit.rlim_cur);
    }
    set(metrics, PROCESS_FDS, no_labels, count_fds());
    set(metrics, PROCESS_RSS, no_labels, resident_bytes());
    kvf_loop_stats_get(daemon->loop, &stats);
    set(metrics, LOOP_TURNS, no_labels, (double)stats.n_turns);
    set(metrics, LOOP_SLEEPS, no_labels, (double)stats.n_sleeps);
    for (int i = KVF_LOG_ERROR; i <= KVF_LOG_TRACE; i++) {
        enum kvf_log_level level = (enum kvf_log_level)i;
        set(metrics, LOG_MESSAGES, LABELS(kvf_log_level_name(level)),
            (double)kvf_log_count(level));
    }
    set(metrics, LOG_DROPPED, no_labels, (double)kvf_log_dropped());
    set(metrics, TIMINGS_DROPPED, no_labels,
        (double)kvf_timings_dropped(daemon->timings));
}

static void collect_state(struct kvf_view_metrics *metrics,
                          const struct kvf_daemon *daemon)
{
    for (int i = KVF_DAEMON_STARTING; i <= KVF_DAEMON_STOPPING; i++) {
        set(metrics, STATE, LABELS(kvf_daemon_state_name((enum kvf_daemon_state)i)),
            (int)daemon->state == i);
    }
    set(metrics, START_TIME, no_labels, metrics->start_time_seconds);
    set(metrics, PROCESS_START, no_labels, metrics->start_time_seconds);
    set(metrics, CONTROL_INSECURE, no_labels, daemon->config->control.insecure_no_auth);
}

void kvf_view_metrics_collect(struct kvf_view_metrics *metrics, struct kvf_daemon *daemon)
{
    collect_state(metrics, daemon);
    collect_peers(metrics, daemon);
    collect_engines(metrics, daemon);
    collect_requests(metrics, daemon);
    collect_rows(metrics, daemon);
    collect_process(metrics, daemon);
}

struct kvf_metrics *kvf_view_metrics_registry(struct kvf_view_metrics *metrics)
{
    return metrics->registry;
}

/* Closed label sets exist from the start, so that rates work from zero. */
static void create_series(struct kvf_view_metrics *metrics,
                          const struct kvf_daemon *daemon)
{
    static const char *const statuses[] = {"ok",        "cancelled",   "timeout",
                                           "peer_lost", "engine_lost", "rejected",
                                           "integrity", "no_memory",   "internal"};
    const char *transports[KVF_TRANSPORTS_MAX + 1] = {"self"};
    size_t n_transports = 1;
    for (size_t i = 0; i < daemon->n_transports; i++) {
        transports[n_transports++] = daemon->transports[i]->ops->name;
    }
    for (int d = 0; d < KVF_DIRECTIONS; d++) {
        for (size_t t = 0; t < n_transports; t++) {
            for (size_t s = 0; s < sizeof(statuses) / sizeof(statuses[0]); s++) {
                set(metrics, TRANSFERS, LABELS(directions[d], transports[t], statuses[s]),
                    0);
            }
            set(metrics, BYTES, LABELS(directions[d], transports[t]), 0);
        }
        set(metrics, BLOCKS, LABELS(directions[d]), 0);
        set(metrics, DESCRIPTORS, LABELS(directions[d]), 0);
        set(metrics, CANCELLATIONS, LABELS(directions[d]), 0);
        set(metrics, EXPIRED, LABELS(directions[d]), 0);
        (void)kvf_metrics_series(metrics->registry, DURATION, LABELS(directions[d]));
        (void)kvf_metrics_series(metrics->registry, SIZE, LABELS(directions[d]));
    }
}

enum kvf_status kvf_view_metrics_create(const struct kvf_daemon *daemon,
                                        struct kvf_view_metrics **out)
{
    struct kvf_view_metrics *metrics = kvf_alloc(sizeof(*metrics));
    if (metrics == NULL) {
        return KVF_NO_MEMORY;
    }
    enum kvf_status status = kvf_metrics_create(
        families, sizeof(families) / sizeof(families[0]), &metrics->registry);
    if (status != KVF_OK) {
        kvf_view_metrics_destroy(metrics);
        return status;
    }
    metrics->start_time_seconds = (double)kvf_loop_wall_ns(daemon->loop) / 1e9;
    const char *ucx_version = "";
    for (size_t i = 0; i < daemon->n_transports; i++) {
        if (strcmp(daemon->transports[i]->ops->name, "ucx") == 0) {
            ucx_version = daemon->transports[i]->ops->version(daemon->transports[i]);
        }
    }
    set(metrics, BUILD_INFO, LABELS(KVF_VERSION_TEXT, ucx_version), 1);
    create_series(metrics, daemon);
    *out = metrics;
    return KVF_OK;
}

void kvf_view_metrics_destroy(struct kvf_view_metrics *metrics)
{
    if (metrics == NULL) {
        return;
    }
    kvf_metrics_destroy(metrics->registry);
    kvf_free(metrics);
}
