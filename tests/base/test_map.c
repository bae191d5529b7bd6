/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hash table on our allocator: it finds and removes, frees all it took, and an
 * insert without memory leaves the object out and the table whole.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/map.h"

struct entry {
    uint64_t key;
    UT_hash_handle hh;
};

static void add(struct entry **map, struct entry *entry)
{
    HASH_ADD(hh, *map, key, sizeof(entry->key), entry);
}

static struct entry *find(struct entry *map, uint64_t key)
{
    struct entry *found = NULL;
    HASH_FIND(hh, map, &key, sizeof(key), found);
    return found;
}

static void clear(struct entry **map)
{
    HASH_CLEAR(hh, *map);
}

static void test_map_finds_what_was_added_and_not_removed(void **state)
{
    (void)state;
    enum { N = 1000 };
    static struct entry entries[N];
    struct entry *map = NULL;
    for (uint64_t i = 0; i < N; i++) {
        entries[i].key = i * i;
        add(&map, &entries[i]);
        assert_true(KVF_MAP_ADDED(&entries[i]));
    }
    for (int i = 0; i < N; i += 2) {
        HASH_DEL(map, &entries[i]);
    }
    for (uint64_t i = 0; i < N; i++) {
        assert_ptr_equal(find(map, i * i), i % 2 == 0 ? NULL : &entries[i]);
    }
    assert_int_equal(HASH_COUNT(map), N / 2);
    clear(&map);
}

static void test_map_allocates_through_our_door(void **state)
{
    (void)state;
    struct entry *map = NULL;
    struct entry entry = {.key = 1};
    uint64_t before = kvf_alloc_count();
    add(&map, &entry);
    assert_true(kvf_alloc_count() > before);
    clear(&map);
}

static void test_map_first_insert_without_memory_leaves_it_out(void **state)
{
    (void)state;
    for (uint64_t nth = 1; nth <= 2; nth++) {
        struct entry *map = NULL;
        struct entry entry = {.key = 1};
        kvf_alloc_fail_nth(nth);
        add(&map, &entry);
        assert_false(KVF_MAP_ADDED(&entry));
        assert_null(find(map, 1));
        add(&map, &entry);
        assert_true(KVF_MAP_ADDED(&entry));
        clear(&map);
    }
}

/* Fails the allocation that grows the buckets, wherever in the sequence it comes. */
static void test_map_growth_without_memory_keeps_the_table_whole(void **state)
{
    (void)state;
    enum { N = 2000 };
    static struct entry entries[N];
    struct entry *map = NULL;
    int n_left_out = 0;
    for (uint64_t i = 0; i < N; i++) {
        entries[i] = (struct entry){.key = i};
        kvf_alloc_fail_nth(i == 0 ? 0 : 1);
        add(&map, &entries[i]);
        kvf_alloc_fail_nth(0);
        n_left_out += !KVF_MAP_ADDED(&entries[i]);
    }
    for (uint64_t i = 0; i < N; i++) {
        struct entry *expected = KVF_MAP_ADDED(&entries[i]) ? &entries[i] : NULL;
        assert_ptr_equal(find(map, i), expected);
    }
    assert_int_equal((int)HASH_COUNT(map), N - n_left_out);
    assert_true(n_left_out > 0);
    clear(&map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_map_finds_what_was_added_and_not_removed),
        cmocka_unit_test(test_map_allocates_through_our_door),
        cmocka_unit_test(test_map_first_insert_without_memory_leaves_it_out),
        cmocka_unit_test(test_map_growth_without_memory_keeps_the_table_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
