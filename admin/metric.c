/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registry behind /metrics. A series is found by its rendered label text, which is
 * also what the exposition prints, so the escaping is done once and the steady state only
 * adds to numbers through pointers its owner kept. Refused series (no memory, over the
 * ceiling) end in the family's sink: the caller never has to check. The registry owns
 * every series; families are borrowed static tables. Loop thread.
 */
#include "admin/metric.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/map.h"

#define SERIES_MAX     1500 /* of all families; what Prometheus should have to bear */
#define LABEL_TEXT_MAX 640
#define NUMBER_MAX     32
#define DROPPED_NAME   "kvferry_metric_series_dropped_total"

struct kvf_series {
    const struct kvf_metric_family *family; /* borrowed */
    double value;                           /* histogram: the sum */
    uint64_t n_observed;
    uint64_t *n_in_bucket; /* [family->n_buckets], in this allocation; NULL: sink */
    char *labels;          /* a="x",b="y"; in this allocation, the key of the map */
    struct kvf_node node;
    UT_hash_handle hh;
};

struct family_state {
    const struct kvf_metric_family *family; /* borrowed */
    size_t n_labels;
    struct kvf_list series;     /* in order of creation */
    struct kvf_series *by_text; /* the same series by label text */
    struct kvf_series sink;
};

struct kvf_metrics {
    struct family_state *families; /* owns */
    size_t n_families, n_series;
    uint64_t n_dropped; /* calls that got a sink */
};

/* ---- label text */

struct text {
    char bytes[LABEL_TEXT_MAX];
    size_t n;
    bool is_cut;
};

static void add_char(struct text *text, char c)
{
    if (text->n + 1 >= sizeof(text->bytes)) {
        text->is_cut = true;
        return;
    }
    text->bytes[text->n++] = c;
    text->bytes[text->n] = '\0';
}

static void add_plain(struct text *text, const char *plain)
{
    for (const char *c = plain; *c != '\0'; c++) {
        add_char(text, *c);
    }
}

/* The three escapes of the text format 0.0.4. */
static void add_escaped(struct text *text, const char *value)
{
    for (const char *c = value; *c != '\0'; c++) {
        if (*c == '\n') {
            add_plain(text, "\\n");
            continue;
        }
        if (*c == '\\' || *c == '"') {
            add_char(text, '\\');
        }
        add_char(text, *c);
    }
}

static bool render_labels(const struct family_state *state, const char *const *values,
                          struct text *out)
{
    out->n = 0;
    out->is_cut = false;
    out->bytes[0] = '\0';
    for (size_t i = 0; i < state->n_labels; i++) {
        add_plain(out, i > 0 ? "," : "");
        add_plain(out, state->family->labels[i]);
        add_plain(out, "=\"");
        add_escaped(out, values[i]);
        add_char(out, '"');
    }
    return !out->is_cut;
}

/* ---- registry */

static size_t count_labels(const struct kvf_metric_family *family)
{
    size_t n = 0;
    while (n < KVF_METRIC_LABELS_MAX && family->labels[n] != NULL) {
        n++;
    }
    return n;
}

static void init_family(struct family_state *state,
                        const struct kvf_metric_family *family)
{
    assert(family->n_buckets <= KVF_METRIC_BUCKETS_MAX);
    for (size_t i = 1; i < family->n_buckets; i++) {
        assert(family->buckets[i - 1] < family->buckets[i]);
    }
    state->family = family;
    state->n_labels = count_labels(family);
    state->sink.family = family;
    kvf_list_init(&state->series);
}

enum kvf_status kvf_metrics_create(const struct kvf_metric_family *families, size_t n,
                                   struct kvf_metrics **out)
{
    struct kvf_metrics *metrics = kvf_alloc(sizeof(*metrics));
    if (metrics == NULL) {
        return KVF_NO_MEMORY;
    }
    metrics->families = kvf_alloc_array(n, sizeof(*metrics->families));
    if (metrics->families == NULL) {
        kvf_free(metrics);
        return KVF_NO_MEMORY;
    }
    metrics->n_families = n;
    for (size_t i = 0; i < n; i++) {
        init_family(&metrics->families[i], &families[i]);
        if (metrics->families[i].n_labels == 0) {
            (void)kvf_metrics_series(metrics, i, NULL); /* rates work from zero */
        }
    }
    *out = metrics;
    return KVF_OK;
}

static void destroy_series(struct family_state *state)
{
    HASH_CLEAR(hh, state->by_text);
    struct kvf_node *node;
    while ((node = kvf_list_pop(&state->series)) != NULL) {
        kvf_free(KVF_CONTAINER(node, struct kvf_series, node));
    }
}

void kvf_metrics_destroy(struct kvf_metrics *metrics)
{
    if (metrics == NULL) {
        return;
    }
    for (size_t i = 0; i < metrics->n_families; i++) {
        destroy_series(&metrics->families[i]);
    }
    kvf_free(metrics->families);
    kvf_free(metrics);
}

bool kvf_metrics_find(const struct kvf_metrics *metrics, const char *name,
                      size_t *out_family)
{
    for (size_t i = 0; i < metrics->n_families; i++) {
        if (strcmp(metrics->families[i].family->name, name) == 0) {
            *out_family = i;
            return true;
        }
    }
    return false;
}

/* NOLINTNEXTLINE(readability-function-size): uthash's macros nest, we do not */
static bool add_to_map(struct family_state *state, struct kvf_series *series, size_t n)
{
    HASH_ADD_KEYPTR(hh, state->by_text, series->labels, n, series);
    return KVF_MAP_ADDED(series);
}

/* NULL: there is none. */
/* NOLINTNEXTLINE(readability-function-size): as above */
static struct kvf_series *find_in_map(const struct family_state *state,
                                      const struct text *text)
{
    struct kvf_series *series = NULL;
    HASH_FIND(hh, state->by_text, text->bytes, text->n, series);
    return series;
}

/* One allocation: the record, its buckets, its label text. */
static struct kvf_series *make_series(struct family_state *state, const struct text *text)
{
    size_t bucket_bytes = state->family->n_buckets * sizeof(uint64_t);
    struct kvf_series *series =
        kvf_alloc(sizeof(struct kvf_series) + bucket_bytes + text->n + 1);
    if (series == NULL) {
        return NULL;
    }
    series->family = state->family;
    series->n_in_bucket = (uint64_t *)(void *)(series + 1);
    series->labels = (char *)(series + 1) + bucket_bytes;
    memcpy(series->labels, text->bytes, text->n + 1);
    if (!add_to_map(state, series, text->n)) {
        kvf_free(series);
        return NULL;
    }
    kvf_list_add_tail(&state->series, &series->node);
    return series;
}

struct kvf_series *kvf_metrics_series(struct kvf_metrics *metrics, size_t family,
                                      const char *const *values)
{
    assert(family < metrics->n_families);
    struct family_state *state = &metrics->families[family];
    struct kvf_series *series = NULL;
    struct text text;
    if (render_labels(state, values, &text)) {
        series = find_in_map(state, &text);
        if (series != NULL) {
            return series;
        }
        if (metrics->n_series < SERIES_MAX) {
            series = make_series(state, &text);
        }
    }
    if (series == NULL) {
        metrics->n_dropped++;
        return &state->sink;
    }
    metrics->n_series++;
    return series;
}

void kvf_series_add(struct kvf_series *series, double value)
{
    assert(series->family->type != KVF_METRIC_HISTOGRAM);
    series->value += value;
}

void kvf_series_set(struct kvf_series *series, double value)
{
    assert(series->family->type != KVF_METRIC_HISTOGRAM);
    series->value = value;
}

void kvf_series_observe(struct kvf_series *series, double value)
{
    const struct kvf_metric_family *family = series->family;
    assert(family->type == KVF_METRIC_HISTOGRAM);
    series->value += value;
    series->n_observed++;
    for (size_t i = 0; i < family->n_buckets && series->n_in_bucket != NULL; i++) {
        if (value <= family->buckets[i]) {
            series->n_in_bucket[i]++;
            break;
        }
    }
}

double kvf_series_get(const struct kvf_series *series)
{
    return series->family->type == KVF_METRIC_HISTOGRAM ? (double)series->n_observed
                                                        : series->value;
}

/* ---- exposition */

/* The shortest decimal that reads back as the same double. */
static const char *format_number(double value, char out[NUMBER_MAX])
{
    if (isnan(value)) {
        return "NaN";
    }
    if (isinf(value)) {
        return value > 0 ? "+Inf" : "-Inf";
    }
    for (int digits = 15; digits <= 17; digits++) {
        (void)snprintf(out, NUMBER_MAX, "%.*g", digits, value);
        if (strtod(out, NULL) == value) {
            break;
        }
    }
    return out;
}

static void render_buckets(const struct kvf_series *series, FILE *out)
{
    const struct kvf_metric_family *family = series->family;
    const char *comma = series->labels[0] != '\0' ? "," : "";
    char bound[NUMBER_MAX];
    uint64_t n = 0;
    for (size_t i = 0; i < family->n_buckets; i++) {
        n += series->n_in_bucket[i];
        (void)fprintf(out, "%s_bucket{%s%sle=\"%s\"} %llu\n", family->name,
                      series->labels, comma, format_number(family->buckets[i], bound),
                      (unsigned long long)n);
    }
    (void)fprintf(out, "%s_bucket{%s%sle=\"+Inf\"} %llu\n", family->name, series->labels,
                  comma, (unsigned long long)series->n_observed);
}

static void render_sample(const struct kvf_series *series, const char *suffix,
                          double value, FILE *out)
{
    char number[NUMBER_MAX];
    const char *text = format_number(value, number);
    if (series->labels[0] == '\0') {
        (void)fprintf(out, "%s%s %s\n", series->family->name, suffix, text);
    } else {
        (void)fprintf(out, "%s%s{%s} %s\n", series->family->name, suffix, series->labels,
                      text);
    }
}

static void render_series(const struct kvf_series *series, FILE *out)
{
    if (series->family->type != KVF_METRIC_HISTOGRAM) {
        render_sample(series, "", series->value, out);
        return;
    }
    render_buckets(series, out);
    render_sample(series, "_sum", series->value, out);
    render_sample(series, "_count", (double)series->n_observed, out);
}

static const char *type_name(enum kvf_metric_type type)
{
    switch (type) {
    case KVF_METRIC_COUNTER:
        return "counter";
    case KVF_METRIC_GAUGE:
        return "gauge";
    case KVF_METRIC_HISTOGRAM:
        return "histogram";
    }
    return "untyped";
}

static void render_family(const struct family_state *state, FILE *out)
{
    const struct kvf_metric_family *family = state->family;
    (void)fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", family->name, family->help,
                  family->name, type_name(family->type));
    for (struct kvf_node *node = kvf_list_first(&state->series); node != NULL;
         node = kvf_list_next(&state->series, node)) {
        render_series(KVF_CONTAINER(node, struct kvf_series, node), out);
    }
}

enum kvf_status kvf_metrics_render(const struct kvf_metrics *metrics, FILE *out)
{
    for (size_t i = 0; i < metrics->n_families; i++) {
        render_family(&metrics->families[i], out);
    }
    (void)fprintf(out,
                  "# HELP " DROPPED_NAME " Requests for a series beyond the ceiling.\n"
                  "# TYPE " DROPPED_NAME " counter\n" DROPPED_NAME " %llu\n",
                  (unsigned long long)metrics->n_dropped);
    /* Every write above may fail; the stream remembers. */
    return fflush(out) == 0 && ferror(out) == 0 ? KVF_OK : KVF_NO_MEMORY;
}
