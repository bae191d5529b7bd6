/* SPDX-License-Identifier: Apache-2.0 */
/* See codec.h: scratch memory, limits, text and byte fields. */
#include "proto/codec.h"

#include <string.h>

void *kvf_encoder_alloc(struct kvf_encoder *encoder, size_t n, size_t size)
{
    uint64_t n_bytes;
    if (!kvf_size_mul(n, size, &n_bytes)) {
        return NULL;
    }
    uint64_t rounded = (n_bytes + 15u) & ~(uint64_t)15u;
    if (rounded <= sizeof(encoder->bytes) - encoder->used) {
        void *block = encoder->bytes + encoder->used;
        encoder->used += rounded;
        memset(block, 0, rounded);
        return block;
    }
    return kvf_arena_alloc(&encoder->spill, n_bytes);
}

char *kvf_put_text(struct kvf_encoder *encoder, const char *text, size_t max,
                   const char *field)
{
    static char empty[1];
    if (text == NULL) {
        return empty;
    }
    kvf_put_limit(encoder, strlen(text), max, field);
    union { /* protobuf-c's structs take char *, packing only reads it */
        const char *in;
        char *out;
    } as = {.in = text};
    return as.out;
}

ProtobufCBinaryData kvf_put_bytes(const uint8_t *bytes, size_t n)
{
    union {
        const uint8_t *in;
        uint8_t *out;
    } as = {.in = bytes};
    return (ProtobufCBinaryData){.len = n, .data = as.out};
}

void kvf_put_limit(struct kvf_encoder *encoder, size_t n, size_t max, const char *field)
{
    if (n > max && encoder->bad == NULL) {
        encoder->bad = field;
    }
}

void *kvf_decoder_alloc(struct kvf_decoder *decoder, size_t n, size_t size)
{
    uint64_t n_bytes;
    void *block = NULL;
    if (kvf_size_mul(n, size, &n_bytes)) {
        block = kvf_arena_alloc(decoder->arena, n_bytes > 0 ? n_bytes : 1);
    }
    if (block == NULL) {
        decoder->is_out_of_memory = true;
    }
    return block;
}

/* Length of the UTF-8 sequence at text, 0 when it is none. RFC 3629. */
static size_t utf8_length(const unsigned char *text)
{
    static const struct {
        unsigned char first, last, low, high; /* first byte; bounds of the second */
        size_t n;
    } rows[] = {
        {0x01, 0x7f, 0, 0, 1},       {0xc2, 0xdf, 0x80, 0xbf, 2},
        {0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3},
        {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
        {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4},
        {0xf4, 0xf4, 0x80, 0x8f, 4},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (text[0] < rows[i].first || text[0] > rows[i].last) {
            continue;
        }
        if (rows[i].n > 1 && (text[1] < rows[i].low || text[1] > rows[i].high)) {
            return 0;
        }
        for (size_t j = 2; j < rows[i].n; j++) {
            if ((text[j] & 0xc0) != 0x80) {
                return 0;
            }
        }
        return rows[i].n;
    }
    return 0;
}

static bool is_utf8(const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    while (*at != '\0') {
        size_t n = utf8_length(at);
        if (n == 0) {
            return false;
        }
        at += n;
    }
    return true;
}

const char *kvf_get_text(struct kvf_decoder *decoder, const char *text, size_t max,
                         const char *field)
{
    if (text == NULL) {
        return "";
    }
    if (strnlen(text, max + 1) > max || !is_utf8(text)) {
        decoder->bad = field;
        return "";
    }
    return text;
}

void kvf_get_exact(struct kvf_decoder *decoder, const ProtobufCBinaryData *data,
                   uint8_t *out, size_t n, const char *field)
{
    if (data->len != n) {
        decoder->bad = field;
        return;
    }
    memcpy(out, data->data, n);
}

bool kvf_get_trace(struct kvf_decoder *decoder, const ProtobufCBinaryData *data,
                   uint8_t out[16])
{
    if (data->len == 0) {
        return false;
    }
    kvf_get_exact(decoder, data, out, 16, "trace_id");
    return true;
}

bool kvf_get_limit(struct kvf_decoder *decoder, size_t n, size_t max, const char *field)
{
    if (n > max) {
        decoder->bad = field;
        return false;
    }
    return true;
}

static void *allocate(void *owner, size_t n_bytes)
{
    return kvf_arena_alloc(owner, n_bytes > 0 ? n_bytes : 1);
}

static void release(void *owner, void *block)
{
    (void)owner; /* the arena is reset as a whole */
    (void)block;
}

ProtobufCAllocator kvf_arena_allocator(struct kvf_arena *arena)
{
    return (ProtobufCAllocator){
        .alloc = allocate, .free = release, .allocator_data = arena};
}
