/* SPDX-License-Identifier: Apache-2.0 */
/* Accept headers as clients really send them, and as they should not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "admin/accept.h"

static bool prefers_json(const char *accept)
{
    return kvf_accept_prefers(accept, "application/json", "text/plain");
}

static void test_absent_or_indifferent_prefers_nothing(void **state)
{
    (void)state;
    assert_false(prefers_json(NULL));
    assert_false(prefers_json(""));
    assert_false(prefers_json("*/*"));
    assert_false(prefers_json("application/json, text/plain"));
    assert_false(prefers_json("application/*;q=0.5, text/*;q=0.5"));
}

static void test_higher_quality_wins(void **state)
{
    (void)state;
    assert_true(prefers_json("application/json"));
    assert_true(prefers_json("APPLICATION/JSON"));
    assert_true(prefers_json("text/plain;q=0.8,application/json;q=0.81"));
    assert_true(prefers_json("text/plain ; q=0 , */*"));
    assert_false(prefers_json("application/json;q=0.2, text/plain;q=0.3"));
    assert_false(prefers_json("application/json;q=0"));
}

static void test_more_specific_range_wins(void **state)
{
    (void)state;
    assert_true(prefers_json("application/json;q=0.9, */*;q=0.1"));
    assert_false(prefers_json("application/json;q=0.1, application/*, text/plain;q=0.5"));
    assert_true(prefers_json("application/*;q=0.6, text/plain;q=0.5, */*;q=1"));
}

static void test_parameters_are_skipped(void **state)
{
    (void)state;
    assert_true(prefers_json("application/json;charset=utf-8;q=0.9, text/plain;q=0.8"));
    assert_false(prefers_json("application/json;v=1;q=0.1, text/plain;q=0.8"));
}

static void test_rubbish_is_survived(void **state)
{
    (void)state;
    assert_false(prefers_json(",,,;;;q=,"));
    assert_false(prefers_json("/"));
    assert_false(prefers_json("application/jsonx, application, json"));
    assert_true(prefers_json("application/json;q=x, text/plain;q=0.9"));
    assert_true(prefers_json("application/json;q=9.999, text/plain;q=0.9"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_absent_or_indifferent_prefers_nothing),
        cmocka_unit_test(test_higher_quality_wins),
        cmocka_unit_test(test_more_specific_range_wins),
        cmocka_unit_test(test_parameters_are_skipped),
        cmocka_unit_test(test_rubbish_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
