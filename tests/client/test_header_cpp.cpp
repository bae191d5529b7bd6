/* SPDX-License-Identifier: Apache-2.0 */
/* The public headers as C++; only compiled. */
#include "header_only.h"

extern "C" uint32_t abi_of_the_library(void)
{
    return kvf_abi_version();
}
