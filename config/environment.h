/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The environment in configuration: ${NAME} inside values and KVFERRY_SECTION__KEY
 * variables that override keys. Substitution happens in single values after parsing,
 * never in raw text, so that a variable cannot add YAML. Reads the process environment;
 * start-up and loop thread, nobody changes it meanwhile.
 */
#ifndef KVF_CONFIG_ENVIRONMENT_H
#define KVF_CONFIG_ENVIRONMENT_H

#include <kvferry/status.h>

#include "base/alloc.h"
#include "config/problem.h"

/* ${NAME}, ${NAME:-default}, ${NAME:?message}, $$. Unset is an error without a default;
 * set but empty counts as unset for :- and :?, as in a shell. *out lives in the arena or
 * is `text` itself. CONFIG with the reason, NO_MEMORY. */
enum kvf_status KVF_MUST_CHECK
kvf_environment_expand(const char *text, struct kvf_arena *arena, const char **out,
                       struct kvf_value_refusal *out_refusal);

#define KVF_ENVIRONMENT_NAME_BYTES 96
/* KVFERRY_DATA__CHUNK for "data.chunk". */
void kvf_environment_name(const char *path, char out[KVF_ENVIRONMENT_NAME_BYTES]);

/* A variable KVFERRY_A__B as "a.b". */
struct kvf_environment_override {
    const char *variable, *path, *value; /* in the arena */
};
/* All of them, in the order of the environment; NO_MEMORY. */
enum kvf_status KVF_MUST_CHECK kvf_environment_overrides(
    struct kvf_arena *arena, struct kvf_environment_override **out, size_t *out_n);

#endif
