/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one place where plan/ formats text. Nothing is logged here: whoever asked for the
 * check knows the request and the peer, and says so once. Any thread.
 */
#include "plan/refusal.h"

#include <stdarg.h>
#include <stdio.h>

enum kvf_status kvf_refuse(struct kvf_plan_refusal *out, enum kvf_status status,
                           const char *format, ...)
{
    if (out != NULL) {
        va_list arguments;

        va_start(arguments, format);
        /* A sentence that is too long is cut; the status carries the meaning. */
        (void)vsnprintf(out->text, sizeof(out->text), format, arguments);
        va_end(arguments);
    }
    return status;
}
