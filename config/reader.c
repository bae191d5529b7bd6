/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Three levels of the same thing: a value into a field, a mapping's keys into an object,
 * the file's sections into the config. Keys that begin with x- are the user's own: they
 * are allowed in every mapping and not looked into.
 */
#include "config/reader.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "config/environment.h"
#include "config/value.h"

/* What is being set, and where the text for it stands. */
struct target {
    const struct kvf_key *key;
    void *object;
    struct kvf_where where;
};

size_t kvf_reader_n_problems(const struct kvf_reader *reader)
{
    return reader->problems->n + reader->problems->n_dropped;
}

static bool is_users_own(const char *key)
{
    return strncmp(key, "x-", 2) == 0;
}

/* A refusal is reported and done with; only NO_MEMORY goes further up. */
static enum kvf_status report(struct kvf_reader *reader, const struct target *target,
                              enum kvf_status status,
                              const struct kvf_value_refusal *refusal)
{
    if (status != KVF_CONFIG) {
        return status;
    }
    kvf_problem_add(reader->problems, target->where, "%s: %s", target->key->path,
                    refusal->text);
    return KVF_OK;
}

static enum kvf_status add_value(struct kvf_reader *reader, const struct target *target,
                                 const char *text)
{
    struct kvf_value_refusal refusal = {.text = ""};
    enum kvf_status status = kvf_value_add(target->key, target->object, text, &refusal);
    return report(reader, target, status, &refusal);
}

static size_t count_commas(const char *text)
{
    size_t n = 0;
    for (const char *at = strchr(text, ','); at != NULL; at = strchr(at + 1, ',')) {
        n++;
    }
    return n;
}

/* "rdma, tcp" for a list: how the environment writes one. "" is the empty list. */
static enum kvf_status set_list(struct kvf_reader *reader, const struct target *target,
                                const char *text)
{
    static const char blanks[] = " \t";
    enum kvf_status status = kvf_value_clear(target->key, target->object,
                                             count_commas(text) + 1, reader->arena);
    const char *at = text + strspn(text, blanks);
    while (status == KVF_OK && *at != '\0') {
        size_t n = strcspn(at, ",");
        const char *next = at[n] == ',' ? at + n + 1 : at + n;
        while (n > 0 && strchr(blanks, at[n - 1]) != NULL) {
            n--;
        }
        char *item = kvf_arena_alloc(reader->arena, n + 1);
        if (item == NULL) {
            return KVF_NO_MEMORY;
        }
        memcpy(item, at, n);
        status = add_value(reader, target, item);
        at = next + strspn(next, blanks);
    }
    return status;
}

static enum kvf_status set_value(struct kvf_reader *reader, const struct target *target,
                                 const char *text)
{
    return kvf_key_is_list(target->key) ? set_list(reader, target, text)
                                        : add_value(reader, target, text);
}

enum kvf_status kvf_reader_defaults(struct kvf_reader *reader, enum kvf_keyset_id id,
                                    void *object)
{
    const struct kvf_keyset *keyset = kvf_schema_keyset(id);
    size_t before = kvf_reader_n_problems(reader);
    enum kvf_status status = KVF_OK;
    for (size_t i = 0; i < keyset->n_keys && status == KVF_OK; i++) {
        const struct target target = {.key = &keyset->keys[i], .object = object};
        if (target.key->fallback != NULL) {
            status = set_value(reader, &target, target.key->fallback);
        }
    }
    assert(kvf_reader_n_problems(reader) == before); /* the table holds good defaults */
    return status;
}

/* Substitutes ${...}; *out stays NULL when that was refused and reported. */
static enum kvf_status expand(struct kvf_reader *reader, const struct target *target,
                              const char *text, const char **out)
{
    struct kvf_value_refusal refusal = {.text = ""};
    *out = NULL;
    enum kvf_status status = kvf_environment_expand(text, reader->arena, out, &refusal);
    return report(reader, target, status, &refusal);
}

static enum kvf_status read_scalar(struct kvf_reader *reader, const struct target *target,
                                   const struct kvf_yaml_node *node)
{
    if (kvf_yaml_is_null(node)) {
        if (target->key->flags & KVF_KEY_NULLABLE) {
            return kvf_value_clear(target->key, target->object, 0, reader->arena);
        }
        kvf_problem_add(reader->problems, target->where,
                        "%s has no value; leave it out for the default",
                        target->key->path);
        return KVF_OK;
    }
    const char *text = NULL;
    enum kvf_status status = expand(reader, target, node->text, &text);
    if (status != KVF_OK || text == NULL) {
        return status;
    }
    return set_value(reader, target, text);
}

static enum kvf_status read_sequence(struct kvf_reader *reader,
                                     const struct target *target,
                                     const struct kvf_yaml_node *node)
{
    enum kvf_status status =
        kvf_value_clear(target->key, target->object, node->n_children, reader->arena);
    for (const struct kvf_yaml_node *item = node->first_child;
         item != NULL && status == KVF_OK; item = item->next) {
        struct target at = {
            .key = target->key, .object = target->object, .where = item->where};
        if (item->kind != KVF_YAML_SCALAR) {
            kvf_problem_add(reader->problems, item->where,
                            "%s must be %s; found %s in it", at.key->path,
                            kvf_value_kind_name(at.key), kvf_yaml_kind_name(item->kind));
            continue;
        }
        const char *text = NULL;
        status = expand(reader, &at, item->text, &text);
        if (status == KVF_OK && text != NULL) {
            status = add_value(reader, &at, text);
        }
    }
    return status;
}

static enum kvf_status read_value(struct kvf_reader *reader, const struct target *target,
                                  const struct kvf_yaml_node *node)
{
    if (node->kind == KVF_YAML_SCALAR) {
        return read_scalar(reader, target, node);
    }
    if (node->kind == KVF_YAML_SEQUENCE && kvf_key_is_list(target->key)) {
        return read_sequence(reader, target, node);
    }
    kvf_problem_add(reader->problems, target->where, "%s must be %s; found %s",
                    target->key->path, kvf_value_kind_name(target->key),
                    kvf_yaml_kind_name(node->kind));
    return KVF_OK;
}

/* Whether key stands in a section; section "" has the keys of an item. */
static bool is_in_section(const struct kvf_key *key, const char *section)
{
    size_t n = kvf_key_section_length(key);
    return strlen(section) == n && strncmp(key->path, section, n) == 0;
}

/* The key's index in its keyset, or n_keys after reporting that there is none. */
static size_t find_key(struct kvf_reader *reader, const struct kvf_keyset *keyset,
                       const char *section, const struct kvf_yaml_node *node)
{
    struct kvf_nearest nearest;
    kvf_nearest_init(&nearest, node->key);
    for (size_t i = 0; i < keyset->n_keys; i++) {
        const struct kvf_key *key = &keyset->keys[i];
        if (!is_in_section(key, section)) {
            continue;
        }
        if (strcmp(kvf_key_leaf(key), node->key) == 0) {
            return i;
        }
        kvf_nearest_offer(&nearest, kvf_key_leaf(key));
    }
    kvf_problem_add(reader->problems, node->key_where, "unknown key '%.64s' in %s%s",
                    node->key, keyset->list != NULL ? keyset->list : section,
                    kvf_nearest_suffix(&nearest));
    return keyset->n_keys;
}

static enum kvf_status read_mapping(struct kvf_reader *reader, enum kvf_keyset_id id,
                                    const char *section, const struct kvf_yaml_node *node,
                                    void *object, struct kvf_where *wheres)
{
    const struct kvf_keyset *keyset = kvf_schema_keyset(id);
    enum kvf_status status = KVF_OK;
    for (const struct kvf_yaml_node *child = node->first_child;
         child != NULL && status == KVF_OK; child = child->next) {
        if (is_users_own(child->key)) {
            continue;
        }
        size_t i = find_key(reader, keyset, section, child);
        if (i < keyset->n_keys) {
            wheres[i] = child->where;
            const struct target target = {
                .key = &keyset->keys[i], .object = object, .where = child->where};
            status = read_value(reader, &target, child);
        }
    }
    return status;
}

enum kvf_status kvf_reader_item(struct kvf_reader *reader, enum kvf_keyset_id id,
                                const struct kvf_yaml_node *node, void *object,
                                struct kvf_where *wheres)
{
    const struct kvf_keyset *keyset = kvf_schema_keyset(id);
    if (node->kind != KVF_YAML_MAPPING) {
        kvf_problem_add(reader->problems, node->where,
                        "an item of %s must be a mapping; found %s", keyset->list,
                        kvf_yaml_kind_name(node->kind));
        return KVF_OK;
    }
    enum kvf_status status = read_mapping(reader, id, "", node, object, wheres);
    for (size_t i = 0; i < keyset->n_keys && status == KVF_OK; i++) {
        const struct kvf_key *key = &keyset->keys[i];
        if ((key->flags & KVF_KEY_REQUIRED) && wheres[i].line == 0) {
            kvf_problem_add(reader->problems, node->where, "%s: %s is missing",
                            keyset->list, key->path);
        }
    }
    return status;
}

/* The keyset whose list has this name; KVF_KEYSETS: none. */
static enum kvf_keyset_id find_list(const char *name)
{
    for (unsigned id = 0; id < KVF_KEYSETS; id++) {
        const char *list = kvf_schema_keyset((enum kvf_keyset_id)id)->list;
        if (list != NULL && strcmp(list, name) == 0) {
            return (enum kvf_keyset_id)id;
        }
    }
    return KVF_KEYSETS;
}

static bool has_section(const char *name)
{
    const struct kvf_keyset *keyset = kvf_schema_keyset(KVF_KEYSET_ROOT);
    for (size_t i = 0; i < keyset->n_keys; i++) {
        if (is_in_section(&keyset->keys[i], name)) {
            return true;
        }
    }
    return false;
}

static void report_section(struct kvf_reader *reader, const struct kvf_yaml_node *node)
{
    const struct kvf_keyset *keyset = kvf_schema_keyset(KVF_KEYSET_ROOT);
    char names[KVF_KEYSET_KEYS_MAX][KVF_CONFIG_NAME_BYTES];
    struct kvf_nearest nearest;
    kvf_nearest_init(&nearest, node->key);
    for (size_t i = 0; i < keyset->n_keys; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "%.*s",
                       (int)kvf_key_section_length(&keyset->keys[i]),
                       keyset->keys[i].path);
        kvf_nearest_offer(&nearest, names[i]);
    }
    for (unsigned id = KVF_KEYSET_ROOT + 1; id < KVF_KEYSETS; id++) {
        kvf_nearest_offer(&nearest, kvf_schema_keyset((enum kvf_keyset_id)id)->list);
    }
    kvf_problem_add(reader->problems, node->key_where, "unknown section '%.64s'%s",
                    node->key, kvf_nearest_suffix(&nearest));
}

static enum kvf_status read_section(struct kvf_reader *reader,
                                    const struct kvf_yaml_node *node,
                                    struct kvf_config *config, struct kvf_where *wheres,
                                    const struct kvf_yaml_node *out_lists[KVF_KEYSETS])
{
    enum kvf_keyset_id id = find_list(node->key);
    if (id != KVF_KEYSETS) {
        if (node->kind == KVF_YAML_SEQUENCE) {
            out_lists[id] = node;
        } else {
            kvf_problem_add(reader->problems, node->where,
                            "%s must be a list; found %s; write [] for none", node->key,
                            kvf_yaml_kind_name(node->kind));
        }
        return KVF_OK;
    }
    if (!has_section(node->key)) {
        report_section(reader, node);
        return KVF_OK;
    }
    if (node->kind != KVF_YAML_MAPPING) {
        kvf_problem_add(reader->problems, node->where, "%s must be a mapping; found %s",
                        node->key, kvf_yaml_kind_name(node->kind));
        return KVF_OK;
    }
    return read_mapping(reader, KVF_KEYSET_ROOT, node->key, node, config, wheres);
}

enum kvf_status kvf_reader_file(struct kvf_reader *reader,
                                const struct kvf_yaml_node *root,
                                struct kvf_config *config, struct kvf_where *wheres,
                                const struct kvf_yaml_node *out_lists[KVF_KEYSETS])
{
    if (root == NULL || kvf_yaml_is_null(root)) {
        return KVF_OK;
    }
    if (root->kind != KVF_YAML_MAPPING) {
        kvf_problem_add(reader->problems, root->where,
                        "the file must be a mapping; found %s",
                        kvf_yaml_kind_name(root->kind));
        return KVF_OK;
    }
    enum kvf_status status = KVF_OK;
    for (const struct kvf_yaml_node *node = root->first_child;
         node != NULL && status == KVF_OK; node = node->next) {
        if (!is_users_own(node->key)) {
            status = read_section(reader, node, config, wheres, out_lists);
        }
    }
    return status;
}

static void report_variable(struct kvf_reader *reader,
                            const struct kvf_environment_override *override)
{
    const struct kvf_keyset *keyset = kvf_schema_keyset(KVF_KEYSET_ROOT);
    struct kvf_nearest nearest;
    kvf_nearest_init(&nearest, override->path);
    for (size_t i = 0; i < keyset->n_keys; i++) {
        kvf_nearest_offer(&nearest, keyset->keys[i].path);
    }
    kvf_problem_add(reader->problems, (struct kvf_where){.variable = override->variable},
                    "there is no key '%.80s'%s", override->path,
                    kvf_nearest_suffix(&nearest));
}

enum kvf_status kvf_reader_environment(struct kvf_reader *reader,
                                       struct kvf_config *config,
                                       struct kvf_where *wheres)
{
    struct kvf_environment_override *overrides = NULL;
    size_t n = 0;
    enum kvf_status status = kvf_environment_overrides(reader->arena, &overrides, &n);
    for (size_t i = 0; i < n && status == KVF_OK; i++) {
        const struct kvf_key *key = kvf_schema_find(KVF_KEYSET_ROOT, overrides[i].path);
        if (key == NULL) {
            report_variable(reader, &overrides[i]);
            continue;
        }
        const struct target target = {
            .key = key, .object = config, .where = {.variable = overrides[i].variable}};
        wheres[key - kvf_schema_keyset(KVF_KEYSET_ROOT)->keys] = target.where;
        status = set_value(reader, &target, overrides[i].value);
    }
    return status;
}
