/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects live in pages of a fixed number of slots; a page is never moved or given back,
 * so a pointer stays good until its object is released. Free slots form a stack through
 * their indices, hence the last one released is the next one handed out, still in cache.
 *
 * id = generation << 32 | slot index. The generation of a slot is odd while its object is
 * alive and even while it is free; both acquire and release add one. So an id is never 0,
 * a stale id differs in generation, and a guessed id of a free slot is even and misses.
 * A slot's generation comes round after 2^31 uses of that slot. Loop thread.
 */
#include "base/slab.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"

#define PAGE_SLOTS 64u
#define NO_SLOT    UINT32_MAX

struct slot {
    uint32_t generation;
    uint32_t next_free; /* index of the next free slot; meaningless while alive */
};

struct page {
    struct slot slots[PAGE_SLOTS];
    _Alignas(max_align_t) uint8_t objects[];
};

struct kvf_slab {
    struct page **pages; /* owns the array and the pages */
    size_t object_bytes; /* rounded up to the alignment */
    uint32_t n_pages;
    uint32_t n_slots; /* in pages, at most n_max */
    uint32_t n_used;
    uint32_t n_max;
    uint32_t first_free;
};

static struct slot *slot_at(const struct kvf_slab *slab, uint32_t index)
{
    return &slab->pages[index / PAGE_SLOTS]->slots[index % PAGE_SLOTS];
}

static void *object_at(const struct kvf_slab *slab, uint32_t index)
{
    struct page *page = slab->pages[index / PAGE_SLOTS];
    return page->objects + (index % PAGE_SLOTS) * slab->object_bytes;
}

/* Appends one page and puts its slots on the free stack, lowest index on top. */
static bool add_page(struct kvf_slab *slab)
{
    size_t table_bytes = (slab->n_pages + (size_t)1) * sizeof(struct page *);
    struct page **pages = kvf_realloc(slab->pages, table_bytes);
    if (pages == NULL) {
        return false;
    }
    slab->pages = pages;
    struct page *page = kvf_alloc(sizeof(struct page) + PAGE_SLOTS * slab->object_bytes);
    if (page == NULL) {
        return false;
    }
    pages[slab->n_pages++] = page;
    uint32_t n_left = slab->n_max - slab->n_slots;
    uint32_t n_new = n_left < PAGE_SLOTS ? n_left : PAGE_SLOTS;
    for (uint32_t i = n_new; i > 0; i--) {
        page->slots[i - 1].next_free = slab->first_free;
        slab->first_free = slab->n_slots + i - 1;
    }
    slab->n_slots += n_new;
    return true;
}

/* False when no page of such objects can be addressed. */
static bool round_object_bytes(size_t object_bytes, size_t *out_bytes)
{
    uint64_t padded = 0, page_bytes = 0;
    if (!kvf_size_add(object_bytes, _Alignof(max_align_t) - 1, &padded)) {
        return false;
    }
    padded &= ~(uint64_t)(_Alignof(max_align_t) - 1);
    if (!kvf_size_mul(padded, PAGE_SLOTS, &page_bytes) ||
        !kvf_size_add(page_bytes, sizeof(struct page), &page_bytes)) {
        return false;
    }
    *out_bytes = padded;
    return true;
}

enum kvf_status kvf_slab_create(size_t object_bytes, uint32_t n_first, uint32_t n_max,
                                struct kvf_slab **out_slab)
{
    size_t padded_bytes = 0;
    if (object_bytes == 0 || n_max == 0 || n_max > INT32_MAX || n_first > n_max ||
        !round_object_bytes(object_bytes, &padded_bytes)) {
        return KVF_INVALID_ARGUMENT;
    }
    struct kvf_slab *slab = kvf_alloc(sizeof(*slab));
    if (slab == NULL) {
        return KVF_NO_MEMORY;
    }
    slab->object_bytes = padded_bytes;
    slab->n_max = n_max;
    slab->first_free = NO_SLOT;
    while (slab->n_slots < n_first) {
        if (!add_page(slab)) {
            kvf_slab_destroy(slab);
            return KVF_NO_MEMORY;
        }
    }
    *out_slab = slab;
    return KVF_OK;
}

void kvf_slab_destroy(struct kvf_slab *slab)
{
    if (slab == NULL) {
        return;
    }
    for (uint32_t i = 0; i < slab->n_pages; i++) {
        kvf_free(slab->pages[i]);
    }
    kvf_free(slab->pages);
    kvf_free(slab);
}

void *kvf_slab_acquire(struct kvf_slab *slab, uint64_t *out_id)
{
    if (slab->n_used == slab->n_max) {
        return NULL;
    }
    if (slab->first_free == NO_SLOT && !add_page(slab)) {
        return NULL;
    }
    uint32_t index = slab->first_free;
    struct slot *slot = slot_at(slab, index);
    slab->first_free = slot->next_free;
    slab->n_used++;
    slot->generation++;
    void *object = object_at(slab, index);
    memset(object, 0, slab->object_bytes);
    *out_id = (uint64_t)slot->generation << 32 | index;
    return object;
}

void *kvf_slab_find(const struct kvf_slab *slab, uint64_t id)
{
    uint32_t index = (uint32_t)id;
    uint32_t generation = (uint32_t)(id >> 32);
    bool is_alive_form = (generation & 1) != 0;
    if (!is_alive_form || index >= slab->n_slots ||
        slot_at(slab, index)->generation != generation) {
        return NULL;
    }
    return object_at(slab, index);
}

void kvf_slab_release(struct kvf_slab *slab, uint64_t id)
{
    assert(kvf_slab_find(slab, id) != NULL);
    uint32_t index = (uint32_t)id;
    struct slot *slot = slot_at(slab, index);
    slot->generation++;
    slot->next_free = slab->first_free;
    slab->first_free = index;
    slab->n_used--;
}

uint32_t kvf_slab_used(const struct kvf_slab *slab)
{
    return slab->n_used;
}

uint32_t kvf_slab_max(const struct kvf_slab *slab)
{
    return slab->n_max;
}
