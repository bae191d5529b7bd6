/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reading half of an exchange, as http.c uses it; pages use kvf_http_query() and its
 * neighbours in http.h. Loop thread.
 */
#ifndef KVF_ADMIN_REQUEST_H
#define KVF_ADMIN_REQUEST_H

#include "admin/http.h"

/* Percent-decoding in place, in the shape that libmicrohttpd calls (owner is unused). A
 * bad escape or %00 becomes a control character, which the guard refuses. */
size_t kvf_request_unescape(void *owner, struct MHD_Connection *connection, char *text);
void kvf_request_read_headers(struct MHD_Connection *connection, const char *version,
                              struct kvf_http_headers *out);

#endif
