/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Engines of the tests: a session, one pool, and requests whose every 8 bytes are a
 * function of (request, logical block, offset), so that a block in the wrong place, of
 * another request or written twice shows.
 */
#include "tests/integration/fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define POISON        0xa5
#define TOKENS        32u
#define BYTES_OF_BF16 2u

void fixture_layout(const char *instance, uint32_t n_blocks, struct kvf_layout *out,
                    uint64_t layer_offsets[2])
{
    bool is_small = strstr(instance, "small") != NULL;
    uint32_t n_layers = is_small ? 1 : 2, n_heads = is_small ? 1 : 2;
    uint32_t row_bytes = (is_small ? 32 : 64) * BYTES_OF_BF16;
    uint64_t head_bytes = (uint64_t)row_bytes * TOKENS;
    uint64_t plane_bytes = head_bytes * n_heads;
    layer_offsets[0] = 0;
    layer_offsets[1] = 2 * plane_bytes;
    *out = (struct kvf_layout){.size = sizeof(*out),
                               .n_layers = n_layers,
                               .kv_factor = 2,
                               .n_heads = n_heads,
                               .tokens_per_block = TOKENS,
                               .row_bytes = row_bytes,
                               .n_blocks = n_blocks,
                               .dtype = KVF_DTYPE_BF16,
                               .block_stride = 2 * plane_bytes * n_layers,
                               .kv_stride = plane_bytes,
                               .head_stride = head_bytes,
                               .token_stride = row_bytes,
                               .layer_offsets = layer_offsets};
}

struct kvf_engine_config fixture_engine_config(const struct fixture_node *node,
                                               const char *instance, char *path)
{
    fixture_node_path(node, "engine.sock", path);
    return (struct kvf_engine_config){.size = sizeof(struct kvf_engine_config),
                                      .socket_path = path,
                                      .instance = instance};
}

void fixture_engine_open(struct fixture_engine *engine, const struct fixture_node *node,
                         const char *instance, uint32_t n_blocks)
{
    char path[FIXTURE_PATH_BYTES];
    struct kvf_engine_config config = fixture_engine_config(node, instance, path);
    struct kvf_layout layout;
    uint64_t layer_offsets[2];
    *engine = (struct fixture_engine){.n_blocks = n_blocks, .tokens_per_block = TOKENS};
    if (kvf_engine_open(&config, &engine->engine) != KVF_OK) {
        fail_msg("engine %s: %s", instance, kvf_engine_detail(NULL));
    }
    fixture_layout(instance, n_blocks, &layout, layer_offsets);
    engine->block_bytes = (uint32_t)layout.block_stride;
    struct kvf_pool_config pool = {.size = sizeof(pool),
                                   .fd = -1,
                                   .length = layout.block_stride * n_blocks,
                                   .layout = &layout};
    if (kvf_pool_register(engine->engine, &pool, 0, &engine->pool) != KVF_OK) {
        fail_msg("pool of %s: %s", instance, kvf_engine_detail(engine->engine));
    }
    engine->base = kvf_pool_base(engine->pool);
    fixture_poison(engine);
}

void fixture_engine_close(struct fixture_engine *engine)
{
    kvf_engine_close(engine->engine);
    *engine = (struct fixture_engine){.engine = NULL};
}

/* ---- content */

static uint8_t *block_at(const struct fixture_engine *engine, int32_t block)
{
    assert_true(block >= 0 && (uint32_t)block < engine->n_blocks);
    return engine->base + (size_t)block * engine->block_bytes;
}

/* splitmix64 of the place. */
static uint64_t word_at(uint64_t request_id, uint32_t logical, uint32_t offset)
{
    uint64_t x = request_id * 0x9e3779b97f4a7c15u + ((uint64_t)logical << 32) + offset;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

void fixture_poison(struct fixture_engine *engine)
{
    memset(engine->base, POISON, (size_t)engine->n_blocks * engine->block_bytes);
}

void fixture_fill(struct fixture_engine *engine, uint64_t request_id,
                  const int32_t *blocks, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint8_t *at = block_at(engine, blocks[i]);
        for (uint32_t offset = 0; offset < engine->block_bytes; offset += 8) {
            uint64_t word = word_at(request_id, i, offset);
            memcpy(at + offset, &word, sizeof(word));
        }
    }
}

static void verify_poison(const struct fixture_engine *engine, uint32_t block)
{
    const uint8_t *at = block_at(engine, (int32_t)block);
    for (uint32_t offset = 0; offset < engine->block_bytes; offset++) {
        if (at[offset] != POISON) {
            fail_msg("byte %u of block %u was written", offset, block);
        }
    }
}

static void verify_content(const struct fixture_engine *engine, uint64_t request_id,
                           int32_t block, uint32_t logical)
{
    const uint8_t *at = block_at(engine, block);
    for (uint32_t offset = 0; offset < engine->block_bytes; offset += 8) {
        uint64_t word = word_at(request_id, logical, offset);
        if (memcmp(at + offset, &word, sizeof(word)) != 0) {
            fail_msg("request %llu: block %u differs at byte %u",
                     (unsigned long long)request_id, logical, offset);
        }
    }
}

void fixture_verify(const struct fixture_engine *engine, uint64_t request_id,
                    const int32_t *blocks, uint32_t n, uint32_t skip)
{
    for (uint32_t block = 0; block < engine->n_blocks; block++) {
        bool is_written = false;
        for (uint32_t i = skip; i < n; i++) {
            is_written |= (uint32_t)blocks[i] == block;
        }
        if (!is_written) {
            verify_poison(engine, block);
        }
    }
    for (uint32_t i = skip; i < n; i++) {
        verify_content(engine, request_id, blocks[i], i);
    }
}

void fixture_verify_blocks(const struct fixture_engine *engine, uint64_t request_id,
                           const int32_t *blocks, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        verify_content(engine, request_id, blocks[i], i);
    }
}

void fixture_verify_untouched(const struct fixture_engine *engine)
{
    fixture_verify(engine, 0, NULL, 0, 0);
}

/* ---- requests */

void fixture_request_init(struct fixture_request *request, uint64_t id, uint32_t n_blocks,
                          uint32_t first)
{
    *request = (struct fixture_request){.id = id, .n_blocks = n_blocks};
    assert_true(n_blocks <= 64);
    for (uint32_t i = 0; i < n_blocks; i++) {
        /* Odd steps over a power of two visit every block once. */
        uint32_t mask = n_blocks - 1;
        bool is_power = (n_blocks & mask) == 0;
        uint32_t sent = is_power ? (i * 5 + 3) & mask : n_blocks - 1 - i;
        uint32_t received = is_power ? (i * 11 + 1) & mask : i;
        request->send_blocks[i] = (int32_t)(first + sent);
        request->receive_blocks[i] = (int32_t)(first + received);
    }
}

enum kvf_status fixture_send(struct fixture_engine *engine,
                             struct fixture_request *request)
{
    struct kvf_block_table table = {.n_blocks = request->n_blocks,
                                    .blocks = request->send_blocks};
    struct kvf_send_args args = {.size = sizeof(args),
                                 .request_id = request->id,
                                 .n_tokens = request->n_blocks * TOKENS,
                                 .n_tables = 1,
                                 .tables = &table,
                                 .deadline_ms = request->deadline_ms,
                                 .flags = request->flags};
    request->params_len = sizeof(request->params);
    return kvf_send_async(engine->engine, &args, request->params, &request->params_len,
                          &request->send_handle);
}

enum kvf_status fixture_receive(struct fixture_engine *engine,
                                struct fixture_request *request)
{
    struct kvf_block_table table = {.n_blocks = request->n_blocks,
                                    .blocks = request->receive_blocks};
    struct kvf_receive_args args = {.size = sizeof(args),
                                    .n_prefix_tokens = request->n_prefix_blocks * TOKENS,
                                    .params = request->params,
                                    .params_len = request->params_len,
                                    .n_tables = 1,
                                    .deadline_ms = request->deadline_ms,
                                    .tables = &table};
    return kvf_receive_async(engine->engine, &args, &request->receive_handle);
}

struct kvf_event fixture_expect(struct fixture_engine *engine, uint64_t handle,
                                enum kvf_status expected)
{
    struct kvf_event event = {.size = sizeof(event)};
    enum kvf_status status = kvf_wait(engine->engine, handle, FIXTURE_WAIT_MS, &event);
    if (status != KVF_OK) {
        fail_msg("wait: %s: %s", kvf_status_name(status),
                 kvf_engine_detail(engine->engine));
    }
    if (event.status != (int32_t)expected) {
        fail_msg("outcome %s instead of %s: %s", kvf_status_name(event.status),
                 kvf_status_name((int)expected), event.detail);
    }
    return event;
}

void fixture_transfer(struct fixture_engine *from, struct fixture_engine *to, uint64_t id)
{
    struct fixture_request request;
    fixture_request_init(&request, id, 8, 0);
    fixture_poison(to);
    fixture_fill(from, id, request.send_blocks, request.n_blocks);
    assert_int_equal(fixture_send(from, &request), KVF_OK);
    assert_int_equal(fixture_receive(to, &request), KVF_OK);
    (void)fixture_expect(to, request.receive_handle, KVF_OK);
    (void)fixture_expect(from, request.send_handle, KVF_OK);
    fixture_verify(to, id, request.receive_blocks, request.n_blocks, 0);
}
