/* SPDX-License-Identifier: Apache-2.0 */
/* The route table as data: what it finds, and that its rows keep the rules. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "admin/route.h"

static struct kvf_route_match find(enum kvf_http_side side, enum kvf_http_method method,
                                   const char *path)
{
    struct kvf_route_match match;
    kvf_route_find(side, method, path, &match);
    return match;
}

static void test_last_segment_takes_the_rest(void **state)
{
    struct kvf_route_match match = find(KVF_HTTP_ADMIN, KVF_HTTP_GET, "/v1/requests/a/b");
    (void)state;
    assert_string_equal(match.template, "/v1/requests/{id}");
    assert_string_equal(match.parameter, "a/b");
    assert_null(find(KVF_HTTP_ADMIN, KVF_HTTP_GET, "/v1/requests/").template);
    match = find(KVF_HTTP_ADMIN, KVF_HTTP_GET, "/v1/requests");
    assert_string_equal(match.template, "/v1/requests");
    assert_null(match.parameter);
}

static void test_paths_match_whole(void **state)
{
    static const char *const unknown[] = {"",        "/livez/", "/live", "/livezz",
                                          "//livez", "/LIVEZ",  "/v1",   "/v1/"};
    (void)state;
    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
        struct kvf_route_match match = find(KVF_HTTP_ADMIN, KVF_HTTP_GET, unknown[i]);
        assert_null(match.template);
        assert_false(match.is_elsewhere);
    }
}

static void test_methods_of_a_path_are_collected(void **state)
{
    struct kvf_route_match match = find(KVF_HTTP_ADMIN, KVF_HTTP_POST, "/v1/requests/7");
    char text[64];
    (void)state;
    assert_null(match.route);
    assert_non_null(match.template);
    kvf_http_methods_format(match.methods, text, sizeof(text));
    assert_string_equal(text, "GET, HEAD, OPTIONS, DELETE");
    assert_int_equal(find(KVF_HTTP_ADMIN, KVF_HTTP_HEAD, "/livez").route->method,
                     KVF_HTTP_GET);
}

static void test_observe_side_only_reads_and_knows_no_v1(void **state)
{
    size_t n;
    const struct kvf_route *routes = kvf_routes(&n);
    (void)state;
    for (size_t i = 0; i < n; i++) {
        if ((routes[i].sides & KVF_HTTP_OBSERVE) != 0) {
            assert_int_equal(routes[i].method, KVF_HTTP_GET);
            assert_int_not_equal(strncmp(routes[i].path, "/v1", 3), 0);
        }
    }
    assert_true(find(KVF_HTTP_OBSERVE, KVF_HTTP_GET, "/v1/status").is_elsewhere);
}

static void test_every_row_finds_itself(void **state)
{
    size_t n;
    const struct kvf_route *routes = kvf_routes(&n);
    (void)state;
    for (size_t i = 0; i < n; i++) {
        assert_ptr_equal(find(KVF_HTTP_ADMIN, routes[i].method, routes[i].path).route,
                         &routes[i]);
    }
}

static void test_methods_are_case_sensitive(void **state)
{
    enum kvf_http_method method;
    (void)state;
    assert_true(kvf_http_method_parse("DELETE", &method));
    assert_int_equal(method, KVF_HTTP_DELETE);
    assert_false(kvf_http_method_parse("delete", &method));
    assert_false(kvf_http_method_parse("TRACE", &method));
    assert_int_equal(method, KVF_HTTP_DELETE);
    assert_string_equal(kvf_http_method_name("TRACE"), "other");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_last_segment_takes_the_rest),
        cmocka_unit_test(test_paths_match_whole),
        cmocka_unit_test(test_methods_of_a_path_are_collected),
        cmocka_unit_test(test_observe_side_only_reads_and_knows_no_v1),
        cmocka_unit_test(test_every_row_finds_itself),
        cmocka_unit_test(test_methods_are_case_sensitive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
