/* SPDX-License-Identifier: Apache-2.0 */
/* The guard's decisions, one by one, without a socket. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "admin/guard.h"

static const char *const names[] = {"kvferry.example"};
static const struct kvf_guard guard = {
    .allow_hosts = names, .n_allow_hosts = 1, .token = "s3cret", .n_token = 6};
static const char *detail;

static enum kvf_problem host(const char *value)
{
    struct kvf_http_headers headers = {.host = value, .n_hosts = 1, .is_http_11 = true};
    return kvf_guard_host(&guard, &headers, &detail);
}

static void test_host_literals_and_listed_names_pass(void **state)
{
    static const char *const good[] = {
        "127.0.0.1",    "10.1.2.3:7471", "[::1]",           "[fe80::1]:7471",
        "localhost:80", "LOCALHOST",     "kvferry.example", "Kvferry.Example:7472",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_int_equal(host(good[i]), KVF_PROBLEM_NONE);
    }
}

static void test_host_names_from_elsewhere_are_misdirected(void **state)
{
    static const char *const bad[] = {
        "evil.example", "127.0.0.1.evil.example", "localhost.", "1.2.3",
        "2130706433",   "kvferry.example.evil",   "[evil]",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(host(bad[i]), KVF_PROBLEM_MISDIRECTED);
    }
}

static void test_host_that_is_no_host_is_malformed(void **state)
{
    static const char *const bad[] = {
        "", ":80", "[::1", "localhost:80:90", "localhost:x", "[::1]x"};
    char longest[512];
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(host(bad[i]), KVF_PROBLEM_MALFORMED);
    }
    memset(longest, 'a', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    assert_int_equal(host(longest), KVF_PROBLEM_MALFORMED);
}

static void test_host_comes_exactly_once(void **state)
{
    struct kvf_http_headers headers = {.n_hosts = 0, .is_http_11 = true};
    (void)state;
    assert_int_equal(kvf_guard_host(&guard, &headers, &detail), KVF_PROBLEM_MALFORMED);
    headers.is_http_11 = false;
    assert_int_equal(kvf_guard_host(&guard, &headers, &detail), KVF_PROBLEM_NONE);
    headers.host = "localhost";
    headers.n_hosts = 2;
    assert_int_equal(kvf_guard_host(&guard, &headers, &detail), KVF_PROBLEM_MALFORMED);
}

static enum kvf_problem origin(const char *value)
{
    struct kvf_http_headers headers = {.host = "127.0.0.1:7472", .origin = value};
    return kvf_guard_origin(&headers, &detail);
}

static void test_origin_must_be_our_own(void **state)
{
    (void)state;
    assert_int_equal(origin(NULL), KVF_PROBLEM_NONE);
    assert_int_equal(origin("http://127.0.0.1:7472"), KVF_PROBLEM_NONE);
    assert_int_equal(origin("null"), KVF_PROBLEM_FORBIDDEN);
    assert_int_equal(origin("https://127.0.0.1:7472"), KVF_PROBLEM_FORBIDDEN);
    assert_int_equal(origin("http://127.0.0.1"), KVF_PROBLEM_FORBIDDEN);
    assert_int_equal(origin("http://127.0.0.1:7472.evil"), KVF_PROBLEM_FORBIDDEN);
}

static enum kvf_problem token(const char *value)
{
    struct kvf_http_headers headers = {.authorization = value};
    return kvf_guard_token(&guard, &headers, &detail);
}

static void test_token_must_match_whole(void **state)
{
    static const char *const bad[] = {
        NULL,          "",       "Bearer ",        "Bearer s3cre",       "Bearer s3cretx",
        "Basic czM6Y", "s3cret", "Bearer  s3cret", "Bearer s3crets3cret"};
    (void)state;
    assert_int_equal(token("Bearer s3cret"), KVF_PROBLEM_NONE);
    assert_int_equal(token("bearer s3cret"), KVF_PROBLEM_NONE);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(token(bad[i]), KVF_PROBLEM_UNAUTHORIZED);
    }
}

static void test_no_token_asks_for_none(void **state)
{
    struct kvf_http_headers headers = {.host = NULL};
    struct kvf_guard open = {.n_token = 0};
    (void)state;
    assert_int_equal(kvf_guard_token(&open, &headers, &detail), KVF_PROBLEM_NONE);
}

static void test_mutation_needs_what_a_form_cannot_send(void **state)
{
    struct kvf_http_headers headers = {.content_type = "text/plain"};
    (void)state;
    assert_int_equal(kvf_guard_mutation(&headers, &detail), KVF_PROBLEM_FORBIDDEN);
    headers.content_type = "application/jsonp";
    assert_int_equal(kvf_guard_mutation(&headers, &detail), KVF_PROBLEM_FORBIDDEN);
    headers.content_type = "application/json; charset=utf-8";
    assert_int_equal(kvf_guard_mutation(&headers, &detail), KVF_PROBLEM_NONE);
    headers.content_type = NULL;
    headers.kvferry = "0";
    assert_int_equal(kvf_guard_mutation(&headers, &detail), KVF_PROBLEM_FORBIDDEN);
    headers.kvferry = "1";
    assert_int_equal(kvf_guard_mutation(&headers, &detail), KVF_PROBLEM_NONE);
}

static void test_path_is_plain(void **state)
{
    static const char *const bad[] = {"",      "livez",   "*",       "http://x/", "/..",
                                      "/a/..", "/a/../b", "/a\x01b", "/a\x7f"};
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(kvf_guard_path(bad[i], &detail), KVF_PROBLEM_MALFORMED);
    }
    assert_int_equal(kvf_guard_path("/", &detail), KVF_PROBLEM_NONE);
    assert_int_equal(kvf_guard_path("/v1/requests/a..b", &detail), KVF_PROBLEM_NONE);
    assert_int_equal(kvf_guard_path("/v1/requests/..b", &detail), KVF_PROBLEM_NONE);
}

static void test_framing_is_unambiguous(void **state)
{
    struct kvf_http_headers headers = {.content_length = "65536", .n_content_lengths = 1};
    (void)state;
    assert_int_equal(kvf_guard_framing(&headers, &detail), KVF_PROBLEM_NONE);
    headers.content_length = "65537";
    assert_int_equal(kvf_guard_framing(&headers, &detail), KVF_PROBLEM_TOO_LARGE);
    headers.content_length = "99999999999999999999999";
    assert_int_equal(kvf_guard_framing(&headers, &detail), KVF_PROBLEM_TOO_LARGE);
    headers.content_length = "1";
    headers.n_content_lengths = 2;
    assert_int_equal(kvf_guard_framing(&headers, &detail), KVF_PROBLEM_MALFORMED);
    headers.n_content_lengths = 1;
    headers.has_transfer_encoding = true;
    assert_int_equal(kvf_guard_framing(&headers, &detail), KVF_PROBLEM_MALFORMED);
    headers.n_content_lengths = 0;
    assert_int_equal(kvf_guard_framing(&headers, &detail), KVF_PROBLEM_LENGTH_REQUIRED);
    headers.has_transfer_encoding = false;
    headers.has_control = true;
    assert_int_equal(kvf_guard_framing(&headers, &detail), KVF_PROBLEM_MALFORMED);
}

/* Writes a token file and loads it. */
static enum kvf_status load(const char *bytes, size_t n, struct kvf_guard *out)
{
    char path[] = "/tmp/kvf-token-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, n), n);
    enum kvf_status status = kvf_guard_load_token(out, path);
    (void)close(fd);
    (void)unlink(path);
    return status;
}

static void test_token_file_is_its_first_line(void **state)
{
    struct kvf_guard loaded = {.n_token = 0};
    char longest[KVF_HTTP_TOKEN_MAX + 1];
    (void)state;
    assert_int_equal(load("abc\r\nrest", 9, &loaded), KVF_OK);
    assert_string_equal(loaded.token, "abc");
    assert_int_equal(loaded.n_token, 3);
    memset(longest, 'x', sizeof(longest));
    assert_int_equal(load(longest, KVF_HTTP_TOKEN_MAX - 1, &loaded), KVF_OK);
    assert_int_equal(loaded.n_token, KVF_HTTP_TOKEN_MAX - 1);
    assert_int_equal(load(longest, KVF_HTTP_TOKEN_MAX, &loaded), KVF_CONFIG);
    assert_int_equal(load(longest, sizeof(longest), &loaded), KVF_CONFIG);
    assert_int_equal(load("", 0, &loaded), KVF_CONFIG);
    assert_int_equal(load("\nabc", 4, &loaded), KVF_CONFIG);
    assert_int_equal(kvf_guard_load_token(&loaded, "/nonexistent/token"), KVF_CONFIG);
    assert_int_equal(loaded.n_token, KVF_HTTP_TOKEN_MAX - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_host_literals_and_listed_names_pass),
        cmocka_unit_test(test_host_names_from_elsewhere_are_misdirected),
        cmocka_unit_test(test_host_that_is_no_host_is_malformed),
        cmocka_unit_test(test_host_comes_exactly_once),
        cmocka_unit_test(test_origin_must_be_our_own),
        cmocka_unit_test(test_token_must_match_whole),
        cmocka_unit_test(test_no_token_asks_for_none),
        cmocka_unit_test(test_mutation_needs_what_a_form_cannot_send),
        cmocka_unit_test(test_path_is_plain),
        cmocka_unit_test(test_framing_is_unambiguous),
        cmocka_unit_test(test_token_file_is_its_first_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
