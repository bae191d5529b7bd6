/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One HTTP listener on the daemon's loop: libmicrohttpd with its epoll descriptor hung
 * into the loop, and the exchange (request and answer) that pages see. Only http.c and
 * request.c know libmicrohttpd. It does not know what a path means: serve() is handed in.
 * A server owns its listening socket and its exchanges; an exchange owns its answer. Loop
 * thread.
 */
#ifndef KVF_ADMIN_HTTP_H
#define KVF_ADMIN_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kvferry/status.h>

#include "base/buf.h"
#include "base/list.h"
#include "base/loop.h"

#include "admin/admin.h"
#include "admin/guard.h"
#include "admin/route.h"

#define KVF_HTTP_SLICE_BYTES (32u * 1024)       /* of a streamed answer, per turn */
#define KVF_HTTP_REPLY_MAX   (8u * 1024 * 1024) /* of an answer that is not streamed */
#define KVF_HTTP_WHO_MAX     96

struct MHD_Connection; /* libmicrohttpd's */
struct kvf_http_server;
struct kvf_http_request;

/* Writes the next slice of a streamed answer to reply.body; nothing written: the end.
 * A failure cuts the connection, so that the client sees a broken answer. */
typedef enum kvf_status (*kvf_http_fill_fn)(struct kvf_http_request *request);
/* Looks whether what the exchange waits for has come; true: the answer is written. */
typedef bool (*kvf_http_poll_fn)(struct kvf_http_request *request);

#define KVF_HTTP_HEADERS_MAX 6
struct kvf_http_reply {
    unsigned int status;
    const char *type; /* static; NULL: no body */
    struct kvf_buf body;
    kvf_http_fill_fn fill; /* NULL: body is the whole answer */
    struct {
        const char *name; /* static */
        char value[160];
    } headers[KVF_HTTP_HEADERS_MAX];
    size_t n_headers;
    bool has_failed; /* something did not fit: a 500, or a stream to be cut */
};

/* What a page remembers between the slices of a stream or the polls of a wait. */
struct kvf_page_state {
    struct kvf_admin_filter filter; /* its strings are the query's */
    enum kvf_admin_timings format;
    uint64_t cursor;
    uint64_t deadline_ns;
    size_t n_written;
    bool is_begun, is_ended;
};

struct kvf_http_request {
    uint32_t magic;
    struct kvf_http_server *server;    /* borrows */
    struct MHD_Connection *connection; /* borrows, until the exchange ends */
    enum kvf_http_side side;
    const struct kvf_admin_ops *ops; /* borrows */
    void *ops_owner;
    const struct kvf_guard *guard; /* borrows */
    struct kvf_loop *loop;         /* borrows */

    uint64_t number;                /* names the exchange in problems and in the log */
    const char *method_text, *path; /* borrowed from the connection */
    struct kvf_http_headers headers;
    const struct kvf_route *route; /* NULL: none found */
    const char *template;          /* the route's path, also when the method is wrong */
    const char *parameter;         /* what {id} stands for; NULL: none */
    struct kvf_http_reply reply;
    struct kvf_page_state page;

    /* http.c's own */
    uint64_t start_ns;
    size_t n_body_bytes;
    bool is_served, is_answered, is_stream;
    kvf_http_poll_fn poll; /* while suspended */
    struct kvf_timer poll_timer;
    struct kvf_node waiting; /* in the server's list while suspended */
};

struct kvf_http_config {
    struct kvf_loop *loop; /* borrowed, like all pointers here, for the server's life */
    int fd; /* listening, nonblocking; the server owns it from the call on */
    enum kvf_http_side side;
    const struct kvf_guard *guard;
    const struct kvf_admin_ops *ops;
    void *ops_owner;
    void (*serve)(struct kvf_http_request *request); /* writes the answer */
};
enum kvf_status KVF_MUST_CHECK kvf_http_server_open(const struct kvf_http_config *config,
                                                    struct kvf_http_server **out);
/* Waiting exchanges are answered 503, running ones are cut. Accepts NULL. Not from a
 * page. */
void kvf_http_server_close(struct kvf_http_server *server);

/* ---- for pages: reading the request */

/* NULL: the key is absent. "": present, perhaps without a value. */
const char *kvf_http_query(const struct kvf_http_request *request, const char *key);
typedef bool (*kvf_http_key_fn)(void *owner, const char *key);
/* Every key in the order it came, repeats too, until fn returns false. */
void kvf_http_each_key(const struct kvf_http_request *request, kvf_http_key_fn fn,
                       void *owner);
/* Who asks: "uid 1000", "token from 10.0.0.7" or "10.0.0.7". */
const char *kvf_http_who(const struct kvf_http_request *request,
                         char out[KVF_HTTP_WHO_MAX]);

/* ---- for pages: writing the answer */

/* Begins an answer anew: what was written before is dropped. */
void kvf_reply_begin(struct kvf_http_request *request, unsigned int status,
                     const char *type);
/* Bytes that do not fit any more turn the answer into a 500. */
void kvf_reply_append(struct kvf_http_request *request, const void *bytes, size_t n);
void kvf_reply_print(struct kvf_http_request *request, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void kvf_reply_header(struct kvf_http_request *request, const char *name,
                      const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Streams the body; false, with a 503 written, when enough streams run already. */
bool kvf_reply_stream(struct kvf_http_request *request, const char *type,
                      kvf_http_fill_fn fill);
/* Suspends the exchange; poll is asked every 20 ms until it returns true. */
void kvf_reply_wait(struct kvf_http_request *request, kvf_http_poll_fn poll);

#endif
