/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instances as cache states, and agreement with the rank map: what is accepted here must
 * be a state that it takes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "plan/rank_map.h"
#include "tests/config/parse_support.h"

#define PEERS     "peers:\n  - {name: there, address: 'there.example:7470'}\n"
#define BASE      "name: i, role: context, head_size: 128, tokens_per_block: 64"
#define ONE(keys) NODE PEERS "instances:\n  - {" BASE ", " keys "}\n"

static void test_topology_peers_are_listed_without_the_own_node(void **state)
{
    (void)state;
    struct kvf_config *config =
        parse_good(NODE "peers:\n"
                        "  - {name: a, address: '10.0.0.1:7470'}\n"
                        "  - {name: here, address: '10.0.0.2:7470'}\n"
                        "  - {name: c, address: '[fe80::1%eth0]:7470'}\n");
    assert_int_equal(config->n_peers, 2);
    assert_string_equal(config->peers[0].name, "a");
    assert_string_equal(config->peers[0].address.host, "10.0.0.1");
    assert_string_equal(config->peers[1].name, "c");
    assert_string_equal(config->peers[1].address.host, "fe80::1%eth0");
    assert_ptr_equal(kvf_config_find_peer(config, "c"), &config->peers[1]);
    assert_null(kvf_config_find_peer(config, "here"));
    kvf_config_destroy(config);
}

static void test_topology_instance_becomes_a_cache_state(void **state)
{
    (void)state;
    struct kvf_config *config =
        parse_good(ONE("tp: 2, pp: 2, cp: 2, layers: [3, 1], kv_heads: 8, dtype: fp8, "
                       "ranks: [here, here, there, there, here, here, there, there]"));
    const struct kvf_config_instance *instance = kvf_config_find_instance(config, "i");
    assert_non_null(instance);
    assert_int_equal(instance->role, KVF_ROLE_CONTEXT);
    assert_int_equal(instance->n_kv_heads, 8);
    assert_int_equal(instance->n_ranks, 8);
    assert_string_equal(instance->rank_nodes[1], "here");
    assert_string_equal(instance->rank_nodes[2], "there");
    assert_string_equal(instance->rank_nodes[7], "there");
    const struct kvf_cache_state *s = &instance->state;
    assert_int_equal(s->tp, 2);
    assert_int_equal(s->pp, 2);
    assert_int_equal(s->cp, 2);
    assert_int_equal(s->n_stages, 2);
    assert_int_equal(s->layers_per_stage[0], 3);
    assert_int_equal(s->layers_per_stage[1], 1);
    assert_int_equal(s->n_model_layers, 4);
    assert_int_equal(s->kv_heads_per_layer[0], 4);
    assert_int_equal(s->kv_heads_per_layer[3], 4);
    assert_int_equal(s->size_per_head, 128);
    assert_int_equal(s->tokens_per_block, 64);
    assert_int_equal(s->has_attention_dp, 0);
    assert_int_equal(s->dp_rank, 0);
    assert_int_equal(s->dp_size, 2);
    assert_int_equal(s->attention, KVF_ATTENTION_DEFAULT);
    assert_int_equal(s->kv_factor, 2);
    assert_int_equal(s->dtype, KVF_DTYPE_FP8);
    assert_int_equal(s->has_indexer, 0);
    assert_int_equal(s->rank_convention, 1);
    assert_null(kvf_config_find_instance(config, "j"));
    kvf_config_destroy(config);
}

static void test_topology_one_layer_number_is_split_evenly(void **state)
{
    (void)state;
    struct kvf_config *config =
        parse_good(ONE("pp: 4, layers: 32, kv_heads: 8, node: there"));
    const struct kvf_config_instance *instance = &config->instances[0];
    assert_int_equal(instance->state.n_stages, 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(instance->state.layers_per_stage[i], 8);
        assert_string_equal(instance->rank_nodes[i], "there");
    }
    kvf_config_destroy(config);
}

static void test_topology_stage_may_have_no_layers(void **state)
{
    (void)state;
    struct kvf_config *config =
        parse_good(ONE("pp: 2, layers: [4, 0], kv_heads: 1, node: here"));
    assert_int_equal(config->instances[0].state.n_model_layers, 4);
    kvf_config_destroy(config);
}

static void test_topology_mla_is_one_head_and_one_plane(void **state)
{
    (void)state;
    struct kvf_config *config =
        parse_good(ONE("tp: 8, layers: 61, attention: mla, node: here"));
    const struct kvf_config_instance *instance = &config->instances[0];
    assert_int_equal(instance->state.attention, KVF_ATTENTION_MLA);
    assert_int_equal(instance->state.kv_factor, 1);
    assert_int_equal(instance->state.kv_heads_per_layer[60], 1);
    assert_int_equal(instance->n_kv_heads, 1);
    kvf_config_destroy(config);
}

static void test_topology_attention_dp_keeps_all_heads_on_a_rank(void **state)
{
    (void)state;
    struct kvf_config *config =
        parse_good(ONE("tp: 6, attention_dp: true, layers: 2, kv_heads: 8, node: here"));
    const struct kvf_cache_state *s = &config->instances[0].state;
    assert_int_equal(s->has_attention_dp, 1);
    assert_int_equal(s->dp_size, 6);
    assert_int_equal(s->kv_heads_per_layer[0], 8);
    kvf_config_destroy(config);
}

static void test_topology_more_ranks_than_heads_share_them(void **state)
{
    (void)state;
    struct kvf_config *config =
        parse_good(ONE("tp: 8, layers: 2, kv_heads: 2, node: here"));
    assert_int_equal(config->instances[0].state.kv_heads_per_layer[0], 1);
    kvf_config_destroy(config);
}

static void test_topology_item_problems_do_not_cascade(void **state)
{
    (void)state;
    struct kvf_config *config = NULL;
    struct kvf_config_problems problems = {.n = 0};
    /* The peer is mistyped, so its node must not be called unknown; tp is refused, so its
     * heads must not be called indivisible. */
    static const char text[] = NODE "peers:\n"
                                    "  - {name: there, address: 'there'}\n"
                                    "instances:\n"
                                    "  - {" BASE ", tp: x, layers: 2, kv_heads: 3,"
                                    " node: there}\n";
    assert_int_equal(kvf_config_parse("t", text, strlen(text), &config, &problems),
                     KVF_CONFIG);
    assert_int_equal(problems.n, 2);
    kvf_config_problems_fini(&problems);
}

static void test_topology_limits_are_reached(void **state)
{
    (void)state;
    struct kvf_config *config =
        parse_good(ONE("tp: 16, pp: 8, cp: 8, layers: 4096, kv_heads: 16, node: here"));
    assert_int_equal(config->instances[0].n_ranks, 1024);
    assert_string_equal(config->instances[0].rank_nodes[1023], "here");
    kvf_config_destroy(config);
    refuses(ONE("tp: 32, pp: 8, cp: 8, layers: 8, kv_heads: 32, node: here"),
            "5:72: tp * pp * cp is 2048 ranks; 1024 are supported");
}

/* Random instances: what config accepts, the rank map accepts. */
static void test_topology_agrees_with_the_rank_map(void **state)
{
    (void)state;
    struct kvf_rng rng;
    kvf_rng_init_seeded(&rng, 7);
    int n_accepted = 0;
    for (int i = 0; i < 3000; i++) {
        char text[512];
        (void)snprintf(
            text, sizeof(text),
            NODE "instances:\n  - {" BASE ", tp: %u, pp: %u, cp: %u, layers: %u, "
                 "kv_heads: %u, attention_dp: %s, attention: %s, node: here}\n",
            (unsigned)kvf_rng_below(&rng, 9), (unsigned)kvf_rng_below(&rng, 5),
            (unsigned)kvf_rng_below(&rng, 5), (unsigned)kvf_rng_below(&rng, 9),
            (unsigned)kvf_rng_below(&rng, 9), kvf_rng_below(&rng, 2) ? "true" : "false",
            kvf_rng_below(&rng, 4) ? "default" : "mla");
        struct kvf_config *config = NULL;
        struct kvf_config_problems problems = {.n = 0};
        if (kvf_config_parse("t", text, strlen(text), &config, &problems) == KVF_OK) {
            struct kvf_plan_refusal refusal = {.text = ""};
            n_accepted++;
            assert_int_equal(kvf_cache_state_check(&config->instances[0].state, &refusal),
                             KVF_OK);
        } else {
            assert_true(problems.n > 0);
        }
        kvf_config_problems_fini(&problems);
        kvf_config_destroy(config);
    }
    assert_true(n_accepted > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_topology_peers_are_listed_without_the_own_node),
        cmocka_unit_test(test_topology_instance_becomes_a_cache_state),
        cmocka_unit_test(test_topology_one_layer_number_is_split_evenly),
        cmocka_unit_test(test_topology_stage_may_have_no_layers),
        cmocka_unit_test(test_topology_mla_is_one_head_and_one_plane),
        cmocka_unit_test(test_topology_attention_dp_keeps_all_heads_on_a_rank),
        cmocka_unit_test(test_topology_more_ranks_than_heads_share_them),
        cmocka_unit_test(test_topology_item_problems_do_not_cascade),
        cmocka_unit_test(test_topology_limits_are_reached),
        cmocka_unit_test(test_topology_agrees_with_the_rank_map),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
