/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See connection.h. The ceilings: a frame with 2^20 block ids and as many hashes must fit
 * the way out; what a daemon says is judged by the cap of peers.
 */
#include "client/connection.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "proto/frame.h"

#define OUT_MAX_BYTES    (KVF_FRAME_MAX_ENGINE + KVF_FRAME_HEADER_BYTES)
#define IN_MAX_BYTES     (KVF_FRAME_MAX_PEER + KVF_FRAME_HEADER_BYTES)
#define CALL_READ_BYTES  (256u * 1024)
#define BACKLOG_RETRY_MS 10

static int milliseconds_until(uint64_t deadline_ns)
{
    uint64_t now_ns = kvf_clock_now_ns(&kvf_clock_system);
    if (now_ns >= deadline_ns) {
        return 0;
    }
    /* Rounded up: a wait must not end before its deadline and spin through the rest. */
    uint64_t ms = (deadline_ns - now_ns + KVF_NS_PER_MS - 1) / KVF_NS_PER_MS;
    return ms < INT32_MAX ? (int)ms : INT32_MAX;
}

static enum kvf_status connect_status(int error)
{
    switch (error) {
    case 0:
        return KVF_OK;
    case EAGAIN: /* the backlog is full */
    case EINTR:
        return KVF_IN_PROGRESS;
    case ENOENT:
    case ENOTDIR:
    case ECONNREFUSED:
        return KVF_DAEMON_LOST;
    case EACCES:
    case EPERM:
        return KVF_PERMISSION;
    default:
        return KVF_SYSTEM;
    }
}

enum kvf_status kvf_connection_open(struct kvf_connection *connection, const char *path,
                                    uint64_t deadline_ns)
{
    *connection = (struct kvf_connection){.fd = -1};
    kvf_buf_init(&connection->out.bytes, OUT_MAX_BYTES);
    kvf_buf_init(&connection->in.bytes, IN_MAX_BYTES);
    kvf_buf_init(&connection->frame, OUT_MAX_BYTES);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t n = strlen(path);
    if (n == 0 || n >= sizeof(address.sun_path)) {
        return KVF_INVALID_ARGUMENT;
    }
    memcpy(address.sun_path, path, n);
    connection->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (connection->fd < 0) {
        return KVF_SYSTEM;
    }
    for (;;) {
        int error = 0;
        if (connect(connection->fd, (const struct sockaddr *)&address, sizeof(address)) !=
            0) {
            error = errno;
        }
        enum kvf_status status = connect_status(error);
        if (status != KVF_IN_PROGRESS) {
            return status;
        }
        int left_ms = milliseconds_until(deadline_ns);
        if (left_ms == 0) {
            return KVF_TIMED_OUT;
        }
        (void)poll(NULL, 0, left_ms < BACKLOG_RETRY_MS ? left_ms : BACKLOG_RETRY_MS);
    }
}

void kvf_connection_close(struct kvf_connection *connection)
{
    if (connection->fd >= 0) {
        (void)close(connection->fd); /* what is unsent is given up */
        connection->fd = -1;
    }
    kvf_out_queue_fini(&connection->out);
    kvf_in_queue_fini(&connection->in);
    kvf_buf_fini(&connection->frame);
}

enum kvf_status kvf_connection_credentials(const struct kvf_connection *connection,
                                           struct kvf_credentials *out)
{
    struct ucred credentials;
    socklen_t n = sizeof(credentials);
    if (getsockopt(connection->fd, SOL_SOCKET, SO_PEERCRED, &credentials, &n) != 0) {
        return KVF_SYSTEM;
    }
    *out = (struct kvf_credentials){
        .pid = credentials.pid, .uid = credentials.uid, .gid = credentials.gid};
    return KVF_OK;
}

enum kvf_status kvf_connection_queue(struct kvf_connection *connection,
                                     const struct kvf_message *message, int fd)
{
    kvf_buf_clear(&connection->frame);
    enum kvf_status status =
        kvf_message_encode(message, 0, connection->sequence + 1, &connection->frame);
    if (status != KVF_OK) {
        return status;
    }
    status =
        kvf_out_queue_append(&connection->out, kvf_buf_head(&connection->frame),
                             kvf_buf_length(&connection->frame), &fd, fd >= 0 ? 1 : 0);
    if (status == KVF_OK) {
        connection->sequence++;
    }
    return status;
}

bool kvf_connection_has_output(const struct kvf_connection *connection)
{
    return kvf_buf_length(&connection->out.bytes) > 0;
}

enum kvf_status kvf_connection_write(struct kvf_connection *connection)
{
    return kvf_out_queue_write(&connection->out, connection->fd, SIZE_MAX);
}

enum kvf_status kvf_connection_read(struct kvf_connection *connection)
{
    bool has_input;
    return kvf_in_queue_read(&connection->in, connection->fd, false, CALL_READ_BYTES,
                             &has_input);
}

enum kvf_status kvf_connection_take(struct kvf_connection *connection,
                                    struct kvf_arena *arena, struct kvf_message *out,
                                    const char **out_detail)
{
    struct kvf_buf *in = &connection->in.bytes;
    while (kvf_buf_length(in) >= KVF_FRAME_HEADER_BYTES) {
        struct kvf_frame frame;
        enum kvf_status status = kvf_frame_parse(kvf_buf_head(in), kvf_buf_length(in),
                                                 KVF_FRAME_MAX_PEER, &frame, out_detail);
        if (status != KVF_OK) {
            return status;
        }
        bool is_known = kvf_message_type_is_known(frame.type);
        if (is_known) {
            kvf_arena_reset(arena, kvf_message_budget(frame.length));
            status = kvf_message_decode(frame.type, frame.payload, frame.length, arena,
                                        out, out_detail);
        }
        kvf_buf_consume(in, KVF_FRAME_HEADER_BYTES + frame.length);
        if (is_known) {
            return status;
        }
    }
    return KVF_IN_PROGRESS;
}

void kvf_connection_wait(const struct kvf_connection *connection, uint64_t deadline_ns)
{
    bool has_output = kvf_connection_has_output(connection);
    struct pollfd wanted = {.fd = connection->fd,
                            .events = (short)(POLLIN | (has_output ? POLLOUT : 0))};
    /* Interrupted or not: the caller looks again, at the socket and at the clock. */
    (void)poll(&wanted, 1, milliseconds_until(deadline_ns));
}
