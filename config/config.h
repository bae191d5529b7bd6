/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's configuration: one YAML file (topology included), environment, defaults.
 * One schema table (schema.c) drives parser, defaults, --print-* and documentation. The
 * result is one immutable object; a reload makes a new one. Start-up and loop thread.
 */
#ifndef KVF_CONFIG_CONFIG_H
#define KVF_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <kvferry/layout.h>
#include <kvferry/status.h>

#include "base/log.h"
#include "base/sock.h"

#define KVF_CONFIG_NAME_BYTES 64
#define KVF_CONFIG_PATH_BYTES 256
#define KVF_CONFIG_LIST_MAX   8

enum kvf_role { KVF_ROLE_CONTEXT = 0, KVF_ROLE_GENERATION = 1, KVF_ROLE_BOTH = 2 };
enum kvf_integrity { KVF_INTEGRITY_OFF = 0, KVF_INTEGRITY_FULL = 1 };
enum kvf_timings_format { KVF_TIMINGS_KVFERRY = 0, KVF_TIMINGS_TRTLLM = 1 };
/* Transports in the order of data.prefer; a bit each in data.require. */
enum kvf_data_transport { KVF_DATA_RDMA = 0, KVF_DATA_UCX_TCP = 1, KVF_DATA_TCP = 2 };

struct kvf_config_peer {
    char name[KVF_CONFIG_NAME_BYTES];
    struct kvf_address address;
};

struct kvf_config_instance {
    char name[KVF_CONFIG_NAME_BYTES];
    enum kvf_role role;
    /* Built from tp, pp, cp, attention_dp, layers, kv_heads, head_size, tokens_per_block,
     * dtype, attention. Arrays are owned by the config. dp_rank is 0 here. */
    struct kvf_cache_state state;
    uint32_t n_kv_heads;                             /* global, before TP */
    uint32_t n_ranks;                                /* tp * pp * cp */
    const char (*rank_nodes)[KVF_CONFIG_NAME_BYTES]; /* [n_ranks], owned by the config */
};

struct kvf_config {
    struct {
        char name[KVF_CONFIG_NAME_BYTES];
    } node;
    struct {
        struct kvf_address listen;
        uint32_t heartbeat_ms, suspect_after_ms, dead_after_ms;
        uint32_t connect_timeout_ms, hello_timeout_ms, frame_timeout_ms;
        uint32_t reconnect_min_ms, reconnect_max_ms;
        bool insecure_no_auth;
    } control;
    struct {
        struct kvf_address listen; /* host:first-last */
        enum kvf_data_transport prefer[KVF_CONFIG_LIST_MAX];
        size_t n_prefer;
        uint32_t require_mask; /* 1 << enum kvf_data_transport; 0: none required */
        bool trusted_network, force_contiguous;
        char devices[KVF_CONFIG_PATH_BYTES]; /* "auto" or UCX_NET_DEVICES */
        uint64_t chunk_bytes, arena_bytes;
        uint32_t window, copy_workers; /* copy_workers 0: cores - 1, at most 4 */
        uint32_t spin_us;
        enum kvf_integrity integrity;
    } data;
    struct {
        struct kvf_address listen; /* unix: */
        uint32_t dead_after_ms, default_deadline_ms, max_deadline_ms;
        uint32_t max_requests; /* live per engine */
        uint32_t max_engines;
        uint32_t max_unread_events;
        uint32_t allow_uids[KVF_CONFIG_LIST_MAX];
        size_t n_allow_uids; /* 0: own uid and root */
    } engine;
    struct {
        struct kvf_address listen;
    } observe;
    struct {
        struct kvf_address listen;
        char token_file[KVF_CONFIG_PATH_BYTES];
        char allow_hosts[KVF_CONFIG_LIST_MAX][KVF_CONFIG_NAME_BYTES];
        size_t n_allow_hosts;
        bool insecure;
    } admin;
    struct {
        char dir[KVF_CONFIG_PATH_BYTES]; /* "": no files */
        enum kvf_timings_format format;
        uint64_t max_bytes;
        uint32_t keep, rows; /* rotated files; rows kept in memory for HTTP */
    } timings;
    struct {
        enum kvf_log_format format;
        enum kvf_log_level level;
    } log;
    struct {
        uint32_t grace_ms;
    } shutdown;
    struct {
        bool require_engine;
    } ready;
    struct kvf_config_peer *peers; /* owns */
    size_t n_peers;
    struct kvf_config_instance *instances; /* owns */
    size_t n_instances;
    struct kvf_config_origin *origin; /* owns; where each value came from */
};

/* Problems as "file:line:column: what; did you mean ...", each with its source line and a
 * caret below, in file order. Of more than the limit the first ones. */
#define KVF_CONFIG_PROBLEMS_MAX 20
struct kvf_config_problems {
    char *text; /* owns; ends in a newline, "" when none; NULL after NO_MEMORY */
    size_t n;   /* shown */
};
void kvf_config_problems_fini(struct kvf_config_problems *problems);

/* Reads file (UTF-8, at most 1 MiB), environment KVFERRY_SECTION__KEY and ${NAME}
 * substitutions; validates everything. CONFIG with all problems, or a config the caller
 * destroys. file NULL: environment and defaults only. */
enum kvf_status KVF_MUST_CHECK kvf_config_load(const char *file, struct kvf_config **out,
                                               struct kvf_config_problems *out_problems);
/* The same from memory; `name` stands for the file in messages. */
enum kvf_status KVF_MUST_CHECK kvf_config_parse(const char *name, const char *text,
                                                size_t n, struct kvf_config **out,
                                                struct kvf_config_problems *out_problems);
void kvf_config_destroy(struct kvf_config *config); /* accepts NULL */

/* Effective configuration as YAML, each key's source as a comment, secrets as "***". */
void kvf_config_print(const struct kvf_config *config, FILE *out);
void kvf_config_print_defaults(FILE *out); /* fully commented YAML */
void kvf_config_print_schema(FILE *out);   /* JSON Schema 2020-12 */

const struct kvf_config_instance *
kvf_config_find_instance(const struct kvf_config *config, const char *name);
const struct kvf_config_peer *kvf_config_find_peer(const struct kvf_config *config,
                                                   const char *name);
const char *kvf_role_name(enum kvf_role role);
const char *kvf_data_transport_name(enum kvf_data_transport transport);

#endif
