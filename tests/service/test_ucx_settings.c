/* SPDX-License-Identifier: Apache-2.0 */
/* Which settings UCX gets from which configuration, and that they leave no trace. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "service/ucx_settings.h"

struct result {
    struct kvf_config config;
    struct kvf_ucx_devices devices;
    struct kvf_ucx_setting settings[KVF_UCX_SETTINGS_MAX];
    size_t n;
};

static struct result *init(struct result *result, const char *host)
{
    *result = (struct result){0};
    strcpy(result->config.data.listen.host, host);
    result->config.data.listen.port = 7480;
    result->config.data.listen.port_last = 7495;
    strcpy(result->config.data.devices, "auto");
    result->config.data.prefer[0] = KVF_DATA_RDMA;
    result->config.data.prefer[1] = KVF_DATA_UCX_TCP;
    result->config.data.n_prefer = 2;
    return result;
}

static void settle(struct result *result, unsigned minor)
{
    result->n =
        kvf_ucx_settings(&result->config, &result->devices, 1, minor, result->settings);
    assert_in_range(result->n, 1, KVF_UCX_SETTINGS_MAX);
}

/* NULL when it is not set. */
static const char *value_of(const struct result *result, const char *key)
{
    for (size_t i = 0; i < result->n; i++) {
        if (strcmp(result->settings[i].key, key) == 0) {
            return result->settings[i].value;
        }
    }
    return NULL;
}

static void test_settings_of_loopback(void **state)
{
    (void)state;
    struct result result;
    init(&result, "127.0.0.1");
    kvf_ucx_devices_find(&result.config.data.listen, &result.devices);
    assert_string_equal(result.devices.interface, "lo");
    result.devices.rdma[0] = '\0';
    settle(&result, 13);
    assert_string_equal(value_of(&result, "UCX_TLS"), "posix,sysv,self,tcp");
    assert_string_equal(value_of(&result, "UCX_NET_DEVICES"), "lo");
    assert_string_equal(value_of(&result, "UCX_TCP_PORT_RANGE"), "7480-7495");
    assert_string_equal(value_of(&result, "UCX_TCP_RX_SEG_SIZE"), "256k");
    assert_null(value_of(&result, "UCX_RNDV_SCHEME"));
}

static void test_settings_never_name_cma(void **state)
{
    (void)state;
    struct result result;
    init(&result, "127.0.0.1");
    strcpy(result.devices.rdma, "mlx5_0:1");
    settle(&result, 22);
    assert_null(strstr(value_of(&result, "UCX_TLS"), "cma"));
    assert_null(strstr(value_of(&result, "UCX_TLS"), "all"));
}

static void test_settings_keep_tcp_off_untrusted_networks(void **state)
{
    (void)state;
    struct result result;
    init(&result, "10.0.0.1");
    settle(&result, 13);
    assert_false(kvf_ucx_may_use_tcp(&result.config));
    assert_null(strstr(value_of(&result, "UCX_TLS"), "tcp"));
    result.config.data.trusted_network = true;
    settle(&result, 13);
    assert_true(kvf_ucx_may_use_tcp(&result.config));
    assert_non_null(strstr(value_of(&result, "UCX_TLS"), "tcp"));
}

static void test_settings_use_rdma_where_it_is_and_is_wanted(void **state)
{
    (void)state;
    struct result result;
    init(&result, "10.0.0.1");
    strcpy(result.devices.interface, "eth0");
    assert_false(kvf_ucx_has_rdma(&result.config, &result.devices));
    strcpy(result.devices.rdma, "mlx5_0:1,mlx5_1:1");
    assert_true(kvf_ucx_has_rdma(&result.config, &result.devices));
    settle(&result, 13);
    assert_string_equal(value_of(&result, "UCX_TLS"), "posix,sysv,self,rc,ud");
    assert_string_equal(value_of(&result, "UCX_NET_DEVICES"), "eth0,mlx5_0:1,mlx5_1:1");
    assert_string_equal(value_of(&result, "UCX_RNDV_SCHEME"), "get_zcopy");
    result.config.data.prefer[0] = KVF_DATA_TCP;
    settle(&result, 13);
    assert_string_equal(value_of(&result, "UCX_NET_DEVICES"), "eth0");
    assert_null(value_of(&result, "UCX_RNDV_SCHEME"));
}

static void test_settings_leave_devices_to_ucx_or_to_the_user(void **state)
{
    (void)state;
    struct result result;
    init(&result, "0.0.0.0");
    kvf_ucx_devices_find(&result.config.data.listen, &result.devices);
    assert_string_equal(result.devices.interface, "");
    settle(&result, 13);
    assert_null(value_of(&result, "UCX_NET_DEVICES"));
    strcpy(result.config.data.devices, "eth7");
    settle(&result, 13);
    assert_string_equal(value_of(&result, "UCX_NET_DEVICES"), "eth7");
}

static void test_settings_follow_the_version(void **state)
{
    (void)state;
    struct result result;
    init(&result, "127.0.0.1");
    settle(&result, 13);
    assert_null(value_of(&result, "UCX_TCP_USER_TIMEOUT"));
    settle(&result, 22);
    assert_string_equal(value_of(&result, "UCX_TCP_USER_TIMEOUT"), "3s");
}

static void test_any_port_sets_no_range(void **state)
{
    (void)state;
    struct result result;
    init(&result, "127.0.0.1");
    result.config.data.listen.port = result.config.data.listen.port_last = 0;
    settle(&result, 13);
    assert_null(value_of(&result, "UCX_TCP_PORT_RANGE"));
}

static void test_environment_of_the_user_wins_and_ours_goes_away(void **state)
{
    (void)state;
    static const struct kvf_ucx_setting settings[] = {{"UCX_KVF_TEST_OURS", "a"},
                                                      {"UCX_KVF_TEST_USERS", "b"}};
    bool is_set[2];
    assert_int_equal(setenv("UCX_KVF_TEST_USERS", "mine", 1), 0);
    kvf_ucx_environment_set(settings, 2, is_set);
    assert_string_equal(getenv("UCX_KVF_TEST_OURS"), "a");
    assert_string_equal(getenv("UCX_KVF_TEST_USERS"), "mine");
    kvf_ucx_environment_restore(settings, 2, is_set);
    assert_null(getenv("UCX_KVF_TEST_OURS"));
    assert_string_equal(getenv("UCX_KVF_TEST_USERS"), "mine");
    assert_int_equal(unsetenv("UCX_KVF_TEST_USERS"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_settings_of_loopback),
        cmocka_unit_test(test_settings_never_name_cma),
        cmocka_unit_test(test_settings_keep_tcp_off_untrusted_networks),
        cmocka_unit_test(test_settings_use_rdma_where_it_is_and_is_wanted),
        cmocka_unit_test(test_settings_leave_devices_to_ucx_or_to_the_user),
        cmocka_unit_test(test_settings_follow_the_version),
        cmocka_unit_test(test_any_port_sets_no_range),
        cmocka_unit_test(test_environment_of_the_user_wins_and_ours_goes_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
