/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The system clock moves forward, a port can be replaced, and wall time is written as
 * RFC 3339 in UTC.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <time.h>

#include "base/clock.h"

static void test_clock_monotonic_never_goes_back(void **state)
{
    (void)state;
    uint64_t before = kvf_clock_now_ns(&kvf_clock_system);
    for (int i = 0; i < 1000; i++) {
        uint64_t now = kvf_clock_now_ns(&kvf_clock_system);
        assert_true(now >= before);
        before = now;
    }
}

static void test_clock_wall_is_the_system_time(void **state)
{
    (void)state;
    uint64_t wall_s = kvf_clock_wall_ns(&kvf_clock_system) / KVF_NS_PER_S;
    uint64_t now_s = (uint64_t)time(NULL);
    assert_true(wall_s + 2 >= now_s && wall_s <= now_s + 2);
}

static void assert_wall_text(uint64_t wall_ns, const char *expected)
{
    char text[KVF_TIME_TEXT_MAX];
    kvf_clock_format_wall(wall_ns, text);
    assert_string_equal(text, expected);
}

static void test_clock_format_is_rfc3339_with_microseconds(void **state)
{
    (void)state;
    assert_wall_text(0, "1970-01-01T00:00:00.000000Z");
    assert_wall_text(951827696123456789ull, "2000-02-29T12:34:56.123456Z");
    assert_wall_text(1796072400123456000ull, "2026-11-30T21:00:00.123456Z");
    assert_wall_text(UINT64_MAX, "2554-07-21T23:34:33.709551Z");
}

static void test_clock_format_ignores_the_local_zone(void **state)
{
    (void)state;
    assert_int_equal(setenv("TZ", "Asia/Tokyo", 1), 0);
    tzset();
    assert_wall_text(0, "1970-01-01T00:00:00.000000Z");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clock_monotonic_never_goes_back),
        cmocka_unit_test(test_clock_wall_is_the_system_time),
        cmocka_unit_test(test_clock_format_is_rfc3339_with_microseconds),
        cmocka_unit_test(test_clock_format_ignores_the_local_zone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
