/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The system's network as a kvf_sock: the table that binds the port of base/sock.h to
 * base/stream.c and base/listener.c. Nothing is decided here. Loop thread.
 */
#include "base/sock.h"

#include "base/stream.h"

static const struct kvf_sock_ops system_ops = {
    .listen = kvf_listener_open,
    .listener_close = kvf_listener_close,
    .listener_port = kvf_listener_port,
    .listener_pause = kvf_listener_pause,
    .connect = kvf_stream_connect,
    .attach = kvf_stream_attach,
    .close = kvf_stream_close,
    .in = kvf_stream_in,
    .take_fd = kvf_stream_take_fd,
    .send = kvf_stream_send,
    .out_length = kvf_stream_out_length,
    .credentials = kvf_stream_credentials,
};

void kvf_sock_init_system(struct kvf_sock *sock, struct kvf_loop *loop)
{
    sock->ops = &system_ops;
    sock->loop = loop;
}
