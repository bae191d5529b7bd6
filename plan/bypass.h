/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copying past the cache, for destinations that nobody reads soon: saves reading every
 * destination line before it is written. One implementation per architecture, chosen by
 * CMake. Any thread.
 */
#ifndef KVF_PLAN_BYPASS_H
#define KVF_PLAN_BYPASS_H

#include <stdint.h>

/* No overlap; any alignment, best at 64 bytes. */
void kvf_bypass_copy(char *dst, const char *src, uint64_t n_bytes);
/* Makes bytes copied so visible before whatever this thread stores next. */
void kvf_bypass_fence(void);

#endif
