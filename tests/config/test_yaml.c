/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tree of what is accepted, and one refusal for each thing that YAML has and a
 * configuration has not. Limits are met from both sides.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "config/yaml.h"

struct fixture {
    struct kvf_arena arena;
    struct kvf_problem_list problems;
    struct kvf_yaml_node *root;
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    kvf_arena_init(&f->arena, 64 << 20);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    kvf_arena_fini(&f->arena);
    free(f);
    return 0;
}

static enum kvf_status parse_bytes(struct fixture *f, const char *text, size_t n)
{
    f->problems =
        (struct kvf_problem_list){.name = "f", .source = text, .n_source_bytes = n};
    f->root = NULL;
    return kvf_yaml_parse(&f->arena, &f->problems, &f->root);
}

static enum kvf_status parse(struct fixture *f, const char *text)
{
    return parse_bytes(f, text, strlen(text));
}

static void refuses(struct fixture *f, const char *text, uint32_t line, uint32_t column,
                    const char *sentence)
{
    assert_int_equal(parse(f, text), KVF_CONFIG);
    assert_true(f->problems.n > 0);
    assert_string_equal(f->problems.items[0].text, sentence);
    assert_int_equal(f->problems.items[0].where.line, line);
    assert_int_equal(f->problems.items[0].where.column, column);
    assert_null(f->root);
}

static void test_yaml_makes_a_tree_with_places(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(parse(f, "a: {b: 1, 'c': \"x\"}\nd:\n  - p\n  - [q]\n"), KVF_OK);
    const struct kvf_yaml_node *root = f->root;
    assert_int_equal(root->kind, KVF_YAML_MAPPING);
    assert_int_equal(root->n_children, 2);
    const struct kvf_yaml_node *a = root->first_child;
    assert_string_equal(a->key, "a");
    assert_int_equal(a->n_children, 2);
    const struct kvf_yaml_node *c = a->first_child->next;
    assert_string_equal(c->key, "c");
    assert_string_equal(c->text, "x");
    assert_true(c->is_quoted);
    assert_false(a->first_child->is_quoted);
    assert_int_equal(c->key_where.column, 11);
    assert_int_equal(c->where.column, 16);
    const struct kvf_yaml_node *d = a->next;
    assert_int_equal(d->kind, KVF_YAML_SEQUENCE);
    assert_int_equal(d->n_children, 2);
    assert_null(d->first_child->key);
    assert_int_equal(d->last_child->where.line, 4);
    assert_string_equal(d->last_child->first_child->text, "q");
    assert_null(d->next);
}

static void test_yaml_empty_document_has_no_tree(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(parse(f, ""), KVF_OK);
    assert_null(f->root);
    assert_int_equal(parse(f, "# nothing\n\n"), KVF_OK);
    assert_null(f->root);
}

static void test_yaml_null_is_plain_only(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *text;
        bool is_null;
    } cases[] = {{"a:", true},      {"a: ~", true},    {"a: null", true},
                 {"a: ''", false},  {"a: '~'", false}, {"a: \"null\"", false},
                 {"a: [ ]", false}, {"a: nul", false}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(parse(f, cases[i].text), KVF_OK);
        assert_int_equal(kvf_yaml_is_null(f->root->first_child), cases[i].is_null);
    }
}

static void test_yaml_refuses_graphs_and_types(void **state)
{
    struct fixture *f = *state;
    refuses(f, "a: &x 1\n", 1, 4, "anchors (&name) are not supported");
    refuses(f, "a: &x {b: 1}\n", 1, 4, "anchors (&name) are not supported");
    refuses(f, "a: &x [1]\n", 1, 4, "anchors (&name) are not supported");
    refuses(f, "a: *x\n", 1, 4, "aliases (*name) are not supported; write it out");
    refuses(f, "a: !!str 1\n", 1, 4, "tags (!name) are not supported");
    refuses(f, "a: ! 1\n", 1, 4, "tags (!name) are not supported");
    refuses(f, "a: !x {b: 1}\n", 1, 4, "tags (!name) are not supported");
    refuses(f, "%TAG ! tag:x,2000:\n---\na: 1\n", 1, 1, "%TAG is not supported");
}

static void test_yaml_reports_every_refusal(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(parse(f, "a: &x 1\nb: *x\nc: !t 2\n<<: *x\n"), KVF_CONFIG);
    assert_int_equal(f->problems.n, 4);
}

static void test_yaml_refuses_a_second_document(void **state)
{
    struct fixture *f = *state;
    refuses(f, "a: 1\n---\nb: 2\n", 2, 1, "a second document is not allowed");
    assert_int_equal(parse(f, "---\na: 1\n...\n"), KVF_OK);
}

static void test_yaml_keys_are_text(void **state)
{
    struct fixture *f = *state;
    refuses(f, "? [a]\n: 1\n", 1, 3, "a key must be text");
    refuses(f, "{{a: 1}: 2}\n", 1, 2, "a key must be text");
}

static void test_yaml_duplicate_key_leaves_the_first(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(parse(f, "a: 1\nb: 2\na: {x: [3]}\nc: 4\n"), KVF_OK);
    assert_int_equal(f->problems.n, 1);
    assert_string_equal(f->problems.items[0].text, "key 'a' is already set on line 1");
    assert_int_equal(f->problems.items[0].where.line, 3);
    assert_int_equal(f->root->n_children, 3);
    assert_string_equal(f->root->first_child->text, "1");
    assert_string_equal(f->root->last_child->text, "4");
}

static void test_yaml_same_key_in_two_mappings_is_fine(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(parse(f, "a: {x: 1}\nb: {x: 1}\nx: 1\n"), KVF_OK);
    assert_int_equal(f->problems.n, 0);
}

static void test_yaml_depth_is_limited(void **state)
{
    struct fixture *f = *state;
    char text[64];
    memset(text, '[', KVF_YAML_MAX_DEPTH);
    memset(text + KVF_YAML_MAX_DEPTH, ']', KVF_YAML_MAX_DEPTH);
    text[2 * KVF_YAML_MAX_DEPTH] = '\0';
    assert_int_equal(parse(f, text), KVF_OK);
    memset(text, '[', KVF_YAML_MAX_DEPTH + 1);
    refuses(f, text, 1, KVF_YAML_MAX_DEPTH + 1, "nested deeper than 16 levels");
}

static char *repeat(const char *unit, size_t n)
{
    size_t n_unit = strlen(unit);
    char *text = malloc(n * n_unit + 1);
    assert_non_null(text);
    for (size_t i = 0; i < n; i++) {
        memcpy(text + i * n_unit, unit, n_unit + 1);
    }
    return text;
}

static void test_yaml_number_of_values_is_limited(void **state)
{
    struct fixture *f = *state;
    char *text = repeat("- a\n", KVF_YAML_MAX_NODES - 1); /* and the list itself */
    assert_int_equal(parse(f, text), KVF_OK);
    free(text);
    text = repeat("- a\n", KVF_YAML_MAX_NODES);
    refuses(f, text, KVF_YAML_MAX_NODES, 3, "more than 65536 values in one file");
    free(text);
}

static void test_yaml_size_is_limited(void **state)
{
    struct fixture *f = *state;
    char *text = repeat("#", KVF_YAML_MAX_BYTES + 1);
    assert_int_equal(parse_bytes(f, text, KVF_YAML_MAX_BYTES), KVF_OK);
    assert_int_equal(parse_bytes(f, text, KVF_YAML_MAX_BYTES + 1), KVF_CONFIG);
    assert_string_equal(f->problems.items[0].text, "the file is larger than 1 MiB");
    free(text);
}

static void test_yaml_many_keys_are_checked_fast(void **state)
{
    struct fixture *f = *state;
    size_t n = 50000;
    char *text = malloc(n * 12);
    assert_non_null(text);
    size_t used = 0;
    for (size_t i = 0; i < n; i++) {
        used += (size_t)snprintf(text + used, 12, "k%zu:\n", i);
    }
    assert_int_equal(parse_bytes(f, text, used), KVF_OK);
    assert_int_equal(f->root->n_children, n);
    free(text);
}

static void test_yaml_takes_utf8_only(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(parse(f, "a: \"\xc3\xa4\"\n"), KVF_OK);
    assert_string_equal(f->root->first_child->text, "\xc3\xa4");
    assert_int_equal(parse(f, "\xef\xbb\xbf"
                              "a: 1\n"),
                     KVF_OK);
    assert_int_equal(parse_bytes(f,
                                 "\xff\xfe"
                                 "a\0:\0 \0"
                                 "1\0",
                                 10),
                     KVF_CONFIG);
    assert_non_null(strstr(f->problems.items[0].text, "not UTF-8 text"));
    assert_int_equal(parse(f, "a: 1\nb: \"\xff\"\n"), KVF_CONFIG);
    assert_int_equal(f->problems.items[0].where.line, 2);
    assert_int_equal(f->problems.items[0].where.column, 5);
    assert_int_equal(parse(f, "a: \xed\xa0\x80\n"), KVF_CONFIG); /* a surrogate */
    assert_int_equal(parse(f, "a: \xc0\xaf\n"), KVF_CONFIG);     /* overlong */
}

static void test_yaml_refuses_nul(void **state)
{
    struct fixture *f = *state;
    refuses(f, "a: \"x\\0y\"\n", 1, 4, "a NUL character is not allowed");
    refuses(f, "\"x\\0y\": 1\n", 1, 1, "a NUL character is not allowed");
    assert_int_equal(parse_bytes(f, "a: x\0y\n", 7), KVF_CONFIG);
}

static void test_yaml_syntax_error_has_its_place(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(parse(f, "a: 1\nb: [1, 2\nc: 3\n"), KVF_CONFIG);
    assert_int_equal(f->problems.n, 1);
    assert_int_equal(f->problems.items[0].where.line, 3);
    assert_non_null(strstr(f->problems.items[0].text, "flow sequence"));
    assert_int_equal(parse(f, "a:\n\t- b\n"), KVF_CONFIG);
    assert_int_equal(f->problems.items[0].where.line, 2);
}

static void test_yaml_reports_missing_memory_at_every_allocation(void **state)
{
    struct fixture *f = *state;
    enum kvf_status status = KVF_NO_MEMORY;
    uint64_t n = 1;
    for (; status != KVF_OK && n < 1000; n++) {
        kvf_arena_fini(&f->arena);
        kvf_arena_init(&f->arena, 1 << 20);
        kvf_alloc_fail_nth(n);
        status = parse(f, "a: {b: [c, d], e: f}\ng: h\n");
        kvf_alloc_fail_nth(0);
        assert_true(status == KVF_OK || status == KVF_NO_MEMORY);
    }
    assert_int_equal(status, KVF_OK);
    assert_true(n > 3);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_yaml_makes_a_tree_with_places),
        TEST(test_yaml_empty_document_has_no_tree),
        TEST(test_yaml_null_is_plain_only),
        TEST(test_yaml_refuses_graphs_and_types),
        TEST(test_yaml_reports_every_refusal),
        TEST(test_yaml_refuses_a_second_document),
        TEST(test_yaml_keys_are_text),
        TEST(test_yaml_duplicate_key_leaves_the_first),
        TEST(test_yaml_same_key_in_two_mappings_is_fine),
        TEST(test_yaml_depth_is_limited),
        TEST(test_yaml_number_of_values_is_limited),
        TEST(test_yaml_size_is_limited),
        TEST(test_yaml_many_keys_are_checked_fast),
        TEST(test_yaml_takes_utf8_only),
        TEST(test_yaml_refuses_nul),
        TEST(test_yaml_syntax_error_has_its_place),
        TEST(test_yaml_reports_missing_memory_at_every_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
