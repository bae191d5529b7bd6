/* SPDX-License-Identifier: Apache-2.0 */
/* A request with "Connection: close", so that the answer ends where the stream does. The
 * daemon sends bodies of known length; none that is asked for here comes in chunks. */
#include "examples/demo_http.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

static int connect_to(const char *socket_path, uint32_t timeout_ms)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int n = snprintf(address.sun_path, sizeof(address.sun_path), "%s", socket_path);
    if (n < 0 || (size_t)n >= sizeof(address.sun_path)) {
        return -1;
    }
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct timeval limit = {.tv_sec = timeout_ms / 1000,
                            .tv_usec = (suseconds_t)(timeout_ms % 1000) * 1000};
    if (fd >= 0 &&
        (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) != 0 ||
         setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) != 0 ||
         connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0)) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

static bool read_answer(int fd, struct http_answer *out)
{
    size_t n = 0;
    while (n < sizeof(out->text) - 1) {
        ssize_t n_read = recv(fd, out->text + n, sizeof(out->text) - 1 - n, 0);
        if (n_read == 0) {
            break;
        }
        if (n_read < 0 && errno != EINTR) {
            return false;
        }
        n += n_read > 0 ? (size_t)n_read : 0;
    }
    out->text[n] = '\0';
    const char *end = strstr(out->text, "\r\n\r\n");
    out->body = end != NULL ? end + 4 : NULL;
    static const char version[] = "HTTP/1.1 ";
    if (end == NULL || strncmp(out->text, version, strlen(version)) != 0) {
        return false;
    }
    out->status = (unsigned int)strtoul(out->text + strlen(version), NULL, 10);
    return true;
}

bool http_call(const char *socket_path, const char *method, const char *target,
               uint32_t timeout_ms, struct http_answer *out)
{
    char request[512];
    int n = snprintf(request, sizeof(request),
                     "%s %s HTTP/1.1\r\nHost: localhost\r\nX-Kvferry: 1\r\n"
                     "Connection: close\r\n\r\n",
                     method, target);
    int fd = connect_to(socket_path, timeout_ms);
    if (fd < 0) {
        return false;
    }
    bool is_good = n > 0 && (size_t)n < sizeof(request) &&
                   send(fd, request, (size_t)n, MSG_NOSIGNAL) == n &&
                   read_answer(fd, out);
    (void)close(fd);
    return is_good;
}
