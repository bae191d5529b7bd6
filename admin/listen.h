/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listening sockets as bare descriptors, because libmicrohttpd accepts by itself. The
 * rules are those of base/sock.h: first free port of a range, a stale unix socket file is
 * replaced, a live one refused, mode 0660. Start-up.
 */
#ifndef KVF_ADMIN_LISTEN_H
#define KVF_ADMIN_LISTEN_H

#include <stdint.h>

#include <kvferry/status.h>

#include "base/sock.h"

/* *out_fd is the caller's; *out_port is 0 for a unix socket. CONFIG, with the reason
 * logged, when it cannot be opened as asked. */
enum kvf_status KVF_MUST_CHECK kvf_listen_open(const struct kvf_address *address,
                                               int *out_fd, uint16_t *out_port);

#endif
