/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small HTTP/1.1 client: one request a connection, over a unix socket or TCP, blocking
 * with a limit on every wait. No redirects, no proxies, no TLS. Bodies are pulled, so
 * that a large CSV is never held in memory. One thread.
 */
#ifndef KVF_CTL_HTTP_CLIENT_H
#define KVF_CTL_HTTP_CLIENT_H

#include <stddef.h>
#include <stdint.h>

#include <kvferry/status.h>

#include "base/sock.h"

#define KVF_CALL_ERROR_MAX 256

/* "unix:/path" or "http://host:port"; on failure *out_error is a static sentence. */
enum kvf_status KVF_MUST_CHECK kvf_call_parse_address(const char *text,
                                                      struct kvf_address *out,
                                                      const char **out_error);

struct kvf_call_config {
    const struct kvf_address *address; /* borrowed during the call, like all here */
    const char *method, *target;       /* target: path and query, escaped */
    const char *accept;
    const char *token;   /* "": none */
    uint32_t timeout_ms; /* of connecting, and of each wait for bytes */
};

struct kvf_call;
/* Connects, sends, reads the head of the answer. PEER_UNREACHABLE: no connection;
 * PEER_LOST: it broke; EXPIRED: a wait took too long; PROTOCOL: not HTTP. `error` gets
 * the reason, empty when the status says it all. */
enum kvf_status KVF_MUST_CHECK kvf_call_open(const struct kvf_call_config *config,
                                             struct kvf_call **out,
                                             char error[KVF_CALL_ERROR_MAX]);
void kvf_call_close(struct kvf_call *call); /* accepts NULL */
unsigned int kvf_call_status(const struct kvf_call *call);
/* The next bytes of the body, chunks joined; *out_n 0: the end. Same statuses. */
enum kvf_status KVF_MUST_CHECK kvf_call_read(struct kvf_call *call, char *out, size_t max,
                                             size_t *out_n);

#endif
