/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How pages write answers: into the exchange's own buffer, under one ceiling. Failures
 * (memory, ceiling) are not reported to the page, which could do nothing about them; they
 * turn the answer into a bare 500, or cut it where its head is out already. Loop thread.
 */
#include <stdarg.h>
#include <stdio.h>

#include "admin/http.h"

#define PRINT_MAX 1024

void kvf_reply_begin(struct kvf_http_request *request, unsigned int status,
                     const char *type)
{
    struct kvf_http_reply *reply = &request->reply;
    kvf_buf_clear(&reply->body);
    reply->status = status;
    reply->type = type;
    reply->fill = NULL;
    reply->n_headers = 0;
    reply->has_failed = false;
}

static void fail(struct kvf_http_reply *reply)
{
    kvf_buf_clear(&reply->body);
    reply->status = 500;
    reply->type = NULL;
    reply->has_failed = true;
}

void kvf_reply_append(struct kvf_http_request *request, const void *bytes, size_t n)
{
    struct kvf_http_reply *reply = &request->reply;
    if (!reply->has_failed && kvf_buf_append(&reply->body, bytes, n) != KVF_OK) {
        fail(reply);
    }
}

void kvf_reply_print(struct kvf_http_request *request, const char *format, ...)
{
    char line[PRINT_MAX];
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    if (n < 0 || (size_t)n >= sizeof(line)) {
        fail(&request->reply);
        return;
    }
    kvf_reply_append(request, line, (size_t)n);
}

void kvf_reply_header(struct kvf_http_request *request, const char *name,
                      const char *format, ...)
{
    struct kvf_http_reply *reply = &request->reply;
    va_list arguments;
    if (reply->n_headers == KVF_HTTP_HEADERS_MAX) {
        fail(reply);
        return;
    }
    reply->headers[reply->n_headers].name = name;
    va_start(arguments, format);
    (void)vsnprintf(reply->headers[reply->n_headers].value,
                    sizeof(reply->headers[0].value), format, arguments);
    va_end(arguments);
    reply->n_headers++;
}
