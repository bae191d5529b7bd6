/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public headers as strict C99, and that the library is the one they describe.
 */
#include "header_only.h"

int main(void)
{
    return kvf_abi_version() == KVF_ABI_VERSION ? 0 : 1;
}
