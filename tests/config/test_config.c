/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading as a whole: defaults, file, environment and which of them wins; rules between
 * keys; all problems at once; no memory at any point.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "tests/config/parse_support.h"

static void test_config_defaults_are_the_documented_constants(void **state)
{
    (void)state;
    struct kvf_config *config = parse_good(NODE);
    assert_string_equal(config->node.name, "here");
    assert_string_equal(config->control.listen.host, "127.0.0.1");
    assert_int_equal(config->control.listen.port, 7470);
    assert_int_equal(config->control.heartbeat_ms, 500);
    assert_int_equal(config->control.suspect_after_ms, 1500);
    assert_int_equal(config->control.dead_after_ms, 3000);
    assert_int_equal(config->control.connect_timeout_ms, 2000);
    assert_int_equal(config->control.hello_timeout_ms, 2000);
    assert_int_equal(config->control.frame_timeout_ms, 2000);
    assert_int_equal(config->control.reconnect_min_ms, 50);
    assert_int_equal(config->control.reconnect_max_ms, 5000);
    assert_false(config->control.insecure_no_auth);
    assert_int_equal(config->data.listen.port, 7480);
    assert_int_equal(config->data.listen.port_last, 7495);
    assert_int_equal(config->data.n_prefer, 3);
    assert_int_equal(config->data.prefer[0], KVF_DATA_RDMA);
    assert_int_equal(config->data.prefer[1], KVF_DATA_UCX_TCP);
    assert_int_equal(config->data.prefer[2], KVF_DATA_TCP);
    assert_int_equal(config->data.require_mask, 0);
    assert_false(config->data.trusted_network);
    assert_string_equal(config->data.devices, "auto");
    assert_int_equal(config->data.chunk_bytes, 2 << 20);
    assert_int_equal(config->data.arena_bytes, 256 << 20);
    assert_int_equal(config->data.window, 4);
    assert_int_equal(config->data.copy_workers, 0);
    assert_int_equal(config->data.spin_us, 50);
    assert_int_equal(config->data.integrity, KVF_INTEGRITY_FULL);
    assert_int_equal(config->engine.listen.kind, KVF_ADDRESS_UNIX);
    assert_string_equal(config->engine.listen.host, "/run/kvferry/engine.sock");
    assert_int_equal(config->engine.dead_after_ms, 1000);
    assert_int_equal(config->engine.default_deadline_ms, 30000);
    assert_int_equal(config->engine.max_deadline_ms, 600000);
    assert_int_equal(config->engine.n_allow_uids, 0);
    assert_int_equal(config->observe.listen.port, 7471);
    assert_string_equal(config->admin.listen.host, "/run/kvferry/admin.sock");
    assert_string_equal(config->admin.token_file, "");
    assert_string_equal(config->timings.dir, "");
    assert_int_equal(config->timings.format, KVF_TIMINGS_KVFERRY);
    assert_int_equal(config->log.format, KVF_LOG_AUTO);
    assert_int_equal(config->log.level, KVF_LOG_INFO);
    assert_int_equal(config->shutdown.grace_ms, 20000);
    assert_false(config->ready.require_engine);
    assert_int_equal(config->n_peers, 0);
    assert_int_equal(config->n_instances, 0);
    kvf_config_destroy(config);
}

static void test_config_without_a_name_takes_the_host_s(void **state)
{
    (void)state;
    char host[256] = "";
    assert_int_equal(gethostname(host, sizeof(host) - 1), 0);
    if (strlen(host) >= KVF_CONFIG_NAME_BYTES) {
        skip();
    }
    struct kvf_config *config = parse_good("");
    assert_string_equal(config->node.name, host);
    kvf_config_destroy(config);
    config = parse_good("node: {name: null}\n");
    assert_string_equal(config->node.name, host);
    kvf_config_destroy(config);
}

static void test_config_reads_every_kind_of_value(void **state)
{
    (void)state;
    struct kvf_config *config = parse_good(
        NODE "control: {listen: '[::1]:0', heartbeat: 50ms, insecure_no_auth: true}\n"
             "data:\n"
             "  prefer: [tcp]\n"
             "  require:\n"
             "    - tcp\n"
             "    - rdma\n"
             "  chunk: 1_048_576\n"
             "  spin: 0\n"
             "  devices: mlx5_0:1\n"
             "engine: {allow_uids: [0, 1_000], max_requests: 7}\n"
             "admin: {allow_hosts: 'a.example, b', token_file: /etc/t}\n"
             "log: {level: \"trace\"}\n");
    assert_string_equal(config->control.listen.host, "::1");
    assert_int_equal(config->control.heartbeat_ms, 50);
    assert_true(config->control.insecure_no_auth);
    assert_int_equal(config->data.n_prefer, 1);
    assert_int_equal(config->data.prefer[0], KVF_DATA_TCP);
    assert_int_equal(config->data.require_mask, 1u << KVF_DATA_TCP | 1u << KVF_DATA_RDMA);
    assert_int_equal(config->data.chunk_bytes, 1 << 20);
    assert_int_equal(config->data.spin_us, 0);
    assert_string_equal(config->data.devices, "mlx5_0:1");
    assert_int_equal(config->engine.n_allow_uids, 2);
    assert_int_equal(config->engine.allow_uids[1], 1000);
    assert_int_equal(config->engine.max_requests, 7);
    assert_int_equal(config->admin.n_allow_hosts, 2);
    assert_string_equal(config->admin.allow_hosts[1], "b");
    assert_string_equal(config->admin.token_file, "/etc/t");
    assert_int_equal(config->log.level, KVF_LOG_TRACE);
    kvf_config_destroy(config);
}

static void test_config_environment_wins_over_file(void **state)
{
    (void)state;
    assert_int_equal(setenv("KVFERRY_DATA__WINDOW", "9", 1), 0);
    assert_int_equal(setenv("KVFERRY_DATA__PREFER", "tcp,rdma", 1), 0);
    assert_int_equal(setenv("KVFERRY_ADMIN__TOKEN_FILE", "", 1), 0);
    struct kvf_config *config = parse_good(
        NODE "data: {window: 3, prefer: [ucx_tcp]}\nadmin: {token_file: /x}\n");
    assert_int_equal(config->data.window, 9);
    assert_int_equal(config->data.n_prefer, 2);
    assert_int_equal(config->data.prefer[0], KVF_DATA_TCP);
    assert_string_equal(config->admin.token_file, "");
    kvf_config_destroy(config);
    assert_int_equal(unsetenv("KVFERRY_DATA__WINDOW"), 0);
    assert_int_equal(unsetenv("KVFERRY_DATA__PREFER"), 0);
    assert_int_equal(unsetenv("KVFERRY_ADMIN__TOKEN_FILE"), 0);
}

static void refuses_variable(const char *variable, const char *value, const char *line)
{
    struct kvf_config *config = NULL;
    struct kvf_config_problems problems = {.n = 0};
    assert_int_equal(setenv(variable, value, 1), 0);
    assert_int_equal(kvf_config_parse("t", NODE, strlen(NODE), &config, &problems),
                     KVF_CONFIG);
    assert_string_equal(problems.text, line);
    kvf_config_problems_fini(&problems);
    assert_int_equal(unsetenv(variable), 0);
}

static void test_config_problem_of_a_variable_names_it(void **state)
{
    (void)state;
    refuses_variable("KVFERRY_DATA__WINDOW", "99",
                     "KVFERRY_DATA__WINDOW: data.window: 99 is outside of 1 to 16\n");
    refuses_variable(
        "KVFERRY_DATA__WINDOWS", "9",
        "KVFERRY_DATA__WINDOWS: there is no key 'data.windows'; did you mean "
        "'data.window'?\n");
    refuses_variable("KVFERRY_DATA__PREFER", "tcp,,rdma",
                     "KVFERRY_DATA__PREFER: data.prefer: '' is not one of rdma, ucx_tcp, "
                     "tcp\n");
    refuses_variable("KVFERRY_CONTROL__LISTEN", "0.0.0.0",
                     "KVFERRY_CONTROL__LISTEN: control.listen: '0.0.0.0' is not an "
                     "address: the port is missing\n");
}

static void test_config_substitution_is_typed_by_the_key(void **state)
{
    (void)state;
    assert_int_equal(setenv("KVT_NUMBER", "5", 1), 0);
    assert_int_equal(setenv("KVT_YAML", "1, arena: 1GiB", 1), 0);
    struct kvf_config *config =
        parse_good(NODE "data: {window: \"${KVT_NUMBER}\", chunk: '${KVT_UNSET:-1MiB}'}\n"
                        "ready: {require_engine: '${KVT_UNSET:-true}'}\n"
                        "timings: {dir: '${KVT_UNSET:-}'}\n"
                        "engine: {allow_uids: [\"${KVT_NUMBER}\", 7]}\n");
    assert_int_equal(config->data.window, 5);
    assert_int_equal(config->data.chunk_bytes, 1 << 20);
    assert_true(config->ready.require_engine);
    assert_string_equal(config->timings.dir, "");
    assert_int_equal(config->engine.allow_uids[0], 5);
    kvf_config_destroy(config);
    refuses(NODE "data:\n  window: ${KVT_YAML}\n",
            "3:11: data.window: '1, arena: 1GiB' is not a whole number");
    refuses(NODE "data:\n  window: ${KVT_UNSET}\n",
            "3:11: data.window: environment variable KVT_UNSET: is not set");
}

static void test_config_users_own_keys_are_ignored(void **state)
{
    (void)state;
    struct kvf_config *config =
        parse_good(NODE "x-notes: {any: [thing, {at: all}]}\n"
                        "data: {x-why: '${KVT_UNSET}', window: 2}\n"
                        "peers:\n  - {name: b, address: 'b:1', x-rack: 7}\n");
    assert_int_equal(config->data.window, 2);
    assert_int_equal(config->n_peers, 1);
    kvf_config_destroy(config);
}

static void test_config_reports_all_problems_in_file_order(void **state)
{
    (void)state;
    struct kvf_config *config = NULL;
    struct kvf_config_problems problems = {.n = 0};
    static const char text[] = "peers: [{name: b}]\n"
                               "data:\n"
                               "  chunk: 64M\n"
                               "  lissten: x\n"
                               "control: {listen: '0.0.0.0:7470'}\n";
    assert_int_equal(kvf_config_parse("c.yaml", text, strlen(text), &config, &problems),
                     KVF_CONFIG);
    assert_int_equal(problems.n, 4);
    const char *first = strstr(problems.text, "c.yaml:1:9: peers: address is missing\n"
                                              "  peers: [{name: b}]\n          ^\n");
    const char *second = strstr(problems.text, "c.yaml:3:10: ");
    const char *third =
        strstr(problems.text, "c.yaml:4:3: unknown key 'lissten' in data; "
                              "did you mean 'listen'?\n");
    const char *fourth = strstr(problems.text, "c.yaml:5:19: control.listen is not");
    assert_ptr_equal(first, problems.text);
    assert_true(second > first && third > second && fourth > third);
    kvf_config_problems_fini(&problems);
}

static void test_config_strangers_must_be_let_in_by_name(void **state)
{
    (void)state;
    static const char *const good[] = {
        NODE "control: {listen: '0.0.0.0:7470', insecure_no_auth: true}\n",
        NODE "control: {listen: 'localhost:7470'}\n",
        NODE "admin: {listen: '0.0.0.0:7472', token_file: /etc/token}\n",
        NODE "admin: {listen: '0.0.0.0:7472', insecure: true}\n",
        NODE "admin: {listen: '127.0.0.1:7472'}\n",
        NODE
        "data: {listen: '0.0.0.0:7480', require: [ucx_tcp], trusted_network: true}\n",
        NODE "data: {listen: '0.0.0.0:7480', require: [tcp]}\n",
        NODE "data: {require: [ucx_tcp]}\n",
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        kvf_config_destroy(parse_good(good[i]));
    }
}

static void test_config_loads_a_file(void **state)
{
    (void)state;
    char path[] = "/tmp/kvferry-test-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, NODE, strlen(NODE)), (ssize_t)strlen(NODE));
    assert_int_equal(close(fd), 0);
    struct kvf_config *config = NULL;
    struct kvf_config_problems problems = {.n = 0};
    assert_int_equal(kvf_config_load(path, &config, &problems), KVF_OK);
    assert_string_equal(config->node.name, "here");
    kvf_config_problems_fini(&problems);
    kvf_config_destroy(config);
    assert_int_equal(unlink(path), 0);
}

static void cannot_load(const char *path, const char *line)
{
    struct kvf_config *config = NULL;
    struct kvf_config_problems problems = {.n = 0};
    assert_int_equal(kvf_config_load(path, &config, &problems), KVF_CONFIG);
    assert_string_equal(problems.text, line);
    assert_int_equal(problems.n, 1);
    assert_null(config);
    kvf_config_problems_fini(&problems);
}

static void test_config_says_why_a_file_cannot_be_read(void **state)
{
    (void)state;
    cannot_load("/nonexistent/f", "/nonexistent/f: cannot be read: No such file or "
                                  "directory\n");
    cannot_load("/", "/: cannot be read: Is a directory\n");
    cannot_load("/dev/zero", "/dev/zero: the file is larger than 1 MiB\n");
}

static void test_config_lack_of_memory_leaves_nothing_behind(void **state)
{
    (void)state;
    static const char text[] =
        NODE "data: {chunk: '${KVT_UNSET:-1MiB}', prefer: 'tcp, rdma'}\n"
             "peers: [{name: b, address: 'b:1'}]\n"
             "instances:\n"
             "  - {name: i, role: both, layers: 4, kv_heads: 2, head_size: 8,\n"
             "     tokens_per_block: 16, ranks: [b, here], tp: 2}\n";
    enum kvf_status status = KVF_NO_MEMORY;
    uint64_t n = 0;
    while (status == KVF_NO_MEMORY && n < 1000) {
        struct kvf_config *config = NULL;
        struct kvf_config_problems problems = {.n = 0};
        n++;
        kvf_alloc_fail_nth(n);
        status = kvf_config_parse("t", text, strlen(text), &config, &problems);
        kvf_alloc_fail_nth(0);
        assert_int_equal(config != NULL, status == KVF_OK);
        kvf_config_problems_fini(&problems);
        kvf_config_destroy(config);
    }
    assert_int_equal(status, KVF_OK);
    assert_true(n > 5);
}

static void test_config_destroy_takes_null(void **state)
{
    (void)state;
    kvf_config_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_config_defaults_are_the_documented_constants),
        cmocka_unit_test(test_config_without_a_name_takes_the_host_s),
        cmocka_unit_test(test_config_reads_every_kind_of_value),
        cmocka_unit_test(test_config_environment_wins_over_file),
        cmocka_unit_test(test_config_problem_of_a_variable_names_it),
        cmocka_unit_test(test_config_substitution_is_typed_by_the_key),
        cmocka_unit_test(test_config_users_own_keys_are_ignored),
        cmocka_unit_test(test_config_reports_all_problems_in_file_order),
        cmocka_unit_test(test_config_strangers_must_be_let_in_by_name),
        cmocka_unit_test(test_config_loads_a_file),
        cmocka_unit_test(test_config_says_why_a_file_cannot_be_read),
        cmocka_unit_test(test_config_lack_of_memory_leaves_nothing_behind),
        cmocka_unit_test(test_config_destroy_takes_null),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
