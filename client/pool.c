/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pools: a sealed memfd, mapped here and, by the descriptor that rides on PoolRegister,
 * in the daemon. No descriptor is kept: the two mappings hold the file. The daemon checks
 * the layout against topology and file; here only what the library itself computes with.
 * Caller's thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "client/engine_private.h"

struct kvf_pool *kvf_engine_pool(const struct kvf_engine *engine, uint32_t group)
{
    for (struct kvf_node *node = kvf_list_first(&engine->pools); node != NULL;
         node = kvf_list_next(&engine->pools, node)) {
        struct kvf_pool *pool = KVF_CONTAINER(node, struct kvf_pool, node);
        if (pool->group == group) {
            return pool;
        }
    }
    return NULL;
}

void kvf_pool_destroy(struct kvf_pool *pool)
{
    if (pool == NULL) {
        return;
    }
    if (kvf_node_is_linked(&pool->node)) {
        kvf_list_remove(&pool->engine->pools, &pool->node);
    }
    if (pool->base != NULL) {
        (void)munmap(pool->base, pool->length); /* nothing to do about a failure */
    }
    kvf_free(pool);
}

/* ---- the file */

static enum kvf_status fail_file(struct kvf_engine *engine, const char *what)
{
    int error = errno;
    return kvf_engine_fail(engine, error == ENOMEM ? KVF_NO_MEMORY : KVF_SYSTEM,
                           "%s the pool's memfd: %s", what, strerrordesc_np(error));
}

static enum kvf_status create_file(struct kvf_engine *engine, uint64_t length,
                                   int *out_fd)
{
    int fd = memfd_create("kvferry-pool", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) {
        return fail_file(engine, "cannot create");
    }
    if (ftruncate(fd, (off_t)length) != 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
        enum kvf_status status = fail_file(engine, "cannot size and seal");
        (void)close(fd); /* empty as it was made */
        return status;
    }
    *out_fd = fd;
    return KVF_OK;
}

static enum kvf_status check_file(struct kvf_engine *engine,
                                  const struct kvf_pool_config *config)
{
    const int wanted = F_SEAL_SHRINK | F_SEAL_GROW;
    int seals = fcntl(config->fd, F_GET_SEALS);
    if (seals < 0 && errno == EBADF) {
        return kvf_engine_fail(engine, KVF_INVALID_ARGUMENT, "fd %d is not open",
                               config->fd);
    }
    if (seals < 0 || (seals & wanted) != wanted) {
        return kvf_engine_fail(engine, KVF_POOL_UNSEALED,
                               "fd %d is no memfd sealed with F_SEAL_SHRINK and "
                               "F_SEAL_GROW",
                               config->fd);
    }
    struct stat info;
    if (fstat(config->fd, &info) != 0) {
        return fail_file(engine, "cannot stat");
    }
    uint64_t end;
    if (!kvf_size_add(config->offset, config->length, &end) ||
        end > (uint64_t)info.st_size) {
        return kvf_engine_fail(
            engine, KVF_BAD_REF, "%llu bytes at offset %llu do not lie in a file of %llu",
            (unsigned long long)config->length, (unsigned long long)config->offset,
            (unsigned long long)info.st_size);
    }
    return KVF_OK;
}

static enum kvf_status map_file(struct kvf_pool *pool, int fd, uint64_t offset)
{
    void *base =
        mmap(NULL, pool->length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);
    if (base == MAP_FAILED) {
        return fail_file(pool->engine, "cannot map");
    }
    (void)madvise(base, pool->length, MADV_DONTDUMP); /* prompts stay out of cores */
    pool->base = base;
    return KVF_OK;
}

/* ---- registering */

static enum kvf_status check_config(struct kvf_engine *engine,
                                    const struct kvf_pool_config *config)
{
    enum kvf_status status =
        kvf_arguments_struct(engine, "kvf_pool_config", config, sizeof(*config));
    if (status != KVF_OK) {
        return status;
    }
    const struct kvf_layout *layout = config->layout;
    status = kvf_arguments_struct(engine, "kvf_layout", layout, sizeof(*layout));
    if (status != KVF_OK) {
        return status;
    }
    if (config->memory != KVF_MEMORY_HOST) {
        return kvf_engine_fail(engine, KVF_NOT_SHAREABLE,
                               "this release shares host memory only");
    }
    if (layout->n_blocks == 0 || layout->tokens_per_block == 0 || layout->n_layers == 0 ||
        layout->n_layers > KVF_LAYERS_MAX || layout->layer_offsets == NULL) {
        return kvf_engine_fail(engine, KVF_INVALID_ARGUMENT,
                               "the layout needs blocks, tokens per block and 1 to %u "
                               "layer offsets",
                               KVF_LAYERS_MAX);
    }
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    if (config->length == 0 || config->length > INT64_MAX || config->offset > INT64_MAX ||
        config->offset % page != 0 || (config->fd < 0 && config->offset != 0)) {
        return kvf_engine_fail(engine, KVF_INVALID_ARGUMENT,
                               "length must be positive and offset a multiple of %llu, 0 "
                               "without a file",
                               (unsigned long long)page);
    }
    return config->fd >= 0 ? check_file(engine, config) : KVF_OK;
}

static enum kvf_status announce(struct kvf_pool *pool,
                                const struct kvf_pool_config *config, int fd,
                                uint64_t deadline_ns)
{
    struct kvf_engine *engine = pool->engine;
    const struct kvf_message question = {
        .type = KVF_MSG_POOL_REGISTER,
        .u.pool_register = {.pool_id = pool->pool_id,
                            .layout = {.group = config->group,
                                       .memory = config->memory,
                                       .layout = *config->layout},
                            .offset = config->offset,
                            .length = config->length},
    };
    const struct kvf_answer expected = {.type = KVF_MSG_POOL_REGISTERED,
                                        .pool_id = pool->pool_id};
    enum kvf_status status =
        kvf_engine_ask(engine, &question, fd, &expected, deadline_ns);
    if (status != KVF_TIMED_OUT) {
        return status;
    }
    /* The daemon may still register it: it is told at once to let go again. */
    const struct kvf_message regret = {
        .type = KVF_MSG_POOL_UNREGISTER,
        .u.pool_answer = {.pool_id = pool->pool_id},
    };
    bool is_told = kvf_engine_send(engine, &regret, -1) == KVF_OK;
    return kvf_engine_fail(engine, status, "the daemon did not answer; %s",
                           is_told ? "the pool was withdrawn"
                                   : "its queue is full, the group may stay taken");
}

enum kvf_status kvf_pool_register(struct kvf_engine *engine,
                                  const struct kvf_pool_config *config,
                                  uint32_t timeout_ms, struct kvf_pool **out_pool)
{
    uint64_t deadline_ns = kvf_deadline_ns(timeout_ms, KVF_DEFAULT_TIMEOUT_MS);
    enum kvf_status status = kvf_engine_enter_live(engine);
    if (status != KVF_OK) {
        return status;
    }
    if (out_pool == NULL) {
        return kvf_engine_fail(engine, KVF_INVALID_ARGUMENT, "out_pool is NULL");
    }
    status = check_config(engine, config);
    if (status != KVF_OK) {
        return status;
    }
    int own_fd = -1;
    struct kvf_pool *pool = kvf_alloc(sizeof(*pool));
    if (pool == NULL) {
        return kvf_engine_fail(engine, KVF_NO_MEMORY, "no memory for the pool's record");
    }
    pool->engine = engine;
    pool->pool_id = ++engine->next_pool_id;
    pool->group = config->group;
    pool->n_blocks = config->layout->n_blocks;
    pool->tokens_per_block = config->layout->tokens_per_block;
    pool->length = config->length;
    if (config->fd < 0) {
        status = create_file(engine, config->length, &own_fd);
        if (status != KVF_OK) {
            goto fail;
        }
    }
    int fd = own_fd >= 0 ? own_fd : config->fd;
    status = map_file(pool, fd, config->offset);
    if (status != KVF_OK) {
        goto fail;
    }
    status = announce(pool, config, fd, deadline_ns);
    if (status != KVF_OK) {
        goto fail;
    }
    if (own_fd >= 0) {
        (void)close(own_fd); /* both mappings hold the file */
    }
    kvf_list_add_tail(&engine->pools, &pool->node);
    *out_pool = pool;
    return KVF_OK;
fail:
    if (own_fd >= 0) {
        (void)close(own_fd);
    }
    kvf_pool_destroy(pool);
    return status;
}

void *kvf_pool_base(const struct kvf_pool *pool)
{
    return pool->base;
}

uint64_t kvf_pool_length(const struct kvf_pool *pool)
{
    return pool->length;
}

enum kvf_status kvf_pool_unregister(struct kvf_pool *pool, uint32_t timeout_ms)
{
    if (pool == NULL) {
        return KVF_INVALID_ARGUMENT;
    }
    struct kvf_engine *engine = pool->engine;
    enum kvf_status status = kvf_engine_enter(engine);
    if (status != KVF_OK) {
        return status;
    }
    if (pool->n_transfers > 0) {
        return kvf_engine_fail(engine, KVF_BUSY,
                               "%u transfers still hold blocks of the pool",
                               pool->n_transfers);
    }
    if (engine->is_lost) {
        status = KVF_DAEMON_LOST;
    } else {
        const struct kvf_message question = {
            .type = KVF_MSG_POOL_UNREGISTER,
            .u.pool_answer = {.pool_id = pool->pool_id},
        };
        const struct kvf_answer expected = {.type = KVF_MSG_POOL_UNREGISTERED,
                                            .pool_id = pool->pool_id};
        status = kvf_engine_ask(engine, &question, -1, &expected,
                                kvf_deadline_ns(timeout_ms, KVF_DEFAULT_TIMEOUT_MS));
    }
    if (status == KVF_NOT_FOUND) {
        status = KVF_OK; /* an earlier call stopped waiting, the daemon did not */
    }
    if (status == KVF_OK || status == KVF_DAEMON_LOST) {
        kvf_pool_destroy(pool);
    }
    return status;
}
