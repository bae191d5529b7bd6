/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The real kvferryctl against the fake daemon, and against servers that lie. The program
 * runs as a child; this thread turns the loop and reads its output. The path of the
 * program is the first argument.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/fake_admin.h"

#define OUTPUT_MAX  ((size_t)4 * 1024 * 1024)
#define DEADLINE_NS (20 * KVF_NS_PER_S)
#define ARGS_MAX    12

static const char *program;

struct fixture {
    struct fake_admin fake;
    char directory[32];
    char address[64]; /* of the admin socket, as kvferryctl takes it */
    char *out, *err;  /* of the last run */
    size_t n_out, n_err;
};

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    fixture->out = calloc(1, OUTPUT_MAX);
    fixture->err = calloc(1, OUTPUT_MAX);
    strcpy(fixture->directory, "/tmp/kvf-ctl-XXXXXX");
    assert_non_null(mkdtemp(fixture->directory));
    (void)snprintf(fixture->address, sizeof(fixture->address), "unix:%s/admin.sock",
                   fixture->directory);
    fake_admin_init(&fixture->fake);
    assert_int_equal(fake_admin_open(&fixture->fake,
                                     &(struct fake_listeners){.admin = fixture->address}),
                     KVF_OK);
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    char path[64];
    fake_admin_fini(&fixture->fake);
    (void)snprintf(path, sizeof(path), "%s/out.csv", fixture->directory);
    (void)unlink(path);
    assert_int_equal(rmdir(fixture->directory), 0); /* the socket file is gone */
    free(fixture->out);
    free(fixture->err);
    free(fixture);
    return 0;
}

/* False at the end of the pipe. */
static bool drain(int fd, char *out, size_t *n)
{
    for (;;) {
        ssize_t got = read(fd, out + *n, OUTPUT_MAX - 1 - *n);
        if (got < 0) {
            return errno == EAGAIN;
        }
        if (got == 0) {
            return false;
        }
        *n += (size_t)got;
    }
}

static pid_t spawn(char *const arguments[], int out, int err)
{
    char *environment[] = {strdup("TERM=xterm"), NULL};
    posix_spawn_file_actions_t actions;
    pid_t pid;
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    (void)posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO);
    int rc = posix_spawn(&pid, program, &actions, NULL, arguments, environment);
    (void)posix_spawn_file_actions_destroy(&actions);
    free(environment[0]);
    assert_int_equal(rc, 0);
    return pid;
}

/* One connection of a server that answers with these bytes, whatever is asked. */
static void serve_raw(int listener, const char *raw)
{
    char request[4096];
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0) {
        (void)recv(fd, request, sizeof(request), 0);
        (void)send(fd, raw, strlen(raw), MSG_NOSIGNAL);
        (void)shutdown(fd, SHUT_WR);
        (void)close(fd);
    }
}

/* Runs the program to its end; listener -1: only the fake daemon is there. */
static int run_with(struct fixture *fixture, char *const arguments[], int listener,
                    const char *raw)
{
    int out[2], err[2], exit_status = -1;
    assert_int_equal(pipe2(out, O_CLOEXEC | O_NONBLOCK), 0);
    assert_int_equal(pipe2(err, O_CLOEXEC | O_NONBLOCK), 0);
    /* Writing ends must block as those of a shell do. */
    (void)fcntl(out[1], F_SETFL, 0);
    (void)fcntl(err[1], F_SETFL, 0);
    fixture->n_out = fixture->n_err = 0;
    pid_t pid = spawn(arguments, out[1], err[1]);
    (void)close(out[1]);
    (void)close(err[1]);
    uint64_t deadline_ns = kvf_loop_clock_ns(fixture->fake.loop) + DEADLINE_NS;
    bool is_open = true;
    while (is_open && kvf_loop_clock_ns(fixture->fake.loop) < deadline_ns) {
        kvf_loop_turn(fixture->fake.loop, KVF_NS_PER_MS);
        if (listener >= 0) {
            serve_raw(listener, raw);
        }
        is_open = drain(out[0], fixture->out, &fixture->n_out);
        is_open |= drain(err[0], fixture->err, &fixture->n_err);
    }
    (void)close(out[0]);
    (void)close(err[0]);
    assert_int_equal(waitpid(pid, &exit_status, 0), pid);
    fixture->out[fixture->n_out] = fixture->err[fixture->n_err] = '\0';
    assert_true(WIFEXITED(exit_status));
    return WEXITSTATUS(exit_status);
}

static int run_at(struct fixture *fixture, const char *address, int listener,
                  const char *raw, const char *const *arguments)
{
    const char *list[ARGS_MAX + 4] = {program, "--addr", address};
    for (size_t i = 0; arguments[i] != NULL && i < ARGS_MAX; i++) {
        list[3 + i] = arguments[i];
    }
    return run_with(fixture, (char *const *)(uintptr_t)list, listener, raw);
}

#define RUN(fixture, ...)                                                                \
    run_at((fixture), (fixture)->address, -1, NULL,                                      \
           (const char *const[]){__VA_ARGS__, NULL})

static void expect_out(const struct fixture *fixture, const char *text)
{
    if (strstr(fixture->out, text) == NULL) {
        fail_msg("no '%s' in:\n%s%s", text, fixture->out, fixture->err);
    }
}

static void expect_error(const struct fixture *fixture, const char *text)
{
    assert_string_equal(fixture->out, "");
    assert_string_equal(fixture->err, text);
}

static void test_status_is_a_page_of_aligned_tables(void **state)
{
    struct fixture *fixture = *state;
    fixture->fake.checks[1] = (struct kvf_admin_check){
        .name = "transport", .is_warning = true, .detail = "peer decode-0 uses tcp"};
    fixture->fake.n_checks = 2;
    assert_int_equal(RUN(fixture, "status"), 0);
    assert_string_equal(
        fixture->out,
        "prefill-0  kvferry 0.1.0  ready  up 2h15m\n"
        "transfers: 2 in flight, 1 queued, 9120 completed, 3 failed, 1 cancelled\n"
        "\n"
        "ENGINE  INSTANCE  RANK  ROLE     STATE       POOLS    MEMORY  KIND  REQUESTS\n"
        "vllm-0  ctx          1  prefill  registered      2  57.0 GiB  host         2\n"
        "\n"
        "PEER      STATE  ADDRESS        TRANSPORT          RTT  IN FLIGHT   SENT  "
        "RECEIVED  REASON\n"
        "decode-0  up     10.0.0.7:7470  tcp (not rdma)  210 us          2  123 B       "
        "0 B  \n"
        "decode-1  down   10.0.0.8:7470  -                    -          0    0 B       "
        "0 B  connection refused\n"
        "\n"
        "warning transport: peer decode-0 uses tcp\n");
    assert_string_equal(fixture->err, "");
}

static void test_json_is_the_daemons_own(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(RUN(fixture, "--json", "status"), 0);
    assert_int_equal(strncmp(fixture->out, "{\"name\":\"prefill-0\",", 20), 0);
    assert_int_equal(RUN(fixture, "version", "--json"), 0);
    assert_int_equal(strncmp(fixture->out, "{\"name\":\"kvferry\",", 18), 0);
}

static void test_daemon_text_cannot_command_the_terminal(void **state)
{
    struct fixture *fixture = *state;
    strcpy(fixture->fake.peers[1].reason, "\x1b]0;owned\x07");
    strcpy(fixture->fake.state, "\x1b[2J");
    assert_int_equal(RUN(fixture, "status"), 0);
    assert_null(strchr(fixture->out, '\x1b'));
    expect_out(fixture, "\\x1b]0;owned\\x07");
}

static void test_requests_are_listed_and_filtered(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(RUN(fixture, "requests", "--state", "failed,active"), 0);
    expect_out(fixture, "SEQ  ID  LABEL    DIR   PEER      STATE      STATUS     PATH ");
    expect_out(fixture,
               "\n  3  19  cmpl-19  send  decode-0  failed     PEER_LOST  staged");
    assert_null(strstr(fixture->out, "cmpl-17"));
    assert_int_equal(RUN(fixture, "requests", "--limit", "2"), 0);
    expect_out(fixture, "\nmore: --since 2\n");
    assert_int_equal(RUN(fixture, "requests", "--limit", "2", "--since", "2"), 0);
    assert_null(strstr(fixture->out, "more:"));
    assert_int_equal(RUN(fixture, "requests", "--peer", "no body&x=1"), 0);
    assert_null(strstr(fixture->out, "cmpl"));
}

static void test_bad_filter_tells_what_the_daemon_says(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(RUN(fixture, "requests", "--limit", "0"), 1);
    expect_error(fixture,
                 "kvferryctl: 'limit' must be a number from 1 to 1000 (HTTP 400)\n");
}

static void test_long_list_arrives_whole(void **state)
{
    struct fixture *fixture = *state;
    fake_admin_fill_requests(&fixture->fake, 1000);
    assert_int_equal(RUN(fixture, "requests", "--limit", "1000"), 0);
    expect_out(fixture, "cmpl-1999 ");
    assert_true(fixture->fake.most_rows <= 16);
}

static void test_request_shows_its_phases(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(RUN(fixture, "request", "cmpl-19"), 0);
    expect_out(fixture, "request    19\n");
    expect_out(fixture, "detail     peer decode-0 closed its connection\n");
    expect_out(fixture, "moved      256.0 MiB of 256.0 MiB, 128 blocks in 6 runs\n");
    expect_out(fixture, "phases     queue        at      0 ns for     41 us\n"
                        "           wire         at     90 us for    1.2 ms\n");
}

static void test_unknown_request_exits_4(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(RUN(fixture, "request", "a/b c"), 4);
    expect_error(fixture, "kvferryctl: no request 'a/b c' is known (HTTP 404)\n");
}

static void test_cancel_takes_several_and_tries_all(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(RUN(fixture, "cancel", "77", "18", "17", "--wait", "2s"), 4);
    assert_string_equal(fixture->out, "18: cancelled\n17: already_done\n");
    assert_int_equal(fixture->fake.n_cancels, 3);
    assert_non_null(strstr(fixture->fake.cancelled_by, "uid "));
}

static void test_timings_go_to_stdout_or_a_file(void **state)
{
    struct fixture *fixture = *state;
    char path[64];
    struct stat file;
    assert_int_equal(RUN(fixture, "timings"), 0);
    assert_string_equal(fixture->out, "seq,request_id\n1,1001\n2,1002\n3,1003\n");
    assert_int_equal(RUN(fixture, "timings", "--format", "trtllm", "--since", "2"), 0);
    assert_string_equal(fixture->out, "RequestID,RequestInfo\n3,1003\n");
    (void)snprintf(path, sizeof(path), "%s/out.csv", fixture->directory);
    fixture->fake.n_timings = 200000;
    assert_int_equal(RUN(fixture, "timings", "-o", path), 0);
    assert_string_equal(fixture->out, "");
    assert_int_equal(stat(path, &file), 0);
    assert_true(file.st_size > 2000000);
    assert_int_equal(RUN(fixture, "timings", "-o", "/nonexistent/x.csv"), 1);
    expect_error(fixture, "kvferryctl: cannot write /nonexistent/x.csv: No such file or "
                          "directory\n");
}

static void test_metrics_are_cut_by_prefix(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(RUN(fixture, "metrics", "kvferry_test"), 0);
    assert_string_equal(fixture->out, "# HELP kvferry_test_value Set by the collector.\n"
                                      "# TYPE kvferry_test_value gauge\n"
                                      "kvferry_test_value 1\n");
}

static void test_version_names_both_programs(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(RUN(fixture, "version"), 0);
    assert_string_equal(fixture->out, "kvferryctl 0.1.0\n"
                                      "kvferryd 0.1.0, commit abc1234, UCX 1.13.1\n");
}

static void test_healthcheck_exits_by_readiness(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(RUN(fixture, "healthcheck"), 0);
    assert_string_equal(fixture->out, "ready\n");
    strcpy(fixture->fake.state, "draining");
    assert_int_equal(RUN(fixture, "healthcheck"), 1);
    assert_string_equal(fixture->out, "not ready\nstate: draining\n");
    assert_string_equal(fixture->err, "");
}

static void test_usage_errors_exit_2(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(RUN(fixture, "frobnicate"), 2);
    expect_error(fixture, "kvferryctl: no command 'frobnicate'; see kvferryctl help\n");
    assert_int_equal(RUN(fixture, "request"), 2);
    expect_error(fixture, "kvferryctl: usage: kvferryctl request ID\n");
    assert_int_equal(RUN(fixture, "status", "--limit", "3"), 2);
    expect_error(fixture,
                 "kvferryctl: status takes no --limit; see kvferryctl help status\n");
    assert_int_equal(RUN(fixture, "status", "--nonsense"), 2);
    assert_int_equal(RUN(fixture, "status", "--addr", "ftp://x"), 2);
    expect_error(fixture, "kvferryctl: bad address 'ftp://x': an address is unix:PATH or "
                          "http://HOST:PORT\n");
    assert_int_equal(RUN(fixture, "status", "--token-file", "/nonexistent"), 2);
}

static void test_help_lists_commands_and_options(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(RUN(fixture, "help"), 0);
    expect_out(fixture, "\n  cancel ID... ");
    assert_int_equal(RUN(fixture, "cancel", "--help"), 0);
    expect_out(fixture, "usage: kvferryctl cancel [OPTIONS] ID...\n");
    expect_out(fixture, "--wait TIME");
}

static void test_absent_daemon_exits_3(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(RUN(fixture, "--addr", "unix:/nonexistent/a.sock", "status"), 3);
    expect_error(fixture, "kvferryctl: cannot reach daemon at unix:/nonexistent/a.sock: "
                          "No such file or directory (is it running? KVFERRY_ADDR?)\n");
    assert_int_equal(RUN(fixture, "--addr", "http://127.0.0.1:1", "healthcheck"), 3);
}

static void test_wrong_token_exits_5(void **state)
{
    struct fixture *fixture = *state;
    char path[] = "/tmp/kvf-token-XXXXXX";
    char address[64];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "s3cret\n", 7), 7);
    (void)close(fd);
    kvf_admin_close(fixture->fake.admin);
    fixture->fake.admin = NULL;
    assert_int_equal(
        fake_admin_open(&fixture->fake, &(struct fake_listeners){.token_file = path}),
        KVF_OK);
    (void)snprintf(address, sizeof(address), "http://127.0.0.1:%u",
                   kvf_admin_admin_port(fixture->fake.admin));
    assert_int_equal(RUN(fixture, "--addr", address, "status"), 5);
    assert_int_equal(RUN(fixture, "--addr", address, "--token-file", path, "status"), 0);
    expect_out(fixture, "prefill-0");
    (void)unlink(path);
}

/* ---- servers that lie */

static int run_raw(struct fixture *fixture, const char *raw, const char *command)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(at);
    char address[64];
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &length), 0);
    (void)snprintf(address, sizeof(address), "http://127.0.0.1:%u", ntohs(at.sin_port));
    int code =
        run_at(fixture, address, listener, raw, (const char *const[]){command, NULL});
    (void)close(listener);
    return code;
}

static void test_foreign_servers_are_told_apart(void **state)
{
    static const struct {
        const char *raw, *error;
    } rows[] = {
        {"SSH-2.0-OpenSSH_9.2\r\n\r\n", "does not speak HTTP"},
        {"HTTP/1.1 999 Odd\r\n\r\n", "does not speak HTTP"},
        {"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", "does not speak HTTP"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
         "does not speak HTTP"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}}",
         "does not speak HTTP"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n<p>", "does not speak JSON"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", "broke off"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{}", "broke off"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n", "broke off"},
        {"HTTP/1.1 500 \x1b[2J\r\n\r\noh \x1b[2J no\n", "oh \\x1b[2J no (HTTP 500)"},
        {"", "broke off"},
    };
    struct fixture *fixture = *state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(run_raw(fixture, rows[i].raw, "status"), 1);
        if (strstr(fixture->err, rows[i].error) == NULL) {
            fail_msg("row %zu: %s", i, fixture->err);
        }
    }
}

static void test_every_framing_is_read(void **state)
{
    static const char *const bodies[] = {
        "HTTP/1.0 200 OK\r\n\r\n{\"state\":\"ready\"}",
        "HTTP/1.1 200 OK\r\ncontent-length:17\r\n\r\n{\"state\":\"ready\"}rest",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\n{\"\r\nF\r\n"
        "state\":\"ready\"}\r\n0\r\nTrailer: x\r\n\r\n",
    };
    struct fixture *fixture = *state;
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        assert_int_equal(run_raw(fixture, bodies[i], "status"), 0);
        expect_out(fixture, "  ready  up 0m00s\n");
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(test_status_is_a_page_of_aligned_tables),
        TEST(test_json_is_the_daemons_own),
        TEST(test_daemon_text_cannot_command_the_terminal),
        TEST(test_requests_are_listed_and_filtered),
        TEST(test_bad_filter_tells_what_the_daemon_says),
        TEST(test_long_list_arrives_whole),
        TEST(test_request_shows_its_phases),
        TEST(test_unknown_request_exits_4),
        TEST(test_cancel_takes_several_and_tries_all),
        TEST(test_timings_go_to_stdout_or_a_file),
        TEST(test_metrics_are_cut_by_prefix),
        TEST(test_version_names_both_programs),
        TEST(test_healthcheck_exits_by_readiness),
        TEST(test_usage_errors_exit_2),
        TEST(test_help_lists_commands_and_options),
        TEST(test_absent_daemon_exits_3),
        TEST(test_wrong_token_exits_5),
        TEST(test_foreign_servers_are_told_apart),
        TEST(test_every_framing_is_read),
    };
    if (argc != 2) {
        return 1;
    }
    program = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
