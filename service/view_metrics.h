/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's metric families in one table and their values, read from the parts at
 * scrape time. Ended transfers are taken from the timing ring, each row once. Loop
 * thread.
 */
#ifndef KVF_SERVICE_VIEW_METRICS_H
#define KVF_SERVICE_VIEW_METRICS_H

#include "admin/metric.h"
#include "service/daemon.h"

struct kvf_view_metrics;

enum kvf_status KVF_MUST_CHECK kvf_view_metrics_create(const struct kvf_daemon *daemon,
                                                       struct kvf_view_metrics **out);
void kvf_view_metrics_destroy(struct kvf_view_metrics *metrics); /* accepts NULL */
void kvf_view_metrics_collect(struct kvf_view_metrics *metrics,
                              struct kvf_daemon *daemon);
struct kvf_metrics *kvf_view_metrics_registry(struct kvf_view_metrics *metrics);

/* First of data.prefer, by the transport's own name. */
const char *kvf_view_wanted(const struct kvf_daemon *daemon);
bool kvf_view_is_fallback(const struct kvf_daemon *daemon, const struct kvf_peer *peer);

#endif
