/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An item that has a problem of its own is not looked at further: what its other keys
 * would have meant is a guess. Names are compared pairwise; the lists are short and read
 * once. The rules on parallelism are those of the rank map, said here with the place in
 * the file, before any engine is there to be refused.
 */
#include "config/topology.h"

#include <inttypes.h>
#include <string.h>

#include "config/origin.h"

#define INDEXER_QUANT_BLOCK 128 /* the original's default; no indexer is configured */
#define RANK_CONVENTION     1   /* CP fastest */

struct topology {
    struct kvf_reader *reader;
    struct kvf_config *config;
    struct kvf_config_origin *origin;
    bool has_clean_peers; /* else a node that looks unknown may be a mistyped peer */
};

static struct kvf_where where_of(enum kvf_keyset_id id, const struct kvf_where *wheres,
                                 const char *path)
{
    const struct kvf_keyset *keyset = kvf_schema_keyset(id);
    return wheres[kvf_schema_find(id, path) - keyset->keys];
}

/* A key that was left out is complained about where its item is named. */
static struct kvf_where instance_where(const struct kvf_instance_spec *spec,
                                       const char *path)
{
    struct kvf_where where = where_of(KVF_KEYSET_INSTANCE, spec->wheres, path);
    return where.line > 0 ? where : where_of(KVF_KEYSET_INSTANCE, spec->wheres, "name");
}

static struct kvf_where peer_where(const struct kvf_peer_spec *spec, const char *path)
{
    return where_of(KVF_KEYSET_PEER, spec->wheres, path);
}

static bool is_over_limit(struct topology *topology, enum kvf_keyset_id id,
                          const struct kvf_yaml_node *list)
{
    if (list->n_children <= KVF_CONFIG_ITEMS_MAX) {
        return false;
    }
    kvf_problem_add(topology->reader->problems, list->where, "more than %d %s",
                    KVF_CONFIG_ITEMS_MAX, kvf_schema_keyset(id)->list);
    return true;
}

/* ---- peers */

static bool is_own(const struct topology *topology, const struct kvf_peer_spec *spec)
{
    return strcmp(spec->name, topology->config->node.name) == 0;
}

static bool is_same_address(const struct kvf_address *a, const struct kvf_address *b)
{
    return a->port == b->port && strcmp(a->host, b->host) == 0;
}

static void check_peer(struct topology *topology, const struct kvf_peer_spec *spec)
{
    struct kvf_problem_list *problems = topology->reader->problems;
    for (size_t i = 0; i < topology->origin->n_peers; i++) {
        const struct kvf_peer_spec *earlier = &topology->origin->peers[i];
        if (strcmp(earlier->name, spec->name) == 0) {
            kvf_problem_add(problems, peer_where(spec, "name"),
                            "peer '%s' is already listed on line %u", spec->name,
                            peer_where(earlier, "name").line);
        } else if (is_same_address(&earlier->address, &spec->address)) {
            kvf_problem_add(problems, peer_where(spec, "address"),
                            "peer '%s' has the address of peer '%s'", spec->name,
                            earlier->name);
        }
    }
}

static enum kvf_status read_peers(struct topology *topology,
                                  const struct kvf_yaml_node *list)
{
    struct kvf_reader *reader = topology->reader;
    struct kvf_config_origin *origin = topology->origin;
    if (list == NULL || is_over_limit(topology, KVF_KEYSET_PEER, list)) {
        return KVF_OK;
    }
    origin->peers =
        kvf_arena_alloc(reader->arena, list->n_children * sizeof(*origin->peers));
    if (origin->peers == NULL) {
        return KVF_NO_MEMORY;
    }
    for (const struct kvf_yaml_node *item = list->first_child; item != NULL;
         item = item->next) {
        struct kvf_peer_spec *spec = &origin->peers[origin->n_peers];
        size_t before = kvf_reader_n_problems(reader);
        enum kvf_status status =
            kvf_reader_item(reader, KVF_KEYSET_PEER, item, spec, spec->wheres);
        if (status != KVF_OK) {
            return status;
        }
        if (kvf_reader_n_problems(reader) != before) {
            memset(spec, 0, sizeof(*spec));
            continue;
        }
        check_peer(topology, spec);
        origin->n_peers++;
    }
    return KVF_OK;
}

/* The peers that are not this node, for everybody else. */
static enum kvf_status fill_peers(struct topology *topology)
{
    const struct kvf_config_origin *origin = topology->origin;
    struct kvf_config *config = topology->config;
    config->peers = kvf_arena_alloc(topology->reader->arena,
                                    origin->n_peers * sizeof(*config->peers));
    if (config->peers == NULL) {
        return KVF_NO_MEMORY;
    }
    for (size_t i = 0; i < origin->n_peers; i++) {
        const struct kvf_peer_spec *spec = &origin->peers[i];
        if (is_own(topology, spec)) {
            continue;
        }
        struct kvf_config_peer *peer = &config->peers[config->n_peers++];
        memcpy(peer->name, spec->name, sizeof(peer->name));
        peer->address = spec->address;
    }
    return KVF_OK;
}

/* ---- instances */

static bool is_power_of_two(uint32_t n)
{
    return n > 0 && (n & (n - 1)) == 0;
}

/* TP ranks that share the heads of one request. */
static uint32_t group_tp(const struct kvf_instance_spec *spec)
{
    return spec->has_attention_dp ? 1 : spec->tp;
}

static uint64_t count_ranks(const struct kvf_instance_spec *spec)
{
    return (uint64_t)spec->tp * spec->pp * spec->cp;
}

static void check_parallelism(struct kvf_problem_list *problems,
                              const struct kvf_instance_spec *spec)
{
    if (!is_power_of_two(group_tp(spec))) {
        kvf_problem_add(problems, instance_where(spec, "tp"),
                        "tp is %u, which is not a power of two", spec->tp);
    }
    if (!is_power_of_two(spec->cp)) {
        kvf_problem_add(problems, instance_where(spec, "cp"),
                        "cp is %u, which is not a power of two", spec->cp);
    }
    if (!is_power_of_two(spec->tokens_per_block)) {
        kvf_problem_add(problems, instance_where(spec, "tokens_per_block"),
                        "tokens_per_block is %u, which is not a power of two",
                        spec->tokens_per_block);
    }
    if (count_ranks(spec) > KVF_CONFIG_RANKS_MAX) {
        kvf_problem_add(problems, instance_where(spec, "tp"),
                        "tp * pp * cp is %" PRIu64 " ranks; %d are supported",
                        count_ranks(spec), KVF_CONFIG_RANKS_MAX);
    }
}

static void check_heads(struct kvf_problem_list *problems,
                        const struct kvf_instance_spec *spec)
{
    uint32_t tp = group_tp(spec);
    bool is_mla = spec->attention == KVF_ATTENTION_MLA;
    if (is_mla && spec->n_kv_heads > 1) {
        kvf_problem_add(problems, instance_where(spec, "kv_heads"),
                        "mla has one latent, kv_heads is %u; leave it out",
                        spec->n_kv_heads);
    } else if (!is_mla && spec->n_kv_heads == 0) {
        kvf_problem_add(problems, instance_where(spec, "kv_heads"),
                        "kv_heads of instance '%s' is missing", spec->name);
    } else if (!is_mla && is_power_of_two(tp) && spec->n_kv_heads % tp != 0 &&
               tp % spec->n_kv_heads != 0) {
        kvf_problem_add(problems, instance_where(spec, "kv_heads"),
                        "%u kv_heads cannot be spread over tp %u: one must divide the "
                        "other",
                        spec->n_kv_heads, tp);
    }
    if (is_mla && spec->kv_factor == 2) {
        kvf_problem_add(problems, instance_where(spec, "kv_factor"),
                        "mla has one plane; leave kv_factor out");
    }
    bool is_half_byte = spec->dtype == KVF_DTYPE_I4 || spec->dtype == KVF_DTYPE_FP4;
    if (is_half_byte && spec->head_size % 2 != 0) {
        kvf_problem_add(problems, instance_where(spec, "head_size"),
                        "head_size %u does not fill whole bytes with this dtype",
                        spec->head_size);
    }
}

static uint64_t sum_layers(const struct kvf_instance_spec *spec)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < spec->n_layers; i++) {
        sum += spec->layers[i];
    }
    return sum;
}

static void check_layers(struct kvf_problem_list *problems,
                         const struct kvf_instance_spec *spec)
{
    struct kvf_where where = instance_where(spec, "layers");
    uint64_t sum = sum_layers(spec);
    if (spec->n_layers != 1 && spec->n_layers != spec->pp) {
        kvf_problem_add(problems, where, "layers lists %zu stages and pp is %u",
                        spec->n_layers, spec->pp);
    } else if (spec->n_layers == 1 && sum % spec->pp != 0) {
        kvf_problem_add(problems, where,
                        "%" PRIu64 " layers do not divide evenly into %u stages; list "
                        "the layers of each stage",
                        sum, spec->pp);
    } else if (sum == 0 || sum > KVF_CONFIG_LAYERS_MAX) {
        kvf_problem_add(problems, where, "%" PRIu64 " layers; allowed are 1 to %d", sum,
                        KVF_CONFIG_LAYERS_MAX);
    }
}

static bool is_known_node(const struct topology *topology, const char *name)
{
    return strcmp(name, topology->config->node.name) == 0 ||
           kvf_config_find_peer(topology->config, name) != NULL;
}

static void report_node(struct topology *topology, struct kvf_where where,
                        const char *name)
{
    const struct kvf_config *config = topology->config;
    struct kvf_nearest nearest;
    kvf_nearest_init(&nearest, name);
    kvf_nearest_offer(&nearest, config->node.name);
    for (size_t i = 0; i < config->n_peers; i++) {
        kvf_nearest_offer(&nearest, config->peers[i].name);
    }
    kvf_problem_add(topology->reader->problems, where,
                    "node '%s' is neither this node nor a peer%s", name,
                    kvf_nearest_suffix(&nearest));
}

static void check_nodes(struct topology *topology, const struct kvf_instance_spec *spec)
{
    struct kvf_problem_list *problems = topology->reader->problems;
    bool has_node = spec->node[0] != '\0';
    if (has_node && spec->n_ranks > 0) {
        kvf_problem_add(problems, instance_where(spec, "ranks"),
                        "node and ranks both say where instance '%s' is", spec->name);
        return;
    }
    if (!has_node && spec->n_ranks == 0) {
        kvf_problem_add(problems, instance_where(spec, "node"),
                        "instance '%s' says neither node nor ranks", spec->name);
    } else if (!has_node && spec->n_ranks != count_ranks(spec)) {
        kvf_problem_add(problems, instance_where(spec, "ranks"),
                        "ranks lists %zu nodes and tp * pp * cp is %" PRIu64,
                        spec->n_ranks, count_ranks(spec));
    }
    if (!topology->has_clean_peers) {
        return;
    }
    if (has_node && !is_known_node(topology, spec->node)) {
        report_node(topology, instance_where(spec, "node"), spec->node);
    }
    for (size_t i = 0; i < spec->n_ranks; i++) {
        bool is_repeated = i > 0 && strcmp(spec->ranks[i], spec->ranks[i - 1]) == 0;
        if (!is_repeated && !is_known_node(topology, spec->ranks[i])) {
            report_node(topology, instance_where(spec, "ranks"), spec->ranks[i]);
        }
    }
}

static void check_instance(struct topology *topology,
                           const struct kvf_instance_spec *spec)
{
    struct kvf_problem_list *problems = topology->reader->problems;
    for (size_t i = 0; i < topology->origin->n_instances; i++) {
        const struct kvf_instance_spec *earlier = &topology->origin->instances[i];
        if (strcmp(earlier->name, spec->name) == 0) {
            kvf_problem_add(problems, instance_where(spec, "name"),
                            "instance '%s' is already listed on line %u", spec->name,
                            instance_where(earlier, "name").line);
        }
    }
    check_parallelism(problems, spec);
    check_heads(problems, spec);
    check_layers(problems, spec);
    check_nodes(topology, spec);
}

static enum kvf_status read_instances(struct topology *topology,
                                      const struct kvf_yaml_node *list)
{
    struct kvf_reader *reader = topology->reader;
    struct kvf_config_origin *origin = topology->origin;
    if (list == NULL || is_over_limit(topology, KVF_KEYSET_INSTANCE, list)) {
        return KVF_OK;
    }
    origin->instances =
        kvf_arena_alloc(reader->arena, list->n_children * sizeof(*origin->instances));
    if (origin->instances == NULL) {
        return KVF_NO_MEMORY;
    }
    for (const struct kvf_yaml_node *item = list->first_child; item != NULL;
         item = item->next) {
        struct kvf_instance_spec *spec = &origin->instances[origin->n_instances];
        size_t before = kvf_reader_n_problems(reader);
        enum kvf_status status = kvf_reader_defaults(reader, KVF_KEYSET_INSTANCE, spec);
        if (status == KVF_OK) {
            status =
                kvf_reader_item(reader, KVF_KEYSET_INSTANCE, item, spec, spec->wheres);
        }
        if (status != KVF_OK) {
            return status;
        }
        if (kvf_reader_n_problems(reader) != before) {
            memset(spec, 0, sizeof(*spec));
            continue;
        }
        check_instance(topology, spec);
        origin->n_instances++;
    }
    return KVF_OK;
}

/* One number becomes one number a stage, kv_factor what it stands for: from here on the
 * spec says what is in effect. */
static void settle(struct kvf_instance_spec *spec)
{
    bool is_mla = spec->attention == KVF_ATTENTION_MLA;
    if (spec->n_layers == 1) {
        uint32_t per_stage = spec->layers[0] / spec->pp;
        for (spec->n_layers = 0; spec->n_layers < spec->pp; spec->n_layers++) {
            spec->layers[spec->n_layers] = per_stage;
        }
    }
    if (spec->kv_factor == 0) {
        spec->kv_factor = is_mla ? 1 : 2;
    }
    if (is_mla) {
        spec->n_kv_heads = 1;
    }
}

/* Heads of one rank; more ranks than heads hold each head several times. */
static int32_t heads_per_rank(const struct kvf_instance_spec *spec)
{
    uint32_t n = spec->n_kv_heads / group_tp(spec);
    return (int32_t)(n > 0 ? n : 1);
}

static enum kvf_status fill_layers(struct kvf_arena *arena,
                                   const struct kvf_instance_spec *spec,
                                   struct kvf_cache_state *state)
{
    state->n_stages = spec->n_layers;
    state->n_model_layers = sum_layers(spec);
    int32_t *stages = kvf_arena_alloc(arena, state->n_stages * sizeof(*stages));
    int32_t *heads = kvf_arena_alloc(arena, state->n_model_layers * sizeof(*heads));
    if (stages == NULL || heads == NULL) {
        return KVF_NO_MEMORY;
    }
    for (uint64_t i = 0; i < state->n_stages; i++) {
        stages[i] = (int32_t)spec->layers[i];
    }
    for (uint64_t i = 0; i < state->n_model_layers; i++) {
        heads[i] = heads_per_rank(spec);
    }
    state->layers_per_stage = stages;
    state->kv_heads_per_layer = heads;
    return KVF_OK;
}

static enum kvf_status fill_ranks(struct kvf_arena *arena,
                                  const struct kvf_instance_spec *spec,
                                  struct kvf_config_instance *instance)
{
    instance->n_ranks = (uint32_t)count_ranks(spec);
    instance->rank_nodes = spec->ranks;
    if (spec->n_ranks > 0) {
        return KVF_OK;
    }
    char(*nodes)[KVF_CONFIG_NAME_BYTES] =
        kvf_arena_alloc(arena, instance->n_ranks * sizeof(*nodes));
    if (nodes == NULL) {
        return KVF_NO_MEMORY;
    }
    for (uint32_t i = 0; i < instance->n_ranks; i++) {
        memcpy(nodes[i], spec->node, sizeof(nodes[i]));
    }
    instance->rank_nodes = (const char(*)[KVF_CONFIG_NAME_BYTES])nodes;
    return KVF_OK;
}

static enum kvf_status fill_instance(struct kvf_arena *arena,
                                     const struct kvf_instance_spec *spec,
                                     struct kvf_config_instance *instance)
{
    memcpy(instance->name, spec->name, sizeof(instance->name));
    instance->role = spec->role;
    instance->n_kv_heads = spec->n_kv_heads;
    instance->state = (struct kvf_cache_state){
        .size_per_head = (int32_t)spec->head_size,
        .tokens_per_block = (int32_t)spec->tokens_per_block,
        .tp = (int32_t)spec->tp,
        .pp = (int32_t)spec->pp,
        .cp = (int32_t)spec->cp,
        .has_attention_dp = spec->has_attention_dp ? 1 : 0,
        .dp_size = (int32_t)spec->tp,
        .attention = (int32_t)spec->attention,
        .kv_factor = (int32_t)spec->kv_factor,
        .dtype = (int32_t)spec->dtype,
        .indexer_quant_block_size = INDEXER_QUANT_BLOCK,
        .rank_convention = RANK_CONVENTION,
    };
    enum kvf_status status = fill_layers(arena, spec, &instance->state);
    if (status == KVF_OK) {
        status = fill_ranks(arena, spec, instance);
    }
    return status;
}

static enum kvf_status fill_instances(struct topology *topology)
{
    struct kvf_config_origin *origin = topology->origin;
    struct kvf_config *config = topology->config;
    struct kvf_arena *arena = topology->reader->arena;
    config->instances =
        kvf_arena_alloc(arena, origin->n_instances * sizeof(*config->instances));
    if (config->instances == NULL) {
        return KVF_NO_MEMORY;
    }
    for (size_t i = 0; i < origin->n_instances; i++) {
        settle(&origin->instances[i]);
        enum kvf_status status =
            fill_instance(arena, &origin->instances[i], &config->instances[i]);
        if (status != KVF_OK) {
            return status;
        }
        config->n_instances++;
    }
    return KVF_OK;
}

enum kvf_status kvf_topology_read(struct kvf_reader *reader,
                                  const struct kvf_yaml_node *const lists[KVF_KEYSETS],
                                  struct kvf_config *config)
{
    struct topology topology = {
        .reader = reader, .config = config, .origin = config->origin};
    size_t before = kvf_reader_n_problems(reader);
    enum kvf_status status = read_peers(&topology, lists[KVF_KEYSET_PEER]);
    topology.has_clean_peers = kvf_reader_n_problems(reader) == before;
    if (status == KVF_OK) {
        status = fill_peers(&topology);
    }
    if (status == KVF_OK) {
        status = read_instances(&topology, lists[KVF_KEYSET_INSTANCE]);
    }
    if (status == KVF_OK && kvf_reader_n_problems(reader) == 0) {
        status = fill_instances(&topology);
    }
    return status;
}
