/* SPDX-License-Identifier: Apache-2.0 */
/* What the demo says: the plan, a progress line on a terminal, the table. */
#include "examples/demo.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void demo_report_plan(const struct demo_options *options, const struct demo_plan *plan)
{
    uint64_t n_bytes = 0;
    for (size_t i = 0; i < plan->n_shapes; i++) {
        const struct shape *shape = &plan->shapes[i];
        n_bytes += DEMO_SIDES * shape_pool_bytes(shape);
        (void)printf("%-14s %3u of %u layers (factor %.3f), %u KV heads of %u, %.1f KiB "
                     "per block of %u tokens, pools of 2 x %.0f MiB\n",
                     shape->name, shape->n_layers, plan->model_layers[i],
                     (double)shape->n_layers / plan->model_layers[i], shape->n_heads,
                     shape->head_dim, (double)shape_block_bytes(shape) / 1024.0,
                     shape->tokens_per_block,
                     (double)shape_pool_bytes(shape) / 1048576.0);
    }
    (void)printf("%zu requests%s%s a round, the longest of %u tokens, %.2f GiB of pools, "
                 "seed %" PRIu64 "\n",
                 plan->n_jobs, plan->is_trace ? " of " : "",
                 plan->is_trace ? options->trace_file : "", plan->max_tokens,
                 (double)n_bytes / 1073741824.0, options->seed);
    (void)fflush(stdout);
}

void demo_report_progress(const struct demo_round *round)
{
    if (isatty(STDOUT_FILENO) == 0) {
        return;
    }
    const struct demo_run *run = &round->run;
    double seconds = (double)(demo_now_ns() - run->started_ns) / 1e9;
    const struct demo_job *job = &run->jobs[run->n_ended < run->n ? run->n_ended : 0];
    (void)printf("\r%-8s %-14s %zu/%zu requests, %.2f GB, %.2f GB/s, %.0f s\033[K",
                 round->transport, round->plan->shapes[job->shape].name, run->n_ended,
                 run->n, (double)run->n_moved_bytes / 1e9,
                 (double)run->n_moved_bytes / 1e9 / (seconds > 0.001 ? seconds : 1),
                 seconds);
    (void)fflush(stdout);
}

void demo_report_progress_end(void)
{
    if (isatty(STDOUT_FILENO) != 0) {
        (void)printf("\r\033[K");
        (void)fflush(stdout);
    }
}

/* ---- the table */

struct span {
    uint64_t begin_ns, end_ns;
};

static int compare_spans(const void *a, const void *b)
{
    const struct span *left = a, *right = b;
    return (left->begin_ns > right->begin_ns) - (left->begin_ns < right->begin_ns);
}

static int compare_counts(const void *a, const void *b)
{
    const uint64_t *left = a, *right = b;
    return (*left > *right) - (*left < *right);
}

/* The time in which at least one of them was on the way. */
static uint64_t busy_ns(struct span *spans, size_t n)
{
    uint64_t total_ns = 0, end_ns = 0;
    qsort(spans, n, sizeof(*spans), compare_spans);
    for (size_t i = 0; i < n; i++) {
        uint64_t begin_ns = spans[i].begin_ns > end_ns ? spans[i].begin_ns : end_ns;
        if (spans[i].end_ns > begin_ns) {
            total_ns += spans[i].end_ns - begin_ns;
            end_ns = spans[i].end_ns;
        }
    }
    return total_ns;
}

/* Nearest rank of sorted values. */
static double percentile_ms(const uint64_t *sorted, size_t n, size_t percent)
{
    size_t rank = (n * percent + 99) / 100;
    return (double)sorted[rank > 0 ? rank - 1 : 0] / 1e6;
}

struct row {
    struct span *spans;  /* owns; [n] */
    uint64_t *durations; /* owns; [n] */
    size_t n;
    uint64_t n_bytes, n_held_bytes;
    char path[DEMO_TEXT_MAX];
};

static void add_job(struct row *row, const struct demo_job *job,
                    const struct shape *shape)
{
    if (strcmp(job->status[DEMO_DECODE], "OK") != 0) {
        return;
    }
    row->spans[row->n] = (struct span){.begin_ns = job->start_ns,
                                       .end_ns = job->start_ns + job->duration_ns};
    row->durations[row->n] = job->duration_ns;
    row->n++;
    row->n_bytes += job->n_bytes;
    row->n_held_bytes += job->n_held_tokens * shape_token_bytes(shape);
    if (row->path[0] == '\0') {
        memcpy(row->path, job->path, sizeof(row->path));
    } else if (strcmp(row->path, job->path) != 0) {
        (void)snprintf(row->path, sizeof(row->path), "several");
    }
}

static void print_row(const struct demo_round *round, size_t shape, struct row *row)
{
    qsort(row->durations, row->n, sizeof(*row->durations), compare_counts);
    uint64_t time_ns = busy_ns(row->spans, row->n);
    (void)printf("%-14s %-9s %8zu %14" PRIu64 " %14" PRIu64 " %9.2f %9.2f %6.2f  %s\n",
                 round->plan->shapes[shape].name, round->transport, row->n, row->n_bytes,
                 row->n_held_bytes, percentile_ms(row->durations, row->n, 50),
                 percentile_ms(row->durations, row->n, 99),
                 time_ns > 0 ? (double)row->n_bytes / (double)time_ns : 0.0, row->path);
}

static void report_shape(const struct demo_round *round, size_t shape)
{
    const struct demo_plan *plan = round->plan;
    struct row row = {.spans = calloc(plan->n_jobs, sizeof(*row.spans)),
                      .durations = calloc(plan->n_jobs, sizeof(*row.durations))};
    bool has_memory = row.spans != NULL && row.durations != NULL && round->jobs != NULL;
    for (size_t i = 0; has_memory && i < plan->n_jobs; i++) {
        if (round->jobs[i].shape == shape) {
            add_job(&row, &round->jobs[i], &plan->shapes[shape]);
        }
    }
    if (has_memory && row.n > 0) {
        print_row(round, shape, &row);
    }
    free(row.spans);
    free(row.durations);
}

void demo_report_table(const struct demo_round *rounds, size_t n_rounds)
{
    (void)printf("%-14s %-9s %8s %14s %14s %9s %9s %6s  %s\n", "shape", "transport",
                 "requests", "bytes moved", "bytes reused", "p50 ms", "p99 ms", "GB/s",
                 "path");
    for (size_t i = 0; i < n_rounds; i++) {
        for (size_t shape = 0; shape < rounds[i].plan->n_shapes; shape++) {
            report_shape(&rounds[i], shape);
        }
    }
}
