/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything that can be wrong with a request, in one table: HTTP status, the last part
 * of the problem's URN, title. Answers are problem documents (RFC 9457), or one line of
 * text for clients whose Accept prefers text/plain. Loop thread.
 */
#ifndef KVF_ADMIN_PROBLEM_H
#define KVF_ADMIN_PROBLEM_H

struct kvf_http_request;

/* X(name, HTTP status, slug, title) */
#define KVF_PROBLEM_TABLE(X)                                                             \
    X(NONE, 200, "none", "No problem")                                                   \
    X(MALFORMED, 400, "malformed-request", "Malformed request")                          \
    X(BAD_QUERY, 400, "bad-query", "Bad query")                                          \
    X(UNAUTHORIZED, 401, "unauthorized", "Token required")                               \
    X(FORBIDDEN, 403, "forbidden", "Forbidden")                                          \
    X(PATH_NOT_FOUND, 404, "path-not-found", "Path not found")                           \
    X(REQUEST_NOT_FOUND, 404, "request-not-found", "Request not found")                  \
    X(METHOD_NOT_ALLOWED, 405, "method-not-allowed", "Method not allowed")               \
    X(LENGTH_REQUIRED, 411, "length-required", "Length required")                        \
    X(TOO_LARGE, 413, "body-too-large", "Body too large")                                \
    X(MISDIRECTED, 421, "misdirected-request", "Misdirected request")                    \
    X(INTERNAL, 500, "internal-error", "Internal error")                                 \
    X(NOT_IMPLEMENTED, 501, "method-not-implemented", "Method not implemented")          \
    X(UNAVAILABLE, 503, "unavailable", "Temporarily unavailable")

enum kvf_problem {
#define KVF_PROBLEM_ENUM(name, status, slug, title) KVF_PROBLEM_##name,
    KVF_PROBLEM_TABLE(KVF_PROBLEM_ENUM)
#undef KVF_PROBLEM_ENUM
};

/* Replaces whatever was written as the answer so far. */
void kvf_problem_reply(struct kvf_http_request *request, enum kvf_problem problem,
                       const char *detail_format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same for one query key, which the document names under errors[]. */
void kvf_problem_reply_key(struct kvf_http_request *request, const char *key,
                           const char *detail_format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
