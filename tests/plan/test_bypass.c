/* SPDX-License-Identifier: Apache-2.0 */
/* kvf_bypass_copy() at every alignment around a line: exactly the bytes asked for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "plan/bypass.h"

#define LINE   64u
#define LENGTH 330u

static void check(uint32_t to, uint32_t from, uint32_t n_bytes)
{
    static _Alignas(LINE) char src[LENGTH + 2 * LINE], dst[LENGTH + 2 * LINE];
    static char expected[sizeof(dst)];

    for (size_t i = 0; i < sizeof(src); i++) {
        src[i] = (char)(i * 7 + 1);
    }
    memset(dst, 0x5a, sizeof(dst));
    memset(expected, 0x5a, sizeof(expected));
    memcpy(expected + to, src + from, n_bytes);
    kvf_bypass_copy(dst + to, src + from, n_bytes);
    kvf_bypass_fence();
    assert_memory_equal(dst, expected, sizeof(dst));
}

static void test_bypass_copies_every_alignment_and_tail(void **state)
{
    (void)state;
    for (uint32_t to = 0; to < LINE; to++) {
        for (uint32_t n_bytes = 0; n_bytes <= LENGTH; n_bytes += n_bytes < 140 ? 1 : 19) {
            check(to, 0, n_bytes);
            check(to, 33, n_bytes);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bypass_copies_every_alignment_and_tail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
