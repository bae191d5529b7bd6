/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is printed is read back as the same configuration, sources and all that must stay
 * hidden included. The first argument is the repository.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/config/parse_support.h"

static const char *repository;

/* Without the sources, which differ between a file and its print. */
static char *strip_comments(const char *text)
{
    char *out = calloc(1, strlen(text) + 1);
    assert_non_null(out);
    char *to = out;
    for (const char *at = text; *at != '\0';) {
        if (strncmp(at, "  # ", 4) == 0) {
            at += strcspn(at, "\n");
        } else {
            *to++ = *at++;
        }
    }
    return out;
}

static void survives_printing(const char *text)
{
    struct kvf_config *config = parse_good(text);
    char *printed = print_to_text(config, kvf_config_print);
    struct kvf_config *again = parse_good(printed);
    char *printed_again = print_to_text(again, kvf_config_print);
    char *a = strip_comments(printed);
    char *b = strip_comments(printed_again);
    assert_string_equal(a, b);
    free(a);
    free(b);
    free(printed);
    free(printed_again);
    kvf_config_destroy(config);
    kvf_config_destroy(again);
}

static void test_print_is_read_back_as_the_same(void **state)
{
    (void)state;
    survives_printing(NODE);
    survives_printing(
        NODE
        "timings: {dir: \"/t/a \\\"b\\\\c$${X} \xc3\xa4 # no comment\"}\n"
        "data: {prefer: [tcp, rdma], require: [tcp, rdma], integrity: off, spin: 0}\n"
        "engine: {allow_uids: [1, 2], listen: 'unix:/a b/c'}\n"
        "admin: {allow_hosts: [a, b], token_file: /x}\n"
        "peers: [{name: b, address: 'b:1'}, {name: here, address: 'c:1'}]\n"
        "instances:\n"
        "  - {name: i, role: both, tp: 2, pp: 2, layers: [3, 0], kv_heads: 6,\n"
        "     head_size: 8, tokens_per_block: 16, ranks: [b, b, here, b]}\n"
        "  - {name: j, role: generation, layers: 3, attention: mla, dtype: i8,\n"
        "     head_size: 576, tokens_per_block: 16, node: b}\n");
}

static void test_print_says_where_values_come_from(void **state)
{
    (void)state;
    assert_int_equal(setenv("KVFERRY_LOG__LEVEL", "warn", 1), 0);
    struct kvf_config *config =
        parse_good(NODE "data:\n  chunk: 1MiB\n"
                        "peers:\n  - name: b\n    address: b:1\n");
    char *text = print_to_text(config, kvf_config_print);
    assert_non_null(strstr(text, "\n  chunk: 1MiB  # t.yaml:3\n"));
    assert_non_null(strstr(text, "\n  window: 4  # default\n"));
    assert_non_null(strstr(text, "\n  level: warn  # env KVFERRY_LOG__LEVEL\n"));
    assert_non_null(strstr(text, "\n  - name: \"b\"  # t.yaml:5\n"
                                 "    address: \"b:1\"  # t.yaml:6\n"));
    free(text);
    kvf_config_destroy(config);
    assert_int_equal(unsetenv("KVFERRY_LOG__LEVEL"), 0);
}

static void test_print_hides_secrets(void **state)
{
    (void)state;
    struct kvf_config *config = parse_good(NODE "admin: {token_file: /very/hidden}\n");
    char *text = print_to_text(config, kvf_config_print);
    assert_null(strstr(text, "hidden"));
    assert_non_null(strstr(text, "\n  token_file: \"***\"  # t.yaml:2\n"));
    free(text);
    kvf_config_destroy(config);
}

static void print_defaults(const struct kvf_config *config, FILE *out)
{
    (void)config;
    kvf_config_print_defaults(out);
}

static void test_print_defaults_are_the_defaults(void **state)
{
    (void)state;
    char *defaults = print_to_text(NULL, print_defaults);
    struct kvf_config *of_nothing = parse_good("");
    struct kvf_config *of_defaults = parse_good(defaults);
    char *a = print_to_text(of_nothing, kvf_config_print);
    char *b = print_to_text(of_defaults, kvf_config_print);
    char *stripped_a = strip_comments(a);
    char *stripped_b = strip_comments(b);
    assert_string_equal(stripped_a, stripped_b);
    free(stripped_a);
    free(stripped_b);
    free(a);
    free(b);
    free(defaults);
    kvf_config_destroy(of_nothing);
    kvf_config_destroy(of_defaults);
}

static void test_print_defaults_fit_the_screen(void **state)
{
    (void)state;
    char *defaults = print_to_text(NULL, print_defaults);
    for (const char *line = defaults; *line != '\0';) {
        size_t n = strcspn(line, "\n");
        assert_in_range(n, 0, 90);
        line += n + 1;
    }
    assert_non_null(strstr(defaults, "KVFERRY_ADMIN__TOKEN_FILE"));
    free(defaults);
}

static void load_example(const char *name, const char *node)
{
    char path[1024];
    struct kvf_config *config = NULL;
    struct kvf_config_problems problems = {.n = 0};
    (void)snprintf(path, sizeof(path), "%s/deploy/%s", repository, name);
    enum kvf_status status = kvf_config_load(path, &config, &problems);
    print_message("%s", problems.text);
    assert_int_equal(status, KVF_OK);
    assert_string_equal(config->node.name, node);
    assert_int_equal(config->n_peers, 1);
    assert_int_equal(config->n_instances, 6);
    kvf_config_problems_fini(&problems);
    kvf_config_destroy(config);
}

static void test_examples_are_valid(void **state)
{
    (void)state;
    load_example("prefill-0.yaml", "prefill-0");
    load_example("decode-0.yaml", "decode-0");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_print_is_read_back_as_the_same),
        cmocka_unit_test(test_print_says_where_values_come_from),
        cmocka_unit_test(test_print_hides_secrets),
        cmocka_unit_test(test_print_defaults_are_the_defaults),
        cmocka_unit_test(test_print_defaults_fit_the_screen),
        cmocka_unit_test(test_examples_are_valid),
    };
    repository = argc > 1 ? argv[1] : ".";
    return cmocka_run_group_tests(tests, NULL, NULL);
}
