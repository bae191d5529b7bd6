/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing to a stream whose owner checks it in the end (ferror), as both printers do.
 * Private to config/.
 */
#ifndef KVF_CONFIG_PRINT_H
#define KVF_CONFIG_PRINT_H

#include <stdio.h>

void kvf_put(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
