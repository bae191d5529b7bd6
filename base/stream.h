/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The system's streams and listeners, as base/sock.c puts them into its table of ops:
 * see struct kvf_sock_ops in base/sock.h for what each call means. Private to base.
 * Loop thread.
 */
#ifndef KVF_BASE_STREAM_H
#define KVF_BASE_STREAM_H

#include <stdbool.h>

#include "base/sock.h"

/* Takes ownership of fd, an accepted connection, unless it returns NULL (no memory). */
struct kvf_stream *kvf_stream_adopt(struct kvf_loop *loop, int fd, bool is_unix);

enum kvf_status kvf_stream_connect(struct kvf_sock *sock, const struct kvf_sockaddr *to,
                                   const struct kvf_stream_config *config,
                                   const struct kvf_stream_events *events, void *owner,
                                   struct kvf_stream **out);
void kvf_stream_attach(struct kvf_stream *stream, const struct kvf_stream_config *config,
                       const struct kvf_stream_events *events, void *owner);
void kvf_stream_close(struct kvf_stream *stream);
struct kvf_buf *kvf_stream_in(struct kvf_stream *stream);
int kvf_stream_take_fd(struct kvf_stream *stream);
enum kvf_status kvf_stream_send(struct kvf_stream *stream, const void *bytes,
                                size_t n_bytes, const int *fds, size_t n_fds);
size_t kvf_stream_out_length(const struct kvf_stream *stream);
enum kvf_status kvf_stream_credentials(const struct kvf_stream *stream,
                                       struct kvf_credentials *out);

enum kvf_status kvf_listener_open(struct kvf_sock *sock,
                                  const struct kvf_address *address,
                                  const struct kvf_listener_events *events, void *owner,
                                  struct kvf_listener **out);
void kvf_listener_close(struct kvf_listener *listener);
uint16_t kvf_listener_port(const struct kvf_listener *listener);
void kvf_listener_pause(struct kvf_listener *listener, bool is_paused);

#endif
