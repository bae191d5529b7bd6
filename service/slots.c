/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The staging arena. Pages are touched by use only, so an idle daemon does not pay for
 * it. The free list is a stack: the slot used last is the one most likely in a cache.
 */
#include "service/slots.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/log.h"

struct kvf_slots {
    uint8_t *base; /* owns, mmap */
    uint64_t arena_bytes, slot_bytes;
    uint32_t n_slots, n_free, n_per_holder;
    uint32_t *free_slots; /* owns; stack of n_free entries */
    size_t n_transports;
    struct kvf_transport *transports[KVF_TRANSPORTS_MAX];    /* borrows */
    struct kvf_transport_memory *memory[KVF_TRANSPORTS_MAX]; /* owns */
};

static const struct kvf_log_ctx log_ctx = {.comp = "slots"};

static enum kvf_status map_arena(struct kvf_slots *slots)
{
    void *base = mmap(NULL, slots->arena_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) {
        kvf_log_error(&log_ctx, "staging arena of %llu bytes cannot be mapped: %s",
                      (unsigned long long)slots->arena_bytes, strerrordesc_np(errno));
        return KVF_NO_MEMORY;
    }
    /* Slots hold prompts in KV form: keep them out of core dumps. */
    (void)madvise(base, slots->arena_bytes, MADV_DONTDUMP);
    slots->base = base;
    return KVF_OK;
}

static enum kvf_status register_arena(struct kvf_slots *slots,
                                      struct kvf_transport *const *transports, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        enum kvf_status status = transports[i]->ops->memory_add(
            transports[i], slots->base, slots->arena_bytes, &slots->memory[i]);
        if (status != KVF_OK) {
            return status;
        }
        slots->transports[i] = transports[i];
        slots->n_transports = i + 1;
    }
    return KVF_OK;
}

enum kvf_status kvf_slots_create(uint64_t arena_bytes, uint64_t slot_bytes,
                                 struct kvf_transport *const *transports,
                                 size_t n_transports, struct kvf_slots **out_slots)
{
    assert(slot_bytes > 0 && n_transports <= KVF_TRANSPORTS_MAX);
    enum kvf_status status = KVF_NO_MEMORY;
    struct kvf_slots *slots = kvf_alloc(sizeof(*slots));
    if (slots == NULL) {
        return KVF_NO_MEMORY;
    }
    slots->slot_bytes = slot_bytes;
    slots->n_slots = (uint32_t)(arena_bytes / slot_bytes);
    slots->arena_bytes = slots->n_slots * slot_bytes;
    slots->n_per_holder = slots->n_slots >= 4 ? slots->n_slots / 4 : slots->n_slots;
    slots->free_slots = kvf_alloc_array(slots->n_slots, sizeof(uint32_t));
    if (slots->free_slots == NULL) {
        goto fail;
    }
    for (uint32_t i = 0; i < slots->n_slots; i++) {
        slots->free_slots[i] = slots->n_slots - 1 - i;
    }
    slots->n_free = slots->n_slots;
    status = map_arena(slots);
    if (status != KVF_OK) {
        goto fail;
    }
    status = register_arena(slots, transports, n_transports);
    if (status != KVF_OK) {
        goto fail;
    }
    *out_slots = slots;
    return KVF_OK;
fail:
    kvf_slots_destroy(slots);
    return status;
}

void kvf_slots_destroy(struct kvf_slots *slots)
{
    if (slots == NULL) {
        return;
    }
    for (size_t i = 0; i < slots->n_transports; i++) {
        slots->transports[i]->ops->memory_remove(slots->transports[i], slots->memory[i]);
    }
    if (slots->base != NULL) {
        (void)munmap(slots->base, slots->arena_bytes); /* nothing to do about a failure */
    }
    kvf_free(slots->free_slots);
    kvf_free(slots);
}

uint32_t kvf_slots_acquire(struct kvf_slots *slots, uint32_t *held)
{
    if (slots->n_free == 0 || *held >= slots->n_per_holder) {
        return KVF_SLOT_NONE;
    }
    *held += 1;
    return slots->free_slots[--slots->n_free];
}

void kvf_slots_release(struct kvf_slots *slots, uint32_t slot, uint32_t *held)
{
    assert(slot < slots->n_slots && slots->n_free<slots->n_slots && * held> 0);
    *held -= 1;
    slots->free_slots[slots->n_free++] = slot;
}

void *kvf_slots_base(const struct kvf_slots *slots, uint32_t slot)
{
    assert(slot < slots->n_slots);
    return slots->base + (uint64_t)slot * slots->slot_bytes;
}

struct kvf_transport_memory *kvf_slots_memory(const struct kvf_slots *slots,
                                              const struct kvf_transport *transport)
{
    for (size_t i = 0; i < slots->n_transports; i++) {
        if (slots->transports[i] == transport) {
            return slots->memory[i];
        }
    }
    return NULL;
}

uint32_t kvf_slots_used(const struct kvf_slots *slots)
{
    return slots->n_slots - slots->n_free;
}

uint32_t kvf_slots_total(const struct kvf_slots *slots)
{
    return slots->n_slots;
}
