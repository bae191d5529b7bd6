/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of keys as JSON Schema 2020-12, for editors and for checks outside of the
 * daemon. It knows types and ranges, not the rules that span keys. Every value may also
 * be a text with ${...} in it, whatever its type. Write errors are left to the stream's
 * owner.
 */
#include "config/config.h"

#include <inttypes.h>
#include <string.h>

#include "config/environment.h"
#include "config/print.h"
#include "config/value.h"

#define NAME_PATTERN     "^[A-Za-z0-9._-]{1,63}$"
#define SIZE_PATTERN     "^[0-9][0-9_]*(KiB|MiB|GiB|TiB)?$"
#define DURATION_PATTERN "^(0|[0-9][0-9_]*(us|ms|s|m|h))$"
#define OBJECT                                                                           \
    "\"type\": \"object\", \"additionalProperties\": false, "                            \
    "\"patternProperties\": {\"^x-\": true},"

/* The table's texts are printable ASCII. */
static void put_string(FILE *out, const char *text, size_t n)
{
    kvf_put(out, "\"");
    for (size_t i = 0; i < n; i++) {
        kvf_put(out, "%s%c", text[i] == '"' || text[i] == '\\' ? "\\" : "", text[i]);
    }
    kvf_put(out, "\"");
}

static void put_names(FILE *out, const char *const *names)
{
    kvf_put(out, "{\"enum\": [");
    for (size_t i = 0; names[i] != NULL; i++) {
        kvf_put(out, "%s\"%s\"", i > 0 ? ", " : "", names[i]);
    }
    kvf_put(out, "]}");
}

static void put_type(FILE *out, const struct kvf_key *key)
{
    switch (key->kind) {
    case KVF_VALUE_NAME:
        kvf_put(out, "{\"type\": \"string\", \"pattern\": \"%s\"}", NAME_PATTERN);
        break;
    case KVF_VALUE_PATH:
    case KVF_VALUE_ADDRESS:
        kvf_put(out, "{\"type\": \"string\"}");
        break;
    case KVF_VALUE_DURATION_MS:
    case KVF_VALUE_DURATION_US:
        kvf_put(
            out,
            "{\"type\": [\"string\", \"integer\"], \"pattern\": \"%s\", \"minimum\": 0, "
            "\"maximum\": 0}",
            DURATION_PATTERN);
        break;
    case KVF_VALUE_SIZE:
        kvf_put(out,
                "{\"type\": [\"string\", \"integer\"], \"pattern\": \"%s\", "
                "\"minimum\": %" PRIu64 ", \"maximum\": %" PRIu64 "}",
                SIZE_PATTERN, key->min, key->max);
        break;
    case KVF_VALUE_INTEGER:
        kvf_put(out,
                "{\"type\": \"integer\", \"minimum\": %" PRIu64 ", \"maximum\": %" PRIu64
                "}",
                key->min, key->max);
        break;
    case KVF_VALUE_BOOLEAN:
        kvf_put(out, "{\"type\": \"boolean\"}");
        break;
    case KVF_VALUE_CHOICE:
        put_names(out, key->names);
        break;
    }
}

/* A default in the JSON type that the key's schema has. */
static void put_default(FILE *out, const struct kvf_key *key)
{
    const char *text = key->fallback;
    bool is_bare = key->kind == KVF_VALUE_INTEGER || key->kind == KVF_VALUE_BOOLEAN;
    if (text == NULL) {
        kvf_put(out, "null");
    } else if (!kvf_key_is_list(key)) {
        kvf_put(out, is_bare ? "%s" : "\"%s\"", text);
    } else {
        kvf_put(out, "[");
        for (const char *at = text; *at != '\0';) {
            size_t n = strcspn(at, ",");
            put_string(out, at, n);
            at += n;
            at += strspn(at, ", ");
            kvf_put(out, "%s", *at != '\0' ? ", " : "");
        }
        kvf_put(out, "]");
    }
}

static void put_key(FILE *out, enum kvf_keyset_id id, const struct kvf_key *key)
{
    kvf_put(out, "\n      \"%s\": {\"description\": ", kvf_key_leaf(key));
    put_string(out, key->doc, strlen(key->doc));
    if (!(key->flags & KVF_KEY_REQUIRED)) {
        kvf_put(out, ", \"default\": ");
        put_default(out, key);
    }
    if (id == KVF_KEYSET_ROOT) {
        char variable[KVF_ENVIRONMENT_NAME_BYTES];
        kvf_environment_name(key->path, variable);
        kvf_put(out, ", \"x-environment\": \"%s\", \"x-reloadable\": %s", variable,
                key->flags & KVF_KEY_RELOADABLE ? "true" : "false");
    }
    kvf_put(out, ",\n        \"anyOf\": [");
    put_type(out, key);
    if (kvf_key_is_list(key)) {
        kvf_put(out,
                ", {\"type\": \"array\", \"maxItems\": %zu, \"items\": {\"anyOf\": [",
                key->capacity);
        put_type(out, key);
        kvf_put(out, ", {\"$ref\": \"#/$defs/substitution\"}]}}, "
                     "{\"$ref\": \"#/$defs/comma_separated\"}");
    }
    if (key->flags & KVF_KEY_NULLABLE) {
        kvf_put(out, ", {\"enum\": [null, \"\"]}");
    }
    kvf_put(out, ", {\"$ref\": \"#/$defs/substitution\"}]}");
}

static void put_sections(FILE *out)
{
    const struct kvf_keyset *keyset = kvf_schema_keyset(KVF_KEYSET_ROOT);
    for (size_t i = 0; i < keyset->n_keys; i++) {
        const struct kvf_key *key = &keyset->keys[i];
        if (kvf_keyset_opens_section(keyset, i)) {
            kvf_put(out, "%s\n    ", i > 0 ? "}}," : "");
            put_string(out, key->path, kvf_key_section_length(key));
            kvf_put(out, ": {" OBJECT " \"properties\": {");
        } else {
            kvf_put(out, ",");
        }
        put_key(out, KVF_KEYSET_ROOT, key);
    }
    kvf_put(out, "}}");
}

static void put_list(FILE *out, enum kvf_keyset_id id)
{
    const struct kvf_keyset *keyset = kvf_schema_keyset(id);
    kvf_put(out,
            ",\n    \"%s\": {\"type\": \"array\", \"maxItems\": %d, \"description\": ",
            keyset->list, KVF_CONFIG_ITEMS_MAX);
    put_string(out, keyset->doc, strlen(keyset->doc));
    kvf_put(out, ",\n      \"items\": {" OBJECT "\n      \"required\": [");
    const char *comma = "";
    for (size_t i = 0; i < keyset->n_keys; i++) {
        if (keyset->keys[i].flags & KVF_KEY_REQUIRED) {
            kvf_put(out, "%s\"%s\"", comma, keyset->keys[i].path);
            comma = ", ";
        }
    }
    kvf_put(out, "],\n      \"properties\": {");
    for (size_t i = 0; i < keyset->n_keys; i++) {
        kvf_put(out, "%s", i > 0 ? "," : "");
        put_key(out, id, &keyset->keys[i]);
    }
    kvf_put(out, "}}}");
}

void kvf_config_print_schema(FILE *out)
{
    kvf_put(out,
            "{\n"
            "  \"$schema\": \"https://json-schema.org/draft/2020-12/schema\",\n"
            "  \"title\": \"kvferry configuration\",\n"
            "  \"$defs\": {\n"
            "    \"substitution\": {\"type\": \"string\", \"pattern\": \"\\\\$\"},\n"
            "    \"comma_separated\": {\"type\": \"string\", \"pattern\": \",|^$\"}\n"
            "  },\n"
            "  " OBJECT "\n"
            "  \"properties\": {");
    put_sections(out);
    for (unsigned id = KVF_KEYSET_ROOT + 1; id < KVF_KEYSETS; id++) {
        put_list(out, (enum kvf_keyset_id)id);
    }
    kvf_put(out, "\n  }\n}\n");
}
