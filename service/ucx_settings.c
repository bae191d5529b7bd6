/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules behind UCX's settings; each one that is not obvious says why, with what was
 * measured on loopback (2 cores, UCX 1.13 and 1.22). Pure but for the device search.
 */
#include "service/ucx_settings.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/sock.h"

#define RDMA_DIR "/sys/class/infiniband"

static const struct kvf_log_ctx log_ctx = {.comp = "ucx"};

struct fixed_setting {
    const char *key, *value;
};

static const struct fixed_setting fixed_settings[] = {
    /* Defaults of 8k and 64k give 1.1 GB/s, these 4 to 5, at a quarter of the CPU time.
     */
    {"UCX_TCP_TX_SEG_SIZE", "256k"},
    {"UCX_TCP_RX_SEG_SIZE", "256k"},
    /* Default 6. Above 29 UCX 1.13 aborts (its array on the stack). */
    {"UCX_TCP_MAX_IOV", "24"},
    /* Shared memory is only used with error handling if told so. */
    {"UCX_POSIX_ERROR_HANDLING", "y"},
    {"UCX_SYSV_ERROR_HANDLING", "y"},
    /* A dead process on the same host is seen in 0.4 s instead of 19. */
    {"UCX_KEEPALIVE_INTERVAL", "1s"},
    {"UCX_KEEPALIVE_NUM_EPS", "inf"},
};
#define N_FIXED (sizeof(fixed_settings) / sizeof(fixed_settings[0]))

struct setting_list {
    struct kvf_ucx_setting *settings; /* [KVF_UCX_SETTINGS_MAX] */
    size_t n;
};

static void add(struct setting_list *list, const char *key, const char *value)
{
    struct kvf_ucx_setting *setting = &list->settings[list->n++];
    setting->key = key;
    (void)snprintf(setting->value, sizeof(setting->value), "%s", value);
}

/* Appends "name" or ",name" if it fits. */
static void append_name(char *list, size_t list_bytes, const char *name)
{
    size_t n = strlen(list);
    size_t need = strlen(name) + (n > 0 ? 1 : 0);
    if (n + need < list_bytes) {
        (void)snprintf(list + n, list_bytes - n, "%s%s", n > 0 ? "," : "", name);
    }
}

static bool is_interface_address(const struct ifaddrs *entry, const char *host)
{
    char text[INET6_ADDRSTRLEN];
    const void *address = NULL;
    if (entry->ifa_addr == NULL) {
        return false;
    }
    if (entry->ifa_addr->sa_family == AF_INET) {
        address = &((const struct sockaddr_in *)(const void *)entry->ifa_addr)->sin_addr;
    } else if (entry->ifa_addr->sa_family == AF_INET6) {
        address =
            &((const struct sockaddr_in6 *)(const void *)entry->ifa_addr)->sin6_addr;
    } else {
        return false;
    }
    return inet_ntop(entry->ifa_addr->sa_family, address, text, sizeof(text)) != NULL &&
           strcmp(text, host) == 0;
}

static void find_interface(const struct kvf_address *listen, struct kvf_ucx_devices *out)
{
    struct ifaddrs *entries = NULL;
    if (kvf_address_is_loopback(listen)) {
        append_name(out->interface, sizeof(out->interface), "lo");
        return;
    }
    if (getifaddrs(&entries) != 0) {
        return;
    }
    for (const struct ifaddrs *entry = entries; entry != NULL; entry = entry->ifa_next) {
        if (is_interface_address(entry, listen->host)) {
            append_name(out->interface, sizeof(out->interface), entry->ifa_name);
            break;
        }
    }
    freeifaddrs(entries);
}

static void find_rdma(struct kvf_ucx_devices *out)
{
    DIR *dir = opendir(RDMA_DIR);
    if (dir == NULL) {
        return;
    }
    /* cppcheck-suppress readdirCalled ; a DIR of our own */
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        char name[64];
        int n = snprintf(name, sizeof(name), "%s:1", entry->d_name);
        if (entry->d_name[0] != '.' && n > 0 && (size_t)n < sizeof(name)) {
            append_name(out->rdma, sizeof(out->rdma), name);
        }
    }
    (void)closedir(dir);
}

void kvf_ucx_devices_find(const struct kvf_address *listen, struct kvf_ucx_devices *out)
{
    *out = (struct kvf_ucx_devices){0};
    find_interface(listen, out);
    find_rdma(out);
}

bool kvf_ucx_has_rdma(const struct kvf_config *config,
                      const struct kvf_ucx_devices *devices)
{
    for (size_t i = 0; i < config->data.n_prefer; i++) {
        if (config->data.prefer[i] == KVF_DATA_RDMA) {
            return devices->rdma[0] != '\0';
        }
    }
    return false;
}

bool kvf_ucx_may_use_tcp(const struct kvf_config *config)
{
    return config->data.trusted_network || kvf_address_is_loopback(&config->data.listen);
}

static void add_transports(struct setting_list *list, const struct kvf_config *config,
                           const struct kvf_ucx_devices *devices)
{
    /* Never cma: its reads and writes are the kernel's and cannot be revoked. */
    char transports[64] = "posix,sysv,self";
    if (kvf_ucx_may_use_tcp(config)) {
        append_name(transports, sizeof(transports), "tcp");
    }
    if (kvf_ucx_has_rdma(config, devices)) {
        append_name(transports, sizeof(transports), "rc,ud");
    }
    add(list, "UCX_TLS", transports);
}

static void add_devices(struct setting_list *list, const struct kvf_config *config,
                        const struct kvf_ucx_devices *devices)
{
    bool is_auto =
        config->data.devices[0] == '\0' || strcmp(config->data.devices, "auto") == 0;
    if (!is_auto) {
        add(list, "UCX_NET_DEVICES", config->data.devices);
        return;
    }
    if (devices->interface[0] == '\0') {
        return; /* listens on every address: UCX's own choice */
    }
    char names[KVF_UCX_VALUE_BYTES] = "";
    append_name(names, sizeof(names), devices->interface);
    if (kvf_ucx_has_rdma(config, devices)) {
        append_name(names, sizeof(names), devices->rdma);
    }
    add(list, "UCX_NET_DEVICES", names);
}

size_t kvf_ucx_settings(const struct kvf_config *config,
                        const struct kvf_ucx_devices *devices, unsigned version_major,
                        unsigned version_minor,
                        struct kvf_ucx_setting out[KVF_UCX_SETTINGS_MAX])
{
    struct setting_list list = {.settings = out};
    _Static_assert(N_FIXED + 5 <= KVF_UCX_SETTINGS_MAX, "room for every setting");
    add_transports(&list, config, devices);
    add_devices(&list, config, devices);
    for (size_t i = 0; i < N_FIXED; i++) {
        add(&list, fixed_settings[i].key, fixed_settings[i].value);
    }
    if (version_major > 1 || version_minor >= 22) {
        /* A cut link under load; older ones learn it from the control channel. */
        add(&list, "UCX_TCP_USER_TIMEOUT", "3s");
    }
    const struct kvf_address *listen = &config->data.listen;
    if (listen->port != 0) {
        char range[32];
        (void)snprintf(range, sizeof(range), "%u-%u", (unsigned)listen->port,
                       (unsigned)listen->port_last);
        add(&list, "UCX_TCP_PORT_RANGE", range);
    }
    if (kvf_ucx_has_rdma(config, devices)) {
        /* The receiver reads: its own NIC is the only writer of its slots. */
        add(&list, "UCX_RNDV_SCHEME", "get_zcopy");
    }
    return list.n;
}

void kvf_ucx_environment_set(const struct kvf_ucx_setting *settings, size_t n,
                             bool *out_is_set)
{
    for (size_t i = 0; i < n; i++) {
        /* NOLINTNEXTLINE(concurrency-mt-unsafe): see the header */
        const char *users = getenv(settings[i].key);
        /* NOLINTNEXTLINE(concurrency-mt-unsafe): see the header */
        int rc = setenv(settings[i].key, settings[i].value, 0);
        out_is_set[i] = users == NULL && rc == 0;
        kvf_log_debug(&log_ctx, "%s %s", settings[i].key,
                      out_is_set[i] ? settings[i].value : "as in the environment");
    }
}

void kvf_ucx_environment_restore(const struct kvf_ucx_setting *settings, size_t n,
                                 const bool *is_set)
{
    for (size_t i = 0; i < n; i++) {
        if (is_set[i]) {
            /* NOLINTNEXTLINE(concurrency-mt-unsafe): see the header */
            (void)unsetenv(settings[i].key); /* fails only for names with '=' */
        }
    }
}
