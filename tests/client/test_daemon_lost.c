/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon goes away: everything ends once, in order, and the engine can still be read
 * and closed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/clock.h"
#include "tests/client/fixture.h"

#define ALL_BITS (KVF_EVENT_DONE | KVF_EVENT_QUIESCED | KVF_EVENT_REUSABLE)

static void test_loss_ends_every_transfer_then_tells_itself(void **state)
{
    (void)state;
    struct fixture fixture = fixture_open(NULL);
    uint64_t done = fixture_send(&fixture, 1), live = fixture_receive(&fixture, 2);
    fake_daemon_event(fixture.fake, done, KVF_EVENT_DONE, KVF_OK);
    struct kvf_event events[3];
    fixture_poll(&fixture, events, 1);
    fake_daemon_hang_up(fixture.fake);
    fixture_poll(&fixture, events, 3);
    assert_int_equal(events[0].handle, done);
    assert_int_equal(events[0].status, KVF_OK); /* it had ended: final is final */
    assert_int_equal(events[0].new_bits, KVF_EVENT_QUIESCED | KVF_EVENT_REUSABLE);
    assert_int_equal(events[1].handle, live);
    assert_int_equal(events[1].status, KVF_DAEMON_LOST);
    assert_int_equal(events[1].new_bits, ALL_BITS);
    assert_string_not_equal(events[1].detail, "");
    assert_int_equal(events[2].type, KVF_EVENT_DAEMON);
    assert_int_equal(events[2].status, KVF_DAEMON_LOST);
    size_t n;
    assert_int_equal(kvf_poll(fixture.engine, events, 3, &n), KVF_DAEMON_LOST);
    assert_int_equal(kvf_engine_fd(fixture.engine), -1);
    fixture_close(&fixture);
}

static void test_loss_takes_in_what_came_before_it(void **state)
{
    (void)state;
    struct fixture fixture = fixture_open(NULL);
    uint64_t handle = fixture_send(&fixture, 1);
    (void)fake_daemon_expect(fixture.fake, KVF_MSG_OFFER, 0);
    fake_daemon_event(fixture.fake, handle, KVF_EVENT_REUSABLE, KVF_OK);
    fake_daemon_hang_up(fixture.fake);
    struct kvf_event events[2];
    fixture_poll(&fixture, events, 2);
    assert_int_equal(events[0].handle, handle);
    assert_int_equal(events[0].status, KVF_OK);
    assert_int_equal(events[1].type, KVF_EVENT_DAEMON);
    fixture_close(&fixture);
}

static void test_loss_is_noticed_by_a_wait_at_once(void **state)
{
    (void)state;
    struct fixture fixture = fixture_open(NULL);
    uint64_t handle = fixture_send(&fixture, 1);
    fake_daemon_hang_up(fixture.fake);
    uint64_t before_ns = kvf_clock_now_ns(&kvf_clock_system);
    struct kvf_event event;
    assert_int_equal(kvf_wait(fixture.engine, handle, 60000, &event), KVF_OK);
    assert_int_equal(event.status, KVF_DAEMON_LOST);
    assert_true(kvf_clock_now_ns(&kvf_clock_system) - before_ns < KVF_NS_PER_S);
    assert_true(fixture_is_readable(&fixture, 0)); /* the loss itself */
    fixture_poll(&fixture, &event, 1);
    assert_int_equal(event.type, KVF_EVENT_DAEMON);
    fixture_close(&fixture);
}

static void test_loss_fails_later_calls_and_frees_pools(void **state)
{
    (void)state;
    struct fixture fixture = fixture_open(NULL);
    uint64_t handle = fixture_send(&fixture, 1);
    fake_daemon_hang_up(fixture.fake);
    struct kvf_event events[2];
    assert_true(fixture_is_readable(&fixture, 5000));
    size_t n;
    assert_int_equal(kvf_poll(fixture.engine, NULL, 0, &n), KVF_OK);
    uint8_t params[4096];
    size_t n_params = sizeof(params);
    uint64_t other;
    struct kvf_send_args args = fixture_send_args(2);
    assert_int_equal(kvf_send_async(fixture.engine, &args, params, &n_params, &other),
                     KVF_DAEMON_LOST);
    assert_int_equal(kvf_cancel(fixture.engine, handle), KVF_DAEMON_LOST);
    assert_int_equal(kvf_notify(fixture.engine, "decode", 0, "x", 1), KVF_DAEMON_LOST);
    assert_int_equal(kvf_pool_unregister(fixture.pool, 0), KVF_BUSY); /* unread */
    fixture_poll(&fixture, events, 2);
    assert_int_equal(kvf_pool_unregister(fixture.pool, 0), KVF_DAEMON_LOST);
    fixture_close(&fixture);
}

static void test_malformed_frames_are_a_loss(void **state)
{
    (void)state;
    struct fixture fixture = fixture_open(NULL);
    uint64_t handle = fixture_send(&fixture, 1);
    fake_daemon_garbage(fixture.fake);
    struct kvf_event events[2];
    fixture_poll(&fixture, events, 2);
    assert_int_equal(events[0].handle, handle);
    assert_int_equal(events[0].status, KVF_DAEMON_LOST);
    fixture_close(&fixture);
}

static void test_loss_while_a_pool_waits(void **state)
{
    (void)state;
    struct fake_config config = {.hangs_up_on_pool = true};
    struct fake_daemon *fake = fake_daemon_start(&config);
    struct kvf_engine_config engine_config = fixture_engine_config(fake);
    struct kvf_pool_config pool_config = fixture_pool_config(0);
    struct kvf_engine *engine;
    struct kvf_pool *pool = NULL;
    assert_int_equal(kvf_engine_open(&engine_config, &engine), KVF_OK);
    assert_int_equal(kvf_pool_register(engine, &pool_config, 60000, &pool),
                     KVF_DAEMON_LOST);
    assert_null(pool);
    kvf_engine_close(engine);
    fake_daemon_stop(fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loss_ends_every_transfer_then_tells_itself),
        cmocka_unit_test(test_loss_takes_in_what_came_before_it),
        cmocka_unit_test(test_loss_is_noticed_by_a_wait_at_once),
        cmocka_unit_test(test_loss_fails_later_calls_and_frees_pools),
        cmocka_unit_test(test_malformed_frames_are_a_loss),
        cmocka_unit_test(test_loss_while_a_pool_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
