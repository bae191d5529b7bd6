/* SPDX-License-Identifier: Apache-2.0 */
/* A trace is read as it is written, and a wrong line is named instead of replayed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "examples/demo_trace.h"

#define LINE(at, n, ids)                                                                 \
    "{\"timestamp\": " at ", \"input_length\": " n ", \"hash_ids\": [" ids "]}\n"

static bool load(const char *text, size_t limit, struct trace *out)
{
    char name[] = "/tmp/kvferry-test-trace-XXXXXX";
    int fd = mkstemp(name);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    (void)close(fd);
    bool is_loaded = trace_load(name, limit, out);
    (void)unlink(name);
    return is_loaded;
}

static void test_trace_holds_requests_and_their_keys(void **state)
{
    (void)state;
    struct trace trace;
    assert_true(load(LINE("0", "1", "5") LINE("10.5", "1025", "5, 6, 7")
                         LINE("99", "512", "8"),
                     2, &trace));
    assert_int_equal(trace.n, 2); /* the limit */
    assert_int_equal(trace.requests[1].timestamp_ms, 10);
    assert_int_equal(trace.requests[1].n_tokens, 1025);
    assert_int_equal(trace.requests[1].n_keys, 3);
    assert_int_equal(trace.keys[trace.requests[1].first_key + 2], 7);
    trace_fini(&trace);
}

static void test_trace_grows(void **state)
{
    (void)state;
    enum { N = 1000 };
    char *text = calloc(N, 80);
    struct trace trace;
    size_t n = 0;
    for (int i = 0; i < N; i++) {
        n += (size_t)snprintf(text + n, 80, LINE("%d", "600", "%d, 1"), i, i);
    }
    assert_true(load(text, SIZE_MAX, &trace));
    free(text);
    assert_int_equal(trace.n, N);
    for (int i = 0; i < N; i++) {
        assert_int_equal(trace.requests[i].timestamp_ms, i);
        assert_int_equal(trace.keys[trace.requests[i].first_key], i);
    }
    trace_fini(&trace);
}

static void test_trace_refuses_what_it_cannot_replay(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "no json\n",
        "[]\n",
        LINE("-1", "1", "5"),
        LINE("\"1\"", "1", "5"),
        LINE("0", "0", ""),
        LINE("0", "1.5", "5"),
        LINE("0", "99999999999", "5"),
        LINE("0", "513", "5"),
        LINE("0", "512", "5, 6"),
        LINE("0", "512", "-5"),
        LINE("0", "512", "\"5\""),
        LINE("9", "1", "5") LINE("8", "1", "5"),
    };
    struct trace trace;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(load(bad[i], SIZE_MAX, &trace));
    }
    assert_false(trace_load("/nonexistent/trace", 1, &trace));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trace_holds_requests_and_their_keys),
        cmocka_unit_test(test_trace_grows),
        cmocka_unit_test(test_trace_refuses_what_it_cannot_replay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
