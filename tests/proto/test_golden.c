/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Golden frames: one file of hex per message type, compared byte for byte with what the
 * sample encodes to, and decoded back to it. They are what released programs send and
 * expect, so they change only when a type is added:
 *
 *     test_golden DIRECTORY                        compares
 *     test_golden --write-missing DIRECTORY        writes the files that do not exist
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/frame.h"
#include "samples.h"
#include "walk.h"

#define LINE_BYTES 32u
#define FRAME_MAX  4096u

static const char *directory;

static void encode(const struct kvf_message *message, struct kvf_buf *out)
{
    kvf_buf_init(out, FRAME_MAX);
    assert_int_equal(
        kvf_message_encode(message, 0x0102030405060708ull, message->type, out), KVF_OK);
}

static FILE *open_golden(const struct kvf_message *message, const char *mode)
{
    char path[4096];
    int n = snprintf(path, sizeof(path), "%s/%s.hex", directory,
                     kvf_message_name(message->type));
    assert_true(n > 0 && (size_t)n < sizeof(path));
    return fopen(path, mode);
}

static size_t read_golden(const struct kvf_message *message, uint8_t bytes[FRAME_MAX])
{
    unsigned int byte = 0;
    size_t n = 0;
    FILE *file = open_golden(message, "r");
    assert_non_null(file);
    while (n < FRAME_MAX && fscanf(file, "%2x", &byte) == 1) {
        bytes[n++] = (uint8_t)byte;
    }
    assert_true(feof(file));
    assert_int_equal(fclose(file), 0);
    return n;
}

static void write_golden(const struct kvf_message *message)
{
    struct kvf_buf frame;
    FILE *file = open_golden(message, "wx");
    if (file == NULL) {
        return; /* it exists, and stays what it is */
    }
    encode(message, &frame);
    for (size_t i = 0; i < kvf_buf_length(&frame); i++) {
        bool is_last = (i + 1) % LINE_BYTES == 0 || i + 1 == kvf_buf_length(&frame);
        assert_true(
            fprintf(file, "%02x%s", kvf_buf_head(&frame)[i], is_last ? "\n" : "") > 0);
    }
    assert_int_equal(fclose(file), 0);
    kvf_buf_fini(&frame);
}

static void test_golden_frames_are_what_we_send(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_SAMPLES; i++) {
        uint8_t golden[FRAME_MAX];
        struct kvf_buf frame;
        encode(sample(i), &frame);
        size_t n = read_golden(sample(i), golden);
        assert_int_equal(n, kvf_buf_length(&frame));
        assert_memory_equal(golden, kvf_buf_head(&frame), n);
        kvf_buf_fini(&frame);
    }
}

static void test_golden_frames_are_what_we_understand(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_SAMPLES; i++) {
        uint8_t golden[FRAME_MAX];
        struct kvf_frame frame;
        struct kvf_arena arena;
        struct kvf_message message;
        const char *detail = "";
        size_t n = read_golden(sample(i), golden);
        assert_int_equal(
            kvf_frame_parse(golden, n, KVF_FRAME_MAX_UNPROVEN, &frame, &detail), KVF_OK);
        kvf_arena_init(&arena, kvf_message_budget(frame.length));
        assert_int_equal(kvf_message_decode(frame.type, frame.payload, frame.length,
                                            &arena, &message, &detail),
                         KVF_OK);
        assert_int_equal(message.type, sample(i)->type);
        assert_true(kvf_schema_equal(kvf_message_schema(message.type), &message.u,
                                     &sample(i)->u));
        kvf_arena_fini(&arena);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_frames_are_what_we_send),
        cmocka_unit_test(test_golden_frames_are_what_we_understand),
    };
    bool is_writing = argc == 3 && strcmp(argv[1], "--write-missing") == 0;
    if (argc != 2 && !is_writing) {
        (void)fputs("usage: test_golden [--write-missing] DIRECTORY\n", stderr);
        return EXIT_FAILURE;
    }
    directory = argv[argc - 1];
    for (size_t i = 0; is_writing && i < N_SAMPLES; i++) {
        write_golden(sample(i));
    }
    return cmocka_run_group_tests_name("golden", tests, NULL, NULL);
}
