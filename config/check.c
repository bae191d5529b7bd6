/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One function a rule; each problem is reported at the key one would change. A key that
 * was refused has its default here, so a rule may speak about a default: that is still
 * true for what the file would mean without the refused line.
 */
#include "config/check.h"

#include <inttypes.h>
#include <string.h>

struct check {
    const struct kvf_config *config;
    const struct kvf_config_origin *origin;
    struct kvf_problem_list *problems;
};

static struct kvf_where where_of(const struct check *check, const char *path)
{
    const struct kvf_key *key = kvf_schema_find(KVF_KEYSET_ROOT, path);
    return check->origin->wheres[key - kvf_schema_keyset(KVF_KEYSET_ROOT)->keys];
}

static void check_control(const struct check *check)
{
    const struct kvf_config *config = check->config;
    if (!kvf_address_is_loopback(&config->control.listen) &&
        !config->control.insecure_no_auth) {
        kvf_problem_add(check->problems, where_of(check, "control.listen"),
                        "control.listen is not loopback, and the control channel is not "
                        "authenticated in this release: anybody who reaches it can ask "
                        "for KV blocks; write control.insecure_no_auth: true if the "
                        "network is yours alone");
    }
}

static void check_admin(const struct check *check)
{
    const struct kvf_config *config = check->config;
    if (!kvf_address_is_loopback(&config->admin.listen) &&
        config->admin.token_file[0] == '\0' && !config->admin.insecure) {
        kvf_problem_add(check->problems, where_of(check, "admin.listen"),
                        "admin.listen is not loopback and has no admin.token_file: "
                        "anybody who reaches it can cancel requests; name a token file, "
                        "or write admin.insecure: true");
    }
}

static void check_transports(const struct check *check)
{
    const struct kvf_config *config = check->config;
    bool needs_ucx_tcp = (config->data.require_mask & (1u << KVF_DATA_UCX_TCP)) != 0;
    if (needs_ucx_tcp && !config->data.trusted_network &&
        !kvf_address_is_loopback(&config->data.listen)) {
        kvf_problem_add(check->problems, where_of(check, "data.require"),
                        "data.require names ucx_tcp, which takes writes from anybody who "
                        "reaches data.listen; write data.trusted_network: true if the "
                        "network is yours alone, or leave ucx_tcp out");
    }
    if (config->data.n_prefer == 0) {
        kvf_problem_add(check->problems, where_of(check, "data.prefer"),
                        "data.prefer lists no transport");
    }
    uint32_t preferred = 0;
    for (size_t i = 0; i < config->data.n_prefer; i++) {
        preferred |= 1u << config->data.prefer[i];
    }
    if (config->data.require_mask != 0 && config->data.n_prefer > 0 &&
        (config->data.require_mask & preferred) == 0) {
        kvf_problem_add(check->problems, where_of(check, "data.require"),
                        "data.require names no transport of data.prefer, so no peer "
                        "could be served");
    }
}

static void check_arena(const struct check *check)
{
    const struct kvf_config *config = check->config;
    uint64_t needed = config->data.chunk_bytes * config->data.window; /* at most 64 MiB */
    if (config->data.arena_bytes < needed) {
        kvf_problem_add(check->problems, where_of(check, "data.arena"),
                        "data.arena has %" PRIu64 " bytes and data.chunk times "
                        "data.window is %" PRIu64,
                        config->data.arena_bytes, needed);
    }
}

/* Pairs of times of which the first must be the smaller one. */
static void check_times(const struct check *check)
{
    const struct kvf_config *config = check->config;
    const struct {
        const char *small, *large;
        uint32_t small_ms, large_ms;
    } pairs[] = {
        {"control.heartbeat", "control.suspect_after", config->control.heartbeat_ms,
         config->control.suspect_after_ms},
        {"control.suspect_after", "control.dead_after", config->control.suspect_after_ms,
         config->control.dead_after_ms},
        {"control.reconnect_min", "control.reconnect_max",
         config->control.reconnect_min_ms, config->control.reconnect_max_ms + 1},
        {"engine.default_deadline", "engine.max_deadline",
         config->engine.default_deadline_ms, config->engine.max_deadline_ms + 1},
    };
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        if (pairs[i].small_ms >= pairs[i].large_ms) {
            struct kvf_where where = where_of(check, pairs[i].large);
            if (where.line == 0 && where.variable == NULL) {
                where = where_of(check, pairs[i].small);
            }
            kvf_problem_add(check->problems, where, "%s must be below %s", pairs[i].small,
                            pairs[i].large);
        }
    }
}

static bool overlaps(const struct kvf_address *a, const struct kvf_address *b)
{
    if (a->kind != b->kind || strcmp(a->host, b->host) != 0) {
        return false;
    }
    if (a->kind == KVF_ADDRESS_UNIX) {
        return true;
    }
    return a->port != 0 && b->port != 0 && a->port <= b->port_last &&
           b->port <= a->port_last;
}

static void check_listeners(const struct check *check)
{
    const struct kvf_config *config = check->config;
    const struct {
        const char *path;
        const struct kvf_address *address;
    } listeners[] = {
        {"control.listen", &config->control.listen},
        {"data.listen", &config->data.listen},
        {"engine.listen", &config->engine.listen},
        {"observe.listen", &config->observe.listen},
        {"admin.listen", &config->admin.listen},
    };
    for (size_t i = 0; i < sizeof(listeners) / sizeof(listeners[0]); i++) {
        for (size_t j = 0; j < i; j++) {
            if (overlaps(listeners[i].address, listeners[j].address)) {
                kvf_problem_add(check->problems, where_of(check, listeners[i].path),
                                "%s and %s are the same address", listeners[j].path,
                                listeners[i].path);
            }
        }
    }
}

void kvf_config_check(const struct kvf_config *config,
                      const struct kvf_config_origin *origin,
                      struct kvf_problem_list *problems)
{
    const struct check check = {.config = config, .origin = origin, .problems = problems};
    check_control(&check);
    check_admin(&check);
    check_transports(&check);
    check_arena(&check);
    check_times(&check);
    check_listeners(&check);
}
