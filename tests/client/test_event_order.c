/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events: their order, which bits are new, and that the descriptor is readable exactly
 * while there is something to read.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "tests/client/fixture.h"

static void test_event_carries_what_the_daemon_said(void **state)
{
    (void)state;
    struct fixture fixture = fixture_open(NULL);
    uint64_t handle = fixture_send(&fixture, 6);
    fake_daemon_event(fixture.fake, handle, KVF_EVENT_DONE, KVF_DATA_PATH);
    struct kvf_event event;
    fixture_poll(&fixture, &event, 1);
    assert_int_equal(event.size, sizeof(event));
    assert_int_equal(event.type, KVF_EVENT_TRANSFER);
    assert_int_equal(event.handle, handle);
    assert_int_equal(event.request_id, 6);
    assert_int_equal(event.user_data, 1006);
    assert_int_equal(event.status, KVF_DATA_PATH);
    assert_int_equal(event.bytes, 4096);
    assert_int_equal(event.duration_ns, 77);
    assert_string_equal(event.peer, "node-b");
    assert_string_equal(event.path, "staged/tcp");
    assert_string_equal(event.detail, "as the test wants");
    fixture_close(&fixture);
}

static void test_event_bits_are_cumulative_and_new_once(void **state)
{
    (void)state;
    struct fixture fixture = fixture_open(NULL);
    uint64_t handle = fixture_send(&fixture, 1);
    static const uint32_t sent[3] = {KVF_EVENT_DONE, KVF_EVENT_DONE | KVF_EVENT_QUIESCED,
                                     KVF_EVENT_DONE | KVF_EVENT_QUIESCED |
                                         KVF_EVENT_REUSABLE};
    static const uint32_t news[3] = {KVF_EVENT_DONE, KVF_EVENT_QUIESCED,
                                     KVF_EVENT_REUSABLE};
    for (size_t i = 0; i < 3; i++) {
        struct kvf_event event;
        /* A later status does not change the outcome. */
        fake_daemon_event(fixture.fake, handle, sent[i],
                          i == 0 ? KVF_EXPIRED : KVF_CANCELLED);
        fixture_poll(&fixture, &event, 1);
        assert_int_equal(event.bits, sent[i]);
        assert_int_equal(event.new_bits, news[i]);
        assert_int_equal(event.status, KVF_EXPIRED);
    }
    struct kvf_event event;
    assert_int_equal(kvf_transfer_status(fixture.engine, handle, &event), KVF_NOT_FOUND);
    fixture_close(&fixture);
}

static void test_event_bits_that_come_together_are_one_event(void **state)
{
    (void)state;
    struct fixture fixture = fixture_open(NULL);
    uint64_t first = fixture_send(&fixture, 1), second = fixture_send(&fixture, 2);
    fake_daemon_event(fixture.fake, second, KVF_EVENT_DONE, KVF_OK);
    fake_daemon_event(fixture.fake, first, KVF_EVENT_DONE, KVF_OK);
    fake_daemon_event(fixture.fake, second, KVF_EVENT_REUSABLE, KVF_OK);
    struct kvf_event event;
    /* Everything sent is in the socket; wait until it was taken in, reading nothing. */
    size_t n = 1;
    do {
        assert_int_equal(kvf_poll(fixture.engine, NULL, 0, &n), KVF_OK);
        assert_int_equal(kvf_transfer_status(fixture.engine, second, &event), KVF_OK);
    } while ((event.bits & KVF_EVENT_REUSABLE) == 0);
    assert_int_equal(n, 0);
    struct kvf_event events[2];
    fixture_poll(&fixture, events, 2);
    assert_int_equal(events[0].handle, second); /* got news first */
    assert_int_equal(events[0].bits,
                     KVF_EVENT_DONE | KVF_EVENT_QUIESCED | KVF_EVENT_REUSABLE);
    assert_int_equal(events[0].new_bits, events[0].bits);
    assert_int_equal(events[1].handle, first);
    fixture_close(&fixture);
}

static void test_event_without_news_or_with_a_stale_handle_is_silent(void **state)
{
    (void)state;
    struct fixture fixture = fixture_open(NULL);
    uint64_t handle = fixture_send(&fixture, 1), other = fixture_send(&fixture, 2);
    struct kvf_event event;
    fake_daemon_event(fixture.fake, handle, KVF_EVENT_REUSABLE, KVF_OK);
    fixture_poll(&fixture, &event, 1);
    fake_daemon_event(fixture.fake, handle, KVF_EVENT_REUSABLE, KVF_OK); /* stale */
    fake_daemon_event(fixture.fake, 0, KVF_EVENT_REUSABLE, KVF_OK);
    fake_daemon_event(fixture.fake, other, 0, KVF_OK); /* nothing new */
    fake_daemon_event(fixture.fake, other, KVF_EVENT_DONE, KVF_OK);
    fixture_poll(&fixture, &event, 1);
    assert_int_equal(event.handle, other);
    assert_int_equal(event.bits, KVF_EVENT_DONE);
    assert_false(fixture_is_readable(&fixture, 0));
    fixture_close(&fixture);
}

/* DONE without an outcome must never read as a success. */
static void test_event_done_without_an_outcome_is_a_failure(void **state)
{
    (void)state;
    struct fixture fixture = fixture_open(NULL);
    uint64_t handle = fixture_send(&fixture, 1);
    fake_daemon_event(fixture.fake, handle, KVF_EVENT_DONE, KVF_IN_PROGRESS);
    struct kvf_event event;
    fixture_poll(&fixture, &event, 1);
    assert_int_equal(event.status, KVF_INTERNAL);
    fixture_close(&fixture);
}

static void test_fd_is_readable_while_events_wait(void **state)
{
    (void)state;
    struct fixture fixture = fixture_open(NULL);
    uint64_t handles[2] = {fixture_send(&fixture, 1), fixture_send(&fixture, 2)};
    assert_false(fixture_is_readable(&fixture, 0));
    fake_daemon_event(fixture.fake, handles[0], KVF_EVENT_REUSABLE, KVF_OK);
    fake_daemon_event(fixture.fake, handles[1], KVF_EVENT_REUSABLE, KVF_OK);
    assert_true(fixture_is_readable(&fixture, 5000));
    struct kvf_event event;
    fixture_poll(&fixture, &event, 1);
    assert_true(fixture_is_readable(&fixture, 0)); /* one is left in the library */
    fixture_poll(&fixture, &event, 1);
    assert_false(fixture_is_readable(&fixture, 0));
    fixture_close(&fixture);
}

static void test_statistics_count_outcomes_and_bytes(void **state)
{
    (void)state;
    struct fixture fixture = fixture_open(NULL);
    static const enum kvf_status outcomes[3] = {KVF_OK, KVF_CANCELLED, KVF_PEER_LOST};
    struct kvf_event events[6];
    for (uint64_t i = 0; i < 3; i++) {
        uint64_t send = fixture_send(&fixture, i), receive = fixture_receive(&fixture, i);
        fake_daemon_event(fixture.fake, send, KVF_EVENT_REUSABLE, outcomes[i]);
        fake_daemon_event(fixture.fake, receive, KVF_EVENT_DONE, outcomes[i]);
    }
    fixture_poll(&fixture, events, 6);
    struct kvf_statistics statistics = {.size = sizeof(statistics)};
    assert_int_equal(kvf_statistics_get(fixture.engine, &statistics), KVF_OK);
    assert_int_equal(statistics.n_live, 3); /* the receives are not at rest */
    assert_int_equal(statistics.sends_ok, 1);
    assert_int_equal(statistics.sends_cancelled, 1);
    assert_int_equal(statistics.sends_failed, 1);
    assert_int_equal(statistics.receives_ok, 1);
    assert_int_equal(statistics.receives_cancelled, 1);
    assert_int_equal(statistics.receives_failed, 1);
    assert_int_equal(statistics.bytes_sent, 3 * 4096);
    assert_int_equal(statistics.bytes_received, 3 * 4096);
    assert_int_equal(statistics.events_unread, 0);
    statistics.size = 4;
    assert_int_equal(kvf_statistics_get(fixture.engine, &statistics),
                     KVF_INVALID_ARGUMENT);
    fixture_close(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_event_carries_what_the_daemon_said),
        cmocka_unit_test(test_event_bits_are_cumulative_and_new_once),
        cmocka_unit_test(test_event_bits_that_come_together_are_one_event),
        cmocka_unit_test(test_event_without_news_or_with_a_stale_handle_is_silent),
        cmocka_unit_test(test_event_done_without_an_outcome_is_a_failure),
        cmocka_unit_test(test_fd_is_readable_while_events_wait),
        cmocka_unit_test(test_statistics_count_outcomes_and_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
