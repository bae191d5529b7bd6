/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The byte queue keeps order over any mix of appends and consumes, holds its ceilings of
 * unread bytes and of memory, and does not allocate once it has grown.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/rng.h"

static void test_buf_appends_and_consumes_in_order(void **state)
{
    (void)state;
    struct kvf_buf buf;
    kvf_buf_init(&buf, 64);
    assert_int_equal(kvf_buf_length(&buf), 0);
    assert_int_equal(kvf_buf_append(&buf, "hello ", 6), KVF_OK);
    assert_int_equal(kvf_buf_append(&buf, "world", 5), KVF_OK);
    kvf_buf_consume(&buf, 6);
    assert_int_equal(kvf_buf_length(&buf), 5);
    assert_memory_equal(kvf_buf_head(&buf), "world", 5);
    kvf_buf_fini(&buf);
}

static void test_buf_refuses_more_than_its_ceiling(void **state)
{
    (void)state;
    struct kvf_buf buf;
    kvf_buf_init(&buf, 10);
    assert_int_equal(kvf_buf_append(&buf, "0123456789", 10), KVF_OK);
    assert_int_equal(kvf_buf_append(&buf, "x", 1), KVF_BUSY);
    assert_null(kvf_buf_reserve(&buf, 1));
    assert_int_equal(kvf_buf_append(&buf, "x", SIZE_MAX), KVF_BUSY);
    assert_int_equal(kvf_buf_length(&buf), 10);
    kvf_buf_consume(&buf, 4);
    assert_int_equal(kvf_buf_append(&buf, "abcd", 4), KVF_OK);
    assert_memory_equal(kvf_buf_head(&buf), "456789abcd", 10);
    kvf_buf_fini(&buf);
}

static void test_buf_reserve_then_commit_less(void **state)
{
    (void)state;
    struct kvf_buf buf;
    kvf_buf_init(&buf, 4096);
    uint8_t *room = kvf_buf_reserve(&buf, 1000);
    assert_non_null(room);
    memcpy(room, "abc", 3);
    kvf_buf_commit(&buf, 3);
    assert_int_equal(kvf_buf_length(&buf), 3);
    assert_memory_equal(kvf_buf_head(&buf), "abc", 3);
    kvf_buf_fini(&buf);
}

static void test_buf_accepts_nothing_when_empty(void **state)
{
    (void)state;
    struct kvf_buf buf;
    kvf_buf_init(&buf, 16);
    assert_int_equal(kvf_buf_append(&buf, NULL, 0), KVF_OK);
    kvf_buf_consume(&buf, 0);
    kvf_buf_clear(&buf);
    assert_int_equal(kvf_buf_length(&buf), 0);
    kvf_buf_fini(&buf);
    kvf_buf_fini(&buf);
}

static void test_buf_lack_of_memory_keeps_the_bytes(void **state)
{
    (void)state;
    struct kvf_buf buf;
    static const uint8_t big[5000];
    kvf_buf_init(&buf, 1 << 20);
    assert_int_equal(kvf_buf_append(&buf, "kept", 4), KVF_OK);
    kvf_alloc_fail_nth(1);
    assert_int_equal(kvf_buf_append(&buf, big, sizeof(big)), KVF_NO_MEMORY);
    assert_int_equal(kvf_buf_length(&buf), 4);
    assert_memory_equal(kvf_buf_head(&buf), "kept", 4);
    assert_int_equal(kvf_buf_append(&buf, big, sizeof(big)), KVF_OK);
    kvf_buf_fini(&buf);
}

static void test_buf_clear_keeps_the_memory(void **state)
{
    (void)state;
    static const uint8_t bytes[3000];
    struct kvf_buf buf;
    kvf_buf_init(&buf, 4096);
    assert_int_equal(kvf_buf_append(&buf, bytes, sizeof(bytes)), KVF_OK);
    uint64_t before = kvf_alloc_count();
    kvf_buf_clear(&buf);
    assert_int_equal(kvf_buf_append(&buf, bytes, sizeof(bytes)), KVF_OK);
    assert_int_equal(kvf_alloc_count(), before);
    kvf_buf_fini(&buf);
}

/* Appends random lengths of a counting sequence while the ceiling allows, consumes random
 * lengths, and checks that the sequence comes out unbroken. */
static void test_buf_random_traffic_keeps_order_and_bounds(void **state)
{
    (void)state;
    enum { MAX = 5000, ROUNDS = 20000 };
    struct kvf_buf buf;
    struct kvf_rng rng;
    uint8_t next_in = 0, next_out = 0;
    kvf_buf_init(&buf, MAX);
    kvf_rng_init_seeded(&rng, 11);
    for (int round = 0; round < ROUNDS; round++) {
        size_t n = kvf_rng_below(&rng, 700);
        uint8_t *room = kvf_buf_reserve(&buf, n);
        assert_int_equal(room != NULL, kvf_buf_length(&buf) + n <= MAX);
        for (size_t i = 0; room != NULL && i < n; i++) {
            room[i] = next_in++;
        }
        kvf_buf_commit(&buf, room != NULL ? n : 0);
        size_t n_out = kvf_rng_below(&rng, kvf_buf_length(&buf) + 1);
        n_out = n_out < 600 ? n_out : 600;
        for (size_t i = 0; i < n_out; i++) {
            assert_int_equal(kvf_buf_head(&buf)[i], next_out++);
        }
        kvf_buf_consume(&buf, n_out);
        assert_true(buf.capacity <= 2 * MAX);
    }
    kvf_buf_fini(&buf);
}

static void test_buf_steady_traffic_does_not_allocate(void **state)
{
    (void)state;
    static const uint8_t bytes[100];
    struct kvf_buf buf;
    kvf_buf_init(&buf, 1000);
    uint64_t before = 0;
    for (int round = 0; round < 1000; round++) {
        assert_int_equal(kvf_buf_append(&buf, bytes, sizeof(bytes)), KVF_OK);
        if (kvf_buf_length(&buf) >= 900) {
            kvf_buf_consume(&buf, 130);
        }
        before = round == 100 ? kvf_alloc_count() : before;
    }
    assert_int_equal(kvf_alloc_count(), before);
    kvf_buf_fini(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_buf_appends_and_consumes_in_order),
        cmocka_unit_test(test_buf_refuses_more_than_its_ceiling),
        cmocka_unit_test(test_buf_reserve_then_commit_less),
        cmocka_unit_test(test_buf_accepts_nothing_when_empty),
        cmocka_unit_test(test_buf_lack_of_memory_keeps_the_bytes),
        cmocka_unit_test(test_buf_clear_keeps_the_memory),
        cmocka_unit_test(test_buf_random_traffic_keeps_order_and_bounds),
        cmocka_unit_test(test_buf_steady_traffic_does_not_allocate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
