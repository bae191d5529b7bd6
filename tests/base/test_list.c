/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Order, length, and that a node knows whether it is on a list.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/list.h"

struct item {
    int value;
    struct kvf_node node;
};

static struct item *item_of(struct kvf_node *node)
{
    return KVF_CONTAINER(node, struct item, node);
}

static void fill(struct kvf_list *list, struct item *items, int n)
{
    kvf_list_init(list);
    for (int i = 0; i < n; i++) {
        items[i] = (struct item){.value = i};
        kvf_list_add_tail(list, &items[i].node);
    }
}

static void test_list_empty_has_no_first(void **state)
{
    (void)state;
    struct kvf_list list;
    kvf_list_init(&list);
    assert_int_equal(list.n, 0);
    assert_null(kvf_list_first(&list));
    assert_null(kvf_list_pop(&list));
}

static void test_list_pops_in_order_of_adding(void **state)
{
    (void)state;
    struct kvf_list list;
    struct item items[5];
    fill(&list, items, 5);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(list.n, 5 - i);
        struct kvf_node *node = kvf_list_pop(&list);
        assert_int_equal(item_of(node)->value, i);
        assert_false(kvf_node_is_linked(node));
    }
    assert_null(kvf_list_pop(&list));
}

static void test_list_walk_survives_removal_of_the_current(void **state)
{
    (void)state;
    struct kvf_list list;
    struct item items[6];
    fill(&list, items, 6);
    struct kvf_node *node = kvf_list_first(&list);
    while (node != NULL) {
        struct kvf_node *next = kvf_list_next(&list, node);
        if (item_of(node)->value % 2 == 0) {
            kvf_list_remove(&list, node);
        }
        node = next;
    }
    assert_int_equal(list.n, 3);
    int expected = 1;
    for (node = kvf_list_first(&list); node != NULL; node = kvf_list_next(&list, node)) {
        assert_int_equal(item_of(node)->value, expected);
        expected += 2;
    }
    assert_int_equal(expected, 7);
}

static void test_list_node_moves_between_lists(void **state)
{
    (void)state;
    struct kvf_list from, to;
    struct item items[3];
    fill(&from, items, 3);
    kvf_list_init(&to);
    assert_true(kvf_node_is_linked(&items[1].node));
    kvf_list_remove(&from, &items[1].node);
    assert_false(kvf_node_is_linked(&items[1].node));
    kvf_list_add_tail(&to, &items[1].node);
    assert_true(kvf_node_is_linked(&items[1].node));
    assert_int_equal(from.n, 2);
    assert_int_equal(to.n, 1);
    assert_ptr_equal(kvf_list_next(&from, &items[0].node), &items[2].node);
    assert_null(kvf_list_next(&to, &items[1].node));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_list_empty_has_no_first),
        cmocka_unit_test(test_list_pops_in_order_of_adding),
        cmocka_unit_test(test_list_walk_survives_removal_of_the_current),
        cmocka_unit_test(test_list_node_moves_between_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
