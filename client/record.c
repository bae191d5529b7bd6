/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of transfers: what is known and what was told. Slots come from a slab whose
 * ceiling is the daemon's own limit per engine; request ids are found through chains of a
 * fixed table. So accepting, updating and reading a transfer allocates nothing once the
 * slab has grown to the load. Caller's thread.
 */
#include <string.h>

#include "client/engine_private.h"

struct kvf_list *kvf_record_bucket(const struct kvf_engine *engine, uint64_t request_id)
{
    /* Ids are often consecutive or carry a counter in the high half: mix both halves
     * (Fibonacci hashing) and take the upper bits. */
    uint64_t mixed = request_id * 0x9e3779b97f4a7c15ull;
    return &engine->buckets[(mixed >> 32) & (engine->n_buckets - 1)];
}

struct kvf_record *kvf_record_create(struct kvf_engine *engine, uint64_t request_id)
{
    uint64_t handle;
    struct kvf_record *record = kvf_slab_acquire(engine->records, &handle);
    if (record == NULL) {
        return NULL;
    }
    record->event.size = sizeof(record->event);
    record->event.type = KVF_EVENT_TRANSFER;
    record->event.status = KVF_IN_PROGRESS;
    record->event.handle = handle;
    record->event.request_id = request_id;
    kvf_list_add_tail(&engine->live, &record->live_node);
    kvf_list_add_tail(kvf_record_bucket(engine, request_id), &record->bucket_node);
    return record;
}

void kvf_record_destroy(struct kvf_engine *engine, struct kvf_record *record)
{
    for (size_t i = 0; i < record->n_pools; i++) {
        record->pools[i]->n_transfers--;
    }
    if (kvf_node_is_linked(&record->news_node)) {
        kvf_list_remove(&engine->news, &record->news_node);
    }
    kvf_list_remove(&engine->live, &record->live_node);
    kvf_list_remove(kvf_record_bucket(engine, record->event.request_id),
                    &record->bucket_node);
    kvf_slab_release(engine->records, record->event.handle);
}

struct kvf_record *kvf_record_find(const struct kvf_engine *engine, uint64_t handle)
{
    return kvf_slab_find(engine->records, handle);
}

static void count_outcome(struct kvf_statistics *statistics,
                          const struct kvf_record *record)
{
    bool is_receive = record->is_receive;
    switch (record->event.status) {
    case KVF_OK:
        *(is_receive ? &statistics->receives_ok : &statistics->sends_ok) += 1;
        break;
    case KVF_CANCELLED:
        *(is_receive ? &statistics->receives_cancelled : &statistics->sends_cancelled) +=
            1;
        break;
    default:
        *(is_receive ? &statistics->receives_failed : &statistics->sends_failed) += 1;
        break;
    }
}

static void count_bytes(struct kvf_statistics *statistics, struct kvf_record *record,
                        uint64_t bytes)
{
    if (bytes <= record->event.bytes) {
        return;
    }
    *(record->is_receive ? &statistics->bytes_received : &statistics->bytes_sent) +=
        bytes - record->event.bytes;
    record->event.bytes = bytes;
}

void kvf_record_update(struct kvf_engine *engine, struct kvf_record *record,
                       const struct kvf_transfer_event *what)
{
    struct kvf_event *event = &record->event;
    uint32_t bits = what->bits & KVF_ALL_BITS;
    if ((bits & (KVF_EVENT_QUIESCED | KVF_EVENT_REUSABLE)) != 0) {
        bits |= KVF_EVENT_DONE;
    }
    if ((bits & KVF_EVENT_REUSABLE) != 0) {
        bits |= KVF_EVENT_QUIESCED; /* the order of rule 4, whoever speaks */
    }
    count_bytes(&engine->statistics, record, what->bytes);
    if ((bits & ~event->bits) == 0) {
        return;
    }
    if ((event->bits & KVF_EVENT_DONE) == 0) {
        /* An outcome that is none would be a success that nobody vouches for. */
        event->status = what->status != KVF_IN_PROGRESS ? what->status : KVF_INTERNAL;
        event->duration_ns = what->duration_ns;
        kvf_text_copy(event->peer, sizeof(event->peer), what->peer);
        kvf_text_copy(event->path, sizeof(event->path), what->path);
        if (event->status != KVF_OK) {
            kvf_text_copy(event->detail, sizeof(event->detail), what->detail);
        }
        count_outcome(&engine->statistics, record);
    }
    event->bits |= bits;
    if (!kvf_node_is_linked(&record->news_node)) {
        kvf_list_add_tail(&engine->news, &record->news_node);
    }
}

void kvf_record_read(struct kvf_engine *engine, struct kvf_record *record,
                     struct kvf_event *out_event)
{
    *out_event = record->event;
    out_event->new_bits = record->event.bits & ~record->told_bits;
    record->told_bits = record->event.bits;
    if (kvf_node_is_linked(&record->news_node)) {
        kvf_list_remove(&engine->news, &record->news_node);
    }
    if ((record->event.bits & KVF_EVENT_REUSABLE) != 0) {
        kvf_record_destroy(engine, record);
    }
}
