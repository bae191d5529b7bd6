/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The structs of admin.h as JSON values, and a JSON value as an answer. snake_case, base
 * units with the unit in the name, ids as strings, times in RFC 3339; fields may be
 * added, never renamed, and tests pin the shapes byte for byte. Every maker returns a new
 * value or NULL without memory; a container with a NULL member is NULL, so only the last
 * one is checked. Loop thread.
 */
#ifndef KVF_ADMIN_JSON_H
#define KVF_ADMIN_JSON_H

#include <jansson.h>

#include "base/buf.h"

#include "admin/admin.h"

struct kvf_http_request;

/* Bytes that are not UTF-8 are shown as \xNN: peers can put them into details. */
json_t *kvf_json_text(const char *text);
json_t *kvf_json_text_or_null(const char *text); /* "" and NULL: null */
json_t *kvf_json_count(uint64_t n);              /* capped at 2^63 - 1 */
json_t *kvf_json_seconds(double seconds);        /* null when not finite */

json_t *kvf_json_version(const struct kvf_admin_version *version);
json_t *kvf_json_check(const struct kvf_admin_check *check);
json_t *kvf_json_engine(const struct kvf_admin_engine *engine);
json_t *kvf_json_peer(const struct kvf_admin_peer *peer);
json_t *kvf_json_totals(const struct kvf_admin_status *status);
/* The row of a list; with_phases adds the timeline. */
json_t *kvf_json_request(const struct kvf_admin_request *request, bool with_phases);

/* Compact text, no line end. Consumes json, which may be NULL (then NO_MEMORY). */
enum kvf_status KVF_MUST_CHECK kvf_json_write(json_t *json, struct kvf_buf *out);

/* Answers with json and a line end. Consumes json; NULL becomes a 500. */
void kvf_json_reply(struct kvf_http_request *request, unsigned int status,
                    const char *type, json_t *json);
#define KVF_JSON_TYPE "application/json"

#endif
