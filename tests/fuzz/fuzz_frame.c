/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes that reach a control port or the engine socket before anything is known about the
 * sender, and the two blobs that travel through a router. The parser answers, never reads
 * past the end, never asks for more than the cap allows; and a sealed frame with one bit
 * flipped is never taken for a whole one.
 */
#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "proto/frame.h"
#include "proto/message.h"
#include "tests/fuzz/fuzz.h"

static bool is_whole(const uint8_t *bytes, size_t n)
{
    struct kvf_frame frame;
    const char *detail = NULL;
    enum kvf_status status =
        kvf_frame_parse(bytes, n, KVF_FRAME_MAX_UNPROVEN, &frame, &detail);
    if (status == KVF_IN_PROGRESS) {
        assert(n < KVF_FRAME_HEADER_BYTES + KVF_FRAME_MAX_UNPROVEN);
    } else if (status == KVF_OK) {
        assert(frame.length <= n - KVF_FRAME_HEADER_BYTES);
        assert(frame.payload == bytes + KVF_FRAME_HEADER_BYTES);
    } else {
        assert(detail != NULL);
    }
    return status == KVF_OK;
}

/* The input's last two bytes pick the bit. */
static void check_sealed(const uint8_t *bytes, size_t n)
{
    size_t n_payload = n > KVF_FRAME_MAX_UNPROVEN ? KVF_FRAME_MAX_UNPROVEN : n;
    size_t n_frame = KVF_FRAME_HEADER_BYTES + n_payload;
    uint8_t *frame = malloc(n_frame);
    if (frame == NULL) {
        return;
    }
    memcpy(frame + KVF_FRAME_HEADER_BYTES, bytes, n_payload);
    kvf_frame_seal(frame, bytes[0], (uint32_t)n_payload, n, bytes[n - 1]);
    assert(is_whole(frame, n_frame));
    assert(!is_whole(frame, n_frame - 1));
    size_t bit = (size_t)(bytes[n - 2] << 8 | bytes[n - 1]) % (n_frame * 8);
    frame[bit / 8] ^= (uint8_t)(1u << bit % 8);
    assert(!is_whole(frame, n_frame));
    free(frame);
}

static void parse_blobs(const uint8_t *bytes, size_t n)
{
    struct kvf_arena arena;
    kvf_arena_init(&arena, 1 << 20);
    struct kvf_context_params params;
    struct kvf_comm_state state;
    const char *detail = NULL;
    assert(kvf_context_params_decode(bytes, n, &arena, &params, &detail) == KVF_OK ||
           detail != NULL);
    detail = NULL;
    assert(kvf_comm_state_decode(bytes, n, &arena, &state, &detail) == KVF_OK ||
           detail != NULL);
    kvf_arena_fini(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    (void)is_whole(bytes, n); /* any answer will do */
    parse_blobs(bytes, n);
    if (n >= 2) {
        check_sealed(bytes, n);
    }
    return 0;
}
