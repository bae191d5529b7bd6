/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One pair of functions a kind: parse into a value on the stack, check it, store it. The
 * fields are reached by offset, with memcpy, because the table knows sizes and no types.
 */
#include "config/value.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "config/scalar.h"

#define US_PER_MS 1000

/* A parsed value before it is stored; the kind says which member. */
union parsed {
    struct kvf_address address;
    char text[KVF_CONFIG_PATH_BYTES];
    uint64_t wide;
    uint32_t narrow;
    bool flag;
};

static char *field_of(const struct kvf_key *key, void *object)
{
    return (char *)object + key->offset;
}

static const char *const_field_of(const struct kvf_key *key, const void *object)
{
    return (const char *)object + key->offset;
}

/* The first of a list's values. */
static char *values_of(const struct kvf_key *key, void *object)
{
    char *values = field_of(key, object);
    if (key->flags & KVF_KEY_ALLOCATED) {
        memcpy(&values, field_of(key, object), sizeof(values));
    }
    return values;
}

static const char *const_values_of(const struct kvf_key *key, const void *object)
{
    const char *values = const_field_of(key, object);
    if (key->flags & KVF_KEY_ALLOCATED) {
        memcpy(&values, const_field_of(key, object), sizeof(values));
    }
    return values;
}

static size_t list_count(const struct kvf_key *key, const void *object)
{
    size_t n = 0;
    memcpy(&n, (const char *)object + key->count_offset, sizeof(n));
    return n;
}

static void set_list_count(const struct kvf_key *key, void *object, size_t n)
{
    memcpy((char *)object + key->count_offset, &n, sizeof(n));
}

enum kvf_status kvf_value_clear(const struct kvf_key *key, void *object, size_t n,
                                struct kvf_arena *arena)
{
    if (key->flags & KVF_KEY_MASK) {
        memset(field_of(key, object), 0, sizeof(uint32_t));
        return KVF_OK;
    }
    if (!kvf_key_is_list(key)) {
        assert(key->flags & KVF_KEY_NULLABLE);
        memset(field_of(key, object), 0, key->n_bytes);
        return KVF_OK;
    }
    if (key->flags & KVF_KEY_ALLOCATED) {
        size_t room = n < key->capacity ? n : key->capacity;
        void *values = kvf_arena_alloc(arena, room * key->n_bytes);
        if (values == NULL) {
            return KVF_NO_MEMORY;
        }
        memcpy(field_of(key, object), &values, sizeof(values));
    }
    set_list_count(key, object, 0);
    return KVF_OK;
}

static enum kvf_status parse_path(const struct kvf_key *key, const char *text,
                                  union parsed *out,
                                  struct kvf_value_refusal *out_refusal)
{
    size_t n = strlen(text);
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c < ' ' || c == 0x7f) {
            return kvf_value_refuse(out_refusal, "a control character is not allowed");
        }
    }
    if (n >= key->n_bytes) {
        return kvf_value_refuse(out_refusal, "'%.40s...' is longer than %zu bytes", text,
                                key->n_bytes - 1);
    }
    memcpy(out->text, text, n + 1);
    return KVF_OK;
}

static enum kvf_status parse_name(const char *text, union parsed *out,
                                  struct kvf_value_refusal *out_refusal)
{
    enum kvf_status status = kvf_scalar_name(text, out_refusal);
    if (status == KVF_OK) {
        memcpy(out->text, text, strlen(text) + 1);
    }
    return status;
}

static enum kvf_status parse_address(const struct kvf_key *key, const char *text,
                                     union parsed *out,
                                     struct kvf_value_refusal *out_refusal)
{
    const char *error = NULL;
    struct kvf_address address;
    if (kvf_address_parse(text, &address, &error) != KVF_OK) {
        return kvf_value_refuse(out_refusal, "'%.80s' is not an address: %s", text,
                                error);
    }
    bool is_unix = address.kind == KVF_ADDRESS_UNIX;
    if (is_unix && !(key->flags & KVF_KEY_UNIX)) {
        return kvf_value_refuse(out_refusal, "a unix socket cannot be used here; write "
                                             "host:port");
    }
    if (!is_unix && !(key->flags & KVF_KEY_TCP)) {
        return kvf_value_refuse(out_refusal,
                                "'%.80s' is not a unix socket; write unix:/path", text);
    }
    if (!is_unix && address.port_last != address.port &&
        !(key->flags & KVF_KEY_PORT_RANGE)) {
        return kvf_value_refuse(out_refusal, "'%.80s' has a port range; one port is used",
                                text);
    }
    if (!is_unix && address.port == 0 && !(key->flags & KVF_KEY_PORT_ANY)) {
        return kvf_value_refuse(out_refusal, "'%.80s' has port 0", text);
    }
    out->address = address;
    return KVF_OK;
}

static enum kvf_status check_range(const struct kvf_key *key, uint64_t value,
                                   struct kvf_value_refusal *out_refusal)
{
    if (value >= key->min && value <= key->max) {
        return KVF_OK;
    }
    char got[KVF_VALUE_TEXT_BYTES];
    char min[KVF_VALUE_TEXT_BYTES];
    char max[KVF_VALUE_TEXT_BYTES];
    kvf_value_format_number(key, value, got);
    kvf_value_format_number(key, key->min, min);
    kvf_value_format_number(key, key->max, max);
    return kvf_value_refuse(out_refusal, "%.40s is outside of %.40s to %.40s", got, min,
                            max);
}

static enum kvf_status parse_number(const struct kvf_key *key, const char *text,
                                    uint64_t *out, struct kvf_value_refusal *out_refusal)
{
    uint64_t value = 0;
    enum kvf_status status;
    if (key->kind == KVF_VALUE_SIZE) {
        status = kvf_scalar_size(text, &value, out_refusal);
    } else if (key->kind == KVF_VALUE_INTEGER) {
        status = kvf_scalar_integer(text, &value, out_refusal);
    } else {
        status = kvf_scalar_duration(text, &value, out_refusal);
    }
    if (status == KVF_OK && key->kind == KVF_VALUE_DURATION_MS) {
        if (value % US_PER_MS != 0) {
            return kvf_value_refuse(out_refusal, "'%.40s' is finer than a millisecond",
                                    text);
        }
        value /= US_PER_MS;
    }
    if (status == KVF_OK) {
        status = check_range(key, value, out_refusal);
    }
    if (status == KVF_OK) {
        *out = value;
    }
    return status;
}

static enum kvf_status parse(const struct kvf_key *key, const char *text,
                             union parsed *out, struct kvf_value_refusal *out_refusal)
{
    uint64_t number = 0;
    enum kvf_status status;
    switch (key->kind) {
    case KVF_VALUE_NAME:
        return parse_name(text, out, out_refusal);
    case KVF_VALUE_PATH:
        return parse_path(key, text, out, out_refusal);
    case KVF_VALUE_ADDRESS:
        return parse_address(key, text, out, out_refusal);
    case KVF_VALUE_BOOLEAN:
        return kvf_scalar_boolean(text, &out->flag, out_refusal);
    case KVF_VALUE_CHOICE:
        return kvf_scalar_choice(text, key->names, &out->narrow, out_refusal);
    case KVF_VALUE_SIZE:
        return parse_number(key, text, &out->wide, out_refusal);
    case KVF_VALUE_INTEGER:
    case KVF_VALUE_DURATION_MS:
    case KVF_VALUE_DURATION_US:
        break;
    }
    status = parse_number(key, text, &number, out_refusal);
    if (status == KVF_OK) {
        out->narrow = (uint32_t)number; /* every row's max fits */
    }
    return status;
}

static enum kvf_status add_to_mask(const struct kvf_key *key, void *object,
                                   uint32_t choice, struct kvf_value_refusal *out_refusal)
{
    uint32_t mask = 0;
    memcpy(&mask, field_of(key, object), sizeof(mask));
    if (mask & (1u << choice)) {
        return kvf_value_refuse(out_refusal, "'%s' is listed twice", key->names[choice]);
    }
    mask |= 1u << choice;
    memcpy(field_of(key, object), &mask, sizeof(mask));
    return KVF_OK;
}

/* A choice or a user twice in a list is a slip; a node may well hold several ranks. */
static bool is_listed(const struct kvf_key *key, const char *values, size_t n,
                      const union parsed *value)
{
    if (key->kind != KVF_VALUE_CHOICE) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (memcmp(values + i * key->n_bytes, value, key->n_bytes) == 0) {
            return true;
        }
    }
    return false;
}

static enum kvf_status add_to_list(const struct kvf_key *key, void *object,
                                   const union parsed *value,
                                   struct kvf_value_refusal *out_refusal)
{
    size_t n = list_count(key, object);
    char *values = values_of(key, object);
    if (n >= key->capacity) {
        return kvf_value_refuse(out_refusal, "more than %zu values", key->capacity);
    }
    if (is_listed(key, values, n, value)) {
        return kvf_value_refuse(out_refusal, "'%s' is listed twice",
                                key->names[value->narrow]);
    }
    memcpy(values + n * key->n_bytes, value, key->n_bytes);
    set_list_count(key, object, n + 1);
    return KVF_OK;
}

enum kvf_status kvf_value_add(const struct kvf_key *key, void *object, const char *text,
                              struct kvf_value_refusal *out_refusal)
{
    union parsed value;
    memset(&value, 0, sizeof(value)); /* names are stored with their padding */
    if ((key->flags & KVF_KEY_NULLABLE) && text[0] == '\0') {
        memset(field_of(key, object), 0, key->n_bytes);
        return KVF_OK;
    }
    enum kvf_status status = parse(key, text, &value, out_refusal);
    if (status != KVF_OK) {
        return status;
    }
    if (key->flags & KVF_KEY_MASK) {
        return add_to_mask(key, object, value.narrow, out_refusal);
    }
    if (kvf_key_is_list(key)) {
        return add_to_list(key, object, &value, out_refusal);
    }
    memcpy(field_of(key, object), &value, key->n_bytes);
    return KVF_OK;
}

size_t kvf_value_count(const struct kvf_key *key, const void *object)
{
    if (key->flags & KVF_KEY_MASK) {
        uint32_t mask = 0;
        memcpy(&mask, const_field_of(key, object), sizeof(mask));
        return (size_t)__builtin_popcount(mask);
    }
    if (kvf_key_is_list(key)) {
        return list_count(key, object);
    }
    bool is_none =
        (key->flags & KVF_KEY_NULLABLE) && *const_field_of(key, object) == '\0';
    return is_none ? 0 : 1;
}

/* The i-th set bit's name. */
static const char *mask_name(const struct kvf_key *key, const void *object, size_t i)
{
    uint32_t mask = 0;
    memcpy(&mask, const_field_of(key, object), sizeof(mask));
    for (size_t skipped = 0; skipped < i; skipped++) {
        mask &= mask - 1;
    }
    return key->names[__builtin_ctz(mask)];
}

void kvf_value_format_number(const struct kvf_key *key, uint64_t value,
                             char out[KVF_VALUE_TEXT_BYTES])
{
    if (key->kind == KVF_VALUE_SIZE) {
        kvf_scalar_format_size(value, out);
    } else if (key->kind == KVF_VALUE_DURATION_MS) {
        kvf_scalar_format_duration(value * US_PER_MS, out);
    } else if (key->kind == KVF_VALUE_DURATION_US) {
        kvf_scalar_format_duration(value, out);
    } else {
        (void)snprintf(out, KVF_VALUE_TEXT_BYTES, "%" PRIu64, value);
    }
}

void kvf_value_format(const struct kvf_key *key, const void *object, size_t i,
                      char out[KVF_VALUE_TEXT_BYTES])
{
    assert(i < kvf_value_count(key, object));
    if (key->flags & KVF_KEY_MASK) {
        (void)snprintf(out, KVF_VALUE_TEXT_BYTES, "%s", mask_name(key, object, i));
        return;
    }
    union parsed value;
    memcpy(&value, const_values_of(key, object) + i * key->n_bytes, key->n_bytes);
    switch (key->kind) {
    case KVF_VALUE_NAME:
    case KVF_VALUE_PATH:
        (void)snprintf(out, KVF_VALUE_TEXT_BYTES, "%s", value.text);
        break;
    case KVF_VALUE_ADDRESS:
        kvf_address_format(&value.address, out, KVF_VALUE_TEXT_BYTES);
        break;
    case KVF_VALUE_BOOLEAN:
        (void)snprintf(out, KVF_VALUE_TEXT_BYTES, "%s", value.flag ? "true" : "false");
        break;
    case KVF_VALUE_CHOICE:
        (void)snprintf(out, KVF_VALUE_TEXT_BYTES, "%s", key->names[value.narrow]);
        break;
    case KVF_VALUE_SIZE:
        kvf_value_format_number(key, value.wide, out);
        break;
    case KVF_VALUE_INTEGER:
    case KVF_VALUE_DURATION_MS:
    case KVF_VALUE_DURATION_US:
        kvf_value_format_number(key, value.narrow, out);
        break;
    }
}

const char *kvf_value_kind_name(const struct kvf_key *key)
{
    static const char *const single[] = {"a name",   "text",          "an address",
                                         "a time",   "a time",        "a size",
                                         "a number", "true or false", "one word"};
    static const char *const lists[] = {
        "a list of names",   "a list of texts",    "a list of addresses",
        "a list of times",   "a list of times",    "a list of sizes",
        "a list of numbers", "a list of booleans", "a list of words"};
    return kvf_key_is_list(key) ? lists[key->kind] : single[key->kind];
}
