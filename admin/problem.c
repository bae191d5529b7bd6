/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Problem documents. `instance` carries the number under which the exchange stands in the
 * log; `type` is a URN, since the documentation's address is not the daemon's to know.
 * Loop thread.
 */
#include "admin/problem.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>

#include "admin/accept.h"
#include "admin/http.h"
#include "admin/json.h"

#define DETAIL_MAX   512
#define INSTANCE_MAX 64
#define TYPE_MAX     64

struct problem_row {
    unsigned int status;
    const char *slug, *title;
};

static const struct problem_row rows[] = {
#define KVF_PROBLEM_ROW(name, status, slug, title)                                       \
    [KVF_PROBLEM_##name] = {(status), (slug), (title)},
    KVF_PROBLEM_TABLE(KVF_PROBLEM_ROW)
#undef KVF_PROBLEM_ROW
};

static json_t *document(const struct kvf_http_request *request,
                        const struct problem_row *row, const char *detail)
{
    char type[TYPE_MAX];
    char instance[INSTANCE_MAX];
    (void)snprintf(type, sizeof(type), "urn:kvferry:problem:%s", row->slug);
    (void)snprintf(instance, sizeof(instance), "urn:kvferry:http:%s:%llu",
                   kvf_http_side_name(request->side),
                   (unsigned long long)request->number);
    return json_pack("{s:s, s:s, s:i, s:o, s:s}", "type", type, "title", row->title,
                     "status", (int)row->status, "detail", kvf_json_text(detail),
                     "instance", instance);
}

static void reply(struct kvf_http_request *request, enum kvf_problem problem,
                  const char *key, const char *detail)
{
    const struct problem_row *row = &rows[problem];
    if (kvf_accept_prefers(request->headers.accept, "text/plain",
                           "application/problem+json")) {
        kvf_reply_begin(request, row->status, "text/plain; charset=utf-8");
        kvf_reply_print(request, "%s: %s\n", row->title, detail);
    } else {
        json_t *json = document(request, row, detail);
        if (key != NULL && json != NULL) {
            /* Lost without memory: the detail names the key anyway. */
            (void)json_object_set_new(json, "errors",
                                      json_pack("[{s:o, s:o}]", "key", kvf_json_text(key),
                                                "detail", kvf_json_text(detail)));
        }
        kvf_json_reply(request, row->status, "application/problem+json", json);
    }
    if (problem == KVF_PROBLEM_UNAUTHORIZED) {
        kvf_reply_header(request, "WWW-Authenticate", "Bearer realm=\"kvferry\"");
    }
}

void kvf_problem_reply(struct kvf_http_request *request, enum kvf_problem problem,
                       const char *detail_format, ...)
{
    char detail[DETAIL_MAX];
    va_list arguments;
    va_start(arguments, detail_format);
    (void)vsnprintf(detail, sizeof(detail), detail_format, arguments); /* cut is fine */
    va_end(arguments);
    reply(request, problem, NULL, detail);
}

void kvf_problem_reply_key(struct kvf_http_request *request, const char *key,
                           const char *detail_format, ...)
{
    char detail[DETAIL_MAX];
    va_list arguments;
    va_start(arguments, detail_format);
    (void)vsnprintf(detail, sizeof(detail), detail_format, arguments); /* cut is fine */
    va_end(arguments);
    reply(request, KVF_PROBLEM_BAD_QUERY, key, detail);
}
