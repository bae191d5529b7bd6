/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one route table: which methods which path takes, on which listener, with which
 * query keys, and the page that answers. 404, 405, OPTIONS, the index page and the label
 * of the HTTP metrics all come from it. Constant; any thread.
 */
#ifndef KVF_ADMIN_ROUTE_H
#define KVF_ADMIN_ROUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kvf_http_request;

enum kvf_http_method { /* bits of a set */
                       KVF_HTTP_GET = 1,
                       KVF_HTTP_HEAD = 2, /* every GET is also a HEAD */
                       KVF_HTTP_OPTIONS = 4,
                       KVF_HTTP_DELETE = 8,
                       KVF_HTTP_POST = 16,
                       KVF_HTTP_PUT = 32,
                       KVF_HTTP_PATCH = 64
};
enum kvf_http_side { KVF_HTTP_OBSERVE = 1, KVF_HTTP_ADMIN = 2, KVF_HTTP_BOTH = 3 };
const char *kvf_http_side_name(enum kvf_http_side side);

typedef void (*kvf_page_fn)(struct kvf_http_request *request);

struct kvf_route {
    enum kvf_http_method method;
    enum kvf_http_side sides;
    const char *path;         /* a last segment "{id}" takes the rest of the path */
    const char *const *query; /* the keys it knows, NULL-terminated */
    kvf_page_fn page;
    const char *summary;
};

struct kvf_route_match {
    const struct kvf_route *route; /* path and method fit; NULL: none */
    const char *template;          /* the path fits; NULL: unknown path */
    const char *parameter;         /* in the path that was asked for; NULL: none */
    uint32_t methods;              /* all that the path takes, HEAD and OPTIONS too */
    bool is_elsewhere;             /* unknown here, served by the other listener */
};
/* HEAD finds the route of GET. */
void kvf_route_find(enum kvf_http_side side, enum kvf_http_method method,
                    const char *path, struct kvf_route_match *out);

const struct kvf_route *kvf_routes(size_t *out_n);
bool kvf_route_knows_key(const struct kvf_route *route, const char *key);

/* False: a method this server has never heard of (501). */
bool kvf_http_method_parse(const char *text, enum kvf_http_method *out);
const char *kvf_http_method_name(const char *text); /* "other" for unknown ones; static */
/* Changes nothing on the server (RFC 9110, 9.2.1). */
bool kvf_http_method_is_safe(enum kvf_http_method method);
/* "GET, HEAD, OPTIONS" */
void kvf_http_methods_format(uint32_t set, char *out, size_t out_bytes);

#endif
