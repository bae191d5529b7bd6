/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public headers as a user's strict C99 compiler sees them, and the one thing a user
 * checks first: that header and library are of one ABI. Exits 0 when they are.
 */
#include <stdio.h>
#include <string.h>

#include <kvferry/kvferry.h>

int main(void)
{
    char version[32];
    (void)snprintf(version, sizeof(version), "%d.%d.%d", KVF_VERSION_MAJOR,
                   KVF_VERSION_MINOR, KVF_VERSION_PATCH);
    if (kvf_abi_version() != KVF_ABI_VERSION || strcmp(kvf_version(), version) != 0) {
        (void)fprintf(stderr, "header %s, library %s\n", version, kvf_version());
        return 1;
    }
    (void)printf("kvferry %s: %s\n", kvf_version(), kvf_status_text(KVF_OK));
    return 0;
}
