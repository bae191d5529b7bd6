/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rank map against golden cases, and what the state checks refuse.
 *
 * test_rank_map [FILE]: another file of golden cases instead of the committed sample.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "plan/rank_map.h"

#define LAYERS_MAX 256

static const char *golden_path = KVF_GOLDEN_FILE;

/* A state with its arrays, valid until the next one is made in the same place. */
struct instance {
    struct kvf_cache_state state;
    int32_t heads[LAYERS_MAX], stages[LAYERS_MAX];
};

static void instance_init(struct instance *instance, int32_t tp, int32_t pp, int32_t cp,
                          int32_t heads, const int32_t *stages)
{
    *instance = (struct instance){.state = {.kv_heads_per_layer = instance->heads,
                                            .size_per_head = 64,
                                            .tokens_per_block = 32,
                                            .tp = tp,
                                            .pp = pp,
                                            .cp = cp,
                                            .layers_per_stage = instance->stages,
                                            .n_stages = (uint64_t)pp,
                                            .kv_factor = 2,
                                            .dtype = KVF_DTYPE_BF16,
                                            .rank_convention = 1}};
    for (int32_t i = 0; i < pp; i++) {
        instance->stages[i] = stages[i];
        for (int32_t l = 0; l < stages[i]; l++) {
            instance->heads[instance->state.n_model_layers++] = heads;
        }
    }
}

static int32_t number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    assert_true(json_is_integer(value));
    return (int32_t)json_integer_value(value);
}

static void instance_read(struct instance *instance, const json_t *object)
{
    const json_t *list = json_object_get(object, "layers_per_pp_stage");
    int32_t stages[LAYERS_MAX];
    const char *attention = json_string_value(json_object_get(object, "attention"));

    assert_in_range(json_array_size(list), 1, LAYERS_MAX);
    for (size_t i = 0; i < json_array_size(list); i++) {
        stages[i] = (int32_t)json_integer_value(json_array_get(list, i));
    }
    instance_init(instance, number(object, "tp"), number(object, "pp"),
                  number(object, "cp"), number(object, "kv_heads_per_rank"), stages);
    assert_non_null(attention);
    if (strcmp(attention, "mla") == 0) {
        instance->state.attention = KVF_ATTENTION_MLA;
        instance->state.kv_factor = 1;
    }
    instance->state.has_attention_dp =
        json_is_true(json_object_get(object, "attention_dp"));
    instance->state.dp_rank = number(object, "dp_rank");
    instance->state.dp_size = number(object, "dp_size");
}

static void expect_list(const json_t *view, const char *key, const void *values, size_t n)
{
    const json_t *list = json_object_get(view, key);
    const int32_t *numbers = values;

    assert_int_equal(json_array_size(list), n);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(json_integer_value(json_array_get(list, i)), numbers[i]);
    }
}

static void must_find(const struct instance *peer, const struct instance *self,
                      int32_t rank, struct kvf_targets *out)
{
    struct kvf_plan_refusal refusal = {""};

    if (kvf_rank_targets(&peer->state, &self->state, rank, out, &refusal) != KVF_OK) {
        fail_msg("refused: %s", refusal.text);
    }
}

static void check_view(const struct instance *peer, const struct instance *self,
                       const json_t *view, struct kvf_targets *out)
{
    must_find(peer, self, number(view, "rank"), out);
    expect_list(view, "targets", out->ranks, out->n_ranks);
    expect_list(view, "peer_layers", out->peer_layers, out->domain_pp);
    assert_int_equal(out->domain_pp, number(view, "domain_pp"));
    assert_int_equal(out->domain_tp, number(view, "domain_tp"));
    assert_int_equal(out->domain_cp, number(view, "domain_cp"));
    assert_int_equal(out->dup_head_factor, number(view, "dup_head_factor"));
    assert_int_equal(out->peer_dup_head_factor, number(view, "peer_dup_head_factor"));
}

static void check_case(const json_t *golden)
{
    static struct instance context, generation;
    const json_t *view;
    size_t i;

    instance_read(&context, json_object_get(golden, "context"));
    instance_read(&generation, json_object_get(golden, "generation"));
    json_array_foreach(json_object_get(golden, "context_view"), i, view)
    {
        struct kvf_targets targets;
        check_view(&generation, &context, view, &targets);
        assert_int_equal(
            kvf_rank_need_send(&context.state, (int32_t)i, &generation.state, &targets),
            json_is_true(json_object_get(view, "need_send")));
    }
    json_array_foreach(json_object_get(golden, "generation_view"), i, view)
    {
        struct kvf_targets targets;
        uint32_t picked[KVF_TARGETS_MAX];
        check_view(&context, &generation, view, &targets);
        expect_list(view, "pick_recv", picked,
                    kvf_rank_pick_recv(&generation.state, (int32_t)i, &context.state,
                                       &targets, picked));
    }
}

static void test_rank_map_matches_golden_cases(void **state)
{
    json_error_t error;
    json_t *root = json_load_file(golden_path, 0, &error);
    const json_t *golden;
    size_t i;

    (void)state;
    if (root == NULL) {
        fail_msg("%s: %s", golden_path, error.text);
    }
    json_array_foreach(json_object_get(root, "cases"), i, golden)
    {
        check_case(golden);
    }
    print_message("%zu cases\n", i);
    assert_true(i >= 25);
    json_decref(root);
}

static void test_rank_map_leaves_empty_stages_out_on_both_sides(void **state)
{
    static const int32_t holed[] = {2, 0, 2}, whole[] = {4};
    struct instance context, generation;
    struct kvf_targets targets;

    (void)state;
    instance_init(&context, 1, 3, 1, 2, holed);
    instance_init(&generation, 1, 1, 1, 2, whole);
    must_find(&context, &generation, 0, &targets);
    assert_int_equal(targets.domain_pp, 2);
    assert_int_equal(targets.n_ranks, 2);
    assert_int_equal(targets.ranks[0], 0);
    assert_int_equal(targets.ranks[1], 2);
    assert_int_equal(targets.peer_layers[1], 2);
    must_find(&generation, &context, 1, &targets);
    assert_int_equal(targets.n_ranks, 0);
    assert_int_equal(targets.domain_pp + targets.domain_tp + targets.domain_cp, 0);
    assert_int_equal(targets.dup_head_factor, 1);
}

static void test_rank_map_lists_cp_outside_tp_outside_pp(void **state)
{
    static const int32_t one[] = {4}, two[] = {2, 2};
    static const int32_t expected[] = {0, 8, 2, 10, 1, 9, 3, 11};
    struct instance context, generation;
    struct kvf_targets targets;

    (void)state;
    instance_init(&context, 2, 1, 1, 2, one);
    instance_init(&generation, 4, 2, 2, 1, two);
    must_find(&generation, &context, 0, &targets);
    assert_int_equal(targets.n_ranks, 8);
    assert_memory_equal(targets.ranks, expected, sizeof(expected));
}

static void test_rank_map_picks_every_context_cp_rank(void **state)
{
    static const int32_t one[] = {4};
    struct instance context, generation;
    struct kvf_targets targets;
    uint32_t picked[KVF_TARGETS_MAX];

    (void)state;
    instance_init(&context, 2, 1, 2, 1, one); /* heads held twice */
    instance_init(&generation, 1, 1, 1, 1, one);
    must_find(&context, &generation, 0, &targets);
    assert_int_equal(
        kvf_rank_pick_recv(&generation.state, 0, &context.state, &targets, picked), 2);
    assert_int_equal(targets.ranks[picked[0]], 0);
    assert_int_equal(targets.ranks[picked[1]], 1);
}

static void test_rank_map_refuses_ranks_that_do_not_exist(void **state)
{
    static const int32_t one[] = {4}, fewer[] = {3};
    struct instance a, b;
    struct kvf_targets targets = {.n_ranks = 77};
    struct kvf_plan_refusal refusal = {""};

    (void)state;
    instance_init(&a, 2, 1, 1, 1, one);
    instance_init(&b, 2, 1, 1, 1, fewer);
    assert_int_equal(kvf_rank_targets(&a.state, &a.state, 2, &targets, &refusal),
                     KVF_INVALID_ARGUMENT);
    assert_int_equal(kvf_rank_targets(&a.state, &a.state, -1, &targets, &refusal),
                     KVF_INVALID_ARGUMENT);
    assert_int_equal(kvf_rank_targets(&b.state, &a.state, 0, &targets, &refusal),
                     KVF_LAYOUT_MISMATCH);
    assert_string_equal(refusal.text,
                        "layers 0 to 3 are here, the peer's stages end at layer 2");
    assert_int_equal(targets.n_ranks, 77);
}

static void test_rank_map_refuses_more_targets_than_fit(void **state)
{
    static const int32_t one[] = {1};
    struct instance small, large;
    struct kvf_targets targets;

    (void)state;
    instance_init(&small, 1, 1, 1, 1, one);
    instance_init(&large, 2048, 1, 1, 1, one);
    assert_int_equal(kvf_rank_targets(&large.state, &small.state, 0, &targets, NULL),
                     KVF_UNSUPPORTED);
}

static void test_rank_place_counts_layers_heads_and_cp(void **state)
{
    static const int32_t stages[] = {3, 0, 2};
    struct instance instance;
    struct kvf_rank_place place;

    (void)state;
    instance_init(&instance, 4, 3, 2, 2, stages);
    instance.state.has_attention_dp = 1;
    instance.state.dp_size = 2;
    kvf_rank_place(&instance.state, 2 * 8 + 3 * 2 + 1, &place);
    assert_int_equal(place.pp, 2);
    assert_int_equal(place.tp, 3);
    assert_int_equal(place.cp, 1);
    assert_int_equal(place.layer_first, 3);
    assert_int_equal(place.n_layers, 2);
    assert_int_equal(place.head_first, 2); /* second of two in its dp group */
    assert_int_equal(place.n_heads, 2);
    kvf_rank_place(&instance.state, 8, &place);
    assert_int_equal(place.n_layers, 0);
}

static void test_rank_place_shares_head_numbers_of_copies(void **state)
{
    static const int32_t one[] = {4};
    struct instance copies, plain;
    struct kvf_rank_place place;

    (void)state;
    instance_init(&copies, 8, 1, 1, 1, one); /* 4 heads, each on 2 ranks */
    instance_init(&plain, 2, 1, 1, 2, one);
    kvf_rank_place_shared(&copies.state, 5, &plain.state, &place);
    assert_int_equal(place.head_first, 2);
    kvf_rank_place_shared(&plain.state, 1, &copies.state, &place);
    assert_int_equal(place.head_first, 2);
    copies.state.attention = KVF_ATTENTION_MLA;
    plain.state.attention = KVF_ATTENTION_MLA;
    kvf_rank_place_shared(&copies.state, 5, &plain.state, &place);
    assert_int_equal(place.head_first, 0);
}

static void expect_bad(const struct instance *instance, const char *words)
{
    struct kvf_plan_refusal refusal = {""};

    assert_int_equal(kvf_cache_state_check(&instance->state, &refusal),
                     KVF_LAYOUT_MISMATCH);
    if (strstr(refusal.text, words) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", refusal.text, words);
    }
}

static void make_good(struct instance *instance)
{
    static const int32_t stages[] = {2, 2};

    instance_init(instance, 4, 2, 1, 2, stages);
    assert_int_equal(kvf_cache_state_check(&instance->state, NULL), KVF_OK);
}

static void test_state_rejects_sizes_that_do_not_divide(void **state)
{
    struct instance instance;

    (void)state;
    make_good(&instance);
    instance.state.tp = 6;
    expect_bad(&instance, "powers of two");
    instance.state.has_attention_dp = 1;
    instance.state.dp_size = 3;
    assert_int_equal(kvf_cache_state_check(&instance.state, NULL), KVF_OK);
    instance.state.dp_size = 4;
    expect_bad(&instance, "6 is not a multiple of the attention dp size 4");
    instance.state.dp_size = 0;
    expect_bad(&instance, "attention dp size is 0");
    instance.state.dp_size = 3;
    instance.state.dp_rank = 3;
    expect_bad(&instance, "attention dp rank is 3, allowed are 0 to 2");
    make_good(&instance);
    instance.state.cp = 3;
    expect_bad(&instance, "powers of two");
    instance.state.cp = 32768;
    expect_bad(&instance, "number of ranks is 262144");
    instance.state.cp = 0;
    expect_bad(&instance, "context parallelism is 0");
}

static void test_state_rejects_tables_that_do_not_add_up(void **state)
{
    struct instance instance;

    (void)state;
    make_good(&instance);
    instance.stages[1] = 3;
    expect_bad(&instance, "stages have 5 layers, the model 4");
    instance.stages[1] = -1;
    expect_bad(&instance, "layers of a pipeline stage is -1");
    make_good(&instance);
    instance.state.n_stages = 1;
    expect_bad(&instance, "pipeline stages listed is 1");
    make_good(&instance);
    instance.heads[3] = 1;
    expect_bad(&instance, "layer 3 has 1 kv heads and layer 0 has 2");
    make_good(&instance);
    instance.state.attention = KVF_ATTENTION_MLA;
    expect_bad(&instance, "kv heads per rank is 2, allowed are 1 to 1");
    make_good(&instance);
    instance.state.n_model_layers = UINT64_MAX;
    expect_bad(&instance, "model layers is -1");
    make_good(&instance);
    instance.state.layers_per_stage = NULL;
    expect_bad(&instance, "missing");
    make_good(&instance);
    instance.state.kv_heads_per_layer = NULL;
    expect_bad(&instance, "missing");
}

static void test_state_rejects_the_other_rank_convention(void **state)
{
    struct instance instance;

    (void)state;
    make_good(&instance);
    instance.state.rank_convention = 0;
    expect_bad(&instance, "rank convention is 0, allowed are 1 to 1");
}

static void expect_unsupported(const struct instance *context,
                               const struct instance *generation, const char *words)
{
    struct kvf_plan_refusal refusal = {""};

    assert_int_equal(
        kvf_cache_state_support(&context->state, &generation->state, &refusal),
        KVF_LAYOUT_MISMATCH);
    if (strstr(refusal.text, words) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", refusal.text, words);
    }
}

static void test_support_rejects_different_models(void **state)
{
    struct instance context, generation;
    struct kvf_cache_state *other = &generation.state;

    (void)state;
    make_good(&context);
    make_good(&generation);
    other->tokens_per_block = 8; /* tokens are the coordinate: no need to be equal */
    other->indexer_dim_per_head = 128; /* means nothing without an indexer */
    assert_int_equal(kvf_cache_state_support(&context.state, other, NULL), KVF_OK);
    other->dtype = KVF_DTYPE_FP8;
    expect_unsupported(&context, &generation,
                       "data type is 7 in the context instance and 6 in the generation");
    make_good(&generation);
    other->size_per_head = 128;
    expect_unsupported(&context, &generation, "size per head is 64");
    make_good(&generation);
    other->kv_factor = 1;
    expect_unsupported(&context, &generation, "kv factor is 2");
    make_good(&generation);
    other->has_indexer = 1;
    expect_unsupported(&context, &generation, "indexer cache is 0");
    context.state.has_indexer = 1;
    other->indexer_quant_block_size = 128;
    expect_unsupported(&context, &generation, "indexer quantisation block is 0");
}

static void test_support_rejects_heads_that_do_not_map(void **state)
{
    static const int32_t one[] = {4};
    struct instance context, generation;

    (void)state;
    instance_init(&context, 1, 1, 1, 3, one);
    instance_init(&generation, 4, 1, 1, 1, one);
    expect_unsupported(&context, &generation, "3 kv heads on each of 1 ranks");
    instance_init(&context, 2, 1, 1, 2, one);
    instance_init(&generation, 4, 1, 1, 2, one);
    expect_unsupported(&context, &generation, "do not map");
    instance_init(&generation, 8, 1, 1, 1, one);
    assert_int_equal(kvf_cache_state_support(&context.state, &generation.state, NULL),
                     KVF_OK);
}

static void test_support_rejects_unequal_cp_on_both_sides(void **state)
{
    static const int32_t one[] = {4};
    struct instance context, generation;

    (void)state;
    instance_init(&context, 1, 1, 2, 1, one);
    instance_init(&generation, 1, 1, 1, 1, one);
    assert_int_equal(kvf_cache_state_support(&context.state, &generation.state, NULL),
                     KVF_OK);
    generation.state.cp = 2;
    assert_int_equal(kvf_cache_state_support(&context.state, &generation.state, NULL),
                     KVF_OK);
    generation.state.tokens_per_block = 16;
    expect_unsupported(&context, &generation, "both must be equal");
    generation.state.tokens_per_block = 32;
    generation.state.cp = 4;
    expect_unsupported(&context, &generation, "both must be equal");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rank_map_matches_golden_cases),
        cmocka_unit_test(test_rank_map_leaves_empty_stages_out_on_both_sides),
        cmocka_unit_test(test_rank_map_lists_cp_outside_tp_outside_pp),
        cmocka_unit_test(test_rank_map_picks_every_context_cp_rank),
        cmocka_unit_test(test_rank_map_refuses_ranks_that_do_not_exist),
        cmocka_unit_test(test_rank_map_refuses_more_targets_than_fit),
        cmocka_unit_test(test_rank_place_counts_layers_heads_and_cp),
        cmocka_unit_test(test_rank_place_shares_head_numbers_of_copies),
        cmocka_unit_test(test_state_rejects_sizes_that_do_not_divide),
        cmocka_unit_test(test_state_rejects_tables_that_do_not_add_up),
        cmocka_unit_test(test_state_rejects_the_other_rank_convention),
        cmocka_unit_test(test_support_rejects_different_models),
        cmocka_unit_test(test_support_rejects_heads_that_do_not_map),
        cmocka_unit_test(test_support_rejects_unequal_cp_on_both_sides),
    };

    if (argc > 1) {
        golden_path = argv[1];
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
