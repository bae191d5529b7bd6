/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two families that the HTTP side fills. The owner of the registry puts
 * KVF_HTTP_METRIC_FAMILIES among the rows of its table; the listeners find them by name
 * when they open and count nothing when they are missing. Rows only, no code.
 */
#ifndef KVF_ADMIN_HTTP_METRICS_H
#define KVF_ADMIN_HTTP_METRICS_H

#include "admin/metric.h"

#define KVF_HTTP_METRIC_REQUESTS  "kvferry_http_requests_total"
#define KVF_HTTP_METRIC_DURATION  "kvferry_http_request_duration_seconds"

#define KVF_HTTP_METRIC_N_BUCKETS 9
extern const double kvf_http_metric_buckets[KVF_HTTP_METRIC_N_BUCKETS];

/* The duration has no method and code: routes times buckets are series enough. */
#define KVF_HTTP_METRIC_FAMILIES                                                         \
    {.name = KVF_HTTP_METRIC_REQUESTS,                                                   \
     .type = KVF_METRIC_COUNTER,                                                         \
     .help = "HTTP requests answered, by route template.",                               \
     .labels = {"route", "method", "code"}},                                             \
    {                                                                                    \
        .name = KVF_HTTP_METRIC_DURATION, .type = KVF_METRIC_HISTOGRAM,                  \
        .help = "Time from the request's headers to the end of the answer.",             \
        .labels = {"route"}, .buckets = kvf_http_metric_buckets,                         \
        .n_buckets = KVF_HTTP_METRIC_N_BUCKETS,                                          \
    }

#endif
