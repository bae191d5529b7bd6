/* SPDX-License-Identifier: Apache-2.0 */
/* See registration.h. Every refusal names the field, what came and what the YAML says. */
#include "service/registration.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "service/session.h"

uint64_t kvf_dtype_row_bytes(int32_t dtype, uint64_t n_elements)
{
    switch (dtype) {
    case KVF_DTYPE_I64:
        return n_elements * 8;
    case KVF_DTYPE_F32:
    case KVF_DTYPE_I32:
        return n_elements * 4;
    case KVF_DTYPE_F16:
    case KVF_DTYPE_BF16:
        return n_elements * 2;
    case KVF_DTYPE_I4:
    case KVF_DTYPE_FP4:
        return (n_elements + 1) / 2;
    default:
        return n_elements;
    }
}

enum kvf_status kvf_registration_judge_hello(
    struct kvf_sessions *sessions, const struct kvf_config *config,
    const struct kvf_engine_hello *hello, const struct kvf_config_instance **out_instance,
    struct kvf_plan_refusal *out_refusal)
{
    char *text = out_refusal->text;
    size_t max = sizeof(out_refusal->text);
    char name[80];
    (void)kvf_log_escape(hello->instance, strlen(hello->instance), name, sizeof(name));
    if (hello->version_min > KVF_ENGINE_PROTOCOL ||
        hello->version_max < KVF_ENGINE_PROTOCOL) {
        (void)snprintf(text, max, "the engine speaks versions %u-%u, this daemon %u",
                       hello->version_min, hello->version_max, KVF_ENGINE_PROTOCOL);
        return KVF_VERSION;
    }
    const struct kvf_config_instance *instance =
        kvf_config_find_instance(config, hello->instance);
    if (instance == NULL) {
        (void)snprintf(text, max, "instance '%s' is not in the topology", name);
        return KVF_UNKNOWN_INSTANCE;
    }
    if (hello->rank >= instance->n_ranks) {
        (void)snprintf(text, max, "rank %u: instance '%s' has ranks 0-%u", hello->rank,
                       name, instance->n_ranks - 1);
        return KVF_UNKNOWN_INSTANCE;
    }
    if (strcmp(instance->rank_nodes[hello->rank], config->node.name) != 0) {
        (void)snprintf(text, max, "rank %u of '%s' belongs to node %s, this is %s",
                       hello->rank, name, instance->rank_nodes[hello->rank],
                       config->node.name);
        return KVF_UNKNOWN_INSTANCE;
    }
    struct kvf_session *holder = kvf_sessions_find(sessions, instance->name, hello->rank);
    if (holder != NULL) {
        (void)snprintf(text, max, "pid %u is connected as rank %u of '%s'", holder->pid,
                       hello->rank, name);
        return KVF_NAME_TAKEN;
    }
    *out_instance = instance;
    return KVF_OK;
}

static bool differs(const char *field, uint64_t got, uint64_t want,
                    struct kvf_plan_refusal *out_refusal)
{
    if (got == want) {
        return false;
    }
    (void)snprintf(out_refusal->text, sizeof(out_refusal->text),
                   "%s: the engine says %llu, the topology %llu", field,
                   (unsigned long long)got, (unsigned long long)want);
    return true;
}

enum kvf_status kvf_registration_judge_pool(const struct kvf_config_instance *instance,
                                            uint32_t rank,
                                            const struct kvf_pool_layout *pool,
                                            struct kvf_plan_refusal *out_refusal)
{
    if (pool->group != 0) {
        return KVF_OK;
    }
    const struct kvf_cache_state *state = &instance->state;
    const struct kvf_layout *layout = &pool->layout;
    struct kvf_rank_place place;
    kvf_rank_place(state, (int32_t)rank, &place);
    uint64_t row_bytes =
        kvf_dtype_row_bytes(state->dtype, (uint64_t)state->size_per_head);
    if (differs("layers of this rank", layout->n_layers, place.n_layers, out_refusal) ||
        differs("kv heads of this rank", layout->n_heads, place.n_heads, out_refusal) ||
        differs("kv factor", layout->kv_factor, (uint64_t)state->kv_factor,
                out_refusal) ||
        differs("tokens per block", layout->tokens_per_block,
                (uint64_t)state->tokens_per_block, out_refusal) ||
        differs("dtype", layout->dtype, (uint64_t)state->dtype, out_refusal) ||
        differs("row bytes", layout->row_bytes, row_bytes, out_refusal)) {
        return KVF_LAYOUT_MISMATCH;
    }
    return KVF_OK;
}
