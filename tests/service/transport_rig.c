/* SPDX-License-Identifier: Apache-2.0 */
/* See transport_rig.h. */
#include "transport_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "base/alloc.h"

#define RUN_LIMIT_NS (5 * KVF_NS_PER_S)

static const struct kvf_transport_ops *selected_ops;
static bool is_shm;

void rig_choose(const char *argument)
{
    is_shm = strcmp(argument, "ucx-shm") == 0;
    selected_ops = strcmp(argument, "tcp") == 0 ? &kvf_transport_tcp : &kvf_transport_ucx;
    (void)setenv("UCX_TLS", is_shm ? "posix,sysv,self" : "tcp,self", 1);
}

bool rig_select(const char *argument)
{
    rig_choose(argument);
    struct rig *rig = rig_create();
    const struct kvf_transport_config config = {
        .loop = rig->loop, .config = &rig->config, .max_kept = 1};
    struct kvf_transport *probe;
    bool is_usable = selected_ops->open(&config, &probe) == KVF_OK;
    if (is_usable) {
        selected_ops->close(probe);
    }
    void *state = rig;
    (void)rig_teardown(&state);
    return is_usable;
}

bool rig_is_shm(void)
{
    return is_shm;
}

/* ---- events */

static void arrived(void *owner, struct kvf_transport *transport,
                    struct kvf_arrival *arrival, const struct kvf_chunk_header *header)
{
    struct rig_side *side = owner;
    size_t i = 0;
    side->n_arrived++;
    assert_ptr_equal(transport, side->transport);
    assert_memory_equal(header->token, side->token, KVF_DATA_TOKEN_BYTES);
    if (side->policy == RIG_DROP) {
        side->transport->ops->drop(arrival);
        return;
    }
    while (side->held[i].arrival != NULL) {
        i++;
        assert_true(i < RIG_KEPT_MAX);
    }
    side->held[i].arrival = arrival;
    side->held[i].header = *header;
    side->n_held++;
    if (side->policy == RIG_LAND) {
        assert_int_equal(rig_land(side, i), KVF_OK);
    }
}

static void arrival_lost(void *owner, struct kvf_arrival *arrival)
{
    struct rig_side *side = owner;
    for (size_t i = 0; i < RIG_KEPT_MAX; i++) {
        if (side->held[i].arrival == arrival) {
            side->held[i].arrival = NULL;
            side->n_held--;
            side->n_arrivals_lost++;
            return;
        }
    }
    fail_msg("an arrival was lost that was not held");
}

static void endpoint_lost(void *owner, void *endpoint_owner, enum kvf_status status)
{
    struct rig_side *side = owner;
    assert_ptr_equal(endpoint_owner, side);
    side->n_endpoints_lost++;
    side->lost_status = status;
}

static const struct kvf_transport_events events = {
    .arrived = arrived,
    .arrival_lost = arrival_lost,
    .endpoint_lost = endpoint_lost,
};

static void on_done(void *owner, enum kvf_status status)
{
    struct rig_chunk *chunk = owner;
    chunk->is_under_way = false;
    chunk->n_done++;
    chunk->status = status;
}

/* ---- life */

struct rig *rig_create(void)
{
    struct rig *rig = kvf_alloc(sizeof(*rig));
    assert_non_null(rig);
    const struct kvf_loop_config loop_config = {.clock = &kvf_clock_system};
    assert_int_equal(kvf_loop_create(&loop_config, &rig->loop), KVF_OK);
    kvf_rng_init_seeded(&rig->rng, 7);
    strcpy(rig->config.data.listen.host, "127.0.0.1");
    strcpy(rig->config.data.devices, "auto");
    rig->config.control.connect_timeout_ms = 2000;
    rig->config.control.hello_timeout_ms = 2000;
    rig->ops = selected_ops;
    rig->a.rig = rig->b.rig = rig;
    return rig;
}

void rig_open_side(struct rig *rig, struct rig_side *side)
{
    const struct kvf_transport_config config = {
        .loop = rig->loop,
        .config = &rig->config,
        .events = &events,
        .owner = side,
        .max_kept = RIG_KEPT_MAX,
    };
    side->policy = RIG_LAND;
    assert_int_equal(rig->ops->open(&config, &side->transport), KVF_OK);
    side->bytes = mmap(NULL, RIG_MEMORY_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(side->bytes, MAP_FAILED);
    assert_int_equal(side->transport->ops->memory_add(side->transport, side->bytes,
                                                      RIG_MEMORY_BYTES, &side->memory),
                     KVF_OK);
    kvf_rng_fill(&rig->rng, side->token, sizeof(side->token));
    assert_int_equal(side->transport->ops->token_add(side->transport, side->token),
                     KVF_OK);
}

void rig_connect(struct rig_side *from, struct rig_side *to)
{
    uint8_t blob[KVF_DATA_BLOB_MAX];
    size_t n = sizeof(blob);
    assert_int_equal(to->transport->ops->blob(to->transport, blob, &n), KVF_OK);
    assert_in_range(n, 1, sizeof(blob));
    assert_int_equal(from->transport->ops->connect(from->transport, blob, n, "127.0.0.1",
                                                   to->token, from, &from->endpoint),
                     KVF_OK);
}

void rig_open(struct rig *rig)
{
    rig_open_side(rig, &rig->a);
    rig_open_side(rig, &rig->b);
    rig_connect(&rig->a, &rig->b);
    rig_connect(&rig->b, &rig->a);
}

void rig_close_side(struct rig_side *side)
{
    if (side->transport == NULL) {
        return;
    }
    if (side->endpoint != NULL) {
        side->transport->ops->disconnect(side->endpoint);
        side->endpoint = NULL;
    }
    /* Before memory_remove: nothing may be under way in it. */
    (void)rig_run_until(side->rig, rig_is_idle);
    side->transport->ops->memory_remove(side->transport, side->memory);
    side->transport->ops->close(side->transport);
    side->transport = NULL;
    kvf_loop_turn(side->rig->loop, 0);
    assert_int_equal(munmap(side->bytes, RIG_MEMORY_BYTES), 0);
}

int rig_setup(void **state)
{
    struct rig *rig = rig_create();
    rig_open(rig);
    *state = rig;
    return 0;
}

int rig_teardown(void **state)
{
    struct rig *rig = *state;
    rig_close_side(&rig->a);
    rig_close_side(&rig->b);
    kvf_loop_destroy(rig->loop);
    kvf_free(rig);
    return 0;
}

/* ---- chunks */

static uint8_t *place_of(const struct rig_side *side, uint32_t place)
{
    return side->bytes + (size_t)place * RIG_CHUNK_BYTES;
}

static uint8_t byte_of(uint64_t seed, uint32_t i)
{
    uint64_t x = (seed + 1) * 0x9e3779b97f4a7c15ull + i / 8;
    x ^= x >> 29;
    x *= 0xbf58476d1ce4e5b9ull;
    return (uint8_t)(x >> (8 * (i % 8)));
}

/* Cuts the place in n spans and swaps them: the payload's order is not the memory's. The
 * same seed cuts the same way. */
static void cut(struct rig_side *side, struct kvf_chunk_op *op, uint32_t place,
                uint32_t length, uint32_t n_spans, uint64_t seed)
{
    struct kvf_rng rng;
    uint32_t at = 0;
    kvf_rng_init_seeded(&rng, seed);
    n_spans = n_spans < length ? n_spans : length;
    for (uint32_t i = 0; i < n_spans; i++) {
        uint32_t left = length - at - (n_spans - i - 1);
        uint32_t n = i + 1 == n_spans ? left : 1 + (uint32_t)kvf_rng_below(&rng, left);
        op->spans[i] =
            (struct iovec){.iov_base = place_of(side, place) + at, .iov_len = n};
        at += n;
    }
    for (uint32_t i = n_spans; i > 1; i--) {
        uint32_t j = (uint32_t)kvf_rng_below(&rng, i);
        struct iovec other = op->spans[i - 1];
        op->spans[i - 1] = op->spans[j];
        op->spans[j] = other;
    }
    op->n_spans = n_spans;
    op->memory = side->memory;
}

enum kvf_status rig_post(struct rig_side *from, struct rig_side *to, uint32_t place,
                         uint32_t length, uint32_t n_spans, uint64_t seed)
{
    struct rig_chunk *chunk = &from->sends[place];
    assert_false(chunk->is_under_way);
    assert_in_range(length, 1, RIG_CHUNK_BYTES);
    cut(from, &chunk->op, place, length, n_spans, seed);
    uint32_t at = 0;
    for (size_t i = 0; i < chunk->op.n_spans; i++) {
        uint8_t *bytes = chunk->op.spans[i].iov_base;
        for (size_t k = 0; k < chunk->op.spans[i].iov_len; k++) {
            bytes[k] = byte_of(seed, at++);
        }
    }
    struct kvf_chunk_header *header = &chunk->op.header;
    *header = (struct kvf_chunk_header){
        .receiver_session = place, .offset = seed, .length = length};
    memcpy(header->token, to->token, KVF_DATA_TOKEN_BYTES);
    chunk->op.done = on_done;
    chunk->op.owner = chunk;
    chunk->n_done = 0;
    enum kvf_status status = from->transport->ops->post(from->endpoint, &chunk->op);
    chunk->is_under_way = status == KVF_OK;
    return status;
}

enum kvf_status rig_land(struct rig_side *side, size_t held)
{
    const struct kvf_chunk_header *header = &side->held[held].header;
    uint32_t place = (uint32_t)header->receiver_session;
    struct rig_chunk *chunk = &side->receives[place];
    assert_false(chunk->is_under_way);
    cut(side, &chunk->op, place, header->length,
        side->rig->config.data.force_contiguous
            ? 1
            : 1 + (uint32_t)kvf_rng_below(&side->rig->rng, KVF_SPANS_MAX),
        header->offset + 1000);
    chunk->op.header = *header;
    chunk->op.done = on_done;
    chunk->op.owner = chunk;
    chunk->n_done = 0;
    struct kvf_arrival *arrival = side->held[held].arrival;
    side->held[held].arrival = NULL;
    side->n_held--;
    enum kvf_status status = side->transport->ops->receive(arrival, &chunk->op);
    chunk->is_under_way = status == KVF_OK;
    return status;
}

bool rig_holds(const struct rig_side *side, uint32_t place, uint32_t length,
               uint64_t seed)
{
    const struct kvf_chunk_op *op = &side->receives[place].op;
    uint32_t at = 0;
    for (size_t i = 0; i < op->n_spans; i++) {
        const uint8_t *bytes = op->spans[i].iov_base;
        for (size_t k = 0; k < op->spans[i].iov_len; k++) {
            if (bytes[k] != byte_of(seed, at++)) {
                return false;
            }
        }
    }
    return at == length;
}

void rig_poison(struct rig_side *side)
{
    memset(side->bytes, RIG_POISON, RIG_MEMORY_BYTES);
}

bool rig_is_poisoned(const struct rig_side *side)
{
    return side->bytes[0] == RIG_POISON &&
           memcmp(side->bytes, side->bytes + 1, RIG_MEMORY_BYTES - 1) == 0;
}

/* ---- running */

bool rig_run_until(struct rig *rig, bool (*condition)(struct rig *rig))
{
    uint64_t end_ns = kvf_loop_clock_ns(rig->loop) + RUN_LIMIT_NS;
    while (!condition(rig)) {
        if (kvf_loop_clock_ns(rig->loop) > end_ns) {
            return false;
        }
        kvf_loop_turn(rig->loop, KVF_NS_PER_MS);
    }
    return true;
}

void rig_run_for_ms(struct rig *rig, uint64_t ms)
{
    uint64_t end_ns = kvf_loop_clock_ns(rig->loop) + ms * KVF_NS_PER_MS;
    while (kvf_loop_clock_ns(rig->loop) < end_ns) {
        kvf_loop_turn(rig->loop, KVF_NS_PER_MS);
    }
}

size_t rig_under_way(const struct rig *rig)
{
    const struct rig_side *const sides[] = {&rig->a, &rig->b};
    size_t n = 0;
    for (size_t i = 0; i < 2; i++) {
        for (size_t k = 0; k < RIG_CHUNKS; k++) {
            n += sides[i]->sends[k].is_under_way;
            n += sides[i]->receives[k].is_under_way;
        }
    }
    return n;
}

bool rig_is_idle(struct rig *rig)
{
    return rig_under_way(rig) == 0;
}
