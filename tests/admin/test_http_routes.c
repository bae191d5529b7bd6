/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every route over real sockets: bodies compared byte for byte where the shape is a
 * contract, and 404, 405, 501, HEAD and OPTIONS as the table has them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

static void expect(struct web_answer answer, unsigned int status, const char *type,
                   const char *body)
{
    assert_int_equal(answer.status, status);
    assert_string_equal(web_header(&answer, "Content-Type"), type);
    assert_string_equal(answer.body, body);
    web_answer_free(&answer);
}

#define TEXT "text/plain; charset=utf-8"
#define JSON "application/json"

static void test_livez_stays_ok_while_draining(void **state)
{
    struct fake_admin *fake = *state;
    strcpy(fake->state, "draining");
    expect(web_get_observe(fake, "/livez"), 200, TEXT, "ok\n");
    expect(web_get_admin(fake, "/livez"), 200, TEXT, "ok\n");
}

static void test_readyz_follows_checks_and_state(void **state)
{
    struct fake_admin *fake = *state;
    expect(web_get_observe(fake, "/readyz"), 200, TEXT, "ok\n");
    fake->checks[1] = (struct kvf_admin_check){
        .name = "transport", .is_warning = true, .detail = "peer decode-0 uses tcp"};
    fake->n_checks = 2;
    expect(web_get_observe(fake, "/readyz?verbose"), 200, TEXT,
           "[+]state ok\n[+]ucx ok\n[!]transport: peer decode-0 uses tcp\n"
           "readyz check passed\n");
    fake->checks[0] = (struct kvf_admin_check){.name = "engines", .detail = "0 of 1"};
    expect(web_get_observe(fake, "/healthz"), 503, TEXT,
           "[+]state ok\n[-]engines: 0 of 1\n[!]transport: peer decode-0 uses tcp\n"
           "readyz check failed\n");
    fake->n_checks = 0;
    strcpy(fake->state, "draining");
    expect(web_get_observe(fake, "/readyz"), 503, TEXT,
           "[-]state: draining\nreadyz check failed\n");
}

static void test_readyz_speaks_json_when_asked(void **state)
{
    struct fake_admin *fake = *state;
    expect(
        web_ask(fake, kvf_admin_observe_port(fake->admin), "GET", "/readyz",
                "Accept: text/plain;q=0.5, application/json\r\n"),
        200, JSON,
        "{\"ready\":true,\"checks\":[{\"name\":\"state\",\"ok\":true,\"warning\":false,"
        "\"detail\":\"ready\"},{\"name\":\"ucx\",\"ok\":true,\"warning\":false,"
        "\"detail\":null}]}\n");
}

static void test_startupz_waits_for_start(void **state)
{
    struct fake_admin *fake = *state;
    expect(web_get_observe(fake, "/startupz"), 200, TEXT, "ok\n");
    strcpy(fake->state, "starting");
    expect(web_get_observe(fake, "/startupz"), 503, TEXT, "starting\n");
}

static void test_version_names_libraries_and_protocols(void **state)
{
    expect(web_get_observe(*state, "/version"), 200, JSON,
           "{\"name\":\"kvferry\",\"version\":\"0.1.0\",\"commit\":\"abc1234\","
           "\"ucx\":\"1.13.1\",\"cuda\":null,\"protocol\":{\"control\":[1,1],"
           "\"engine\":[1,2]}}\n");
}

static void test_index_lists_only_this_listener(void **state)
{
    struct web_answer observe = web_get_observe(*state, "/");
    struct web_answer admin = web_get_admin(*state, "/");
    assert_int_equal(observe.status, 200);
    assert_non_null(strstr(observe.body, "/metrics"));
    assert_null(strstr(observe.body, "/v1/"));
    assert_non_null(strstr(admin.body, "DELETE /v1/requests/{id}"));
    web_answer_free(&observe);
    web_answer_free(&admin);
}

static void test_metrics_are_collected_and_count_http(void **state)
{
    struct fake_admin *fake = *state;
    expect(web_get_observe(fake, "/livez"), 200, TEXT, "ok\n");
    struct web_answer answer = web_get_observe(fake, "/metrics");
    assert_int_equal(answer.status, 200);
    assert_string_equal(web_header(&answer, "Content-Type"),
                        "text/plain; version=0.0.4; charset=utf-8");
    assert_non_null(strstr(answer.body, "\nkvferry_test_value 1\n"));
    assert_non_null(strstr(
        answer.body,
        "kvferry_http_requests_total{route=\"/livez\",method=\"GET\",code=\"200\"} 1\n"));
    assert_non_null(
        strstr(answer.body,
               "kvferry_http_request_duration_seconds_count{route=\"/livez\"} 1\n"));
    web_answer_free(&answer);
}

static void test_promtool_accepts_the_whole_page(void **state)
{
    if (system("command -v promtool >/dev/null 2>&1") != 0) {
        skip();
    }
    expect(web_get_admin(*state, "/livez"), 200, TEXT, "ok\n");
    struct web_answer answer = web_get_admin(*state, "/metrics");
    FILE *promtool = popen("promtool check metrics", "w");
    assert_non_null(promtool);
    assert_int_equal(fwrite(answer.body, 1, answer.n_body, promtool), answer.n_body);
    assert_int_equal(pclose(promtool), 0);
    web_answer_free(&answer);
}

static void test_status_shape(void **state)
{
    struct fake_admin *fake = *state;
    fake->n_peers = 1;
    fake->checks[1] = (struct kvf_admin_check){
        .name = "transport", .is_warning = true, .detail = "peer decode-0 uses tcp"};
    fake->n_checks = 2;
    expect(web_get_admin(fake, "/v1/status"), 200, JSON,
           "{\"name\":\"prefill-0\",\"version\":\"0.1.0\",\"state\":\"ready\","
           "\"uptime_seconds\":8123.5,\"engines\":[{\"name\":\"vllm-0\",\"instance\":"
           "\"ctx\",\"rank\":1,\"role\":\"prefill\",\"pid\":41,\"state\":\"registered\","
           "\"pools\":2,\"registered_bytes\":61203283968,\"memory\":\"host\","
           "\"requests\":2}],\"peers\":[{\"name\":\"decode-0\",\"state\":\"up\","
           "\"address\":\"10.0.0.7:7470\",\"reason\":null,\"transport\":{\"wanted\":"
           "\"rdma\",\"actual\":\"tcp\",\"lane\":null},\"rtt_seconds\":0.00021,"
           "\"in_flight\":2,\"bytes_sent\":123,\"bytes_received\":0,\"reconnects\":1}],"
           "\"transfers\":{\"in_flight\":2,\"queued\":1,\"completed\":9120,\"failed\":3,"
           "\"cancelled\":1},\"warnings\":[{\"code\":\"transport\",\"message\":"
           "\"peer decode-0 uses tcp\"}]}\n");
}

#define ROW(sequence, id, state, status, live, error)                                    \
    "{\"sequence\":" sequence ",\"id\":\"" id "\",\"attempt\":1,\"label\":\"cmpl-" id    \
    "\",\"trace_id\":\"4bf92f3577b34da6a3ce929d0e0e4736\",\"direction\":\"send\","       \
    "\"peer\":\"decode-0\",\"engine\":\"vllm-0\",\"state\":\"" state                     \
    "\",\"status\":" status ",\"live\":" live ",\"path\":\"staged\",\"transport\":"      \
    "\"ucx\",\"lane\":\"tcp\",\"blocks\":128,\"runs\":6,\"bytes\":268435456,"            \
    "\"bytes_done\":268435456,\"accepted_at\":\"2026-11-30T21:00:00.123456Z\","          \
    "\"duration_ns\":1290000,\"error\":" error

static void test_request_shape(void **state)
{
    expect(web_get_admin(*state, "/v1/requests/cmpl-19"), 200, JSON,
           "{\"id\":\"cmpl-19\",\"items\":[" ROW(
               "3", "19", "failed", "\"PEER_LOST\"", "false",
               "{\"status\":\"PEER_LOST\",\"detail\":\"peer decode-0 closed its "
               "connection\"}") ",\"phases\":[{\"name\":\"queue\",\"start_ns\":0,"
                                "\"duration_ns\":41000},{\"name\":\"wire\",\"start_ns\":"
                                "90000,\"duration_ns\":1200000}]}]}\n");
}

static void test_requests_are_filtered_by_state(void **state)
{
    expect(web_get_admin(*state, "/v1/requests?state=active"), 200, JSON,
           "{\"items\":[" ROW("2", "18", "streaming", "null", "true",
                              "null") "}],\"next_since\":null}\n");
    expect(web_get_admin(*state, "/v1/requests?state=done&peer=decode-0"), 200, JSON,
           "{\"items\":[" ROW("1", "17", "done", "\"OK\"", "false",
                              "null") "}],\"next_since\":null}\n");
    expect(web_get_admin(*state, "/v1/requests?state=done,failed&peer=nobody"), 200, JSON,
           "{\"items\":[],\"next_since\":null}\n");
}

static void test_requests_page_by_sequence(void **state)
{
    expect(web_get_admin(*state, "/v1/requests?limit=1"), 200, JSON,
           "{\"items\":[" ROW("1", "17", "done", "\"OK\"", "false",
                              "null") "}],\"next_since\":1}\n");
    expect(web_get_admin(*state, "/v1/requests?limit=1&since=1"), 200, JSON,
           "{\"items\":[" ROW("2", "18", "streaming", "null", "true",
                              "null") "}],\"next_since\":2}\n");
}

static void test_unknown_request_is_a_problem(void **state)
{
    expect(web_get_admin(*state, "/v1/requests/77"), 404, "application/problem+json",
           "{\"type\":\"urn:kvferry:problem:request-not-found\",\"title\":\"Request not "
           "found\",\"status\":404,\"detail\":\"no request '77' is known\",\"instance\":"
           "\"urn:kvferry:http:admin:1\"}\n");
}

static struct web_answer cancel(struct fake_admin *fake, const char *target)
{
    return web_ask(fake, kvf_admin_admin_port(fake->admin), "DELETE", target,
                   "X-Kvferry: 1\r\n");
}

static void test_cancel_of_a_live_request_is_accepted(void **state)
{
    struct fake_admin *fake = *state;
    expect(cancel(fake, "/v1/requests/18"), 202, JSON,
           "{\"id\":\"18\",\"state\":\"cancelling\",\"status\":null}\n");
    assert_string_equal(fake->cancelled_id, "18");
    assert_non_null(strstr(fake->cancelled_by, "127.0.0.1:"));
}

static void test_cancel_waits_for_the_final_state(void **state)
{
    expect(cancel(*state, "/v1/requests/18?wait=2s"), 200, JSON,
           "{\"id\":\"18\",\"state\":\"cancelled\",\"status\":\"CANCELLED\"}\n");
}

static void test_cancel_stops_waiting_at_its_limit(void **state)
{
    struct fake_admin *fake = *state;
    fake->ends_on_cancel = false;
    expect(cancel(fake, "/v1/requests/18?wait=30ms"), 202, JSON,
           "{\"id\":\"18\",\"state\":\"cancelling\",\"status\":null}\n");
    assert_true(fake->n_looks >= 2);
}

static void test_cancel_after_the_end_is_no_error(void **state)
{
    expect(cancel(*state, "/v1/requests/17"), 200, JSON,
           "{\"id\":\"17\",\"state\":\"already_done\",\"status\":\"OK\"}\n");
}

static void test_cancel_of_an_unknown_request_is_404(void **state)
{
    struct web_answer answer = cancel(*state, "/v1/requests/nobody?wait=1s");
    assert_int_equal(answer.status, 404);
    web_answer_free(&answer);
}

static void test_admin_closes_while_a_cancel_waits(void **state)
{
    struct fake_admin *fake = *state;
    static const char text[] = "DELETE /v1/requests/18?wait=10s HTTP/1.1\r\n"
                               "Host: 127.0.0.1\r\nX-Kvferry: 1\r\n\r\n";
    fake->ends_on_cancel = false;
    int fd = web_connect_tcp(kvf_admin_admin_port(fake->admin));
    assert_int_equal(write(fd, text, sizeof(text) - 1), sizeof(text) - 1);
    for (int i = 0; i < 1000 && fake->n_cancels == 0; i++) {
        kvf_loop_turn(fake->loop, KVF_NS_PER_MS);
    }
    assert_int_equal(fake->n_cancels, 1);
    kvf_admin_close(fake->admin);
    fake->admin = NULL;
    struct web_answer answer = web_exchange(fake, fd, "", 0);
    assert_int_equal(answer.status, 503);
    web_answer_free(&answer);
}

static void test_unknown_path_and_wrong_listener_are_404(void **state)
{
    struct web_answer answer = web_get_observe(*state, "/v1/status");
    assert_int_equal(answer.status, 404);
    assert_non_null(strstr(answer.body, "'/v1/status' is on the other listener"));
    web_answer_free(&answer);
    answer = web_get_admin(*state, "/v1/nothing");
    assert_int_equal(answer.status, 404);
    assert_non_null(strstr(answer.body, "no '/v1/nothing' here"));
    web_answer_free(&answer);
}

static void test_wrong_method_is_405_with_allow(void **state)
{
    struct fake_admin *fake = *state;
    struct web_answer answer =
        web_ask(fake, kvf_admin_admin_port(fake->admin), "PUT", "/v1/requests/17", "");
    assert_int_equal(answer.status, 405);
    assert_string_equal(web_header(&answer, "Allow"), "GET, HEAD, OPTIONS, DELETE");
    web_answer_free(&answer);
    answer = web_ask(fake, kvf_admin_observe_port(fake->admin), "DELETE", "/livez", "");
    assert_int_equal(answer.status, 405);
    assert_string_equal(web_header(&answer, "Allow"), "GET, HEAD, OPTIONS");
    web_answer_free(&answer);
}

static void test_unknown_method_is_501(void **state)
{
    struct fake_admin *fake = *state;
    struct web_answer answer =
        web_ask(fake, kvf_admin_admin_port(fake->admin), "BREW", "/livez", "");
    assert_int_equal(answer.status, 501);
    web_answer_free(&answer);
}

static void test_options_lists_methods_without_a_body(void **state)
{
    struct fake_admin *fake = *state;
    struct web_answer answer = web_ask(fake, kvf_admin_admin_port(fake->admin), "OPTIONS",
                                       "/v1/requests/17", "");
    assert_int_equal(answer.status, 204);
    assert_string_equal(web_header(&answer, "Allow"), "GET, HEAD, OPTIONS, DELETE");
    assert_int_equal(answer.n_body, 0);
    web_answer_free(&answer);
}

static void test_head_has_the_headers_of_get_and_no_body(void **state)
{
    struct fake_admin *fake = *state;
    uint16_t port = kvf_admin_admin_port(fake->admin);
    struct web_answer got = web_get_admin(fake, "/version");
    struct web_answer answer = web_ask(fake, port, "HEAD", "/version", "");
    char length[24];
    (void)snprintf(length, sizeof(length), "%zu", got.n_body);
    assert_int_equal(answer.status, 200);
    assert_string_equal(web_header(&answer, "Content-Type"), JSON);
    assert_string_equal(web_header(&answer, "Content-Length"), length);
    assert_int_equal(answer.n_body, 0);
    web_answer_free(&got);
    web_answer_free(&answer);
    answer = web_ask(fake, port, "HEAD", "/v1/timings", "");
    assert_int_equal(answer.status, 200);
    assert_int_equal(answer.n_body, 0);
    web_answer_free(&answer);
}

static void test_wrong_query_is_400_and_names_the_key(void **state)
{
    static const struct {
        const char *target, *detail;
    } rows[] = {
        {"/v1/requests?stat=done", "unknown key 'stat'; /v1/requests takes state, peer, "
                                   "engine, since, limit"},
        {"/livez?x=1", "unknown key 'x'; /livez takes no query"},
        {"/v1/requests?limit=1&limit=2", "'limit' is given more than once"},
        {"/v1/requests?limit=0", "'limit' must be a number from 1 to 1000"},
        {"/v1/requests?limit=1001", "'limit' must be a number from 1 to 1000"},
        {"/v1/requests?limit", "'limit' must be a number from 1 to 1000"},
        {"/v1/requests?since=-1", "'since' must be a number"},
        {"/v1/requests?since=18446744073709551616", "'since' must be a number"},
        {"/v1/requests?state=done,", "'state' must be one of active, done, failed"},
        {"/v1/timings?format=xml", "'format' must be one of kvferry, trtllm"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct web_answer answer = web_get_admin(*state, rows[i].target);
        assert_int_equal(answer.status, 400);
        assert_non_null(strstr(answer.body, rows[i].detail));
        assert_non_null(strstr(answer.body, "\"errors\":[{\"key\":"));
        web_answer_free(&answer);
    }
}

static void test_wrong_wait_cancels_nothing(void **state)
{
    static const char *const waits[] = {"2",   "2m", "s",
                                        "31s", "",   "99999999999999999999s"};
    struct fake_admin *fake = *state;
    for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
        char target[64];
        (void)snprintf(target, sizeof(target), "/v1/requests/18?wait=%s", waits[i]);
        struct web_answer answer = cancel(fake, target);
        assert_int_equal(answer.status, 400);
        web_answer_free(&answer);
    }
    assert_int_equal(fake->n_cancels, 0);
}

static void test_problems_are_text_for_those_who_prefer_it(void **state)
{
    struct fake_admin *fake = *state;
    expect(web_ask(fake, kvf_admin_admin_port(fake->admin), "GET", "/v1/requests/77",
                   "Accept: text/plain\r\n"),
           404, TEXT, "Request not found: no request '77' is known\n");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_livez_stays_ok_while_draining),
        TEST(test_readyz_follows_checks_and_state),
        TEST(test_readyz_speaks_json_when_asked),
        TEST(test_startupz_waits_for_start),
        TEST(test_version_names_libraries_and_protocols),
        TEST(test_index_lists_only_this_listener),
        TEST(test_metrics_are_collected_and_count_http),
        TEST(test_promtool_accepts_the_whole_page),
        TEST(test_status_shape),
        TEST(test_request_shape),
        TEST(test_requests_are_filtered_by_state),
        TEST(test_requests_page_by_sequence),
        TEST(test_unknown_request_is_a_problem),
        TEST(test_cancel_of_a_live_request_is_accepted),
        TEST(test_cancel_waits_for_the_final_state),
        TEST(test_cancel_stops_waiting_at_its_limit),
        TEST(test_cancel_after_the_end_is_no_error),
        TEST(test_cancel_of_an_unknown_request_is_404),
        TEST(test_admin_closes_while_a_cancel_waits),
        TEST(test_unknown_path_and_wrong_listener_are_404),
        TEST(test_wrong_method_is_405_with_allow),
        TEST(test_unknown_method_is_501),
        TEST(test_options_lists_methods_without_a_body),
        TEST(test_head_has_the_headers_of_get_and_no_body),
        TEST(test_wrong_query_is_400_and_names_the_key),
        TEST(test_wrong_wait_cancels_nothing),
        TEST(test_problems_are_text_for_those_who_prefer_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
