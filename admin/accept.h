/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Accept header, as far as a server with two forms of an answer needs it: which of
 * two media types the client would rather have (RFC 9110, 12.5.1). Pure, any thread.
 */
#ifndef KVF_ADMIN_ACCEPT_H
#define KVF_ADMIN_ACCEPT_H

#include <stdbool.h>

/* True when `accept` gives `type` a higher quality than `fallback`. NULL, empty or
 * unreadable headers prefer nothing. Types are "type/subtype" in lower case. */
bool kvf_accept_prefers(const char *accept, const char *type, const char *fallback);

#endif
