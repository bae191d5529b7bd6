/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Floor of UCX between two processes of this machine: active messages by rendezvous with
 * an IOV of scattered blocks on both sides and registered memory, `window` messages under
 * way, over TCP loopback or (--shm) over shared memory. Busy polling, no event loop, no
 * receipts. Settings are kvferry's; the environment wins.
 *
 * The sender stops when the receiver has told it through a socket that everything came.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <ucp/api/ucp.h>

#include "bench/floor.h"

#define AM_CHUNK      1u
#define ADDRESS_BYTES 1024u

struct message {
    uint64_t chunk;
};

/* A place of the window. */
struct operation {
    struct side *side;
    bool is_busy;
    struct message header;
    ucp_dt_iov_t spans[FLOOR_SPANS_MAX];
};

struct side {
    const struct floor_options *options;
    struct floor_pool pool;
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_mem_h memory;
    ucp_ep_h peer;
    uint64_t n_chunks, n_begun, n_ended;
    bool has_failed;
    struct operation operations[FLOOR_WINDOW_MAX];
};

static void check(struct side *side, ucs_status_t status, const char *what)
{
    if (status != UCS_OK) {
        (void)fprintf(stderr, "%s: %s\n", what, ucs_status_string(status));
        side->has_failed = true;
    }
}

/* Only what the lane reads: UCX reports the rest as unused, on standard output. */
static void set_defaults(const struct floor_options *options)
{
    static const char *const tcp[][2] = {
        {"UCX_TLS", "tcp,self"},         {"UCX_NET_DEVICES", "lo"},
        {"UCX_TCP_TX_SEG_SIZE", "256k"}, {"UCX_TCP_RX_SEG_SIZE", "256k"},
        {"UCX_TCP_MAX_IOV", "24"},
    };
    static const char *const shm[][2] = {
        {"UCX_TLS", "posix,sysv,self"},
        {"UCX_POSIX_ERROR_HANDLING", "y"},
        {"UCX_SYSV_ERROR_HANDLING", "y"},
    };
    const char *const(*settings)[2] = options->is_shm ? shm : tcp;
    size_t n =
        options->is_shm ? sizeof(shm) / sizeof(shm[0]) : sizeof(tcp) / sizeof(tcp[0]);
    for (size_t i = 0; i < n; i++) {
        /* NOLINTNEXTLINE(concurrency-mt-unsafe): one thread yet */
        (void)setenv(settings[i][0], settings[i][1], 0);
    }
}

static struct operation *free_operation(struct side *side)
{
    for (uint32_t i = 0; i < side->options->window; i++) {
        if (!side->operations[i].is_busy) {
            return &side->operations[i];
        }
    }
    return NULL;
}

static void end_operation(struct operation *operation, ucs_status_t status)
{
    operation->is_busy = false;
    operation->side->n_ended++;
    check(operation->side, status, "chunk");
}

static void on_sent(void *request, ucs_status_t status, void *user_data)
{
    ucp_request_free(request);
    end_operation(user_data, status);
}

static void on_received(void *request, ucs_status_t status, size_t length,
                        void *user_data)
{
    (void)length;
    ucp_request_free(request);
    end_operation(user_data, status);
}

static ucp_request_param_t begin(struct side *side, struct operation *operation,
                                 uint64_t chunk)
{
    struct iovec spans[FLOOR_SPANS_MAX];
    size_t n = floor_spans(&side->pool, chunk, spans);
    for (size_t i = 0; i < n; i++) {
        operation->spans[i] =
            (ucp_dt_iov_t){.buffer = spans[i].iov_base, .length = spans[i].iov_len};
    }
    operation->is_busy = true;
    operation->header.chunk = chunk;
    side->n_begun++;
    return (ucp_request_param_t){
        .op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_CALLBACK |
                        UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE |
                        UCP_OP_ATTR_FIELD_MEMH | UCP_OP_ATTR_FIELD_FLAGS,
        .datatype = UCP_DATATYPE_IOV,
        .memory_type = UCS_MEMORY_TYPE_HOST,
        .memh = side->memory,
        .user_data = operation,
    };
}

static void end_start(struct operation *operation, ucs_status_ptr_t request)
{
    if (request == NULL || UCS_PTR_IS_ERR(request)) {
        end_operation(operation, UCS_PTR_STATUS(request));
    }
}

static void send_chunk(struct side *side, struct operation *operation)
{
    ucp_request_param_t param = begin(side, operation, side->n_begun);
    param.flags = UCP_AM_SEND_FLAG_RNDV;
    param.cb.send = on_sent;
    end_start(operation, ucp_am_send_nbx(side->peer, AM_CHUNK, &operation->header,
                                         sizeof(operation->header), operation->spans,
                                         floor_spans_per_chunk(side->options), &param));
}

/* At most `window` come at once: the sender has no more under way. */
static ucs_status_t on_message(void *owner, const void *header, size_t header_length,
                               void *data, size_t length,
                               const ucp_am_recv_param_t *am_param)
{
    struct side *side = owner;
    struct message message;
    struct operation *operation = free_operation(side);
    if (operation == NULL || header_length != sizeof(message) ||
        length != side->options->chunk_bytes ||
        (am_param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) == 0) {
        side->has_failed = true;
        return UCS_OK;
    }
    memcpy(&message, header, sizeof(message));
    ucp_request_param_t param = begin(side, operation, message.chunk);
    param.cb.recv_am = on_received;
    end_start(operation,
              ucp_am_recv_data_nbx(side->worker, data, operation->spans,
                                   floor_spans_per_chunk(side->options), &param));
    return UCS_INPROGRESS;
}

static bool open_side(struct side *side, const struct floor_options *options,
                      uint64_t seed)
{
    const ucp_params_t params = {
        .field_mask = UCP_PARAM_FIELD_FEATURES,
        .features = UCP_FEATURE_AM,
    };
    const ucp_worker_params_t worker_params = {
        .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
        .thread_mode = UCS_THREAD_MODE_SINGLE,
    };
    side->options = options;
    side->n_chunks = options->total_bytes / options->chunk_bytes;
    for (uint32_t i = 0; i < options->window; i++) {
        side->operations[i].side = side;
    }
    if (!floor_pool_open(&side->pool, options, seed)) {
        return false;
    }
    const ucp_mem_map_params_t map = {
        .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
        .address = side->pool.bytes,
        .length = options->pool_bytes,
    };
    const ucp_am_handler_param_t handler = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                      UCP_AM_HANDLER_PARAM_FIELD_ARG,
        .id = AM_CHUNK,
        .cb = on_message,
        .arg = side,
    };
    check(side, ucp_init(&params, NULL, &side->context), "ucp_init");
    if (!side->has_failed) {
        check(side, ucp_worker_create(side->context, &worker_params, &side->worker),
              "ucp_worker_create");
    }
    if (!side->has_failed) {
        check(side, ucp_mem_map(side->context, &map, &side->memory), "ucp_mem_map");
        check(side, ucp_worker_set_am_recv_handler(side->worker, &handler), "handler");
    }
    return !side->has_failed;
}

/* The process ends next; only what others could miss is given back. */
static void close_side(struct side *side)
{
    ucp_worker_destroy(side->worker);
    (void)ucp_mem_unmap(side->context, side->memory);
    ucp_cleanup(side->context);
    floor_pool_close(&side->pool);
}

static int receive_all(struct side *side, int fd)
{
    ucp_address_t *address;
    size_t length;
    uint8_t text[ADDRESS_BYTES] = {0};
    check(side, ucp_worker_get_address(side->worker, &address, &length), "address");
    if (side->has_failed || length > sizeof(text)) {
        return EXIT_FAILURE;
    }
    memcpy(text, address, length);
    ucp_worker_release_address(side->worker, address);
    if (!floor_write(fd, text, sizeof(text))) {
        return EXIT_FAILURE;
    }
    while (side->n_begun == 0 && !side->has_failed) {
        (void)ucp_worker_progress(side->worker);
    }
    uint64_t start_ns = floor_now_ns();
    while (side->n_ended < side->n_chunks && !side->has_failed) {
        (void)ucp_worker_progress(side->worker);
    }
    uint64_t elapsed_ns = floor_now_ns() - start_ns;
    bool is_right = !side->has_failed && floor_is_marked(&side->pool);
    is_right = floor_write(fd, &elapsed_ns, sizeof(elapsed_ns)) && is_right;
    /* The sender may still wait for the last acknowledgement. */
    for (uint8_t byte; recv(fd, &byte, 1, MSG_DONTWAIT) != 0;) {
        (void)ucp_worker_progress(side->worker);
    }
    close_side(side);
    return is_right ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int send_all(struct side *side, int fd, int pid)
{
    uint8_t address[ADDRESS_BYTES];
    uint64_t elapsed_ns = 0;
    const ucp_ep_params_t params = {
        .field_mask =
            UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
        .address = (const ucp_address_t *)address,
        .err_mode = UCP_ERR_HANDLING_MODE_PEER,
    };
    floor_mark(&side->pool);
    if (!floor_read(fd, address, sizeof(address))) {
        return EXIT_FAILURE;
    }
    check(side, ucp_ep_create(side->worker, &params, &side->peer), "ucp_ep_create");
    while (side->n_ended < side->n_chunks && !side->has_failed) {
        struct operation *operation =
            side->n_begun < side->n_chunks ? free_operation(side) : NULL;
        if (operation != NULL) {
            send_chunk(side, operation);
        } else {
            (void)ucp_worker_progress(side->worker);
        }
    }
    bool is_done = floor_read(fd, &elapsed_ns, sizeof(elapsed_ns)) && !side->has_failed;
    (void)close(fd); /* lets the receiver go */
    is_done = floor_wait(pid) && is_done;
    if (is_done) {
        floor_report(side->options->is_shm ? "ucx_shm" : "ucx_tcp", side->options,
                     side->n_chunks * side->options->chunk_bytes, elapsed_ns);
    }
    close_side(side);
    return is_done ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    struct floor_options options;
    static struct side side;
    int fd = -1;
    if (!floor_parse(argc, argv, &options)) {
        return EXIT_FAILURE;
    }
    set_defaults(&options);
    int pid = floor_fork(&fd); /* before UCX: it does not survive a fork */
    if (pid < 0) {
        perror("fork");
        return EXIT_FAILURE;
    }
    if (!open_side(&side, &options, pid == 0 ? 2 : 1)) {
        return EXIT_FAILURE;
    }
    return pid == 0 ? receive_all(&side, fd) : send_all(&side, fd, pid);
}
