/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A raw HTTP client on the test's own thread: it sends bytes as they are given and turns
 * the fake daemon's loop until the server has closed the connection or said enough.
 */
#ifndef KVF_TESTS_WEB_CLIENT_H
#define KVF_TESTS_WEB_CLIENT_H

#include <stddef.h>
#include <stdint.h>

#include "tests/support/fake_admin.h"

struct web_answer {
    unsigned int status; /* 0: the connection ended without an answer */
    char *raw;           /* owned: everything received, NUL-terminated */
    size_t n_raw;
    const char *body; /* in raw; chunks joined */
    size_t n_body;
};
void web_answer_free(struct web_answer *answer);
/* The value of a header, or NULL. Copied into a static buffer. */
const char *web_header(const struct web_answer *answer, const char *name);

int web_connect_tcp(uint16_t port);
int web_connect_unix(const char *path);
/* Sends and reads until the server closes (at most 5 s). Closes fd. */
struct web_answer web_exchange(struct fake_admin *fake, int fd, const void *bytes,
                               size_t n);
/* One request with "Connection: close" and Host 127.0.0.1. `headers`: lines with CRLF, or
 * "". */
struct web_answer web_ask(struct fake_admin *fake, uint16_t port, const char *method,
                          const char *target, const char *headers);
/* GET on the admin or observe listener of the fake. */
struct web_answer web_get_admin(struct fake_admin *fake, const char *target);
struct web_answer web_get_observe(struct fake_admin *fake, const char *target);

#endif
