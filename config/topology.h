/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peers and instances: reads the two lists, derives each instance's cache state and
 * checks what spans keys or items. Everything made here lives in the config's arena.
 */
#ifndef KVF_CONFIG_TOPOLOGY_H
#define KVF_CONFIG_TOPOLOGY_H

#include <kvferry/status.h>

#include "config/origin.h"
#include "config/reader.h"

/* lists as kvf_reader_file() found them. config->node.name is set. Problems are added to
 * the reader's list; NO_MEMORY is the only failure. */
enum kvf_status KVF_MUST_CHECK kvf_topology_read(
    struct kvf_reader *reader, const struct kvf_yaml_node *const lists[KVF_KEYSETS],
    struct kvf_config *config);

#endif
