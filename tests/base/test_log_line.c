/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One line in both forms, byte for byte; and that whatever comes in, a JSON line is one
 * line, is valid to a strict parser, and carries the text form's message.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "base/log_line.h"
#include "base/rng.h"

#define WALL_NS 1796072400123456789ull

static const struct kvf_log_event full_event = {
    .wall_ns = WALL_NS,
    .level = KVF_LOG_WARN,
    .message = "peer 10.0.0.3:7470 lost, 3 transfers cancelled",
    .node = "prefill-0",
    .n_suppressed = 57,
    .ctx = {.comp = "peer",
            .peer = "decode-1",
            .engine = "vllm/2",
            .request_id = UINT64_MAX,
            .has_request = true},
};

static const char *format_line(enum kvf_log_format format,
                               const struct kvf_log_event *event, char *out_text)
{
    struct kvf_log_line line;
    memset(&line, 0x5a, sizeof(line));
    kvf_log_line_format(format, event, &line);
    assert_in_range(line.n_bytes, 1, KVF_LOG_LINE_MAX);
    assert_ptr_equal(memchr(line.bytes, '\n', line.n_bytes),
                     line.bytes + line.n_bytes - 1);
    memcpy(out_text, line.bytes, line.n_bytes);
    out_text[line.n_bytes] = '\0';
    return out_text;
}

static json_t *parse(const char *text)
{
    json_error_t error;
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL) {
        fail_msg("%s in %s", error.text, text);
    }
    return root;
}

static void assert_message(const char *json, const char *expected)
{
    json_t *root = parse(json);
    assert_string_equal(json_string_value(json_object_get(root, "msg")), expected);
    json_decref(root);
}

static void test_log_line_text_with_every_field(void **state)
{
    (void)state;
    char text[KVF_LOG_LINE_MAX + 1];
    assert_string_equal(
        format_line(KVF_LOG_TEXT, &full_event, text),
        "2026-11-30T21:00:00.123456Z warn peer 10.0.0.3:7470 lost, 3 transfers cancelled "
        "comp=peer node=prefill-0 req=18446744073709551615 peer=decode-1 engine=vllm/2 "
        "suppressed=57\n");
}

static void test_log_line_json_with_every_field(void **state)
{
    (void)state;
    char text[KVF_LOG_LINE_MAX + 1];
    assert_string_equal(format_line(KVF_LOG_JSON, &full_event, text),
                        "{\"ts\":\"2026-11-30T21:00:00.123456Z\",\"level\":\"warn\","
                        "\"msg\":\"peer 10.0.0.3:7470 lost, 3 transfers cancelled\","
                        "\"comp\":\"peer\",\"node\":\"prefill-0\","
                        "\"req\":\"18446744073709551615\",\"peer\":\"decode-1\","
                        "\"engine\":\"vllm/2\",\"suppressed\":57}\n");
}

static void test_log_line_leaves_out_what_is_not_set(void **state)
{
    (void)state;
    struct kvf_log_event event = {.level = KVF_LOG_INFO, .message = "ready"};
    char text[KVF_LOG_LINE_MAX + 1];
    assert_string_equal(format_line(KVF_LOG_TEXT, &event, text),
                        "1970-01-01T00:00:00.000000Z info ready\n");
    assert_string_equal(format_line(KVF_LOG_JSON, &event, text),
                        "{\"ts\":\"1970-01-01T00:00:00.000000Z\",\"level\":\"info\","
                        "\"msg\":\"ready\"}\n");
}

static void test_log_line_request_zero_is_a_request(void **state)
{
    (void)state;
    struct kvf_log_event event = {.message = "x", .ctx = {.has_request = true}};
    char text[KVF_LOG_LINE_MAX + 1];
    assert_non_null(strstr(format_line(KVF_LOG_TEXT, &event, text), " req=0\n"));
}

static void test_log_line_escapes_controls_quotes_and_bytes(void **state)
{
    (void)state;
    struct kvf_log_event event = {
        .message = "a\"b\\c\nd\r\x1b[31m\x7f \xc3\xa4\xff",
        .node = "two words",
    };
    char text[KVF_LOG_LINE_MAX + 1];
    assert_string_equal(format_line(KVF_LOG_TEXT, &event, text) + 28,
                        "error a\"b\\c\\x0ad\\x0d\\x1b[31m\\x7f \\xc3\\xa4\\xff "
                        "node=two\\x20words\n");
    assert_message(format_line(KVF_LOG_JSON, &event, text),
                   "a\"b\\c\\x0ad\\x0d\\x1b[31m\\x7f \\xc3\\xa4\\xff");
}

/* Messages around the length that just fits, of characters with short and long forms. */
static void test_log_line_cuts_a_long_message_and_keeps_the_context(void **state)
{
    (void)state;
    static const char characters[] = {'m', '"', '\x01', '\xff'};
    for (size_t c = 0; c < sizeof(characters); c++) {
        for (size_t n = 1; n < 1100; n++) {
            char message[1101], text[KVF_LOG_LINE_MAX + 1];
            memset(message, characters[c], n);
            message[n] = '\0';
            struct kvf_log_event event = full_event;
            event.message = message;
            (void)format_line(KVF_LOG_TEXT, &event, text);
            assert_non_null(strstr(text, " engine=vllm/2 suppressed=57\n"));
            json_t *root = parse(format_line(KVF_LOG_JSON, &event, text));
            const char *got = json_string_value(json_object_get(root, "msg"));
            assert_non_null(got);
            bool is_cut = strstr(got, "...") != NULL;
            assert_true(n < 100 ? !is_cut : n < 850 || is_cut);
            assert_non_null(json_object_get(root, "suppressed"));
            json_decref(root);
        }
    }
}

static void test_log_line_cuts_long_context_values(void **state)
{
    (void)state;
    static const char fills[] = {'v', '"', '\n'};
    for (size_t i = 0; i < sizeof(fills); i++) {
        char value[2000], text[KVF_LOG_LINE_MAX + 1];
        memset(value, fills[i], sizeof(value) - 1);
        value[sizeof(value) - 1] = '\0';
        struct kvf_log_event event = full_event;
        event.message = value;
        event.node = value;
        event.n_suppressed = UINT32_MAX;
        event.ctx.comp = value;
        event.ctx.peer = value;
        event.ctx.engine = value;
        json_t *root = parse(format_line(KVF_LOG_JSON, &event, text));
        static const char *const keys[] = {"ts",  "level", "msg",    "comp",      "node",
                                           "req", "peer",  "engine", "suppressed"};
        assert_int_equal(json_object_size(root), 9);
        for (size_t key = 0; key < 9; key++) {
            assert_non_null(json_object_get(root, keys[key]));
        }
        assert_true(strlen(json_string_value(json_object_get(root, "msg"))) > 80);
        json_decref(root);
        (void)format_line(KVF_LOG_TEXT, &event, text);
    }
}

static void fill_random(struct kvf_rng *rng, char *out, size_t max_bytes)
{
    size_t n = kvf_rng_below(rng, max_bytes);
    for (size_t i = 0; i < n; i++) {
        out[i] = (char)(1 + kvf_rng_below(rng, 255));
    }
    out[n] = '\0';
}

static void test_log_line_json_is_valid_for_random_bytes(void **state)
{
    (void)state;
    struct kvf_rng rng;
    kvf_rng_init_seeded(&rng, 1);
    for (int i = 0; i < 5000; i++) {
        char message[1200], node[200], peer[200], text[KVF_LOG_LINE_MAX + 1];
        fill_random(&rng, message, sizeof(message));
        fill_random(&rng, node, sizeof(node));
        fill_random(&rng, peer, sizeof(peer));
        struct kvf_log_event event = {
            .wall_ns = kvf_rng_u64(&rng),
            .level = (enum kvf_log_level)kvf_rng_below(&rng, 5),
            .message = message,
            .node = node,
            .n_suppressed = (uint32_t)kvf_rng_below(&rng, 3),
            .ctx = {.comp = "peer", .peer = peer, .request_id = 5, .has_request = true},
        };
        json_decref(parse(format_line(KVF_LOG_JSON, &event, text)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_log_line_text_with_every_field),
        cmocka_unit_test(test_log_line_json_with_every_field),
        cmocka_unit_test(test_log_line_leaves_out_what_is_not_set),
        cmocka_unit_test(test_log_line_request_zero_is_a_request),
        cmocka_unit_test(test_log_line_escapes_controls_quotes_and_bytes),
        cmocka_unit_test(test_log_line_cuts_a_long_message_and_keeps_the_context),
        cmocka_unit_test(test_log_line_cuts_long_context_values),
        cmocka_unit_test(test_log_line_json_is_valid_for_random_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
