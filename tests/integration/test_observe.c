/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an operator sees of real daemons: probes, metrics, the list of requests, and the
 * timing rows over HTTP and in files. The formats themselves are tested in tests/admin;
 * here the daemon's numbers must agree with what was moved.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/integration/fixture.h"

#define N_BLOCKS 32u

static struct fixture fixture;
static struct fixture_engine sender, receiver;
static char text[FIXTURE_TEXT_BYTES];

static void start(const char *timings)
{
    fixture_init(&fixture,
                 &(struct fixture_options){.transport = "tcp", .timings = timings});
    fixture_engine_open(&sender, &fixture.a, "ctx", N_BLOCKS);
    fixture_engine_open(&receiver, &fixture.b, "gen", N_BLOCKS);
}

static int setup(void **state)
{
    (void)state;
    start("kvferry");
    return 0;
}

static int setup_trtllm(void **state)
{
    (void)state;
    start("trtllm");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fixture_engine_close(&sender);
    fixture_engine_close(&receiver);
    fixture_fini(&fixture);
    return 0;
}

static const char *body_of(const char *answer)
{
    const char *end = strstr(answer, "\r\n\r\n");
    assert_non_null(end);
    return end + 4;
}

static void test_probes_answer(void **state)
{
    (void)state;
    assert_int_equal(fixture_observe_get(&fixture.a, "/livez", text, sizeof(text)), 200);
    assert_string_equal(body_of(text), "ok\n");
    assert_int_equal(
        fixture_observe_get(&fixture.b, "/readyz?verbose", text, sizeof(text)), 200);
    assert_non_null(strstr(text, "readyz check passed"));
}

static void test_unready_while_the_only_peer_is_away_is_a_warning(void **state)
{
    (void)state;
    uint64_t deadline_ms = fixture_now_ms() + FIXTURE_WAIT_MS;
    (void)fixture_node_stop(&fixture.b, SIGKILL);
    do {
        (void)fixture_observe_get(&fixture.a, "/readyz?verbose", text, sizeof(text));
    } while (strstr(text, "[!]") == NULL && fixture_pause_until(deadline_ms));
    assert_non_null(strstr(text, "[!]"));
    assert_non_null(strstr(text, "readyz check passed"));
}

static void test_observe_listener_changes_nothing(void **state)
{
    (void)state;
    assert_int_equal(fixture_observe_get(&fixture.a, "/v1/requests", text, sizeof(text)),
                     404);
    assert_int_equal(fixture_admin(&fixture.a, "GET", "/v1/requests", text, sizeof(text)),
                     200);
}

/* promtool's verdict on the metrics of a node after a transfer. */
static void lint_metrics(const struct fixture_node *node)
{
    assert_int_equal(fixture_observe_get(node, "/metrics", text, sizeof(text)), 200);
    int fds[2];
    const char *body = body_of(text);
    assert_int_equal(pipe(fds), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)dup2(fds[0], STDIN_FILENO);
        (void)close(fds[1]);
        (void)execlp("promtool", "promtool", "check", "metrics", (char *)NULL);
        _exit(127);
    }
    (void)close(fds[0]);
    (void)signal(SIGPIPE, SIG_IGN);
    ssize_t n = write(fds[1], body, strlen(body));
    (void)close(fds[1]);
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 127) {
        skip();
    }
    assert_int_equal(n, strlen(body));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_metrics_pass_promtool(void **state)
{
    (void)state;
    fixture_transfer(&sender, &receiver, 1);
    lint_metrics(&fixture.a);
    lint_metrics(&fixture.b);
}

static void test_requests_list_shows_live_and_done(void **state)
{
    (void)state;
    struct fixture_request request;
    fixture_transfer(&sender, &receiver, 901);
    fixture_request_init(&request, 902, 8, 0);
    request.flags = KVF_SEND_NOT_READY;
    assert_int_equal(fixture_send(&sender, &request), KVF_OK);
    uint64_t deadline_ms = fixture_now_ms() + FIXTURE_WAIT_MS;
    do {
        assert_int_equal(fixture_admin(&fixture.a, "GET", "/v1/requests?state=active",
                                       text, sizeof(text)),
                         200);
    } while (strstr(text, "902") == NULL && fixture_pause_until(deadline_ms));
    assert_non_null(strstr(text, "902"));
    assert_null(strstr(text, "901"));
    assert_int_equal(
        fixture_admin(&fixture.a, "GET", "/v1/requests?state=done", text, sizeof(text)),
        200);
    assert_non_null(strstr(text, "901"));
    assert_null(strstr(text, "902"));
    assert_int_equal(
        fixture_admin(&fixture.a, "GET", "/v1/requests/901", text, sizeof(text)), 200);
    assert_int_equal(
        fixture_admin(&fixture.a, "GET", "/v1/requests/903", text, sizeof(text)), 404);
}

static size_t lines_of(const char *body)
{
    size_t n = 0;
    for (const char *c = body; *c != '\0'; c++) {
        n += *c == '\n';
    }
    return n;
}

static void expect_rows(const struct fixture_node *node, const char *target, size_t n)
{
    assert_int_equal(fixture_admin(node, "GET", target, text, sizeof(text)), 200);
    assert_int_equal(lines_of(body_of(text)), 1 + n);
}

static void test_timings_over_http_have_a_row_per_request(void **state)
{
    (void)state;
    fixture_transfer(&sender, &receiver, 11);
    fixture_transfer(&sender, &receiver, 12);
    expect_rows(&fixture.a, "/v1/timings", 2);
    assert_non_null(strstr(text, ",direct,"));
    expect_rows(&fixture.b, "/v1/timings", 2);
    expect_rows(&fixture.a, "/v1/timings?format=trtllm", 2);
    expect_rows(&fixture.b, "/v1/timings?format=trtllm", 2);
}

/* The writer thread appends whole rows, so lines are counted until all are there. */
static void expect_file(const struct fixture_node *node, const char *file,
                        const char *first_column, size_t n)
{
    char path[FIXTURE_PATH_BYTES];
    uint64_t deadline_ms = fixture_now_ms() + FIXTURE_WAIT_MS;
    fixture_node_path(node, file, path);
    do {
        fixture_read_file(path, text, sizeof(text));
    } while (lines_of(text) < 1 + n && fixture_pause_until(deadline_ms));
    assert_int_equal(lines_of(text), 1 + n);
    assert_int_equal(strncmp(text, first_column, strlen(first_column)), 0);
}

static void transfer_three(void)
{
    fixture_transfer(&sender, &receiver, 21);
    fixture_transfer(&sender, &receiver, 22);
    fixture_transfer(&sender, &receiver, 23);
}

static void test_timing_file_has_kvferry_columns(void **state)
{
    (void)state;
    static const char columns[] = "seq,request_id,attempt,";
    transfer_three();
    expect_file(&fixture.a, "timings/timings.csv", columns, 3);
    expect_file(&fixture.b, "timings/timings.csv", columns, 3);
}

static void test_timing_files_have_trtllm_columns(void **state)
{
    (void)state;
    static const char columns[] = "RequestID,RequestInfo,Preparation,";
    transfer_three();
    expect_file(&fixture.a, "timings/ctx/rank_0_send.csv", columns, 3);
    expect_file(&fixture.b, "timings/gen/rank_0_recv.csv", columns, 3);
}

int main(void)
{
#define WITH_DAEMONS(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        WITH_DAEMONS(test_probes_answer),
        WITH_DAEMONS(test_unready_while_the_only_peer_is_away_is_a_warning),
        WITH_DAEMONS(test_observe_listener_changes_nothing),
        WITH_DAEMONS(test_metrics_pass_promtool),
        WITH_DAEMONS(test_requests_list_shows_live_and_done),
        WITH_DAEMONS(test_timings_over_http_have_a_row_per_request),
        WITH_DAEMONS(test_timing_file_has_kvferry_columns),
        cmocka_unit_test_setup_teardown(test_timing_files_have_trtllm_columns,
                                        setup_trtllm, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
