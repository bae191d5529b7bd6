/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HTTP side: an observe listener (GET only) and an admin listener, served by
 * libmicrohttpd on the daemon's loop in bounded slices. It knows nothing of transfers;
 * the daemon hands in kvf_admin_ops, which fill plain structs, and this folder turns them
 * into JSON, CSV and Prometheus text. Loop thread.
 */
#ifndef KVF_ADMIN_ADMIN_H
#define KVF_ADMIN_ADMIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kvferry/status.h>

#include "base/loop.h"
#include "base/sock.h"

#include "admin/metric.h"

#define KVF_ADMIN_TEXT   192
#define KVF_ADMIN_NAME   64
#define KVF_ADMIN_PHASES 12

struct kvf_admin_check { /* one line of /readyz?verbose */
    char name[KVF_ADMIN_NAME];
    bool is_ok;
    bool is_warning; /* shown, does not make the daemon unready */
    char detail[KVF_ADMIN_TEXT];
};

struct kvf_admin_status {
    char node[KVF_ADMIN_NAME],
        state[16]; /* "starting", "ready", "draining", "stopping" */
    double uptime_seconds;
    uint64_t n_in_flight, n_queued, n_completed, n_failed, n_cancelled;
    bool is_insecure;
};
struct kvf_admin_engine {
    char name[128], instance[KVF_ADMIN_NAME], role[16], state[16], memory[8];
    uint32_t rank, pid, n_pools;
    uint64_t pool_bytes, n_requests;
};
struct kvf_admin_peer {
    char name[KVF_ADMIN_NAME], state[16], address[KVF_ADMIN_NAME];
    char wanted[16], transport[16], lane[32]; /* transport in use; "" when down */
    char reason[KVF_ADMIN_TEXT];              /* why it is not up, "" otherwise */
    double rtt_seconds;
    uint64_t n_in_flight, bytes_sent, bytes_received, n_reconnects;
};
struct kvf_admin_phase {
    const char *name; /* static */
    uint64_t start_ns, duration_ns;
};
struct kvf_admin_request {
    uint64_t sequence; /* order of acceptance; the paging key */
    uint64_t request_id;
    uint32_t attempt;
    char label[65], trace_id[33], direction[8], peer[KVF_ADMIN_NAME], engine[128];
    char state[16];  /* "queued", "streaming", ... "done" */
    char status[24]; /* kvf_status_name once terminal, "" before */
    char detail[KVF_ADMIN_TEXT];
    char path[32], transport[16], lane[32];
    bool is_live;
    uint64_t n_blocks, n_runs, n_bytes, n_bytes_done, accepted_wall_ns, duration_ns;
    struct kvf_admin_phase phases[KVF_ADMIN_PHASES];
    size_t n_phases;
};
struct kvf_admin_filter {
    bool want_active, want_done, want_failed;
    const char *peer, *engine; /* NULL: any */
    uint64_t since;            /* sequence greater than */
    size_t limit;
};
struct kvf_admin_version {
    const char *version, *commit, *ucx_version, *cuda; /* NULL: absent */
    uint32_t control_min, control_max, engine_min, engine_max;
};

/* CSV of finished transfers, oldest first. The cursor is the sequence of the last row
 * read. */
enum kvf_admin_timings { KVF_ADMIN_TIMINGS_KVFERRY = 0, KVF_ADMIN_TIMINGS_TRTLLM = 1 };

struct kvf_admin_ops {
    size_t (*checks)(void *owner, struct kvf_admin_check *out, size_t max);
    void (*status)(void *owner, struct kvf_admin_status *out);
    size_t (*engines)(void *owner, struct kvf_admin_engine *out, size_t max);
    size_t (*peers)(void *owner, struct kvf_admin_peer *out, size_t max);
    void (*version)(void *owner, struct kvf_admin_version *out);
    /* Items in sequence order; *out_next is the `since` of the next page, 0 at the end.
     */
    size_t (*requests)(void *owner, const struct kvf_admin_filter *filter,
                       struct kvf_admin_request *out, size_t max, uint64_t *out_next);
    /* All entries (both directions, all attempts) of an id; text is a decimal id or a
     * label. */
    size_t (*request)(void *owner, const char *id, struct kvf_admin_request *out,
                      size_t max);
    /* Cancels every live transfer of the id. OK: cancelling; TOO_LATE: already ended;
     * NOT_FOUND. */
    enum kvf_status (*cancel)(void *owner, const char *id, const char *who);
    size_t (*timings_header)(void *owner, enum kvf_admin_timings format, char *out,
                             size_t max);
    /* Whole rows only; returns bytes, 0 at the end; advances *cursor. */
    size_t (*timings_rows)(void *owner, enum kvf_admin_timings format, uint64_t *cursor,
                           char *out, size_t max);
    /* Brings gauges up to date before /metrics is rendered. */
    void (*collect)(void *owner);
    struct kvf_metrics *(*metrics)(void *owner);
};

struct kvf_admin_config {
    struct kvf_loop *loop;             /* borrowed */
    const struct kvf_address *observe; /* borrowed during the call; port 0 binds any */
    const struct kvf_address *admin;
    const char *token_file; /* "": none */
    bool is_insecure;       /* admin beyond loopback without a token: refuse unless set */
    const char *const *allow_hosts;
    size_t n_allow_hosts;
    const struct kvf_admin_ops *ops; /* borrowed for life */
    void *owner;
};

struct kvf_admin;
/* CONFIG with the reason logged when a listener cannot be opened as asked. */
enum kvf_status KVF_MUST_CHECK kvf_admin_open(const struct kvf_admin_config *config,
                                              struct kvf_admin **out);
void kvf_admin_close(struct kvf_admin *admin); /* accepts NULL */
uint16_t kvf_admin_observe_port(const struct kvf_admin *admin);
uint16_t kvf_admin_admin_port(const struct kvf_admin *admin); /* 0 for a unix socket */

#endif
