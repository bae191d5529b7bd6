/* SPDX-License-Identifier: Apache-2.0 */
/* See walk.h. */
#include "walk.h"

#include <assert.h>

static size_t add(const struct kvf_schema *schemas[N_SCHEMAS_MAX], size_t n,
                  const struct kvf_schema *schema)
{
    for (size_t i = 0; i < n; i++) {
        if (schemas[i] == schema) {
            return n;
        }
    }
    assert(n < N_SCHEMAS_MAX);
    schemas[n] = schema;
    return n + 1;
}

size_t all_schemas(const struct kvf_schema *schemas[N_SCHEMAS_MAX])
{
    size_t n = 0;
    for (uint32_t type = 0; type < TYPE_END; type++) {
        if (kvf_message_schema(type) != NULL) {
            n = add(schemas, n, kvf_message_schema(type));
        }
    }
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < schemas[i]->n_fields; j++) {
            const struct kvf_schema *nested = schemas[i]->fields[j].nested;
            n = nested != NULL ? add(schemas, n, nested) : n;
        }
    }
    return n;
}
