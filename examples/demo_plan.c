/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the demo moves. Head counts, head sizes and block sizes are those of the models;
 * layers, and where that is not enough tokens, are scaled so that all pools together stay
 * within the memory allowed.
 */
#include "examples/demo.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/demo_trace.h"
#include "examples/pattern.h"

#define PROMPT_TOKENS    4096u /* the longest one that is made up */
#define PROMPTS_PER_POOL 3u
#define TRACE_PER_POOL   2u /* of the longest: two requests must overlap */

static const struct {
    struct shape shape;
    const char *variable; /* in deploy/ */
} models[] = {
    {{.name = "llama-3.1-8b",
      .n_layers = 32,
      .n_heads = 8,
      .head_dim = 128,
      .kv_factor = 2,
      .tokens_per_block = 64},
     "KVFERRY_LAYERS_8B"},
    {{.name = "llama-3.1-70b",
      .n_layers = 80,
      .n_heads = 8,
      .head_dim = 128,
      .kv_factor = 2,
      .tokens_per_block = 64},
     "KVFERRY_LAYERS_70B"},
    {{.name = "deepseek-v3",
      .n_layers = 61,
      .n_heads = 1,
      .head_dim = 576,
      .kv_factor = 1,
      .tokens_per_block = 64},
     "KVFERRY_LAYERS_V3"},
};
#define N_MODELS (sizeof(models) / sizeof(models[0]))

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t layer_token_bytes(const struct shape *shape)
{
    return shape_row_bytes(shape) * shape->kv_factor * shape->n_heads;
}

/* Layers such that token_budget tokens fit into bytes; at least one. */
static uint32_t fitting_layers(const struct shape *shape, uint64_t bytes,
                               uint64_t token_budget)
{
    uint64_t n = bytes / (token_budget * layer_token_bytes(shape));
    return n > 0 ? (uint32_t)smaller(n, shape->n_layers) : 1;
}

/* Takes the first n models into the plan. */
static bool scale_shapes(const struct demo_options *options, size_t n,
                         uint64_t token_budget, struct demo_plan *plan)
{
    uint64_t pool_bytes = options->pool_bytes / (DEMO_SIDES * n);
    plan->n_shapes = n;
    for (size_t i = 0; i < n; i++) {
        struct shape *shape = &plan->shapes[i];
        *shape = models[i].shape;
        plan->model_layers[i] = shape->n_layers;
        shape->n_layers = options->n_layers > 0
                              ? (uint32_t)smaller(options->n_layers, shape->n_layers)
                              : fitting_layers(shape, pool_bytes, token_budget);
        shape->n_blocks =
            (uint32_t)smaller(pool_bytes / shape_block_bytes(shape), SHAPE_BLOCKS_MAX);
        if (shape->n_blocks < 2) {
            (void)fprintf(stderr,
                          "demo: a pool of %s with %u layers does not fit into %" PRIu64
                          " bytes: lower --layers or raise --pool-bytes\n",
                          shape->name, shape->n_layers, pool_bytes);
            return false;
        }
    }
    return true;
}

/* ---- made up prompts */

static bool make_prompts(const struct demo_options *options, struct demo_plan *plan)
{
    if (!scale_shapes(options, N_MODELS, (uint64_t)PROMPT_TOKENS * PROMPTS_PER_POOL,
                      plan)) {
        return false;
    }
    plan->max_tokens = PROMPT_TOKENS;
    for (size_t i = 0; i < plan->n_shapes; i++) {
        const struct shape *shape = &plan->shapes[i];
        uint32_t n_tokens = shape->n_blocks / 2 * shape->tokens_per_block;
        plan->max_tokens = (uint32_t)smaller(plan->max_tokens, n_tokens);
    }
    plan->n_jobs = plan->n_shapes * options->n_requests;
    plan->jobs = plan->n_jobs > 0 ? calloc(plan->n_jobs, sizeof(*plan->jobs)) : NULL;
    if (plan->jobs == NULL) {
        return false;
    }
    uint64_t random = options->seed;
    for (size_t i = 0; i < plan->n_jobs; i++) {
        random = pattern_key(random, i);
        uint32_t least = plan->max_tokens / 8 + 1;
        plan->jobs[i] = (struct demo_job){
            .shape = i / options->n_requests,
            .n_tokens = least + (uint32_t)(random % (plan->max_tokens - least + 1))};
    }
    return true;
}

/* ---- prompts of a trace */

static bool take_trace(const struct demo_options *options, struct trace *trace,
                       struct demo_plan *plan)
{
    uint64_t n_tokens = 0;
    assert(trace->n > 0); /* trace_load() gives no empty ones */
    for (size_t i = 0; i < trace->n; i++) {
        uint32_t n = trace->requests[i].n_tokens;
        plan->max_tokens = n > plan->max_tokens ? n : plan->max_tokens;
        n_tokens += n;
    }
    /* Layers for the larger of the two limits: pools, and bytes to move. */
    uint64_t pool_bytes = options->pool_bytes / DEMO_SIDES;
    uint64_t by_volume =
        (uint64_t)((double)n_tokens * ((double)pool_bytes / (double)options->max_bytes));
    uint64_t by_length = (uint64_t)plan->max_tokens * TRACE_PER_POOL;
    if (!scale_shapes(options, 1, by_volume > by_length ? by_volume : by_length, plan)) {
        return false;
    }
    const struct shape *shape = &plan->shapes[0];
    if (shape_blocks_for(shape, plan->max_tokens) > shape->n_blocks) {
        (void)fprintf(stderr,
                      "demo: the longest prompt of the trace has %u tokens, a pool of "
                      "%u layers holds %u: lower --layers or raise --pool-bytes\n",
                      plan->max_tokens, shape->n_layers,
                      shape->n_blocks * shape->tokens_per_block);
        return false;
    }
    plan->jobs = calloc(trace->n, sizeof(*plan->jobs));
    if (plan->jobs == NULL) {
        return false;
    }
    uint64_t n_bytes = 0;
    for (size_t i = 0; i < trace->n; i++) {
        const struct trace_request *request = &trace->requests[i];
        n_bytes += request->n_tokens * shape_token_bytes(shape);
        if (options->has_max_bytes && n_bytes > options->max_bytes) {
            (void)printf("trace ends after %zu of %zu requests: --max-bytes\n", i,
                         trace->n);
            break;
        }
        uint64_t after_ms = request->timestamp_ms - trace->requests[0].timestamp_ms;
        plan->jobs[plan->n_jobs++] = (struct demo_job){
            .n_tokens = request->n_tokens,
            .keys = trace->keys + request->first_key,
            .n_keys = request->n_keys,
            .arrival_ns = (uint64_t)((double)after_ms / options->speedup * 1e6)};
    }
    plan->keys = trace->keys;
    trace->keys = NULL;
    return plan->n_jobs > 0;
}

static bool read_prompts(const struct demo_options *options, struct demo_plan *plan)
{
    struct trace trace;
    plan->is_trace = true;
    if (!trace_load(options->trace_file, options->limit, &trace)) {
        return false;
    }
    bool is_good = take_trace(options, &trace, plan);
    trace_fini(&trace);
    return is_good;
}

bool demo_plan_make(const struct demo_options *options, struct demo_plan *out)
{
    *out = (struct demo_plan){.n_shapes = 0};
    bool is_good = options->trace_file != NULL ? read_prompts(options, out)
                                               : make_prompts(options, out);
    if (!is_good) {
        demo_plan_fini(out);
    }
    return is_good;
}

void demo_plan_fini(struct demo_plan *plan)
{
    free(plan->jobs);
    free(plan->keys);
    *plan = (struct demo_plan){.n_shapes = 0};
}

bool demo_plan_export(const struct demo_plan *plan)
{
    for (size_t i = 0; i < plan->n_shapes; i++) {
        char text[16];
        (void)snprintf(text, sizeof(text), "%" PRIu32, plan->shapes[i].n_layers);
        if (setenv(models[i].variable, text, 1) != 0) {
            return false;
        }
    }
    return true;
}
