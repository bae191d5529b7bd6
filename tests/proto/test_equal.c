/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Equality by value: copies are equal wherever they lie, and any one field makes a
 * difference, except the rank that describes itself.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "samples.h"
#include "walk.h"

/* The original's own case: L10, H12, hidden size 768, B64, T8 P2 C2. */
struct cache {
    int32_t heads[10];
    int32_t stages[2];
    struct kvf_cache_state state;
};

static void cache_init(struct cache *c)
{
    *c = (struct cache){
        .stages = {5, 5},
        .state = {.kv_heads_per_layer = c->heads,
                  .n_model_layers = 10,
                  .size_per_head = 768,
                  .tokens_per_block = 64,
                  .tp = 8,
                  .pp = 2,
                  .cp = 2,
                  .dp_size = 8,
                  .layers_per_stage = c->stages,
                  .n_stages = 2,
                  .kv_factor = 2,
                  .dtype = KVF_DTYPE_F32,
                  .indexer_quant_block_size = 128,
                  .rank_convention = KVF_RANK_CONVENTION_CP_FASTEST},
    };
    for (size_t i = 0; i < 10; i++) {
        c->heads[i] = 12;
    }
}

static void test_cache_state_equals_its_copy(void **state)
{
    (void)state;
    struct cache a;
    struct cache b;
    cache_init(&a);
    cache_init(&b);
    assert_true(kvf_cache_state_equal(&a.state, &b.state));
    assert_true(kvf_cache_state_equal(&b.state, &a.state));
}

#define ASSERT_MATTERS(member, value)                                                    \
    do {                                                                                 \
        struct cache a;                                                                  \
        struct cache b;                                                                  \
        cache_init(&a);                                                                  \
        cache_init(&b);                                                                  \
        assert_true(b.member != (value));                                                \
        b.member = (value);                                                              \
        assert_false(kvf_cache_state_equal(&a.state, &b.state));                         \
        assert_false(kvf_cache_state_equal(&b.state, &a.state));                         \
    } while (0)

static void test_cache_state_differs_in_any_field(void **state)
{
    (void)state;
    ASSERT_MATTERS(heads[0], 11);
    ASSERT_MATTERS(heads[9], 11);
    ASSERT_MATTERS(state.n_model_layers, 9);
    ASSERT_MATTERS(state.size_per_head, 576);
    ASSERT_MATTERS(state.tokens_per_block, 32);
    ASSERT_MATTERS(state.tp, 4);
    ASSERT_MATTERS(state.pp, 1);
    ASSERT_MATTERS(state.cp, 1);
    ASSERT_MATTERS(state.has_attention_dp, 1);
    ASSERT_MATTERS(state.dp_rank, 1);
    ASSERT_MATTERS(state.dp_size, 1);
    ASSERT_MATTERS(stages[1], 4);
    ASSERT_MATTERS(state.n_stages, 1);
    ASSERT_MATTERS(state.attention, KVF_ATTENTION_MLA);
    ASSERT_MATTERS(state.kv_factor, 1);
    ASSERT_MATTERS(state.dtype, KVF_DTYPE_F16);
    ASSERT_MATTERS(state.has_block_reuse, 1);
    ASSERT_MATTERS(state.has_partial_reuse, 1);
    ASSERT_MATTERS(state.has_indexer, 1);
    ASSERT_MATTERS(state.indexer_dim_per_head, 64);
    ASSERT_MATTERS(state.indexer_quant_block_size, 64);
    ASSERT_MATTERS(state.indexer_is_fp4, 1);
    ASSERT_MATTERS(state.rank_convention, 2);
}

static void test_comm_state_ignores_self_rank(void **state)
{
    (void)state;
    struct kvf_comm_state a = sample_of(KVF_MSG_COMM_STATE_SET)->u.comm_state_set.state;
    struct kvf_comm_state b = a;
    b.self_rank = -1;
    assert_true(kvf_comm_state_equal(&a, &b));
}

static void test_comm_state_differs_in_any_other_field(void **state)
{
    (void)state;
    const struct kvf_comm_state a =
        sample_of(KVF_MSG_COMM_STATE_SET)->u.comm_state_set.state;
    struct kvf_comm_state b = a;
    b.instance_nonce[15] ^= 1;
    assert_false(kvf_comm_state_equal(&a, &b));
    b = a;
    b.instance = "decode";
    assert_false(kvf_comm_state_equal(&a, &b));
    b = a;
    b.n_nodes--;
    assert_false(kvf_comm_state_equal(&a, &b));
    const char *names[] = {"node-a", "node-b", "", "node-d"};
    b = a;
    b.node_names = names;
    assert_int_equal(b.n_nodes, 4);
    assert_false(kvf_comm_state_equal(&a, &b));
    names[3] = a.node_names[3];
    assert_true(kvf_comm_state_equal(&a, &b));
}

static void test_null_text_equals_empty_text(void **state)
{
    (void)state;
    struct kvf_comm_state a = {.instance = NULL};
    struct kvf_comm_state b = {.instance = ""};
    assert_true(kvf_comm_state_equal(&a, &b));
}

/* Block keys of the original's serializer test: lora 42, tokens (10,100) (20,200), two
 * hashes at offsets 0 and 5; and three plain tokens. */
static void test_block_key_compares_tokens_hashes_and_ids(void **state)
{
    (void)state;
    struct kvf_unique_token tokens[] = {{10, 100}, {20, 200}};
    struct kvf_extra_key keys[] = {{.hash = {1}}, {.hash = {2}, .start_offset = 5}};
    const struct kvf_block_key a = {.uses_extra_ids = true,
                                    .has_lora_task_id = true,
                                    .lora_task_id = 42,
                                    .tokens = tokens,
                                    .n_tokens = 2,
                                    .extra_keys = keys,
                                    .n_extra_keys = 2};
    struct kvf_unique_token other_tokens[] = {{10, 100}, {20, 201}};
    struct kvf_extra_key other_keys[] = {{.hash = {1}}, {.hash = {2}, .start_offset = 6}};
    struct kvf_block_key b = a;
    assert_true(kvf_block_key_equal(&a, &b));
    b.tokens = other_tokens;
    assert_false(kvf_block_key_equal(&a, &b));
    other_tokens[1].extra_id = 200;
    assert_true(kvf_block_key_equal(&a, &b));
    b.extra_keys = other_keys;
    assert_false(kvf_block_key_equal(&a, &b));
    other_keys[1].start_offset = 5;
    assert_true(kvf_block_key_equal(&a, &b));
    other_keys[1].hash[31] = 1;
    assert_false(kvf_block_key_equal(&a, &b));
    b = a;
    b.lora_task_id = 43;
    assert_false(kvf_block_key_equal(&a, &b));
    b = a;
    b.has_cache_salt_id = true; /* a salt of 0 is not no salt */
    assert_false(kvf_block_key_equal(&a, &b));

    const struct kvf_unique_token plain[] = {{1, 0}, {2, 0}, {3, 0}};
    const struct kvf_block_key p = {.tokens = plain, .n_tokens = 3};
    assert_true(kvf_block_key_equal(&p, &p));
    assert_false(kvf_block_key_equal(&p, &a));
}

static void test_request_info_compares_what_it_is_made_of(void **state)
{
    (void)state;
    const struct kvf_request_info a = sample_of(KVF_MSG_REQUEST_INFO)->u.request_info;
    struct kvf_request_info b = a;
    assert_true(kvf_request_info_equal(&a, &b));
    b.state.comm.self_rank = 17;
    assert_true(kvf_request_info_equal(&a, &b));
    b.state.cache.tp = 4;
    assert_false(kvf_request_info_equal(&a, &b));
    b = a;
    b.last_block_key.cache_salt_id++;
    assert_false(kvf_request_info_equal(&a, &b));
    b = a;
    b.n_segments--;
    assert_false(kvf_request_info_equal(&a, &b));
    b = a;
    b.trace_id[0] ^= 1;
    assert_false(kvf_request_info_equal(&a, &b));
    b.has_trace_id = false;
    assert_false(kvf_request_info_equal(&a, &b));
    struct kvf_pool_layout layout = a.layouts[0];
    b = a;
    b.layouts = &layout;
    assert_true(kvf_request_info_equal(&a, &b));
    layout.layout.token_stride++;
    assert_false(kvf_request_info_equal(&a, &b));
}

/* Every scalar row of every schema decides, self_rank excepted. */
static void test_every_scalar_makes_a_difference(void **state)
{
    (void)state;
    const struct kvf_schema *schemas[N_SCHEMAS_MAX];
    size_t n = all_schemas(schemas);
    size_t n_uncompared = 0;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < schemas[i]->n_fields; j++) {
            const struct kvf_field *field = &schemas[i]->fields[j];
            uint8_t a[1024] = {0};
            uint8_t b[1024] = {0};
            assert_true(schemas[i]->n_bytes <= sizeof(a));
            if (field->kind == KVF_FIELD_SCALAR) {
                b[field->offset] = 1;
                n_uncompared += kvf_schema_equal(schemas[i], a, b);
            }
        }
    }
    assert_int_equal(n_uncompared, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cache_state_equals_its_copy),
        cmocka_unit_test(test_cache_state_differs_in_any_field),
        cmocka_unit_test(test_comm_state_ignores_self_rank),
        cmocka_unit_test(test_comm_state_differs_in_any_other_field),
        cmocka_unit_test(test_null_text_equals_empty_text),
        cmocka_unit_test(test_block_key_compares_tokens_hashes_and_ids),
        cmocka_unit_test(test_request_info_compares_what_it_is_made_of),
        cmocka_unit_test(test_every_scalar_makes_a_difference),
    };
    return cmocka_run_group_tests_name("equal", tests, NULL, NULL);
}
