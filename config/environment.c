/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process environment is walked here and not asked through getenv(), so that one pass
 * finds the overrides and lookups by (pointer, length) need no copies.
 */
#include "config/environment.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"

#define OVERRIDE_PREFIX    "KVFERRY_"
#define EXPANDED_MAX_BYTES 65536

static const char *find_variable(const char *name, size_t n)
{
    for (char **at = environ; at != NULL && *at != NULL; at++) {
        if (strncmp(*at, name, n) == 0 && (*at)[n] == '=') {
            return *at + n + 1;
        }
    }
    return NULL;
}

static size_t name_length(const char *text)
{
    size_t n = 0;
    while (isalpha((unsigned char)text[n]) || text[n] == '_' ||
           (n > 0 && isdigit((unsigned char)text[n]))) {
        n++;
    }
    return n;
}

/* A piece of the result, borrowed from the text or the environment. */
struct piece {
    const char *text;
    size_t n;
};

/* at points behind "${"; *out_end behind the closing brace. */
static enum kvf_status read_reference(const char *at, struct piece *out,
                                      const char **out_end,
                                      struct kvf_value_refusal *out_refusal)
{
    size_t n = name_length(at);
    const char *rest = at + n;
    const char *close = strchr(at, '}');
    if (close == NULL) {
        return kvf_value_refuse(out_refusal, "'${%.40s' is not closed by '}'", at);
    }
    bool has_default = strncmp(rest, ":-", 2) == 0;
    bool has_message = strncmp(rest, ":?", 2) == 0;
    if (n == 0 || (rest != close && !has_default && !has_message)) {
        return kvf_value_refuse(out_refusal,
                                "'${%.*s}' is not ${NAME}, ${NAME:-default} or "
                                "${NAME:?message}",
                                (int)(close - at), at);
    }
    *out_end = close + 1;
    const char *value = find_variable(at, n);
    bool is_missing = value == NULL || ((has_default || has_message) && *value == '\0');
    if (!is_missing) {
        *out = (struct piece){.text = value, .n = strlen(value)};
        return KVF_OK;
    }
    if (!has_default) {
        struct piece why = {.text = "is not set", .n = strlen("is not set")};
        if (has_message && close > rest + 2) {
            why = (struct piece){.text = rest + 2, .n = (size_t)(close - rest - 2)};
        }
        return kvf_value_refuse(out_refusal, "environment variable %.*s: %.*s", (int)n,
                                at, (int)why.n, why.text);
    }
    *out = (struct piece){.text = rest + 2, .n = (size_t)(close - rest - 2)};
    if (memmem(out->text, out->n, "${", 2) != NULL) {
        return kvf_value_refuse(out_refusal, "the default of ${%.*s} holds another ${}",
                                (int)n, at);
    }
    return KVF_OK;
}

/* The next piece of text at *at, which moves behind it. */
static enum kvf_status read_piece(const char **at, struct piece *out,
                                  struct kvf_value_refusal *out_refusal)
{
    const char *text = *at;
    if (text[0] != '$') {
        *out = (struct piece){.text = text, .n = strcspn(text, "$")};
        *at = text + out->n;
        return KVF_OK;
    }
    if (text[1] == '$') {
        *out = (struct piece){.text = "$", .n = 1};
        *at = text + 2;
        return KVF_OK;
    }
    if (text[1] != '{') {
        return kvf_value_refuse(out_refusal, "a lone '$'; write ${NAME}, or $$ for '$'");
    }
    return read_reference(text + 2, out, at, out_refusal);
}

static enum kvf_status expand_into(struct kvf_buf *buf, const char *text,
                                   struct kvf_value_refusal *out_refusal)
{
    enum kvf_status status = KVF_OK;
    while (*text != '\0' && status == KVF_OK) {
        struct piece piece = {.n = 0};
        status = read_piece(&text, &piece, out_refusal);
        if (status == KVF_OK) {
            status = kvf_buf_append(buf, piece.text, piece.n);
        }
    }
    if (status == KVF_BUSY) {
        return kvf_value_refuse(out_refusal, "longer than 64 KiB after substitution");
    }
    return status;
}

enum kvf_status kvf_environment_expand(const char *text, struct kvf_arena *arena,
                                       const char **out,
                                       struct kvf_value_refusal *out_refusal)
{
    if (strchr(text, '$') == NULL) {
        *out = text;
        return KVF_OK;
    }
    struct kvf_buf buf;
    kvf_buf_init(&buf, EXPANDED_MAX_BYTES);
    enum kvf_status status = expand_into(&buf, text, out_refusal);
    if (status == KVF_OK) {
        size_t n = kvf_buf_length(&buf);
        char *expanded = kvf_arena_alloc(arena, n + 1);
        if (expanded == NULL) {
            status = KVF_NO_MEMORY;
        } else {
            if (n > 0) {
                memcpy(expanded, kvf_buf_head(&buf), n);
            }
            *out = expanded;
        }
    }
    kvf_buf_fini(&buf);
    return status;
}

void kvf_environment_name(const char *path, char out[KVF_ENVIRONMENT_NAME_BYTES])
{
    size_t n_section = strcspn(path, ".");
    const char *leaf = path[n_section] == '.' ? path + n_section + 1 : "";
    (void)snprintf(out, KVF_ENVIRONMENT_NAME_BYTES, OVERRIDE_PREFIX "%.*s__%s",
                   (int)n_section, path, leaf);
    for (char *at = out; *at != '\0'; at++) {
        *at = (char)toupper((unsigned char)*at);
    }
}

/* The "__" of KVFERRY_DATA__CHUNK=..., NULL without a section and a key around it: other
 * variables are ours or the user's own and mean nothing here. */
static const char *find_split(const char *text)
{
    if (strncmp(text, OVERRIDE_PREFIX, strlen(OVERRIDE_PREFIX)) != 0) {
        return NULL;
    }
    const char *section = text + strlen(OVERRIDE_PREFIX);
    const char *equals = strchr(section, '=');
    const char *split = strstr(section, "__");
    bool has_both =
        equals != NULL && split != NULL && split > section && split + 2 < equals;
    return has_both ? split : NULL;
}

static char *copy_piece(struct kvf_arena *arena, const char *text, size_t n)
{
    char *copy = kvf_arena_alloc(arena, n + 1); /* zeroed, so it ends in NUL */
    if (copy != NULL) {
        memcpy(copy, text, n);
    }
    return copy;
}

static enum kvf_status fill_override(struct kvf_arena *arena, const char *text,
                                     const char *split,
                                     struct kvf_environment_override *out)
{
    const char *section = text + strlen(OVERRIDE_PREFIX);
    size_t n_name = strcspn(text, "=");
    size_t n_section = (size_t)(split - section);
    size_t n_path = n_name - strlen(OVERRIDE_PREFIX);
    char *variable = copy_piece(arena, text, n_name);
    char *path = copy_piece(arena, section, n_path);
    char *value = copy_piece(arena, text + n_name + 1, strlen(text + n_name + 1));
    if (variable == NULL || path == NULL || value == NULL) {
        return KVF_NO_MEMORY;
    }
    for (char *at = path; *at != '\0'; at++) {
        *at = (char)tolower((unsigned char)*at);
    }
    path[n_section] = '.'; /* "data__chunk": two characters become one */
    memmove(path + n_section + 1, path + n_section + 2, n_path - n_section - 1);
    *out = (struct kvf_environment_override){
        .variable = variable, .path = path, .value = value};
    return KVF_OK;
}

enum kvf_status kvf_environment_overrides(struct kvf_arena *arena,
                                          struct kvf_environment_override **out,
                                          size_t *out_n)
{
    size_t n = 0;
    for (char **at = environ; at != NULL && *at != NULL; at++) {
        n += find_split(*at) != NULL ? 1 : 0;
    }
    struct kvf_environment_override *overrides =
        kvf_arena_alloc(arena, n * sizeof(*overrides));
    if (overrides == NULL) {
        return KVF_NO_MEMORY;
    }
    size_t filled = 0;
    for (char **at = environ; filled < n && *at != NULL; at++) {
        const char *split = find_split(*at);
        if (split != NULL) {
            enum kvf_status status = fill_override(arena, *at, split, &overrides[filled]);
            if (status != KVF_OK) {
                return status;
            }
            filled++;
        }
    }
    *out = overrides;
    *out_n = n;
    return KVF_OK;
}
