/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a config remembers of how it came about: the place of every key, the topology as
 * written, and the arena that holds all of it. Private to config/.
 */
#ifndef KVF_CONFIG_ORIGIN_H
#define KVF_CONFIG_ORIGIN_H

#include <stddef.h>

#include "base/alloc.h"
#include "config/problem.h"
#include "config/schema.h"

struct kvf_config_origin {
    struct kvf_arena arena; /* owns everything below, peers and instances as well */
    const char *file;       /* as messages name it */
    struct kvf_where wheres[KVF_KEYSET_KEYS_MAX];
    struct kvf_peer_spec *peers; /* as written: the own node may be among them */
    size_t n_peers;
    struct kvf_instance_spec *instances;
    size_t n_instances;
};

#endif
