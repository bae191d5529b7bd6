/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Context params and the comm state: what routers read, and renaming nodes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "tests/client/fixture.h"

static uint8_t params[KVF_PARAMS_MAX];

static size_t send_with_tokens(struct fixture *fixture, uint64_t request_id)
{
    static const int32_t first[2] = {11, -12}, draft[3] = {1, 2, 3};
    struct kvf_send_args args = fixture_send_args(request_id);
    args.attempt = 4;
    args.first_tokens = first;
    args.n_first_tokens = 2;
    args.draft_tokens = draft;
    args.n_draft_tokens = 3;
    size_t n = sizeof(params);
    uint64_t handle;
    assert_int_equal(kvf_send_async(fixture->engine, &args, params, &n, &handle), KVF_OK);
    return n;
}

static void test_params_say_who_offers_what(void **state)
{
    (void)state;
    struct fixture fixture = fixture_open(NULL);
    size_t n = send_with_tokens(&fixture, 1ull << 40);
    struct kvf_params_info info = {.size = sizeof(info)};
    assert_int_equal(kvf_params_inspect(params, n, &info), KVF_OK);
    assert_int_equal(info.request_id, 1ull << 40);
    assert_int_equal(info.attempt, 4);
    assert_int_equal(info.n_tokens, 40);
    assert_int_equal(info.rank, 1);
    assert_int_equal(info.n_first_tokens, 2);
    assert_int_equal(info.n_draft_tokens, 3);
    assert_string_equal(info.node, "node-b");
    assert_string_equal(info.instance, "prefill");
    assert_string_equal(info.label, "chat-1");
    fixture_close(&fixture);
}

static void test_params_give_the_tokens_back(void **state)
{
    (void)state;
    struct fixture fixture = fixture_open(NULL);
    size_t n_bytes = send_with_tokens(&fixture, 1);
    int32_t tokens[3] = {0};
    size_t n = 0;
    assert_int_equal(kvf_params_first_tokens(params, n_bytes, NULL, &n),
                     KVF_BUFFER_TOO_SMALL);
    assert_int_equal(n, 2);
    assert_int_equal(kvf_params_first_tokens(params, n_bytes, tokens, &n), KVF_OK);
    assert_int_equal(tokens[1], -12);
    n = 3;
    assert_int_equal(kvf_params_draft_tokens(params, n_bytes, tokens, &n), KVF_OK);
    assert_int_equal(n, 3);
    assert_int_equal(tokens[2], 3);
    fixture_close(&fixture);
}

static void test_params_that_are_damaged_are_refused(void **state)
{
    (void)state;
    struct fixture fixture = fixture_open(NULL);
    size_t n_bytes = send_with_tokens(&fixture, 1), n = 0;
    struct kvf_params_info info = {.size = sizeof(info)};
    for (size_t i = 0; i < n_bytes; i++) {
        params[i] ^= 0x10;
        assert_int_equal(kvf_params_inspect(params, n_bytes, &info), KVF_BAD_PARAMS);
        params[i] ^= 0x10;
    }
    assert_int_equal(kvf_params_inspect(params, n_bytes - 1, &info), KVF_BAD_PARAMS);
    assert_int_equal(kvf_params_inspect(NULL, 0, &info), KVF_BAD_PARAMS);
    assert_int_equal(kvf_params_inspect(params, KVF_PARAMS_MAX + 1, &info),
                     KVF_BAD_PARAMS);
    assert_int_equal(kvf_params_first_tokens(params, 3, NULL, &n), KVF_BAD_PARAMS);
    info.size = 0;
    assert_int_equal(kvf_params_inspect(params, n_bytes, &info), KVF_INVALID_ARGUMENT);
    fixture_close(&fixture);
}

/* The comm state of an engine, with its node names replaced. */
static size_t renamed_state(struct fixture *fixture, const char *const names[2],
                            uint8_t *out, size_t max)
{
    uint8_t bytes[1024];
    size_t n = sizeof(bytes);
    const char *detail;
    struct kvf_arena arena;
    struct kvf_comm_state comm;
    assert_int_equal(kvf_comm_state_get(fixture->engine, bytes, &n), KVF_OK);
    kvf_arena_init(&arena, kvf_message_budget(n));
    assert_int_equal(kvf_comm_state_decode(bytes, n, &arena, &comm, &detail), KVF_OK);
    assert_int_equal(comm.n_nodes, 2);
    assert_string_equal(comm.node_names[0], "node-a");
    comm.node_names = names;
    memset(comm.instance_nonce, 0xee, sizeof(comm.instance_nonce)); /* not ours to set */
    assert_int_equal(kvf_comm_state_encode(&comm, out, &max), KVF_OK);
    kvf_arena_fini(&arena);
    return max;
}

static const char *const new_names[2] = {"node-x", "node-y"};

static void test_comm_state_renames_nodes_in_later_params(void **state)
{
    (void)state;
    struct fixture fixture = fixture_open(NULL);
    uint8_t bytes[1024];
    size_t n = renamed_state(&fixture, new_names, bytes, sizeof(bytes));
    for (size_t i = 0; i < 2; i++) { /* the second one replaces the first */
        assert_int_equal(kvf_comm_state_set(fixture.engine, bytes, n), KVF_OK);
    }
    struct fake_seen hello = fake_daemon_expect(fixture.fake, KVF_MSG_ENGINE_HELLO, 0);
    struct fake_seen seen = fake_daemon_expect(fixture.fake, KVF_MSG_COMM_STATE_SET, 0);
    assert_string_equal(seen.text, "node-x");
    assert_memory_equal(seen.nonce, hello.nonce, KVF_NONCE_BYTES);
    size_t n_params = send_with_tokens(&fixture, 1);
    struct kvf_params_info info = {.size = sizeof(info)};
    assert_int_equal(kvf_params_inspect(params, n_params, &info), KVF_OK);
    assert_string_equal(info.node, "node-y");
    fixture_close(&fixture);
}

static void expect_refused_names(const struct fake_config *config, enum kvf_status status)
{
    struct fixture fixture = fixture_open(config);
    uint8_t bytes[1024];
    size_t n = renamed_state(&fixture, new_names, bytes, sizeof(bytes));
    assert_int_equal(kvf_comm_state_set(fixture.engine, bytes, n), status);
    size_t n_params = send_with_tokens(&fixture, 1);
    struct kvf_params_info info = {.size = sizeof(info)};
    assert_int_equal(kvf_params_inspect(params, n_params, &info), KVF_OK);
    assert_string_equal(info.node, "node-b");
    fixture_close(&fixture);
}

static void test_comm_state_keeps_the_names_when_the_daemon_refuses(void **state)
{
    (void)state;
    static const struct fake_config refuses = {.comm_status = KVF_PEER_UNKNOWN};
    static const struct fake_config is_old = {.is_old = true};
    expect_refused_names(&refuses, KVF_PEER_UNKNOWN);
    expect_refused_names(&is_old, KVF_UNSUPPORTED);
}

static void test_comm_state_says_how_long_it_is(void **state)
{
    (void)state;
    struct fixture fixture = fixture_open(NULL);
    size_t n = 0;
    assert_int_equal(kvf_comm_state_get(fixture.engine, NULL, &n), KVF_BUFFER_TOO_SMALL);
    assert_true(n > 0 && n <= sizeof(params));
    assert_int_equal(kvf_comm_state_get(fixture.engine, params, &n), KVF_OK);
    assert_int_not_equal(kvf_comm_state_set(fixture.engine, params, n - 1), KVF_OK);
    assert_int_equal(kvf_comm_state_set(fixture.engine, NULL, 0), KVF_INVALID_ARGUMENT);
    fixture_close(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_params_say_who_offers_what),
        cmocka_unit_test(test_params_give_the_tokens_back),
        cmocka_unit_test(test_params_that_are_damaged_are_refused),
        cmocka_unit_test(test_comm_state_renames_nodes_in_later_params),
        cmocka_unit_test(test_comm_state_keeps_the_names_when_the_daemon_refuses),
        cmocka_unit_test(test_comm_state_says_how_long_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
