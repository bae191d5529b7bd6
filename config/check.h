/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules that span several keys of the file's sections: what must be typed before the
 * daemon listens to strangers, and numbers that only make sense together.
 */
#ifndef KVF_CONFIG_CHECK_H
#define KVF_CONFIG_CHECK_H

#include "config/config.h"
#include "config/origin.h"

void kvf_config_check(const struct kvf_config *config,
                      const struct kvf_config_origin *origin,
                      struct kvf_problem_list *problems);

#endif
