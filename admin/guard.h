/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a request must be before any page sees it: well formed, meant for this host (DNS
 * rebinding), not sent by a foreign web page (CSRF), and, on the admin side, carrying the
 * token. Pure decisions over collected headers, so that they are tested without sockets.
 * The guard owns its copy of the token. Loop thread.
 */
#ifndef KVF_ADMIN_GUARD_H
#define KVF_ADMIN_GUARD_H

#include <stdbool.h>
#include <stddef.h>

#include <kvferry/status.h>

#include "admin/problem.h"
#include "admin/route.h"

#define KVF_HTTP_BODY_MAX  (64u * 1024)
#define KVF_HTTP_TOKEN_MAX 256

/* The headers that decide anything; NULL: absent. Values are borrowed. */
struct kvf_http_headers {
    const char *host, *origin, *accept, *authorization, *content_type, *content_length;
    const char *kvferry; /* X-Kvferry */
    size_t n_hosts, n_content_lengths;
    bool has_transfer_encoding;
    bool has_control; /* a control character in any header or query value */
    bool is_http_11;  /* and not 1.0, where Host may be missing */
};

struct kvf_guard {
    const char *const *allow_hosts; /* owned by the guard's owner */
    size_t n_allow_hosts;
    char token[KVF_HTTP_TOKEN_MAX]; /* "": none asked for */
    size_t n_token;
};

/* Every check returns KVF_PROBLEM_NONE or the problem, with a static sentence. */

/* Framing that two parsers could read in two ways, or a body over the limit. Such an
 * answer must close the connection. */
enum kvf_problem kvf_guard_framing(const struct kvf_http_headers *headers,
                                   const char **out_detail);
enum kvf_problem kvf_guard_path(const char *path, const char **out_detail);
enum kvf_problem kvf_guard_host(const struct kvf_guard *guard,
                                const struct kvf_http_headers *headers,
                                const char **out_detail);
enum kvf_problem kvf_guard_origin(const struct kvf_http_headers *headers,
                                  const char **out_detail);
enum kvf_problem kvf_guard_token(const struct kvf_guard *guard,
                                 const struct kvf_http_headers *headers,
                                 const char **out_detail);
/* A mutation must carry what a plain HTML form cannot send. */
enum kvf_problem kvf_guard_mutation(const struct kvf_http_headers *headers,
                                    const char **out_detail);

/* Reads the first line of the file. CONFIG, with the reason logged, when it cannot be
 * read, is empty or too long; a file that others may read is warned about. */
enum kvf_status KVF_MUST_CHECK kvf_guard_load_token(struct kvf_guard *guard,
                                                    const char *file);

#endif
