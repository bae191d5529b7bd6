/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A byte queue in one block. Unread bytes are moved to the front only when at least as
 * many have been consumed since the last move, so each byte is moved once on average;
 * otherwise the block doubles. That rule also bounds the block: at twice the ceiling of
 * unread bytes there is always more consumed than unread. Loop thread.
 */
#include "base/buf.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"

#define CAPACITY_MIN_BYTES 256u

void kvf_buf_init(struct kvf_buf *buf, size_t max_bytes)
{
    assert(max_bytes <= SIZE_MAX / 4); /* twice the ceiling must be a size */
    *buf = (struct kvf_buf){.max_bytes = max_bytes};
}

void kvf_buf_fini(struct kvf_buf *buf)
{
    kvf_free(buf->bytes);
    *buf = (struct kvf_buf){0};
}

static bool has_room(const struct kvf_buf *buf, size_t n)
{
    return buf->bytes != NULL && buf->capacity - buf->end >= n;
}

static void move_to_front(struct kvf_buf *buf)
{
    size_t length = kvf_buf_length(buf);
    memmove(buf->bytes, buf->bytes + buf->first, length);
    buf->first = 0;
    buf->end = length;
}

/* A new block with room for the unread bytes and n more. */
static enum kvf_status grow(struct kvf_buf *buf, size_t n)
{
    size_t length = kvf_buf_length(buf);
    size_t capacity = buf->capacity * 2;
    if (capacity > buf->max_bytes * 2) {
        capacity = buf->max_bytes * 2;
    }
    if (capacity < CAPACITY_MIN_BYTES) {
        capacity = CAPACITY_MIN_BYTES;
    }
    if (capacity < length + n) {
        capacity = length + n;
    }
    uint8_t *bytes = kvf_alloc(capacity);
    if (bytes == NULL) {
        return KVF_NO_MEMORY;
    }
    if (length > 0) {
        memcpy(bytes, kvf_buf_head(buf), length);
    }
    kvf_free(buf->bytes);
    buf->bytes = bytes;
    buf->first = 0;
    buf->end = length;
    buf->capacity = capacity;
    return KVF_OK;
}

static enum kvf_status make_room(struct kvf_buf *buf, size_t n)
{
    size_t length = kvf_buf_length(buf);
    if (n > buf->max_bytes - length) {
        return KVF_BUSY;
    }
    if (has_room(buf, n)) {
        return KVF_OK;
    }
    if (buf->first >= length && buf->capacity - length >= n && buf->bytes != NULL) {
        move_to_front(buf);
        return KVF_OK;
    }
    return grow(buf, n);
}

uint8_t *kvf_buf_reserve(struct kvf_buf *buf, size_t n)
{
    return make_room(buf, n) == KVF_OK ? buf->bytes + buf->end : NULL;
}

void kvf_buf_commit(struct kvf_buf *buf, size_t n)
{
    assert(n <= buf->capacity - buf->end);
    buf->end += n;
}

enum kvf_status kvf_buf_append(struct kvf_buf *buf, const void *bytes, size_t n)
{
    enum kvf_status status = make_room(buf, n);
    if (status != KVF_OK) {
        return status;
    }
    if (n > 0) {
        memcpy(buf->bytes + buf->end, bytes, n);
        buf->end += n;
    }
    return KVF_OK;
}

void kvf_buf_consume(struct kvf_buf *buf, size_t n)
{
    assert(n <= kvf_buf_length(buf));
    buf->first += n;
    if (buf->first == buf->end) {
        kvf_buf_clear(buf);
    }
}

void kvf_buf_clear(struct kvf_buf *buf)
{
    buf->first = 0;
    buf->end = 0;
}
