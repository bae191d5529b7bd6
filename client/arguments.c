/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Judges what callers pass, before anything is taken. The daemon judges again and knows
 * more (duplicate ids, layouts, topology); what can be known here is refused here, at the
 * call that is wrong. Every refusal names the argument. Caller's thread.
 */
#include <string.h>

#include "client/engine_private.h"

#define STRUCT_MAX_BYTES 4096u /* no struct of ours will ever be longer */

enum kvf_status kvf_arguments_struct(struct kvf_engine *engine, const char *name,
                                     const void *object, size_t known)
{
    uint32_t size;
    if (object == NULL) {
        return kvf_engine_fail(engine, KVF_INVALID_ARGUMENT, "%s is NULL", name);
    }
    memcpy(&size, object, sizeof(size));
    if (size < known || size > STRUCT_MAX_BYTES) {
        return kvf_engine_fail(engine, KVF_INVALID_ARGUMENT,
                               "size of %s is %u, this library needs %zu", name, size,
                               known);
    }
    const uint8_t *bytes = object;
    for (size_t i = known; i < size; i++) {
        if (bytes[i] != 0) {
            return kvf_engine_fail(engine, KVF_UNSUPPORTED,
                                   "%s sets a field that this library does not know",
                                   name);
        }
    }
    return KVF_OK;
}

enum kvf_status kvf_arguments_text(struct kvf_engine *engine, const char *name,
                                   const char *text, size_t max_bytes)
{
    if (text != NULL && strnlen(text, max_bytes + 1) > max_bytes) {
        return kvf_engine_fail(engine, KVF_INVALID_ARGUMENT,
                               "%s is longer than %zu bytes", name, max_bytes);
    }
    return KVF_OK;
}

static enum kvf_status check_table(struct kvf_engine *engine,
                                   const struct kvf_block_table *table, uint32_t n_tokens)
{
    const struct kvf_pool *pool = kvf_engine_pool(engine, table->group);
    if (pool == NULL) {
        return kvf_engine_fail(engine, KVF_BAD_REF, "no pool of group %u is registered",
                               table->group);
    }
    if (table->blocks == NULL || table->n_blocks > KVF_BLOCKS_MAX ||
        (uint64_t)table->n_blocks * pool->tokens_per_block < n_tokens) {
        return kvf_engine_fail(engine, KVF_INVALID_ARGUMENT,
                               "group %u: %u blocks of %u tokens do not hold %u tokens",
                               table->group, table->n_blocks, pool->tokens_per_block,
                               n_tokens);
    }
    for (uint32_t i = 0; i < table->n_blocks; i++) {
        /* One comparison: a negative id is a huge unsigned one. */
        if ((uint32_t)table->blocks[i] >= pool->n_blocks) {
            return kvf_engine_fail(
                engine, KVF_BAD_REF,
                "group %u: block %d at position %u, the pool has blocks 0-%u",
                table->group, table->blocks[i], i, pool->n_blocks - 1);
        }
    }
    return KVF_OK;
}

static enum kvf_status check_distinct(struct kvf_engine *engine,
                                      const struct kvf_block_table *tables, uint32_t i)
{
    for (uint32_t j = 0; j < i; j++) {
        if (tables[j].group == tables[i].group) {
            return kvf_engine_fail(engine, KVF_INVALID_ARGUMENT,
                                   "group %u has two block tables", tables[i].group);
        }
    }
    return KVF_OK;
}

enum kvf_status kvf_arguments_tables(struct kvf_engine *engine,
                                     const struct kvf_block_table *tables, uint32_t n,
                                     uint32_t n_tokens,
                                     struct kvf_table out[KVF_TABLES_MAX])
{
    if (tables == NULL || n == 0 || n > KVF_TABLES_MAX) {
        return kvf_engine_fail(engine, KVF_INVALID_ARGUMENT,
                               "%u block tables; 1 to %u are allowed", n, KVF_TABLES_MAX);
    }
    uint64_t n_blocks = 0;
    for (uint32_t i = 0; i < n; i++) {
        enum kvf_status status = check_table(engine, &tables[i], n_tokens);
        if (status == KVF_OK) {
            status = check_distinct(engine, tables, i);
        }
        if (status != KVF_OK) {
            return status;
        }
        n_blocks += tables[i].n_blocks;
    }
    if (n_blocks > KVF_BLOCKS_MAX) {
        return kvf_engine_fail(engine, KVF_INVALID_ARGUMENT,
                               "%llu blocks over all tables; %u are allowed",
                               (unsigned long long)n_blocks, KVF_BLOCKS_MAX);
    }
    for (uint32_t i = 0; i < n; i++) {
        /* None is negative, so both types read the same numbers. */
        out[i] = (struct kvf_table){.group = tables[i].group,
                                    .blocks = (const uint32_t *)tables[i].blocks,
                                    .n_blocks = tables[i].n_blocks};
    }
    return KVF_OK;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

enum kvf_status kvf_arguments_trace_id(struct kvf_engine *engine, const char *text,
                                       uint8_t out[16])
{
    uint8_t bytes[16];
    bool is_valid = strnlen(text, 33) == 32;
    for (size_t i = 0; is_valid && i < sizeof(bytes); i++) {
        int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);
        is_valid = high >= 0 && low >= 0;
        bytes[i] = (uint8_t)(high * 16 + low);
    }
    if (!is_valid) {
        return kvf_engine_fail(engine, KVF_INVALID_ARGUMENT,
                               "trace_id is not 32 hex digits");
    }
    memcpy(out, bytes, sizeof(bytes));
    return KVF_OK;
}
