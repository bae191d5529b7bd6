/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one table of configuration keys. Parser, defaults, environment names, --print-*,
 * JSON Schema and the reference page are all generated from it; a key that is not here
 * does not exist. Static data, any thread.
 */
#ifndef KVF_CONFIG_SCHEMA_H
#define KVF_CONFIG_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/config.h"
#include "config/problem.h"

#define KVF_KEYSET_KEYS_MAX   64
#define KVF_CONFIG_RANKS_MAX  1024 /* of one instance: what one message can name */
#define KVF_CONFIG_PP_MAX     256
#define KVF_CONFIG_LAYERS_MAX 4096
#define KVF_CONFIG_ITEMS_MAX  1024 /* peers; instances */

/* What a value is and how it is stored: text kinds in char arrays (NAME, PATH) or struct
 * kvf_address, BOOLEAN in bool, SIZE in uint64_t, CHOICE in an enum, the rest in
 * uint32_t. */
enum kvf_value_kind {
    KVF_VALUE_NAME = 0,
    KVF_VALUE_PATH = 1, /* any text */
    KVF_VALUE_ADDRESS = 2,
    KVF_VALUE_DURATION_MS = 3,
    KVF_VALUE_DURATION_US = 4,
    KVF_VALUE_SIZE = 5,
    KVF_VALUE_INTEGER = 6,
    KVF_VALUE_BOOLEAN = 7,
    KVF_VALUE_CHOICE = 8
};

enum kvf_key_flags {
    KVF_KEY_RELOADABLE = 1 << 0,
    KVF_KEY_SECRET = 1 << 1,    /* never shown */
    KVF_KEY_NULLABLE = 1 << 2,  /* null and "" mean: none */
    KVF_KEY_REQUIRED = 1 << 3,  /* no default */
    KVF_KEY_MASK = 1 << 4,      /* a list of choices stored as bits of a uint32_t */
    KVF_KEY_ALLOCATED = 1 << 5, /* the field points to the list, in the config's arena */
    KVF_KEY_TCP = 1 << 6,       /* addresses: what is allowed */
    KVF_KEY_UNIX = 1 << 7,
    KVF_KEY_PORT_RANGE = 1 << 8,
    KVF_KEY_PORT_ANY = 1 << 9 /* port 0: the system picks */
};

struct kvf_key {
    const char *path; /* "data.chunk"; in an item's keyset "address" */
    enum kvf_value_kind kind;
    unsigned flags;
    const char *fallback;     /* the default as one would write it; NULL: none */
    uint64_t min, max;        /* of numbers, in the stored unit; 0, 0: no limit */
    const char *const *names; /* of a CHOICE, NULL-terminated; index = value */
    size_t capacity;          /* of a list; 0: a single value */
    size_t offset;            /* in the keyset's object */
    size_t count_offset;      /* of a list that is not a mask */
    size_t n_bytes;           /* of one value */
    const char *doc;
};

/* Keys of the file itself (object: struct kvf_config) and of the items of its two lists
 * (struct kvf_peer_spec, struct kvf_instance_spec). */
enum kvf_keyset_id {
    KVF_KEYSET_ROOT = 0,
    KVF_KEYSET_PEER = 1,
    KVF_KEYSET_INSTANCE = 2,
    KVF_KEYSETS = 3
};
struct kvf_keyset {
    const char *list; /* "peers", "instances"; NULL: the file */
    const char *doc;
    const struct kvf_key *keys;
    size_t n_keys; /* at most KVF_KEYSET_KEYS_MAX */
};
const struct kvf_keyset *kvf_schema_keyset(enum kvf_keyset_id id);

/* NULL: no such key. */
const struct kvf_key *kvf_schema_find(enum kvf_keyset_id id, const char *path);
/* Length of "data" in "data.chunk"; 0 for keys of an item. */
size_t kvf_key_section_length(const struct kvf_key *key);
/* Whether the i-th key is the first of its section; they stand together. */
bool kvf_keyset_opens_section(const struct kvf_keyset *keyset, size_t i);
/* "chunk" of "data.chunk". */
const char *kvf_key_leaf(const struct kvf_key *key);
bool kvf_key_is_list(const struct kvf_key *key);
bool kvf_key_is_text(const struct kvf_key *key); /* printed in quotes */

/* Topology items as written; they live as long as the config. */
struct kvf_peer_spec {
    char name[KVF_CONFIG_NAME_BYTES];
    struct kvf_address address;
    struct kvf_where wheres[KVF_KEYSET_KEYS_MAX];
};
struct kvf_instance_spec {
    char name[KVF_CONFIG_NAME_BYTES];
    enum kvf_role role;
    uint32_t tp, pp, cp;
    bool has_attention_dp;
    uint32_t layers[KVF_CONFIG_PP_MAX]; /* one number: all stages together */
    size_t n_layers;
    uint32_t n_kv_heads, head_size, tokens_per_block;
    enum kvf_dtype dtype;
    enum kvf_attention attention;
    uint32_t kv_factor; /* 0: by attention */
    char node[KVF_CONFIG_NAME_BYTES];
    const char (*ranks)[KVF_CONFIG_NAME_BYTES];
    size_t n_ranks;
    struct kvf_where wheres[KVF_KEYSET_KEYS_MAX];
};

#endif
