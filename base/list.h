/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Intrusive doubly linked list that knows its length. State is list membership: an object
 * sits on exactly one list of its kind, and "how many in state X" is a field read.
 */
#ifndef KVF_BASE_LIST_H
#define KVF_BASE_LIST_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>

struct kvf_node {
    struct kvf_node *next, *prev; /* NULL when on no list */
};
struct kvf_list {
    struct kvf_node head;
    size_t n;
};

#define KVF_CONTAINER(ptr, type, member)                                                 \
    ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

static inline void kvf_list_init(struct kvf_list *list)
{
    list->head.next = list->head.prev = &list->head;
    list->n = 0;
}

static inline bool kvf_node_is_linked(const struct kvf_node *node)
{
    return node->next != NULL;
}

static inline void kvf_list_add_tail(struct kvf_list *list, struct kvf_node *node)
{
    assert(!kvf_node_is_linked(node));
    node->prev = list->head.prev;
    node->next = &list->head;
    list->head.prev->next = node;
    list->head.prev = node;
    list->n++;
}

static inline void kvf_list_remove(struct kvf_list *list, struct kvf_node *node)
{
    assert(kvf_node_is_linked(node) && list->n > 0);
    node->prev->next = node->next;
    node->next->prev = node->prev;
    node->next = node->prev = NULL;
    list->n--;
}

static inline struct kvf_node *kvf_list_first(const struct kvf_list *list)
{
    return list->n > 0 ? list->head.next : NULL;
}

/* The successor, or NULL at the end. Take it before `node` is removed. */
static inline struct kvf_node *kvf_list_next(const struct kvf_list *list,
                                             const struct kvf_node *node)
{
    return node->next == &list->head ? NULL : node->next;
}

static inline struct kvf_node *kvf_list_pop(struct kvf_list *list)
{
    struct kvf_node *node = kvf_list_first(list);
    if (node != NULL) {
        kvf_list_remove(list, node);
    }
    return node;
}

#endif
