/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lookups agree with the table row by row, rows sit in the value range of their
 * scope, and a value from a newer release still gets a scope and texts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <limits.h>
#include <string.h>

#include <kvferry/status.h>

struct row {
    int value;
    const char *name;
    enum kvf_scope scope;
    int is_retryable;
};
static const struct row rows[] = {
#define ROW(name, value, scope, retryable, text, advice)                                 \
    {(value), #name, KVF_SCOPE_##scope, (retryable)},
    KVF_STATUS_TABLE(ROW)
#undef ROW
};
#define N_ROWS (sizeof(rows) / sizeof(rows[0]))

static void test_status_lookups_agree_with_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_ROWS; i++) {
        int value = rows[i].value;
        assert_string_equal(kvf_status_name(value), rows[i].name);
        assert_int_equal(kvf_status_scope(value), rows[i].scope);
        assert_int_equal(kvf_status_is_retryable(value), rows[i].is_retryable);
        assert_true(strlen(kvf_status_text(value)) > 0);
        assert_true(strlen(kvf_status_advice(value)) > 0);
    }
    assert_string_equal(kvf_status_name(KVF_LAYOUT_MISMATCH), "LAYOUT_MISMATCH");
    assert_string_equal(kvf_status_text(KVF_CANCELLED), "cancelled");
}

static void test_status_values_and_texts_are_unique(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_ROWS; i++) {
        for (size_t j = i + 1; j < N_ROWS; j++) {
            assert_int_not_equal(rows[i].value, rows[j].value);
            assert_string_not_equal(kvf_status_text(rows[i].value),
                                    kvf_status_text(rows[j].value));
        }
    }
}

/* What lets an old program scope a new value. */
static void test_status_rows_lie_in_the_range_of_their_scope(void **state)
{
    (void)state;
    static const int first[] = {[KVF_SCOPE_NONE] = INT_MAX,
                                [KVF_SCOPE_REQUEST] = -1,
                                [KVF_SCOPE_SESSION] = -30,
                                [KVF_SCOPE_PEER] = -50,
                                [KVF_SCOPE_DAEMON] = -70};
    static const int last[] = {[KVF_SCOPE_NONE] = 0,
                               [KVF_SCOPE_REQUEST] = -29,
                               [KVF_SCOPE_SESSION] = -49,
                               [KVF_SCOPE_PEER] = -69,
                               [KVF_SCOPE_DAEMON] = INT_MIN};
    for (size_t i = 0; i < N_ROWS; i++) {
        assert_true(rows[i].value <= first[rows[i].scope]);
        assert_true(rows[i].value >= last[rows[i].scope]);
    }
}

static void test_status_unknown_value_is_scoped_by_range(void **state)
{
    (void)state;
    assert_int_equal(kvf_status_scope(-29), KVF_SCOPE_REQUEST);
    assert_int_equal(kvf_status_scope(-49), KVF_SCOPE_SESSION);
    assert_int_equal(kvf_status_scope(-69), KVF_SCOPE_PEER);
    assert_int_equal(kvf_status_scope(INT_MIN), KVF_SCOPE_DAEMON);
    assert_int_equal(kvf_status_scope(1000), KVF_SCOPE_REQUEST);
}

static void test_status_unknown_value_has_texts_and_no_retry(void **state)
{
    (void)state;
    assert_string_equal(kvf_status_name(-29), "UNKNOWN");
    assert_true(strlen(kvf_status_text(-29)) > 0);
    assert_true(strlen(kvf_status_advice(-29)) > 0);
    assert_int_equal(kvf_status_is_retryable(-29), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_status_lookups_agree_with_table),
        cmocka_unit_test(test_status_values_and_texts_are_unique),
        cmocka_unit_test(test_status_rows_lie_in_the_range_of_their_scope),
        cmocka_unit_test(test_status_unknown_value_is_scoped_by_range),
        cmocka_unit_test(test_status_unknown_value_has_texts_and_no_retry),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
