/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every value has one spelling; whatever is refused says how to write it, and what is
 * formatted is read back as the same number.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/rng.h"
#include "config/scalar.h"

typedef enum kvf_status (*number_fn)(const char *text, uint64_t *out,
                                     struct kvf_value_refusal *out_refusal);

static void accepts(number_fn parse, const char *text, uint64_t expected)
{
    uint64_t value = 0;
    struct kvf_value_refusal refusal = {.text = ""};
    assert_int_equal(parse(text, &value, &refusal), KVF_OK);
    assert_int_equal(value, expected);
}

static void refuses(number_fn parse, const char *text, const char *reason)
{
    uint64_t value = 77;
    struct kvf_value_refusal refusal = {.text = ""};
    assert_int_equal(parse(text, &value, &refusal), KVF_CONFIG);
    assert_non_null(strstr(refusal.text, reason));
    assert_int_equal(value, 77);
}

static void test_scalar_sizes_have_a_binary_unit_or_are_bytes(void **state)
{
    (void)state;
    accepts(kvf_scalar_size, "0", 0);
    accepts(kvf_scalar_size, "4096", 4096);
    accepts(kvf_scalar_size, "1_048_576", 1048576);
    accepts(kvf_scalar_size, "64KiB", 65536);
    accepts(kvf_scalar_size, "64MiB", 64ull << 20);
    accepts(kvf_scalar_size, "1GiB", 1ull << 30);
    accepts(kvf_scalar_size, "3TiB", 3ull << 40);
    accepts(kvf_scalar_size, "18446744073709551615", UINT64_MAX);
}

static void test_scalar_ambiguous_size_says_both_ways_to_write_it(void **state)
{
    (void)state;
    refuses(kvf_scalar_size, "64M", "write 64MiB, or 64000000 for the decimal one");
    refuses(kvf_scalar_size, "64MB", "write 64MiB");
    refuses(kvf_scalar_size, "64mib", "write 64MiB");
    refuses(kvf_scalar_size, "2k", "write 2KiB, or 2000");
    refuses(kvf_scalar_size, "1G", "write 1GiB");
    refuses(kvf_scalar_size, "99999999999999T", "is not a size");
}

static void test_scalar_refuses_what_is_no_size(void **state)
{
    (void)state;
    refuses(kvf_scalar_size, "", "is not a size");
    refuses(kvf_scalar_size, "MiB", "is not a size");
    refuses(kvf_scalar_size, "-1MiB", "is not a size");
    refuses(kvf_scalar_size, "1.5GiB", "is not a size");
    refuses(kvf_scalar_size, "64 MiB", "is not a size");
    refuses(kvf_scalar_size, "64MiBs", "is not a size");
    refuses(kvf_scalar_size, "18446744073709551616", "is not a size");
    refuses(kvf_scalar_size, "16777216TiB", "larger than any memory");
}

static void test_scalar_durations_have_a_unit(void **state)
{
    (void)state;
    accepts(kvf_scalar_duration, "0", 0);
    accepts(kvf_scalar_duration, "0s", 0);
    accepts(kvf_scalar_duration, "50us", 50);
    accepts(kvf_scalar_duration, "500ms", 500000);
    accepts(kvf_scalar_duration, "30s", 30000000);
    accepts(kvf_scalar_duration, "2m", 120000000);
    accepts(kvf_scalar_duration, "1h", 3600000000ull);
    refuses(kvf_scalar_duration, "30", "lacks a unit; write 30ms or 30s");
    refuses(kvf_scalar_duration, "1.5s", "whole numbers");
    refuses(kvf_scalar_duration, "1d", "whole numbers");
    refuses(kvf_scalar_duration, "s", "is not a time");
    refuses(kvf_scalar_duration, "1s1", "whole numbers");
    refuses(kvf_scalar_duration, "18446744073709551615h", "too long");
}

static void test_scalar_integers_take_underscores_between_digits(void **state)
{
    (void)state;
    accepts(kvf_scalar_integer, "0", 0);
    accepts(kvf_scalar_integer, "65_536", 65536);
    accepts(kvf_scalar_integer, "1_0_0", 100);
    refuses(kvf_scalar_integer, "_1", "is not a whole number");
    refuses(kvf_scalar_integer, "1_", "is not a whole number");
    refuses(kvf_scalar_integer, "1__0", "is not a whole number");
    refuses(kvf_scalar_integer, "0x10", "is not a whole number");
    refuses(kvf_scalar_integer, "+1", "is not a whole number");
    refuses(kvf_scalar_integer, " 1", "is not a whole number");
    refuses(kvf_scalar_integer, "1e3", "is not a whole number");
    refuses(kvf_scalar_integer, "-1", "is negative");
    refuses(kvf_scalar_integer, "010", "may be read as octal");
    refuses(kvf_scalar_integer, "99999999999999999999", "is not a whole number");
}

static void test_scalar_booleans_are_true_and_false_alone(void **state)
{
    (void)state;
    bool value = false;
    struct kvf_value_refusal refusal = {.text = ""};
    assert_int_equal(kvf_scalar_boolean("true", &value, &refusal), KVF_OK);
    assert_true(value);
    assert_int_equal(kvf_scalar_boolean("false", &value, &refusal), KVF_OK);
    assert_false(value);
}

static void test_scalar_words_of_yaml_1_1_are_told_what_to_write(void **state)
{
    (void)state;
    static const char *const truths[] = {"yes", "Yes", "on", "ON", "y", "1", "True"};
    static const char *const lies[] = {"no", "No", "off", "OFF", "n", "0", "FALSE"};
    for (size_t i = 0; i < sizeof(truths) / sizeof(truths[0]); i++) {
        bool value = true;
        struct kvf_value_refusal refusal = {.text = ""};
        assert_int_equal(kvf_scalar_boolean(truths[i], &value, &refusal), KVF_CONFIG);
        assert_non_null(strstr(refusal.text, "write true"));
        assert_int_equal(kvf_scalar_boolean(lies[i], &value, &refusal), KVF_CONFIG);
        assert_non_null(strstr(refusal.text, "write false"));
        assert_true(value);
    }
    bool value = true;
    struct kvf_value_refusal refusal = {.text = ""};
    assert_int_equal(kvf_scalar_boolean("", &value, &refusal), KVF_CONFIG);
    assert_non_null(strstr(refusal.text, "write true or false"));
}

static void test_scalar_choice_suggests_the_nearest(void **state)
{
    (void)state;
    static const char *const names[] = {"context", "generation", "both", NULL};
    uint32_t index = 9;
    struct kvf_value_refusal refusal = {.text = ""};
    assert_int_equal(kvf_scalar_choice("generation", names, &index, &refusal), KVF_OK);
    assert_int_equal(index, 1);
    assert_int_equal(kvf_scalar_choice("contxt", names, &index, &refusal), KVF_CONFIG);
    assert_string_equal(refusal.text, "'contxt' is not one of context, generation, both; "
                                      "did you mean 'context'?");
    assert_int_equal(kvf_scalar_choice("Both", names, &index, &refusal), KVF_CONFIG);
    assert_int_equal(kvf_scalar_choice("prefill", names, &index, &refusal), KVF_CONFIG);
    assert_null(strstr(refusal.text, "did you mean"));
    assert_int_equal(index, 1);
}

static void test_scalar_names_are_short_and_plain(void **state)
{
    (void)state;
    char name[65];
    struct kvf_value_refusal refusal = {.text = ""};
    memset(name, 'a', sizeof(name));
    name[64] = '\0';
    assert_int_equal(kvf_scalar_name(name, &refusal), KVF_CONFIG);
    assert_non_null(strstr(refusal.text, "longer than 63"));
    name[63] = '\0';
    assert_int_equal(kvf_scalar_name(name, &refusal), KVF_OK);
    assert_int_equal(kvf_scalar_name("a.b-C_9", &refusal), KVF_OK);
    assert_int_equal(kvf_scalar_name("", &refusal), KVF_CONFIG);
    assert_int_equal(kvf_scalar_name("a b", &refusal), KVF_CONFIG);
    assert_int_equal(kvf_scalar_name("a/b", &refusal), KVF_CONFIG);
    assert_int_equal(kvf_scalar_name("n\xc3\xb6"
                                     "de",
                                     &refusal),
                     KVF_CONFIG);
}

static void test_scalar_formats_what_it_parses(void **state)
{
    (void)state;
    char text[KVF_SCALAR_TEXT_BYTES];
    struct kvf_rng rng;
    kvf_rng_init_seeded(&rng, 20);
    kvf_scalar_format_size(3ull << 20, text);
    assert_string_equal(text, "3MiB");
    kvf_scalar_format_duration(90000000, text);
    assert_string_equal(text, "90s");
    for (int i = 0; i < 10000; i++) {
        uint64_t value = kvf_rng_u64(&rng) >> (kvf_rng_u64(&rng) % 64);
        kvf_scalar_format_size(value, text);
        accepts(kvf_scalar_size, text, value);
        kvf_scalar_format_duration(value, text);
        accepts(kvf_scalar_duration, text, value);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scalar_sizes_have_a_binary_unit_or_are_bytes),
        cmocka_unit_test(test_scalar_ambiguous_size_says_both_ways_to_write_it),
        cmocka_unit_test(test_scalar_refuses_what_is_no_size),
        cmocka_unit_test(test_scalar_durations_have_a_unit),
        cmocka_unit_test(test_scalar_integers_take_underscores_between_digits),
        cmocka_unit_test(test_scalar_booleans_are_true_and_false_alone),
        cmocka_unit_test(test_scalar_words_of_yaml_1_1_are_told_what_to_write),
        cmocka_unit_test(test_scalar_choice_suggests_the_nearest),
        cmocka_unit_test(test_scalar_names_are_short_and_plain),
        cmocka_unit_test(test_scalar_formats_what_it_parses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
