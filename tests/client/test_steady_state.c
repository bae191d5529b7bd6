/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steady state allocates nothing. Links the library's objects, because the shipped
 * library hides its allocator; the fake daemon shares it and is warmed up as well.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "tests/client/fixture.h"

static uint8_t params[4096];

static void round_trip(struct fixture *fixture, uint64_t request_id)
{
    struct kvf_send_args send = fixture_send_args(request_id);
    size_t n = sizeof(params);
    uint64_t handles[2];
    struct kvf_event event;
    assert_int_equal(kvf_send_async(fixture->engine, &send, params, &n, &handles[0]),
                     KVF_OK);
    struct kvf_receive_args receive = fixture_receive_args(params, n);
    assert_int_equal(kvf_receive_async(fixture->engine, &receive, &handles[1]), KVF_OK);
    for (size_t i = 0; i < 2; i++) {
        fake_daemon_event(fixture->fake, handles[i], KVF_EVENT_DONE, KVF_OK);
        fake_daemon_event(fixture->fake, handles[i], KVF_EVENT_REUSABLE, KVF_OK);
        assert_int_equal(kvf_wait(fixture->engine, handles[i], 5000, &event), KVF_OK);
    }
    /* The fake has decoded both when it has noted them. */
    (void)fake_daemon_expect(fixture->fake, KVF_MSG_RECEIVE, request_id);
}

static void test_transfers_allocate_nothing_once_warm(void **state)
{
    (void)state;
    struct fixture fixture = fixture_open(NULL);
    for (uint64_t i = 0; i < 50; i++) {
        round_trip(&fixture, i);
    }
    uint64_t before = kvf_alloc_count();
    for (uint64_t i = 50; i < 150; i++) {
        round_trip(&fixture, i);
    }
    assert_int_equal(kvf_alloc_count(), before);
    fixture_close(&fixture);
}

static void test_open_without_memory_is_refused(void **state)
{
    (void)state;
    static const struct fake_config behaves = {.greeting = FAKE_GREETS};
    struct fake_daemon *fake = fake_daemon_start(&behaves);
    struct kvf_engine_config config = fixture_engine_config(fake);
    struct kvf_engine *engine = NULL;
    kvf_alloc_fail_nth(1); /* the engine itself; nobody else allocates before it */
    assert_int_equal(kvf_engine_open(&config, &engine), KVF_NO_MEMORY);
    kvf_alloc_fail_nth(0);
    assert_null(engine);
    assert_int_equal(kvf_engine_open(&config, &engine), KVF_OK);
    kvf_engine_close(engine);
    fake_daemon_stop(fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_transfers_allocate_nothing_once_warm),
        cmocka_unit_test(test_open_without_memory_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
