/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether what an engine registers agrees with the topology: the YAML declares, the
 * engine registers, any difference is refused with both values. No state here. Loop
 * thread.
 */
#ifndef KVF_SERVICE_REGISTRATION_H
#define KVF_SERVICE_REGISTRATION_H

#include "config/config.h"
#include "plan/plan.h"
#include "plan/rank_map.h"
#include "proto/message.h"

struct kvf_sessions;

/* VERSION, UNKNOWN_INSTANCE (no such instance, rank out of range, rank of another node),
 * NAME_TAKEN (a live session holds it). */
enum kvf_status KVF_MUST_CHECK kvf_registration_judge_hello(
    struct kvf_sessions *sessions, const struct kvf_config *config,
    const struct kvf_engine_hello *hello, const struct kvf_config_instance **out_instance,
    struct kvf_plan_refusal *out_refusal);

/* The KV pool is group 0 and must look as the topology says; other groups hold what the
 * engine likes. LAYOUT_MISMATCH. */
enum kvf_status KVF_MUST_CHECK kvf_registration_judge_pool(
    const struct kvf_config_instance *instance, uint32_t rank,
    const struct kvf_pool_layout *pool, struct kvf_plan_refusal *out_refusal);

/* Bytes of n elements; 4-bit types pack two into a byte. */
uint64_t kvf_dtype_row_bytes(int32_t dtype, uint64_t n_elements);

#endif
