/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one function of a fuzz target. It is called by libFuzzer, or by replay.c with the
 * committed corpus. It returns 0; a finding is an abort, a sanitizer report or a failed
 * assert.
 */
#ifndef KVF_TESTS_FUZZ_FUZZ_H
#define KVF_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

#endif
