/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listening sockets: binding (the first free port of a range, or a unix path that nobody
 * answers on) and accepting in bounded slices. Out of descriptors or memory a listener
 * rests instead of spinning on a connection that it cannot take; the kernel keeps the
 * waiting ones. A listener owns its descriptor and its socket file; accepted streams
 * belong to the owner. Loop thread.
 */
#include "base/stream.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/stream_io.h"

#define LISTENER_MAGIC   0x6b76666cu
#define BACKLOG          512
#define TURN_ACCEPTS     16
#define REST_NS          (100 * KVF_NS_PER_MS)
#define SOCKET_FILE_MODE 0660

struct kvf_listener {
    uint32_t magic;
    struct kvf_loop *loop; /* borrowed */
    int fd;                /* owns; -1 before it is bound and after closing */
    struct kvf_sockaddr bound;
    dev_t file_dev; /* the socket file that is ours to unlink; inode 0: none */
    ino_t file_inode;
    bool is_paused, is_resting;
    struct kvf_listener_events events;
    void *owner; /* borrowed until close */
    struct kvf_io io;
    struct kvf_timer timer; /* ends a rest */
    struct kvf_zombie zombie;
};

static struct kvf_listener *listener_of(void *owner)
{
    struct kvf_listener *listener = owner;
    assert(listener->magic == LISTENER_MAGIC);
    return listener;
}

static bool is_unix(const struct kvf_listener *listener)
{
    return listener->bound.storage.ss_family == AF_UNIX;
}

/* ---- accepting */

static void update_interest(struct kvf_listener *listener)
{
    bool accepts = !listener->is_paused && !listener->is_resting;
    kvf_loop_io_set(&listener->io, accepts ? KVF_IO_READ : 0);
}

static void end_rest(void *owner)
{
    struct kvf_listener *listener = listener_of(owner);
    listener->is_resting = false;
    update_interest(listener);
}

static void rest(struct kvf_listener *listener, const char *reason)
{
    enum kvf_status status = kvf_loop_timer_start(
        listener->loop, &listener->timer, kvf_loop_now_ns(listener->loop) + REST_NS,
        end_rest, listener);
    if (status != KVF_OK) {
        return; /* no memory even for that: better to try again each turn than never */
    }
    listener->is_resting = true;
    update_interest(listener);
    kvf_log_warn(NULL, "no connection accepted for 100 ms: %s", reason);
}

static void hand_over(struct kvf_listener *listener, int fd,
                      const struct kvf_sockaddr *from)
{
    char text[KVF_ADDRESS_MAX];
    struct kvf_stream *stream = kvf_stream_adopt(listener->loop, fd, is_unix(listener));
    if (stream == NULL) {
        (void)close(fd); /* the peer sees its connection closed and comes again */
        rest(listener, kvf_status_text(KVF_NO_MEMORY));
        return;
    }
    kvf_sockaddr_format(from, text, sizeof(text));
    listener->events.accepted(listener->owner, stream, text);
}

static void accept_some(void *owner, uint32_t events)
{
    struct kvf_listener *listener = listener_of(owner);
    (void)events; /* accept says what there is */
    for (int i = 0; i < TURN_ACCEPTS; i++) {
        struct kvf_sockaddr from = {.length = sizeof(from.storage)};
        int fd = accept4(listener->fd, (struct sockaddr *)&from.storage, &from.length,
                         SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            hand_over(listener, fd, &from);
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            return;
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
                   errno == ENOMEM) {
            rest(listener, strerrordesc_np(errno));
        }
        /* Other errors are those of one connection that died in the queue. */
        if (listener->fd < 0 || listener->is_paused || listener->is_resting) {
            return; /* by the callback, or out of something */
        }
    }
}

/* ---- binding */

/* A listening socket on `at`; -1 with errno. */
static int open_listening(const struct kvf_sockaddr *at)
{
    int family = at->storage.ss_family;
    int one = 1;
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    if (family != AF_UNIX) {
        /* Restart beside connections in TIME_WAIT. [::] means IPv6 alone, whatever the
         * system's default, so that 0.0.0.0 can be listened on beside it. Should one of
         * them fail, bind tells. */
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
        if (family == AF_INET6) {
            (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
        }
    }
    const struct sockaddr *address = (const struct sockaddr *)&at->storage;
    const char *path = ((const struct sockaddr_un *)&at->storage)->sun_path;
    /* Nobody can connect between bind and listen, so the mode is set in time. */
    if (bind(fd, address, at->length) != 0 ||
        (family == AF_UNIX && chmod(path, SOCKET_FILE_MODE) != 0) ||
        listen(fd, BACKLOG) != 0) {
        int error = errno;
        (void)close(fd); /* nobody has connected to it */
        errno = error;
        return -1;
    }
    return fd;
}

static enum kvf_status bind_status(int error)
{
    switch (error) {
    case EADDRINUSE:
        return KVF_BUSY;
    case EADDRNOTAVAIL:
    case ENOENT:
    case ENOTDIR:
    case EAFNOSUPPORT:
        return KVF_INVALID_ARGUMENT;
    default:
        return kvf_sock_status(error);
    }
}

static enum kvf_status bind_tcp(struct kvf_listener *listener,
                                const struct kvf_address *address)
{
    struct kvf_address one = *address;
    for (uint32_t port = address->port; port <= address->port_last; port++) {
        one.port = one.port_last = (uint16_t)port;
        enum kvf_status status = kvf_sockaddr_from_numeric(&one, &listener->bound);
        if (status != KVF_OK) {
            return status;
        }
        listener->fd = open_listening(&listener->bound);
        if (listener->fd >= 0) {
            listener->bound.length = sizeof(listener->bound.storage);
            int rc =
                getsockname(listener->fd, (struct sockaddr *)&listener->bound.storage,
                            &listener->bound.length);
            return rc == 0 ? KVF_OK : KVF_SYSTEM;
        }
        if (errno != EADDRINUSE) {
            break;
        }
    }
    return bind_status(errno);
}

/* Unlinks the socket file if nobody listens on it. A live one is EADDRINUSE, and so is a
 * file that is not a socket: it is not ours to remove. */
static bool remove_stale(const struct kvf_sockaddr *at, const char *path)
{
    struct stat file;
    if (lstat(path, &file) != 0) {
        return errno == ENOENT;
    }
    if (!S_ISSOCK(file.st_mode)) {
        return false;
    }
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return false;
    }
    bool is_stale = connect(fd, (const struct sockaddr *)&at->storage, at->length) != 0 &&
                    errno == ECONNREFUSED;
    (void)close(fd); /* nothing was sent through it */
    return is_stale && (unlink(path) == 0 || errno == ENOENT);
}

static enum kvf_status bind_unix(struct kvf_listener *listener,
                                 const struct kvf_address *address)
{
    struct stat file;
    enum kvf_status status = kvf_sockaddr_from_numeric(address, &listener->bound);
    if (status != KVF_OK) {
        return status;
    }
    listener->fd = open_listening(&listener->bound);
    if (listener->fd < 0 && errno == EADDRINUSE) {
        if (!remove_stale(&listener->bound, address->host)) {
            errno = EADDRINUSE;
            return KVF_BUSY;
        }
        listener->fd = open_listening(&listener->bound);
    }
    if (listener->fd < 0) {
        return bind_status(errno);
    }
    if (lstat(address->host, &file) == 0) {
        listener->file_dev = file.st_dev;
        listener->file_inode = file.st_ino;
    }
    return KVF_OK;
}

/* ---- life */

static void destroy_listener(void *object)
{
    struct kvf_listener *listener = listener_of(object);
    listener->magic = 0;
    kvf_free(listener);
}

/* Unlinks the socket file unless somebody has put another one in its place. */
static void unlink_own_file(const struct kvf_listener *listener)
{
    struct stat file;
    const char *path = ((const struct sockaddr_un *)&listener->bound.storage)->sun_path;
    if (listener->file_inode != 0 && lstat(path, &file) == 0 &&
        file.st_dev == listener->file_dev && file.st_ino == listener->file_inode) {
        (void)unlink(path); /* what stays is stale and will be replaced */
    }
}

void kvf_listener_close(struct kvf_listener *listener)
{
    if (listener == NULL) {
        return;
    }
    kvf_loop_io_remove(&listener->io);
    kvf_loop_timer_stop(&listener->timer);
    if (listener->fd >= 0) {
        unlink_own_file(listener);
        (void)close(listener->fd); /* has no bytes to lose */
        listener->fd = -1;
    }
    kvf_loop_destroy_later(listener->loop, &listener->zombie, destroy_listener, listener);
}

enum kvf_status kvf_listener_open(struct kvf_sock *sock,
                                  const struct kvf_address *address,
                                  const struct kvf_listener_events *events, void *owner,
                                  struct kvf_listener **out)
{
    char text[KVF_ADDRESS_MAX + sizeof("unix:")];
    struct kvf_listener *listener = kvf_alloc(sizeof(*listener));
    if (listener == NULL) {
        return KVF_NO_MEMORY;
    }
    listener->magic = LISTENER_MAGIC;
    listener->loop = sock->loop;
    listener->fd = -1;
    listener->events = *events;
    listener->owner = owner;
    errno = 0;
    enum kvf_status status = address->kind == KVF_ADDRESS_UNIX
                                 ? bind_unix(listener, address)
                                 : bind_tcp(listener, address);
    if (status != KVF_OK) {
        int error = errno;
        kvf_address_format(address, text, sizeof(text));
        kvf_log_error(NULL, "cannot listen on %s: %s", text,
                      error != 0 ? strerrordesc_np(error) : "not a numeric address");
        goto fail;
    }
    status = kvf_loop_io_add(sock->loop, &listener->io, listener->fd, KVF_IO_READ,
                             accept_some, listener);
    if (status != KVF_OK) {
        goto fail;
    }
    *out = listener;
    return KVF_OK;
fail:
    kvf_listener_close(listener);
    return status;
}

uint16_t kvf_listener_port(const struct kvf_listener *listener)
{
    const struct sockaddr_storage *bound = &listener->bound.storage;
    switch (bound->ss_family) {
    case AF_INET:
        return ntohs(((const struct sockaddr_in *)bound)->sin_port);
    case AF_INET6:
        return ntohs(((const struct sockaddr_in6 *)bound)->sin6_port);
    default:
        return 0;
    }
}

void kvf_listener_pause(struct kvf_listener *listener, bool is_paused)
{
    listener->is_paused = is_paused;
    update_interest(listener);
}
