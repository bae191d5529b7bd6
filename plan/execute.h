/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host executor: runs stream bytes [offset, offset + n_bytes) of a plan with loads
 * and stores. The oracle for every other executor. Any thread; touches only the bytes of
 * the plan. With crc != NULL the CRC32C of the stream bytes is continued into *crc.
 */
#ifndef KVF_PLAN_EXECUTE_H
#define KVF_PLAN_EXECUTE_H

#include "plan/plan.h"

/* Source pool to destination pool, one pass. */
void kvf_execute_copy(const struct kvf_plan *plan, const void *src_base, void *dst_base,
                      uint64_t offset, uint64_t n_bytes, uint32_t *crc);
/* Source pool to a contiguous slot. */
void kvf_execute_gather(const struct kvf_plan *plan, const void *src_base, void *slot,
                        uint64_t offset, uint64_t n_bytes, uint32_t *crc);
/* Contiguous slot to destination pool. */
void kvf_execute_scatter(const struct kvf_plan *plan, const void *slot, void *dst_base,
                         uint64_t offset, uint64_t n_bytes, uint32_t *crc);
/* CRC32C of one side's memory, no copy (direct paths). */
uint32_t kvf_execute_crc(const struct kvf_plan *plan, enum kvf_plan_end end,
                         const void *base, uint64_t offset, uint64_t n_bytes,
                         uint32_t crc);

#endif
