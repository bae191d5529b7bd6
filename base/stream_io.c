/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sendmsg and recvmsg over two bounded queues. On a unix socket descriptors are ancillary
 * data of a byte: the kernel hands them over with the read that returns that byte, and a
 * read never goes beyond it. So a write stops before the next byte that carries some, and
 * starts there with them; after one byte went out they are the receiver's. Loop thread.
 */
#include "base/stream_io.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define READ_MIN_BYTES 16384u /* room made for one read, ceiling permitting */

/* Ancillary data must be aligned like its header. */
union control {
    char bytes[CMSG_SPACE(sizeof(int) * KVF_STREAM_FDS_MAX)];
    struct cmsghdr alignment;
};

enum kvf_status kvf_sock_status(int error)
{
    switch (error) {
    case ETIMEDOUT:
        return KVF_EXPIRED;
    case EACCES:
        return KVF_PERMISSION;
    case ENOMEM:
    case ENOBUFS:
        return KVF_NO_MEMORY;
    case ECONNREFUSED:
    case ECONNRESET:
    case ECONNABORTED:
    case EPIPE:
    case ENOENT: /* a unix path that nobody has bound */
    case EHOSTUNREACH:
    case EHOSTDOWN:
    case ENETUNREACH:
    case ENETDOWN:
    case ENETRESET:
        return KVF_PEER_LOST;
    default:
        return KVF_SYSTEM;
    }
}

static void close_all(int *fds, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        (void)close(fds[i]); /* our duplicate: nothing to lose */
    }
}

/* ---- out */

/* The first n descriptors are gone: closed here, the kernel holds its own references. */
static void drop_out_fds(struct kvf_out_queue *queue, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        (void)close(queue->fds[i].fd); /* our duplicate: nothing to lose */
    }
    queue->n_fds -= n;
    memmove(&queue->fds[0], &queue->fds[n], queue->n_fds * sizeof(queue->fds[0]));
}

void kvf_out_queue_fini(struct kvf_out_queue *queue)
{
    drop_out_fds(queue, queue->n_fds);
    kvf_buf_fini(&queue->bytes);
}

static enum kvf_status duplicate(const int *fds, size_t n, int *out)
{
    for (size_t i = 0; i < n; i++) {
        out[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 0);
        if (out[i] < 0) {
            int error = errno;
            close_all(out, i);
            return error == EBADF ? KVF_INVALID_ARGUMENT : KVF_SYSTEM;
        }
    }
    return KVF_OK;
}

enum kvf_status kvf_out_queue_append(struct kvf_out_queue *queue, const void *bytes,
                                     size_t n_bytes, const int *fds, size_t n_fds)
{
    int copies[KVF_STREAM_FDS_MAX];
    if (n_fds > KVF_STREAM_FDS_MAX || (n_fds > 0 && n_bytes == 0)) {
        return KVF_INVALID_ARGUMENT;
    }
    if (queue->n_fds + n_fds > KVF_STREAM_FDS_MAX) {
        return KVF_BUSY;
    }
    enum kvf_status status = duplicate(fds, n_fds, copies);
    if (status != KVF_OK) {
        return status;
    }
    uint64_t offset = queue->n_sent + kvf_buf_length(&queue->bytes);
    status = kvf_buf_append(&queue->bytes, bytes, n_bytes);
    if (status != KVF_OK) {
        close_all(copies, n_fds);
        return status;
    }
    for (size_t i = 0; i < n_fds; i++) {
        queue->fds[queue->n_fds].offset = offset;
        queue->fds[queue->n_fds].fd = copies[i];
        queue->n_fds++;
    }
    return KVF_OK;
}

/* How many descriptors ride on the next byte; *n_bytes is cut before the byte that
 * carries the ones after them. */
static size_t riders(const struct kvf_out_queue *queue, size_t *n_bytes)
{
    size_t n = 0;
    while (n < queue->n_fds && queue->fds[n].offset == queue->n_sent) {
        n++;
    }
    if (n < queue->n_fds && queue->fds[n].offset - queue->n_sent < *n_bytes) {
        *n_bytes = (size_t)(queue->fds[n].offset - queue->n_sent);
    }
    return n;
}

static void put_control(const struct kvf_out_queue *queue, size_t n,
                        union control *control, struct msghdr *message)
{
    memset(control, 0, sizeof(*control));
    message->msg_control = control->bytes;
    message->msg_controllen = CMSG_SPACE(n * sizeof(int));
    struct cmsghdr *header = CMSG_FIRSTHDR(message);
    assert(header != NULL); /* there is room for one */
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(n * sizeof(int));
    for (size_t i = 0; i < n; i++) {
        memcpy(CMSG_DATA(header) + i * sizeof(int), &queue->fds[i].fd, sizeof(int));
    }
}

/* One sendmsg; -1 with errno, else the bytes that went out. */
static ssize_t write_once(struct kvf_out_queue *queue, int fd, size_t n_bytes)
{
    union control control;
    size_t n_riders = riders(queue, &n_bytes);
    struct iovec iov = {.iov_base = queue->bytes.bytes + queue->bytes.first,
                        .iov_len = n_bytes};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
    if (n_riders > 0) {
        put_control(queue, n_riders, &control, &message);
    }
    ssize_t n = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) {
        drop_out_fds(queue, n_riders);
        kvf_buf_consume(&queue->bytes, (size_t)n);
        queue->n_sent += (uint64_t)n;
    }
    return n;
}

enum kvf_status kvf_out_queue_write(struct kvf_out_queue *queue, int fd,
                                    size_t budget_bytes)
{
    while (kvf_buf_length(&queue->bytes) > 0) {
        if (budget_bytes == 0) {
            return KVF_IN_PROGRESS;
        }
        size_t n_bytes = kvf_buf_length(&queue->bytes);
        ssize_t n =
            write_once(queue, fd, n_bytes < budget_bytes ? n_bytes : budget_bytes);
        if (n >= 0) {
            budget_bytes -= (size_t)n;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            return KVF_IN_PROGRESS;
        } else if (errno != EINTR) {
            return kvf_sock_status(errno);
        }
    }
    return KVF_OK;
}

/* ---- in */

void kvf_in_queue_fini(struct kvf_in_queue *queue)
{
    close_all(queue->fds, queue->n_fds);
    queue->n_fds = 0;
    kvf_buf_fini(&queue->bytes);
}

int kvf_in_queue_take_fd(struct kvf_in_queue *queue)
{
    if (queue->n_fds == 0) {
        return -1;
    }
    int fd = queue->fds[0];
    queue->n_fds--;
    memmove(&queue->fds[0], &queue->fds[1], queue->n_fds * sizeof(queue->fds[0]));
    return fd;
}

/* Keeps what the cap allows and closes the rest: every one of them is ours by now.
 * Returns how many there were. */
static size_t take_rights(struct kvf_in_queue *queue, const struct cmsghdr *header)
{
    size_t n = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < n; i++) {
        int fd;
        memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
        if (queue->n_fds < KVF_STREAM_FDS_MAX) {
            queue->fds[queue->n_fds++] = fd;
        } else {
            close_all(&fd, 1);
        }
    }
    return n;
}

static enum kvf_status take_control(struct kvf_in_queue *queue, struct msghdr *message)
{
    size_t n_before = queue->n_fds;
    size_t n_came = 0;
    struct cmsghdr *header = CMSG_FIRSTHDR(message);
    for (; header != NULL; header = CMSG_NXTHDR(message, header)) {
        if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
            n_came += take_rights(queue, header);
        }
    }
    if (n_before + n_came > KVF_STREAM_FDS_MAX) {
        return KVF_PROTOCOL;
    }
    if ((message->msg_flags & MSG_CTRUNC) != 0) {
        /* More than fit our buffer is the peer's fault; fewer: our table is full. */
        return n_came == KVF_STREAM_FDS_MAX ? KVF_PROTOCOL : KVF_SYSTEM;
    }
    return KVF_OK;
}

/* Bytes to ask for: grows with what has come, so that a large frame takes few reads. */
static size_t read_size(const struct kvf_buf *buf, size_t budget_bytes)
{
    size_t length = kvf_buf_length(buf);
    size_t n = length > READ_MIN_BYTES ? length : READ_MIN_BYTES;
    size_t room = buf->max_bytes - length;
    n = n < room ? n : room;
    return n < budget_bytes ? n : budget_bytes;
}

/* One recvmsg of at most *n_bytes. OK: go on; *n_bytes tells what came. */
static enum kvf_status read_once(struct kvf_in_queue *queue, int fd, bool takes_fds,
                                 size_t *n_bytes)
{
    union control control;
    struct iovec iov = {.iov_base = kvf_buf_reserve(&queue->bytes, *n_bytes),
                        .iov_len = *n_bytes};
    if (iov.iov_base == NULL) {
        return KVF_NO_MEMORY;
    }
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
    if (takes_fds) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof(control.bytes);
    }
    ssize_t n = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0) {
        *n_bytes = 0;
        if (errno == EINTR) {
            return KVF_OK;
        }
        return errno == EAGAIN || errno == EWOULDBLOCK ? KVF_IN_PROGRESS
                                                       : kvf_sock_status(errno);
    }
    *n_bytes = (size_t)n;
    kvf_buf_commit(&queue->bytes, (size_t)n);
    if (n == 0) {
        return KVF_PEER_LOST;
    }
    return takes_fds ? take_control(queue, &message) : KVF_OK;
}

enum kvf_status kvf_in_queue_read(struct kvf_in_queue *queue, int fd, bool takes_fds,
                                  size_t budget_bytes, bool *out_has_input)
{
    size_t n_fds_before = queue->n_fds;
    *out_has_input = false;
    for (;;) {
        size_t n_asked = read_size(&queue->bytes, budget_bytes);
        if (n_asked == 0 || queue->n_fds > n_fds_before) {
            return KVF_IN_PROGRESS;
        }
        size_t n = n_asked;
        enum kvf_status status = read_once(queue, fd, takes_fds, &n);
        *out_has_input |= n > 0 && status == KVF_OK;
        if (status == KVF_IN_PROGRESS) {
            return KVF_OK; /* the socket is empty */
        }
        if (status != KVF_OK) {
            return status;
        }
        budget_bytes -= n;
        if (n > 0 && n < n_asked && queue->n_fds == n_fds_before) {
            return KVF_OK; /* a short read: it was all; saves the read that says so */
        }
    }
}
