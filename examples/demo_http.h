/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One HTTP/1.1 exchange over a Unix socket, blocking with a limit: what the demo needs of
 * the admin listener, and all that a script would need. One thread.
 */
#ifndef KVF_EXAMPLES_DEMO_HTTP_H
#define KVF_EXAMPLES_DEMO_HTTP_H

#include <stdbool.h>
#include <stdint.h>

#define HTTP_BODY_MAX 65536

struct http_answer {
    unsigned int status;
    char text[HTTP_BODY_MAX]; /* the whole answer */
    const char *body;         /* in text */
};

/* False: nobody answered in time, or not in HTTP. Every change carries "X-Kvferry: 1". */
bool http_call(const char *socket_path, const char *method, const char *target,
               uint32_t timeout_ms, struct http_answer *out);

#endif
