/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of keys checked as data: what the generic code takes for granted about every
 * row.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "config/schema.h"
#include "config/value.h"

typedef void (*visit_fn)(enum kvf_keyset_id id, const struct kvf_key *key);

static void for_each_key(visit_fn visit)
{
    for (unsigned id = 0; id < KVF_KEYSETS; id++) {
        const struct kvf_keyset *keyset = kvf_schema_keyset((enum kvf_keyset_id)id);
        assert_in_range(keyset->n_keys, 1, KVF_KEYSET_KEYS_MAX);
        for (size_t i = 0; i < keyset->n_keys; i++) {
            visit((enum kvf_keyset_id)id, &keyset->keys[i]);
        }
    }
}

static void check_found(enum kvf_keyset_id id, const struct kvf_key *key)
{
    assert_ptr_equal(kvf_schema_find(id, key->path), key);
    assert_int_equal(kvf_key_section_length(key) > 0, id == KVF_KEYSET_ROOT);
}

static void test_schema_every_key_is_found_by_its_path(void **state)
{
    (void)state;
    for_each_key(check_found);
    assert_null(kvf_schema_find(KVF_KEYSET_ROOT, "data"));
    assert_null(kvf_schema_find(KVF_KEYSET_ROOT, "data.chunks"));
    assert_null(kvf_schema_find(KVF_KEYSET_ROOT, ""));
}

static void check_documented(enum kvf_keyset_id id, const struct kvf_key *key)
{
    (void)id;
    size_t n = strlen(key->doc);
    assert_in_range(n, 10, 250);
    assert_int_equal(key->doc[n - 1], '.');
    for (size_t i = 0; i < n; i++) {
        assert_in_range(key->doc[i], ' ', '~'); /* goes into JSON and YAML as it is */
    }
}

static void test_schema_every_key_is_documented_in_ascii(void **state)
{
    (void)state;
    for_each_key(check_documented);
}

static void check_default(enum kvf_keyset_id id, const struct kvf_key *key)
{
    (void)id;
    bool may_have_none = (key->flags & (KVF_KEY_REQUIRED | KVF_KEY_NULLABLE)) != 0;
    assert_true(key->fallback != NULL || may_have_none);
    assert_false(key->fallback != NULL && (key->flags & KVF_KEY_REQUIRED) != 0);
}

static void test_schema_every_key_has_a_default_or_says_why_not(void **state)
{
    (void)state;
    for_each_key(check_default);
}

static void check_size(enum kvf_keyset_id id, const struct kvf_key *key)
{
    static const size_t sizes[] = {
        [KVF_VALUE_NAME] = KVF_CONFIG_NAME_BYTES,
        [KVF_VALUE_PATH] = KVF_CONFIG_PATH_BYTES,
        [KVF_VALUE_ADDRESS] = sizeof(struct kvf_address),
        [KVF_VALUE_DURATION_MS] = sizeof(uint32_t),
        [KVF_VALUE_DURATION_US] = sizeof(uint32_t),
        [KVF_VALUE_SIZE] = sizeof(uint64_t),
        [KVF_VALUE_INTEGER] = sizeof(uint32_t),
        [KVF_VALUE_BOOLEAN] = sizeof(bool),
        [KVF_VALUE_CHOICE] = sizeof(uint32_t),
    };
    (void)id;
    assert_int_equal(key->n_bytes, sizes[key->kind]);
    assert_int_equal(key->kind == KVF_VALUE_CHOICE, key->names != NULL);
    assert_int_equal(key->kind == KVF_VALUE_ADDRESS,
                     (key->flags & (KVF_KEY_TCP | KVF_KEY_UNIX)) != 0);
}

static void test_schema_rows_match_the_fields_they_name(void **state)
{
    (void)state;
    for_each_key(check_size);
}

static void check_range(enum kvf_keyset_id id, const struct kvf_key *key)
{
    (void)id;
    bool is_narrow = key->kind == KVF_VALUE_INTEGER ||
                     key->kind == KVF_VALUE_DURATION_MS ||
                     key->kind == KVF_VALUE_DURATION_US;
    if (is_narrow || key->kind == KVF_VALUE_SIZE) {
        assert_true(key->max > key->min);
    }
    if (is_narrow) {
        assert_true(key->max <= UINT32_MAX);
    }
    if (key->flags & KVF_KEY_MASK) {
        size_t n = 0;
        while (key->names[n] != NULL) {
            n++;
        }
        assert_in_range(n, 1, 32);
    }
}

static void test_schema_numbers_fit_their_fields(void **state)
{
    (void)state;
    for_each_key(check_range);
}

static void test_schema_sections_stand_together(void **state)
{
    (void)state;
    const struct kvf_keyset *keyset = kvf_schema_keyset(KVF_KEYSET_ROOT);
    for (size_t i = 0; i < keyset->n_keys; i++) {
        size_t n = kvf_key_section_length(&keyset->keys[i]) + 1;
        for (size_t j = 0; j < i && kvf_keyset_opens_section(keyset, i); j++) {
            assert_int_not_equal(strncmp(keyset->keys[j].path, keyset->keys[i].path, n),
                                 0);
        }
    }
}

static void test_schema_choices_are_the_enums(void **state)
{
    (void)state;
    const struct kvf_key *dtype = kvf_schema_find(KVF_KEYSET_INSTANCE, "dtype");
    assert_string_equal(dtype->names[KVF_DTYPE_F32], "f32");
    assert_string_equal(dtype->names[KVF_DTYPE_FP8], "fp8");
    assert_string_equal(dtype->names[KVF_DTYPE_BF16], "bf16");
    assert_string_equal(dtype->names[KVF_DTYPE_FP4], "fp4");
    assert_null(dtype->names[KVF_DTYPE_FP4 + 1]);
    const struct kvf_key *level = kvf_schema_find(KVF_KEYSET_ROOT, "log.level");
    assert_string_equal(level->names[KVF_LOG_ERROR], "error");
    assert_string_equal(level->names[KVF_LOG_TRACE], "trace");
    assert_string_equal(kvf_role_name(KVF_ROLE_CONTEXT), "context");
    assert_string_equal(kvf_role_name(KVF_ROLE_BOTH), "both");
    assert_string_equal(kvf_data_transport_name(KVF_DATA_RDMA), "rdma");
    assert_string_equal(kvf_data_transport_name(KVF_DATA_UCX_TCP), "ucx_tcp");
    assert_string_equal(kvf_data_transport_name(KVF_DATA_TCP), "tcp");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_schema_every_key_is_found_by_its_path),
        cmocka_unit_test(test_schema_every_key_is_documented_in_ascii),
        cmocka_unit_test(test_schema_every_key_has_a_default_or_says_why_not),
        cmocka_unit_test(test_schema_rows_match_the_fields_they_name),
        cmocka_unit_test(test_schema_numbers_fit_their_fields),
        cmocka_unit_test(test_schema_sections_stand_together),
        cmocka_unit_test(test_schema_choices_are_the_enums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
