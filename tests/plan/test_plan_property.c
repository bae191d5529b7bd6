/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random pairs of shards against the naive reference: the same bytes move, nothing else
 * changes, and every way through a plan (copy, gather and scatter through a slot, runs,
 * pieces) agrees. Then whole instances: every generation rank ends with exactly what it
 * should hold after all pairs of the rank map have moved their part.
 *
 * test_plan_property [CASES [SEED]]; the seed of a failing case is printed.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/crc.h"
#include "plan/execute.h"
#include "plan/rank_map.h"
#include "tests/plan/reference.h"

static uint64_t n_cases = 20000;
static uint64_t first_seed = 1;

static uint32_t pick(struct kvf_rng *rng, uint32_t low, uint32_t high)
{
    return low + (uint32_t)kvf_rng_below(rng, high - low + 1);
}

static uint32_t pick_of(struct kvf_rng *rng, const uint32_t *values, size_t n)
{
    return values[kvf_rng_below(rng, n)];
}
#define PICK_OF(rng, values) pick_of(rng, values, sizeof(values) / sizeof((values)[0]))

/* One pair of shards and a range in both. */
struct pair {
    struct ref_pool src, dst;
    struct kvf_plan_range range;
    uint8_t *expected; /* dst's pool after the transfer */
    uint64_t n_bytes;  /* that move */
};

static uint32_t n_blocks_for(uint32_t n_tokens, uint32_t tokens_per_block,
                             uint32_t cp_size, uint32_t cp_rank)
{
    const uint32_t n_all = (n_tokens + tokens_per_block - 1) / tokens_per_block;

    return n_all / cp_size + (n_all % cp_size > cp_rank);
}

struct cut {
    uint32_t first, count;
};

static struct cut pick_cut(struct kvf_rng *rng, uint32_t max_count)
{
    return (struct cut){pick(rng, 0, 3), pick(rng, 1, max_count)};
}

/* Moves b so that it shares something with a. */
static struct cut overlap(struct kvf_rng *rng, struct cut a, struct cut *b)
{
    b->first = pick(rng, a.first + 1 > b->count ? a.first + 1 - b->count : 0,
                    a.first + a.count - 1);
    const uint32_t first = a.first > b->first ? a.first : b->first;
    const uint32_t a_end = a.first + a.count, b_end = b->first + b->count;
    return (struct cut){first, (a_end < b_end ? a_end : b_end) - first};
}

static void init_side(struct ref_pool *pool, struct kvf_rng *rng, struct ref_shape shape,
                      uint32_t n_tokens, struct cut cp)
{
    const uint32_t n = n_blocks_for(n_tokens, shape.tokens_per_block, cp.count, cp.first);

    shape.n_blocks = n + pick(rng, n == 0, 3);
    ref_pool_init(pool, rng, (enum ref_kind)kvf_rng_below(rng, REF_KINDS), &shape, n);
    pool->shard.cp_size = cp.count;
    pool->shard.cp_rank = cp.first;
    ref_pool_fill(pool, n_tokens);
}

static void pick_cps(struct kvf_rng *rng, uint32_t src_block, uint32_t dst_block,
                     struct cut cp[2])
{
    static const uint32_t sizes[] = {2, 2, 4, 3};
    const uint32_t kind = pick(rng, 0, 9);

    cp[0] = (struct cut){0, 1};
    cp[1] = (struct cut){0, 1};
    if (kind >= 6 && kind < 9) {
        struct cut *one = &cp[kind % 2];
        one->count = PICK_OF(rng, sizes);
        one->first = pick(rng, 0, one->count - 1);
    } else if (kind == 9 && src_block == dst_block) {
        cp[0].count = 2;
        cp[1].count = 2u << pick(rng, 0, 1);
        cp[0].first = pick(rng, 0, cp[0].count - 1);
        cp[1].first = pick(rng, 0, cp[1].count - 1);
    }
}

static void pair_init(struct pair *pair, struct kvf_rng *rng)
{
    static const uint32_t blocks[] = {1, 2, 4, 8, 16, 3, 6, 12, 5};
    static const uint32_t rows[] = {1, 2, 4, 8, 16, 24, 32, 64, 66, 128, 256, 320};
    const bool is_mla = pick(rng, 0, 4) == 0;
    struct cut src_layers = pick_cut(rng, 4), dst_layers = pick_cut(rng, 4);
    struct cut src_heads = pick_cut(rng, is_mla ? 1 : 4);
    struct cut dst_heads = pick_cut(rng, is_mla ? 1 : 4);
    const struct cut layers = overlap(rng, src_layers, &dst_layers);
    const uint32_t n_tokens = pick(rng, 1, 40);
    struct cut cp[2];
    struct ref_shape shape = {.kv_factor = is_mla ? 1 : pick(rng, 1, 2),
                              .row_bytes = PICK_OF(rng, rows),
                              .tokens_per_block = PICK_OF(rng, blocks)};
    const uint32_t dst_block =
        pick(rng, 0, 1) ? shape.tokens_per_block : PICK_OF(rng, blocks);

    (void)overlap(rng, src_heads, &dst_heads);
    pick_cps(rng, shape.tokens_per_block, dst_block, cp);
    shape.n_layers = src_layers.count;
    shape.n_heads = src_heads.count;
    init_side(&pair->src, rng, shape, n_tokens, cp[0]);
    shape.n_layers = dst_layers.count;
    shape.n_heads = dst_heads.count;
    shape.tokens_per_block = dst_block;
    init_side(&pair->dst, rng, shape, n_tokens, cp[1]);
    memset(pair->dst.bytes, REF_POISON, pair->dst.n_bytes);
    pair->src.shard.layer_first = src_layers.first;
    pair->dst.shard.layer_first = dst_layers.first;
    pair->src.shard.head_first = src_heads.first;
    pair->dst.shard.head_first = dst_heads.first;

    pair->range.layer_first = pick(rng, layers.first, layers.first + layers.count - 1);
    pair->range.n_layers =
        pick(rng, 1, layers.first + layers.count - pair->range.layer_first);
    pair->range.token_first = pick(rng, 0, 1) ? 0 : pick(rng, 0, n_tokens);
    pair->range.n_tokens = pick(rng, 0, 1)
                               ? n_tokens - pair->range.token_first
                               : pick(rng, 0, n_tokens - pair->range.token_first);
    pair->n_bytes = ref_copy(&pair->src, &pair->dst, &pair->range);
    pair->expected = kvf_alloc(pair->dst.n_bytes);
    memcpy(pair->expected, pair->dst.bytes, pair->dst.n_bytes);
    memset(pair->dst.bytes, REF_POISON, pair->dst.n_bytes);
}

static void pair_fini(struct pair *pair)
{
    ref_pool_fini(&pair->src);
    ref_pool_fini(&pair->dst);
    kvf_free(pair->expected);
}

/* A plan as the sender, the receiver or a daemon with both pools has it. */
static void build(const struct pair *pair, bool knows_src, bool knows_dst,
                  struct kvf_plan *out)
{
    struct kvf_shard src = pair->src.shard, dst = pair->dst.shard;
    struct kvf_plan_refusal refusal = {""};

    src.blocks = knows_src ? src.blocks : NULL;
    dst.blocks = knows_dst ? dst.blocks : NULL;
    if (kvf_plan_build(&src, &dst, &pair->range, out, &refusal) != KVF_OK) {
        fail_msg("refused: %s", refusal.text);
    }
    assert_int_equal(kvf_plan_bytes(out), pair->n_bytes);
}

static void expect_moved(struct pair *pair)
{
    assert_memory_equal(pair->dst.bytes, pair->expected, pair->dst.n_bytes);
    memset(pair->dst.bytes, REF_POISON, pair->dst.n_bytes);
}

static uint64_t pick_part(struct kvf_rng *rng, uint64_t left)
{
    return 1 + kvf_rng_below(rng, pick(rng, 0, 3) ? left : (left < 40 ? left : 40));
}

static void check_copy(struct pair *pair, struct kvf_rng *rng,
                       const struct kvf_plan *plan, uint32_t *out_crc)
{
    uint32_t crc = 0;

    for (uint64_t at = 0; at < pair->n_bytes;) {
        const uint64_t n = pick_part(rng, pair->n_bytes - at);
        kvf_execute_copy(plan, pair->src.bytes, pair->dst.bytes, at, n, &crc);
        at += n;
    }
    expect_moved(pair);
    *out_crc = crc;
}

static void check_staged(struct pair *pair, struct kvf_rng *rng,
                         const struct kvf_plan *sender, const struct kvf_plan *receiver,
                         uint8_t *slot, uint32_t crc)
{
    uint32_t sent = 0, received = 0;

    for (uint64_t at = 0; at < pair->n_bytes;) {
        const uint64_t n = pick_part(rng, pair->n_bytes - at);
        kvf_execute_gather(sender, pair->src.bytes, slot + at, at, n,
                           pick(rng, 0, 1) ? &sent : NULL);
        at += n;
    }
    assert_int_equal(kvf_crc32c(0, slot, pair->n_bytes), crc);
    for (uint64_t at = 0; at < pair->n_bytes;) {
        const uint64_t n = pick_part(rng, pair->n_bytes - at);
        kvf_execute_scatter(receiver, slot + at, pair->dst.bytes, at, n, &received);
        at += n;
    }
    assert_int_equal(received, crc);
    assert_int_equal(
        kvf_execute_crc(sender, KVF_PLAN_SRC, pair->src.bytes, 0, pair->n_bytes, 0), crc);
    assert_int_equal(
        kvf_execute_crc(receiver, KVF_PLAN_DST, pair->dst.bytes, 0, pair->n_bytes, 0),
        crc);
    expect_moved(pair);
}

static void check_runs(struct pair *pair, struct kvf_rng *rng,
                       const struct kvf_plan *plan)
{
    struct kvf_plan_cursor cursor;
    struct kvf_run run;
    uint64_t n_runs = 0;

    kvf_plan_seek(plan, 0, UINT64_MAX, &cursor);
    while (kvf_plan_next(&cursor, UINT64_MAX, &run)) {
        n_runs++;
    }
    assert_int_equal(cursor.offset, pair->n_bytes);
    assert_int_equal(kvf_plan_runs(plan), n_runs);

    for (uint64_t at = 0; at < pair->n_bytes;) {
        const uint64_t n = pick_part(rng, pair->n_bytes - at);
        const uint64_t max = pick_part(rng, 600);
        uint64_t passed = 0;
        kvf_plan_seek(plan, at, n, &cursor);
        while (kvf_plan_next(&cursor, max, &run)) {
            assert_in_range(run.n_bytes, 1, max);
            memcpy(pair->dst.bytes + run.dst_offset, pair->src.bytes + run.src_offset,
                   run.n_bytes);
            passed += run.n_bytes;
        }
        assert_int_equal(passed, n);
        at += n;
    }
    expect_moved(pair);
}

static void check_pieces(const struct pair *pair, struct kvf_rng *rng,
                         const struct kvf_plan *plan, enum kvf_plan_end end, void *base,
                         const uint8_t *slot)
{
    struct iovec pieces[7];

    for (uint64_t at = 0; at < pair->n_bytes;) {
        uint64_t came = 0, in_pieces = 0;
        const uint64_t n = pick_part(rng, pair->n_bytes - at);
        const size_t max = pick(rng, 1, 7);
        const size_t used = kvf_plan_pieces(plan, end, base, at, n, pieces, max, &came);
        assert_in_range(used, 1, max);
        assert_true(came == n || (came < n && used == max));
        for (size_t i = 0; i < used; i++) {
            if (end == KVF_PLAN_SRC) {
                assert_memory_equal(pieces[i].iov_base, slot + at + in_pieces,
                                    pieces[i].iov_len);
            } else {
                memcpy(pieces[i].iov_base, slot + at + in_pieces, pieces[i].iov_len);
            }
            in_pieces += pieces[i].iov_len;
        }
        assert_int_equal(in_pieces, came);
        at += came;
    }
}

static void run_pair(uint64_t seed)
{
    struct kvf_rng rng;
    struct pair pair;
    struct kvf_plan both, sender, receiver;
    struct kvf_plan_refusal refusal = {""};
    uint32_t crc = 0;

    kvf_rng_init_seeded(&rng, seed);
    pair_init(&pair, &rng);
    if (kvf_layout_check(&pair.src.layout, pair.src.n_bytes, &refusal) != KVF_OK ||
        kvf_layout_check(&pair.dst.layout, pair.dst.n_bytes, &refusal) != KVF_OK) {
        fail_msg("layout refused: %s", refusal.text);
    }
    build(&pair, true, true, &both);
    build(&pair, true, false, &sender);
    build(&pair, false, true, &receiver);
    assert_int_equal(kvf_plan_hash(&sender), kvf_plan_hash(&receiver));
    assert_int_equal(kvf_plan_hash(&sender), kvf_plan_hash(&both));

    uint8_t *slot = kvf_alloc(pair.n_bytes + 1);
    check_copy(&pair, &rng, &both, &crc);
    check_staged(&pair, &rng, &sender, &receiver, slot, crc);
    check_runs(&pair, &rng, &both);
    check_pieces(&pair, &rng, &sender, KVF_PLAN_SRC, pair.src.bytes, slot);
    check_pieces(&pair, &rng, &both, KVF_PLAN_SRC, pair.src.bytes, slot);
    check_pieces(&pair, &rng, &receiver, KVF_PLAN_DST, pair.dst.bytes, slot);
    expect_moved(&pair);
    kvf_free(slot);
    pair_fini(&pair);
}

/* ---- whole instances ---- */

#define RANKS_MAX  32
#define STAGES_MAX 3
#define LAYERS     5

struct instance {
    struct kvf_cache_state state;
    int32_t heads[LAYERS], stages[STAGES_MAX];
    int32_t n_ranks;
    struct ref_pool pools[RANKS_MAX];
    bool has_pool[RANKS_MAX];
    bool is_member[RANKS_MAX]; /* of the request's attention dp group */
};

static void deal_layers(struct kvf_rng *rng, struct instance *instance)
{
    memset(instance->stages, 0, sizeof(instance->stages));
    for (int i = 0; i < LAYERS; i++) {
        instance->stages[kvf_rng_below(rng, (uint64_t)instance->state.pp)]++;
    }
}

/* total_heads: of the model; a rank of a larger TP group holds one, several times over.
 */
static void state_init(struct kvf_rng *rng, struct instance *instance, bool is_mla,
                       int32_t total_heads, int32_t cp)
{
    static const uint32_t blocks[] = {4, 8, 16};
    struct kvf_cache_state *state = &instance->state;

    *state = (struct kvf_cache_state){
        .kv_heads_per_layer = instance->heads,
        .n_model_layers = LAYERS,
        .size_per_head = 4,
        .tokens_per_block = (int32_t)PICK_OF(rng, blocks),
        .tp = 1 << pick(rng, 0, 2),
        .pp = (int32_t)pick(rng, 1, cp > 1 ? 2 : STAGES_MAX),
        .cp = cp,
        .layers_per_stage = instance->stages,
        .attention = is_mla ? KVF_ATTENTION_MLA : KVF_ATTENTION_DEFAULT,
        .kv_factor = is_mla ? 1 : 2,
        .dtype = KVF_DTYPE_BF16,
        .rank_convention = 1,
    };
    state->n_stages = (uint64_t)state->pp;
    state->has_attention_dp = pick(rng, 0, 3) == 0;
    state->dp_size = 1;
    while (state->has_attention_dp && state->dp_size < state->tp && pick(rng, 0, 2)) {
        state->dp_size *= 2;
    }
    state->dp_rank = (int32_t)pick(rng, 0, (uint32_t)state->dp_size - 1);
    const int32_t tp = state->tp / state->dp_size;
    for (int i = 0; i < LAYERS; i++) {
        instance->heads[i] = total_heads > tp ? total_heads / tp : 1;
    }
    instance->n_ranks = state->tp * state->pp * state->cp;
    deal_layers(rng, instance);
}

static void pools_init(struct kvf_rng *rng, struct instance *instance,
                       const struct kvf_cache_state *peer, uint32_t n_tokens)
{
    const struct kvf_cache_state *state = &instance->state;

    for (int32_t r = 0; r < instance->n_ranks; r++) {
        struct kvf_rank_place place;
        kvf_rank_place_shared(state, r, peer, &place);
        instance->is_member[r] =
            !state->has_attention_dp ||
            (int32_t)place.tp / (state->tp / state->dp_size) == state->dp_rank;
        instance->has_pool[r] = place.n_layers > 0;
        if (!instance->has_pool[r]) {
            continue;
        }
        const struct ref_shape shape = {.n_layers = place.n_layers,
                                        .kv_factor = (uint32_t)state->kv_factor,
                                        .n_heads = place.n_heads,
                                        .tokens_per_block =
                                            (uint32_t)state->tokens_per_block,
                                        .row_bytes = 8};
        const struct cut cp = {place.cp, (uint32_t)state->cp};
        init_side(&instance->pools[r], rng, shape, n_tokens, cp);
        instance->pools[r].shard.layer_first = place.layer_first;
        instance->pools[r].shard.head_first = place.head_first;
        memset(instance->pools[r].bytes, REF_POISON, instance->pools[r].n_bytes);
    }
}

static void instance_fini(struct instance *instance)
{
    for (int32_t r = 0; r < instance->n_ranks; r++) {
        if (instance->has_pool[r]) {
            ref_pool_fini(&instance->pools[r]);
        }
    }
}

static bool has_rank(const struct kvf_targets *targets, int32_t rank)
{
    for (uint32_t i = 0; i < targets->n_ranks; i++) {
        if (targets->ranks[i] == rank) {
            return true;
        }
    }
    return false;
}

static void must_find_targets(const struct instance *peer, const struct instance *self,
                              int32_t rank, struct kvf_targets *out)
{
    struct kvf_plan_refusal refusal = {""};

    if (kvf_rank_targets(&peer->state, &self->state, rank, out, &refusal) != KVF_OK) {
        fail_msg("targets refused: %s", refusal.text);
    }
}

static uint64_t move_pair(struct ref_pool *src, struct ref_pool *dst, uint32_t n_tokens)
{
    const uint32_t src_end = src->shard.layer_first + src->layout.n_layers;
    const uint32_t dst_end = dst->shard.layer_first + dst->layout.n_layers;
    struct kvf_plan_range range = {.n_tokens = n_tokens};
    struct kvf_plan_refusal refusal = {""};
    struct kvf_plan plan;

    range.layer_first = src->shard.layer_first > dst->shard.layer_first
                            ? src->shard.layer_first
                            : dst->shard.layer_first;
    range.n_layers = (src_end < dst_end ? src_end : dst_end) - range.layer_first;
    if (kvf_plan_build(&src->shard, &dst->shard, &range, &plan, &refusal) != KVF_OK) {
        fail_msg("refused: %s", refusal.text);
    }
    kvf_execute_copy(&plan, src->bytes, dst->bytes, 0, plan.n_bytes, NULL);
    return plan.n_bytes;
}

/* Moves everything that generation rank r is due; both sides agree on who sends. */
static void receive_all(struct instance *context, struct instance *generation, int32_t r,
                        uint32_t n_tokens)
{
    struct kvf_targets targets, back;
    uint32_t picked[KVF_TARGETS_MAX];
    bool is_picked[RANKS_MAX] = {false};
    struct ref_pool *pool = &generation->pools[r];
    uint64_t n_bytes = 0, n_due = 0;

    must_find_targets(context, generation, r, &targets);
    const size_t n =
        kvf_rank_pick_recv(&generation->state, r, &context->state, &targets, picked);
    for (size_t i = 0; i < n; i++) {
        const int32_t source = targets.ranks[picked[i]];
        is_picked[source] = true;
        n_bytes += move_pair(&context->pools[source], pool, n_tokens);
    }
    for (int32_t c = 0; c < context->n_ranks; c++) {
        must_find_targets(generation, context, c, &back);
        const bool will_send =
            context->is_member[c] && has_rank(&back, r) &&
            kvf_rank_need_send(&context->state, c, &generation->state, &back);
        assert_int_equal(will_send, is_picked[c]);
    }
    uint8_t *moved = pool->bytes;
    pool->bytes = kvf_alloc(pool->n_bytes);
    memset(pool->bytes, REF_POISON, pool->n_bytes);
    ref_pool_fill(pool, n_tokens);
    assert_memory_equal(moved, pool->bytes, pool->n_bytes);
    for (uint32_t t = 0; t < n_tokens; t++) {
        n_due += ref_row(pool, pool->shard.layer_first, 0, pool->shard.head_first, t) !=
                 UINT64_MAX;
    }
    n_due *= (uint64_t)pool->layout.n_layers * pool->layout.n_heads *
             pool->layout.kv_factor * pool->layout.row_bytes;
    assert_int_equal(n_bytes, n_due); /* nothing arrived twice */
    kvf_free(moved);
}

static void run_instances(uint64_t seed)
{
    static struct instance context, generation;
    struct kvf_plan_refusal refusal = {""};
    struct kvf_rng rng;

    kvf_rng_init_seeded(&rng, seed);
    const bool is_mla = pick(&rng, 0, 2) == 0;
    const int32_t n_heads = is_mla ? 1 : 1 << pick(&rng, 0, 2);
    const uint32_t n_tokens = pick(&rng, 1, 40);
    const int32_t generation_cp = 1 << (pick(&rng, 0, 1) * pick(&rng, 0, 1));
    const int32_t context_cp = pick(&rng, 0, 7) == 0 ? 2 : 1;

    state_init(&rng, &context, is_mla, n_heads, context_cp);
    state_init(&rng, &generation, is_mla, n_heads, generation_cp);
    if (kvf_cache_state_support(&context.state, &generation.state, &refusal) != KVF_OK) {
        return;
    }
    pools_init(&rng, &context, &generation.state, n_tokens);
    pools_init(&rng, &generation, &context.state, n_tokens);
    for (int32_t r = 0; r < context.n_ranks; r++) {
        if (context.has_pool[r] && context.is_member[r]) {
            ref_pool_fill(&context.pools[r], n_tokens);
        }
    }
    for (int32_t r = 0; r < generation.n_ranks; r++) {
        if (generation.has_pool[r] && generation.is_member[r]) {
            receive_all(&context, &generation, r, n_tokens);
        }
    }
    instance_fini(&context);
    instance_fini(&generation);
}

/* ---- what a peer says cannot lead out of our pool ---- */

#define HOSTILE_RUNS 500

static uint64_t any_number(struct kvf_rng *rng)
{
    const uint64_t value = kvf_rng_u64(rng) >> kvf_rng_below(rng, 64);

    return pick(rng, 0, 9) == 0 ? UINT64_MAX - value : value;
}

static uint32_t any_count(struct kvf_rng *rng)
{
    return pick(rng, 0, 1) ? pick(rng, 0, 9) : (uint32_t)any_number(rng);
}

/* Sometimes close to ours, so that the plan is not refused at once. */
static void invent_layout(struct kvf_rng *rng, const struct kvf_layout *ours,
                          uint64_t offsets[4], struct kvf_layout *out)
{
    *out = *ours;
    out->n_layers = pick(rng, 0, 4);
    out->n_heads = any_count(rng);
    out->tokens_per_block = any_count(rng);
    out->n_blocks = any_count(rng);
    out->kv_factor = pick(rng, 0, 9) ? ours->kv_factor : any_count(rng);
    out->row_bytes = pick(rng, 0, 9) ? ours->row_bytes : any_count(rng);
    out->block_stride = any_number(rng);
    out->kv_stride = any_number(rng);
    out->head_stride = any_number(rng);
    out->token_stride = any_number(rng);
    for (int i = 0; i < 4; i++) {
        offsets[i] = any_number(rng);
    }
    out->layer_offsets = offsets;
}

static void walk_ours(const struct kvf_plan *plan, struct kvf_rng *rng, bool is_src,
                      uint64_t pool_bytes)
{
    struct kvf_plan_cursor cursor;
    struct kvf_run run;

    if (plan->n_bytes == 0) {
        return;
    }
    kvf_plan_seek(plan, kvf_rng_below(rng, plan->n_bytes), UINT64_MAX, &cursor);
    for (int i = 0; i < HOSTILE_RUNS && kvf_plan_next(&cursor, UINT64_MAX, &run); i++) {
        const uint64_t at = is_src ? run.src_offset : run.dst_offset;
        assert_true(at < pool_bytes && run.n_bytes <= pool_bytes - at);
    }
}

static void run_hostile(uint64_t seed)
{
    struct kvf_rng rng;
    struct pair pair;
    struct kvf_layout invented;
    struct kvf_plan plan;
    uint64_t offsets[4];

    kvf_rng_init_seeded(&rng, seed);
    pair_init(&pair, &rng);
    invent_layout(&rng, &pair.src.layout, offsets, &invented);
    struct kvf_shard remote = {.layout = &invented,
                               .layer_first = any_count(&rng),
                               .head_first = any_count(&rng),
                               .cp_size = pick(&rng, 0, 3) ? 1 : any_count(&rng)};
    remote.cp_rank =
        remote.cp_size > 1 ? (uint32_t)kvf_rng_below(&rng, remote.cp_size) : 0;
    if (pick(&rng, 0, 3)) {
        remote.layer_first = pair.range.layer_first;
        remote.head_first = pair.src.shard.head_first;
    }
    pair.range.n_layers = pick(&rng, 1, 3);
    if (kvf_plan_build(&pair.src.shard, &remote, &pair.range, &plan, NULL) == KVF_OK) {
        walk_ours(&plan, &rng, true, pair.src.n_bytes);
    }
    if (kvf_plan_build(&remote, &pair.src.shard, &pair.range, &plan, NULL) == KVF_OK) {
        walk_ours(&plan, &rng, false, pair.src.n_bytes);
    }
    pair_fini(&pair);
}

/* ---- */

static uint64_t current_seed;

static int forget_seed(void **state)
{
    (void)state;
    current_seed = 0;
    return 0;
}

/* Runs after a failed case too: its seed is still there. */
static int print_seed(void **state)
{
    (void)state;
    if (current_seed != 0) {
        print_message("failed: repeat with arguments 1 %" PRIu64 "\n", current_seed);
    }
    return 0;
}

static void run_cases(void (*run)(uint64_t seed), uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        current_seed = first_seed + i;
        run(current_seed);
    }
    current_seed = 0;
}

static void test_plan_moves_what_the_naive_copy_moves(void **state)
{
    (void)state;
    run_cases(run_pair, n_cases);
}

static void test_plans_of_all_rank_pairs_fill_every_receiver_once(void **state)
{
    (void)state;
    run_cases(run_instances, (n_cases + 9) / 10);
}

static void test_plans_with_hostile_peers_stay_in_our_pool(void **state)
{
    (void)state;
    run_cases(run_hostile, n_cases);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_plan_moves_what_the_naive_copy_moves,
                                        forget_seed, print_seed),
        cmocka_unit_test_setup_teardown(
            test_plans_of_all_rank_pairs_fill_every_receiver_once, forget_seed,
            print_seed),
        cmocka_unit_test_setup_teardown(test_plans_with_hostile_peers_stay_in_our_pool,
                                        forget_seed, print_seed),
    };

    if (argc > 1) {
        n_cases = strtoull(argv[1], NULL, 10);
    }
    if (argc > 2) {
        first_seed = strtoull(argv[2], NULL, 10);
    }
    print_message("%" PRIu64 " cases from seed %" PRIu64 "\n", n_cases, first_seed);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
