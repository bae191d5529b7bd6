/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text to a field and back, as a key of the schema says. Pure but for the memory of
 * lists that are allocated. Start-up and loop thread.
 */
#ifndef KVF_CONFIG_VALUE_H
#define KVF_CONFIG_VALUE_H

#include <stddef.h>

#include <kvferry/status.h>

#include "base/alloc.h"
#include "config/problem.h"
#include "config/schema.h"

/* Any single value as text, with the final NUL. */
#define KVF_VALUE_TEXT_BYTES 320

/* Makes a list empty and a nullable text none; an allocated list gets room for n values.
 * NO_MEMORY. */
enum kvf_status KVF_MUST_CHECK kvf_value_clear(const struct kvf_key *key, void *object,
                                               size_t n, struct kvf_arena *arena);
/* Sets a single value, or adds one to a list that was cleared. CONFIG with the reason;
 * then the field is as before. */
enum kvf_status KVF_MUST_CHECK kvf_value_add(const struct kvf_key *key, void *object,
                                             const char *text,
                                             struct kvf_value_refusal *out_refusal);
/* Values of a list; 1 for a single value, 0 where it is none. */
size_t kvf_value_count(const struct kvf_key *key, const void *object);
/* The i-th of them as kvf_value_add() takes it. */
void kvf_value_format(const struct kvf_key *key, const void *object, size_t i,
                      char out[KVF_VALUE_TEXT_BYTES]);
/* A number in the unit of the key, as people write it. */
void kvf_value_format_number(const struct kvf_key *key, uint64_t value,
                             char out[KVF_VALUE_TEXT_BYTES]);
/* "a size", "a list of names", ... */
const char *kvf_value_kind_name(const struct kvf_key *key);

#endif
