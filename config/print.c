/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The schema and a config as YAML for people. What is printed here is read back as the
 * same configuration: texts are quoted and a dollar is doubled. Write errors are left to
 * whoever owns the stream (ferror). Start-up and loop thread.
 */
#include "config/config.h"

#include <stdarg.h>
#include <string.h>

#include "config/environment.h"
#include "config/origin.h"
#include "config/print.h"
#include "config/value.h"

#define TEXT_WIDTH 88
#define INDENT     2

void kvf_put(FILE *out, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vfprintf(out, format, arguments);
    va_end(arguments);
}

static void put_quoted(FILE *out, const char *text)
{
    kvf_put(out, "\"");
    for (const char *at = text; *at != '\0'; at++) {
        if (*at == '"' || *at == '\\') {
            kvf_put(out, "\\");
        } else if (*at == '$') {
            kvf_put(out, "$");
        }
        kvf_put(out, "%c", *at);
    }
    kvf_put(out, "\"");
}

/* "off" is a boolean to a YAML 1.1 reader, though not to ours. */
static void put_value(FILE *out, const struct kvf_key *key, const char *text)
{
    if (kvf_key_is_text(key) || strcmp(text, "off") == 0) {
        put_quoted(out, text);
    } else {
        kvf_put(out, "%s", text);
    }
}

/* ---- effective configuration */

static void put_field(FILE *out, const struct kvf_key *key, const void *object)
{
    char text[KVF_VALUE_TEXT_BYTES];
    size_t n = kvf_value_count(key, object);
    kvf_put(out, "%s: ", kvf_key_leaf(key));
    if (!kvf_key_is_list(key)) {
        if (n == 0) {
            kvf_put(out, "null");
        } else if (key->flags & KVF_KEY_SECRET) {
            kvf_put(out, "\"***\"");
        } else {
            kvf_value_format(key, object, 0, text);
            put_value(out, key, text);
        }
        return;
    }
    kvf_put(out, "[");
    for (size_t i = 0; i < n; i++) {
        kvf_value_format(key, object, i, text);
        kvf_put(out, "%s", i > 0 ? ", " : "");
        put_value(out, key, text);
    }
    kvf_put(out, "]");
}

static void put_source(FILE *out, const struct kvf_config_origin *origin,
                       const struct kvf_where *where)
{
    char text[KVF_CONFIG_PATH_BYTES];
    if (where->variable != NULL) {
        kvf_put(out, "  # env %s\n", where->variable);
    } else if (where->line > 0) {
        (void)kvf_log_escape(origin->file, strlen(origin->file), text, sizeof(text));
        kvf_put(out, "  # %s:%u\n", text, where->line);
    } else {
        kvf_put(out, "  # default\n");
    }
}

static void put_section(FILE *out, const struct kvf_keyset *keyset, size_t i)
{
    const struct kvf_key *key = &keyset->keys[i];
    if (kvf_keyset_opens_section(keyset, i)) {
        kvf_put(out, "%s%.*s:\n", i > 0 ? "\n" : "", (int)kvf_key_section_length(key),
                key->path);
    }
}

/* An item shows what it has: a key without a value says nothing there. */
static void put_item(FILE *out, const struct kvf_config_origin *origin,
                     const struct kvf_keyset *keyset, const void *object,
                     const struct kvf_where *wheres)
{
    const char *lead = "  - ";
    for (size_t i = 0; i < keyset->n_keys; i++) {
        if (kvf_value_count(&keyset->keys[i], object) > 0) {
            kvf_put(out, "%s", lead);
            put_field(out, &keyset->keys[i], object);
            put_source(out, origin, &wheres[i]);
            lead = "    ";
        }
    }
}

void kvf_config_print(const struct kvf_config *config, FILE *out)
{
    const struct kvf_config_origin *origin = config->origin;
    const struct kvf_keyset *keyset = kvf_schema_keyset(KVF_KEYSET_ROOT);
    for (size_t i = 0; i < keyset->n_keys; i++) {
        put_section(out, keyset, i);
        kvf_put(out, "%*s", INDENT, "");
        put_field(out, &keyset->keys[i], config);
        put_source(out, origin, &origin->wheres[i]);
    }
    kvf_put(out, "\npeers:%s\n", origin->n_peers == 0 ? " []" : "");
    for (size_t i = 0; i < origin->n_peers; i++) {
        const struct kvf_peer_spec *peer = &origin->peers[i];
        put_item(out, origin, kvf_schema_keyset(KVF_KEYSET_PEER), peer, peer->wheres);
    }
    kvf_put(out, "\ninstances:%s\n", origin->n_instances == 0 ? " []" : "");
    for (size_t i = 0; i < origin->n_instances; i++) {
        const struct kvf_instance_spec *instance = &origin->instances[i];
        put_item(out, origin, kvf_schema_keyset(KVF_KEYSET_INSTANCE), instance,
                 instance->wheres);
    }
}

/* ---- defaults with documentation */

/* The text as lines of at most TEXT_WIDTH characters that begin with `lead`. */
static void put_comment(FILE *out, const char *lead, const char *text)
{
    size_t room = TEXT_WIDTH - strlen(lead);
    for (const char *at = text; *at != '\0';) {
        size_t n = strlen(at);
        if (n > room) {
            n = room;
            while (n > 0 && at[n] != ' ') {
                n--;
            }
            n = n > 0 ? n : room; /* a word longer than a line */
        }
        kvf_put(out, "%s%.*s\n", lead, (int)n, at);
        at += n;
        at += strspn(at, " ");
    }
}

static void append(char *text, size_t max, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void append(char *text, size_t max, const char *format, ...)
{
    size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text + used, max - used, format, arguments);
    va_end(arguments);
}

static bool is_number(const struct kvf_key *key)
{
    return key->kind == KVF_VALUE_INTEGER || key->kind == KVF_VALUE_SIZE ||
           key->kind == KVF_VALUE_DURATION_MS || key->kind == KVF_VALUE_DURATION_US;
}

/* "a size, 64KiB to 4MiB; reloadable" */
static void describe(const struct kvf_key *key, char *out, size_t max)
{
    out[0] = '\0';
    append(out, max, "%s", kvf_value_kind_name(key));
    if (is_number(key)) {
        char least[KVF_VALUE_TEXT_BYTES];
        char most[KVF_VALUE_TEXT_BYTES];
        kvf_value_format_number(key, key->min, least);
        kvf_value_format_number(key, key->max, most);
        append(out, max, ", %s to %s", least, most);
    }
    for (size_t i = 0; key->names != NULL && key->names[i] != NULL; i++) {
        append(out, max, "%s%s", i > 0 ? ", " : ": ", key->names[i]);
    }
    if (key->flags & KVF_KEY_NULLABLE) {
        append(out, max, ", or null");
    }
    if (key->flags & KVF_KEY_RELOADABLE) {
        append(out, max, "; takes effect on reload");
    }
}

/* The default as the table has it; lists are comma-separated there. */
static void put_fallback(FILE *out, const struct kvf_key *key)
{
    if (key->fallback == NULL) {
        kvf_put(out, "null");
    } else if (kvf_key_is_list(key)) {
        kvf_put(out, "[%s]", key->fallback);
    } else {
        put_value(out, key, key->fallback);
    }
}

static void put_default_key(FILE *out, const struct kvf_key *key)
{
    char text[KVF_VALUE_TEXT_BYTES];
    char variable[KVF_ENVIRONMENT_NAME_BYTES];
    put_comment(out, "  # ", key->doc);
    describe(key, text, sizeof(text));
    kvf_environment_name(key->path, variable);
    append(text, sizeof(text), "; %s", variable);
    put_comment(out, "  # ", text);
    kvf_put(out, "%*s%s: ", INDENT, "", kvf_key_leaf(key));
    put_fallback(out, key);
    kvf_put(out, "\n");
}

/* A list is empty by default; its items' keys are told in comments. */
static void put_default_list(FILE *out, const struct kvf_keyset *keyset)
{
    char text[KVF_VALUE_TEXT_BYTES];
    kvf_put(out, "\n");
    put_comment(out, "# ", keyset->doc);
    put_comment(out, "# ", "An item has these keys:");
    for (size_t i = 0; i < keyset->n_keys; i++) {
        const struct kvf_key *key = &keyset->keys[i];
        describe(key, text, sizeof(text));
        if (key->flags & KVF_KEY_REQUIRED) {
            append(text, sizeof(text), "; required");
        } else if (key->fallback != NULL && key->fallback[0] != '\0') {
            append(text, sizeof(text), "; default %s", key->fallback);
        }
        kvf_put(out, "#   %s: %s\n", key->path, text);
        put_comment(out, "#     ", key->doc);
    }
    kvf_put(out, "%s: []\n", keyset->list);
}

void kvf_config_print_defaults(FILE *out)
{
    const struct kvf_keyset *keyset = kvf_schema_keyset(KVF_KEYSET_ROOT);
    kvf_put(out,
            "# Every key of the configuration file with its default. A file needs only "
            "what\n"
            "# differs. An environment variable wins over the file; ${NAME},\n"
            "# ${NAME:-default}, ${NAME:?message} and $$ work in every value. Keys that "
            "begin\n"
            "# with x- are ignored.\n\n");
    for (size_t i = 0; i < keyset->n_keys; i++) {
        put_section(out, keyset, i);
        put_default_key(out, &keyset->keys[i]);
    }
    for (unsigned id = KVF_KEYSET_ROOT + 1; id < KVF_KEYSETS; id++) {
        put_default_list(out, kvf_schema_keyset((enum kvf_keyset_id)id));
    }
}
