/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ${...} in values and KVFERRY_SECTION__KEY: the forms that exist, the ones that do not,
 * and that nothing but values is touched. Variables are set here and belong to this
 * process alone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "config/environment.h"

static struct kvf_arena arena;

static int set_up(void **state)
{
    (void)state;
    kvf_arena_init(&arena, 1 << 20);
    assert_int_equal(setenv("KVT_SET", "value", 1), 0);
    assert_int_equal(setenv("KVT_EMPTY", "", 1), 0);
    assert_int_equal(setenv("KVT_DOLLAR", "${KVT_SET}$$", 1), 0);
    assert_int_equal(unsetenv("KVT_UNSET"), 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    kvf_arena_fini(&arena);
    return 0;
}

static void expands(const char *text, const char *expected)
{
    const char *out = NULL;
    struct kvf_value_refusal refusal = {.text = ""};
    assert_int_equal(kvf_environment_expand(text, &arena, &out, &refusal), KVF_OK);
    assert_string_equal(out, expected);
}

static void refuses(const char *text, const char *reason)
{
    const char *out = NULL;
    struct kvf_value_refusal refusal = {.text = ""};
    assert_int_equal(kvf_environment_expand(text, &arena, &out, &refusal), KVF_CONFIG);
    assert_string_equal(refusal.text, reason);
    assert_null(out);
}

static void test_environment_expands_set_variables(void **state)
{
    (void)state;
    expands("", "");
    expands("plain", "plain");
    expands("${KVT_SET}", "value");
    expands("a${KVT_SET}b${KVT_SET}c", "avaluebvaluec");
    expands("${KVT_EMPTY}", "");
    expands("$${KVT_SET}$$", "${KVT_SET}$");
}

static void test_environment_default_stands_in_for_unset_and_empty(void **state)
{
    (void)state;
    expands("${KVT_UNSET:-there}", "there");
    expands("${KVT_EMPTY:-there}", "there");
    expands("${KVT_SET:-there}", "value");
    expands("${KVT_UNSET:-}", "");
    expands("unix:${KVT_UNSET:-/run/kvferry}/engine.sock",
            "unix:/run/kvferry/engine.sock");
}

static void test_environment_does_not_expand_what_it_inserted(void **state)
{
    (void)state;
    expands("${KVT_DOLLAR}", "${KVT_SET}$$");
}

static void test_environment_unset_variable_is_an_error(void **state)
{
    (void)state;
    refuses("x${KVT_UNSET}", "environment variable KVT_UNSET: is not set");
    refuses("${KVT_UNSET:?say which node}",
            "environment variable KVT_UNSET: say which node");
    refuses("${KVT_EMPTY:?must not be empty}",
            "environment variable KVT_EMPTY: must not be empty");
    refuses("${KVT_UNSET:?}", "environment variable KVT_UNSET: is not set");
}

static void test_environment_refuses_other_forms(void **state)
{
    (void)state;
    static const char forms[] = " is not ${NAME}, ${NAME:-default} or ${NAME:?message}";
    char reason[200];
    static const char *const texts[] = {"${}",           "${1A}",        "${A B}",
                                        "${KVT_SET:=x}", "${KVT_SET-x}", "${#KVT_SET}",
                                        "${KVT_SET:}"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        (void)snprintf(reason, sizeof(reason), "'%s'%s", texts[i], forms);
        refuses(texts[i], reason);
    }
    refuses("${KVT_SET", "'${KVT_SET' is not closed by '}'");
    refuses("5$", "a lone '$'; write ${NAME}, or $$ for '$'");
    refuses("$KVT_SET", "a lone '$'; write ${NAME}, or $$ for '$'");
    refuses("${KVT_UNSET:-${KVT_SET}}", "the default of ${KVT_UNSET} holds another ${}");
}

static void test_environment_result_has_a_ceiling(void **state)
{
    (void)state;
    char *large = calloc(1, 40001);
    assert_non_null(large);
    memset(large, 'x', 40000);
    assert_int_equal(setenv("KVT_LARGE", large, 1), 0);
    refuses("${KVT_LARGE}${KVT_LARGE}", "longer than 64 KiB after substitution");
    assert_int_equal(unsetenv("KVT_LARGE"), 0);
    free(large);
}

static const char *find_override(const char *path)
{
    struct kvf_environment_override *overrides = NULL;
    size_t n = 0;
    assert_int_equal(kvf_environment_overrides(&arena, &overrides, &n), KVF_OK);
    for (size_t i = 0; i < n; i++) {
        if (strcmp(overrides[i].path, path) == 0) {
            return overrides[i].value;
        }
    }
    return NULL;
}

static void test_environment_finds_overrides(void **state)
{
    (void)state;
    assert_int_equal(setenv("KVFERRY_DATA__CHUNK", "1MiB=x", 1), 0);
    assert_int_equal(setenv("KVFERRY_ADMIN__TOKEN_FILE", "", 1), 0);
    assert_int_equal(setenv("KVFERRY_RUN", "a__b", 1), 0);
    assert_int_equal(setenv("KVFERRY___X", "x", 1), 0);
    assert_int_equal(setenv("KVFERRY_X__", "x", 1), 0);
    assert_string_equal(find_override("data.chunk"), "1MiB=x");
    assert_string_equal(find_override("admin.token_file"), "");
    struct kvf_environment_override *overrides = NULL;
    size_t n = 0;
    assert_int_equal(kvf_environment_overrides(&arena, &overrides, &n), KVF_OK);
    assert_int_equal(n, 2);
    static const char *const set[] = {"KVFERRY_DATA__CHUNK", "KVFERRY_ADMIN__TOKEN_FILE",
                                      "KVFERRY_RUN", "KVFERRY___X", "KVFERRY_X__"};
    for (size_t i = 0; i < sizeof(set) / sizeof(set[0]); i++) {
        assert_int_equal(unsetenv(set[i]), 0);
    }
}

static void test_environment_names_a_key_s_variable(void **state)
{
    (void)state;
    char name[KVF_ENVIRONMENT_NAME_BYTES];
    kvf_environment_name("admin.token_file", name);
    assert_string_equal(name, "KVFERRY_ADMIN__TOKEN_FILE");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_environment_expands_set_variables),
        TEST(test_environment_default_stands_in_for_unset_and_empty),
        TEST(test_environment_does_not_expand_what_it_inserted),
        TEST(test_environment_unset_variable_is_an_error),
        TEST(test_environment_refuses_other_forms),
        TEST(test_environment_result_has_a_ceiling),
        TEST(test_environment_finds_overrides),
        TEST(test_environment_names_a_key_s_variable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
