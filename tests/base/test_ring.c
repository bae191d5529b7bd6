/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ring is first in first out, refuses when full, and loses, doubles or tears nothing
 * between two threads. Run it under ThreadSanitizer too.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "base/alloc.h"
#include "base/ring.h"

static void test_ring_keeps_order_and_refuses_when_full(void **state)
{
    (void)state;
    struct kvf_ring *ring = NULL;
    assert_int_equal(kvf_ring_create(sizeof(uint32_t), 4, &ring), KVF_OK);
    uint32_t out = 0, next = 0, expected = 0;
    assert_false(kvf_ring_pop(ring, &out));
    for (int round = 0; round < 10; round++) { /* goes around more than twice */
        for (; kvf_ring_push(ring, &next); next++) {
        }
        assert_int_equal(kvf_ring_length(ring), 4);
        for (int i = 0; i < 3; i++, expected++) {
            assert_true(kvf_ring_pop(ring, &out));
            assert_int_equal(out, expected);
        }
    }
    assert_int_equal(next, expected + 1);
    kvf_ring_destroy(ring);
}

static void test_ring_rounds_up_to_a_power_of_two(void **state)
{
    (void)state;
    struct kvf_ring *ring = NULL;
    assert_int_equal(kvf_ring_create(1, 5, &ring), KVF_OK);
    for (uint8_t i = 0; i < 8; i++) {
        assert_true(kvf_ring_push(ring, &i));
    }
    uint8_t over = 8;
    assert_false(kvf_ring_push(ring, &over));
    kvf_ring_destroy(ring);
}

static void test_ring_of_one_record(void **state)
{
    (void)state;
    struct kvf_ring *ring = NULL;
    assert_int_equal(kvf_ring_create(3, 1, &ring), KVF_OK);
    char out[3];
    for (int i = 0; i < 3; i++) {
        assert_true(kvf_ring_push(ring, "abc"));
        assert_false(kvf_ring_push(ring, "def"));
        assert_true(kvf_ring_pop(ring, out));
        assert_memory_equal(out, "abc", 3);
        assert_false(kvf_ring_pop(ring, out));
    }
    kvf_ring_destroy(ring);
}

static void test_ring_create_refuses_nonsense_and_survives_no_memory(void **state)
{
    (void)state;
    struct kvf_ring *ring = NULL;
    assert_int_equal(kvf_ring_create(0, 4, &ring), KVF_INVALID_ARGUMENT);
    assert_int_equal(kvf_ring_create(4, 0, &ring), KVF_INVALID_ARGUMENT);
    assert_int_equal(kvf_ring_create(4, SIZE_MAX, &ring), KVF_INVALID_ARGUMENT);
    assert_int_equal(kvf_ring_create(SIZE_MAX / 4, 8, &ring), KVF_NO_MEMORY);
    for (uint64_t nth = 1; nth <= 2; nth++) {
        kvf_alloc_fail_nth(nth);
        assert_int_equal(kvf_ring_create(4, 4, &ring), KVF_NO_MEMORY);
    }
    assert_null(ring);
    kvf_ring_destroy(NULL);
}

/* All words of a record are equal, so that a torn one shows. */
enum { WORDS = 9, RECORDS = 200000 };

static void *produce(void *argument)
{
    struct kvf_ring *ring = argument;
    for (uint64_t i = 0; i < RECORDS; i++) {
        uint64_t record[WORDS];
        for (int word = 0; word < WORDS; word++) {
            record[word] = i;
        }
        while (!kvf_ring_push(ring, record)) {
            sched_yield();
        }
    }
    return NULL;
}

static void test_ring_between_two_threads(void **state)
{
    (void)state;
    struct kvf_ring *ring = NULL;
    assert_int_equal(kvf_ring_create(WORDS * sizeof(uint64_t), 16, &ring), KVF_OK);
    pthread_t producer;
    assert_int_equal(pthread_create(&producer, NULL, produce, ring), 0);
    for (uint64_t i = 0; i < RECORDS; i++) {
        uint64_t record[WORDS];
        while (!kvf_ring_pop(ring, record)) {
            sched_yield();
        }
        for (int word = 0; word < WORDS; word++) {
            assert_int_equal(record[word], i);
        }
    }
    assert_int_equal(pthread_join(producer, NULL), 0);
    assert_int_equal(kvf_ring_length(ring), 0);
    kvf_ring_destroy(ring);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ring_keeps_order_and_refuses_when_full),
        cmocka_unit_test(test_ring_rounds_up_to_a_power_of_two),
        cmocka_unit_test(test_ring_of_one_record),
        cmocka_unit_test(test_ring_create_refuses_nonsense_and_survives_no_memory),
        cmocka_unit_test(test_ring_between_two_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
