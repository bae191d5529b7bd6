/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers that do not fit one turn of the loop: CSV in slices, long lists, slow readers,
 * and the ceiling of streams at once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <jansson.h>

#include "base/alloc.h"

#include "tests/support/web_client.h"

static int setup(void **state)
{
    struct fake_admin *fake = calloc(1, sizeof(*fake));
    fake_admin_init(fake);
    *state = fake;
    return fake_admin_open(fake, &(struct fake_listeners){.observe = NULL}) != KVF_OK;
}

static int teardown(void **state)
{
    fake_admin_fini(*state);
    free(*state);
    return 0;
}

static void test_csv_has_its_headers_and_rows(void **state)
{
    struct fake_admin *fake = *state;
    struct web_answer answer = web_get_admin(fake, "/v1/timings");
    assert_int_equal(answer.status, 200);
    assert_string_equal(answer.body, "seq,request_id\n1,1001\n2,1002\n3,1003\n");
    assert_string_equal(web_header(&answer, "Content-Type"),
                        "text/csv; charset=utf-8; header=present");
    const char *disposition = web_header(&answer, "Content-Disposition");
    assert_int_equal(
        strncmp(disposition, "attachment; filename=\"timings-prefill-0-2", 41), 0);
    assert_non_null(strstr(disposition, "Z.csv\""));
    web_answer_free(&answer);
}

static void test_csv_goes_on_after_since_in_either_format(void **state)
{
    struct web_answer answer =
        web_get_admin(*state, "/v1/timings.csv?format=trtllm&since=2");
    assert_string_equal(answer.body, "RequestID,RequestInfo\n3,1003\n");
    web_answer_free(&answer);
    answer = web_get_admin(*state, "/v1/timings?since=18446744073709551615");
    assert_string_equal(answer.body, "seq,request_id\n");
    web_answer_free(&answer);
}

static void test_long_csv_is_whole_and_asked_in_slices(void **state)
{
    struct fake_admin *fake = *state;
    uint64_t expected = 1;
    fake->n_timings = 100000;
    struct web_answer answer = web_get_admin(fake, "/v1/timings");
    assert_int_equal(answer.status, 200);
    const char *line = strchr(answer.body, '\n') + 1;
    for (; *line != '\0'; expected++) {
        char *end;
        assert_int_equal(strtoull(line, &end, 10), expected);
        assert_int_equal(*end, ',');
        line = strchr(end, '\n') + 1;
    }
    assert_int_equal(expected, 100001);
    assert_true(fake->longest_slice <= (size_t)32 * 1024);
    web_answer_free(&answer);
}

static void test_old_client_gets_the_stream_without_chunks(void **state)
{
    struct fake_admin *fake = *state;
    static const char text[] = "GET /v1/timings HTTP/1.0\r\n\r\n";
    struct web_answer answer = web_exchange(
        fake, web_connect_tcp(kvf_admin_admin_port(fake->admin)), text, sizeof(text) - 1);
    assert_int_equal(answer.status, 200);
    assert_null(web_header(&answer, "Transfer-Encoding"));
    assert_string_equal(answer.body, "seq,request_id\n1,1001\n2,1002\n3,1003\n");
    web_answer_free(&answer);
}

static void test_list_of_1000_is_valid_json_made_16_rows_a_turn(void **state)
{
    struct fake_admin *fake = *state;
    fake_admin_fill_requests(fake, 1001);
    struct web_answer answer = web_get_admin(fake, "/v1/requests?limit=1000");
    json_t *list = json_loadb(answer.body, answer.n_body, 0, NULL);
    assert_non_null(list);
    assert_int_equal(json_array_size(json_object_get(list, "items")), 1000);
    assert_int_equal(json_integer_value(json_object_get(list, "next_since")), 1000);
    assert_int_equal(fake->most_rows, 16);
    json_decref(list);
    web_answer_free(&answer);
}

static void test_limit_at_the_end_has_no_next(void **state)
{
    struct fake_admin *fake = *state;
    fake_admin_fill_requests(fake, 32);
    struct web_answer answer = web_get_admin(fake, "/v1/requests?limit=32");
    assert_non_null(strstr(answer.body, "],\"next_since\":null}\n"));
    web_answer_free(&answer);
}

/* Reads nothing: the kernel's buffers fill up and the stream stands still. */
static int open_stalled(struct fake_admin *fake)
{
    static const char text[] = "GET /v1/timings HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
    int fd = web_connect_tcp(kvf_admin_admin_port(fake->admin));
    int bytes = 4096;
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
    assert_int_equal(send(fd, text, sizeof(text) - 1, 0), sizeof(text) - 1);
    for (int i = 0; i < 50; i++) {
        kvf_loop_turn(fake->loop, KVF_NS_PER_US);
    }
    return fd;
}

static void test_fifth_stream_is_503_until_one_ends(void **state)
{
    struct fake_admin *fake = *state;
    int fds[4];
    fake->n_timings = 3000000; /* far more than socket buffers take */
    for (size_t i = 0; i < 4; i++) {
        fds[i] = open_stalled(fake);
    }
    struct web_answer answer = web_get_admin(fake, "/v1/timings");
    assert_int_equal(answer.status, 503);
    assert_string_equal(web_header(&answer, "Retry-After"), "1");
    web_answer_free(&answer);
    answer = web_get_admin(fake, "/v1/status");
    assert_int_equal(answer.status, 200); /* what does not stream is served */
    web_answer_free(&answer);
    for (size_t i = 0; i < 4; i++) {
        (void)close(fds[i]);
    }
    for (int i = 0; i < 20; i++) {
        kvf_loop_turn(fake->loop, KVF_NS_PER_MS);
    }
    fake->n_timings = 3;
    answer = web_get_admin(fake, "/v1/timings");
    assert_int_equal(answer.status, 200);
    web_answer_free(&answer);
}

static void test_stalled_reader_does_not_keep_the_daemon_from_closing(void **state)
{
    struct fake_admin *fake = *state;
    fake->n_timings = 3000000;
    int fd = open_stalled(fake);
    kvf_admin_close(fake->admin);
    fake->admin = NULL;
    (void)close(fd);
}

/* A stream that fails is cut, so that nobody takes half a file for a whole one. */
static void test_stream_without_memory_is_cut(void **state)
{
    struct fake_admin *fake = *state;
    fake_admin_fill_requests(fake, 200);
    size_t n_whole = 0;
    for (uint64_t nth = 1; nth <= 12; nth++) {
        static const char text[] = "GET /v1/requests?limit=200 HTTP/1.1\r\n"
                                   "Host: 127.0.0.1\r\nConnection: close\r\n\r\n";
        int fd = web_connect_tcp(kvf_admin_admin_port(fake->admin));
        kvf_alloc_fail_nth(nth);
        struct web_answer answer = web_exchange(fake, fd, text, sizeof(text) - 1);
        kvf_alloc_fail_nth(0);
        bool is_whole = answer.status == 200 &&
                        strcmp(answer.raw + answer.n_raw - 5, "0\r\n\r\n") == 0;
        json_t *list = json_loadb(answer.body, answer.n_body, 0, NULL);
        bool is_list = list != NULL && json_is_array(json_object_get(list, "items"));
        if (is_whole != is_list) {
            fail_msg("allocation %llu: %s", (unsigned long long)nth,
                     is_whole ? "a whole answer that is no list" : "a list cut off");
        }
        n_whole += is_whole ? 1 : 0;
        json_decref(list);
        web_answer_free(&answer);
    }
    assert_true(n_whole > 0 && n_whole < 12);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_csv_has_its_headers_and_rows),
        TEST(test_csv_goes_on_after_since_in_either_format),
        TEST(test_long_csv_is_whole_and_asked_in_slices),
        TEST(test_old_client_gets_the_stream_without_chunks),
        TEST(test_list_of_1000_is_valid_json_made_16_rows_a_turn),
        TEST(test_limit_at_the_end_has_no_next),
        TEST(test_fifth_stream_is_503_until_one_ends),
        TEST(test_stalled_reader_does_not_keep_the_daemon_from_closing),
        TEST(test_stream_without_memory_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
