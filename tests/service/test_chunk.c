/* SPDX-License-Identifier: Apache-2.0 */
/* The chunk header keeps its bytes, and refuses everything that is not one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/crc.h"
#include "base/rng.h"
#include "service/transport.h"

static const struct kvf_chunk_header sample = {
    .token = {0xa0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0xaf},
    .receiver_session = 0x1122334455667788,
    .lease_generation = 0x0102030405060708,
    .segment = 0xcafe,
    .endpoint_generation = 3,
    .offset = 0x1000000002,
    .length = 0x200000,
    .flags = KVF_CHUNK_HAS_DIGEST,
    .digest = 0xdeadbeef,
};

/* Rewrites n bytes at `at` and makes the CRC fit, as an adversary would. */
static void forge(uint8_t *wire, size_t at, const void *bytes, size_t n)
{
    memcpy(wire + at, bytes, n);
    uint32_t crc = kvf_crc32c(0, wire, KVF_CHUNK_HEADER_BYTES - 4);
    for (size_t i = 0; i < 4; i++) {
        wire[KVF_CHUNK_HEADER_BYTES - 4 + i] = (uint8_t)(crc >> (8 * i));
    }
}

static void expect_refused(const uint8_t *wire, size_t n)
{
    struct kvf_chunk_header out = {.length = 42};
    assert_int_equal(kvf_chunk_header_read(wire, n, &out), KVF_PROTOCOL);
    assert_int_equal(out.length, 42); /* untouched */
}

static void test_chunk_header_has_these_bytes(void **state)
{
    (void)state;
    static const uint8_t golden[KVF_CHUNK_HEADER_BYTES - 4] = {
        'K',  'V',  'F',  'C',  1,  0,  72, 0,  0xa0, 1,    2,    3,    4,    5,
        6,    7,    8,    9,    10, 11, 12, 13, 14,   0xaf, 0x88, 0x77, 0x66, 0x55,
        0x44, 0x33, 0x22, 0x11, 8,  7,  6,  5,  4,    3,    2,    1,    0xfe, 0xca,
        0,    0,    3,    0,    0,  0,  2,  0,  0,    0,    0x10, 0,    0,    0,
        0,    0,    0x20, 0,    1,  0,  0,  0,  0xef, 0xbe, 0xad, 0xde};
    uint8_t wire[KVF_CHUNK_HEADER_BYTES];
    kvf_chunk_header_write(&sample, wire);
    assert_memory_equal(wire, golden, sizeof(golden));
}

static void test_chunk_header_comes_back(void **state)
{
    (void)state;
    uint8_t wire[KVF_CHUNK_HEADER_BYTES];
    struct kvf_chunk_header out;
    kvf_chunk_header_write(&sample, wire);
    assert_int_equal(kvf_chunk_header_read(wire, sizeof(wire), &out), KVF_OK);
    assert_memory_equal(out.token, sample.token, sizeof(out.token));
    assert_int_equal(out.receiver_session, sample.receiver_session);
    assert_int_equal(out.lease_generation, sample.lease_generation);
    assert_int_equal(out.segment, sample.segment);
    assert_int_equal(out.endpoint_generation, sample.endpoint_generation);
    assert_int_equal(out.offset, sample.offset);
    assert_int_equal(out.length, sample.length);
    assert_int_equal(out.flags, sample.flags);
    assert_int_equal(out.digest, sample.digest);
}

static void test_chunk_header_refuses_any_flipped_bit(void **state)
{
    (void)state;
    for (size_t bit = 0; bit < 8 * KVF_CHUNK_HEADER_BYTES; bit++) {
        uint8_t wire[KVF_CHUNK_HEADER_BYTES];
        kvf_chunk_header_write(&sample, wire);
        wire[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        expect_refused(wire, sizeof(wire));
    }
}

static void test_chunk_header_refuses_other_sizes(void **state)
{
    (void)state;
    uint8_t wire[KVF_CHUNK_HEADER_BYTES + 1] = {0};
    kvf_chunk_header_write(&sample, wire);
    expect_refused(wire, 0);
    expect_refused(wire, KVF_CHUNK_HEADER_BYTES - 1);
    expect_refused(wire, KVF_CHUNK_HEADER_BYTES + 1);
}

static void test_chunk_header_refuses_bad_fields_with_a_good_crc(void **state)
{
    (void)state;
    static const struct {
        size_t at, n;
        uint8_t bytes[8];
    } forgeries[] = {
        {0, 4, "KVFX"},
        {4, 2, {2, 0}},                                            /* version */
        {6, 2, {73, 0}},                                           /* header length */
        {48, 8, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}}, /* offset + length */
        {56, 4, {0, 0, 0, 0}},                                     /* length 0 */
        {56, 4, {1, 0, 0, 4}},                                     /* 64 MiB + 1 */
        {60, 4, {2, 0, 0, 0}},                                     /* unknown flag */
    };
    for (size_t i = 0; i < sizeof(forgeries) / sizeof(forgeries[0]); i++) {
        uint8_t wire[KVF_CHUNK_HEADER_BYTES];
        kvf_chunk_header_write(&sample, wire);
        forge(wire, forgeries[i].at, forgeries[i].bytes, forgeries[i].n);
        expect_refused(wire, sizeof(wire));
    }
}

static void test_chunk_header_takes_the_largest_length(void **state)
{
    (void)state;
    uint8_t wire[KVF_CHUNK_HEADER_BYTES];
    struct kvf_chunk_header out, header = sample;
    header.length = KVF_CHUNK_LENGTH_MAX;
    header.offset = UINT64_MAX - KVF_CHUNK_LENGTH_MAX;
    kvf_chunk_header_write(&header, wire);
    assert_int_equal(kvf_chunk_header_read(wire, sizeof(wire), &out), KVF_OK);
    assert_int_equal(out.offset, header.offset);
}

static void test_chunk_header_refuses_noise(void **state)
{
    (void)state;
    struct kvf_rng rng;
    kvf_rng_init_seeded(&rng, 11);
    for (int i = 0; i < 10000; i++) {
        uint8_t wire[KVF_CHUNK_HEADER_BYTES];
        kvf_rng_fill(&rng, wire, sizeof(wire));
        expect_refused(wire, sizeof(wire));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chunk_header_has_these_bytes),
        cmocka_unit_test(test_chunk_header_comes_back),
        cmocka_unit_test(test_chunk_header_refuses_any_flipped_bit),
        cmocka_unit_test(test_chunk_header_refuses_other_sizes),
        cmocka_unit_test(test_chunk_header_refuses_bad_fields_with_a_good_crc),
        cmocka_unit_test(test_chunk_header_takes_the_largest_length),
        cmocka_unit_test(test_chunk_header_refuses_noise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
