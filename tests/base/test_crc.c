/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CRC32C against the published values (RFC 3720 B.4 and the check value of the CRC
 * catalogue), and that pieces give what the whole gives.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/crc.h"

static void test_crc_check_value(void **state)
{
    (void)state;
    assert_int_equal(kvf_crc32c(0, "123456789", 9), 0xe3069283u);
}

static void test_crc_of_rfc3720_examples(void **state)
{
    (void)state;
    uint8_t bytes[32] = {0};
    assert_int_equal(kvf_crc32c(0, bytes, 32), 0x8a9136aau);
    memset(bytes, 0xff, 32);
    assert_int_equal(kvf_crc32c(0, bytes, 32), 0x62a8ab43u);
    for (uint8_t i = 0; i < 32; i++) {
        bytes[i] = i;
    }
    assert_int_equal(kvf_crc32c(0, bytes, 32), 0x46dd794eu);
    for (uint8_t i = 0; i < 32; i++) {
        bytes[i] = (uint8_t)(31 - i);
    }
    assert_int_equal(kvf_crc32c(0, bytes, 32), 0x113fdb5cu);
}

static void test_crc_of_nothing_is_the_start(void **state)
{
    (void)state;
    assert_int_equal(kvf_crc32c(0, NULL, 0), 0);
    assert_int_equal(kvf_crc32c(0xe3069283u, NULL, 0), 0xe3069283u);
}

static void test_crc_continues_at_every_split_and_alignment(void **state)
{
    (void)state;
    uint8_t bytes[700];
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (uint8_t)(i * 31 + 7);
    }
    for (size_t start = 0; start < 17; start++) {
        size_t n = sizeof(bytes) - start;
        uint32_t whole = kvf_crc32c(0, bytes + start, n);
        for (size_t cut = 0; cut <= n; cut += 13) {
            uint32_t crc = kvf_crc32c(0, bytes + start, cut);
            assert_int_equal(kvf_crc32c(crc, bytes + start + cut, n - cut), whole);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crc_check_value),
        cmocka_unit_test(test_crc_of_rfc3720_examples),
        cmocka_unit_test(test_crc_of_nothing_is_the_start),
        cmocka_unit_test(test_crc_continues_at_every_split_and_alignment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
