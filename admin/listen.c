/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens listening sockets. A unix socket gets its mode between bind and listen, when
 * nobody can connect yet. A file that is not a socket, or a socket that somebody answers
 * on, is never removed. Start-up.
 */
#include "admin/listen.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"

#define BACKLOG     128
#define SOCKET_MODE 0660

static const struct kvf_log_ctx context = {.comp = "http"};

static enum kvf_status report(const struct kvf_address *address, const char *reason)
{
    char text[KVF_ADDRESS_MAX + sizeof("unix:")];
    kvf_address_format(address, text, sizeof(text));
    kvf_log_error(&context, "cannot listen on %s: %s", text, reason);
    return KVF_CONFIG;
}

/* -1 with errno. */
static int open_at(const struct kvf_sockaddr *at, const char *unix_path)
{
    int one = 1;
    int family = at->storage.ss_family;
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    bool is_ok = true;
    if (family != AF_UNIX) {
        is_ok = setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0;
    }
    if (family == AF_INET6) {
        is_ok &= setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one)) == 0;
    }
    is_ok = is_ok && bind(fd, (const struct sockaddr *)&at->storage, at->length) == 0 &&
            (unix_path == NULL || chmod(unix_path, SOCKET_MODE) == 0) &&
            listen(fd, BACKLOG) == 0;
    if (!is_ok) {
        int error = errno;
        (void)close(fd); /* nobody has connected to it */
        errno = error;
        return -1;
    }
    return fd;
}

static bool remove_stale(const struct kvf_sockaddr *at, const char *path)
{
    struct stat file;
    if (lstat(path, &file) != 0 || !S_ISSOCK(file.st_mode)) {
        return false;
    }
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return false;
    }
    bool is_stale = connect(fd, (const struct sockaddr *)&at->storage, at->length) != 0 &&
                    errno == ECONNREFUSED;
    (void)close(fd); /* nothing was sent through it */
    return is_stale && unlink(path) == 0;
}

static int open_unix(const struct kvf_sockaddr *at, const char *path)
{
    int fd = open_at(at, path);
    if (fd < 0 && errno == EADDRINUSE) {
        if (remove_stale(at, path)) {
            return open_at(at, path);
        }
        errno = EADDRINUSE; /* remove_stale's own errors would mislead */
    }
    return fd;
}

/* The first free port of the range. */
static int open_tcp(const struct kvf_address *address)
{
    struct kvf_address one = *address;
    for (uint32_t port = address->port; port <= address->port_last; port++) {
        struct kvf_sockaddr at;
        one.port = one.port_last = (uint16_t)port;
        if (kvf_sockaddr_from_numeric(&one, &at) != KVF_OK) {
            errno = EADDRNOTAVAIL;
            return -1;
        }
        int fd = open_at(&at, NULL);
        if (fd >= 0 || errno != EADDRINUSE) {
            return fd;
        }
    }
    return -1;
}

static uint16_t bound_port(int fd)
{
    struct sockaddr_storage bound = {.ss_family = AF_UNSPEC};
    socklen_t length = sizeof(bound);
    if (getsockname(fd, (struct sockaddr *)&bound, &length) != 0) {
        return 0;
    }
    if (bound.ss_family == AF_INET) {
        return ntohs(((const struct sockaddr_in *)&bound)->sin_port);
    }
    return bound.ss_family == AF_INET6
               ? ntohs(((const struct sockaddr_in6 *)&bound)->sin6_port)
               : 0;
}

enum kvf_status kvf_listen_open(const struct kvf_address *address, int *out_fd,
                                uint16_t *out_port)
{
    struct kvf_sockaddr at;
    if (kvf_sockaddr_from_numeric(address, &at) != KVF_OK) {
        return report(address, "the host must be an IP address or localhost");
    }
    int fd = address->kind == KVF_ADDRESS_UNIX ? open_unix(&at, address->host)
                                               : open_tcp(address);
    if (fd < 0) {
        return report(address, strerrordesc_np(errno));
    }
    *out_fd = fd;
    *out_port = bound_port(fd);
    return KVF_OK;
}
