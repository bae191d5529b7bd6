/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two counters only grow; their difference is the number of records inside and their
 * low bits are positions. Each is written by one side: `pushed` by the producer, `popped`
 * by the consumer. A side publishes its counter with release after it is done with the
 * record, and reads the other's with acquire before it touches the slot.
 *
 * Each side keeps the last value it saw of the other's counter and rereads it only when
 * the ring looks full or empty, so that in a run of records the counters' cache lines do
 * not travel. The padding keeps the two sides apart; it is bytes and not an alignment
 * because the heap aligns to 16.
 */
#include "base/ring.h"

#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"

#define CACHE_LINE_BYTES 64

struct kvf_ring {
    uint8_t *records; /* owns */
    size_t record_bytes;
    size_t mask;
    uint8_t pad_producer[CACHE_LINE_BYTES];
    _Atomic size_t pushed; /* written by the producer */
    size_t popped_seen;    /* producer's copy of popped */
    uint8_t pad_consumer[CACHE_LINE_BYTES];
    _Atomic size_t popped; /* written by the consumer */
    size_t pushed_seen;    /* consumer's copy of pushed */
    uint8_t pad_end[CACHE_LINE_BYTES];
};

enum kvf_status kvf_ring_create(size_t record_bytes, size_t n_records,
                                struct kvf_ring **out_ring)
{
    if (record_bytes == 0 || n_records == 0 || n_records > SIZE_MAX / 2) {
        return KVF_INVALID_ARGUMENT;
    }
    size_t capacity = 1;
    while (capacity < n_records) {
        capacity *= 2;
    }
    struct kvf_ring *ring = kvf_alloc(sizeof(*ring));
    if (ring == NULL) {
        return KVF_NO_MEMORY;
    }
    ring->records = kvf_alloc_array(capacity, record_bytes);
    if (ring->records == NULL) {
        kvf_ring_destroy(ring);
        return KVF_NO_MEMORY;
    }
    ring->record_bytes = record_bytes;
    ring->mask = capacity - 1;
    atomic_init(&ring->pushed, 0);
    atomic_init(&ring->popped, 0);
    *out_ring = ring;
    return KVF_OK;
}

void kvf_ring_destroy(struct kvf_ring *ring)
{
    if (ring == NULL) {
        return;
    }
    kvf_free(ring->records);
    kvf_free(ring);
}

static uint8_t *record_at(const struct kvf_ring *ring, size_t counter)
{
    return ring->records + (counter & ring->mask) * ring->record_bytes;
}

bool kvf_ring_push(struct kvf_ring *ring, const void *record)
{
    size_t pushed = atomic_load_explicit(&ring->pushed, memory_order_relaxed);
    if (pushed - ring->popped_seen > ring->mask) {
        ring->popped_seen = atomic_load_explicit(&ring->popped, memory_order_acquire);
        if (pushed - ring->popped_seen > ring->mask) {
            return false;
        }
    }
    memcpy(record_at(ring, pushed), record, ring->record_bytes);
    atomic_store_explicit(&ring->pushed, pushed + 1, memory_order_release);
    return true;
}

bool kvf_ring_pop(struct kvf_ring *ring, void *out_record)
{
    size_t popped = atomic_load_explicit(&ring->popped, memory_order_relaxed);
    if (popped == ring->pushed_seen) {
        ring->pushed_seen = atomic_load_explicit(&ring->pushed, memory_order_acquire);
        if (popped == ring->pushed_seen) {
            return false;
        }
    }
    memcpy(out_record, record_at(ring, popped), ring->record_bytes);
    atomic_store_explicit(&ring->popped, popped + 1, memory_order_release);
    return true;
}

size_t kvf_ring_length(const struct kvf_ring *ring)
{
    /* popped first: it can only fall behind, so the difference is never negative. */
    size_t popped = atomic_load_explicit(&ring->popped, memory_order_acquire);
    size_t pushed = atomic_load_explicit(&ring->pushed, memory_order_acquire);
    return pushed - popped;
}
