/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random messages within all limits, from a seeded sequence and the schemas.
 */
#ifndef KVF_TESTS_PROTO_RANDOM_MESSAGE_H
#define KVF_TESTS_PROTO_RANDOM_MESSAGE_H

#include "base/alloc.h"
#include "base/rng.h"
#include "proto/message.h"

/* Arrays and texts lie in the arena. */
struct kvf_message random_message(struct kvf_rng *rng, enum kvf_message_type type,
                                  struct kvf_arena *arena);

#endif
