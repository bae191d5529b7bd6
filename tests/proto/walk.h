/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every schema that some message uses, each once, for tests that hold for all of them.
 */
#ifndef KVF_TESTS_PROTO_WALK_H
#define KVF_TESTS_PROTO_WALK_H

#include "proto/schema.h"

#define N_SCHEMAS_MAX 64u

/* Fills schemas, outer before inner; returns how many. */
size_t all_schemas(const struct kvf_schema *schemas[N_SCHEMAS_MAX]);
/* Type numbers above all known ones. */
#define TYPE_END 64u

#endif
