/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A frame comes back as it was sealed, from any number of bytes at a time; every kind of
 * damage is found, and a length is judged before its payload is there.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "proto/frame.h"

#define N_PAYLOAD 40u
#define N_FRAME   (KVF_FRAME_HEADER_BYTES + N_PAYLOAD)

struct fixture {
    uint8_t bytes[N_FRAME];
    struct kvf_frame frame;
    const char *detail;
};

/* Values that no failed parse may replace. */
static const struct kvf_frame untouched = {.type = 0xbeef, .sequence = 0xdead};

static struct fixture sealed(void)
{
    struct fixture f = {.frame = untouched, .detail = "untouched"};
    for (size_t i = 0; i < N_PAYLOAD; i++) {
        f.bytes[KVF_FRAME_HEADER_BYTES + i] = (uint8_t)(i * 7);
    }
    kvf_frame_seal(f.bytes, 5, N_PAYLOAD, 0x1122334455667788ull, 0x99aabbccddeeff00ull);
    return f;
}

static enum kvf_status parse(struct fixture *f, size_t n)
{
    return kvf_frame_parse(f->bytes, n, N_PAYLOAD, &f->frame, &f->detail);
}

static void assert_untouched(const struct fixture *f)
{
    assert_int_equal(f->frame.type, untouched.type);
    assert_int_equal(f->frame.sequence, untouched.sequence);
}

static void test_frame_parses_what_was_sealed(void **state)
{
    (void)state;
    struct fixture f = sealed();
    assert_int_equal(parse(&f, N_FRAME), KVF_OK);
    assert_int_equal(f.frame.version, KVF_FRAME_VERSION);
    assert_int_equal(f.frame.type, 5);
    assert_int_equal(f.frame.length, N_PAYLOAD);
    assert_true(f.frame.session_tag == 0x1122334455667788ull);
    assert_true(f.frame.sequence == 0x99aabbccddeeff00ull);
    assert_ptr_equal(f.frame.payload, f.bytes + KVF_FRAME_HEADER_BYTES);
}

/* The layout of the header, byte by byte; only the checksum is taken from the seal. */
static void test_frame_header_is_little_endian_at_fixed_offsets(void **state)
{
    (void)state;
    static const uint8_t expected[KVF_FRAME_HEADER_BYTES] = {
        'K',  'V',  'F',  '1',  1,    0,    5,    0,    40,   0,    0,
        0,    0,    0,    0,    0,    0x88, 0x77, 0x66, 0x55, 0x44, 0x33,
        0x22, 0x11, 0x00, 0xff, 0xee, 0xdd, 0xcc, 0xbb, 0xaa, 0x99};
    struct fixture f = sealed();
    assert_memory_equal(f.bytes, expected, 12);
    assert_memory_equal(f.bytes + 16, expected + 16, 16);
}

static void test_frame_without_payload_is_whole(void **state)
{
    (void)state;
    struct fixture f = sealed();
    kvf_frame_seal(f.bytes, 11, 0, 0, 0);
    assert_int_equal(parse(&f, KVF_FRAME_HEADER_BYTES), KVF_OK);
    assert_int_equal(f.frame.length, 0);
}

static void test_frame_waits_at_every_split(void **state)
{
    (void)state;
    struct fixture f = sealed();
    for (size_t n = 0; n < N_FRAME; n++) {
        assert_int_equal(parse(&f, n), KVF_IN_PROGRESS);
        assert_untouched(&f);
    }
    assert_int_equal(parse(&f, N_FRAME), KVF_OK);
}

static void test_frame_leaves_the_next_one_alone(void **state)
{
    (void)state;
    struct fixture f = sealed();
    uint8_t two[2 * N_FRAME];
    memcpy(two, f.bytes, N_FRAME);
    memset(two + N_FRAME, 0xff, N_FRAME);
    assert_int_equal(kvf_frame_parse(two, sizeof(two), N_PAYLOAD, &f.frame, &f.detail),
                     KVF_OK);
    assert_int_equal(f.frame.length, N_PAYLOAD);
}

static void test_frame_rejects_a_stranger_at_its_first_byte(void **state)
{
    (void)state;
    struct fixture f = sealed();
    memcpy(f.bytes, "GET / HTTP/1.1\r\n", 16);
    assert_int_equal(parse(&f, 1), KVF_PROTOCOL);
    assert_non_null(strstr(f.detail, "magic"));
    assert_untouched(&f);

    f = sealed();
    f.bytes[3] = '2';
    assert_int_equal(parse(&f, 3), KVF_IN_PROGRESS);
    assert_int_equal(parse(&f, 4), KVF_PROTOCOL);
}

static void test_frame_rejects_other_versions(void **state)
{
    (void)state;
    struct fixture f = sealed();
    f.bytes[4] = 2;
    assert_int_equal(parse(&f, KVF_FRAME_HEADER_BYTES), KVF_VERSION);
    assert_non_null(strstr(f.detail, "version"));
    assert_untouched(&f);
}

static void test_frame_rejects_length_over_limit_at_the_header(void **state)
{
    (void)state;
    struct fixture f = sealed();
    kvf_frame_seal(f.bytes, 5, N_PAYLOAD, 0, 0);
    f.bytes[8] = N_PAYLOAD + 1;
    assert_int_equal(parse(&f, KVF_FRAME_HEADER_BYTES), KVF_PROTOCOL);
    assert_non_null(strstr(f.detail, "longer"));
    assert_untouched(&f);

    memset(f.bytes + 8, 0xff, 4); /* 2^32 - 1 */
    assert_int_equal(parse(&f, KVF_FRAME_HEADER_BYTES), KVF_PROTOCOL);
    assert_int_equal(
        kvf_frame_parse(f.bytes, 32, KVF_FRAME_MAX_ENGINE, &f.frame, &f.detail),
        KVF_PROTOCOL);
}

static void test_frame_finds_every_flipped_bit(void **state)
{
    (void)state;
    for (size_t bit = 0; bit < N_FRAME * 8; bit++) {
        struct fixture f = sealed();
        f.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        /* A shorter length is waited for no longer; it then fails the checksum. */
        assert_int_not_equal(parse(&f, N_FRAME), KVF_OK);
        assert_untouched(&f);
    }
}

static void test_frame_checksum_error_says_so(void **state)
{
    (void)state;
    struct fixture f = sealed();
    f.bytes[N_FRAME - 1] ^= 1;
    assert_int_equal(parse(&f, N_FRAME), KVF_PROTOCOL);
    assert_non_null(strstr(f.detail, "checksum"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frame_parses_what_was_sealed),
        cmocka_unit_test(test_frame_header_is_little_endian_at_fixed_offsets),
        cmocka_unit_test(test_frame_without_payload_is_whole),
        cmocka_unit_test(test_frame_waits_at_every_split),
        cmocka_unit_test(test_frame_leaves_the_next_one_alone),
        cmocka_unit_test(test_frame_rejects_a_stranger_at_its_first_byte),
        cmocka_unit_test(test_frame_rejects_other_versions),
        cmocka_unit_test(test_frame_rejects_length_over_limit_at_the_header),
        cmocka_unit_test(test_frame_finds_every_flipped_bit),
        cmocka_unit_test(test_frame_checksum_error_says_so),
    };
    return cmocka_run_group_tests_name("frame", tests, NULL, NULL);
}
