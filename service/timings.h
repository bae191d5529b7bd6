/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Timing rows of ended transfers: one per (request, counterpart), kept in a ring for HTTP
 * and optionally written to CSV files by a writer thread. The column table in timings.c
 * is the only list of columns. Loop thread; the writer thread sees finished text only.
 */
#ifndef KVF_SERVICE_TIMINGS_H
#define KVF_SERVICE_TIMINGS_H

#include <stddef.h>
#include <stdint.h>

#include <kvferry/kvferry.h>

#include "config/config.h"

/* All t_* are CLOCK_MONOTONIC of this node in ns, 0 when not reached. */
struct kvf_timing {
    uint64_t sequence; /* set by kvf_timings_add */
    uint64_t request_id;
    uint32_t attempt, rank, peer_rank;
    char trace_id[33];
    const char *direction; /* "send", "recv"; static */
    char instance[KVF_NAME_MAX + 1], peer[KVF_NAME_MAX + 1], engine[128];
    char label[KVF_LABEL_MAX + 1];
    char path_send[16], path_recv[16], transport[16], lane[32];
    int32_t outcome; /* enum kvf_status */
    char cause[KVF_DETAIL_MAX];
    const char *integrity; /* "off", "full"; static */
    uint32_t n_tokens;
    uint64_t n_blocks, n_runs, n_bytes;
    uint32_t n_retries;
    uint64_t wall_accept_ns;
    uint64_t t_accept, t_match, t_ready, t_first_gather, t_first_post, t_first_byte,
        t_last_byte, t_last_scatter, t_notify, t_quiesced;
    uint64_t t_first_gather_end, t_last_receipt; /* trtllm format */
};

enum kvf_timings_text { KVF_TIMINGS_TEXT_KVFERRY = 0, KVF_TIMINGS_TEXT_TRTLLM = 1 };

struct kvf_timings;
enum kvf_status KVF_MUST_CHECK kvf_timings_create(const struct kvf_config *config,
                                                  struct kvf_timings **out);
void kvf_timings_destroy(
    struct kvf_timings *timings); /* accepts NULL; flushes, bounded 1 s */

/* Copies the row. Never blocks; a full writer ring drops the file's row and counts. */
void kvf_timings_add(struct kvf_timings *timings, const struct kvf_timing *timing);
/* Rows, oldest first. find: the i-th row after sequence `since`, NULL at the end. */
const struct kvf_timing *kvf_timings_after(const struct kvf_timings *timings,
                                           uint64_t since);
uint64_t kvf_timings_dropped(const struct kvf_timings *timings);

/* Header line with its newline. Returns bytes, 0 when max is too small. */
size_t kvf_timings_header(enum kvf_timings_text format, char *out, size_t max);
/* One row with its newline. */
size_t kvf_timings_row(enum kvf_timings_text format, const struct kvf_timing *timing,
                       char *out, size_t max);

#endif
