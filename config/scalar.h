/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Single values as people write them: strict, one spelling for each thing, and a refusal
 * that says how to write it. Units are part of the text, so that no key leaves open what
 * its number counts. Pure functions, any thread.
 */
#ifndef KVF_CONFIG_SCALAR_H
#define KVF_CONFIG_SCALAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kvferry/status.h>

#include "config/problem.h"

#define KVF_SCALAR_TEXT_BYTES 32

/* All return CONFIG with the reason in *out_refusal and leave *out untouched. */

/* true or false; the other words of YAML 1.1 are refused by name. */
enum kvf_status KVF_MUST_CHECK kvf_scalar_boolean(const char *text, bool *out,
                                                  struct kvf_value_refusal *out_refusal);
/* Decimal digits, `_` between two of them: 65_536. */
enum kvf_status KVF_MUST_CHECK kvf_scalar_integer(const char *text, uint64_t *out,
                                                  struct kvf_value_refusal *out_refusal);
/* 4096, 64KiB, 2MiB, 1GiB, 1TiB; in bytes. 64M and 64MB could mean two things. */
enum kvf_status KVF_MUST_CHECK kvf_scalar_size(const char *text, uint64_t *out_bytes,
                                               struct kvf_value_refusal *out_refusal);
/* 50us, 500ms, 30s, 2m, 1h or 0; in microseconds. */
enum kvf_status KVF_MUST_CHECK kvf_scalar_duration(const char *text, uint64_t *out_us,
                                                   struct kvf_value_refusal *out_refusal);
/* Index of text in names, which NULL ends; a refusal names the nearest or all of them. */
enum kvf_status KVF_MUST_CHECK kvf_scalar_choice(const char *text,
                                                 const char *const *names,
                                                 uint32_t *out_index,
                                                 struct kvf_value_refusal *out_refusal);
/* [A-Za-z0-9._-]{1,63}: node, instance and host names. */
enum kvf_status KVF_MUST_CHECK kvf_scalar_name(const char *text,
                                               struct kvf_value_refusal *out_refusal);

/* The shortest spelling that the parsers above read back as the same value. */
void kvf_scalar_format_size(uint64_t bytes, char out[KVF_SCALAR_TEXT_BYTES]);
void kvf_scalar_format_duration(uint64_t us, char out[KVF_SCALAR_TEXT_BYTES]);

#endif
