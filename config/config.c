/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a file to the one immutable object: defaults, file, environment, topology, rules.
 * All problems of all steps are collected before anything is given up. A config is one
 * struct and one arena; nothing in it is freed alone.
 */
#include "config/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "config/check.h"
#include "config/origin.h"
#include "config/reader.h"
#include "config/scalar.h"
#include "config/topology.h"
#include "config/yaml.h"

#define ARENA_MAX_BYTES ((size_t)256 << 20)
#define NO_FILE_NAME    "environment"

static struct kvf_config *create_config(void)
{
    struct kvf_config *config = kvf_alloc(sizeof(*config));
    if (config == NULL) {
        return NULL;
    }
    config->origin = kvf_alloc(sizeof(*config->origin));
    if (config->origin == NULL) {
        kvf_config_destroy(config);
        return NULL;
    }
    kvf_arena_init(&config->origin->arena, ARENA_MAX_BYTES);
    return config;
}

void kvf_config_destroy(struct kvf_config *config)
{
    if (config == NULL) {
        return;
    }
    if (config->origin != NULL) {
        kvf_arena_fini(&config->origin->arena);
        kvf_free(config->origin);
    }
    kvf_free(config);
}

/* A host's name may be longer than a node's, or odd; then it has to be written down. */
static void name_node(struct kvf_reader *reader, struct kvf_config *config)
{
    char host[KVF_CONFIG_PATH_BYTES] = "";
    struct kvf_value_refusal refusal = {.text = ""};
    if (config->node.name[0] != '\0') {
        return;
    }
    if (gethostname(host, sizeof(host) - 1) != 0 ||
        kvf_scalar_name(host, &refusal) != KVF_OK) {
        kvf_problem_add(reader->problems, (struct kvf_where){.line = 0},
                        "node.name must be set, the host's name cannot be used: %s",
                        refusal.text);
        return;
    }
    memcpy(config->node.name, host, strlen(host) + 1);
}

static enum kvf_status read_all(struct kvf_reader *reader, struct kvf_config *config)
{
    struct kvf_where *wheres = config->origin->wheres;
    struct kvf_yaml_node *root = NULL;
    const struct kvf_yaml_node *lists[KVF_KEYSETS] = {NULL};
    enum kvf_status status = kvf_yaml_parse(reader->arena, reader->problems, &root);
    if (status == KVF_OK) {
        status = kvf_reader_defaults(reader, KVF_KEYSET_ROOT, config);
    }
    if (status == KVF_OK) {
        status = kvf_reader_file(reader, root, config, wheres, lists);
    }
    if (status == KVF_OK) {
        status = kvf_reader_environment(reader, config, wheres);
    }
    if (status == KVF_OK) {
        name_node(reader, config);
        status = kvf_topology_read(reader, lists, config);
    }
    if (status == KVF_OK) {
        kvf_config_check(config, config->origin, reader->problems);
        status = kvf_reader_n_problems(reader) > 0 ? KVF_CONFIG : KVF_OK;
    }
    return status;
}

static char *copy_name(struct kvf_arena *arena, const char *name)
{
    size_t n_bytes = strlen(name) + 1;
    char *copy = kvf_arena_alloc(arena, n_bytes);
    if (copy != NULL) {
        memcpy(copy, name, n_bytes);
    }
    return copy;
}

/* Renders the problems and lets go of the config, or hands it over. */
static enum kvf_status finish(enum kvf_status status, struct kvf_config *config,
                              const struct kvf_problem_list *problems,
                              struct kvf_config **out,
                              struct kvf_config_problems *out_problems)
{
    struct kvf_config_problems rendered = {.n = 0};
    if (status == KVF_OK || status == KVF_CONFIG) {
        enum kvf_status rendering = kvf_problem_list_render(problems, &rendered);
        status = rendering == KVF_OK ? status : rendering;
    }
    *out_problems = rendered;
    if (status == KVF_OK) {
        *out = config;
    } else {
        kvf_config_destroy(config);
    }
    return status;
}

enum kvf_status kvf_config_parse(const char *name, const char *text, size_t n,
                                 struct kvf_config **out,
                                 struct kvf_config_problems *out_problems)
{
    struct kvf_problem_list problems = {
        .name = name, .source = text, .n_source_bytes = n};
    enum kvf_status status = KVF_NO_MEMORY;
    struct kvf_config *config = create_config();
    if (config != NULL) {
        struct kvf_reader reader = {.arena = &config->origin->arena,
                                    .problems = &problems};
        config->origin->file = copy_name(reader.arena, name);
        status = config->origin->file == NULL ? KVF_NO_MEMORY : read_all(&reader, config);
    }
    return finish(status, config, &problems, out, out_problems);
}

/* Up to one byte more than allowed: the parser refuses what is too large. */
static enum kvf_status read_bytes(int fd, struct kvf_buf *buf, int *out_errno)
{
    while (kvf_buf_length(buf) <= KVF_YAML_MAX_BYTES) {
        enum { STEP_BYTES = 16384 };
        uint8_t *room = kvf_buf_reserve(buf, STEP_BYTES);
        if (room == NULL) {
            return KVF_NO_MEMORY;
        }
        ssize_t n = read(fd, room, STEP_BYTES);
        if (n < 0 && errno != EINTR) {
            *out_errno = errno;
            return KVF_CONFIG;
        }
        if (n == 0) {
            return KVF_OK;
        }
        kvf_buf_commit(buf, n > 0 ? (size_t)n : 0);
    }
    return KVF_OK;
}

static enum kvf_status read_file(const char *file, struct kvf_buf *buf, int *out_errno)
{
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        *out_errno = errno;
        return KVF_CONFIG;
    }
    enum kvf_status status = read_bytes(fd, buf, out_errno);
    (void)close(fd); /* nothing was written */
    return status;
}

enum kvf_status kvf_config_load(const char *file, struct kvf_config **out,
                                struct kvf_config_problems *out_problems)
{
    if (file == NULL) {
        return kvf_config_parse(NO_FILE_NAME, "", 0, out, out_problems);
    }
    struct kvf_buf buf;
    int error = 0;
    kvf_buf_init(&buf, (size_t)2 * KVF_YAML_MAX_BYTES);
    enum kvf_status status = read_file(file, &buf, &error);
    if (status == KVF_OK) {
        const char *text = (const char *)kvf_buf_head(&buf);
        size_t n = kvf_buf_length(&buf);
        status = kvf_config_parse(file, n > 0 ? text : "", n, out, out_problems);
    } else {
        struct kvf_problem_list problems = {.name = file, .source = ""};
        char text[128];
        kvf_problem_add(&problems, (struct kvf_where){.line = 0}, "cannot be read: %s",
                        strerror_r(error, text, sizeof(text)));
        status = finish(status, NULL, &problems, out, out_problems);
    }
    kvf_buf_fini(&buf);
    return status;
}

const struct kvf_config_instance *
kvf_config_find_instance(const struct kvf_config *config, const char *name)
{
    for (size_t i = 0; i < config->n_instances; i++) {
        if (strcmp(config->instances[i].name, name) == 0) {
            return &config->instances[i];
        }
    }
    return NULL;
}

const struct kvf_config_peer *kvf_config_find_peer(const struct kvf_config *config,
                                                   const char *name)
{
    for (size_t i = 0; i < config->n_peers; i++) {
        if (strcmp(config->peers[i].name, name) == 0) {
            return &config->peers[i];
        }
    }
    return NULL;
}
