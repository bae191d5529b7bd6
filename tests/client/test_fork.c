/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork(): the child is refused everywhere and, by closing, does not disturb the parent.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/wait.h>
#include <unistd.h>

#include "tests/client/fixture.h"

/* In the child; bit i of the result is set when check i failed. */
static int check_child(struct fixture *fixture, uint64_t handle)
{
    struct kvf_engine *engine = fixture->engine;
    struct kvf_pool_config pool_config = fixture_pool_config(1);
    struct kvf_send_args args = fixture_send_args(2);
    struct kvf_statistics statistics = {.size = sizeof(statistics)};
    struct kvf_event event;
    struct kvf_pool *pool;
    uint8_t params[4096];
    size_t n = sizeof(params);
    const enum kvf_status got[] = {
        kvf_poll(engine, &event, 1, &n),
        kvf_wait(engine, handle, 0, &event),
        kvf_cancel(engine, handle),
        kvf_send_async(engine, &args, params, &n, &handle),
        kvf_pool_register(engine, &pool_config, 0, &pool),
        kvf_pool_unregister(fixture->pool, 0),
        kvf_transfer_status(engine, handle, &event),
        kvf_statistics_get(engine, &statistics),
        kvf_comm_state_get(engine, params, &n),
    };
    int failed = kvf_engine_fd(engine) == -1 ? 0 : 1;
    for (size_t i = 0; i < sizeof(got) / sizeof(got[0]); i++) {
        failed |= got[i] == KVF_FORKED ? 0 : 1;
    }
    kvf_engine_close(engine);
    return failed;
}

static void test_child_is_refused_and_parent_lives_on(void **state)
{
    (void)state;
    struct fixture fixture = fixture_open(NULL);
    uint64_t handle = fixture_send(&fixture, 1);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        _exit(check_child(&fixture, handle));
    }
    int result = -1;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFEXITED(result));
    assert_int_equal(WEXITSTATUS(result), 0);
    fake_daemon_event(fixture.fake, handle, KVF_EVENT_REUSABLE, KVF_OK);
    assert_true(fixture_is_readable(&fixture, 5000));
    struct kvf_event event;
    fixture_poll(&fixture, &event, 1);
    assert_int_equal(event.handle, handle);
    assert_int_equal(event.status, KVF_OK);
    assert_int_equal(kvf_pool_unregister(fixture.pool, 0), KVF_OK);
    fixture_close(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_child_is_refused_and_parent_lives_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
