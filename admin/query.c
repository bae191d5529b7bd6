/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Query keys and values. An unknown key is an error: a typo in a filter must not turn
 * into "no filter". Loop thread.
 */
#include "admin/query.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "admin/http.h"

#define KEYS_MAX    16
#define CHOICES_MAX 128

struct key_check {
    const struct kvf_route *route;
    const char *seen[KEYS_MAX];
    size_t n_seen;
    const char *unknown, *repeated; /* NULL: none */
};

static bool check_key(void *owner, const char *key)
{
    struct key_check *check = owner;
    if (!kvf_route_knows_key(check->route, key)) {
        check->unknown = key;
        return false;
    }
    for (size_t i = 0; i < check->n_seen; i++) {
        if (strcmp(check->seen[i], key) == 0) {
            check->repeated = key;
            return false;
        }
    }
    if (check->n_seen < KEYS_MAX) {
        check->seen[check->n_seen++] = key;
    }
    return true;
}

static void list_names(const char *const *names, size_t n, char *out, size_t out_bytes)
{
    size_t at = 0;
    out[0] = '\0';
    for (size_t i = 0; i < n && names[i] != NULL && at < out_bytes; i++) {
        at += (size_t)snprintf(out + at, out_bytes - at, "%s%s", i > 0 ? ", " : "",
                               names[i]);
    }
}

bool kvf_query_check_keys(struct kvf_http_request *request)
{
    struct key_check check = {.route = request->route};
    char known[CHOICES_MAX];
    kvf_http_each_key(request, check_key, &check);
    if (check.repeated != NULL) {
        kvf_problem_reply_key(request, check.repeated, "'%s' is given more than once",
                              check.repeated);
        return false;
    }
    if (check.unknown == NULL) {
        return true;
    }
    list_names(request->route->query, KEYS_MAX, known, sizeof(known));
    kvf_problem_reply_key(request, check.unknown, "unknown key '%s'; %s takes %s",
                          check.unknown, request->template,
                          known[0] != '\0' ? known : "no query");
    return false;
}

/* Decimal digits alone; false also on overflow. */
static bool parse_digits(const char *text, size_t n, uint64_t *out)
{
    uint64_t value = 0;
    for (size_t i = 0; i < n; i++) {
        if (!isdigit((unsigned char)text[i]) ||
            __builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, (uint64_t)(text[i] - '0'), &value)) {
            return false;
        }
    }
    *out = value;
    return n > 0;
}

bool kvf_query_u64(struct kvf_http_request *request, const char *key, uint64_t min,
                   uint64_t max, uint64_t *out)
{
    const char *text = kvf_http_query(request, key);
    uint64_t value;
    if (text == NULL) {
        return true;
    }
    if (!parse_digits(text, strlen(text), &value) || value < min || value > max) {
        kvf_problem_reply_key(request, key, "'%s' must be a number from %llu to %llu",
                              key, (unsigned long long)min, (unsigned long long)max);
        return false;
    }
    *out = value;
    return true;
}

bool kvf_query_duration(struct kvf_http_request *request, const char *key,
                        uint64_t max_ms, uint64_t *out_ms)
{
    const char *text = kvf_http_query(request, key);
    uint64_t value = 0;
    if (text == NULL) {
        return true;
    }
    size_t n = strspn(text, "0123456789");
    uint64_t unit_ms = strcmp(text + n, "ms") == 0  ? 1
                       : strcmp(text + n, "s") == 0 ? 1000
                                                    : 0;
    if (unit_ms == 0 || !parse_digits(text, n, &value) || value > max_ms / unit_ms) {
        kvf_problem_reply_key(
            request, key, "'%s' must be a duration such as 500ms or 2s, at most %llus",
            key, (unsigned long long)(max_ms / 1000));
        return false;
    }
    *out_ms = value * unit_ms;
    return true;
}

static bool find_name(const char *text, size_t n_text, const char *const *names, size_t n,
                      size_t *out)
{
    for (size_t i = 0; i < n; i++) {
        if (strlen(names[i]) == n_text && memcmp(names[i], text, n_text) == 0) {
            *out = i;
            return true;
        }
    }
    return false;
}

static bool refuse_name(struct kvf_http_request *request, const char *key,
                        const char *const *names, size_t n)
{
    char known[CHOICES_MAX];
    list_names(names, n, known, sizeof(known));
    kvf_problem_reply_key(request, key, "'%s' must be one of %s", key, known);
    return false;
}

bool kvf_query_choice(struct kvf_http_request *request, const char *key,
                      const char *const *names, size_t n, size_t *out)
{
    const char *text = kvf_http_query(request, key);
    if (text == NULL || find_name(text, strlen(text), names, n, out)) {
        return true;
    }
    return refuse_name(request, key, names, n);
}

bool kvf_query_set(struct kvf_http_request *request, const char *key,
                   const char *const *names, size_t n, uint32_t *out)
{
    const char *text = kvf_http_query(request, key);
    uint32_t set = 0;
    if (text == NULL) {
        return true;
    }
    for (const char *at = text;; at++) {
        size_t length = strcspn(at, ",");
        size_t index;
        if (!find_name(at, length, names, n, &index)) {
            return refuse_name(request, key, names, n);
        }
        set |= 1u << index;
        at += length;
        if (*at == '\0') {
            break;
        }
    }
    *out = set;
    return true;
}
