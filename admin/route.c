/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table and the look-ups over it. A dozen rows are searched in order; no tree is
 * faster at that size. Adding a path is adding a row here and a page in pages.h.
 */
#include "admin/route.h"

#include <stdio.h>
#include <string.h>

#include "admin/pages.h"

static const char *const no_keys[] = {NULL};
static const char *const ready_keys[] = {"verbose", NULL};
static const char *const requests_keys[] = {"state", "peer",  "engine",
                                            "since", "limit", NULL};
static const char *const cancel_keys[] = {"wait", NULL};
static const char *const timings_keys[] = {"format", "since", NULL};

static const struct kvf_route table[] = {
    {KVF_HTTP_GET, KVF_HTTP_BOTH, "/", no_keys, kvf_page_index, "this list"},
    {KVF_HTTP_GET, KVF_HTTP_BOTH, "/livez", no_keys, kvf_page_livez,
     "200 while the daemon's loop turns"},
    {KVF_HTTP_GET, KVF_HTTP_BOTH, "/readyz", ready_keys, kvf_page_readyz,
     "200 when requests are taken, 503 otherwise; ?verbose lists the checks"},
    {KVF_HTTP_GET, KVF_HTTP_BOTH, "/startupz", no_keys, kvf_page_startupz,
     "200 once start-up is over"},
    {KVF_HTTP_GET, KVF_HTTP_BOTH, "/healthz", ready_keys, kvf_page_readyz,
     "another name of /readyz"},
    {KVF_HTTP_GET, KVF_HTTP_BOTH, "/metrics", no_keys, kvf_page_metrics,
     "Prometheus text"},
    {KVF_HTTP_GET, KVF_HTTP_BOTH, "/version", no_keys, kvf_page_version,
     "versions of daemon, protocol and libraries"},
    {KVF_HTTP_GET, KVF_HTTP_ADMIN, "/v1/status", no_keys, kvf_page_status,
     "state, engines, peers, totals, warnings"},
    {KVF_HTTP_GET, KVF_HTTP_ADMIN, "/v1/requests", requests_keys, kvf_page_requests,
     "?state=active|done|failed&peer=&engine=&since=&limit="},
    {KVF_HTTP_GET, KVF_HTTP_ADMIN, "/v1/requests/{id}", no_keys, kvf_page_request,
     "every entry of one request, with its phases"},
    {KVF_HTTP_DELETE, KVF_HTTP_ADMIN, "/v1/requests/{id}", cancel_keys, kvf_page_cancel,
     "cancels; ?wait=2s answers with the final state"},
    {KVF_HTTP_GET, KVF_HTTP_ADMIN, "/v1/timings", timings_keys, kvf_page_timings,
     "CSV of ended transfers; ?format=kvferry|trtllm&since="},
    {KVF_HTTP_GET, KVF_HTTP_ADMIN, "/v1/timings.csv", timings_keys, kvf_page_timings,
     "another name of /v1/timings"},
};
#define N_ROUTES (sizeof(table) / sizeof(table[0]))

static const struct {
    const char *text;
    enum kvf_http_method method;
} methods[] = {
    {"GET", KVF_HTTP_GET},       {"HEAD", KVF_HTTP_HEAD}, {"OPTIONS", KVF_HTTP_OPTIONS},
    {"DELETE", KVF_HTTP_DELETE}, {"POST", KVF_HTTP_POST}, {"PUT", KVF_HTTP_PUT},
    {"PATCH", KVF_HTTP_PATCH},
};
#define N_METHODS (sizeof(methods) / sizeof(methods[0]))

const struct kvf_route *kvf_routes(size_t *out_n)
{
    *out_n = N_ROUTES;
    return table;
}

/* *out_parameter stays as it is when the template has none. */
static bool path_fits(const char *template, const char *path, const char **out_parameter)
{
    const char *brace = strchr(template, '{');
    if (brace == NULL) {
        return strcmp(template, path) == 0;
    }
    size_t n = (size_t)(brace - template);
    if (strncmp(template, path, n) != 0 || path[n] == '\0') {
        return false;
    }
    *out_parameter = path + n;
    return true;
}

void kvf_route_find(enum kvf_http_side side, enum kvf_http_method method,
                    const char *path, struct kvf_route_match *out)
{
    enum kvf_http_method wanted = method == KVF_HTTP_HEAD ? KVF_HTTP_GET : method;
    *out = (struct kvf_route_match){.route = NULL};
    for (size_t i = 0; i < N_ROUTES; i++) {
        const struct kvf_route *route = &table[i];
        if (!path_fits(route->path, path, &out->parameter)) {
            continue;
        }
        if ((route->sides & side) == 0) {
            out->is_elsewhere = true;
            continue;
        }
        out->template = route->path;
        out->methods |= (uint32_t)route->method | KVF_HTTP_OPTIONS;
        if (route->method == KVF_HTTP_GET) {
            out->methods |= KVF_HTTP_HEAD;
        }
        if (route->method == wanted) {
            out->route = route;
        }
    }
}

bool kvf_route_knows_key(const struct kvf_route *route, const char *key)
{
    for (const char *const *known = route->query; *known != NULL; known++) {
        if (strcmp(*known, key) == 0) {
            return true;
        }
    }
    return false;
}

bool kvf_http_method_parse(const char *text, enum kvf_http_method *out)
{
    for (size_t i = 0; i < N_METHODS; i++) {
        if (strcmp(methods[i].text, text) == 0) {
            *out = methods[i].method;
            return true;
        }
    }
    return false;
}

const char *kvf_http_method_name(const char *text)
{
    for (size_t i = 0; i < N_METHODS; i++) {
        if (strcmp(methods[i].text, text) == 0) {
            return methods[i].text;
        }
    }
    return "other";
}

const char *kvf_http_side_name(enum kvf_http_side side)
{
    return side == KVF_HTTP_OBSERVE ? "observe" : "admin";
}

bool kvf_http_method_is_safe(enum kvf_http_method method)
{
    return (method & (KVF_HTTP_GET | KVF_HTTP_HEAD | KVF_HTTP_OPTIONS)) != 0;
}

void kvf_http_methods_format(uint32_t set, char *out, size_t out_bytes)
{
    size_t n = 0;
    out[0] = '\0';
    for (size_t i = 0; i < N_METHODS; i++) {
        if ((set & methods[i].method) != 0 && n < out_bytes) {
            n += (size_t)snprintf(out + n, out_bytes - n, "%s%s", n > 0 ? ", " : "",
                                  methods[i].text);
        }
    }
}
