/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request in the example engine: queued until its blocks are free, begun, ended by the
 * event that says REUSABLE. The sender fills the blocks before it offers them; the
 * receiver checks them when they have come, keeps whole chunks for later prompts if asked
 * to, and poisons what it frees, so that a late write is found by the audit.
 */
#include "examples/engine.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "examples/pattern.h"

#define PARAMS_BYTES KVF_PARAMS_MAX
#define DEADLINE_MS  120000u

static uint64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail on Linux */
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void request_free(struct request *request)
{
    free(request->keys);
    free(request->params);
    free(request->blocks);
    free(request);
}

static void unlink_request(struct engine *engine, const struct request *request)
{
    struct request **at = &engine->requests;
    while (*at != request) {
        at = &(*at)->next;
    }
    *at = request->next;
}

void engine_requests_drop(struct engine *engine)
{
    while (engine->requests != NULL) {
        struct request *request = engine->requests;
        engine->requests = request->next;
        request_free(request);
    }
}

/* ---- commands */

static bool parse_keys(struct request *request, char *text)
{
    if (text == NULL || strcmp(text, "-") == 0) {
        return text != NULL;
    }
    uint32_t n = 1;
    for (const char *c = text; *c != '\0'; c++) {
        n += *c == ',' ? 1 : 0;
    }
    request->keys = calloc(n, sizeof(*request->keys));
    if (request->keys == NULL) {
        return false;
    }
    while (request->n_keys < n) {
        char *end = text;
        request->keys[request->n_keys++] = strtoull(text, &end, 10);
        if (end == text || (*end != ',' && *end != '\0')) {
            return false;
        }
        text = end + 1;
    }
    /* One key for every part of the prompt, also for the last, shorter one. */
    return n == (request->n_tokens + CHUNK_TOKENS - 1) / CHUNK_TOKENS;
}

static bool parse_params(struct request *request, const char *hex)
{
    size_t n = hex != NULL ? strlen(hex) / 2 : 0;
    request->params = malloc(n + 1);
    if (n == 0 || request->params == NULL) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        char pair[] = {hex[2 * i], hex[2 * i + 1], '\0'};
        char *end = NULL;
        request->params[i] = (uint8_t)strtoul(pair, &end, 16);
        if (*end != '\0') {
            return false;
        }
    }
    request->n_params = n;
    return true;
}

static bool parse_request(struct engine *engine, struct request *request, char *words)
{
    uint64_t lane, n_tokens;
    if (!channel_number(&words, &request->id) || !channel_number(&words, &lane) ||
        !channel_number(&words, &n_tokens) || lane >= engine->n_lanes || n_tokens == 0 ||
        n_tokens > INT32_MAX) {
        return false;
    }
    request->lane = &engine->lanes[lane];
    request->n_tokens = (uint32_t)n_tokens;
    request->n_blocks = shape_blocks_for(&request->lane->shape, request->n_tokens);
    request->blocks = calloc(request->n_blocks, sizeof(*request->blocks));
    return request->blocks != NULL &&
           request->n_blocks <= request->lane->shape.n_blocks &&
           parse_keys(request, channel_word(&words)) &&
           (engine->is_sender || parse_params(request, channel_word(&words)));
}

bool engine_request_add(struct engine *engine, char *words)
{
    struct request *request = calloc(1, sizeof(*request));
    if (request == NULL) {
        return false;
    }
    if (!parse_request(engine, request, words)) {
        request_free(request);
        return false;
    }
    struct request **at = &engine->requests;
    while (*at != NULL) {
        at = &(*at)->next;
    }
    *at = request;
    return true;
}

/* ---- blocks */

static uint8_t *address_of(const struct lane *lane, int32_t block)
{
    return lane->base + (uint64_t)block * shape_block_bytes(&lane->shape);
}

static uint32_t blocks_per_chunk(const struct lane *lane)
{
    return CHUNK_TOKENS / lane->shape.tokens_per_block;
}

static struct pattern_block block_pattern(const struct engine *engine,
                                          const struct request *request, uint32_t index)
{
    const struct shape *shape = &request->lane->shape;
    uint32_t first = index * shape->tokens_per_block;
    uint32_t n_left = request->n_tokens - first;
    bool has_key = request->n_keys > 0;
    return (struct pattern_block){
        .shape = shape,
        .key = pattern_key(has_key ? request->keys[first / CHUNK_TOKENS] : request->id,
                           has_key ? 1 : 0),
        .first_token = first,
        .n_tokens = n_left < shape->tokens_per_block ? n_left : shape->tokens_per_block,
        .poison = engine->poison,
    };
}

static void free_blocks(struct engine *engine, struct lane *lane, const int32_t *ids,
                        uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        pattern_poison(address_of(lane, ids[i]), shape_block_bytes(&lane->shape),
                       engine->poison);
    }
    blocks_give(&lane->blocks, ids, n);
}

/* The last token is always moved: a receive of nothing would prove nothing. */
static uint32_t reusable_chunks(const struct engine *engine,
                                const struct request *request)
{
    return engine->has_reuse && request->n_keys > 0
               ? (request->n_tokens - 1) / CHUNK_TOKENS
               : 0;
}

static bool take_blocks(struct engine *engine, struct request *request)
{
    struct lane *lane = request->lane;
    int32_t evicted[CHUNK_TOKENS];
    uint32_t n_held = prefix_cache_acquire(
        &lane->cache, request->keys, reusable_chunks(engine, request), request->blocks);
    uint32_t n_held_blocks = n_held * blocks_per_chunk(lane);
    uint32_t n_wanted = request->n_blocks - n_held_blocks;
    while (lane->blocks.n_free < n_wanted && prefix_cache_evict(&lane->cache, evicted)) {
        free_blocks(engine, lane, evicted, blocks_per_chunk(lane));
    }
    if (!blocks_take(&lane->blocks, n_wanted, request->blocks + n_held_blocks)) {
        prefix_cache_release(&lane->cache, request->keys, n_held);
        return false;
    }
    request->n_held_chunks = n_held;
    return true;
}

/* Whole chunks of a checked prompt stay; everything else is free again. */
static void give_blocks(struct engine *engine, struct request *request, bool is_good)
{
    struct lane *lane = request->lane;
    uint32_t per_chunk = blocks_per_chunk(lane);
    uint32_t n_keep = is_good ? reusable_chunks(engine, request) : 0;
    prefix_cache_release(&lane->cache, request->keys, request->n_held_chunks);
    uint32_t at = request->n_held_chunks * per_chunk;
    for (uint32_t chunk = request->n_held_chunks; chunk < n_keep; chunk++) {
        if (!prefix_cache_insert(&lane->cache, request->keys[chunk], chunk,
                                 request->blocks + at)) {
            free_blocks(engine, lane, request->blocks + at, per_chunk);
        }
        at += per_chunk;
    }
    free_blocks(engine, lane, request->blocks + at, request->n_blocks - at);
}

/* ---- begin */

static enum kvf_status offer(struct engine *engine, struct request *request,
                             const struct kvf_block_table *table)
{
    static uint8_t params[PARAMS_BYTES];
    size_t n_params = sizeof(params);
    struct kvf_send_args args = {.size = sizeof(args),
                                 .request_id = request->id,
                                 .n_tokens = request->n_tokens,
                                 .n_tables = 1,
                                 .tables = table,
                                 .deadline_ms = DEADLINE_MS};
    enum kvf_status status =
        kvf_send_async(request->lane->engine, &args, params, &n_params, &request->handle);
    if (status != KVF_OK) {
        return status;
    }
    char *hex = malloc(2 * n_params + 1);
    if (hex == NULL) {
        return KVF_NO_MEMORY;
    }
    for (size_t i = 0; i < n_params; i++) {
        (void)snprintf(hex + 2 * i, 3, "%02x", params[i]);
    }
    (void)channel_send(&engine->channel, "offer %" PRIu64 " %s\n", request->id, hex);
    free(hex);
    return KVF_OK;
}

static enum kvf_status ask(struct engine *engine, struct request *request,
                           const struct kvf_block_table *table)
{
    struct kvf_receive_args args = {.size = sizeof(args),
                                    .n_prefix_tokens =
                                        request->n_held_chunks * CHUNK_TOKENS,
                                    .params = request->params,
                                    .params_len = request->n_params,
                                    .n_tables = 1,
                                    .tables = table,
                                    .deadline_ms = DEADLINE_MS};
    enum kvf_status status =
        kvf_receive_async(request->lane->engine, &args, &request->handle);
    if (status == KVF_OK) {
        (void)channel_send(&engine->channel, "begun %" PRIu64 "\n", request->id);
    }
    return status;
}

static void report_end(struct engine *engine, const struct request *request,
                       const struct kvf_event *event, uint64_t n_checked,
                       uint64_t n_wrong)
{
    (void)channel_send(&engine->channel,
                       "end %" PRIu64 " %s %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu32
                       " %" PRIu64 " %" PRIu64 " %s\n",
                       request->id, kvf_status_name(event->status), event->bytes,
                       request->start_ns, event->duration_ns,
                       request->n_held_chunks * CHUNK_TOKENS, n_checked, n_wrong,
                       event->path[0] != '\0' ? event->path : "-");
}

/* False: the library is busy, try again after polling. */
static bool begin(struct engine *engine, struct request *request)
{
    const struct lane *lane = request->lane;
    for (uint32_t i = 0; engine->is_sender && i < request->n_blocks; i++) {
        struct pattern_block pattern = block_pattern(engine, request, i);
        pattern_fill(&pattern, address_of(lane, request->blocks[i]));
    }
    struct kvf_block_table table = {.n_blocks = request->n_blocks,
                                    .blocks = request->blocks};
    request->start_ns = now_ns();
    enum kvf_status status =
        engine->is_sender ? offer(engine, request, &table) : ask(engine, request, &table);
    if (status == KVF_OK) {
        request->has_begun = true;
        return true;
    }
    if (status != KVF_BUSY) {
        (void)fprintf(stderr, "engine: request %" PRIu64 ": %s\n", request->id,
                      kvf_engine_detail(lane->engine));
        struct kvf_event event = {.status = status};
        report_end(engine, request, &event, 0, 0);
        unlink_request(engine, request);
    }
    give_blocks(engine, request, false);
    if (status != KVF_BUSY) {
        request_free(request);
    }
    return status != KVF_BUSY;
}

void engine_requests_begin(struct engine *engine)
{
    struct request *next = NULL;
    for (struct request *request = engine->requests; request != NULL; request = next) {
        next = request->next;
        if (!request->has_begun &&
            (!take_blocks(engine, request) || !begin(engine, request))) {
            return;
        }
    }
}

/* ---- end */

static uint64_t check_blocks(const struct engine *engine, const struct request *request,
                             bool is_complete)
{
    uint64_t n_wrong = 0;
    for (uint32_t i = 0; i < request->n_blocks; i++) {
        struct pattern_block pattern = block_pattern(engine, request, i);
        const uint8_t *at = address_of(request->lane, request->blocks[i]);
        n_wrong += is_complete ? pattern_mismatches(&pattern, at)
                               : pattern_foreign_bytes(&pattern, at);
    }
    return n_wrong;
}

static void end_request(struct engine *engine, struct request *request,
                        const struct kvf_event *event)
{
    bool is_ok = event->status == KVF_OK;
    uint64_t n_checked = 0, n_wrong = 0;
    if (event->detail[0] != '\0' && event->status != KVF_CANCELLED) {
        (void)fprintf(stderr, "engine: request %" PRIu64 ": %s\n", request->id,
                      event->detail);
    }
    /* A sender's blocks are its own work; what an aborted transfer left is looked at on
     * both sides. */
    if (!engine->is_sender || !is_ok) {
        uint32_t n_moved = request->n_tokens - request->n_held_chunks * CHUNK_TOKENS;
        n_checked = is_ok ? n_moved * shape_token_bytes(&request->lane->shape) : 0;
        n_wrong = check_blocks(engine, request, is_ok || engine->is_sender);
    }
    report_end(engine, request, event, n_checked, n_wrong);
    give_blocks(engine, request, is_ok && n_wrong == 0);
    unlink_request(engine, request);
    request_free(request);
}

void engine_request_event(struct engine *engine, struct lane *lane,
                          const struct kvf_event *event)
{
    if (event->type != KVF_EVENT_TRANSFER || !(event->new_bits & KVF_EVENT_REUSABLE)) {
        return;
    }
    struct request *request = engine->requests;
    while (request != NULL && (request->lane != lane || !request->has_begun ||
                               request->handle != event->handle)) {
        request = request->next;
    }
    if (request != NULL) {
        end_request(engine, request, event);
    }
}

/* ---- audit */

static uint64_t audit_cached(const struct engine *engine, const struct lane *lane,
                             uint32_t entry)
{
    const struct prefix_cache *cache = &lane->cache;
    uint64_t n_wrong = 0;
    for (uint32_t i = 0; i < cache->blocks_per_chunk; i++) {
        uint32_t first = cache->entries[entry].chunk * CHUNK_TOKENS;
        struct pattern_block pattern = {
            .shape = &lane->shape,
            .key = pattern_key(cache->keys[entry], 1),
            .first_token = first + i * lane->shape.tokens_per_block,
            .n_tokens = lane->shape.tokens_per_block,
            .poison = engine->poison,
        };
        int32_t block = cache->blocks[(size_t)entry * cache->blocks_per_chunk + i];
        n_wrong += pattern_mismatches(&pattern, address_of(lane, block));
    }
    return n_wrong;
}

void engine_audit(struct engine *engine)
{
    uint64_t n_checked = 0, n_wrong = 0;
    for (size_t i = 0; i < engine->n_lanes; i++) {
        const struct lane *lane = &engine->lanes[i];
        uint64_t block_bytes = shape_block_bytes(&lane->shape);
        for (uint32_t block = 0; block < lane->shape.n_blocks; block++) {
            if (lane->blocks.is_free[block]) {
                n_wrong += pattern_poison_mismatches(address_of(lane, (int32_t)block),
                                                     block_bytes, engine->poison);
                n_checked += block_bytes;
            }
        }
        for (uint32_t entry = 0; entry < lane->cache.n; entry++) {
            n_wrong += audit_cached(engine, lane, entry);
            n_checked += block_bytes * lane->cache.blocks_per_chunk;
        }
    }
    (void)channel_send(&engine->channel, "audited %" PRIu64 " %" PRIu64 "\n", n_checked,
                       n_wrong);
}
