/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registry and its text, compared byte for byte and, where promtool is installed,
 * checked by the reader it is meant for.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#include "admin/metric.h"

enum { SENT, DEPTH, SECONDS };
static const double bounds[] = {0.00005, 0.1, 30};
static const struct kvf_metric_family families[] = {
    [SENT] = {.name = "kvferry_sent_total",
              .type = KVF_METRIC_COUNTER,
              .help = "Sent.",
              .labels = {"peer", "transport"}},
    [DEPTH] = {.name = "kvferry_depth", .type = KVF_METRIC_GAUGE, .help = "Depth."},
    [SECONDS] = {.name = "kvferry_wait_seconds",
                 .type = KVF_METRIC_HISTOGRAM,
                 .help = "Wait.",
                 .labels = {"peer"},
                 .buckets = bounds,
                 .n_buckets = 3},
};
#define N_FAMILIES (sizeof(families) / sizeof(families[0]))

static int setup(void **state)
{
    struct kvf_metrics *metrics = NULL;
    enum kvf_status status = kvf_metrics_create(families, N_FAMILIES, &metrics);
    *state = metrics;
    return status == KVF_OK ? 0 : -1;
}

static int teardown(void **state)
{
    kvf_metrics_destroy(*state);
    return 0;
}

static struct kvf_series *sent(struct kvf_metrics *metrics, const char *peer)
{
    return kvf_metrics_series(metrics, SENT, (const char *[]){peer, "tcp"});
}

static char *render(const struct kvf_metrics *metrics)
{
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    assert_int_equal(kvf_metrics_render(metrics, out), KVF_OK);
    assert_int_equal(fclose(out), 0);
    return text;
}

static void expect_line(const struct kvf_metrics *metrics, const char *line)
{
    char *text = render(metrics);
    if (strstr(text, line) == NULL) {
        fail_msg("no '%s' in:\n%s", line, text);
    }
    free(text);
}

static void test_text_is_exact(void **state)
{
    kvf_series_add(sent(*state, "b"), 2);
    kvf_series_add(sent(*state, "a"), 0.5);
    kvf_series_set(kvf_metrics_series(*state, DEPTH, NULL), -3);
    struct kvf_series *wait = kvf_metrics_series(*state, SECONDS, (const char *[]){"a"});
    kvf_series_observe(wait, 0.1);
    kvf_series_observe(wait, 0.00001);
    kvf_series_observe(wait, 60);
    char *text = render(*state);
    assert_string_equal(text, "# HELP kvferry_sent_total Sent.\n"
                              "# TYPE kvferry_sent_total counter\n"
                              "kvferry_sent_total{peer=\"b\",transport=\"tcp\"} 2\n"
                              "kvferry_sent_total{peer=\"a\",transport=\"tcp\"} 0.5\n"
                              "# HELP kvferry_depth Depth.\n"
                              "# TYPE kvferry_depth gauge\n"
                              "kvferry_depth -3\n"
                              "# HELP kvferry_wait_seconds Wait.\n"
                              "# TYPE kvferry_wait_seconds histogram\n"
                              "kvferry_wait_seconds_bucket{peer=\"a\",le=\"5e-05\"} 1\n"
                              "kvferry_wait_seconds_bucket{peer=\"a\",le=\"0.1\"} 2\n"
                              "kvferry_wait_seconds_bucket{peer=\"a\",le=\"30\"} 2\n"
                              "kvferry_wait_seconds_bucket{peer=\"a\",le=\"+Inf\"} 3\n"
                              "kvferry_wait_seconds_sum{peer=\"a\"} 60.10001\n"
                              "kvferry_wait_seconds_count{peer=\"a\"} 3\n"
                              "# HELP kvferry_metric_series_dropped_total Requests for a "
                              "series beyond the ceiling.\n"
                              "# TYPE kvferry_metric_series_dropped_total counter\n"
                              "kvferry_metric_series_dropped_total 0\n");
    free(text);
}

static void test_family_without_labels_starts_at_zero(void **state)
{
    expect_line(*state, "\nkvferry_depth 0\n");
}

static void test_same_labels_are_the_same_series(void **state)
{
    assert_ptr_equal(sent(*state, "a"), sent(*state, "a"));
    assert_ptr_not_equal(sent(*state, "a"), sent(*state, "b"));
    kvf_series_add(sent(*state, "a"), 1);
    kvf_series_add(sent(*state, "a"), 2);
    assert_true(kvf_series_get(sent(*state, "a")) == 3);
}

static void test_label_values_are_escaped(void **state)
{
    kvf_series_add(sent(*state, "a\"\\\n"), 1);
    expect_line(*state,
                "kvferry_sent_total{peer=\"a\\\"\\\\\\n\",transport=\"tcp\"} 1\n");
}

static void test_values_that_look_joined_stay_apart(void **state)
{
    const char *first[] = {"a\",transport=\"b", "c"};
    const char *second[] = {"a", "b\",transport=\"c"};
    assert_ptr_not_equal(kvf_metrics_series(*state, SENT, first),
                         kvf_metrics_series(*state, SENT, second));
}

static void test_large_and_odd_numbers_keep_their_value(void **state)
{
    struct kvf_series *depth = kvf_metrics_series(*state, DEPTH, NULL);
    kvf_series_set(depth, 61203283968.0);
    expect_line(*state, "\nkvferry_depth 61203283968\n");
    kvf_series_set(depth, 0.1 + 0.2);
    expect_line(*state, "\nkvferry_depth 0.30000000000000004\n");
    kvf_series_set(depth, (double)NAN);
    expect_line(*state, "\nkvferry_depth NaN\n");
    kvf_series_set(depth, -(double)INFINITY);
    expect_line(*state, "\nkvferry_depth -Inf\n");
}

static void test_series_beyond_the_ceiling_go_to_a_sink(void **state)
{
    char peer[16];
    for (int i = 0; i < 1499; i++) { /* kvferry_depth is one */
        (void)snprintf(peer, sizeof(peer), "p%d", i);
        kvf_series_add(sent(*state, peer), 1);
    }
    assert_true(kvf_series_get(sent(*state, "p7")) == 1);
    kvf_series_add(sent(*state, "late"), 1);
    kvf_series_observe(kvf_metrics_series(*state, SECONDS, (const char *[]){"late"}), 1);
    expect_line(*state, "kvferry_metric_series_dropped_total 2\n");
    char *text = render(*state);
    assert_null(strstr(text, "late"));
    free(text);
}

static void test_labels_too_long_go_to_a_sink(void **state)
{
    char peer[1024];
    memset(peer, 'x', sizeof(peer) - 1);
    peer[sizeof(peer) - 1] = '\0';
    kvf_series_add(sent(*state, peer), 1);
    expect_line(*state, "kvferry_metric_series_dropped_total 1\n");
}

static void test_no_memory_goes_to_a_sink_and_recovers(void **state)
{
    for (uint64_t nth = 1; nth <= 3; nth++) { /* the series, then uthash's table */
        kvf_alloc_fail_nth(nth);
        kvf_series_add(sent(*state, "a"), 1);
        kvf_alloc_fail_nth(0);
    }
    kvf_series_set(sent(*state, "a"), 5);
    expect_line(*state, "kvferry_sent_total{peer=\"a\",transport=\"tcp\"} 5\n");
}

static void test_create_without_memory_leaves_nothing(void **state)
{
    struct kvf_metrics *metrics = NULL;
    (void)state;
    for (uint64_t nth = 1; nth <= 2; nth++) {
        kvf_alloc_fail_nth(nth);
        assert_int_equal(kvf_metrics_create(families, N_FAMILIES, &metrics),
                         KVF_NO_MEMORY);
        kvf_alloc_fail_nth(0);
        assert_null(metrics);
    }
}

static void test_a_full_stream_is_an_error(void **state)
{
    char small[16];
    FILE *out = fmemopen(small, sizeof(small), "w");
    assert_int_not_equal(kvf_metrics_render(*state, out), KVF_OK);
    (void)fclose(out);
}

static void test_families_are_found_by_name(void **state)
{
    size_t family = 77;
    assert_false(kvf_metrics_find(*state, "kvferry_nothing", &family));
    assert_int_equal(family, 77);
    assert_true(kvf_metrics_find(*state, "kvferry_depth", &family));
    assert_int_equal(family, DEPTH);
}

static void test_promtool_accepts_the_text(void **state)
{
    if (system("command -v promtool >/dev/null 2>&1") != 0) {
        skip();
    }
    kvf_series_add(sent(*state, "a\"\\\n"), 1);
    kvf_series_observe(kvf_metrics_series(*state, SECONDS, (const char *[]){"a"}), 1);
    FILE *promtool = popen("promtool check metrics", "w");
    assert_non_null(promtool);
    assert_int_equal(kvf_metrics_render(*state, promtool), KVF_OK);
    assert_int_equal(pclose(promtool), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_text_is_exact),
        TEST(test_family_without_labels_starts_at_zero),
        TEST(test_same_labels_are_the_same_series),
        TEST(test_label_values_are_escaped),
        TEST(test_values_that_look_joined_stay_apart),
        TEST(test_large_and_odd_numbers_keep_their_value),
        TEST(test_series_beyond_the_ceiling_go_to_a_sink),
        TEST(test_labels_too_long_go_to_a_sink),
        TEST(test_no_memory_goes_to_a_sink_and_recovers),
        TEST(test_create_without_memory_leaves_nothing),
        TEST(test_a_full_stream_is_an_error),
        TEST(test_families_are_found_by_name),
        TEST(test_promtool_accepts_the_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
