/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transfers between engines of real daemons, in every order and to every outcome that
 * does not need a crash. The argument names the transport. Two pairs of daemons serve all
 * tests; each test brings its own engines, so nothing of one is alive in the next.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/integration/fixture.h"

#define N_BLOCKS 64u

static const char *transport = "tcp";
static struct fixture fixture;
static struct fixture contiguous;
static char text[FIXTURE_TEXT_BYTES];

static int group_setup(void **state)
{
    (void)state;
    fixture_init(&fixture, &(struct fixture_options){.transport = transport});
    return 0;
}

static int group_teardown(void **state)
{
    (void)state;
    fixture_fini(&fixture);
    return 0;
}

static int contiguous_setup(void **state)
{
    (void)state;
    fixture_init(&contiguous, &(struct fixture_options){.transport = transport,
                                                        .force_contiguous = true});
    return 0;
}

static int contiguous_teardown(void **state)
{
    (void)state;
    fixture_fini(&contiguous);
    return 0;
}

/* The engines of most tests: ctx at node a, gen at node b. */
static struct fixture_engine sender, receiver;

static int open_engines(void **state)
{
    (void)state;
    fixture_engine_open(&sender, &fixture.a, "ctx", N_BLOCKS);
    fixture_engine_open(&receiver, &fixture.b, "gen", N_BLOCKS);
    return 0;
}

static int close_engines(void **state)
{
    (void)state;
    fixture_engine_close(&sender);
    fixture_engine_close(&receiver);
    return 0;
}

static void test_transfer_moves_permuted_blocks(void **state)
{
    (void)state;
    struct fixture_request request;
    fixture_request_init(&request, 1, 32, 16);
    fixture_fill(&sender, 1, request.send_blocks, 32);
    assert_int_equal(fixture_send(&sender, &request), KVF_OK);
    assert_int_equal(fixture_receive(&receiver, &request), KVF_OK);
    struct kvf_event event = fixture_expect(&receiver, request.receive_handle, KVF_OK);
    assert_int_equal(event.bytes, 32u * receiver.block_bytes);
    assert_int_equal(event.bits,
                     KVF_EVENT_DONE | KVF_EVENT_QUIESCED | KVF_EVENT_REUSABLE);
    assert_string_equal(event.path,
                        strcmp(transport, "tcp") == 0 ? "direct/tcp" : "direct/ucx");
    event = fixture_expect(&sender, request.send_handle, KVF_OK);
    assert_int_equal(event.bytes, 32u * sender.block_bytes);
    fixture_verify(&receiver, 1, request.receive_blocks, 32, 0);
}

static void test_requests_in_flight_together_do_not_mix(void **state)
{
    (void)state;
    struct fixture_request requests[4];
    for (uint32_t i = 0; i < 4; i++) {
        fixture_request_init(&requests[i], 10 + i, 16, i * 16);
        fixture_fill(&sender, 10 + i, requests[i].send_blocks, 16);
        assert_int_equal(fixture_send(&sender, &requests[i]), KVF_OK);
    }
    /* Received in another order than they were offered. */
    for (uint32_t i = 4; i > 0; i--) {
        assert_int_equal(fixture_receive(&receiver, &requests[i - 1]), KVF_OK);
    }
    for (uint32_t i = 0; i < 4; i++) {
        (void)fixture_expect(&receiver, requests[i].receive_handle, KVF_OK);
        (void)fixture_expect(&sender, requests[i].send_handle, KVF_OK);
    }
    for (uint32_t i = 0; i < 4; i++) {
        fixture_verify_blocks(&receiver, 10 + i, requests[i].receive_blocks, 16);
    }
}

/* The offer waits in the socket of a stopped daemon while the receiver asks for it, so
 * that the daemon meets both in the order it likes. */
static void test_receive_may_come_before_the_offer(void **state)
{
    (void)state;
    struct fixture_request request;
    fixture_request_init(&request, 20, 8, 0);
    fixture_fill(&sender, 20, request.send_blocks, 8);
    assert_int_equal(kill(fixture.a.pid, SIGSTOP), 0);
    enum kvf_status sent = fixture_send(&sender, &request);
    enum kvf_status received = fixture_receive(&receiver, &request);
    struct kvf_event event = {.size = sizeof(event)};
    enum kvf_status waited =
        kvf_wait(receiver.engine, request.receive_handle, 50, &event);
    assert_int_equal(kill(fixture.a.pid, SIGCONT), 0);
    assert_int_equal(sent, KVF_OK);
    assert_int_equal(received, KVF_OK);
    assert_int_equal(waited, KVF_TIMED_OUT);
    (void)fixture_expect(&receiver, request.receive_handle, KVF_OK);
    (void)fixture_expect(&sender, request.send_handle, KVF_OK);
    fixture_verify(&receiver, 20, request.receive_blocks, 8, 0);
}

static void test_receive_of_a_cancelled_offer_is_told(void **state)
{
    (void)state;
    struct fixture_request request;
    fixture_request_init(&request, 21, 8, 0);
    assert_int_equal(fixture_send(&sender, &request), KVF_OK);
    assert_int_equal(kvf_cancel(sender.engine, request.send_handle), KVF_OK);
    (void)fixture_expect(&sender, request.send_handle, KVF_CANCELLED);
    assert_int_equal(fixture_receive(&receiver, &request), KVF_OK);
    (void)fixture_expect(&receiver, request.receive_handle, KVF_CANCELLED);
    fixture_verify_untouched(&receiver);
}

static void test_engines_of_one_daemon_copy_in_memory(void **state)
{
    (void)state;
    struct fixture_engine near;
    struct fixture_request request;
    fixture_engine_open(&near, &fixture.a, "gen-near", N_BLOCKS);
    fixture_request_init(&request, 30, 32, 0);
    fixture_fill(&sender, 30, request.send_blocks, 32);
    assert_int_equal(fixture_send(&sender, &request), KVF_OK);
    assert_int_equal(fixture_receive(&near, &request), KVF_OK);
    struct kvf_event event = fixture_expect(&near, request.receive_handle, KVF_OK);
    assert_string_equal(event.path, "local_host");
    (void)fixture_expect(&sender, request.send_handle, KVF_OK);
    fixture_verify(&near, 30, request.receive_blocks, 32, 0);
    fixture_engine_close(&near);
}

static void expect_prefix_skipped(uint64_t id, uint32_t n_prefix_blocks)
{
    struct fixture_request request;
    fixture_request_init(&request, id, 16, 0);
    request.n_prefix_blocks = n_prefix_blocks;
    fixture_fill(&sender, id, request.send_blocks, 16);
    assert_int_equal(fixture_send(&sender, &request), KVF_OK);
    assert_int_equal(fixture_receive(&receiver, &request), KVF_OK);
    struct kvf_event event = fixture_expect(&receiver, request.receive_handle, KVF_OK);
    assert_int_equal(event.bytes,
                     (uint64_t)(16 - n_prefix_blocks) * receiver.block_bytes);
    (void)fixture_expect(&sender, request.send_handle, KVF_OK);
    fixture_verify(&receiver, id, request.receive_blocks, 16, n_prefix_blocks);
}

static void test_held_prefix_is_not_moved(void **state)
{
    (void)state;
    expect_prefix_skipped(40, 5);
}

static void test_nothing_moves_when_all_tokens_are_held(void **state)
{
    (void)state;
    expect_prefix_skipped(41, 16);
}

static void test_small_blocks_arrive(void **state)
{
    (void)state;
    struct fixture_engine from, to;
    struct fixture_request request;
    fixture_engine_open(&from, &fixture.a, "ctx-small", 64);
    fixture_engine_open(&to, &fixture.b, "gen-small", 64);
    assert_int_equal(from.block_bytes, 4096);
    fixture_request_init(&request, 50, 64, 0);
    fixture_fill(&from, 50, request.send_blocks, 64);
    assert_int_equal(fixture_send(&from, &request), KVF_OK);
    assert_int_equal(fixture_receive(&to, &request), KVF_OK);
    struct kvf_event event = fixture_expect(&to, request.receive_handle, KVF_OK);
    assert_int_equal(event.bytes, 64u * 4096u);
    (void)fixture_expect(&from, request.send_handle, KVF_OK);
    fixture_verify(&to, 50, request.receive_blocks, 64, 0);
    fixture_engine_close(&from);
    fixture_engine_close(&to);
}

static void test_forced_contiguous_chunks_are_staged(void **state)
{
    (void)state;
    struct fixture_engine from, to;
    struct fixture_request request;
    fixture_engine_open(&from, &contiguous.a, "ctx", N_BLOCKS);
    fixture_engine_open(&to, &contiguous.b, "gen", N_BLOCKS);
    fixture_request_init(&request, 60, 64, 0);
    fixture_fill(&from, 60, request.send_blocks, 64);
    assert_int_equal(fixture_send(&from, &request), KVF_OK);
    assert_int_equal(fixture_receive(&to, &request), KVF_OK);
    (void)fixture_expect(&to, request.receive_handle, KVF_OK);
    struct kvf_event event = fixture_expect(&from, request.send_handle, KVF_OK);
    assert_non_null(strstr(event.path, "staged"));
    fixture_verify(&to, 60, request.receive_blocks, 64, 0);
    fixture_engine_close(&from);
    fixture_engine_close(&to);
}

/* A fenced offer keeps both sides alive for as long as the test wants. */
static void start_fenced(struct fixture_request *request, uint64_t id)
{
    fixture_request_init(request, id, 16, 0);
    request->flags = KVF_SEND_NOT_READY;
    fixture_fill(&sender, id, request->send_blocks, 16);
    assert_int_equal(fixture_send(&sender, request), KVF_OK);
    assert_int_equal(fixture_receive(&receiver, request), KVF_OK);
    struct kvf_event event = {.size = sizeof(event)};
    assert_int_equal(kvf_wait(receiver.engine, request->receive_handle, 20, &event),
                     KVF_TIMED_OUT);
}

static void test_cancel_by_receiver_ends_both_sides(void **state)
{
    (void)state;
    struct fixture_request request;
    start_fenced(&request, 70);
    assert_int_equal(kvf_cancel(receiver.engine, request.receive_handle), KVF_OK);
    (void)fixture_expect(&receiver, request.receive_handle, KVF_CANCELLED);
    (void)fixture_expect(&sender, request.send_handle, KVF_CANCELLED);
    fixture_verify_untouched(&receiver);
    fixture_transfer(&sender, &receiver, 71);
}

static void test_cancel_by_sender_ends_both_sides(void **state)
{
    (void)state;
    struct fixture_request request;
    start_fenced(&request, 72);
    assert_int_equal(kvf_cancel_request(sender.engine, 72), KVF_OK);
    (void)fixture_expect(&sender, request.send_handle, KVF_CANCELLED);
    (void)fixture_expect(&receiver, request.receive_handle, KVF_CANCELLED);
    fixture_verify_untouched(&receiver);
}

static void test_cancel_over_http_ends_both_sides(void **state)
{
    (void)state;
    struct fixture_request request;
    start_fenced(&request, 73);
    assert_int_equal(fixture_admin(&fixture.b, "DELETE", "/v1/requests/73?wait=2s", text,
                                   sizeof(text)),
                     200);
    (void)fixture_expect(&receiver, request.receive_handle, KVF_CANCELLED);
    (void)fixture_expect(&sender, request.send_handle, KVF_CANCELLED);
    fixture_verify_untouched(&receiver);
}

static void test_cancel_of_moving_data_is_final_on_both_sides(void **state)
{
    (void)state;
    struct fixture_request request;
    struct kvf_event sent = {.size = sizeof(sent)}, received = {.size = sizeof(received)};
    fixture_request_init(&request, 74, 64, 0);
    fixture_fill(&sender, 74, request.send_blocks, 64);
    assert_int_equal(fixture_send(&sender, &request), KVF_OK);
    assert_int_equal(fixture_receive(&receiver, &request), KVF_OK);
    enum kvf_status status = kvf_cancel(receiver.engine, request.receive_handle);
    assert_true(status == KVF_OK || status == KVF_NOT_FOUND);
    assert_int_equal(
        kvf_wait(receiver.engine, request.receive_handle, FIXTURE_WAIT_MS, &received),
        KVF_OK);
    assert_int_equal(kvf_wait(sender.engine, request.send_handle, FIXTURE_WAIT_MS, &sent),
                     KVF_OK);
    assert_true(received.status == KVF_OK || received.status == KVF_CANCELLED);
    assert_true(sent.status == KVF_OK || sent.status == KVF_CANCELLED);
    if (received.status == KVF_OK) {
        fixture_verify(&receiver, 74, request.receive_blocks, 64, 0);
    }
    /* Nothing of it writes into the pool that the engine has back. */
    fixture_transfer(&sender, &receiver, 75);
}

static void test_fence_holds_data_back_until_ready(void **state)
{
    (void)state;
    struct fixture_request request;
    start_fenced(&request, 80);
    fixture_verify_untouched(&receiver);
    assert_int_equal(kvf_send_ready(sender.engine, request.send_handle, KVF_OK), KVF_OK);
    (void)fixture_expect(&sender, request.send_handle, KVF_OK);
    (void)fixture_expect(&receiver, request.receive_handle, KVF_OK);
    fixture_verify(&receiver, 80, request.receive_blocks, 16, 0);
}

static void test_refused_fence_ends_the_receiver_with_not_ready(void **state)
{
    (void)state;
    struct fixture_request request;
    start_fenced(&request, 81);
    assert_int_equal(kvf_send_ready(sender.engine, request.send_handle, KVF_NO_MEMORY),
                     KVF_OK);
    (void)fixture_expect(&receiver, request.receive_handle, KVF_NOT_READY);
    fixture_verify_untouched(&receiver);
}

static void test_offer_without_receiver_expires(void **state)
{
    (void)state;
    struct fixture_request request;
    fixture_request_init(&request, 90, 8, 0);
    request.deadline_ms = 100;
    assert_int_equal(fixture_send(&sender, &request), KVF_OK);
    (void)fixture_expect(&sender, request.send_handle, KVF_EXPIRED);
}

static void test_receive_without_offer_expires(void **state)
{
    (void)state;
    struct fixture_request request;
    fixture_request_init(&request, 91, 8, 0);
    request.flags = KVF_SEND_NOT_READY;
    assert_int_equal(fixture_send(&sender, &request), KVF_OK);
    request.deadline_ms = 100;
    assert_int_equal(fixture_receive(&receiver, &request), KVF_OK);
    (void)fixture_expect(&receiver, request.receive_handle, KVF_EXPIRED);
    fixture_verify_untouched(&receiver);
}

static void test_notification_reaches_the_other_engine(void **state)
{
    (void)state;
    char bytes[64], from[KVF_NAME_MAX + 1];
    size_t n_bytes = sizeof(bytes);
    uint32_t rank = 7;
    uint64_t deadline_ms = fixture_now_ms() + FIXTURE_WAIT_MS;
    enum kvf_status status = KVF_NOT_FOUND;
    assert_int_equal(kvf_notify(sender.engine, "gen", 0, "hello", 5), KVF_OK);
    while (status == KVF_NOT_FOUND) {
        struct kvf_event event;
        size_t n = 0;
        n_bytes = sizeof(bytes);
        assert_int_equal(kvf_poll(receiver.engine, &event, 1, &n), KVF_OK);
        status = kvf_notify_read(receiver.engine, bytes, &n_bytes, from, &rank);
        assert_true(fixture_pause_until(deadline_ms));
    }
    assert_int_equal(status, KVF_OK);
    assert_int_equal(n_bytes, 5);
    assert_memory_equal(bytes, "hello", 5);
    assert_string_equal(from, "ctx");
    assert_int_equal(rank, 0);
}

#define WITH_ENGINES(test)                                                               \
    cmocka_unit_test_setup_teardown(test, open_engines, close_engines)

int main(int argc, char **argv)
{
    if (argc > 1) {
        transport = argv[1];
    }
    const struct CMUnitTest tests[] = {
        WITH_ENGINES(test_transfer_moves_permuted_blocks),
        WITH_ENGINES(test_requests_in_flight_together_do_not_mix),
        WITH_ENGINES(test_receive_may_come_before_the_offer),
        WITH_ENGINES(test_receive_of_a_cancelled_offer_is_told),
        WITH_ENGINES(test_engines_of_one_daemon_copy_in_memory),
        WITH_ENGINES(test_held_prefix_is_not_moved),
        WITH_ENGINES(test_nothing_moves_when_all_tokens_are_held),
        cmocka_unit_test(test_small_blocks_arrive),
        cmocka_unit_test_setup_teardown(test_forced_contiguous_chunks_are_staged,
                                        contiguous_setup, contiguous_teardown),
        WITH_ENGINES(test_cancel_by_receiver_ends_both_sides),
        WITH_ENGINES(test_cancel_by_sender_ends_both_sides),
        WITH_ENGINES(test_cancel_over_http_ends_both_sides),
        WITH_ENGINES(test_cancel_of_moving_data_is_final_on_both_sides),
        WITH_ENGINES(test_fence_holds_data_back_until_ready),
        WITH_ENGINES(test_refused_fence_ends_the_receiver_with_not_ready),
        WITH_ENGINES(test_offer_without_receiver_expires),
        WITH_ENGINES(test_receive_without_offer_expires),
        WITH_ENGINES(test_notification_reaches_the_other_engine),
    };
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
