/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How plan/ says no: fills the sentence and hands back the status, so that a check reads
 * as one line. Private to plan/. Any thread.
 */
#ifndef KVF_PLAN_REFUSAL_H
#define KVF_PLAN_REFUSAL_H

#include "plan/plan.h"

/* Returns `status`. out may be NULL: the caller does not want the sentence. */
enum kvf_status KVF_MUST_CHECK kvf_refuse(struct kvf_plan_refusal *out,
                                          enum kvf_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
