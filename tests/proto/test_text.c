/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text is UTF-8 after RFC 3629 without NUL: the edges of every sequence length, and every
 * way to get one wrong.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "proto/schema.h"

static void test_text_accepts_the_edges_of_every_length(void **state)
{
    (void)state;
    static const char *const valid[] = {
        "",
        "\x01",
        "plain ASCII \x7f",
        "\xc2\x80",         /* U+0080 */
        "\xdf\xbf",         /* U+07FF */
        "\xe0\xa0\x80",     /* U+0800 */
        "\xed\x9f\xbf",     /* U+D7FF */
        "\xee\x80\x80",     /* U+E000 */
        "\xef\xbf\xbf",     /* U+FFFF */
        "\xf0\x90\x80\x80", /* U+10000 */
        "\xf4\x8f\xbf\xbf", /* U+10FFFF */
        "mixed \xc3\xa9\xe2\x82\xac\xf0\x9f\x9a\xa2 text",
    };
    for (size_t i = 0; i < sizeof(valid) / sizeof(valid[0]); i++) {
        assert_true(kvf_text_is_valid(valid[i], strlen(valid[i])));
    }
}

static void test_text_refuses_what_is_not_utf8(void **state)
{
    (void)state;
    static const char *const invalid[] = {
        "\x80",             /* continuation without a lead */
        "a\xbf",            /* the same later */
        "\xc0\xaf",         /* overlong '/' */
        "\xc1\xbf",         /* overlong U+007F */
        "\xe0\x9f\xbf",     /* overlong U+07FF */
        "\xf0\x8f\xbf\xbf", /* overlong U+FFFF */
        "\xed\xa0\x80",     /* surrogate U+D800 */
        "\xed\xbf\xbf",     /* surrogate U+DFFF */
        "\xf4\x90\x80\x80", /* U+110000 */
        "\xf5\x80\x80\x80", /* no such lead */
        "\xff",
        "\xc3",         /* cut off */
        "\xe2\x82",     /* cut off */
        "\xf0\x9f\x9a", /* cut off */
        "\xc3(",        /* lead without continuation */
        "\xe2\x82(",
        "\xf0\x9f\x9a(",
    };
    for (size_t i = 0; i < sizeof(invalid) / sizeof(invalid[0]); i++) {
        assert_false(kvf_text_is_valid(invalid[i], strlen(invalid[i])));
    }
}

static void test_text_refuses_nul(void **state)
{
    (void)state;
    assert_false(kvf_text_is_valid("a\0b", 3));
    assert_false(kvf_text_is_valid("", 1));
}

static void test_text_looks_no_further_than_its_length(void **state)
{
    (void)state;
    assert_true(kvf_text_is_valid("ok\xff", 2));
    assert_false(kvf_text_is_valid("\xc3\xa9", 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_accepts_the_edges_of_every_length),
        cmocka_unit_test(test_text_refuses_what_is_not_utf8),
        cmocka_unit_test(test_text_refuses_nul),
        cmocka_unit_test(test_text_looks_no_further_than_its_length),
    };
    return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}
