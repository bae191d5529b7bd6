/* SPDX-License-Identifier: Apache-2.0 */
/* One JSON object a line, checked field by field. */
#include "examples/demo_trace.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/channel.h"

#define TOKENS_MAX (16u * 1024 * 1024)

/* Room for one more. Capacity is 64 and then doubles, so it follows from n. */
static bool grow(void **array, size_t n, size_t size)
{
    if (n != 0 && (n < 64 || (n & (n - 1)) != 0)) {
        return true;
    }
    void *grown = reallocarray(*array, n < 64 ? 64 : 2 * n, size);
    if (grown != NULL) {
        *array = grown;
    }
    return grown != NULL;
}

static bool add_keys(struct trace *trace, const json_t *ids)
{
    for (size_t i = 0; i < json_array_size(ids); i++) {
        const json_t *id = json_array_get(ids, i);
        void *keys = trace->keys;
        if (!json_is_integer(id) || json_integer_value(id) < 0 ||
            !grow(&keys, trace->n_keys, sizeof(*trace->keys))) {
            return false;
        }
        trace->keys = keys;
        trace->keys[trace->n_keys++] = (uint64_t)json_integer_value(id);
    }
    return true;
}

static const char *add_request(struct trace *trace, const json_t *line)
{
    const json_t *timestamp = json_object_get(line, "timestamp");
    const json_t *length = json_object_get(line, "input_length");
    const json_t *ids = json_object_get(line, "hash_ids");
    if (!json_is_number(timestamp) || !(json_number_value(timestamp) >= 0)) {
        return "timestamp is not a number of milliseconds";
    }
    if (!json_is_integer(length) || json_integer_value(length) < 1 ||
        json_integer_value(length) > TOKENS_MAX) {
        return "input_length is not a number of tokens";
    }
    uint32_t n_tokens = (uint32_t)json_integer_value(length);
    if (!json_is_array(ids) ||
        json_array_size(ids) != (n_tokens + CHUNK_TOKENS - 1) / CHUNK_TOKENS) {
        return "hash_ids does not name one id for every 512 tokens";
    }
    uint64_t at_ms = (uint64_t)json_number_value(timestamp);
    if (trace->n > 0 && at_ms < trace->requests[trace->n - 1].timestamp_ms) {
        return "timestamp is before that of the line above";
    }
    struct trace_request request = {.timestamp_ms = at_ms,
                                    .n_tokens = n_tokens,
                                    .n_keys = (uint32_t)json_array_size(ids),
                                    .first_key = trace->n_keys};
    void *requests = trace->requests;
    if (!grow(&requests, trace->n, sizeof(*trace->requests))) {
        return "out of memory";
    }
    trace->requests = requests;
    if (!add_keys(trace, ids)) {
        return "hash_ids holds something else than counts";
    }
    trace->requests[trace->n++] = request;
    return NULL;
}

static const char *add_line(struct trace *trace, const char *line)
{
    json_error_t error;
    json_t *object = json_loads(line, 0, &error);
    if (!json_is_object(object)) {
        json_decref(object);
        return "not a JSON object";
    }
    const char *reason = add_request(trace, object);
    json_decref(object);
    return reason;
}

bool trace_load(const char *file, size_t limit, struct trace *out)
{
    struct trace trace = {.requests = NULL};
    FILE *in = fopen(file, "re");
    if (in == NULL) {
        (void)fprintf(stderr, "demo: cannot read %s: %s\n", file, strerror(errno));
        return false;
    }
    char *line = NULL;
    size_t n_line = 0, number = 0;
    const char *reason = NULL;
    while (reason == NULL && trace.n < limit && getline(&line, &n_line, in) > 0) {
        number++;
        reason = add_line(&trace, line);
    }
    free(line);
    (void)fclose(in); /* read only */
    if (reason == NULL && trace.n == 0) {
        reason = "no request";
    }
    if (reason != NULL) {
        (void)fprintf(stderr, "demo: %s:%zu: %s\n", file, number, reason);
        trace_fini(&trace);
        return false;
    }
    *out = trace;
    return true;
}

void trace_fini(struct trace *trace)
{
    free(trace->requests);
    free(trace->keys);
    *trace = (struct trace){.requests = NULL};
}
