/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cancelling: by handle and by request id, once per transfer, nothing for what ended.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/client/fixture.h"

static void test_cancel_is_sent_once(void **state)
{
    (void)state;
    struct fixture fixture = fixture_open(NULL);
    uint64_t handle = fixture_send(&fixture, 1);
    assert_int_equal(kvf_cancel(fixture.engine, handle), KVF_OK);
    assert_int_equal(kvf_cancel(fixture.engine, handle), KVF_OK);
    assert_int_equal(fake_daemon_expect(fixture.fake, KVF_MSG_ENGINE_CANCEL, 0).handle,
                     handle);
    fake_daemon_event(fixture.fake, handle, KVF_EVENT_REUSABLE, KVF_CANCELLED);
    struct kvf_event event;
    fixture_poll(&fixture, &event, 1);
    assert_int_equal(event.status, KVF_CANCELLED);
    assert_int_equal(fake_daemon_count(fixture.fake, KVF_MSG_ENGINE_CANCEL), 1);
    fixture_close(&fixture);
}

static void test_cancel_of_what_ended_is_not_found(void **state)
{
    (void)state;
    struct fixture fixture = fixture_open(NULL);
    uint64_t handle = fixture_send(&fixture, 1);
    fake_daemon_event(fixture.fake, handle, KVF_EVENT_DONE, KVF_OK);
    struct kvf_event event;
    fixture_poll(&fixture, &event, 1);
    assert_int_equal(kvf_cancel(fixture.engine, handle), KVF_NOT_FOUND);
    assert_int_equal(kvf_cancel_request(fixture.engine, 1), KVF_NOT_FOUND);
    assert_int_equal(kvf_cancel(fixture.engine, 0), KVF_NOT_FOUND);
    assert_int_equal(fake_daemon_count(fixture.fake, KVF_MSG_ENGINE_CANCEL), 0);
    fixture_close(&fixture);
}

static void test_cancel_request_finds_every_live_transfer_of_the_id(void **state)
{
    (void)state;
    struct fixture fixture = fixture_open(NULL);
    uint64_t send = fixture_send(&fixture, 8), receive = fixture_receive(&fixture, 8);
    (void)fixture_send(&fixture, 9);
    assert_int_equal(kvf_cancel_request(fixture.engine, 8), KVF_OK);
    assert_int_equal(fake_daemon_expect(fixture.fake, KVF_MSG_ENGINE_CANCEL, 0).handle,
                     send);
    assert_int_equal(fake_daemon_expect(fixture.fake, KVF_MSG_ENGINE_CANCEL, 1).handle,
                     receive);
    assert_int_equal(kvf_cancel_request(fixture.engine, 10), KVF_NOT_FOUND);
    assert_int_equal(fake_daemon_count(fixture.fake, KVF_MSG_ENGINE_CANCEL), 2);
    fixture_close(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cancel_is_sent_once),
        cmocka_unit_test(test_cancel_of_what_ended_is_not_found),
        cmocka_unit_test(test_cancel_request_finds_every_live_transfer_of_the_id),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
