/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The router: a prompt goes to the prefill engine, its offer from there to the decode
 * engine, and both ends are waited for. Everything that waits here waits in pump(), where
 * engines and signals are heard.
 */
#include "examples/demo.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LIVE_MAX        4u /* more would wait for blocks or copies anyway */
#define LIVE_MAX_TRACE  8u
#define STEP_MS         50
#define SETUP_LIMIT_NS  (60 * DEMO_NS_PER_S)
/* Made up prompts end early on a slow machine: all in all two minutes are promised. */
#define SUBMIT_LIMIT_NS (12 * DEMO_NS_PER_S)
#define STALL_LIMIT_NS  (60 * DEMO_NS_PER_S) /* without any request ending */

uint64_t demo_now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail on Linux */
    return (uint64_t)now.tv_sec * DEMO_NS_PER_S + (uint64_t)now.tv_nsec;
}

/* ---- lines of engines */

static bool take_number(struct demo_round *round, char **line, struct demo_job **out_job,
                        uint64_t *out_id)
{
    struct demo_run *run = &round->run;
    if (!channel_number(line, out_id) || *out_id < run->first_id ||
        *out_id - run->first_id >= run->n_sent) {
        return false;
    }
    *out_job = &run->jobs[*out_id - run->first_id];
    return true;
}

static bool print_keys(const struct demo_job *job, char *out, size_t max)
{
    size_t n = (size_t)snprintf(out, max, "%s", job->n_keys == 0 ? "-" : "");
    for (uint32_t i = 0; i < job->n_keys && n < max; i++) {
        n += (size_t)snprintf(out + n, max - n, "%s%" PRIu64, i > 0 ? "," : "",
                              job->keys[i]);
    }
    return n < max;
}

static bool send_job(const struct demo_round *round, enum demo_side side, uint64_t id,
                     const struct demo_job *job, const char *params)
{
    static char keys[CHANNEL_LINE_MAX / 3];
    return print_keys(job, keys, sizeof(keys)) &&
           channel_send(&round->channels[side], "%s %" PRIu64 " %zu %" PRIu32 " %s%s%s\n",
                        side == DEMO_PREFILL ? "run" : "take", id, job->shape,
                        job->n_tokens, keys, params[0] != '\0' ? " " : "", params);
}

static bool on_offer(struct demo_round *round, char *line)
{
    uint64_t id;
    struct demo_job *job;
    return take_number(round, &line, &job, &id) && line != NULL &&
           send_job(round, DEMO_DECODE, id, job, line);
}

static bool on_begun(struct demo_round *round, char *line)
{
    struct demo_job *job;
    return take_number(round, &line, &job, &round->run.begun_id);
}

static bool is_expected(const struct demo_round *round, const char *status)
{
    return strcmp(status, "OK") == 0 ||
           (round->run.may_be_cancelled && strcmp(status, "CANCELLED") == 0);
}

static void count_receive(struct demo_round *round, struct demo_job *job, uint64_t id)
{
    if (strcmp(job->status[DEMO_DECODE], "OK") != 0) {
        return;
    }
    round->n_ok++;
    round->n_verified_bytes += job->n_checked;
    round->run.n_moved_bytes += job->n_bytes;
    if (job->n_bytes != job->n_checked) {
        (void)fprintf(stderr,
                      "demo: request %" PRIu64 " reported %" PRIu64 " bytes, its prompt "
                      "has %" PRIu64 "\n",
                      id, job->n_bytes, job->n_checked);
        round->n_wrong++;
    }
}

static bool on_end(struct demo_round *round, enum demo_side side, char *line)
{
    uint64_t id, n_bytes, start_ns, duration_ns, n_held, n_checked, n_wrong;
    struct demo_job *job;
    if (!take_number(round, &line, &job, &id)) {
        return false;
    }
    const char *status = channel_word(&line);
    if (status == NULL || job->status[side][0] != '\0' ||
        !channel_number(&line, &n_bytes) || !channel_number(&line, &start_ns) ||
        !channel_number(&line, &duration_ns) || !channel_number(&line, &n_held) ||
        !channel_number(&line, &n_checked) || !channel_number(&line, &n_wrong) ||
        line == NULL) {
        return false;
    }
    (void)snprintf(job->status[side], sizeof(job->status[side]), "%s", status);
    job->n_wrong += n_wrong;
    round->n_wrong += n_wrong;
    if (side == DEMO_DECODE) {
        (void)snprintf(job->path, sizeof(job->path), "%s", line);
        job->n_bytes = n_bytes;
        job->start_ns = start_ns;
        job->duration_ns = duration_ns;
        job->n_held_tokens = n_held;
        job->n_checked = n_checked;
        count_receive(round, job, id);
    }
    if (job->status[DEMO_PREFILL][0] != '\0' && job->status[DEMO_DECODE][0] != '\0') {
        round->run.n_ended++;
    }
    if (n_wrong > 0 || !is_expected(round, status)) {
        (void)fprintf(stderr,
                      "demo: request %" PRIu64 " of %s ended with %s on the %s side, "
                      "%" PRIu64 " wrong bytes\n",
                      id, round->plan->shapes[job->shape].name, status,
                      side == DEMO_PREFILL ? "prefill" : "decode", n_wrong);
        return false;
    }
    return true;
}

static bool on_audited(struct demo_round *round, char *line)
{
    uint64_t n_checked, n_wrong;
    if (!channel_number(&line, &n_checked) || !channel_number(&line, &n_wrong)) {
        return false;
    }
    round->n_audited++;
    round->n_audited_bytes += n_checked;
    round->n_wrong += n_wrong;
    if (n_wrong > 0) {
        (void)fprintf(stderr, "demo: %" PRIu64 " bytes changed outside of any transfer\n",
                      n_wrong);
    }
    return n_wrong == 0;
}

static bool on_line(struct demo_round *round, enum demo_side side, char *line)
{
    const char *verb = channel_word(&line);
    if (verb == NULL) {
        return false;
    }
    if (strcmp(verb, "offer") == 0 && side == DEMO_PREFILL) {
        return on_offer(round, line);
    }
    if (strcmp(verb, "begun") == 0) {
        return on_begun(round, line);
    }
    if (strcmp(verb, "end") == 0) {
        return on_end(round, side, line);
    }
    if (strcmp(verb, "audited") == 0) {
        return on_audited(round, line);
    }
    round->n_ready += strcmp(verb, "ready") == 0 ? 1 : 0;
    return strcmp(verb, "ready") == 0;
}

static bool read_channel(struct demo_round *round, enum demo_side side)
{
    char *line = NULL;
    enum channel_result result;
    while ((result = channel_next(&round->channels[side], &line)) == CHANNEL_LINE) {
        if (!on_line(round, side, line)) {
            return false;
        }
    }
    if (result == CHANNEL_CLOSED) {
        (void)fprintf(stderr, "demo: the %s ended\n", round->engines[side].name);
    }
    return result == CHANNEL_EMPTY;
}

bool demo_router_pump(struct demo_round *round, int wait_ms)
{
    struct pollfd fds[DEMO_SIDES + 1];
    for (int side = 0; side < DEMO_SIDES; side++) {
        fds[side] = (struct pollfd){.fd = round->engines[side].out_fd, .events = POLLIN};
    }
    fds[DEMO_SIDES] = (struct pollfd){.fd = round->signal_fd, .events = POLLIN};
    (void)poll(fds, DEMO_SIDES + 1, wait_ms); /* a failure is an early wake-up */
    if (fds[DEMO_SIDES].revents != 0) {
        round->is_interrupted = true;
        return false;
    }
    for (int side = 0; side < DEMO_SIDES; side++) {
        if (fds[side].revents != 0 && !read_channel(round, (enum demo_side)side)) {
            return false;
        }
    }
    return true;
}

/* ---- runs */

bool demo_router_submit(struct demo_round *round, struct demo_job *job)
{
    uint64_t id = round->run.first_id + round->run.n_sent;
    round->run.n_sent++;
    return send_job(round, DEMO_PREFILL, id, job, "");
}

static bool submit_due(struct demo_round *round)
{
    struct demo_run *run = &round->run;
    size_t max = round->plan->is_trace ? LIVE_MAX_TRACE : LIVE_MAX;
    uint64_t elapsed_ns = demo_now_ns() - run->started_ns;
    if (!round->plan->is_trace && elapsed_ns > SUBMIT_LIMIT_NS && run->n_sent < run->n) {
        (void)printf("slow: no more than %zu of %zu requests for this shape\n",
                     run->n_sent, run->n);
        run->n = run->n_sent;
    }
    while (run->n_sent < run->n && run->n_sent - run->n_ended < max &&
           run->jobs[run->n_sent].arrival_ns <= elapsed_ns) {
        if (!demo_router_submit(round, &run->jobs[run->n_sent])) {
            return false;
        }
    }
    return true;
}

bool demo_router_run(struct demo_round *round, size_t first, size_t n)
{
    struct demo_run *run = &round->run;
    *run = (struct demo_run){.jobs = round->jobs + first,
                             .n = n,
                             .first_id = first + 1,
                             .started_ns = demo_now_ns()};
    uint64_t n_seen = 0, moved_ns = run->started_ns;
    bool is_good = true;
    while (is_good && run->n_ended < run->n) {
        is_good = submit_due(round) && demo_router_pump(round, STEP_MS);
        demo_report_progress(round);
        bool is_idle = run->n_sent == run->n_ended; /* the trace pauses */
        if (run->n_ended > n_seen || is_idle) {
            n_seen = run->n_ended;
            moved_ns = demo_now_ns();
        } else if (demo_now_ns() - moved_ns > STALL_LIMIT_NS) {
            (void)fprintf(stderr, "demo: no request ended for a minute\n");
            is_good = false;
        }
    }
    demo_report_progress_end();
    return is_good;
}

/* ---- before and after */

static bool await(struct demo_round *round, const uint32_t *count, uint32_t wanted,
                  const char *what)
{
    uint64_t limit_ns = demo_now_ns() + SETUP_LIMIT_NS;
    while (*count < wanted) {
        if (!demo_router_pump(round, STEP_MS)) {
            return false;
        }
        if (demo_now_ns() > limit_ns) {
            (void)fprintf(stderr, "demo: %s took too long\n", what);
            return false;
        }
    }
    return true;
}

bool demo_router_await_ready(struct demo_round *round)
{
    return await(round, &round->n_ready, DEMO_SIDES, "registering the pools");
}

bool demo_router_audit(struct demo_round *round)
{
    for (int side = 0; side < DEMO_SIDES; side++) {
        if (!channel_send(&round->channels[side], "audit\n")) {
            return false;
        }
    }
    return await(round, &round->n_audited, round->n_audited + DEMO_SIDES, "the audit");
}
