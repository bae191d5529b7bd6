/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fake behind kvf_admin_ops. Numbers are fixed, so that answers can be compared byte
 * for byte.
 */
#include "tests/support/fake_admin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#include "admin/http_metrics.h"

#define WALL_NS 1796072400123456000ull /* 2026-11-30T21:00:00.123456Z */

static const struct kvf_metric_family families[] = {
    {.name = "kvferry_test_value",
     .type = KVF_METRIC_GAUGE,
     .help = "Set by the collector.",
     .labels = {NULL}},
    KVF_HTTP_METRIC_FAMILIES,
};

static size_t fake_checks(void *owner, struct kvf_admin_check *out, size_t max)
{
    const struct fake_admin *fake = owner;
    size_t n = fake->n_checks < max ? fake->n_checks : max;
    memcpy(out, fake->checks, n * sizeof(*out));
    return n;
}

static void fake_status(void *owner, struct kvf_admin_status *out)
{
    const struct fake_admin *fake = owner;
    *out = (struct kvf_admin_status){.node = "prefill-0",
                                     .uptime_seconds = 8123.5,
                                     .n_in_flight = 2,
                                     .n_queued = 1,
                                     .n_completed = 9120,
                                     .n_failed = 3,
                                     .n_cancelled = 1};
    memcpy(out->state, fake->state, sizeof(out->state));
}

static size_t fake_engines(void *owner, struct kvf_admin_engine *out, size_t max)
{
    const struct fake_admin *fake = owner;
    size_t n = fake->n_engines < max ? fake->n_engines : max;
    memcpy(out, fake->engines, n * sizeof(*out));
    return n;
}

static size_t fake_peers(void *owner, struct kvf_admin_peer *out, size_t max)
{
    const struct fake_admin *fake = owner;
    size_t n = fake->n_peers < max ? fake->n_peers : max;
    memcpy(out, fake->peers, n * sizeof(*out));
    return n;
}

static void fake_version(void *owner, struct kvf_admin_version *out)
{
    (void)owner;
    *out = (struct kvf_admin_version){.version = "0.1.0",
                                      .commit = "abc1234",
                                      .ucx_version = "1.13.1",
                                      .control_min = 1,
                                      .control_max = 1,
                                      .engine_min = 1,
                                      .engine_max = 2};
}

static bool is_wanted(const struct kvf_admin_request *request,
                      const struct kvf_admin_filter *filter)
{
    bool is_ok = strcmp(request->status, "OK") == 0;
    bool has_state = request->is_live ? filter->want_active
                     : is_ok          ? filter->want_done
                                      : filter->want_failed;
    return has_state && request->sequence > filter->since &&
           (filter->peer == NULL || strcmp(filter->peer, request->peer) == 0) &&
           (filter->engine == NULL || strcmp(filter->engine, request->engine) == 0);
}

static size_t fake_requests(void *owner, const struct kvf_admin_filter *filter,
                            struct kvf_admin_request *out, size_t max, uint64_t *out_next)
{
    struct fake_admin *fake = owner;
    size_t n = 0;
    fake->most_rows = max > fake->most_rows ? max : fake->most_rows;
    *out_next = 0;
    for (size_t i = 0; i < fake->n_requests; i++) {
        if (!is_wanted(&fake->requests[i], filter)) {
            continue;
        }
        if (n == max) {
            *out_next = out[n - 1].sequence;
            break;
        }
        out[n++] = fake->requests[i];
    }
    return n;
}

static size_t fake_request(void *owner, const char *id, struct kvf_admin_request *out,
                           size_t max)
{
    struct fake_admin *fake = owner;
    size_t n = 0;
    fake->n_looks++;
    for (size_t i = 0; i < fake->n_requests && n < max; i++) {
        struct kvf_admin_request *request = &fake->requests[i];
        char decimal[24];
        (void)snprintf(decimal, sizeof(decimal), "%llu",
                       (unsigned long long)request->request_id);
        if (strcmp(decimal, id) != 0 && strcmp(request->label, id) != 0) {
            continue;
        }
        if (request->is_live && fake->ends_on_cancel && fake->n_cancels > 0 &&
            fake->n_looks > 1) {
            request->is_live = false;
            (void)snprintf(request->state, sizeof(request->state), "cancelled");
            (void)snprintf(request->status, sizeof(request->status), "CANCELLED");
        }
        out[n++] = *request;
    }
    return n;
}

static enum kvf_status fake_cancel(void *owner, const char *id, const char *who)
{
    struct fake_admin *fake = owner;
    struct kvf_admin_request request;
    fake->n_cancels++;
    (void)snprintf(fake->cancelled_id, sizeof(fake->cancelled_id), "%s", id);
    (void)snprintf(fake->cancelled_by, sizeof(fake->cancelled_by), "%s", who);
    fake->n_looks = 0;
    if (fake_request(fake, id, &request, 1) == 0) {
        return KVF_NOT_FOUND;
    }
    return request.is_live ? KVF_OK : KVF_TOO_LATE;
}

static size_t fake_timings_header(void *owner, enum kvf_admin_timings format, char *out,
                                  size_t max)
{
    (void)owner;
    return (size_t)snprintf(out, max, "%s\n",
                            format == KVF_ADMIN_TIMINGS_TRTLLM ? "RequestID,RequestInfo"
                                                               : "seq,request_id");
}

static size_t fake_timings_rows(void *owner, enum kvf_admin_timings format,
                                uint64_t *cursor, char *out, size_t max)
{
    struct fake_admin *fake = owner;
    size_t n = 0;
    (void)format;
    fake->longest_slice = max > fake->longest_slice ? max : fake->longest_slice;
    while (*cursor < fake->n_timings && max - n > 32) {
        (*cursor)++;
        n +=
            (size_t)snprintf(out + n, max - n, "%llu,%llu\n", (unsigned long long)*cursor,
                             (unsigned long long)(*cursor + 1000));
    }
    return n;
}

static void fake_collect(void *owner)
{
    struct fake_admin *fake = owner;
    fake->n_collects++;
    kvf_series_set(kvf_metrics_series(fake->metrics, 0, NULL), (double)fake->n_collects);
}

static struct kvf_metrics *fake_metrics(void *owner)
{
    return ((struct fake_admin *)owner)->metrics;
}

static const struct kvf_admin_ops ops = {
    .checks = fake_checks,
    .status = fake_status,
    .engines = fake_engines,
    .peers = fake_peers,
    .version = fake_version,
    .requests = fake_requests,
    .request = fake_request,
    .cancel = fake_cancel,
    .timings_header = fake_timings_header,
    .timings_rows = fake_timings_rows,
    .collect = fake_collect,
    .metrics = fake_metrics,
};

static struct kvf_admin_request request_of(uint64_t sequence, uint64_t id,
                                           const char *state, const char *status)
{
    struct kvf_admin_request request = {
        .sequence = sequence,
        .request_id = id,
        .attempt = 1,
        .label = "cmpl-7f3a",
        .trace_id = "4bf92f3577b34da6a3ce929d0e0e4736",
        .direction = "send",
        .peer = "decode-0",
        .engine = "vllm-0",
        .path = "staged",
        .transport = "ucx",
        .lane = "tcp",
        .is_live = status[0] == '\0',
        .n_blocks = 128,
        .n_runs = 6,
        .n_bytes = 268435456,
        .n_bytes_done = 268435456,
        .accepted_wall_ns = WALL_NS,
        .duration_ns = 1290000,
        .phases = {{"queue", 0, 41000}, {"wire", 90000, 1200000}},
        .n_phases = 2,
    };
    (void)snprintf(request.label, sizeof(request.label), "cmpl-%llu",
                   (unsigned long long)id);
    (void)snprintf(request.state, sizeof(request.state), "%s", state);
    (void)snprintf(request.status, sizeof(request.status), "%s", status);
    return request;
}

void fake_admin_init(struct fake_admin *fake)
{
    *fake = (struct fake_admin){.state = "ready", .ends_on_cancel = true};
    fake->checks[fake->n_checks++] =
        (struct kvf_admin_check){.name = "ucx", .is_ok = true};
    fake->engines[fake->n_engines++] =
        (struct kvf_admin_engine){.name = "vllm-0",
                                  .instance = "ctx",
                                  .role = "prefill",
                                  .state = "registered",
                                  .memory = "host",
                                  .rank = 1,
                                  .pid = 41,
                                  .n_pools = 2,
                                  .pool_bytes = 61203283968,
                                  .n_requests = 2};
    fake->peers[fake->n_peers++] = (struct kvf_admin_peer){.name = "decode-0",
                                                           .state = "up",
                                                           .address = "10.0.0.7:7470",
                                                           .wanted = "rdma",
                                                           .transport = "tcp",
                                                           .rtt_seconds = 0.00021,
                                                           .n_in_flight = 2,
                                                           .bytes_sent = 123,
                                                           .n_reconnects = 1};
    fake->peers[fake->n_peers++] =
        (struct kvf_admin_peer){.name = "decode-1",
                                .state = "down",
                                .address = "10.0.0.8:7470",
                                .wanted = "rdma",
                                .reason = "connection refused"};
    fake->requests = calloc(FAKE_REQUESTS_MAX, sizeof(*fake->requests));
    if (fake->requests == NULL) {
        abort();
    }
    fake->requests[fake->n_requests++] = request_of(1, 17, "done", "OK");
    fake->requests[fake->n_requests++] = request_of(2, 18, "streaming", "");
    fake->requests[fake->n_requests++] = request_of(3, 19, "failed", "PEER_LOST");
    (void)snprintf(fake->requests[2].detail, sizeof(fake->requests[2].detail),
                   "peer decode-0 closed its connection");
    fake->n_timings = 3;
    struct kvf_loop_config config = {.clock = &kvf_clock_system};
    if (kvf_loop_create(&config, &fake->loop) != KVF_OK ||
        kvf_metrics_create(families, sizeof(families) / sizeof(families[0]),
                           &fake->metrics) != KVF_OK) {
        abort();
    }
}

void fake_admin_fill_requests(struct fake_admin *fake, size_t n)
{
    fake->n_requests = n < FAKE_REQUESTS_MAX ? n : FAKE_REQUESTS_MAX;
    for (size_t i = 0; i < fake->n_requests; i++) {
        fake->requests[i] = request_of(i + 1, 1000 + i, "done", "OK");
    }
}

void fake_admin_fini(struct fake_admin *fake)
{
    kvf_admin_close(fake->admin);
    kvf_metrics_destroy(fake->metrics);
    kvf_loop_destroy(fake->loop);
    free(fake->requests);
}

enum kvf_status fake_admin_open(struct fake_admin *fake, const struct fake_listeners *at)
{
    static const char *const names[] = {"kvferry.example"};
    struct kvf_address observe, admin;
    const char *error;
    enum kvf_status status = kvf_address_parse(
        at->observe != NULL ? at->observe : "127.0.0.1:0", &observe, &error);
    if (status == KVF_OK) {
        status = kvf_address_parse(at->admin != NULL ? at->admin : "127.0.0.1:0", &admin,
                                   &error);
    }
    if (status != KVF_OK) {
        return status;
    }
    struct kvf_admin_config config = {
        .loop = fake->loop,
        .observe = &observe,
        .admin = &admin,
        .token_file = at->token_file != NULL ? at->token_file : "",
        .is_insecure = at->is_insecure,
        .allow_hosts = names,
        .n_allow_hosts = 1,
        .ops = &ops,
        .owner = fake,
    };
    return kvf_admin_open(&config, &fake->admin);
}
