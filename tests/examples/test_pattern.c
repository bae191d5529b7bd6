/* SPDX-License-Identifier: Apache-2.0 */
/* The demo is worth what its generator sees: every kind of misplaced byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "examples/pattern.h"

#define POISON PATTERN_POISON_RECEIVER

static const struct shape shape = {.name = "m",
                                   .n_layers = 3,
                                   .n_heads = 2,
                                   .head_dim = 8,
                                   .kv_factor = 2,
                                   .tokens_per_block = 4,
                                   .n_blocks = 2};
#define BLOCK_BYTES (3 * 2 * 2 * 4 * 16)

static struct pattern_block block(uint64_t key, uint32_t first, uint32_t n)
{
    return (struct pattern_block){.shape = &shape,
                                  .key = key,
                                  .first_token = first,
                                  .n_tokens = n,
                                  .poison = POISON};
}

static void test_pattern_finds_each_changed_byte(void **state)
{
    (void)state;
    uint8_t bytes[BLOCK_BYTES];
    struct pattern_block b = block(7, 8, 3); /* with a tail that must stay poison */
    assert_int_equal(shape_block_bytes(&shape), BLOCK_BYTES);
    pattern_fill(&b, bytes);
    assert_int_equal(pattern_mismatches(&b, bytes), 0);
    for (size_t i = 0; i < BLOCK_BYTES; i++) {
        bytes[i] ^= 1;
        assert_int_equal(pattern_mismatches(&b, bytes), 1);
        bytes[i] ^= 1;
    }
}

static void test_pattern_finds_swapped_rows_and_words(void **state)
{
    (void)state;
    uint8_t good[BLOCK_BYTES], bytes[BLOCK_BYTES];
    struct pattern_block b = block(7, 0, 4);
    pattern_fill(&b, good);
    for (size_t unit = 8; unit <= BLOCK_BYTES / 2; unit *= 2) {
        for (size_t i = 0; i + 2 * unit <= BLOCK_BYTES; i += unit) {
            memcpy(bytes, good, BLOCK_BYTES);
            memcpy(bytes + i, good + i + unit, unit);
            assert_true(pattern_mismatches(&b, bytes) > 0);
        }
    }
}

static void test_pattern_depends_on_key_and_place(void **state)
{
    (void)state;
    uint8_t bytes[BLOCK_BYTES];
    struct pattern_block mine = block(7, 4, 4);
    struct pattern_block of_other = block(8, 4, 4), of_next = block(7, 8, 4);
    pattern_fill(&mine, bytes);
    assert_true(pattern_mismatches(&of_other, bytes) > BLOCK_BYTES / 2);
    assert_true(pattern_mismatches(&of_next, bytes) > BLOCK_BYTES / 2);
}

static void test_pattern_of_a_partial_block_may_hold_poison_and_nothing_else(void **state)
{
    (void)state;
    uint8_t bytes[BLOCK_BYTES];
    struct pattern_block b = block(7, 0, 3);
    pattern_fill(&b, bytes);
    pattern_poison(bytes + 100, 50, POISON);
    assert_true(pattern_mismatches(&b, bytes) > 0);
    assert_int_equal(pattern_foreign_bytes(&b, bytes), 0);
    pattern_poison(bytes + 100, 1, PATTERN_POISON_SENDER);
    assert_int_equal(pattern_foreign_bytes(&b, bytes), 1);
}

static void test_poison_is_missed_nowhere(void **state)
{
    (void)state;
    uint8_t bytes[65];
    pattern_poison(bytes, sizeof(bytes), POISON);
    assert_int_equal(pattern_poison_mismatches(bytes, sizeof(bytes), POISON), 0);
    assert_int_equal(pattern_poison_mismatches(bytes, 0, POISON), 0);
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = 0;
        assert_int_equal(pattern_poison_mismatches(bytes, sizeof(bytes), POISON), 1);
        bytes[i] = POISON;
    }
    memset(bytes, 0, sizeof(bytes));
    assert_int_equal(pattern_poison_mismatches(bytes, sizeof(bytes), POISON), 65);
}

static void test_shape_survives_its_text_and_refuses_others(void **state)
{
    (void)state;
    char text[SHAPE_TEXT_MAX];
    struct shape out;
    shape_format(&shape, text);
    assert_true(shape_parse(text, &out));
    assert_memory_equal(&out, &shape, sizeof(shape));
    static const char *const bad[] = {"",
                                      "m",
                                      "m:1:1:4:1:1",
                                      ":1:1:4:1:1:1",
                                      "m:0:1:4:1:1:1",
                                      "m:1:1:4:3:1:1",
                                      "m:1:1:3:1:1:1",
                                      "m:1:1:4:1:1:1:1",
                                      "m:-1:1:4:1:1:1"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(shape_parse(bad[i], &out));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pattern_finds_each_changed_byte),
        cmocka_unit_test(test_pattern_finds_swapped_rows_and_words),
        cmocka_unit_test(test_pattern_depends_on_key_and_place),
        cmocka_unit_test(
            test_pattern_of_a_partial_block_may_hold_poison_and_nothing_else),
        cmocka_unit_test(test_poison_is_missed_nowhere),
        cmocka_unit_test(test_shape_survives_its_text_and_refuses_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
