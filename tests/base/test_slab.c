/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ids that go stale, ceilings, and that objects stay where they are while the slab grows.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/alloc.h"
#include "base/slab.h"

struct object {
    uint64_t value;
    char tail[33]; /* so that the size is not a multiple of the alignment */
};

static struct kvf_slab *make(uint32_t n_first, uint32_t n_max)
{
    struct kvf_slab *slab = NULL;
    assert_int_equal(kvf_slab_create(sizeof(struct object), n_first, n_max, &slab),
                     KVF_OK);
    return slab;
}

static void test_slab_acquire_gives_zeroed_aligned_objects(void **state)
{
    (void)state;
    static const struct object zero;
    struct kvf_slab *slab = make(0, 200);
    for (int round = 0; round < 2; round++) { /* fresh slots, then reused ones */
        uint64_t ids[200];
        for (int i = 0; i < 200; i++) {
            struct object *object = kvf_slab_acquire(slab, &ids[i]);
            assert_non_null(object);
            assert_int_equal((uintptr_t)object % _Alignof(max_align_t), 0);
            assert_memory_equal(object, &zero, sizeof(zero));
            memset(object, 0xaa, sizeof(*object));
        }
        for (int i = 0; i < 200; i++) {
            kvf_slab_release(slab, ids[i]);
        }
    }
    kvf_slab_destroy(slab);
}

static void test_slab_objects_do_not_move_when_it_grows(void **state)
{
    (void)state;
    enum { N = 1000 };
    static struct object *objects[N];
    static uint64_t ids[N];
    struct kvf_slab *slab = make(1, N);
    for (uint64_t i = 0; i < N; i++) {
        objects[i] = kvf_slab_acquire(slab, &ids[i]);
        assert_non_null(objects[i]);
        objects[i]->value = i;
    }
    for (uint64_t i = 0; i < N; i++) {
        assert_ptr_equal(kvf_slab_find(slab, ids[i]), objects[i]);
        assert_int_equal(objects[i]->value, i);
    }
    kvf_slab_destroy(slab);
}

static void test_slab_stale_id_misses_the_next_owner(void **state)
{
    (void)state;
    struct kvf_slab *slab = make(1, 1);
    uint64_t old_id = 0, new_id = 0;
    void *first = kvf_slab_acquire(slab, &old_id);
    kvf_slab_release(slab, old_id);
    assert_null(kvf_slab_find(slab, old_id));
    void *second = kvf_slab_acquire(slab, &new_id);
    assert_ptr_equal(first, second);
    assert_true(old_id != new_id);
    assert_null(kvf_slab_find(slab, old_id));
    assert_ptr_equal(kvf_slab_find(slab, new_id), second);
    kvf_slab_destroy(slab);
}

static void test_slab_made_up_ids_miss(void **state)
{
    (void)state;
    struct kvf_slab *slab = make(4, 100);
    uint64_t id = 0;
    assert_non_null(kvf_slab_acquire(slab, &id));
    assert_true(id != 0);
    assert_null(kvf_slab_find(slab, 0));
    assert_null(kvf_slab_find(slab, UINT64_MAX));
    for (uint32_t index = 0; index < 200; index++) {
        for (uint64_t generation = 0; generation < 4; generation++) {
            uint64_t guess = generation << 32 | index;
            assert_true(guess == id || kvf_slab_find(slab, guess) == NULL);
        }
    }
    kvf_slab_destroy(slab);
}

static void test_slab_stops_at_its_ceiling(void **state)
{
    (void)state;
    enum { MAX = 70 }; /* not a whole number of pages */
    struct kvf_slab *slab = make(0, MAX);
    uint64_t ids[MAX], none = 7;
    for (int i = 0; i < MAX; i++) {
        assert_non_null(kvf_slab_acquire(slab, &ids[i]));
    }
    assert_null(kvf_slab_acquire(slab, &none));
    assert_int_equal(none, 7);
    assert_int_equal(kvf_slab_used(slab), MAX);
    assert_int_equal(kvf_slab_max(slab), MAX);
    kvf_slab_release(slab, ids[3]);
    assert_non_null(kvf_slab_acquire(slab, &none));
    assert_int_equal(kvf_slab_used(slab), MAX);
    kvf_slab_destroy(slab);
}

static void test_slab_first_objects_need_no_allocation(void **state)
{
    (void)state;
    struct kvf_slab *slab = make(130, 1000);
    uint64_t before = kvf_alloc_count();
    uint64_t id;
    for (int i = 0; i < 130; i++) {
        assert_non_null(kvf_slab_acquire(slab, &id));
    }
    assert_int_equal(kvf_alloc_count(), before);
    kvf_slab_destroy(slab);
}

static void test_slab_create_fails_cleanly_without_memory(void **state)
{
    (void)state;
    struct kvf_slab *slab = NULL;
    uint64_t nth = 1;
    for (;; nth++) {
        kvf_alloc_fail_nth(nth);
        enum kvf_status status = kvf_slab_create(64, 100, 100, &slab);
        if (status == KVF_OK) {
            break;
        }
        assert_int_equal(status, KVF_NO_MEMORY);
        assert_null(slab);
    }
    kvf_alloc_fail_nth(0);
    assert_int_equal(nth, 6); /* itself, then table and page for each of two pages */
    kvf_slab_destroy(slab);
}

static void test_slab_acquire_survives_lack_of_memory(void **state)
{
    (void)state;
    for (uint64_t nth = 1; nth <= 2; nth++) {
        struct kvf_slab *slab = make(0, 10);
        uint64_t id = 0;
        kvf_alloc_fail_nth(nth);
        assert_null(kvf_slab_acquire(slab, &id));
        assert_int_equal(kvf_slab_used(slab), 0);
        assert_non_null(kvf_slab_acquire(slab, &id));
        kvf_slab_destroy(slab);
    }
}

static void test_slab_create_refuses_nonsense(void **state)
{
    (void)state;
    struct kvf_slab *slab = NULL;
    assert_int_equal(kvf_slab_create(0, 0, 1, &slab), KVF_INVALID_ARGUMENT);
    assert_int_equal(kvf_slab_create(8, 0, 0, &slab), KVF_INVALID_ARGUMENT);
    assert_int_equal(kvf_slab_create(8, 2, 1, &slab), KVF_INVALID_ARGUMENT);
    assert_int_equal(kvf_slab_create(8, 0, 1u << 31, &slab), KVF_INVALID_ARGUMENT);
    assert_int_equal(kvf_slab_create(SIZE_MAX, 0, 1, &slab), KVF_INVALID_ARGUMENT);
    assert_int_equal(kvf_slab_create(SIZE_MAX / 64, 0, 1, &slab), KVF_INVALID_ARGUMENT);
    assert_null(slab);
    kvf_slab_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slab_acquire_gives_zeroed_aligned_objects),
        cmocka_unit_test(test_slab_objects_do_not_move_when_it_grows),
        cmocka_unit_test(test_slab_stale_id_misses_the_next_owner),
        cmocka_unit_test(test_slab_made_up_ids_miss),
        cmocka_unit_test(test_slab_stops_at_its_ceiling),
        cmocka_unit_test(test_slab_first_objects_need_no_allocation),
        cmocka_unit_test(test_slab_create_fails_cleanly_without_memory),
        cmocka_unit_test(test_slab_acquire_survives_lack_of_memory),
        cmocka_unit_test(test_slab_create_refuses_nonsense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
