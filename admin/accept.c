/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quality of one media type under an Accept header: the most specific range that covers
 * the type decides, as RFC 9110 wants it. Qualities are kept in thousandths, the
 * precision of the grammar; media type parameters other than q are skipped, since none of
 * our types has any. Pure, any thread.
 */
#include "admin/accept.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

#define QUALITY_FULL 1000

static size_t trim(const char **text, size_t n)
{
    while (n > 0 && isspace((unsigned char)**text)) {
        (*text)++;
        n--;
    }
    while (n > 0 && isspace((unsigned char)(*text)[n - 1])) {
        n--;
    }
    return n;
}

/* "0.85" -> 850; what is not a quality counts as full, like a missing one. */
static int parse_quality(const char *text, size_t n)
{
    int value = 0;
    int scale = QUALITY_FULL;
    for (size_t i = 0; i < n && i < sizeof("0.000") - 1; i++) {
        if (i == 1 && text[i] == '.') {
            continue;
        }
        if (!isdigit((unsigned char)text[i])) {
            return QUALITY_FULL;
        }
        value += (text[i] - '0') * scale;
        scale /= 10;
    }
    return value > QUALITY_FULL ? QUALITY_FULL : value;
}

/* The q among the parameters that follow a range. */
static int quality_of(const char *parameters, size_t n)
{
    while (n > 0) {
        const char *end = memchr(parameters, ';', n);
        size_t length = end != NULL ? (size_t)(end - parameters) : n;
        const char *parameter = parameters;
        size_t trimmed = trim(&parameter, length);
        if (trimmed > 2 && strncasecmp(parameter, "q=", 2) == 0) {
            return parse_quality(parameter + 2, trimmed - 2);
        }
        size_t step = end != NULL ? length + 1 : length;
        parameters += step;
        n -= step;
    }
    return QUALITY_FULL;
}

/* 0: does not cover the type; 1: every type; 2: type/anything; 3: the type itself. */
static int specificity(const char *range, size_t n, const char *type)
{
    const char *slash = strchr(type, '/');
    size_t major = (size_t)(slash - type) + 1;
    if (n == 3 && memcmp(range, "*/*", 3) == 0) {
        return 1;
    }
    if (n == major + 1 && strncasecmp(range, type, major) == 0 && range[major] == '*') {
        return 2;
    }
    return n == strlen(type) && strncasecmp(range, type, n) == 0 ? 3 : 0;
}

static int quality(const char *accept, const char *type)
{
    int best = 0;
    int result = 0;
    const char *at = accept;
    while (*at != '\0') {
        size_t length = strcspn(at, ",");
        const char *semicolon = memchr(at, ';', length);
        const char *range = at;
        size_t n = semicolon != NULL ? (size_t)(semicolon - at) : length;
        size_t n_parameters = semicolon != NULL ? length - n - 1 : 0;
        int found = specificity(range, trim(&range, n), type);
        if (found > best) {
            best = found;
            result = semicolon != NULL ? quality_of(semicolon + 1, n_parameters)
                                       : QUALITY_FULL;
        }
        at += length;
        at += *at == ',' ? 1 : 0;
    }
    return result;
}

bool kvf_accept_prefers(const char *accept, const char *type, const char *fallback)
{
    return accept != NULL && quality(accept, type) > quality(accept, fallback);
}
