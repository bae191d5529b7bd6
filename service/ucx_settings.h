/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What UCX is told: the settings kvferry needs, from its own configuration and from the
 * network devices of this machine. It knows UCX's keys but not UCX (no ucp header), so
 * the rules can be read and tested without it. What only some versions know is chosen by
 * version. A variable UCX_<KEY> in the environment wins. Start-up.
 */
#ifndef KVF_SERVICE_UCX_SETTINGS_H
#define KVF_SERVICE_UCX_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>

#include "config/config.h"

#define KVF_UCX_SETTINGS_MAX 16u
#define KVF_UCX_VALUE_BYTES  512u

struct kvf_ucx_setting {
    const char *key; /* "UCX_TLS", static */
    char value[KVF_UCX_VALUE_BYTES];
};

/* Network devices by UCX's names, comma-separated; "" when there are none. */
struct kvf_ucx_devices {
    char interface[KVF_UCX_VALUE_BYTES / 4]; /* that holds data.listen; "" for any */
    char rdma[KVF_UCX_VALUE_BYTES / 2];      /* "mlx5_0:1,mlx5_1:1" */
};

/* Looks at this machine: interfaces, and /sys/class/infiniband. */
void kvf_ucx_devices_find(const struct kvf_address *listen, struct kvf_ucx_devices *out);

/* RDMA is used when there are devices and data.prefer names it. */
bool kvf_ucx_has_rdma(const struct kvf_config *config,
                      const struct kvf_ucx_devices *devices);
/* UCX's TCP takes remote writes from anyone who reaches its port, so beyond loopback it
 * needs data.trusted_network. */
bool kvf_ucx_may_use_tcp(const struct kvf_config *config);

/* Fills at most KVF_UCX_SETTINGS_MAX entries, returns their number. */
size_t kvf_ucx_settings(const struct kvf_config *config,
                        const struct kvf_ucx_devices *devices, unsigned version_major,
                        unsigned version_minor,
                        struct kvf_ucx_setting out[KVF_UCX_SETTINGS_MAX]);

/* UCX 1.13's ucp_config_modify ignores the settings of its lower layer, so they go
 * through the environment while UCX opens; nothing else may read it then. is_set[n] says
 * which variables are ours to remove again. */
void kvf_ucx_environment_set(const struct kvf_ucx_setting *settings, size_t n,
                             bool *out_is_set);
void kvf_ucx_environment_restore(const struct kvf_ucx_setting *settings, size_t n,
                                 const bool *is_set);

#endif
