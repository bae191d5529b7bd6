/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the YAML tree and the environment to objects, key by key as the schema says. What
 * is wrong becomes a problem and reading goes on; a status other than OK means that
 * memory ran out. No rule that spans two keys is checked here.
 */
#ifndef KVF_CONFIG_READER_H
#define KVF_CONFIG_READER_H

#include <kvferry/status.h>

#include "base/alloc.h"
#include "config/problem.h"
#include "config/schema.h"
#include "config/yaml.h"

struct kvf_reader {
    struct kvf_arena *arena; /* borrowed; what was read lives in it */
    struct kvf_problem_list *problems;
};

/* Everywhere: wheres[i] is the place of the keyset's i-th key, untouched if not set. */

/* Sets every key of the keyset that has a default. */
enum kvf_status KVF_MUST_CHECK kvf_reader_defaults(struct kvf_reader *reader,
                                                   enum kvf_keyset_id id, void *object);
/* The file. *out_lists[id] becomes the list of that keyset, NULL: not in the file. root
 * may be NULL (empty file). */
enum kvf_status KVF_MUST_CHECK
kvf_reader_file(struct kvf_reader *reader, const struct kvf_yaml_node *root,
                struct kvf_config *config, struct kvf_where *wheres,
                const struct kvf_yaml_node *out_lists[KVF_KEYSETS]);
/* One item of a list; reports required keys that are missing. */
enum kvf_status KVF_MUST_CHECK kvf_reader_item(struct kvf_reader *reader,
                                               enum kvf_keyset_id id,
                                               const struct kvf_yaml_node *node,
                                               void *object, struct kvf_where *wheres);
/* KVFERRY_SECTION__KEY variables, which win over the file. */
enum kvf_status KVF_MUST_CHECK kvf_reader_environment(struct kvf_reader *reader,
                                                      struct kvf_config *config,
                                                      struct kvf_where *wheres);

/* Problems so far, shown or not: two readings tell whether something was clean. */
size_t kvf_reader_n_problems(const struct kvf_reader *reader);

#endif
