/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checks as a client meets them: order, codes and headers over real sockets; raw
 * garbage on the port; who may open which listener. The decisions themselves are tested
 * in test_guard.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/rng.h"

#include "tests/support/web_client.h"

static int setup_closed(void **state)
{
    struct fake_admin *fake = calloc(1, sizeof(*fake));
    fake_admin_init(fake);
    *state = fake;
    return 0;
}

static int setup(void **state)
{
    (void)setup_closed(state);
    return fake_admin_open(*state, &(struct fake_listeners){.observe = NULL}) != KVF_OK;
}

static int teardown(void **state)
{
    fake_admin_fini(*state);
    free(*state);
    return 0;
}

/* Sends text to the admin listener as it is. */
static struct web_answer send_raw(struct fake_admin *fake, const char *text, size_t n)
{
    return web_exchange(fake, web_connect_tcp(kvf_admin_admin_port(fake->admin)), text,
                        n);
}

static unsigned int status_of(struct web_answer answer)
{
    unsigned int status = answer.status;
    web_answer_free(&answer);
    return status;
}

static unsigned int ask(struct fake_admin *fake, const char *method, const char *target,
                        const char *headers)
{
    return status_of(
        web_ask(fake, kvf_admin_admin_port(fake->admin), method, target, headers));
}

/* Sends bytes, lets the server look at them, and leaves without reading. */
static void poke(struct fake_admin *fake, const void *bytes, size_t n)
{
    int fd = web_connect_tcp(kvf_admin_admin_port(fake->admin));
    assert_int_equal(send(fd, bytes, n, MSG_NOSIGNAL), n);
    for (int i = 0; i < 4; i++) {
        kvf_loop_turn(fake->loop, KVF_NS_PER_US);
    }
    (void)close(fd);
    for (int i = 0; i < 4; i++) {
        kvf_loop_turn(fake->loop, KVF_NS_PER_US);
    }
}

/* Number of answers in what came back. */
static size_t count_answers(const struct web_answer *answer)
{
    size_t n = 0;
    for (const char *at = answer->raw; (at = strstr(at, "HTTP/1.1 ")) != NULL; at++) {
        n++;
    }
    return n;
}

static void test_host_from_elsewhere_is_421(void **state)
{
    static const char text[] = "GET /livez HTTP/1.1\r\nHost: evil.example\r\n"
                               "Connection: close\r\n\r\n";
    static const char listed[] = "GET /livez HTTP/1.1\r\nHost: kvferry.example:1\r\n"
                                 "Connection: close\r\n\r\n";
    assert_int_equal(status_of(send_raw(*state, text, sizeof(text) - 1)), 421);
    assert_int_equal(status_of(send_raw(*state, listed, sizeof(listed) - 1)), 200);
}

static void test_two_hosts_are_400(void **state)
{
    assert_int_equal(ask(*state, "GET", "/livez", "Host: 127.0.0.1\r\n"), 400);
}

static void test_missing_host_is_400_but_for_old_probes(void **state)
{
    static const char without[] = "GET /livez HTTP/1.1\r\nConnection: close\r\n\r\n";
    static const char old[] = "GET /livez HTTP/1.0\r\n\r\n";
    assert_int_equal(status_of(send_raw(*state, without, sizeof(without) - 1)), 400);
    assert_int_equal(status_of(send_raw(*state, old, sizeof(old) - 1)), 200);
}

static void test_foreign_origin_is_403_also_for_reading(void **state)
{
    assert_int_equal(ask(*state, "GET", "/v1/status", "Origin: http://evil\r\n"), 403);
    assert_int_equal(ask(*state, "GET", "/v1/status", "Origin: http://127.0.0.1\r\n"),
                     200);
}

static void test_unmarked_change_is_403_and_changes_nothing(void **state)
{
    struct fake_admin *fake = *state;
    struct web_answer answer =
        web_ask(fake, kvf_admin_admin_port(fake->admin), "DELETE", "/v1/requests/18", "");
    assert_int_equal(answer.status, 403);
    assert_non_null(strstr(answer.body, "X-Kvferry: 1"));
    web_answer_free(&answer);
    assert_int_equal(fake->n_cancels, 0);
    assert_int_equal(
        ask(fake, "DELETE", "/v1/requests/18", "Content-Type: application/json\r\n"),
        202);
    assert_int_equal(fake->n_cancels, 1);
}

static void test_paths_with_tricks_are_400(void **state)
{
    static const char *const targets[] = {
        "/v1/../livez", "/v1/%2e%2e/livez", "/..", "/livez%00", "/livez%0a",
        "/livez%zz",    "/livez%4",         "/a%", "livez",     "http://127.0.0.1/livez",
    };
    for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
        unsigned int status = ask(*state, "GET", targets[i], "");
        if (status != 400) {
            fail_msg("%s: %u", targets[i], status);
        }
    }
}

static void test_escapes_are_decoded_once(void **state)
{
    struct web_answer answer = web_get_admin(*state, "/v1/requests/a%252Fb%20c");
    assert_int_equal(answer.status, 404);
    assert_non_null(strstr(answer.body, "no request 'a%2Fb c' is known"));
    web_answer_free(&answer);
    assert_int_equal(ask(*state, "GET", "/l%69vez", ""), 200);
    assert_int_equal(ask(*state, "GET", "/v1/requests?peer=a%00b", ""), 400);
}

static void test_bytes_that_are_not_text_are_answered_as_text(void **state)
{
    struct web_answer answer = web_get_admin(*state, "/v1/requests/%ff%fe");
    assert_int_equal(answer.status, 404);
    assert_non_null(strstr(answer.body, "'\\\\xff\\\\xfe'"));
    web_answer_free(&answer);
}

/* What follows a refused body must not be read as a request. */
static void test_smuggling_gets_one_answer_and_no_second_request(void **state)
{
    static const char *const rows[] = {
        "POST /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\n"
        "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /livez HTTP/1.1\r\n"
        "Host: 127.0.0.1\r\n\r\n",
        "GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\n"
        "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /livez HTTP/1.1\r\n"
        "Host: 127.0.0.1\r\n\r\n",
        "DELETE /v1/requests/18 HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Kvferry: 1\r\n"
        "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /livez HTTP/1.1\r\n"
        "Host: 127.0.0.1\r\n\r\n",
        "DELETE /v1/requests/18 HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Kvferry: 1\r\n"
        "Content-Length: 99999\r\n\r\nGET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        "GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\n"
        "Content-Length: 6\r\n\r\n12345GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    };
    struct fake_admin *fake = *state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct web_answer answer = send_raw(fake, rows[i], strlen(rows[i]));
        if (count_answers(&answer) > 1 || answer.status == 200) {
            fail_msg("row %zu: %s", i, answer.raw);
        }
        web_answer_free(&answer);
    }
    assert_int_equal(fake->n_cancels, 0);
}

static void test_refused_bodies_have_their_codes(void **state)
{
    struct fake_admin *fake = *state;
    assert_int_equal(ask(fake, "POST", "/livez",
                         "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n"),
                     400);
    assert_int_equal(ask(fake, "POST", "/livez", "Transfer-Encoding: chunked\r\n"), 411);
    assert_int_equal(ask(fake, "PUT", "/livez", "Content-Length: 65537\r\n"), 413);
    assert_int_equal(ask(fake, "DELETE", "/livez", "Content-Length: 65537\r\n"), 413);
    assert_int_equal(ask(fake, "GET", "/livez", "Transfer-Encoding: chunked\r\n"), 411);
}

static void test_allowed_body_is_skipped_and_the_connection_goes_on(void **state)
{
    static const char text[] =
        "DELETE /v1/requests/18 HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Kvferry: 1\r\n"
        "Content-Length: 40\r\n\r\nGET /nowhere HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        "GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n";
    struct web_answer answer = send_raw(*state, text, sizeof(text) - 1);
    assert_int_equal(answer.status, 202);
    assert_int_equal(count_answers(&answer), 2);
    assert_non_null(strstr(answer.raw, "\r\n\r\nok\n"));
    web_answer_free(&answer);
}

static void test_control_characters_in_headers_are_400(void **state)
{
    assert_int_equal(ask(*state, "GET", "/livez", "X: a\x01z\r\n"), 400);
}

static void test_too_long_a_head_is_refused(void **state)
{
    struct fake_admin *fake = *state;
    char *text = malloc(70000);
    int n = snprintf(text, 100, "GET /livez?");
    memset(text + n, 'a', 60000);
    (void)snprintf(text + n + 60000, 100, " HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    unsigned int status = status_of(send_raw(fake, text, strlen(text)));
    assert_true(status == 414 || status == 431 || status == 0);
    free(text);
    assert_int_equal(ask(fake, "GET", "/livez", ""), 200);
}

static void test_garbage_leaves_the_listener_alive(void **state)
{
    static const char *const rows[] = {
        "",
        "\r\n\r\n",
        "GET\r\n\r\n",
        "GET /\r\n\r\n",
        "\x16\x03\x01\x02\x00\x01",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "GET / HTTP/1.1\r\nHost\r\n\r\n",
        "GET / HTTP/1.1\r\n: x\r\n\r\n",
        "GET  /  HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n folded\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n",
    };
    struct fake_admin *fake = *state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        poke(fake, rows[i], strlen(rows[i]));
        assert_int_equal(ask(fake, "GET", "/livez", ""), 200);
    }
}

static void test_random_bytes_leave_the_listener_alive(void **state)
{
    struct fake_admin *fake = *state;
    struct kvf_rng rng;
    kvf_rng_init_seeded(&rng, 20261201);
    for (int i = 0; i < 2000; i++) {
        char bytes[512];
        size_t n = (size_t)kvf_rng_below(&rng, sizeof(bytes));
        kvf_rng_fill(&rng, bytes, n);
        if (i % 2 == 0 && n > 64) { /* past the request line */
            memcpy(bytes, "GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n", 39);
            memcpy(bytes + n - 4, "\r\n\r\n", 4);
        }
        poke(fake, bytes, n);
    }
    assert_int_equal(ask(fake, "GET", "/livez", ""), 200);
}

static void test_client_that_leaves_early_is_forgotten(void **state)
{
    struct fake_admin *fake = *state;
    for (int i = 0; i < 100; i++) { /* more than the connections that may be open */
        int fd = web_connect_tcp(kvf_admin_admin_port(fake->admin));
        static const char text[] = "GET /v1/timings HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
        (void)send(fd, text, sizeof(text) - 1, MSG_NOSIGNAL);
        kvf_loop_turn(fake->loop, KVF_NS_PER_MS);
        (void)close(fd);
        kvf_loop_turn(fake->loop, KVF_NS_PER_MS);
        kvf_loop_turn(fake->loop, KVF_NS_PER_MS);
    }
    struct web_answer answer = web_get_admin(fake, "/v1/timings");
    assert_int_equal(answer.status, 200); /* the streams were given back */
    web_answer_free(&answer);
}

static void test_one_address_gets_16_connections(void **state)
{
    struct fake_admin *fake = *state;
    int fds[16];
    for (size_t i = 0; i < 16; i++) {
        fds[i] = web_connect_tcp(kvf_admin_admin_port(fake->admin));
        kvf_loop_turn(fake->loop, KVF_NS_PER_MS);
    }
    assert_int_equal(ask(fake, "GET", "/livez", ""), 0);
    for (size_t i = 0; i < 16; i++) {
        (void)close(fds[i]);
    }
    for (int i = 0; i < 20; i++) {
        kvf_loop_turn(fake->loop, KVF_NS_PER_MS);
    }
    assert_int_equal(ask(fake, "GET", "/livez", ""), 200);
}

/* ---- opening */

static void write_token(char *path)
{
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "s3cret\n", 7), 7);
    (void)close(fd);
}

static void test_token_guards_v1_and_not_the_probes(void **state)
{
    struct fake_admin *fake = *state;
    char path[] = "/tmp/kvf-token-XXXXXX";
    write_token(path);
    assert_int_equal(fake_admin_open(fake, &(struct fake_listeners){.token_file = path}),
                     KVF_OK);
    (void)unlink(path);
    struct web_answer answer = web_get_admin(fake, "/v1/status");
    assert_int_equal(answer.status, 401);
    assert_string_equal(web_header(&answer, "WWW-Authenticate"),
                        "Bearer realm=\"kvferry\"");
    web_answer_free(&answer);
    assert_int_equal(ask(fake, "GET", "/v1/status", "Authorization: Bearer x\r\n"), 401);
    assert_int_equal(ask(fake, "GET", "/v1/status", "Authorization: Bearer s3cret\r\n"),
                     200);
    assert_int_equal(ask(fake, "GET", "/livez", ""), 200);
    assert_int_equal(ask(fake, "DELETE", "/v1/requests/18", "X-Kvferry: 1\r\n"), 401);
    assert_int_equal(fake->n_cancels, 0);
    assert_int_equal(ask(fake, "DELETE", "/v1/requests/18",
                         "X-Kvferry: 1\r\nAuthorization: Bearer s3cret\r\n"),
                     202);
    assert_int_equal(strncmp(fake->cancelled_by, "token from 127.0.0.1:", 21), 0);
}

static void test_open_door_beyond_loopback_is_refused(void **state)
{
    struct fake_admin *fake = *state;
    char path[] = "/tmp/kvf-token-XXXXXX";
    assert_int_equal(
        fake_admin_open(fake, &(struct fake_listeners){.admin = "0.0.0.0:0"}),
        KVF_CONFIG);
    assert_null(fake->admin);
    write_token(path);
    assert_int_equal(fake_admin_open(fake, &(struct fake_listeners){.admin = "0.0.0.0:0",
                                                                    .token_file = path}),
                     KVF_OK);
    (void)unlink(path);
    kvf_admin_close(fake->admin);
    fake->admin = NULL;
    assert_int_equal(fake_admin_open(fake, &(struct fake_listeners){.admin = "0.0.0.0:0",
                                                                    .is_insecure = true}),
                     KVF_OK);
}

static void test_unreadable_token_file_keeps_the_door_shut(void **state)
{
    struct fake_admin *fake = *state;
    assert_int_equal(
        fake_admin_open(fake, &(struct fake_listeners){.token_file = "/nonexistent"}),
        KVF_CONFIG);
    assert_null(fake->admin);
}

static void test_listeners_that_cannot_open_leave_nothing(void **state)
{
    struct fake_admin *fake = *state;
    static const char *const bad[] = {"192.0.2.1:0", "name.example:0",
                                      "unix:/nonexistent/admin.sock"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(
            fake_admin_open(
                fake, &(struct fake_listeners){.admin = bad[i], .is_insecure = true}),
            KVF_CONFIG);
        assert_null(fake->admin);
    }
}

/* ---- the unix socket */

static void test_unix_socket_is_for_owner_and_group(void **state)
{
    struct fake_admin *fake = *state;
    char directory[] = "/tmp/kvf-admin-XXXXXX";
    char path[64];
    char address[80];
    struct stat file;
    assert_non_null(mkdtemp(directory));
    (void)snprintf(path, sizeof(path), "%s/a.sock", directory);
    (void)snprintf(address, sizeof(address), "unix:%s", path);
    mode_t mask = umask(077);
    assert_int_equal(fake_admin_open(fake, &(struct fake_listeners){.admin = address}),
                     KVF_OK);
    (void)umask(mask);
    assert_int_equal(stat(path, &file), 0);
    assert_int_equal(file.st_mode & 0777, 0660);
    assert_int_equal(kvf_admin_admin_port(fake->admin), 0);
    static const char text[] = "DELETE /v1/requests/18 HTTP/1.1\r\nHost: localhost\r\n"
                               "X-Kvferry: 1\r\nConnection: close\r\n\r\n";
    char who[64];
    assert_int_equal(
        status_of(web_exchange(fake, web_connect_unix(path), text, sizeof(text) - 1)),
        202);
    (void)snprintf(who, sizeof(who), "uid %u pid %d", getuid(), getpid());
    assert_string_equal(fake->cancelled_by, who);
    kvf_admin_close(fake->admin);
    fake->admin = NULL;
    assert_int_equal(stat(path, &file), -1);
    assert_int_equal(rmdir(directory), 0);
}

static void test_stale_socket_is_replaced_and_a_live_one_is_not(void **state)
{
    struct fake_admin *fake = *state;
    struct fake_admin second;
    char directory[] = "/tmp/kvf-admin-XXXXXX";
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    char address[128];
    assert_non_null(mkdtemp(directory));
    (void)snprintf(at.sun_path, sizeof(at.sun_path), "%s/a.sock", directory);
    (void)snprintf(address, sizeof(address), "unix:%s/a.sock", directory);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    (void)close(fd); /* the file stays */
    assert_int_equal(fake_admin_open(fake, &(struct fake_listeners){.admin = address}),
                     KVF_OK);
    fake_admin_init(&second);
    assert_int_equal(fake_admin_open(&second, &(struct fake_listeners){.admin = address}),
                     KVF_CONFIG);
    fake_admin_fini(&second);
    assert_int_equal(access(at.sun_path, F_OK), 0);
    kvf_admin_close(fake->admin);
    fake->admin = NULL;
    assert_int_equal(close(open(at.sun_path, O_CREAT | O_CLOEXEC, 0600)), 0);
    assert_int_equal(fake_admin_open(fake, &(struct fake_listeners){.admin = address}),
                     KVF_CONFIG); /* a file that is no socket is not ours */
    assert_int_equal(unlink(at.sun_path), 0);
    assert_int_equal(rmdir(directory), 0);
}

#define TEST(name)   cmocka_unit_test_setup_teardown(name, setup, teardown)
#define CLOSED(name) cmocka_unit_test_setup_teardown(name, setup_closed, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_host_from_elsewhere_is_421),
        TEST(test_two_hosts_are_400),
        TEST(test_missing_host_is_400_but_for_old_probes),
        TEST(test_foreign_origin_is_403_also_for_reading),
        TEST(test_unmarked_change_is_403_and_changes_nothing),
        TEST(test_paths_with_tricks_are_400),
        TEST(test_escapes_are_decoded_once),
        TEST(test_bytes_that_are_not_text_are_answered_as_text),
        TEST(test_smuggling_gets_one_answer_and_no_second_request),
        TEST(test_refused_bodies_have_their_codes),
        TEST(test_allowed_body_is_skipped_and_the_connection_goes_on),
        TEST(test_control_characters_in_headers_are_400),
        TEST(test_too_long_a_head_is_refused),
        TEST(test_garbage_leaves_the_listener_alive),
        TEST(test_random_bytes_leave_the_listener_alive),
        TEST(test_client_that_leaves_early_is_forgotten),
        TEST(test_one_address_gets_16_connections),
        CLOSED(test_token_guards_v1_and_not_the_probes),
        CLOSED(test_open_door_beyond_loopback_is_refused),
        CLOSED(test_unreadable_token_file_keeps_the_door_shut),
        CLOSED(test_listeners_that_cannot_open_leave_nothing),
        CLOSED(test_unix_socket_is_for_owner_and_group),
        CLOSED(test_stale_socket_is_replaced_and_a_live_one_is_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
