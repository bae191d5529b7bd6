/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One transfer cancelled over HTTP while its bytes are moving: a prompt that nearly fills
 * the pool, DELETE on the prefill node's admin listener once the daemon shows bytes on
 * the way, and then both engines must say CANCELLED. A transfer that was faster is an
 * ordinary one, and the next try follows.
 */
#include "examples/demo.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "examples/demo_http.h"

#define FIRST_ID       1000000000ull /* above those of all jobs */
#define TRIES          5u
#define HTTP_LIMIT_MS  5000u
#define STEP_MS        20
#define WATCH_LIMIT_NS (5 * DEMO_NS_PER_S)
#define END_LIMIT_NS   (30 * DEMO_NS_PER_S)

static size_t largest_pool(const struct demo_plan *plan)
{
    size_t largest = 0;
    for (size_t i = 1; i < plan->n_shapes; i++) {
        if (shape_pool_bytes(&plan->shapes[i]) >
            shape_pool_bytes(&plan->shapes[largest])) {
            largest = i;
        }
    }
    return largest;
}

/* Bytes of the request that have moved; false: it is not live any more. */
static bool is_live(const struct http_answer *answer, uint64_t *out_bytes)
{
    json_t *request = json_loads(answer->body, 0, NULL);
    int live = 0;
    json_int_t n_bytes = 0;
    bool is_good = json_unpack(request, "{s:[{s:b, s:I}]}", "items", "live", &live,
                               "bytes_done", &n_bytes) == 0 &&
                   live != 0;
    json_decref(request);
    *out_bytes = is_good ? (uint64_t)n_bytes : 0;
    return is_good;
}

/* Waits until bytes move. False: it ended before that was seen, or it cannot be seen. */
static bool watch(const char *admin_path, const char *target)
{
    static struct http_answer answer;
    uint64_t limit_ns = demo_now_ns() + WATCH_LIMIT_NS;
    uint64_t n_bytes = 0;
    while (n_bytes == 0 && demo_now_ns() < limit_ns) {
        if (!http_call(admin_path, "GET", target, HTTP_LIMIT_MS, &answer) ||
            answer.status != 200 || !is_live(&answer, &n_bytes)) {
            return false;
        }
    }
    return n_bytes > 0;
}

static bool cancel(struct demo_round *round, uint64_t id)
{
    static struct http_answer answer;
    char admin_path[DEMO_FILE_MAX], target[64];
    demo_round_admin_path(round, DEMO_PREFILL, admin_path);
    (void)snprintf(target, sizeof(target), "/v1/requests/%" PRIu64, id);
    if (!watch(admin_path, target)) {
        return true; /* its end will tell */
    }
    (void)snprintf(target, sizeof(target), "/v1/requests/%" PRIu64 "?wait=4s", id);
    uint64_t before_ns = demo_now_ns();
    if (!http_call(admin_path, "DELETE", target, HTTP_LIMIT_MS, &answer) ||
        answer.status / 100 != 2) {
        (void)fprintf(stderr, "demo: DELETE %s was not answered as it should be: %s\n",
                      target, answer.text);
        return false;
    }
    round->cancel_ns = demo_now_ns() - before_ns;
    return true;
}

static bool is_cancelled(const struct demo_job *job, enum demo_side side)
{
    return strcmp(job->status[side], "CANCELLED") == 0;
}

static bool try_once(struct demo_round *round, uint64_t id, struct demo_job *job)
{
    struct demo_run *run = &round->run;
    *run = (struct demo_run){.jobs = job,
                             .n = 1,
                             .first_id = id,
                             .started_ns = demo_now_ns(),
                             .may_be_cancelled = true};
    if (!demo_router_submit(round, job)) {
        return false;
    }
    uint64_t limit_ns = demo_now_ns() + END_LIMIT_NS;
    bool is_asked = false;
    while (run->n_ended == 0) {
        if (!demo_router_pump(round, STEP_MS)) {
            return false;
        }
        if (run->begun_id == id && !is_asked) {
            is_asked = true;
            if (!cancel(round, id)) {
                return false;
            }
        }
        if (demo_now_ns() > limit_ns) {
            (void)fprintf(stderr, "demo: a request that was cancelled does not end\n");
            return false;
        }
    }
    if (is_cancelled(job, DEMO_PREFILL) != is_cancelled(job, DEMO_DECODE)) {
        (void)fprintf(stderr, "demo: prefill says %s, decode says %s\n",
                      job->status[DEMO_PREFILL], job->status[DEMO_DECODE]);
        return false;
    }
    return true;
}

bool demo_cancel_one(struct demo_round *round)
{
    size_t shape = largest_pool(round->plan);
    uint32_t n_blocks = round->plan->shapes[shape].n_blocks;
    /* Not a whole number of blocks, and some blocks stay free to be looked at. */
    uint32_t n_tokens =
        (n_blocks - n_blocks / 16) * round->plan->shapes[shape].tokens_per_block - 1;
    for (uint64_t i = 0; i < TRIES && round->n_cancelled == 0; i++) {
        struct demo_job job = {.shape = shape, .n_tokens = n_tokens};
        if (!try_once(round, FIRST_ID + i, &job)) {
            return false;
        }
        round->n_cancelled += is_cancelled(&job, DEMO_DECODE) ? 1 : 0;
    }
    if (round->n_cancelled == 0) {
        (void)fprintf(stderr, "demo: every transfer was faster than its cancel\n");
        return false;
    }
    (void)printf(
        "cancelled a transfer of %.0f MiB of %s in flight, answered in %.1f ms\n",
        (double)n_tokens * (double)shape_token_bytes(&round->plan->shapes[shape]) /
            1048576.0,
        round->plan->shapes[shape].name, (double)round->cancel_ns / 1e6);
    return true;
}
