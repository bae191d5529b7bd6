/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What counts as text on the wire: well-formed UTF-8 after RFC 3629 (no overlong form, no
 * surrogate, nothing above U+10FFFF) without NUL, because every string ends up in C
 * strings, logs and JSON. Any thread.
 */
#include "proto/schema.h"

/* Bytes of the sequence that starts at text, 0 when it is malformed or cut off. */
static size_t sequence_bytes(const uint8_t *text, size_t n_left)
{
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    uint8_t lead = text[0];
    if (lead < 0x80) {
        return lead != 0 ? 1 : 0;
    }
    size_t n = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 0;
    if (n == 0 || n > n_left || lead > 0xf4) {
        return 0;
    }
    uint32_t code = lead & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        if ((text[i] & 0xc0) != 0x80) {
            return 0;
        }
        code = code << 6 | (text[i] & 0x3fu);
    }
    bool is_surrogate = code >= 0xd800 && code <= 0xdfff;
    return code >= smallest[n] && code <= 0x10ffff && !is_surrogate ? n : 0;
}

bool kvf_text_is_valid(const char *text, size_t n_bytes)
{
    const uint8_t *bytes = (const uint8_t *)text;
    size_t at = 0;
    while (at < n_bytes) {
        size_t n = sequence_bytes(bytes + at, n_bytes - at);
        if (n == 0) {
            return false;
        }
        at += n;
    }
    return true;
}
