/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of the demo. demo.c parses options and judges the result; demo_plan.c decides
 * what is moved (shapes scaled to memory, prompts made up or read from a trace);
 * demo_round.c starts the processes of one round and stops them; demo_router.c carries
 * offers from the prefill engine to the decode engine and counts what happens;
 * demo_cancel.c cancels one transfer over HTTP; demo_report.c prints. One thread.
 */
#ifndef KVF_EXAMPLES_DEMO_H
#define KVF_EXAMPLES_DEMO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "examples/channel.h"
#include "examples/demo_process.h"
#include "examples/shape.h"

#define DEMO_SHAPES_MAX 4
#define DEMO_ROUNDS_MAX 2
#define DEMO_FILE_MAX   256
#define DEMO_TEXT_MAX   40
#define DEMO_NS_PER_S   1000000000ull
#define DEMO_NS_PER_MS  1000000ull

struct demo_options {
    bool wants_ucx, wants_tcp, wants_keep;
    bool has_max_bytes;  /* else a trace may exceed max_bytes at its one layer */
    uint32_t n_layers;   /* 0: chosen so that everything fits */
    uint32_t n_requests; /* per shape, without a trace */
    uint64_t seed, max_bytes, pool_bytes, limit;
    double speedup;
    const char *trace_file; /* NULL: prompts are made up */
    char bin[DEMO_FILE_MAX], deploy[DEMO_FILE_MAX];
};

enum demo_side { DEMO_PREFILL, DEMO_DECODE, DEMO_SIDES };

/* One prompt and what became of it. */
struct demo_job {
    size_t shape;
    uint32_t n_tokens;
    const uint64_t *keys; /* [n_keys], borrows from the plan; none: unique content */
    uint32_t n_keys;
    uint64_t arrival_ns; /* from the start of the run */

    char status[DEMO_SIDES][DEMO_TEXT_MAX]; /* name of an enum kvf_status; "": live */
    char path[DEMO_TEXT_MAX];               /* of the receiving side */
    uint64_t n_bytes, start_ns, duration_ns, n_held_tokens, n_checked, n_wrong;
};

struct demo_plan {
    struct shape shapes[DEMO_SHAPES_MAX];
    uint32_t model_layers[DEMO_SHAPES_MAX]; /* what the models really have */
    size_t n_shapes;
    uint32_t max_tokens;
    struct demo_job *jobs; /* owns; [n_jobs], those of one shape stand together */
    size_t n_jobs;
    uint64_t *keys; /* owns; of all jobs */
    bool is_trace;
};

/* What the router is busy with: jobs with ids from first_id. */
struct demo_run {
    struct demo_job *jobs; /* borrows; [n] */
    size_t n, n_sent, n_ended;
    uint64_t first_id, begun_id, started_ns, n_moved_bytes;
    bool may_be_cancelled;
};

struct demo_round {
    const struct demo_options *options; /* borrows */
    const struct demo_plan *plan;       /* borrows */
    const char *transport;              /* as in data.prefer */
    struct demo_job *jobs;              /* owns; [plan->n_jobs] */
    char directory[DEMO_FILE_MAX];      /* sockets and logs, ours alone */
    uint16_t first_port;
    struct process daemons[DEMO_SIDES], engines[DEMO_SIDES];
    struct channel channels[DEMO_SIDES];
    int signal_fd; /* borrows; readable: somebody wants us to stop */
    bool is_interrupted;
    struct demo_run run;
    uint32_t n_ready, n_audited;
    uint64_t n_audited_bytes, n_wrong, n_ok, n_verified_bytes;
    uint64_t n_cancelled, cancel_ns; /* from the HTTP request to its answer */
};

/* ---- demo_plan.c. False: said why, here and everywhere below. */
bool demo_plan_make(const struct demo_options *options, struct demo_plan *out);
void demo_plan_fini(struct demo_plan *plan); /* accepts a zeroed one */
/* Sets the variables by which the YAML in deploy/ learns the layers. */
bool demo_plan_export(const struct demo_plan *plan);

/* ---- demo_round.c */
bool demo_round_start(struct demo_round *round);
/* Ends everything, or all but the daemons. The folder goes too, unless something failed
 * or the daemons stay; then the ends of the logs are printed, or where to find what. */
bool demo_round_stop(struct demo_round *round, bool has_failed);
void demo_round_fini(struct demo_round *round);
void demo_round_admin_path(const struct demo_round *round, enum demo_side side,
                           char out_path[DEMO_FILE_MAX]);

/* ---- demo_router.c */
uint64_t demo_now_ns(void);
/* Waits up to wait_ms for the engines and for signals, and does what their lines say.
 * False: an engine ended or reported what must not be, or we were interrupted. */
bool demo_router_pump(struct demo_round *round, int wait_ms);
bool demo_router_submit(struct demo_round *round, struct demo_job *job);
bool demo_router_run(struct demo_round *round, size_t first, size_t n);
bool demo_router_await_ready(struct demo_round *round);
bool demo_router_audit(struct demo_round *round);

/* ---- demo_cancel.c */
bool demo_cancel_one(struct demo_round *round);

/* ---- demo_report.c */
void demo_report_plan(const struct demo_options *options, const struct demo_plan *plan);
void demo_report_progress(const struct demo_round *round);
void demo_report_progress_end(void);
void demo_report_table(const struct demo_round *rounds, size_t n_rounds);

#endif
