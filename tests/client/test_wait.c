/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kvf_wait() and the sync forms built on it. Waits that are meant to run out are a few
 * milliseconds long; nothing here waits for time to pass.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "tests/client/fixture.h"

static void test_wait_runs_out_and_consumes_nothing(void **state)
{
    (void)state;
    struct fixture fixture = fixture_open(NULL);
    uint64_t handle = fixture_send(&fixture, 1);
    struct kvf_event event = {.handle = 99};
    assert_int_equal(kvf_wait(fixture.engine, handle, 0, &event), KVF_TIMED_OUT);
    assert_int_equal(event.handle, 99);
    fake_daemon_event(fixture.fake, handle, KVF_EVENT_DONE, KVF_OK);
    assert_int_equal(kvf_wait(fixture.engine, handle, 20, &event), KVF_TIMED_OUT);
    assert_true(fixture_is_readable(&fixture, 5000));
    fixture_poll(&fixture, &event, 1); /* DONE alone is no end of a wait */
    assert_int_equal(event.bits, KVF_EVENT_DONE);
    fixture_close(&fixture);
}

static void test_wait_leaves_the_events_of_others(void **state)
{
    (void)state;
    struct fixture fixture = fixture_open(NULL);
    uint64_t first = fixture_send(&fixture, 1), second = fixture_send(&fixture, 2);
    fake_daemon_event(fixture.fake, first, KVF_EVENT_REUSABLE, KVF_OK);
    fake_daemon_event(fixture.fake, second, KVF_EVENT_DONE, KVF_OK);
    fake_daemon_event(fixture.fake, second, KVF_EVENT_REUSABLE, KVF_OK);
    struct kvf_event event;
    assert_int_equal(kvf_wait(fixture.engine, second, 5000, &event), KVF_OK);
    assert_int_equal(event.handle, second);
    assert_int_equal(event.status, KVF_OK);
    assert_int_equal(kvf_wait(fixture.engine, second, 0, &event), KVF_NOT_FOUND);
    /* The socket is empty; the event of the first lies in the library. */
    assert_true(fixture_is_readable(&fixture, 0));
    fixture_poll(&fixture, &event, 1);
    assert_int_equal(event.handle, first);
    assert_false(fixture_is_readable(&fixture, 0));
    fixture_close(&fixture);
}

static void test_wait_reports_the_outcome_apart_from_itself(void **state)
{
    (void)state;
    struct fixture fixture = fixture_open(NULL);
    uint64_t handle = fixture_send(&fixture, 1);
    fake_daemon_event(fixture.fake, handle, KVF_EVENT_REUSABLE, KVF_PEER_LOST);
    struct kvf_event event;
    assert_int_equal(kvf_wait(fixture.engine, handle, 5000, &event), KVF_OK);
    assert_int_equal(event.status, KVF_PEER_LOST);
    fixture_close(&fixture);
}

struct delivery {
    struct fixture *fixture;
    enum kvf_status answer;
    uint32_t bits; /* what the daemon says at once; 0: nothing */
    uint64_t request_id;
};

static enum kvf_status deliver(void *owner, const void *params, size_t len)
{
    struct delivery *delivery = owner;
    struct kvf_params_info info = {.size = sizeof(info)};
    assert_int_equal(kvf_params_inspect(params, len, &info), KVF_OK);
    delivery->request_id = info.request_id;
    if (delivery->bits != 0) {
        uint64_t handle =
            fake_daemon_expect(delivery->fixture->fake, KVF_MSG_OFFER, 0).handle;
        fake_daemon_event(delivery->fixture->fake, handle, delivery->bits, KVF_OK);
    }
    return delivery->answer;
}

static void test_send_delivers_then_waits(void **state)
{
    (void)state;
    struct fixture fixture = fixture_open(NULL);
    struct delivery delivery = {.fixture = &fixture, .bits = KVF_EVENT_REUSABLE};
    struct kvf_send_args args = fixture_send_args(12);
    struct kvf_event event;
    assert_int_equal(kvf_send(fixture.engine, &args, deliver, &delivery, 5000, &event),
                     KVF_OK);
    assert_int_equal(delivery.request_id, 12);
    assert_int_equal(event.request_id, 12);
    assert_int_equal(fake_daemon_count(fixture.fake, KVF_MSG_ENGINE_CANCEL), 0);
    fixture_close(&fixture);
}

/* The daemon ends the transfer when it hears the cancel; the fake answers from here. */
static void test_send_is_cancelled_when_nobody_took_the_params(void **state)
{
    (void)state;
    struct fake_config config = {.confirms_cancels = true};
    struct fixture fixture = fixture_open(&config);
    struct delivery delivery = {.fixture = &fixture, .answer = KVF_SYSTEM};
    struct kvf_send_args args = fixture_send_args(12);
    struct kvf_event event;
    assert_int_equal(kvf_send(fixture.engine, &args, deliver, &delivery, 5000, &event),
                     KVF_CANCELLED);
    assert_int_equal(event.status, KVF_CANCELLED);
    assert_true((event.bits & KVF_EVENT_REUSABLE) != 0);
    fixture_close(&fixture);
}

static void test_receive_cancels_when_its_wait_runs_out(void **state)
{
    (void)state;
    struct fake_config config = {.confirms_cancels = true};
    struct fixture fixture = fixture_open(&config);
    struct kvf_send_args send = fixture_send_args(12);
    uint8_t params[4096];
    size_t n = sizeof(params);
    uint64_t handle;
    assert_int_equal(kvf_send_async(fixture.engine, &send, params, &n, &handle), KVF_OK);
    struct kvf_receive_args args = fixture_receive_args(params, n);
    struct kvf_event event;
    assert_int_equal(kvf_receive(fixture.engine, &args, 10, &event), KVF_CANCELLED);
    assert_true((event.bits & KVF_EVENT_REUSABLE) != 0);
    assert_int_equal(event.request_id, 12);
    assert_int_equal(fake_daemon_count(fixture.fake, KVF_MSG_ENGINE_CANCEL), 1);
    fixture_close(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wait_runs_out_and_consumes_nothing),
        cmocka_unit_test(test_wait_leaves_the_events_of_others),
        cmocka_unit_test(test_wait_reports_the_outcome_apart_from_itself),
        cmocka_unit_test(test_send_delivers_then_waits),
        cmocka_unit_test(test_send_is_cancelled_when_nobody_took_the_params),
        cmocka_unit_test(test_receive_cancels_when_its_wait_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
