/* SPDX-License-Identifier: Apache-2.0 */
/* See fixture.h. */
#include "tests/client/fixture.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <poll.h>
#include <string.h>

#include "base/clock.h"

struct kvf_engine_config fixture_engine_config(const struct fake_daemon *fake)
{
    return (struct kvf_engine_config){.size = sizeof(struct kvf_engine_config),
                                      .rank = 1,
                                      .socket_path = fake_daemon_path(fake),
                                      .instance = "prefill"};
}

struct kvf_pool_config fixture_pool_config(uint32_t group)
{
    static const uint64_t offsets[1] = {0};
    static const struct kvf_layout layout = {.size = sizeof(layout),
                                             .n_layers = 1,
                                             .kv_factor = 2,
                                             .n_heads = 2,
                                             .tokens_per_block = FIXTURE_B,
                                             .row_bytes = 64,
                                             .n_blocks = FIXTURE_BLOCKS,
                                             .dtype = KVF_DTYPE_F16,
                                             .block_stride = 4096,
                                             .kv_stride = 2048,
                                             .head_stride = 1024,
                                             .token_stride = 64,
                                             .layer_offsets = offsets};
    return (struct kvf_pool_config){.size = sizeof(struct kvf_pool_config),
                                    .group = group,
                                    .memory = KVF_MEMORY_HOST,
                                    .fd = -1,
                                    .length = FIXTURE_BYTES,
                                    .layout = &layout};
}

struct fixture fixture_open(const struct fake_config *config)
{
    static const struct fake_config behaves = {.greeting = FAKE_GREETS};
    struct fixture fixture = {.fake =
                                  fake_daemon_start(config != NULL ? config : &behaves)};
    struct kvf_engine_config engine_config = fixture_engine_config(fixture.fake);
    assert_int_equal(kvf_engine_open(&engine_config, &fixture.engine), KVF_OK);
    struct kvf_pool_config pool_config = fixture_pool_config(0);
    assert_int_equal(kvf_pool_register(fixture.engine, &pool_config, 0, &fixture.pool),
                     KVF_OK);
    return fixture;
}

void fixture_close(struct fixture *fixture)
{
    kvf_engine_close(fixture->engine);
    fake_daemon_stop(fixture->fake);
}

struct kvf_send_args fixture_send_args(uint64_t request_id)
{
    static const int32_t blocks[3] = {3, 1, 2};
    static const struct kvf_block_table table = {.n_blocks = 3, .blocks = blocks};
    return (struct kvf_send_args){.size = sizeof(struct kvf_send_args),
                                  .request_id = request_id,
                                  .label = "chat-1",
                                  .n_tokens = 40,
                                  .n_tables = 1,
                                  .tables = &table,
                                  .user_data = request_id + 1000};
}

struct kvf_receive_args fixture_receive_args(const void *params, size_t params_len)
{
    static const int32_t blocks[3] = {7, 8, 9};
    static const struct kvf_block_table table = {.n_blocks = 3, .blocks = blocks};
    return (struct kvf_receive_args){.size = sizeof(struct kvf_receive_args),
                                     .params = params,
                                     .params_len = params_len,
                                     .n_tables = 1,
                                     .tables = &table,
                                     .user_data = 5};
}

uint64_t fixture_send(struct fixture *fixture, uint64_t request_id)
{
    uint8_t params[4096];
    size_t n = sizeof(params);
    uint64_t handle = 0;
    struct kvf_send_args args = fixture_send_args(request_id);
    assert_int_equal(kvf_send_async(fixture->engine, &args, params, &n, &handle), KVF_OK);
    assert_int_not_equal(handle, 0);
    return handle;
}

uint64_t fixture_receive(struct fixture *fixture, uint64_t request_id)
{
    static const char *const nodes[1] = {"node-c"};
    const struct kvf_context_params what = {
        .request_id = request_id,
        .n_tokens = 40,
        .has_state = true,
        .state = {.has_comm = true,
                  .comm = {.node_names = nodes, .n_nodes = 1, .instance = "other"}},
    };
    uint8_t params[4096];
    size_t n = sizeof(params);
    assert_int_equal(kvf_context_params_encode(&what, params, &n), KVF_OK);
    struct kvf_receive_args args = fixture_receive_args(params, n);
    uint64_t handle = 0;
    assert_int_equal(kvf_receive_async(fixture->engine, &args, &handle), KVF_OK);
    assert_int_not_equal(handle, 0);
    return handle;
}

bool fixture_is_readable(const struct fixture *fixture, int timeout_ms)
{
    struct pollfd wanted = {.fd = kvf_engine_fd(fixture->engine), .events = POLLIN};
    return poll(&wanted, 1, timeout_ms) == 1;
}

void fixture_poll(struct fixture *fixture, struct kvf_event *events, size_t n)
{
    uint64_t until_ns = kvf_clock_now_ns(&kvf_clock_system) + 5 * KVF_NS_PER_S;
    size_t n_have = 0;
    while (n_have < n && kvf_clock_now_ns(&kvf_clock_system) < until_ns) {
        size_t n_got = 0;
        assert_int_equal(kvf_poll(fixture->engine, events + n_have, n - n_have, &n_got),
                         KVF_OK);
        n_have += n_got;
        if (n_have < n) {
            (void)fixture_is_readable(fixture, 100);
        }
    }
    assert_int_equal(n_have, n);
}
