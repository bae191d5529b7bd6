/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client of web_client.h. Everything happens on one thread, so a test fails by an
 * assertion and never by a race.
 */
#include "tests/support/web_client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define ANSWER_MAX  ((size_t)32 * 1024 * 1024)
#define DEADLINE_NS (5 * KVF_NS_PER_S)

static void give_up(const char *what)
{
    (void)fprintf(stderr, "web client: %s: %s\n", what, strerror(errno));
    abort();
}

static int connect_to(const void *address, socklen_t length, int family)
{
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, address, length) != 0) {
        give_up("connect");
    }
    return fd;
}

int web_connect_tcp(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    return connect_to(&address, sizeof(address), AF_INET);
}

int web_connect_unix(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    return connect_to(&address, sizeof(address), AF_UNIX);
}

static void grow(struct web_answer *answer, const char *bytes, size_t n)
{
    char *raw = realloc(answer->raw, answer->n_raw + n + 1);
    if (raw == NULL || answer->n_raw + n > ANSWER_MAX) {
        give_up("answer");
    }
    memcpy(raw + answer->n_raw, bytes, n);
    answer->raw = raw;
    answer->n_raw += n;
    raw[answer->n_raw] = '\0';
}

static char *join_chunks(char *body, size_t *n_body)
{
    char *in = body;
    size_t n = 0;
    for (;;) {
        char *end;
        unsigned long length = strtoul(in, &end, 16);
        if (end == in || length == 0 || length > ANSWER_MAX) {
            break;
        }
        memmove(body + n, end + 2, length);
        n += length;
        in = end + 2 + length + 2;
    }
    body[n] = '\0';
    *n_body = n;
    return body;
}

const char *web_header(const struct web_answer *answer, const char *name)
{
    static char value[512];
    size_t n = strlen(name);
    for (const char *line = strstr(answer->raw, "\r\n"); line != NULL;
         line = strstr(line, "\r\n")) {
        line += 2;
        if (*line == '\r' || line >= answer->body) {
            return NULL;
        }
        if (strncasecmp(line, name, n) == 0 && line[n] == ':') {
            (void)snprintf(value, sizeof(value), "%.*s", (int)strcspn(line + n + 2, "\r"),
                           line + n + 2);
            return value;
        }
    }
    return NULL;
}

static void split(struct web_answer *answer)
{
    if (answer->raw == NULL) {
        grow(answer, "", 0);
    }
    answer->body = answer->raw + answer->n_raw;
    char *end = strstr(answer->raw, "\r\n\r\n");
    if (strncmp(answer->raw, "HTTP/1.", 7) != 0 || end == NULL) {
        return;
    }
    answer->status = (unsigned int)strtoul(answer->raw + 9, NULL, 10);
    answer->body = end + 4;
    answer->n_body = answer->n_raw - (size_t)(end + 4 - answer->raw);
    const char *coding = web_header(answer, "Transfer-Encoding");
    if (coding != NULL && strcmp(coding, "chunked") == 0) {
        answer->body = join_chunks(end + 4, &answer->n_body);
    }
}

/* False: nothing more will come. */
static bool read_some(int fd, struct web_answer *answer)
{
    char bytes[65536];
    for (;;) {
        ssize_t n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN) {
            return true;
        }
        if (n <= 0) {
            return false;
        }
        grow(answer, bytes, (size_t)n);
    }
}

struct web_answer web_exchange(struct fake_admin *fake, int fd, const void *bytes,
                               size_t n)
{
    struct web_answer answer = {.status = 0};
    uint64_t deadline_ns = kvf_loop_clock_ns(fake->loop) + DEADLINE_NS;
    size_t n_sent = 0;
    while (read_some(fd, &answer)) {
        if (n_sent < n) {
            ssize_t sent = send(fd, (const char *)bytes + n_sent, n - n_sent,
                                MSG_DONTWAIT | MSG_NOSIGNAL);
            n_sent += sent > 0 ? (size_t)sent : 0;
        }
        kvf_loop_turn(fake->loop, KVF_NS_PER_MS);
        if (kvf_loop_clock_ns(fake->loop) > deadline_ns) {
            break;
        }
    }
    (void)close(fd);
    split(&answer);
    return answer;
}

void web_answer_free(struct web_answer *answer)
{
    free(answer->raw);
    *answer = (struct web_answer){.status = 0};
}

struct web_answer web_ask(struct fake_admin *fake, uint16_t port, const char *method,
                          const char *target, const char *headers)
{
    char text[4096];
    int n = snprintf(text, sizeof(text),
                     "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n%s\r\n",
                     method, target, headers);
    return web_exchange(fake, web_connect_tcp(port), text, (size_t)n);
}

struct web_answer web_get_admin(struct fake_admin *fake, const char *target)
{
    return web_ask(fake, kvf_admin_admin_port(fake->admin), "GET", target, "");
}

struct web_answer web_get_observe(struct fake_admin *fake, const char *target)
{
    return web_ask(fake, kvf_admin_observe_port(fake->admin), "GET", target, "");
}
