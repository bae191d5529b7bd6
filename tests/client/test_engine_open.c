/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening an engine: everything that may listen, or not, on the socket; and what the
 * daemon is told about us.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/client/fixture.h"

static enum kvf_status open_on(const struct fake_config *config, uint32_t timeout_ms,
                               struct fake_daemon **out_fake,
                               struct kvf_engine **out_engine)
{
    *out_fake = fake_daemon_start(config);
    struct kvf_engine_config engine_config = fixture_engine_config(*out_fake);
    engine_config.connect_timeout_ms = timeout_ms;
    return kvf_engine_open(&engine_config, out_engine);
}

/* Opens, expects the refusal and a detail that says this much. */
static void expect_refusal(const struct fake_config *config, enum kvf_status status,
                           const char *detail)
{
    struct fake_daemon *fake;
    struct kvf_engine *engine = NULL;
    assert_int_equal(open_on(config, 200, &fake, &engine), status);
    assert_null(engine);
    assert_non_null(strstr(kvf_engine_detail(NULL), detail));
    fake_daemon_stop(fake);
}

static void test_open_says_hello_with_a_fresh_nonce(void **state)
{
    (void)state;
    static const struct fake_config config = {.greeting = FAKE_GREETS};
    struct fake_daemon *fake = fake_daemon_start(&config);
    struct kvf_engine_config engine_config = fixture_engine_config(fake);
    engine_config.name = "decoder of rack 3";
    struct fake_seen seen[2];
    for (size_t i = 0; i < 2; i++) {
        struct kvf_engine *engine = NULL;
        assert_int_equal(kvf_engine_open(&engine_config, &engine), KVF_OK);
        assert_string_equal(kvf_engine_detail(engine), "");
        assert_true(kvf_engine_fd(engine) >= 0);
        seen[i] = fake_daemon_expect(fake, KVF_MSG_ENGINE_HELLO, i);
        kvf_engine_close(engine);
    }
    assert_string_equal(seen[0].text, "prefill");
    assert_string_equal(seen[0].label, "decoder of rack 3");
    assert_memory_not_equal(seen[0].nonce, seen[1].nonce, KVF_NONCE_BYTES);
    fake_daemon_stop(fake);
}

static void test_open_passes_the_daemons_refusals_on(void **state)
{
    (void)state;
    static const enum kvf_status refusals[] = {KVF_VERSION, KVF_NAME_TAKEN,
                                               KVF_UNKNOWN_INSTANCE, KVF_PERMISSION};
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        struct fake_config config = {.hello_status = refusals[i],
                                     .hello_detail = "pid 7 is connected as rank 1"};
        expect_refusal(&config, refusals[i], "pid 7");
    }
}

static void test_open_rejects_a_version_it_does_not_speak(void **state)
{
    (void)state;
    struct fake_config config = {.hello_version = 2};
    expect_refusal(&config, KVF_VERSION, "version 2");
}

static void test_open_tells_bad_greetings_apart(void **state)
{
    (void)state;
    struct fake_config config = {.greeting = FAKE_GARBAGE};
    expect_refusal(&config, KVF_PROTOCOL, "greeting");
    config.greeting = FAKE_OTHER_MESSAGE;
    expect_refusal(&config, KVF_PROTOCOL, "Pong");
    config.greeting = FAKE_HANGS_UP;
    expect_refusal(&config, KVF_DAEMON_LOST, "hung up");
    config.greeting = FAKE_SILENT;
    expect_refusal(&config, KVF_TIMED_OUT, "in time");
    config = (struct fake_config){.max_requests = UINT32_MAX};
    expect_refusal(&config, KVF_PROTOCOL, "limits");
}

static void test_open_without_a_daemon_fails_at_once(void **state)
{
    (void)state;
    struct kvf_engine *engine = NULL;
    struct kvf_engine_config config = {.size = sizeof(config),
                                       .socket_path = "/nonexistent/engine.sock",
                                       .instance = "prefill"};
    assert_int_equal(kvf_engine_open(&config, &engine), KVF_DAEMON_LOST);
    assert_non_null(strstr(kvf_engine_detail(NULL), "/nonexistent/engine.sock"));
    assert_null(engine);
}

static void test_open_checks_who_listens(void **state)
{
    (void)state;
    static const struct fake_config behaves = {.greeting = FAKE_GREETS};
    struct fake_daemon *fake = fake_daemon_start(&behaves);
    struct kvf_engine_config config = fixture_engine_config(fake);
    struct kvf_engine *engine = NULL;
    config.check_daemon_uid = 1;
    config.daemon_uid = (uint32_t)geteuid() + 1;
    assert_int_equal(kvf_engine_open(&config, &engine), KVF_PERMISSION);
    assert_null(engine);
    assert_int_equal(fake_daemon_count(fake, KVF_MSG_ENGINE_HELLO), 0);
    config.daemon_uid = (uint32_t)geteuid();
    assert_int_equal(kvf_engine_open(&config, &engine), KVF_OK);
    kvf_engine_close(engine);
    fake_daemon_stop(fake);
}

static void test_open_takes_the_path_from_the_environment(void **state)
{
    (void)state;
    static const struct fake_config behaves = {.greeting = FAKE_GREETS};
    struct fake_daemon *fake = fake_daemon_start(&behaves);
    struct kvf_engine_config config = fixture_engine_config(fake);
    char url[128] = "unix:";
    strncat(url, config.socket_path, sizeof(url) - 6);
    assert_int_equal(setenv("KVFERRY_ENGINE", url, 1), 0);
    config.socket_path = NULL;
    struct kvf_engine *engine = NULL;
    assert_int_equal(kvf_engine_open(&config, &engine), KVF_OK);
    assert_int_equal(unsetenv("KVFERRY_ENGINE"), 0);
    kvf_engine_close(engine);
    fake_daemon_stop(fake);
}

static void test_open_names_the_wrong_argument(void **state)
{
    (void)state;
    struct kvf_engine *engine = NULL;
    char long_name[KVF_NAME_MAX + 2];
    memset(long_name, 'a', sizeof(long_name) - 1);
    long_name[sizeof(long_name) - 1] = '\0';
    struct kvf_engine_config config = {.size = sizeof(config)};
    assert_int_equal(kvf_engine_open(&config, &engine), KVF_INVALID_ARGUMENT);
    assert_non_null(strstr(kvf_engine_detail(NULL), "instance is required"));
    config.instance = long_name;
    assert_int_equal(kvf_engine_open(&config, &engine), KVF_INVALID_ARGUMENT);
    assert_non_null(strstr(kvf_engine_detail(NULL), "longer than 63"));
    config.instance = "prefill";
    config.size = 4;
    assert_int_equal(kvf_engine_open(&config, &engine), KVF_INVALID_ARGUMENT);
    assert_non_null(strstr(kvf_engine_detail(NULL), "size of kvf_engine_config is 4"));
    assert_int_equal(kvf_engine_open(NULL, &engine), KVF_INVALID_ARGUMENT);
    assert_null(engine);
}

/* A caller built against a later header: fine as long as it uses nothing new. */
static void test_open_takes_a_longer_config_whose_rest_is_zero(void **state)
{
    (void)state;
    static const struct fake_config behaves = {.greeting = FAKE_GREETS};
    struct fake_daemon *fake = fake_daemon_start(&behaves);
    struct {
        struct kvf_engine_config known;
        uint64_t later;
    } config = {.known = fixture_engine_config(fake), .later = 1};
    config.known.size = sizeof(config);
    struct kvf_engine *engine = NULL;
    assert_int_equal(kvf_engine_open(&config.known, &engine), KVF_UNSUPPORTED);
    config.later = 0;
    assert_int_equal(kvf_engine_open(&config.known, &engine), KVF_OK);
    kvf_engine_close(engine);
    fake_daemon_stop(fake);
}

static void test_close_accepts_null(void **state)
{
    (void)state;
    kvf_engine_close(NULL);
    assert_int_equal(kvf_engine_fd(NULL), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open_says_hello_with_a_fresh_nonce),
        cmocka_unit_test(test_open_passes_the_daemons_refusals_on),
        cmocka_unit_test(test_open_rejects_a_version_it_does_not_speak),
        cmocka_unit_test(test_open_tells_bad_greetings_apart),
        cmocka_unit_test(test_open_without_a_daemon_fails_at_once),
        cmocka_unit_test(test_open_checks_who_listens),
        cmocka_unit_test(test_open_takes_the_path_from_the_environment),
        cmocka_unit_test(test_open_names_the_wrong_argument),
        cmocka_unit_test(test_open_takes_a_longer_config_whose_rest_is_zero),
        cmocka_unit_test(test_close_accepts_null),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
