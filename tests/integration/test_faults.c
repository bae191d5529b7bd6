/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What disappears: a peer daemon, an engine, the own daemon, and a daemon that is asked
 * to leave. Each ends what it took part in within a second and with its own status, and
 * the next transfer works. The argument names the transport. Every test has its own pair
 * of daemons.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/integration/fixture.h"

#define N_BLOCKS 32u
#define FAULT_MS 1000u /* what the design allows */

static const char *transport = "tcp";
static struct fixture fixture;
static char text[FIXTURE_TEXT_BYTES];

static int setup(void **state)
{
    (void)state;
    fixture_init(&fixture, &(struct fixture_options){.transport = transport});
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fixture_fini(&fixture);
    return 0;
}

static void wait_until_both_ready(void)
{
    fixture_node_wait_ready(&fixture.a);
    fixture_node_wait_ready(&fixture.b);
}

static void test_killed_peer_ends_requests_and_comes_back(void **state)
{
    (void)state;
    struct fixture_engine sender, receiver;
    struct fixture_request request;
    fixture_engine_open(&sender, &fixture.a, "ctx", N_BLOCKS);
    fixture_engine_open(&receiver, &fixture.b, "gen", N_BLOCKS);
    fixture_transfer(&sender, &receiver, 1);
    fixture_poison(&receiver);
    fixture_request_init(&request, 2, 16, 0);
    request.flags = KVF_SEND_NOT_READY;
    assert_int_equal(fixture_send(&sender, &request), KVF_OK);
    assert_int_equal(fixture_receive(&receiver, &request), KVF_OK);
    struct kvf_event event = {.size = sizeof(event)};
    assert_int_equal(kvf_wait(receiver.engine, request.receive_handle, 50, &event),
                     KVF_TIMED_OUT);

    uint64_t killed_ms = fixture_now_ms();
    (void)fixture_node_stop(&fixture.a, SIGKILL);
    (void)fixture_expect(&receiver, request.receive_handle, KVF_PEER_LOST);
    assert_true(fixture_now_ms() - killed_ms < FAULT_MS);
    (void)fixture_expect(&sender, request.send_handle, KVF_DAEMON_LOST);
    assert_true(fixture_now_ms() - killed_ms < FAULT_MS);
    fixture_verify_untouched(&receiver);
    fixture_engine_close(&sender);

    fixture_node_start(&fixture.a);
    wait_until_both_ready();
    fixture_engine_open(&sender, &fixture.a, "ctx", N_BLOCKS);
    fixture_transfer(&sender, &receiver, 3);
    fixture_engine_close(&sender);
    fixture_engine_close(&receiver);
}

/* Without a fence: at the kill the request is anywhere between matched and done, with
 * four requests at several points of its way. Each ends, and OK means every byte. */
static void test_peer_killed_while_data_moves_ends_every_request(void **state)
{
    (void)state;
    struct fixture_engine sender, receiver;
    struct fixture_request requests[4];
    struct kvf_event event = {.size = sizeof(event)};
    fixture_engine_open(&sender, &fixture.a, "ctx", 256);
    fixture_engine_open(&receiver, &fixture.b, "gen", 256);
    for (uint32_t i = 0; i < 4; i++) {
        fixture_request_init(&requests[i], 50 + i, 64, i * 64);
        fixture_fill(&sender, 50 + i, requests[i].send_blocks, 64);
        assert_int_equal(fixture_send(&sender, &requests[i]), KVF_OK);
    }
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(fixture_receive(&receiver, &requests[i]), KVF_OK);
    }
    bool is_done_before =
        kvf_wait(receiver.engine, requests[0].receive_handle, 1, &event) == KVF_OK;
    assert_int_equal(kill(fixture.a.pid, SIGKILL), 0);
    for (uint32_t i = is_done_before ? 1 : 0; i < 4; i++) {
        enum kvf_status status = kvf_wait(receiver.engine, requests[i].receive_handle,
                                          FIXTURE_WAIT_MS, &event);
        assert_int_equal(status, KVF_OK);
        assert_true(event.status == KVF_OK || event.status == KVF_PEER_LOST);
        if (event.status == KVF_OK) {
            fixture_verify_blocks(&receiver, 50 + i, requests[i].receive_blocks, 64);
        }
    }
    (void)fixture_node_stop(&fixture.a, SIGKILL);
    fixture_engine_close(&sender);
    fixture_engine_close(&receiver);
}

/* ---- an engine in a process of its own */

struct child {
    pid_t pid;
    struct fixture_request request;
};

/* Offers behind a fence, hands the request over and waits to be killed. */
static void run_sender(int fd, uint64_t id)
{
    struct fixture_engine engine;
    struct fixture_request request;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    fixture_engine_open(&engine, &fixture.a, "ctx", N_BLOCKS);
    fixture_request_init(&request, id, 16, 0);
    request.flags = KVF_SEND_NOT_READY;
    if (fixture_send(&engine, &request) != KVF_OK ||
        write(fd, &request, sizeof(request)) != (ssize_t)sizeof(request)) {
        _exit(1);
    }
    for (;;) {
        (void)pause();
    }
}

static void child_start(struct child *child, uint64_t id)
{
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    child->pid = fork();
    assert_true(child->pid >= 0);
    if (child->pid == 0) {
        run_sender(fds[1], id);
    }
    (void)close(fds[1]);
    ssize_t n = read(fds[0], &child->request, sizeof(child->request));
    (void)close(fds[0]);
    assert_int_equal(n, sizeof(child->request));
}

static void child_kill(struct child *child)
{
    (void)kill(child->pid, SIGKILL);
    (void)waitpid(child->pid, NULL, 0);
}

static void test_killed_engine_ends_its_requests_at_the_peer(void **state)
{
    (void)state;
    struct fixture_engine sender, receiver;
    struct child child;
    fixture_engine_open(&receiver, &fixture.b, "gen", N_BLOCKS);
    child_start(&child, 10);
    assert_int_equal(fixture_receive(&receiver, &child.request), KVF_OK);
    struct kvf_event event = {.size = sizeof(event)};
    assert_int_equal(kvf_wait(receiver.engine, child.request.receive_handle, 50, &event),
                     KVF_TIMED_OUT);

    uint64_t killed_ms = fixture_now_ms();
    child_kill(&child);
    (void)fixture_expect(&receiver, child.request.receive_handle, KVF_ENGINE_LOST);
    assert_true(fixture_now_ms() - killed_ms < FAULT_MS);
    fixture_verify_untouched(&receiver);

    /* Its name is free again, and its daemon serves the next one. */
    fixture_engine_open(&sender, &fixture.a, "ctx", N_BLOCKS);
    fixture_transfer(&sender, &receiver, 11);
    fixture_engine_close(&sender);
    fixture_engine_close(&receiver);
}

static void test_closed_engine_ends_its_requests_at_the_peer(void **state)
{
    (void)state;
    struct fixture_engine sender, receiver;
    struct fixture_request request;
    fixture_engine_open(&sender, &fixture.a, "ctx", N_BLOCKS);
    fixture_engine_open(&receiver, &fixture.b, "gen", N_BLOCKS);
    fixture_request_init(&request, 20, 16, 0);
    request.flags = KVF_SEND_NOT_READY;
    assert_int_equal(fixture_send(&sender, &request), KVF_OK);
    assert_int_equal(fixture_receive(&receiver, &request), KVF_OK);
    struct kvf_event event = {.size = sizeof(event)};
    assert_int_equal(kvf_wait(receiver.engine, request.receive_handle, 50, &event),
                     KVF_TIMED_OUT);
    fixture_engine_close(&receiver);
    event = fixture_expect(&sender, request.send_handle, KVF_ENGINE_LOST);
    assert_true((event.bits & KVF_EVENT_REUSABLE) != 0);
    fixture_engine_close(&sender);
}

static void test_daemon_restart_is_told_to_its_engine(void **state)
{
    (void)state;
    struct fixture_engine sender, receiver;
    fixture_engine_open(&receiver, &fixture.b, "gen", N_BLOCKS);
    (void)fixture_node_stop(&fixture.b, SIGKILL);
    uint64_t deadline_ms = fixture_now_ms() + FIXTURE_WAIT_MS;
    enum kvf_status status = KVF_OK;
    while (status == KVF_OK && fixture_pause_until(deadline_ms)) {
        struct kvf_event event;
        size_t n;
        status = kvf_poll(receiver.engine, &event, 1, &n);
    }
    assert_int_equal(status, KVF_DAEMON_LOST);
    fixture_engine_close(&receiver);
    fixture_node_start(&fixture.b);
    wait_until_both_ready();
    fixture_engine_open(&sender, &fixture.a, "ctx", N_BLOCKS);
    fixture_engine_open(&receiver, &fixture.b, "gen", N_BLOCKS);
    fixture_transfer(&sender, &receiver, 30);
    fixture_engine_close(&sender);
    fixture_engine_close(&receiver);
}

static void test_sigterm_cancels_what_outlives_the_grace(void **state)
{
    (void)state;
    struct fixture_engine sender, receiver;
    struct fixture_request request;
    fixture_engine_open(&sender, &fixture.a, "ctx", N_BLOCKS);
    fixture_engine_open(&receiver, &fixture.b, "gen", N_BLOCKS);
    fixture_request_init(&request, 60, 16, 0);
    request.flags = KVF_SEND_NOT_READY;
    assert_int_equal(fixture_send(&sender, &request), KVF_OK);
    assert_int_equal(fixture_receive(&receiver, &request), KVF_OK);
    struct kvf_event event = {.size = sizeof(event)};
    assert_int_equal(kvf_wait(receiver.engine, request.receive_handle, 50, &event),
                     KVF_TIMED_OUT);
    assert_int_equal(kill(fixture.a.pid, SIGTERM), 0);
    assert_true(fixture_log_has(&fixture.a, "draining"));
    /* The second signal ends the grace at once. */
    int status = fixture_node_stop(&fixture.a, SIGTERM);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    (void)fixture_expect(&sender, request.send_handle, KVF_SHUTDOWN);
    (void)fixture_expect(&receiver, request.receive_handle, KVF_SHUTDOWN);
    fixture_verify_untouched(&receiver);
    fixture_engine_close(&sender);
    fixture_engine_close(&receiver);
}

static void test_sigterm_lets_running_transfers_finish(void **state)
{
    (void)state;
    struct fixture_engine sender, receiver;
    struct fixture_request request;
    fixture_engine_open(&sender, &fixture.a, "ctx", N_BLOCKS);
    fixture_engine_open(&receiver, &fixture.b, "gen", N_BLOCKS);
    fixture_request_init(&request, 40, 16, 0);
    request.flags = KVF_SEND_NOT_READY;
    fixture_fill(&sender, 40, request.send_blocks, 16);
    assert_int_equal(fixture_send(&sender, &request), KVF_OK);
    assert_int_equal(fixture_receive(&receiver, &request), KVF_OK);
    struct kvf_event event = {.size = sizeof(event)};
    assert_int_equal(kvf_wait(receiver.engine, request.receive_handle, 50, &event),
                     KVF_TIMED_OUT);
    assert_int_equal(kill(fixture.a.pid, SIGTERM), 0);
    assert_true(fixture_log_has(&fixture.a, "draining"));
    assert_int_equal(fixture_observe_get(&fixture.a, "/readyz", text, sizeof(text)), 503);
    assert_int_equal(kvf_send_ready(sender.engine, request.send_handle, KVF_OK), KVF_OK);
    (void)fixture_expect(&receiver, request.receive_handle, KVF_OK);
    (void)fixture_expect(&sender, request.send_handle, KVF_OK);
    fixture_verify(&receiver, 40, request.receive_blocks, 16, 0);
    int status = fixture_node_stop(&fixture.a, 0);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    fixture_engine_close(&sender);
    fixture_engine_close(&receiver);
}

#define WITH_DAEMONS(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(int argc, char **argv)
{
    if (argc > 1) {
        transport = argv[1];
    }
    const struct CMUnitTest tests[] = {
        WITH_DAEMONS(test_killed_peer_ends_requests_and_comes_back),
        WITH_DAEMONS(test_peer_killed_while_data_moves_ends_every_request),
        WITH_DAEMONS(test_killed_engine_ends_its_requests_at_the_peer),
        WITH_DAEMONS(test_closed_engine_ends_its_requests_at_the_peer),
        WITH_DAEMONS(test_daemon_restart_is_told_to_its_engine),
        WITH_DAEMONS(test_sigterm_lets_running_transfers_finish),
        WITH_DAEMONS(test_sigterm_cancels_what_outlives_the_grace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
