/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets of the tests: free ports, connections, and HTTP as plain as it gets, one
 * exchange a connection. Answers are read until the daemon closes, with a receive
 * timeout.
 */
#include "tests/integration/fixture.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#define TRIES       64
#define FIRST_PORT  10000u
#define N_PORTS     22000u
#define PORTS_APART 97u /* of two processes */

static struct sockaddr_in loopback(uint16_t port)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons(port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

/* Bound, or -1 when the port is taken. */
static int bind_port(uint16_t port)
{
    struct sockaddr_in address = loopback(port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && bind(fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
        (void)close(fd);
        fd = -1;
    }
    return fd;
}

static bool are_free(uint16_t first, uint16_t n)
{
    bool is_free = true;
    for (uint16_t i = 0; i < n && is_free; i++) {
        int fd = bind_port((uint16_t)(first + i));
        is_free = fd >= 0;
        if (is_free) {
            (void)close(fd);
        }
    }
    return is_free;
}

/* Below the kernel's own choice, so that no outgoing connection takes one between this
 * look and the daemon's; processes begin apart, and no two calls return the same port. */
uint16_t fixture_free_ports(uint16_t n_more)
{
    static uint32_t n_passed;
    for (int i = 0; i < TRIES; i++) {
        uint32_t at = ((uint32_t)getpid() * PORTS_APART + n_passed) % N_PORTS;
        n_passed += n_more + 1u;
        uint16_t port = (uint16_t)(FIRST_PORT + at);
        if (are_free(port, (uint16_t)(n_more + 1u))) {
            return port;
        }
    }
    fail_msg("no %u free ports in a row", n_more + 1u);
    return 0;
}

static int connect_to(const struct sockaddr *address, socklen_t length)
{
    const struct timeval patience = {.tv_sec = FIXTURE_WAIT_MS / 1000u};
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, address, length) != 0) {
        (void)close(fd);
        return -1;
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    return fd;
}

int fixture_connect_tcp(uint16_t port)
{
    struct sockaddr_in address = loopback(port);
    return connect_to((const struct sockaddr *)&address, sizeof(address));
}

int fixture_connect_unix(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    return connect_to((const struct sockaddr *)&address, sizeof(address));
}

static int exchange(int fd, const char *method, const char *target, char *out, size_t max)
{
    char head[1024];
    size_t n = 0;
    out[0] = '\0';
    if (fd < 0) {
        return 0;
    }
    int length = snprintf(head, sizeof(head),
                          "%s %s HTTP/1.0\r\nHost: localhost\r\nX-Kvferry: 1\r\n"
                          "Connection: close\r\n\r\n",
                          method, target);
    if (send(fd, head, (size_t)length, MSG_NOSIGNAL) == length) {
        ssize_t got;
        while (n < max - 1 && (got = recv(fd, out + n, max - 1 - n, 0)) > 0) {
            n += (size_t)got;
        }
    }
    (void)close(fd);
    out[n] = '\0';
    static const char version[] = "HTTP/1.";
    return strncmp(out, version, sizeof(version) - 1) == 0
               ? (int)strtol(out + sizeof("HTTP/1.1 ") - 1, NULL, 10)
               : 0;
}

int fixture_observe_get(const struct fixture_node *node, const char *target, char *out,
                        size_t max)
{
    return exchange(fixture_connect_tcp(node->observe_port), "GET", target, out, max);
}

int fixture_admin(const struct fixture_node *node, const char *method, const char *target,
                  char *out, size_t max)
{
    char path[FIXTURE_PATH_BYTES];
    fixture_node_path(node, "admin.sock", path);
    return exchange(fixture_connect_unix(path), method, target, out, max);
}
