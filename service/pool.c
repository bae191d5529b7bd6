/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pools come as files, so that the size is asked of the kernel and not of the engine, and
 * so that the memory lives on when the engine dies in mid-transfer. A file that could
 * shrink would turn a copy into SIGBUS; therefore the seal is demanded, not checked once.
 */
#include "service/pool.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"

static enum kvf_status refuse(struct kvf_plan_refusal *out, enum kvf_status status,
                              const char *text)
{
    (void)snprintf(out->text, sizeof(out->text), "%s", text); /* cut is fine */
    return status;
}

static enum kvf_status check_file(const struct kvf_pool_wanted *wanted,
                                  struct kvf_plan_refusal *out_refusal)
{
    int seals = fcntl(wanted->fd, F_GET_SEALS);
    if (seals < 0) {
        return refuse(
            out_refusal, KVF_POOL_UNSEALED,
            "the pool's descriptor is not a memfd; make it with memfd_create() and "
            "MFD_ALLOW_SEALING");
    }
    if ((seals & F_SEAL_SHRINK) == 0) {
        return refuse(out_refusal, KVF_POOL_UNSEALED,
                      "the pool's memfd lacks F_SEAL_SHRINK: it could shrink under a "
                      "transfer; seal it before registering");
    }
    struct stat info;
    if (fstat(wanted->fd, &info) != 0) {
        return refuse(out_refusal, KVF_SYSTEM, "fstat on the pool's descriptor failed");
    }
    uint64_t end;
    if (wanted->length == 0 || !kvf_size_add(wanted->offset, wanted->length, &end) ||
        end > (uint64_t)info.st_size) {
        (void)snprintf(
            out_refusal->text, sizeof(out_refusal->text),
            "pool of %llu bytes at offset %llu does not lie in its file of %lld",
            (unsigned long long)wanted->length, (unsigned long long)wanted->offset,
            (long long)info.st_size);
        return KVF_BAD_REF;
    }
    return KVF_OK;
}

static enum kvf_status copy_layout(struct kvf_daemon_pool *pool,
                                   const struct kvf_layout *layout)
{
    pool->layout = *layout;
    pool->layer_offsets = kvf_alloc_array(layout->n_layers, sizeof(uint64_t));
    if (pool->layer_offsets == NULL) {
        return KVF_NO_MEMORY;
    }
    memcpy(pool->layer_offsets, layout->layer_offsets,
           layout->n_layers * sizeof(uint64_t));
    pool->layout.layer_offsets = pool->layer_offsets;
    return KVF_OK;
}

static enum kvf_status map_file(struct kvf_daemon_pool *pool,
                                const struct kvf_pool_wanted *wanted,
                                struct kvf_plan_refusal *out_refusal)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t before = wanted->offset % page;
    pool->map_length = wanted->length + before;
    void *base = mmap(NULL, pool->map_length, PROT_READ | PROT_WRITE, MAP_SHARED,
                      wanted->fd, (off_t)(wanted->offset - before));
    if (base == MAP_FAILED) {
        return refuse(out_refusal, KVF_SYSTEM,
                      "the pool's memfd cannot be mapped for reading and writing");
    }
    (void)madvise(base, pool->map_length, MADV_DONTDUMP); /* prompts stay out of cores */
    pool->map_base = base;
    pool->base = (uint8_t *)base + before;
    pool->length = wanted->length;
    return KVF_OK;
}

static enum kvf_status register_memory(struct kvf_daemon_pool *pool,
                                       struct kvf_transport *const *transports, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        enum kvf_status status = transports[i]->ops->memory_add(
            transports[i], pool->map_base, pool->map_length, &pool->memory[i]);
        if (status != KVF_OK) {
            return status;
        }
        pool->transports[i] = transports[i];
        pool->n_transports = i + 1;
    }
    return KVF_OK;
}

static void destroy(struct kvf_daemon_pool *pool)
{
    for (size_t i = 0; i < pool->n_transports; i++) {
        pool->transports[i]->ops->memory_remove(pool->transports[i], pool->memory[i]);
    }
    if (pool->map_base != NULL) {
        (void)munmap(pool->map_base,
                     pool->map_length); /* nothing to do about a failure */
    }
    kvf_free(pool->layer_offsets);
    kvf_free(pool);
}

enum kvf_status kvf_daemon_pool_create(const struct kvf_pool_wanted *wanted,
                                       struct kvf_transport *const *transports,
                                       size_t n_transports,
                                       struct kvf_daemon_pool **out_pool,
                                       struct kvf_plan_refusal *out_refusal)
{
    if (wanted->memory_kind != KVF_MEMORY_HOST) {
        return refuse(out_refusal, KVF_UNSUPPORTED,
                      "this daemon takes host memory only (memory: host)");
    }
    enum kvf_status status = check_file(wanted, out_refusal);
    if (status != KVF_OK) {
        return status;
    }
    status = kvf_layout_check(wanted->layout, wanted->length, out_refusal);
    if (status != KVF_OK) {
        return status;
    }
    struct kvf_daemon_pool *pool = kvf_alloc(sizeof(*pool));
    if (pool == NULL) {
        return refuse(out_refusal, KVF_NO_MEMORY, "out of memory for the pool's record");
    }
    pool->pool_id = wanted->pool_id;
    pool->group = wanted->group;
    pool->memory_kind = wanted->memory_kind;
    status = copy_layout(pool, wanted->layout);
    if (status != KVF_OK) {
        (void)refuse(out_refusal, status, "out of memory for the pool's layout");
        goto fail;
    }
    status = map_file(pool, wanted, out_refusal);
    if (status != KVF_OK) {
        goto fail;
    }
    status = register_memory(pool, transports, n_transports);
    if (status != KVF_OK) {
        (void)refuse(out_refusal, status, "a transport refused to register the pool");
        goto fail;
    }
    *out_pool = pool;
    return KVF_OK;
fail:
    destroy(pool);
    return status;
}

void kvf_daemon_pool_acquire(struct kvf_daemon_pool *pool)
{
    assert(!pool->is_removed);
    pool->n_references++;
}

void kvf_daemon_pool_release(struct kvf_daemon_pool *pool)
{
    assert(pool->n_references > 0);
    pool->n_references--;
    if (pool->n_references == 0 && pool->is_removed) {
        destroy(pool);
    }
}

void kvf_daemon_pool_remove(struct kvf_daemon_pool *pool)
{
    if (pool == NULL) {
        return;
    }
    pool->is_removed = true;
    if (pool->n_references == 0) {
        destroy(pool);
    }
}

struct kvf_transport_memory *kvf_daemon_pool_memory(const struct kvf_daemon_pool *pool,
                                                    const struct kvf_transport *transport)
{
    for (size_t i = 0; i < pool->n_transports; i++) {
        if (pool->transports[i] == transport) {
            return pool->memory[i];
        }
    }
    return NULL;
}
