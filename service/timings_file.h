/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CSV files of timing rows, written by a thread of their own: a slow or full disk costs
 * rows (counted), never a transfer. kvferry format: DIR/timings.csv; trtllm format:
 * DIR/<instance>/rank_<N>_send.csv and _recv.csv. Rotated by size.
 */
#ifndef KVF_SERVICE_TIMINGS_FILE_H
#define KVF_SERVICE_TIMINGS_FILE_H

#include "service/timings.h"

struct kvf_timings_file;
enum kvf_status KVF_MUST_CHECK kvf_timings_file_create(
    const struct kvf_config *config, struct kvf_timings_file **out_file);
/* Writes what is queued, for at most 1 s. Accepts NULL. */
void kvf_timings_file_destroy(struct kvf_timings_file *file);
/* Loop thread; never blocks. */
void kvf_timings_file_add(struct kvf_timings_file *file, enum kvf_timings_text format,
                          const struct kvf_timing *timing);
uint64_t kvf_timings_file_dropped(const struct kvf_timings_file *file);

#endif
