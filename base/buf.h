/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A byte queue with a ceiling: appended at the end, consumed at the front. It grows with
 * the bytes really put in, never by an announced length. Loop thread.
 */
#ifndef KVF_BASE_BUF_H
#define KVF_BASE_BUF_H

#include <stddef.h>
#include <stdint.h>

#include <kvferry/status.h>

struct kvf_buf {
    uint8_t *bytes; /* owns */
    size_t first;   /* offset of the first unread byte */
    size_t end;     /* offset after the last valid byte */
    size_t capacity;
    size_t max_bytes; /* ceiling of unread bytes */
};

void kvf_buf_init(struct kvf_buf *buf, size_t max_bytes);
void kvf_buf_fini(struct kvf_buf *buf);

static inline size_t kvf_buf_length(const struct kvf_buf *buf)
{
    return buf->end - buf->first;
}

static inline const uint8_t *kvf_buf_head(const struct kvf_buf *buf)
{
    return buf->bytes + buf->first;
}

/* Room for n more bytes at the end, to be filled and then committed. NULL: over the
 * ceiling (BUSY) or no memory. */
uint8_t *kvf_buf_reserve(struct kvf_buf *buf, size_t n);
void kvf_buf_commit(struct kvf_buf *buf, size_t n);
enum kvf_status KVF_MUST_CHECK kvf_buf_append(struct kvf_buf *buf, const void *bytes,
                                              size_t n);
void kvf_buf_consume(struct kvf_buf *buf, size_t n);
void kvf_buf_clear(struct kvf_buf *buf); /* keeps the memory */

#endif
