/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notifications between engines: one event each, in order, best effort.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "tests/client/fixture.h"

static void notify(struct fixture *fixture, const char *text)
{
    const struct kvf_message message = {
        .type = KVF_MSG_NOTIFY_EVENT,
        .u.engine_notify = {.instance = "decode",
                            .rank = 3,
                            .payload = {.data = (const uint8_t *)text,
                                        .n = strlen(text)}},
    };
    fake_daemon_send(fixture->fake, &message);
}

static void test_notify_reaches_the_daemon(void **state)
{
    (void)state;
    struct fixture fixture = fixture_open(NULL);
    static const uint8_t bytes[KVF_NOTIFY_MAX + 1];
    assert_int_equal(kvf_notify(fixture.engine, "decode", 0, bytes, KVF_NOTIFY_MAX),
                     KVF_OK);
    struct fake_seen seen = fake_daemon_expect(fixture.fake, KVF_MSG_ENGINE_NOTIFY, 0);
    assert_int_equal(seen.n_bytes, KVF_NOTIFY_MAX);
    assert_string_equal(seen.text, "decode");
    assert_int_equal(kvf_notify(fixture.engine, "decode", 0, bytes, sizeof(bytes)),
                     KVF_INVALID_ARGUMENT);
    assert_int_equal(kvf_notify(fixture.engine, "", 0, bytes, 1), KVF_INVALID_ARGUMENT);
    assert_int_equal(kvf_notify(fixture.engine, "decode", 0, NULL, 1),
                     KVF_INVALID_ARGUMENT);
    fixture_close(&fixture);
}

static void test_notifications_are_told_once_and_read_in_order(void **state)
{
    (void)state;
    struct fixture fixture = fixture_open(NULL);
    notify(&fixture, "one");
    notify(&fixture, "three");
    struct kvf_event events[2];
    fixture_poll(&fixture, events, 2);
    assert_int_equal(events[0].type, KVF_EVENT_NOTIFY);
    assert_int_equal(events[0].n_bytes, 3);
    assert_int_equal(events[1].n_bytes, 5);
    assert_false(fixture_is_readable(&fixture, 0));
    char bytes[16], from[KVF_NAME_MAX + 1];
    uint32_t rank;
    size_t n = 2;
    assert_int_equal(kvf_notify_read(fixture.engine, bytes, &n, from, &rank),
                     KVF_BUFFER_TOO_SMALL);
    assert_int_equal(n, 3);
    assert_int_equal(kvf_notify_read(fixture.engine, bytes, &n, from, &rank), KVF_OK);
    assert_memory_equal(bytes, "one", 3);
    assert_string_equal(from, "decode");
    assert_int_equal(rank, 3);
    n = sizeof(bytes);
    assert_int_equal(kvf_notify_read(fixture.engine, bytes, &n, from, &rank), KVF_OK);
    assert_memory_equal(bytes, "three", 5);
    assert_int_equal(kvf_notify_read(fixture.engine, bytes, &n, from, &rank),
                     KVF_NOT_FOUND);
    fixture_close(&fixture);
}

static void test_notifications_beyond_the_limit_are_dropped(void **state)
{
    (void)state;
    struct fixture fixture = fixture_open(NULL);
    for (int i = 0; i < 70; i++) {
        notify(&fixture, i < 64 ? "kept" : "dropped");
    }
    /* An event behind them: once it is known, all of them have been taken in. */
    uint64_t handle = fixture_send(&fixture, 1);
    fake_daemon_event(fixture.fake, handle, KVF_EVENT_REUSABLE, KVF_OK);
    struct kvf_event event;
    assert_int_equal(kvf_wait(fixture.engine, handle, 5000, &event), KVF_OK);
    struct kvf_statistics statistics = {.size = sizeof(statistics)};
    assert_int_equal(kvf_statistics_get(fixture.engine, &statistics), KVF_OK);
    assert_int_equal(statistics.events_unread, 64);
    char bytes[16], from[KVF_NAME_MAX + 1];
    uint32_t rank;
    for (int i = 0; i < 64; i++) {
        size_t n = sizeof(bytes);
        assert_int_equal(kvf_notify_read(fixture.engine, bytes, &n, from, &rank), KVF_OK);
        assert_memory_equal(bytes, "kept", 4);
    }
    assert_false(fixture_is_readable(&fixture, 0)); /* read before told: no event */
    fixture_close(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_notify_reaches_the_daemon),
        cmocka_unit_test(test_notifications_are_told_once_and_read_in_order),
        cmocka_unit_test(test_notifications_beyond_the_limit_are_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
