/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hash tables: uthash on our allocator. Objects embed a UT_hash_handle and are never
 * copied. An insert that finds no memory leaves the object out of the table; callers
 * check by looking at `hh.tbl` through KVF_MAP_ADDED.
 */
#ifndef KVF_BASE_MAP_H
#define KVF_BASE_MAP_H

#include "base/alloc.h"

#define HASH_NONFATAL_OOM 1
#define uthash_malloc(n)  kvf_alloc(n)
#define uthash_free(p, n) kvf_free(p)
#include <uthash.h>

#define KVF_MAP_ADDED(object) ((object)->hh.tbl != NULL)

#endif
