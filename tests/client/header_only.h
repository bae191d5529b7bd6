/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What test_header_c99.c and test_header_cpp.cpp both check, as they are compiled: the
 * public headers alone, in the two languages they promise, and the sizes that ctypes
 * callers write down. A size that changes needs a new KVF_ABI_VERSION. C99 has no static
 * assertion: an array of negative size stands in.
 */
#include <kvferry/kvferry.h>

#define ABI_SIZE(type, n_bytes)                                                          \
    typedef char size_of_##type[sizeof(struct type) == (n_bytes) ? 1 : -1]

ABI_SIZE(kvf_engine_config, 48);
ABI_SIZE(kvf_pool_config, 40);
ABI_SIZE(kvf_layout, 72);
ABI_SIZE(kvf_block_table, 16);
ABI_SIZE(kvf_send_args, 96);
ABI_SIZE(kvf_receive_args, 64);
ABI_SIZE(kvf_event, 352);
ABI_SIZE(kvf_params_info, 232);
ABI_SIZE(kvf_statistics, 80);

typedef char offset_of_peer[offsetof(struct kvf_event, peer) == 64 ? 1 : -1];
