/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Request traces in JSON Lines: timestamp (ms), input_length (tokens), hash_ids (one per
 * part of 512 tokens; equal ids mean an equal prefix up to there). Other fields are
 * ignored. One thread.
 */
#ifndef KVF_EXAMPLES_DEMO_TRACE_H
#define KVF_EXAMPLES_DEMO_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct trace_request {
    uint64_t timestamp_ms; /* never falls from one to the next */
    uint32_t n_tokens;
    uint32_t n_keys;
    size_t first_key; /* in trace.keys */
};

struct trace {
    struct trace_request *requests; /* owns; [n] */
    uint64_t *keys;                 /* owns; [n_keys] */
    size_t n, n_keys;
};

/* At most limit requests; false: said what is wrong in which line. */
bool trace_load(const char *file, size_t limit, struct trace *out);
void trace_fini(struct trace *trace); /* accepts a zeroed one */

#endif
