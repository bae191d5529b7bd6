/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What nearly every test of the library needs: a fake daemon, an engine that is open on
 * it, one small registered pool, and arguments that are right until a test spoils them.
 */
#ifndef KVF_TESTS_CLIENT_FIXTURE_H
#define KVF_TESTS_CLIENT_FIXTURE_H

#include "tests/client/fake_daemon.h"

#define FIXTURE_BLOCKS 64u
#define FIXTURE_B      16u /* tokens per block */
#define FIXTURE_BYTES  (FIXTURE_BLOCKS * 4096u)

struct fixture {
    struct fake_daemon *fake;
    struct kvf_engine *engine;
    struct kvf_pool *pool;
};

/* With config NULL the daemon behaves. */
struct fixture fixture_open(const struct fake_config *config);
void fixture_close(struct fixture *fixture);

struct kvf_engine_config fixture_engine_config(const struct fake_daemon *fake);
struct kvf_pool_config fixture_pool_config(uint32_t group);

/* 40 tokens in blocks 3, 1, 2; static storage. */
struct kvf_send_args fixture_send_args(uint64_t request_id);
/* Asks for what params say, into blocks 7, 8, 9. */
struct kvf_receive_args fixture_receive_args(const void *params, size_t params_len);

/* An accepted send or receive; the receive's params name another context instance. */
uint64_t fixture_send(struct fixture *fixture, uint64_t request_id);
uint64_t fixture_receive(struct fixture *fixture, uint64_t request_id);

/* kvf_poll() until n events came or 5 s passed, which fails the test. */
void fixture_poll(struct fixture *fixture, struct kvf_event *events, size_t n);
/* Whether the engine's descriptor is readable within timeout_ms. */
bool fixture_is_readable(const struct fixture *fixture, int timeout_ms);

#endif
