/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ucx transport's ground: context, worker, registered memory, and UCX's log lines in
 * our log. What UCX is told comes from ucx_settings. Start-up, shut-down and loop thread.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#if __has_include(<ucs/debug/log_def.h>)
#include <ucs/debug/log_def.h>
#define HAS_UCS_LOG 1
#else
#define HAS_UCS_LOG 0
#endif

#include "base/alloc.h"
#include "base/crc.h"
#include "base/log.h"
#include "service/ucx.h"
#include "service/ucx_settings.h"

#define SEAL_BYTES 4u

static const struct kvf_log_ctx log_ctx = {.comp = "ucx"};

/* ---- UCX's own messages */

#if HAS_UCS_LOG
/* Set on the thread that may use our log; UCX's helper thread keeps UCX's own. A handler
 * has no owner, so it cannot be a field.
 * NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables) */
static _Thread_local bool is_loop_thread;

/* NOLINTNEXTLINE(readability-function-size): UCX's signature */
static ucs_log_func_rc_t take_log_line(const char *file, unsigned line,
                                       const char *function, ucs_log_level_t level,
                                       const ucs_log_component_config_t *component,
                                       const char *format, va_list arguments)
{
    char text[256], clean[320];
    (void)file;
    (void)line;
    (void)function;
    (void)component;
    if (!is_loop_thread || level > UCS_LOG_LEVEL_INFO) {
        return UCS_LOG_FUNC_RC_CONTINUE;
    }
    (void)vsnprintf(text, sizeof(text), format, arguments);
    (void)kvf_log_escape(text, strlen(text), clean, sizeof(clean));
    if (level <= UCS_LOG_LEVEL_ERROR) {
        /* Mostly a peer that went away: what it means is logged where it is known. */
        kvf_log_warn(&log_ctx, "%s", clean);
    } else {
        kvf_log_info(&log_ctx, "%s", clean);
    }
    return UCS_LOG_FUNC_RC_STOP;
}

static void start_logging(struct kvf_ucx *ucx)
{
    is_loop_thread = true;
    ucs_log_push_handler(take_log_line);
    ucx->is_logging = true;
}

static void stop_logging(struct kvf_ucx *ucx)
{
    if (ucx->is_logging) {
        ucs_log_pop_handler();
    }
}
#else
static void start_logging(struct kvf_ucx *ucx)
{
    (void)ucx; /* this UCX hides its log: it writes to standard error itself */
}

static void stop_logging(struct kvf_ucx *ucx)
{
    (void)ucx;
}
#endif

static ucs_status_t start_context(struct kvf_ucx *ucx)
{
    ucp_config_t *settings;
    ucs_status_t status = ucp_config_read(NULL, NULL, &settings);
    if (status != UCS_OK) {
        return status;
    }
    const ucp_params_t params = {
        .field_mask = UCP_PARAM_FIELD_FEATURES,
        .features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP,
    };
    status = ucp_init(&params, settings, &ucx->context);
    ucp_config_release(settings);
    return status;
}

static ucs_status_t start_worker(struct kvf_ucx *ucx, ucp_am_recv_callback_t on_message)
{
    const ucp_worker_params_t params = {
        .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
        .thread_mode = UCS_THREAD_MODE_SINGLE,
    };
    ucs_status_t status = ucp_worker_create(ucx->context, &params, &ucx->worker);
    if (status != UCS_OK) {
        return status;
    }
    /* Whole messages that outlive the callback: an eager one is kept and answered like a
     * rendezvous. */
    const ucp_am_handler_param_t handler = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                      UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG,
        .id = KVF_UCX_AM_CHUNK,
        .flags = UCP_AM_FLAG_WHOLE_MSG | UCP_AM_FLAG_PERSISTENT_DATA,
        .cb = on_message,
        .arg = ucx,
    };
    return ucp_worker_set_am_recv_handler(ucx->worker, &handler);
}

enum kvf_status kvf_ucx_start(struct kvf_ucx *ucx, const struct kvf_config *config,
                              ucp_am_recv_callback_t on_message)
{
    struct kvf_ucx_devices devices;
    struct kvf_ucx_setting settings[KVF_UCX_SETTINGS_MAX];
    bool is_set[KVF_UCX_SETTINGS_MAX];
    unsigned major, minor, release;
    start_logging(ucx);
    ucp_get_version(&major, &minor, &release);
    kvf_ucx_devices_find(&config->data.listen, &devices);
    bool has_rdma = kvf_ucx_has_rdma(config, &devices);
    if (!has_rdma && !kvf_ucx_may_use_tcp(config)) {
        kvf_log_warn(&log_ctx,
                     "not used: over TCP anyone who reaches its port may write; "
                     "set data.trusted_network to allow it");
        return KVF_TRANSPORT_REFUSED;
    }
    /* An RDMA peer reads and writes when it likes, and IOVs would bounce: one slot. */
    ucx->is_contiguous = config->data.force_contiguous || has_rdma;
    size_t n = kvf_ucx_settings(config, &devices, major, minor, settings);
    kvf_ucx_environment_set(settings, n, is_set);
    ucs_status_t status = start_context(ucx);
    if (status == UCS_OK) {
        status = start_worker(ucx, on_message);
    }
    kvf_ucx_environment_restore(settings, n, is_set);
    if (status != UCS_OK) {
        kvf_log_error(&log_ctx, "UCX %s cannot start: %s", ucp_get_version_string(),
                      ucs_status_string(status));
        return KVF_SYSTEM;
    }
    return KVF_OK;
}

/* UCX parses an address without knowing its length and crashes on bytes that are none, so
 * the blob starts with a CRC32C over our UCX's version and the address. It keeps damage
 * and other versions out, not a malicious peer. */
static uint32_t seal_of(const uint8_t *address, size_t n)
{
    const char *version = ucp_get_version_string();
    return kvf_crc32c(kvf_crc32c(0, version, strlen(version)), address, n);
}

enum kvf_status kvf_ucx_blob(struct kvf_transport *transport, uint8_t *out, size_t *n)
{
    struct kvf_ucx *ucx = kvf_ucx_of(transport);
    ucp_address_t *address;
    size_t length;
    ucs_status_t status = ucp_worker_get_address(ucx->worker, &address, &length);
    if (status != UCS_OK) {
        kvf_log_error(&log_ctx, "no worker address: %s", ucs_status_string(status));
        return KVF_SYSTEM;
    }
    enum kvf_status result = KVF_OK;
    if (length <= KVF_DATA_BLOB_MAX - SEAL_BYTES) {
        uint32_t seal = seal_of((const uint8_t *)address, length);
        for (size_t i = 0; i < SEAL_BYTES; i++) {
            out[i] = (uint8_t)(seal >> (8 * i));
        }
        memcpy(out + SEAL_BYTES, address, length);
        *n = SEAL_BYTES + length;
    } else {
        kvf_log_error(&log_ctx,
                      "worker address of %zu bytes is too long: name fewer "
                      "devices in data.devices",
                      length);
        result = KVF_UNSUPPORTED;
    }
    ucp_worker_release_address(ucx->worker, address);
    return result;
}

enum kvf_status kvf_ucx_blob_open(const uint8_t *blob, size_t n,
                                  uint8_t out_address[KVF_UCX_ADDRESS_BYTES])
{
    uint32_t seal = 0;
    if (n <= SEAL_BYTES || n > KVF_DATA_BLOB_MAX) {
        return KVF_PROTOCOL;
    }
    for (size_t i = 0; i < SEAL_BYTES; i++) {
        seal |= (uint32_t)blob[i] << (8 * i);
    }
    if (seal != seal_of(blob + SEAL_BYTES, n - SEAL_BYTES)) {
        return KVF_PROTOCOL;
    }
    memset(out_address, 0, KVF_UCX_ADDRESS_BYTES);
    memcpy(out_address, blob + SEAL_BYTES, n - SEAL_BYTES);
    return KVF_OK;
}

const char *kvf_ucx_version(struct kvf_transport *transport)
{
    (void)transport;
    return ucp_get_version_string();
}

void kvf_ucx_stop(struct kvf_ucx *ucx)
{
    if (ucx->worker != NULL) {
        ucp_worker_destroy(ucx->worker);
        ucx->worker = NULL;
    }
    if (ucx->context != NULL) {
        ucp_cleanup(ucx->context);
        ucx->context = NULL;
    }
    stop_logging(ucx);
}

/* ---- memory */

enum kvf_status kvf_ucx_memory_add(struct kvf_transport *transport, void *base,
                                   size_t length, struct kvf_transport_memory **out)
{
    struct kvf_transport_memory *memory = kvf_alloc(sizeof(*memory));
    if (memory == NULL) {
        return KVF_NO_MEMORY;
    }
    const ucp_mem_map_params_t params = {
        .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                      UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE,
        .address = base,
        .length = length,
        .memory_type = UCS_MEMORY_TYPE_HOST,
    };
    memory->base = base;
    memory->length = length;
    ucs_status_t status =
        ucp_mem_map(kvf_ucx_of(transport)->context, &params, &memory->handle);
    if (status != UCS_OK) {
        kvf_log_error(&log_ctx, "%zu bytes of memory cannot be registered: %s", length,
                      ucs_status_string(status));
        kvf_free(memory);
        return status == UCS_ERR_NO_MEMORY ? KVF_NO_MEMORY : KVF_SYSTEM;
    }
    *out = memory;
    return KVF_OK;
}

void kvf_ucx_memory_remove(struct kvf_transport *transport,
                           struct kvf_transport_memory *memory)
{
    if (memory == NULL) {
        return;
    }
    ucs_status_t status = ucp_mem_unmap(kvf_ucx_of(transport)->context, memory->handle);
    if (status != UCS_OK) {
        kvf_log_error(&log_ctx, "memory cannot be unregistered: %s",
                      ucs_status_string(status));
    }
    kvf_free(memory);
}
