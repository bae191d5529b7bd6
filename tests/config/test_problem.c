/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Problems come out in file order with the caret under the character, at most twenty of
 * them, and nothing of what they quote reaches a terminal raw.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "config/problem.h"

static struct kvf_where at(uint32_t line, uint32_t column)
{
    return (struct kvf_where){.line = line, .column = column};
}

static struct kvf_problem_list list_of(const char *source)
{
    return (struct kvf_problem_list){
        .name = "f.yaml", .source = source, .n_source_bytes = strlen(source)};
}

static void assert_renders(const struct kvf_problem_list *list, const char *expected)
{
    struct kvf_config_problems problems = {.n = 0};
    assert_int_equal(kvf_problem_list_render(list, &problems), KVF_OK);
    assert_string_equal(problems.text, expected);
    assert_int_equal(problems.n, list->n);
    kvf_config_problems_fini(&problems);
}

static void test_problem_none_is_an_empty_text(void **state)
{
    (void)state;
    struct kvf_problem_list list = list_of("");
    assert_renders(&list, "");
}

static void test_problem_shows_line_and_caret(void **state)
{
    (void)state;
    struct kvf_problem_list list = list_of("one\n\ttwo: x\nthree");
    kvf_problem_add(&list, at(2, 2), "what");
    kvf_problem_add(&list, at(3, 6), "unfinished");
    assert_renders(&list, "f.yaml:2:2: what\n   two: x\n   ^\n"
                          "f.yaml:3:6: unfinished\n  three\n       ^\n");
}

static void test_problem_caret_counts_characters(void **state)
{
    (void)state;
    struct kvf_problem_list list = list_of("k\xc3\xa4se: \xe2\x82\xac x\r\n");
    kvf_problem_add(&list, at(1, 9), "what");
    assert_renders(&list, "f.yaml:1:9: what\n  k?se: ? x\n          ^\n");
}

static void test_problem_list_is_in_file_order(void **state)
{
    (void)state;
    struct kvf_problem_list list = list_of("");
    kvf_problem_add(&list, (struct kvf_where){.variable = "KVFERRY_A__B"}, "last");
    kvf_problem_add(&list, at(2, 1), "third");
    kvf_problem_add(&list, at(1, 7), "second");
    kvf_problem_add(&list, at(1, 7), "also second");
    kvf_problem_add(&list, at(0, 0), "first");
    assert_renders(&list, "f.yaml: first\n"
                          "f.yaml:1:7: second\n"
                          "f.yaml:1:7: also second\n"
                          "f.yaml:2:1: third\n"
                          "KVFERRY_A__B: last\n");
}

static void test_problem_limit_keeps_the_first_in_file_order(void **state)
{
    (void)state;
    struct kvf_problem_list list = list_of("");
    for (uint32_t line = 30; line > 0; line--) {
        kvf_problem_add(&list, at(line, 1), "line %u", line);
    }
    assert_int_equal(list.n, KVF_CONFIG_PROBLEMS_MAX);
    assert_int_equal(list.n_dropped, 10);
    for (uint32_t i = 0; i < KVF_CONFIG_PROBLEMS_MAX; i++) {
        assert_int_equal(list.items[i].where.line, i + 1);
    }
    struct kvf_config_problems problems = {.n = 0};
    assert_int_equal(kvf_problem_list_render(&list, &problems), KVF_OK);
    assert_non_null(strstr(problems.text, "10 more problems are not shown\n"));
    kvf_config_problems_fini(&problems);
}

static void test_problem_escapes_what_it_quotes(void **state)
{
    (void)state;
    struct kvf_problem_list list = list_of("a\033[31mb\n");
    kvf_problem_add(&list, at(1, 1), "'%s'", "x\n\033[2J");
    assert_renders(&list, "f.yaml:1:1: 'x\\x0a\\x1b[2J'\n  a?[31mb\n  ^\n");
}

static void test_problem_leaves_out_a_caret_far_to_the_right(void **state)
{
    (void)state;
    char source[1000];
    memset(source, 'x', sizeof(source) - 1);
    source[sizeof(source) - 1] = '\0';
    struct kvf_problem_list list = list_of(source);
    kvf_problem_add(&list, at(1, 900), "what");
    assert_renders(&list, "f.yaml:1:900: what\n");
}

static void test_problem_render_reports_missing_memory(void **state)
{
    (void)state;
    struct kvf_problem_list list = list_of("");
    struct kvf_config_problems problems = {.n = 0};
    kvf_problem_add(&list, at(1, 1), "what");
    kvf_alloc_fail_nth(1);
    assert_int_equal(kvf_problem_list_render(&list, &problems), KVF_NO_MEMORY);
    kvf_alloc_fail_nth(0);
    assert_null(problems.text);
}

static const char *nearest_of(const char *word, const char *candidate)
{
    struct kvf_nearest nearest;
    kvf_nearest_init(&nearest, word);
    kvf_nearest_offer(&nearest, candidate);
    return nearest.best;
}

static void test_nearest_takes_up_to_two_edits(void **state)
{
    (void)state;
    assert_non_null(nearest_of("tranqport", "transport"));
    assert_non_null(nearest_of("tranqqort", "transport"));
    assert_non_null(nearest_of("transports", "transport"));
    assert_null(nearest_of("transportxyz", "transport"));
    assert_null(nearest_of("tranxyzrt", "transport"));
}

static void test_nearest_of_short_words_is_stricter(void **state)
{
    (void)state;
    assert_non_null(nearest_of("tq", "tp"));
    assert_null(nearest_of("xy", "tp"));
    assert_null(nearest_of("", "tp"));
    assert_null(nearest_of("no", "cp"));
}

static void test_nearest_prefers_the_closest(void **state)
{
    (void)state;
    struct kvf_nearest nearest;
    kvf_nearest_init(&nearest, "listn");
    kvf_nearest_offer(&nearest, "lists");
    kvf_nearest_offer(&nearest, "listen");
    kvf_nearest_offer(&nearest, "list");
    assert_string_equal(kvf_nearest_suffix(&nearest), "; did you mean 'lists'?");
    kvf_nearest_init(&nearest, "listen");
    kvf_nearest_offer(&nearest, "lists");
    kvf_nearest_offer(&nearest, "listen");
    assert_string_equal(kvf_nearest_suffix(&nearest), "; did you mean 'listen'?");
}

static void test_nearest_ignores_overlong_words(void **state)
{
    (void)state;
    char word[200];
    memset(word, 'a', sizeof(word) - 1);
    word[sizeof(word) - 1] = '\0';
    assert_null(nearest_of(word, word));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_problem_none_is_an_empty_text),
        cmocka_unit_test(test_problem_shows_line_and_caret),
        cmocka_unit_test(test_problem_caret_counts_characters),
        cmocka_unit_test(test_problem_list_is_in_file_order),
        cmocka_unit_test(test_problem_limit_keeps_the_first_in_file_order),
        cmocka_unit_test(test_problem_escapes_what_it_quotes),
        cmocka_unit_test(test_problem_leaves_out_a_caret_far_to_the_right),
        cmocka_unit_test(test_problem_render_reports_missing_memory),
        cmocka_unit_test(test_nearest_takes_up_to_two_edits),
        cmocka_unit_test(test_nearest_of_short_words_is_stricter),
        cmocka_unit_test(test_nearest_prefers_the_closest),
        cmocka_unit_test(test_nearest_ignores_overlong_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
