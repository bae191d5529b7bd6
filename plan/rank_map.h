/* SPDX-License-Identifier: Apache-2.0 */
/*
 * targetIRanks: which ranks of the other instance a rank talks to, who of them sends, and
 * whom a receiver listens to. Rank numbering: CP fastest, then TP, then PP; the target
 * list is nested CP outer, TP middle, PP inner. Pipeline stages without attention layers
 * talk to nobody and are in nobody's list. Pure functions, any thread.
 */
#ifndef KVF_PLAN_RANK_MAP_H
#define KVF_PLAN_RANK_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kvferry/layout.h>
#include <kvferry/status.h>

#include "plan/plan.h"

#define KVF_TARGETS_MAX 1024
#define KVF_STAGES_MAX  256

struct kvf_targets {
    uint32_t domain_pp, domain_tp, domain_cp;
    uint32_t n_ranks; /* domain_pp * domain_tp * domain_cp */
    int32_t ranks[KVF_TARGETS_MAX];
    int32_t peer_layers[KVF_STAGES_MAX]; /* [domain_pp] */
    uint32_t dup_head_factor, peer_dup_head_factor;
};

/* One cache state by itself: powers of two, divisibility, dp rank in range, stage table.
 * LAYOUT_MISMATCH with the field named. */
enum kvf_status KVF_MUST_CHECK kvf_cache_state_check(
    const struct kvf_cache_state *state, struct kvf_plan_refusal *out_refusal);
/* Whether context -> generation can be served at all (upstream's inquireSupport and
 * more). */
enum kvf_status KVF_MUST_CHECK kvf_cache_state_support(
    const struct kvf_cache_state *context, const struct kvf_cache_state *generation,
    struct kvf_plan_refusal *out_refusal);

/* Both states pass kvf_cache_state_check(), or its status comes back. INVALID_ARGUMENT:
 * no such rank; LAYOUT_MISMATCH: the peer lacks layers that this rank holds; UNSUPPORTED:
 * more targets than KVF_TARGETS_MAX. */
enum kvf_status KVF_MUST_CHECK kvf_rank_targets(const struct kvf_cache_state *peer,
                                                const struct kvf_cache_state *self,
                                                int32_t self_rank,
                                                struct kvf_targets *out,
                                                struct kvf_plan_refusal *out_refusal);

/* Context side: does self_rank transmit at all? */
bool kvf_rank_need_send(const struct kvf_cache_state *self, int32_t self_rank,
                        const struct kvf_cache_state *peer,
                        const struct kvf_targets *targets);
/* Generation side: indices into targets->ranks of those that deliver. Returns their
 * number, at most KVF_TARGETS_MAX in out[]. */
size_t kvf_rank_pick_recv(const struct kvf_cache_state *self, int32_t self_rank,
                          const struct kvf_cache_state *peer,
                          const struct kvf_targets *targets, uint32_t *out);

/* Where rank r sits and what it holds: stage's first global layer and count, first global
 * head and count, CP coordinates. */
struct kvf_rank_place {
    uint32_t tp, pp, cp;
    uint32_t layer_first, n_layers;
    uint32_t head_first, n_heads;
};
void kvf_rank_place(const struct kvf_cache_state *state, int32_t rank,
                    struct kvf_rank_place *out);
/* The same with heads in the numbering that the two instances share: an instance with
 * more TP ranks than heads holds each head several times, and its ranks' own count runs
 * over the copies. What a shard needs. */
void kvf_rank_place_shared(const struct kvf_cache_state *state, int32_t rank,
                           const struct kvf_cache_state *peer,
                           struct kvf_rank_place *out);

#endif
