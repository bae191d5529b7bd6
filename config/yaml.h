/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The strict subset of YAML that configuration is written in, as a tree: mappings with
 * unique text keys, sequences, scalars. Aliases, anchors, tags, further documents, deep
 * nesting and large files are refused, so that what a file means can be seen by reading
 * it once. No schema here and no ${...}. Only yaml.c includes libyaml.
 */
#ifndef KVF_CONFIG_YAML_H
#define KVF_CONFIG_YAML_H

#include <stdbool.h>
#include <stddef.h>

#include <kvferry/status.h>

#include "base/alloc.h"
#include "config/problem.h"

#define KVF_YAML_MAX_BYTES 1048576u
#define KVF_YAML_MAX_DEPTH 16
#define KVF_YAML_MAX_NODES 65536u

enum kvf_yaml_kind { KVF_YAML_SCALAR = 0, KVF_YAML_MAPPING = 1, KVF_YAML_SEQUENCE = 2 };

struct kvf_yaml_node {
    enum kvf_yaml_kind kind;
    struct kvf_where where;
    const char *key; /* NULL in a sequence and for the root */
    struct kvf_where key_where;
    const char *text; /* of a scalar, without NUL inside; NULL for the others */
    bool is_quoted;
    struct kvf_yaml_node *first_child, *last_child, *next;
    size_t n_children;
};

/* Reads problems->source into nodes that live in the arena. *out NULL: the document is
 * empty. CONFIG: the text is no such YAML and there is no tree; a duplicate key alone is
 * a problem that leaves the tree usable. */
enum kvf_status KVF_MUST_CHECK kvf_yaml_parse(struct kvf_arena *arena,
                                              struct kvf_problem_list *problems,
                                              struct kvf_yaml_node **out);
/* Plain `key:`, `~` or `null`. */
bool kvf_yaml_is_null(const struct kvf_yaml_node *node);
const char *kvf_yaml_kind_name(enum kvf_yaml_kind kind);

#endif
