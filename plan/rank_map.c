/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rank map: arithmetic on two cache states. A dimension of TP or CP is matched as two
 * power-of-two grids laid over the same heads or blocks, a dimension of PP as two cuts of
 * the same row of layers. Who sends is decided on both sides from the same numbers, so
 * that the ranks that send are exactly those that are listened to.
 * Pure functions, any thread.
 */
#include "plan/rank_map.h"

#include <inttypes.h>

#include "plan/refusal.h"

#define CONVENTION_CP_FASTEST 1u
#define RANKS_MAX             65535
#define HEADS_MAX             32767 /* times RANKS_MAX fits an int32_t */
#define MODEL_LAYERS_MAX      KVF_PLAN_LAYERS_MAX

struct coordinates {
    int32_t tp, pp, cp;
};

static struct coordinates locate(const struct kvf_cache_state *state, int32_t rank)
{
    return (struct coordinates){
        .cp = rank % state->cp,
        .tp = rank / state->cp % state->tp,
        .pp = rank / state->cp / state->tp,
    };
}

/* TP ranks of one attention DP group. */
static int32_t group_tp(const struct kvf_cache_state *state)
{
    return state->has_attention_dp ? state->tp / state->dp_size : state->tp;
}

static int32_t group_index(const struct kvf_cache_state *state)
{
    return state->has_attention_dp ? state->dp_rank : 0;
}

static bool is_mla(const struct kvf_cache_state *state)
{
    return state->attention == KVF_ATTENTION_MLA;
}

/* Heads over a TP group, each copy counted. */
static int64_t group_heads(const struct kvf_cache_state *state)
{
    return (int64_t)state->kv_heads_per_layer[0] * group_tp(state);
}

static bool is_power_of_two(int32_t n)
{
    return n > 0 && (n & (n - 1)) == 0;
}

static enum kvf_status check_field(const char *name, int64_t value, int64_t low,
                                   int64_t high, struct kvf_plan_refusal *out_refusal)
{
    if (value < low || value > high) {
        return kvf_refuse(out_refusal, KVF_LAYOUT_MISMATCH,
                          "%s is %" PRId64 ", allowed are %" PRId64 " to %" PRId64, name,
                          value, low, high);
    }
    return KVF_OK;
}

static enum kvf_status check_fields(const struct kvf_cache_state *state,
                                    struct kvf_plan_refusal *out_refusal)
{
    const struct {
        const char *name;
        int64_t value, low, high;
    } fields[] = {
        {"rank convention", state->rank_convention, CONVENTION_CP_FASTEST,
         CONVENTION_CP_FASTEST},
        {"tensor parallelism", state->tp, 1, RANKS_MAX},
        {"pipeline parallelism", state->pp, 1, KVF_STAGES_MAX},
        {"context parallelism", state->cp, 1, RANKS_MAX},
        {"attention dp flag", state->has_attention_dp, 0, 1},
        {"attention type", state->attention, KVF_ATTENTION_DEFAULT, KVF_ATTENTION_MLA},
        {"kv factor", state->kv_factor, 1, 2},
        {"data type", state->dtype, KVF_DTYPE_F32, KVF_DTYPE_FP4},
        {"size per head", state->size_per_head, 1, INT32_MAX},
        {"tokens per block", state->tokens_per_block, 1, INT32_MAX},
        {"model layers", (int64_t)state->n_model_layers, 1, MODEL_LAYERS_MAX},
        {"pipeline stages listed", (int64_t)state->n_stages, state->pp, state->pp},
    };

    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        const enum kvf_status status = check_field(
            fields[i].name, fields[i].value, fields[i].low, fields[i].high, out_refusal);
        if (status != KVF_OK) {
            return status;
        }
    }
    return check_field("number of ranks", (int64_t)state->tp * state->pp * state->cp, 1,
                       RANKS_MAX, out_refusal);
}

static enum kvf_status check_groups(const struct kvf_cache_state *state,
                                    struct kvf_plan_refusal *out_refusal)
{
    if (state->has_attention_dp) {
        enum kvf_status status =
            check_field("attention dp size", state->dp_size, 1, state->tp, out_refusal);
        if (status == KVF_OK) {
            status = check_field("attention dp rank", state->dp_rank, 0,
                                 state->dp_size - 1, out_refusal);
        }
        if (status != KVF_OK) {
            return status;
        }
        if (state->tp % state->dp_size != 0) {
            return kvf_refuse(out_refusal, KVF_LAYOUT_MISMATCH,
                              "tensor parallelism %d is not a multiple of the attention "
                              "dp size %d",
                              state->tp, state->dp_size);
        }
    }
    if (!is_power_of_two(group_tp(state)) || !is_power_of_two(state->cp)) {
        return kvf_refuse(out_refusal, KVF_LAYOUT_MISMATCH,
                          "tensor parallelism %d (within a dp group) and context "
                          "parallelism %d must be powers of two",
                          group_tp(state), state->cp);
    }
    return KVF_OK;
}

static enum kvf_status check_stages(const struct kvf_cache_state *state,
                                    struct kvf_plan_refusal *out_refusal)
{
    int64_t n_layers = 0;

    if (state->layers_per_stage == NULL) {
        return kvf_refuse(out_refusal, KVF_LAYOUT_MISMATCH,
                          "layers per pipeline stage are missing");
    }
    for (uint64_t i = 0; i < state->n_stages; i++) {
        const enum kvf_status status =
            check_field("layers of a pipeline stage", state->layers_per_stage[i], 0,
                        MODEL_LAYERS_MAX, out_refusal);
        if (status != KVF_OK) {
            return status;
        }
        n_layers += state->layers_per_stage[i];
    }
    if (n_layers != (int64_t)state->n_model_layers) {
        return kvf_refuse(out_refusal, KVF_LAYOUT_MISMATCH,
                          "the pipeline stages have %" PRId64
                          " layers, the model %" PRIu64,
                          n_layers, state->n_model_layers);
    }
    return KVF_OK;
}

static enum kvf_status check_heads(const struct kvf_cache_state *state,
                                   struct kvf_plan_refusal *out_refusal)
{
    if (state->kv_heads_per_layer == NULL) {
        return kvf_refuse(out_refusal, KVF_LAYOUT_MISMATCH,
                          "kv heads per layer are missing");
    }
    const int32_t n_heads = state->kv_heads_per_layer[0];
    for (uint64_t i = 0; i < state->n_model_layers; i++) {
        if (state->kv_heads_per_layer[i] != n_heads) {
            return kvf_refuse(out_refusal, KVF_LAYOUT_MISMATCH,
                              "layer %" PRIu64 " has %d kv heads and layer 0 has %d", i,
                              state->kv_heads_per_layer[i], n_heads);
        }
    }
    return check_field("kv heads per rank", n_heads, 1, is_mla(state) ? 1 : HEADS_MAX,
                       out_refusal);
}

enum kvf_status kvf_cache_state_check(const struct kvf_cache_state *state,
                                      struct kvf_plan_refusal *out_refusal)
{
    enum kvf_status status = check_fields(state, out_refusal);

    if (status == KVF_OK) {
        status = check_groups(state, out_refusal);
    }
    if (status == KVF_OK) {
        status = check_stages(state, out_refusal);
    }
    if (status == KVF_OK) {
        status = check_heads(state, out_refusal);
    }
    return status;
}

static enum kvf_status check_equal(const struct kvf_cache_state *context,
                                   const struct kvf_cache_state *generation,
                                   struct kvf_plan_refusal *out_refusal)
{
    const struct {
        const char *name;
        int64_t context, generation;
    } fields[] = {
        {"data type", context->dtype, generation->dtype},
        {"attention type", context->attention, generation->attention},
        {"kv factor", context->kv_factor, generation->kv_factor},
        {"size per head", context->size_per_head, generation->size_per_head},
        {"number of layers", (int64_t)context->n_model_layers,
         (int64_t)generation->n_model_layers},
        {"indexer cache", context->has_indexer, generation->has_indexer},
        {"indexer width", context->indexer_dim_per_head,
         generation->indexer_dim_per_head},
        {"indexer quantisation block", context->indexer_quant_block_size,
         generation->indexer_quant_block_size},
        {"indexer packing", context->indexer_is_fp4, generation->indexer_is_fp4},
    };
    const size_t n_fields = sizeof(fields) / sizeof(fields[0]);
    const size_t n_compared =
        context->has_indexer || generation->has_indexer ? n_fields : n_fields - 3;

    for (size_t i = 0; i < n_compared; i++) {
        if (fields[i].context != fields[i].generation) {
            return kvf_refuse(out_refusal, KVF_LAYOUT_MISMATCH,
                              "%s is %" PRId64 " in the context instance and %" PRId64
                              " in the generation instance",
                              fields[i].name, fields[i].context, fields[i].generation);
        }
    }
    return KVF_OK;
}

/* One side may hold every head several times, once per rank; then its ranks hold a single
 * head and the other side's heads divide its own. */
static enum kvf_status check_head_split(const struct kvf_cache_state *context,
                                        const struct kvf_cache_state *generation,
                                        struct kvf_plan_refusal *out_refusal)
{
    const int64_t n_context = group_heads(context);
    const int64_t n_generation = group_heads(generation);
    const struct kvf_cache_state *more = n_context > n_generation ? context : generation;
    const int64_t n_more = n_context > n_generation ? n_context : n_generation;
    const int64_t n_fewer = n_context > n_generation ? n_generation : n_context;

    if (is_mla(context) || n_more == n_fewer ||
        (n_more % n_fewer == 0 && more->kv_heads_per_layer[0] == 1)) {
        return KVF_OK;
    }
    return kvf_refuse(out_refusal, KVF_LAYOUT_MISMATCH,
                      "%d kv heads on each of %d ranks (context) do not map onto %d on "
                      "each of %d (generation)",
                      context->kv_heads_per_layer[0], group_tp(context),
                      generation->kv_heads_per_layer[0], group_tp(generation));
}

enum kvf_status kvf_cache_state_support(const struct kvf_cache_state *context,
                                        const struct kvf_cache_state *generation,
                                        struct kvf_plan_refusal *out_refusal)
{
    enum kvf_status status = kvf_cache_state_check(context, out_refusal);

    if (status == KVF_OK) {
        status = kvf_cache_state_check(generation, out_refusal);
    }
    if (status == KVF_OK) {
        status = check_equal(context, generation, out_refusal);
    }
    if (status == KVF_OK) {
        status = check_head_split(context, generation, out_refusal);
    }
    if (status != KVF_OK) {
        return status;
    }
    /* The target list pairs CP ranks as contiguous shares, blocks are dealt round robin:
     * with CP on both sides the two agree only when they are dealt alike. */
    if (context->cp > 1 && generation->cp > 1 &&
        (context->cp != generation->cp ||
         context->tokens_per_block != generation->tokens_per_block)) {
        return kvf_refuse(out_refusal, KVF_LAYOUT_MISMATCH,
                          "context parallelism %d with blocks of %d tokens does not fit "
                          "%d with %d: both must be equal when both sides use it",
                          context->cp, context->tokens_per_block, generation->cp,
                          generation->tokens_per_block);
    }
    return KVF_OK;
}

/* A contiguous share of one side's ranks on the other side. */
struct share {
    int32_t first, count;
};

static struct share share_of(int32_t index, int32_t n_self, int32_t n_peer)
{
    if (n_self <= n_peer) {
        const int32_t count = n_peer / n_self;
        return (struct share){index * count, count};
    }
    return (struct share){index / (n_self / n_peer), 1};
}

static void stage_layers(const struct kvf_cache_state *state, int32_t stage,
                         int32_t *out_first, int32_t *out_end)
{
    int32_t first = 0;

    for (int32_t i = 0; i < stage; i++) {
        first += state->layers_per_stage[i];
    }
    *out_first = first;
    *out_end = first + state->layers_per_stage[stage];
}

/* Peer stages that hold layers [first, end), with the common layers of each. */
static enum kvf_status find_stages(const struct kvf_cache_state *peer, int32_t first,
                                   int32_t end, int32_t stages[KVF_STAGES_MAX],
                                   struct kvf_targets *out,
                                   struct kvf_plan_refusal *out_refusal)
{
    int32_t peer_first = 0, found = 0;

    for (int32_t i = 0; i < peer->pp; i++) {
        const int32_t peer_end = peer_first + peer->layers_per_stage[i];
        const int32_t low = peer_first > first ? peer_first : first;
        const int32_t high = peer_end < end ? peer_end : end;
        if (low < high) {
            stages[out->domain_pp] = i;
            out->peer_layers[out->domain_pp++] = high - low;
            found += high - low;
        }
        peer_first = peer_end;
    }
    if (found != end - first) {
        return kvf_refuse(out_refusal, KVF_LAYOUT_MISMATCH,
                          "layers %d to %d are here, the peer's stages end at layer %d",
                          first, end - 1, peer_first - 1);
    }
    return KVF_OK;
}

static void list_ranks(const struct kvf_cache_state *peer, const int32_t *stages,
                       struct share tp, struct share cp, struct kvf_targets *out)
{
    uint32_t n = 0;

    for (int32_t c = cp.first; c < cp.first + cp.count; c++) {
        for (int32_t t = tp.first; t < tp.first + tp.count; t++) {
            for (uint32_t p = 0; p < out->domain_pp; p++) {
                out->ranks[n++] = (stages[p] * peer->tp + t) * peer->cp + c;
            }
        }
    }
    out->n_ranks = n;
}

static void count_copies(const struct kvf_cache_state *peer,
                         const struct kvf_cache_state *self, struct kvf_targets *out)
{
    const int64_t n_self = group_heads(self), n_peer = group_heads(peer);

    out->dup_head_factor = n_self > n_peer ? (uint32_t)(n_self / n_peer) : 1;
    out->peer_dup_head_factor = n_peer > n_self ? (uint32_t)(n_peer / n_self) : 1;
}

static enum kvf_status find_targets(const struct kvf_cache_state *peer,
                                    const struct kvf_cache_state *self, int32_t self_rank,
                                    struct kvf_targets *out,
                                    struct kvf_plan_refusal *out_refusal)
{
    const struct coordinates at = locate(self, self_rank);
    int32_t stages[KVF_STAGES_MAX];
    int32_t first, end;

    out->dup_head_factor = 1;
    out->peer_dup_head_factor = 1;
    stage_layers(self, at.pp, &first, &end);
    if (first == end) {
        return KVF_OK; /* no layers: nobody to talk to */
    }
    const enum kvf_status status =
        find_stages(peer, first, end, stages, out, out_refusal);
    if (status != KVF_OK) {
        return status;
    }
    struct share tp = share_of(at.tp % group_tp(self), group_tp(self), group_tp(peer));
    const struct share cp = share_of(at.cp, self->cp, peer->cp);
    tp.first += group_index(peer) * group_tp(peer);
    out->domain_tp = (uint32_t)tp.count;
    out->domain_cp = (uint32_t)cp.count;
    if ((uint64_t)out->domain_pp * out->domain_tp * out->domain_cp > KVF_TARGETS_MAX) {
        return kvf_refuse(out_refusal, KVF_UNSUPPORTED,
                          "rank %d would talk to %u x %u x %u ranks, the limit is %d",
                          self_rank, out->domain_pp, out->domain_tp, out->domain_cp,
                          KVF_TARGETS_MAX);
    }
    list_ranks(peer, stages, tp, cp, out);
    count_copies(peer, self, out);
    return KVF_OK;
}

enum kvf_status kvf_rank_targets(const struct kvf_cache_state *peer,
                                 const struct kvf_cache_state *self, int32_t self_rank,
                                 struct kvf_targets *out,
                                 struct kvf_plan_refusal *out_refusal)
{
    struct kvf_targets targets = {.n_ranks = 0};
    enum kvf_status status = kvf_cache_state_check(peer, out_refusal);

    if (status == KVF_OK) {
        status = kvf_cache_state_check(self, out_refusal);
    }
    if (status != KVF_OK) {
        return status;
    }
    if (self_rank < 0 || self_rank >= self->tp * self->pp * self->cp) {
        return kvf_refuse(out_refusal, KVF_INVALID_ARGUMENT,
                          "rank %d does not exist, the instance has %d", self_rank,
                          self->tp * self->pp * self->cp);
    }
    status = find_targets(peer, self, self_rank, &targets, out_refusal);
    if (status == KVF_OK) {
        *out = targets;
    }
    return status;
}

/* How many ranks of this side hold the same bytes for one rank of the other. */
static int32_t copies(const struct kvf_cache_state *self,
                      const struct kvf_cache_state *peer, uint32_t dup_head_factor)
{
    if (!is_mla(self)) {
        return (int32_t)dup_head_factor;
    }
    const int32_t n_self = group_tp(self), n_peer = group_tp(peer);
    return n_self > n_peer ? n_self / n_peer : 1;
}

/* The receiver's dp group decides which copy sends, so that groups spread the load. */
bool kvf_rank_need_send(const struct kvf_cache_state *self, int32_t self_rank,
                        const struct kvf_cache_state *peer,
                        const struct kvf_targets *targets)
{
    const int32_t n_copies = copies(self, peer, targets->dup_head_factor);
    const int32_t tp = locate(self, self_rank).tp % group_tp(self);

    return tp % n_copies == group_index(peer) % n_copies;
}

size_t kvf_rank_pick_recv(const struct kvf_cache_state *self, int32_t self_rank,
                          const struct kvf_cache_state *peer,
                          const struct kvf_targets *targets, uint32_t *out)
{
    const uint32_t n_copies = (uint32_t)copies(peer, self, targets->peer_dup_head_factor);
    const uint32_t chosen = (uint32_t)group_index(self) % n_copies;
    size_t n = 0;

    (void)self_rank; /* the target list already is the rank's own */
    for (uint32_t i = 0; i < targets->n_ranks; i++) {
        const uint32_t tp = i / targets->domain_pp % targets->domain_tp;
        if (tp % n_copies == chosen) {
            out[n++] = i;
        }
    }
    return n;
}

void kvf_rank_place(const struct kvf_cache_state *state, int32_t rank,
                    struct kvf_rank_place *out)
{
    const struct coordinates at = locate(state, rank);
    const int32_t n_heads = state->kv_heads_per_layer[0];
    int32_t first, end;

    stage_layers(state, at.pp, &first, &end);
    *out = (struct kvf_rank_place){
        .tp = (uint32_t)at.tp,
        .pp = (uint32_t)at.pp,
        .cp = (uint32_t)at.cp,
        .layer_first = (uint32_t)first,
        .n_layers = (uint32_t)(end - first),
        .head_first = is_mla(state) ? 0 : (uint32_t)(at.tp % group_tp(state) * n_heads),
        .n_heads = (uint32_t)n_heads,
    };
}

void kvf_rank_place_shared(const struct kvf_cache_state *state, int32_t rank,
                           const struct kvf_cache_state *peer, struct kvf_rank_place *out)
{
    const int64_t n_self = group_heads(state), n_peer = group_heads(peer);

    kvf_rank_place(state, rank, out);
    if (n_self > n_peer) {
        out->head_first /= (uint32_t)(n_self / n_peer);
    }
}
