/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages that are one document: the index, metrics, versions, and the status that
 * `kvferryctl status` prints. Loop thread.
 */
#include "admin/pages.h"

#include <stdio.h>

#include "base/alloc.h"

#include "admin/json.h"

#define ENGINES_MAX 64 /* shown; a node has few */
#define PEERS_MAX   256
#define CHECKS_MAX  64

void kvf_page_index(struct kvf_http_request *request)
{
    size_t n;
    const struct kvf_route *routes = kvf_routes(&n);
    kvf_reply_begin(request, 200, KVF_TEXT_TYPE);
    kvf_reply_print(request, "kvferry, %s listener\n\n",
                    kvf_http_side_name(request->side));
    for (size_t i = 0; i < n; i++) {
        char method[16];
        if ((routes[i].sides & request->side) != 0) {
            kvf_http_methods_format((uint32_t)routes[i].method, method, sizeof(method));
            kvf_reply_print(request, "%-6s %-20s %s\n", method, routes[i].path,
                            routes[i].summary);
        }
    }
}

static ssize_t write_body(void *owner, const char *bytes, size_t n)
{
    return kvf_buf_append(owner, bytes, n) == KVF_OK ? (ssize_t)n : 0; /* 0: an error */
}

void kvf_page_metrics(struct kvf_http_request *request)
{
    kvf_reply_begin(request, 200, "text/plain; version=0.0.4; charset=utf-8");
    FILE *out = fopencookie(&request->reply.body, "w",
                            (cookie_io_functions_t){.write = write_body});
    enum kvf_status status = KVF_NO_MEMORY;
    if (out != NULL) {
        request->ops->collect(request->ops_owner);
        status = kvf_metrics_render(request->ops->metrics(request->ops_owner), out);
        (void)fclose(out); /* render has flushed */
    }
    if (status != KVF_OK) {
        kvf_problem_reply(request, KVF_PROBLEM_INTERNAL, "metrics are not rendered: %s",
                          kvf_status_text(status));
    }
}

void kvf_page_version(struct kvf_http_request *request)
{
    struct kvf_admin_version version;
    request->ops->version(request->ops_owner, &version);
    kvf_json_reply(request, 200, KVF_JSON_TYPE, kvf_json_version(&version));
}

/* ---- status */

/* Appends item to *array; on failure *array becomes NULL, as json.h has it. */
static void append(json_t **array, json_t *item)
{
    if (*array == NULL) {
        json_decref(item);
    } else if (json_array_append_new(*array, item) != 0) {
        json_decref(*array);
        *array = NULL;
    }
}

static json_t *engines_json(const struct kvf_http_request *request)
{
    struct kvf_admin_engine *engines = kvf_alloc_array(ENGINES_MAX, sizeof(*engines));
    json_t *array = engines != NULL ? json_array() : NULL;
    if (array != NULL) {
        size_t n = request->ops->engines(request->ops_owner, engines, ENGINES_MAX);
        for (size_t i = 0; i < n; i++) {
            append(&array, kvf_json_engine(&engines[i]));
        }
    }
    kvf_free(engines);
    return array;
}

static json_t *peers_json(const struct kvf_http_request *request)
{
    struct kvf_admin_peer *peers = kvf_alloc_array(PEERS_MAX, sizeof(*peers));
    json_t *array = peers != NULL ? json_array() : NULL;
    if (array != NULL) {
        size_t n = request->ops->peers(request->ops_owner, peers, PEERS_MAX);
        for (size_t i = 0; i < n; i++) {
            append(&array, kvf_json_peer(&peers[i]));
        }
    }
    kvf_free(peers);
    return array;
}

static json_t *warning(const char *code, const char *message)
{
    return json_pack("{s:o, s:o}", "code", kvf_json_text(code), "message",
                     kvf_json_text(message));
}

/* What /readyz?verbose shows with [!], and what the configuration gave away. */
static json_t *warnings_json(const struct kvf_http_request *request, bool is_insecure)
{
    struct kvf_admin_check checks[CHECKS_MAX];
    json_t *array = json_array();
    size_t n = request->ops->checks(request->ops_owner, checks, CHECKS_MAX);
    for (size_t i = 0; i < n; i++) {
        if (!checks[i].is_ok && checks[i].is_warning) {
            append(&array, warning(checks[i].name, checks[i].detail));
        }
    }
    if (is_insecure) {
        append(&array,
               warning("insecure", "an option that gives up authentication is on"));
    }
    return array;
}

void kvf_page_status(struct kvf_http_request *request)
{
    struct kvf_admin_status status;
    struct kvf_admin_version version;
    request->ops->status(request->ops_owner, &status);
    request->ops->version(request->ops_owner, &version);
    json_t *json = json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "name", kvf_json_text(status.node),
        "version", kvf_json_text_or_null(version.version), "state",
        kvf_json_text(status.state), "uptime_seconds",
        kvf_json_seconds(status.uptime_seconds), "engines", engines_json(request),
        "peers", peers_json(request), "transfers", kvf_json_totals(&status), "warnings",
        warnings_json(request, status.is_insecure));
    kvf_json_reply(request, 200, KVF_JSON_TYPE, json);
}
