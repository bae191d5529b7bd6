/* SPDX-License-Identifier: Apache-2.0 */
/* CRC32C (Castagnoli), continuing from `crc`; start with 0. ISA-L underneath. Any thread.
 */
#ifndef KVF_BASE_CRC_H
#define KVF_BASE_CRC_H

#include <stddef.h>
#include <stdint.h>

uint32_t kvf_crc32c(uint32_t crc, const void *bytes, size_t n_bytes);

#endif
