/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon as operators see it: kvf_admin_ops over the daemon's parts, and the metrics.
 * Reads only, but for a cancel. Loop thread.
 */
#ifndef KVF_SERVICE_VIEW_H
#define KVF_SERVICE_VIEW_H

#include "admin/admin.h"

struct kvf_daemon;
struct kvf_view;

enum kvf_status KVF_MUST_CHECK kvf_view_create(struct kvf_daemon *daemon,
                                               struct kvf_view **out_view);
void kvf_view_destroy(struct kvf_view *view); /* accepts NULL */

extern const struct kvf_admin_ops kvf_view_admin_ops; /* owner: struct kvf_view */

#endif
