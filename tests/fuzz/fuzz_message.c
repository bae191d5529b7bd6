/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A frame of any type with any payload, as a peer or an engine could send it. The first
 * byte picks the type, the rest is the payload. What decodes within the budget must
 * encode again, into exactly as many bytes as predicted, and the encoding must be a fixed
 * point: so nothing that was accepted is lost or read differently by the next daemon.
 */
#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "proto/frame.h"
#include "proto/message.h"
#include "tests/fuzz/fuzz.h"

/* Decodes and encodes again; returns false when the payload is refused. */
static bool recode(uint32_t type, const uint8_t *payload, size_t n, size_t budget_bytes,
                   struct kvf_buf *out)
{
    struct kvf_arena arena;
    kvf_arena_init(&arena, budget_bytes);
    struct kvf_message message;
    const char *detail = NULL;
    bool is_accepted =
        kvf_message_decode(type, payload, n, &arena, &message, &detail) == KVF_OK;
    assert(is_accepted || detail != NULL);
    if (is_accepted) {
        size_t n_predicted = kvf_message_size(&message);
        assert(kvf_message_encode(&message, 1, 2, out) == KVF_OK);
        assert(kvf_buf_length(out) == KVF_FRAME_HEADER_BYTES + n_predicted);
    }
    kvf_arena_fini(&arena);
    return is_accepted;
}

/* With the budget of the first payload: its numbers may have been written long, and then
 * the second one is shorter but costs as much. */
static void check_frame(uint32_t type, const struct kvf_buf *frame, size_t budget_bytes)
{
    struct kvf_frame parsed;
    const char *detail = NULL;
    assert(kvf_frame_parse(kvf_buf_head(frame), kvf_buf_length(frame),
                           KVF_FRAME_MAX_ENGINE, &parsed, &detail) == KVF_OK);
    assert(parsed.type == type && parsed.session_tag == 1 && parsed.sequence == 2);

    struct kvf_buf again;
    kvf_buf_init(&again, KVF_FRAME_HEADER_BYTES + KVF_FRAME_MAX_ENGINE);
    bool is_accepted = recode(type, parsed.payload, parsed.length, budget_bytes, &again);
    assert(is_accepted);
    assert(kvf_buf_length(&again) == kvf_buf_length(frame));
    assert(memcmp(kvf_buf_head(&again), kvf_buf_head(frame), kvf_buf_length(frame)) == 0);
    kvf_buf_fini(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    if (n == 0 || !kvf_message_type_is_known(bytes[0])) {
        return 0;
    }
    struct kvf_buf frame;
    size_t budget_bytes = kvf_message_budget(n - 1);
    kvf_buf_init(&frame, KVF_FRAME_HEADER_BYTES + KVF_FRAME_MAX_ENGINE);
    if (recode(bytes[0], bytes + 1, n - 1, budget_bytes, &frame)) {
        check_frame(bytes[0], &frame, budget_bytes);
    }
    kvf_buf_fini(&frame);
    return 0;
}
