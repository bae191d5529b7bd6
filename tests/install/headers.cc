/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public headers from C++: they compile, the names have C linkage, and the structs
 * are plain. Exits 0 when the library answers.
 */
#include <kvferry/kvferry.h>

#include <type_traits>

static_assert(std::is_trivial<kvf_send_args>::value, "filled by ={} or memset");
static_assert(std::is_standard_layout<kvf_event>::value, "crosses the ABI");

int main()
{
    return kvf_status_scope(KVF_PEER_LOST) == KVF_SCOPE_PEER ? 0 : 1;
}
