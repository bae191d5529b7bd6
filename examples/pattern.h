/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What stands in for a model: bytes of a KV block that both sides can compute. Every word
 * depends on (content key, layer, kv, head, token of the prompt, dim), so that bytes of a
 * wrong request, block, layer, plane, head or token are seen, as are bytes that moved
 * within a row. The content key is that of the prompt or, for prompts with shared
 * prefixes, of their part of the prompt. Memory that holds no KV holds poison. Pure
 * functions over the caller's memory; any thread.
 */
#ifndef KVF_EXAMPLES_PATTERN_H
#define KVF_EXAMPLES_PATTERN_H

#include <stdbool.h>
#include <stdint.h>

#include "examples/shape.h"

/* Different on the two sides: poison that was moved is then seen, too. */
#define PATTERN_POISON_SENDER   0x5a
#define PATTERN_POISON_RECEIVER 0xa5

/* One block of a prompt: its first n_tokens rows of every (layer, kv, head) hold KV, the
 * rows after them poison. */
struct pattern_block {
    const struct shape *shape; /* borrowed */
    uint64_t key;
    uint32_t first_token; /* of the block in the prompt */
    uint32_t n_tokens;    /* 1 .. tokens_per_block */
    uint8_t poison;
};

void pattern_fill(const struct pattern_block *block, void *memory);
/* The number of wrong bytes. */
uint64_t pattern_mismatches(const struct pattern_block *block, const void *memory);
/* As above, but every byte may hold poison instead: what a cancelled transfer leaves. */
uint64_t pattern_foreign_bytes(const struct pattern_block *block, const void *memory);

void pattern_poison(void *memory, uint64_t n_bytes, uint8_t poison);
uint64_t pattern_poison_mismatches(const void *memory, uint64_t n_bytes, uint8_t poison);

/* A well spread key from two numbers, for the callers' content keys. */
uint64_t pattern_key(uint64_t a, uint64_t b);

#endif
