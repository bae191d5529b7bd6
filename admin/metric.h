/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Metric families with closed label sets, and their Prometheus text. The owner declares
 * families in one table, creates the series it knows at start (so that rates work from
 * zero), keeps the series pointers and adds to plain integers. Loop thread.
 */
#ifndef KVF_ADMIN_METRIC_H
#define KVF_ADMIN_METRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <kvferry/status.h>

#define KVF_METRIC_LABELS_MAX  4
#define KVF_METRIC_BUCKETS_MAX 20

enum kvf_metric_type { KVF_METRIC_COUNTER, KVF_METRIC_GAUGE, KVF_METRIC_HISTOGRAM };

struct kvf_metric_family {
    const char *name; /* "kvferry_transfers_total" */
    enum kvf_metric_type type;
    const char *help;
    const char *labels[KVF_METRIC_LABELS_MAX]; /* NULL-terminated unless full */
    const double *buckets;                     /* histogram: upper bounds, rising */
    size_t n_buckets;
};

struct kvf_series; /* one label combination; lives as long as its kvf_metrics */
struct kvf_metrics;

/* families[n] is static and borrowed. */
enum kvf_status KVF_MUST_CHECK kvf_metrics_create(
    const struct kvf_metric_family *families, size_t n, struct kvf_metrics **out);
void kvf_metrics_destroy(struct kvf_metrics *metrics); /* accepts NULL */

/* The index of the family with this name; false: not declared. */
bool kvf_metrics_find(const struct kvf_metrics *metrics, const char *name,
                      size_t *out_family);

/* The series of family (index into families) with these label values (copied; as many as
 * the family has labels), made at first use. Never NULL: without memory, or over 1500
 * series, a sink whose values are not shown is returned and counted. */
struct kvf_series *kvf_metrics_series(struct kvf_metrics *metrics, size_t family,
                                      const char *const *values);

void kvf_series_add(struct kvf_series *series, double value); /* counter, gauge */
void kvf_series_set(struct kvf_series *series, double value); /* gauge; counter mirrors */
void kvf_series_observe(struct kvf_series *series, double value); /* histogram */
double kvf_series_get(const struct kvf_series *series); /* histogram: the count */

/* Prometheus text format 0.0.4, families in table order, then the count of refused
 * series. NO_MEMORY: the stream would not take it all. */
enum kvf_status KVF_MUST_CHECK kvf_metrics_render(const struct kvf_metrics *metrics,
                                                  FILE *out);

#endif
