/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Typed query values. Each reader leaves *out alone when the key is absent, and answers
 * the request with a 400 that names the key and what it takes when the value is wrong
 * (then it returns false and the page is done). Loop thread.
 */
#ifndef KVF_ADMIN_QUERY_H
#define KVF_ADMIN_QUERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kvf_http_request;

/* Every key is one the route knows and comes once. */
bool kvf_query_check_keys(struct kvf_http_request *request);

bool kvf_query_u64(struct kvf_http_request *request, const char *key, uint64_t min,
                   uint64_t max, uint64_t *out);
/* "500ms" or "2s", at most max_ms. */
bool kvf_query_duration(struct kvf_http_request *request, const char *key,
                        uint64_t max_ms, uint64_t *out_ms);
/* *out: index into names[n]. */
bool kvf_query_choice(struct kvf_http_request *request, const char *key,
                      const char *const *names, size_t n, size_t *out);
/* A comma-separated set of names; *out: bit i for names[i]. */
bool kvf_query_set(struct kvf_http_request *request, const char *key,
                   const char *const *names, size_t n, uint32_t *out);

#endif
