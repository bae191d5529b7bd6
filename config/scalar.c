/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Digits are read here and not by strtoull, which takes signs, spaces, octal and hex.
 * Every product is checked: a size that does not fit is refused, not wrapped.
 */
#include "config/scalar.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"

#define NAME_MAX_BYTES (KVF_CONFIG_NAME_BYTES - 1)

struct unit {
    const char *suffix;
    uint64_t factor;
};

/* Largest first: formatting takes the first that divides. */
static const struct unit sizes[] = {
    {"TiB", 1ull << 40}, {"GiB", 1ull << 30}, {"MiB", 1ull << 20}, {"KiB", 1ull << 10}};
static const struct unit durations[] = {
    {"h", 3600000000ull}, {"m", 60000000}, {"s", 1000000}, {"ms", 1000}, {"us", 1}};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Reads digits with single underscores between them; *out_end points behind. False: no
 * digit at the start, or the number does not fit. */
static bool read_digits(const char *text, uint64_t *out, const char **out_end)
{
    uint64_t value = 0;
    const char *at = text;
    if (!is_digit(*at)) {
        return false;
    }
    while (is_digit(*at) || (*at == '_' && is_digit(at[1]) && at[-1] != '_')) {
        if (*at != '_' && (!kvf_size_mul(value, 10, &value) ||
                           !kvf_size_add(value, (uint64_t)(*at - '0'), &value))) {
            return false;
        }
        at++;
    }
    *out = value;
    *out_end = at;
    return true;
}

enum kvf_status kvf_scalar_boolean(const char *text, bool *out,
                                   struct kvf_value_refusal *out_refusal)
{
    static const char *const truths[] = {"yes", "on", "y", "1", "true"};
    static const char *const lies[] = {"no", "off", "n", "0", "false"};
    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0) {
        *out = text[0] == 't';
        return KVF_OK;
    }
    for (size_t i = 0; i < COUNT(truths); i++) {
        if (strcasecmp(text, truths[i]) == 0) {
            return kvf_value_refuse(out_refusal, "'%s' is not a boolean here; write true",
                                    text);
        }
        if (strcasecmp(text, lies[i]) == 0) {
            return kvf_value_refuse(out_refusal,
                                    "'%s' is not a boolean here; write false", text);
        }
    }
    return kvf_value_refuse(out_refusal, "'%.40s' is not a boolean; write true or false",
                            text);
}

enum kvf_status kvf_scalar_integer(const char *text, uint64_t *out,
                                   struct kvf_value_refusal *out_refusal)
{
    uint64_t value = 0;
    const char *end = text;
    if (text[0] == '-') {
        return kvf_value_refuse(out_refusal, "'%.40s' is negative", text);
    }
    if (!read_digits(text, &value, &end) || *end != '\0') {
        return kvf_value_refuse(out_refusal, "'%.40s' is not a whole number", text);
    }
    if (text[0] == '0' && text[1] != '\0') {
        return kvf_value_refuse(out_refusal,
                                "'%.40s' may be read as octal; write it without the "
                                "leading zero",
                                text);
    }
    *out = value;
    return KVF_OK;
}

static const struct unit *find_unit(const struct unit *units, size_t n,
                                    const char *suffix)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(units[i].suffix, suffix) == 0) {
            return &units[i];
        }
    }
    return NULL;
}

/* 64M, 64MB, 64mb, 64k: which power is meant? Shows both ways to write it. */
static enum kvf_status refuse_size(const char *text, uint64_t value, const char *suffix,
                                   struct kvf_value_refusal *out_refusal)
{
    static const char letters[] = "KMGT";
    static const uint64_t thousands[] = {1000, 1000000, 1000000000, 1000000000000};
    char letter = (char)(suffix[0] & ~0x20); /* upper case, if it is a letter */
    const char *found = letter == '\0' ? NULL : strchr(letters, letter);
    bool is_known =
        found != NULL && (suffix[1] == '\0' || strcasecmp(suffix + 1, "b") == 0 ||
                          strcasecmp(suffix + 1, "ib") == 0);
    uint64_t decimal = 0;
    if (!is_known || !kvf_size_mul(value, thousands[found - letters], &decimal)) {
        return kvf_value_refuse(out_refusal,
                                "'%.40s' is not a size; write bytes or KiB, MiB, GiB, "
                                "TiB, as in 64MiB",
                                text);
    }
    return kvf_value_refuse(out_refusal,
                            "'%.40s' is ambiguous; write %" PRIu64 "%ciB, or %" PRIu64
                            " for the decimal one",
                            text, value, letter, decimal);
}

enum kvf_status kvf_scalar_size(const char *text, uint64_t *out_bytes,
                                struct kvf_value_refusal *out_refusal)
{
    uint64_t value = 0;
    const char *suffix = "";
    if (!read_digits(text, &value, &suffix)) {
        return kvf_value_refuse(out_refusal, "'%.40s' is not a size, as in 4096 or 64MiB",
                                text);
    }
    if (*suffix == '\0') {
        *out_bytes = value;
        return KVF_OK;
    }
    const struct unit *unit = find_unit(sizes, COUNT(sizes), suffix);
    if (unit == NULL) {
        return refuse_size(text, value, suffix, out_refusal);
    }
    uint64_t bytes = 0;
    if (!kvf_size_mul(value, unit->factor, &bytes)) {
        return kvf_value_refuse(out_refusal, "'%.40s' is larger than any memory", text);
    }
    *out_bytes = bytes;
    return KVF_OK;
}

enum kvf_status kvf_scalar_duration(const char *text, uint64_t *out_us,
                                    struct kvf_value_refusal *out_refusal)
{
    uint64_t value = 0;
    const char *suffix = "";
    if (!read_digits(text, &value, &suffix)) {
        return kvf_value_refuse(out_refusal, "'%.40s' is not a time, as in 500ms or 30s",
                                text);
    }
    if (*suffix == '\0' && value == 0) {
        *out_us = 0;
        return KVF_OK;
    }
    if (*suffix == '\0') {
        return kvf_value_refuse(out_refusal,
                                "'%.40s' lacks a unit; write %.40sms or %.40ss", text,
                                text, text);
    }
    const struct unit *unit = find_unit(durations, COUNT(durations), suffix);
    if (unit == NULL) {
        return kvf_value_refuse(out_refusal,
                                "'%.40s' is not a time; whole numbers of us, ms, s, m or "
                                "h, as in 1500ms",
                                text);
    }
    uint64_t us = 0;
    if (!kvf_size_mul(value, unit->factor, &us)) {
        return kvf_value_refuse(out_refusal, "'%.40s' is too long a time", text);
    }
    *out_us = us;
    return KVF_OK;
}

enum kvf_status kvf_scalar_choice(const char *text, const char *const *names,
                                  uint32_t *out_index,
                                  struct kvf_value_refusal *out_refusal)
{
    struct kvf_nearest nearest;
    char all[128] = "";
    size_t used = 0;
    kvf_nearest_init(&nearest, text);
    for (uint32_t i = 0; names[i] != NULL; i++) {
        if (strcmp(text, names[i]) == 0) {
            *out_index = i;
            return KVF_OK;
        }
        kvf_nearest_offer(&nearest, names[i]);
        int n =
            snprintf(all + used, sizeof(all) - used, "%s%s", i > 0 ? ", " : "", names[i]);
        if (n > 0 && (size_t)n < sizeof(all) - used) {
            used += (size_t)n;
        }
    }
    return kvf_value_refuse(out_refusal, "'%.40s' is not one of %s%s", text, all,
                            kvf_nearest_suffix(&nearest));
}

enum kvf_status kvf_scalar_name(const char *text, struct kvf_value_refusal *out_refusal)
{
    size_t n = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                            "0123456789._-");
    if (text[0] == '\0') {
        return kvf_value_refuse(out_refusal, "a name is empty");
    }
    if (text[n] != '\0') {
        return kvf_value_refuse(out_refusal,
                                "'%.40s' is not a name; letters, digits, '.', '_' and "
                                "'-' only",
                                text);
    }
    if (n > NAME_MAX_BYTES) {
        return kvf_value_refuse(out_refusal, "'%.40s...' is longer than 63 characters",
                                text);
    }
    return KVF_OK;
}

static void format_units(uint64_t value, const struct unit *units, size_t n,
                         char out[KVF_SCALAR_TEXT_BYTES])
{
    for (size_t i = 0; i < n; i++) {
        if (value != 0 && value % units[i].factor == 0) {
            (void)snprintf(out, KVF_SCALAR_TEXT_BYTES, "%" PRIu64 "%s",
                           value / units[i].factor, units[i].suffix);
            return;
        }
    }
    (void)snprintf(out, KVF_SCALAR_TEXT_BYTES, "%" PRIu64, value);
}

void kvf_scalar_format_size(uint64_t bytes, char out[KVF_SCALAR_TEXT_BYTES])
{
    format_units(bytes, sizes, COUNT(sizes), out);
}

void kvf_scalar_format_duration(uint64_t us, char out[KVF_SCALAR_TEXT_BYTES])
{
    format_units(us, durations, COUNT(durations), out);
}
