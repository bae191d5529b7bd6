/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Offers and requests: what reaches the daemon, what is refused before it does, and that
 * a refused call leaves nothing behind.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "tests/client/fixture.h"

static uint8_t params[KVF_PARAMS_MAX];

static enum kvf_status try_send(struct fixture *fixture, const struct kvf_send_args *args)
{
    size_t n = sizeof(params);
    uint64_t handle;
    return kvf_send_async(fixture->engine, args, params, &n, &handle);
}

static void test_send_offers_what_it_was_given(void **state)
{
    (void)state;
    struct fixture fixture = fixture_open(NULL);
    static const uint64_t hashes[3] = {1, 2, 3};
    struct kvf_send_args args = fixture_send_args(77);
    args.attempt = 2;
    args.deadline_ms = 1234;
    args.flags = KVF_SEND_NOT_READY;
    args.block_hashes = hashes;
    args.trace_id = "000102030405060708090A0b0c0d0e0f";
    assert_int_equal(try_send(&fixture, &args), KVF_OK);
    struct fake_seen seen = fake_daemon_expect(fixture.fake, KVF_MSG_OFFER, 0);
    assert_int_equal(seen.request_id, 77);
    assert_int_equal(seen.attempt, 2);
    assert_int_equal(seen.n_tokens, 40);
    assert_int_equal(seen.deadline_ms, 1234);
    assert_int_equal(seen.n_tables, 1);
    assert_int_equal(seen.n_blocks, 3);
    assert_int_equal(seen.last_block, 2);
    assert_int_equal(seen.n_hashes, 3);
    assert_false(seen.is_ready);
    assert_true(seen.has_trace_id);
    for (uint8_t i = 0; i < 16; i++) {
        assert_int_equal(seen.nonce[i], i);
    }
    assert_string_equal(seen.label, "chat-1");
    fixture_close(&fixture);
}

static void test_receive_asks_with_the_senders_params(void **state)
{
    (void)state;
    struct fixture fixture = fixture_open(NULL);
    struct kvf_send_args send = fixture_send_args(77);
    size_t n = sizeof(params);
    uint64_t send_handle, handle;
    assert_int_equal(kvf_send_async(fixture.engine, &send, params, &n, &send_handle),
                     KVF_OK);
    struct kvf_receive_args args = fixture_receive_args(params, n);
    args.n_prefix_tokens = 16;
    args.label = "decode";
    assert_int_equal(kvf_receive_async(fixture.engine, &args, &handle), KVF_OK);
    assert_int_not_equal(handle, send_handle);
    struct fake_seen hello = fake_daemon_expect(fixture.fake, KVF_MSG_ENGINE_HELLO, 0);
    struct fake_seen seen = fake_daemon_expect(fixture.fake, KVF_MSG_RECEIVE, 0);
    assert_int_equal(seen.handle, handle);
    assert_int_equal(seen.request_id, 77);
    assert_int_equal(seen.n_tokens, 40);
    assert_int_equal(seen.n_prefix_tokens, 16);
    assert_int_equal(seen.last_block, 9);
    assert_string_equal(seen.label, "decode");
    assert_string_equal(seen.text, "node-a");
    assert_memory_equal(seen.nonce, hello.nonce, KVF_NONCE_BYTES);
    fixture_close(&fixture);
}

static void test_send_refuses_bad_arguments(void **state)
{
    (void)state;
    struct fixture fixture = fixture_open(NULL);
    static const int32_t negative[3] = {0, -1, 2}, beyond[3] = {0, 1, FIXTURE_BLOCKS};
    struct kvf_block_table table = *fixture_send_args(1).tables;
    struct {
        const char *text;
        enum kvf_status status;
        struct kvf_send_args args;
    } cases[12];
    size_t n = 0;
#define CASE(what, want, change)                                                         \
    cases[n].text = (what), cases[n].status = (want),                                    \
    cases[n].args = fixture_send_args(1), cases[n].args.change, n++
    CASE("size", KVF_INVALID_ARGUMENT, size = 8);
    CASE("longer than 64", KVF_INVALID_ARGUMENT,
         label = "0123456789012345678901234567890123456789012345678901234567890123x");
    CASE("n_tokens", KVF_INVALID_ARGUMENT, n_tokens = 0);
    CASE("do not hold 49", KVF_INVALID_ARGUMENT, n_tokens = 49);
    CASE("17 block tables", KVF_INVALID_ARGUMENT, n_tables = 17);
    CASE("0 block tables", KVF_INVALID_ARGUMENT, n_tables = 0);
    CASE("flags", KVF_UNSUPPORTED, flags = 8);
    CASE("first_tokens", KVF_INVALID_ARGUMENT, n_first_tokens = 1);
    CASE("trace_id", KVF_INVALID_ARGUMENT, trace_id = "000102030405060708090a0b0c0d0e0g");
    CASE("trace_id", KVF_INVALID_ARGUMENT, trace_id = "0001");
#undef CASE
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(try_send(&fixture, &cases[i].args), cases[i].status);
        assert_non_null(strstr(kvf_engine_detail(fixture.engine), cases[i].text));
    }
    struct kvf_send_args args = fixture_send_args(1);
    args.tables = &table;
    table.blocks = negative;
    assert_int_equal(try_send(&fixture, &args), KVF_BAD_REF);
    assert_non_null(strstr(kvf_engine_detail(fixture.engine), "block -1 at position 1"));
    table.blocks = beyond;
    assert_int_equal(try_send(&fixture, &args), KVF_BAD_REF);
    table = *fixture_send_args(1).tables;
    table.group = 9;
    assert_int_equal(try_send(&fixture, &args), KVF_BAD_REF);
    struct kvf_block_table twice[2] = {*fixture_send_args(1).tables,
                                       *fixture_send_args(1).tables};
    args.tables = twice;
    args.n_tables = 2;
    assert_int_equal(try_send(&fixture, &args), KVF_INVALID_ARGUMENT);
    args = fixture_send_args(1);
    assert_int_equal(try_send(&fixture, &args), KVF_OK); /* nothing was left behind */
    (void)fake_daemon_expect(fixture.fake, KVF_MSG_OFFER, 0);
    assert_int_equal(fake_daemon_count(fixture.fake, KVF_MSG_OFFER), 1);
    fixture_close(&fixture);
}

static void test_send_with_a_small_buffer_offers_nothing(void **state)
{
    (void)state;
    struct fixture fixture = fixture_open(NULL);
    struct kvf_send_args args = fixture_send_args(1);
    size_t n = 0;
    uint64_t handle = 0;
    assert_int_equal(kvf_send_async(fixture.engine, &args, NULL, &n, &handle),
                     KVF_BUFFER_TOO_SMALL);
    size_t need = n;
    assert_true(need > 0 && need < 1024);
    n = need - 1;
    assert_int_equal(kvf_send_async(fixture.engine, &args, params, &n, &handle),
                     KVF_BUFFER_TOO_SMALL);
    assert_int_equal(n, need);
    assert_int_equal(handle, 0);
    assert_int_equal(kvf_send_async(fixture.engine, &args, params, &n, &handle), KVF_OK);
    assert_int_equal(n, need);
    (void)fake_daemon_expect(fixture.fake, KVF_MSG_OFFER, 0);
    assert_int_equal(fake_daemon_count(fixture.fake, KVF_MSG_OFFER), 1);
    fixture_close(&fixture);
}

static void test_live_request_ids_are_unique_per_attempt_and_side(void **state)
{
    (void)state;
    struct fixture fixture = fixture_open(NULL);
    uint64_t handle = fixture_send(&fixture, 5);
    struct kvf_send_args args = fixture_send_args(5);
    assert_int_equal(try_send(&fixture, &args), KVF_DUPLICATE);
    args.attempt = 1;
    assert_int_equal(try_send(&fixture, &args), KVF_OK);
    (void)fixture_receive(&fixture, 5); /* of another context instance */
    args.attempt = 0;
    fake_daemon_event(fixture.fake, handle, KVF_EVENT_REUSABLE, KVF_CANCELLED);
    struct kvf_event event;
    fixture_poll(&fixture, &event, 1);
    assert_int_equal(try_send(&fixture, &args), KVF_OK);
    fixture_close(&fixture);
}

static void test_receive_refuses_damaged_params_and_bad_prefixes(void **state)
{
    (void)state;
    struct fixture fixture = fixture_open(NULL);
    struct kvf_send_args send = fixture_send_args(1);
    size_t n = sizeof(params);
    uint64_t handle;
    assert_int_equal(kvf_send_async(fixture.engine, &send, params, &n, &handle), KVF_OK);
    struct kvf_receive_args args = fixture_receive_args(params, n);
    args.n_prefix_tokens = 8;
    assert_int_equal(kvf_receive_async(fixture.engine, &args, &handle),
                     KVF_INVALID_ARGUMENT);
    args.n_prefix_tokens = 48;
    assert_int_equal(kvf_receive_async(fixture.engine, &args, &handle),
                     KVF_INVALID_ARGUMENT);
    args.n_prefix_tokens = 40; /* all of it: nothing is left to move */
    params[n / 2] ^= 1;
    assert_int_equal(kvf_receive_async(fixture.engine, &args, &handle), KVF_BAD_PARAMS);
    args.params_len = n - 1;
    assert_int_equal(kvf_receive_async(fixture.engine, &args, &handle), KVF_BAD_PARAMS);
    args.params = NULL;
    assert_int_equal(kvf_receive_async(fixture.engine, &args, &handle), KVF_BAD_PARAMS);
    params[n / 2] ^= 1;
    args = fixture_receive_args(params, n);
    args.n_prefix_tokens = 40;
    assert_int_equal(kvf_receive_async(fixture.engine, &args, &handle), KVF_OK);
    fixture_close(&fixture);
}

static void test_send_is_busy_at_the_daemons_limit(void **state)
{
    (void)state;
    struct fake_config config = {.max_requests = 2};
    struct fixture fixture = fixture_open(&config);
    uint64_t handle = fixture_send(&fixture, 1);
    (void)fixture_send(&fixture, 2);
    struct kvf_send_args args = fixture_send_args(3);
    assert_int_equal(try_send(&fixture, &args), KVF_BUSY);
    assert_non_null(strstr(kvf_engine_detail(fixture.engine), "engine.max_requests"));
    fake_daemon_event(fixture.fake, handle, KVF_EVENT_REUSABLE, KVF_OK);
    struct kvf_event event;
    fixture_poll(&fixture, &event, 1);
    assert_int_equal(try_send(&fixture, &args), KVF_OK);
    fixture_close(&fixture);
}

/* A daemon that does not read: whole offers are queued until one does not fit. */
static void test_send_is_busy_when_the_queue_is_full_and_loses_nothing(void **state)
{
    (void)state;
    enum { N_BLOCKS = 500000 };
    struct fixture fixture = fixture_open(NULL);
    int32_t *blocks = calloc(N_BLOCKS, sizeof(*blocks));
    assert_non_null(blocks);
    struct kvf_block_table table = {.n_blocks = N_BLOCKS, .blocks = blocks};
    struct kvf_send_args args = fixture_send_args(0);
    args.tables = &table;
    fake_daemon_pause(fixture.fake, true);
    enum kvf_status status = KVF_OK;
    size_t n_accepted = 0;
    for (; n_accepted < 64; n_accepted++) {
        args.request_id = n_accepted;
        status = try_send(&fixture, &args);
        if (status != KVF_OK) {
            break;
        }
    }
    assert_int_equal(status, KVF_BUSY);
    assert_true(n_accepted >= 8); /* 2 MB each into 16 MiB */
    fake_daemon_pause(fixture.fake, false);
    struct kvf_event event;
    size_t n = 0;
    assert_true(fixture_is_readable(&fixture, 5000)); /* room to write */
    while (fixture_is_readable(&fixture, 1000)) {
        assert_int_equal(kvf_poll(fixture.engine, &event, 1, &n), KVF_OK);
        assert_int_equal(n, 0);
    }
    (void)fake_daemon_expect(fixture.fake, KVF_MSG_OFFER, n_accepted - 1);
    assert_int_equal(try_send(&fixture, &args), KVF_OK);
    free(blocks);
    fixture_close(&fixture);
}

static void test_send_ready_opens_the_fence_once(void **state)
{
    (void)state;
    struct fixture fixture = fixture_open(NULL);
    struct kvf_send_args args = fixture_send_args(1);
    args.flags = KVF_SEND_NOT_READY;
    size_t n = sizeof(params);
    uint64_t handle;
    assert_int_equal(kvf_send_async(fixture.engine, &args, params, &n, &handle), KVF_OK);
    assert_int_equal(kvf_send_ready(fixture.engine, handle, KVF_IN_PROGRESS),
                     KVF_INVALID_ARGUMENT);
    assert_int_equal(kvf_send_ready(fixture.engine, handle + 1, KVF_OK), KVF_NOT_FOUND);
    assert_int_equal(kvf_send_ready(fixture.engine, handle, KVF_INTERNAL), KVF_OK);
    struct fake_seen seen = fake_daemon_expect(fixture.fake, KVF_MSG_OFFER_READY, 0);
    assert_int_equal(seen.handle, handle);
    assert_int_equal(seen.status, KVF_INTERNAL);
    assert_int_equal(kvf_send_ready(fixture.engine, handle, KVF_OK),
                     KVF_INVALID_ARGUMENT);
    assert_int_equal(kvf_send_ready(fixture.engine, fixture_send(&fixture, 2), KVF_OK),
                     KVF_INVALID_ARGUMENT); /* was ready from the start */
    args.request_id = 3;
    n = sizeof(params);
    assert_int_equal(kvf_send_async(fixture.engine, &args, params, &n, &handle), KVF_OK);
    fake_daemon_event(fixture.fake, handle, KVF_EVENT_DONE, KVF_EXPIRED);
    struct kvf_event event;
    fixture_poll(&fixture, &event, 1);
    assert_int_equal(kvf_send_ready(fixture.engine, handle, KVF_OK), KVF_TOO_LATE);
    fixture_close(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_send_offers_what_it_was_given),
        cmocka_unit_test(test_receive_asks_with_the_senders_params),
        cmocka_unit_test(test_send_refuses_bad_arguments),
        cmocka_unit_test(test_send_with_a_small_buffer_offers_nothing),
        cmocka_unit_test(test_live_request_ids_are_unique_per_attempt_and_side),
        cmocka_unit_test(test_receive_refuses_damaged_params_and_bad_prefixes),
        cmocka_unit_test(test_send_is_busy_at_the_daemons_limit),
        cmocka_unit_test(test_send_is_busy_when_the_queue_is_full_and_loses_nothing),
        cmocka_unit_test(test_send_ready_opens_the_fence_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
