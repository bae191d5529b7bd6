/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ucx transport: one UCX worker on the loop thread. A chunk is one active message,
 * always rendezvous, with the chunk header as its header and an IOV of spans on either
 * side. The receiver keeps the announcement (UCS_INPROGRESS) until the owner answers:
 * that is the flow control. Not here: who may send what (the owner's `arrived` judges
 * header and token), receipts, retries.
 *
 * UCX calls us back only inside ucp_worker_progress and never calls the owner from there:
 * completions become posts, announcements and broken endpoints go on lists which the hook
 * delivers after progress returned. An operation is over when UCX's own callback came,
 * not when we closed something: until then UCX may still read or write its memory.
 *
 * Written for the API of UCX 1.13. Loop thread.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "service/ucx.h"

#define POSTED_MAX         1024u /* chunks under way per endpoint */
#define PROGRESS_PER_TURN  64
/* What a forced close may take before we say that it hangs, and all of close() at most.
 */
#define CLOSE_LIMIT_NS     (1 * KVF_NS_PER_S)
#define KVF_UCX_LANE_BYTES 32u

/* Spans are handed to UCX as they are. */
_Static_assert(sizeof(struct iovec) == sizeof(ucp_dt_iov_t) &&
                   offsetof(struct iovec, iov_base) == offsetof(ucp_dt_iov_t, buffer) &&
                   offsetof(struct iovec, iov_len) == offsetof(ucp_dt_iov_t, length),
               "an iovec is a ucp_dt_iov_t");

static const struct kvf_log_ctx log_ctx = {.comp = "ucx"};

/* ---- operations */

static enum kvf_status to_status(ucs_status_t status)
{
    switch ((int)status) {
    case UCS_OK:
        return KVF_OK;
    case UCS_ERR_CANCELED:
        return KVF_CANCELLED;
    case UCS_ERR_NO_MEMORY:
        return KVF_NO_MEMORY;
    default:
        /* Whether the peer lives is for the control channel to say. */
        return KVF_DATA_PATH;
    }
}

/* op->impl[0] is the endpoint of a post, NULL for a receive; impl[1] the transport. */
static void begin_operation(struct kvf_ucx *ucx, struct kvf_chunk_op *op,
                            struct kvf_endpoint *endpoint)
{
    op->impl[0] = endpoint;
    op->impl[1] = ucx;
    kvf_list_add_tail(&ucx->operations, &op->node);
    if (endpoint != NULL) {
        endpoint->n_posted++;
    }
}

static void free_endpoint(void *object)
{
    kvf_free(object);
}

static void free_if_over(struct kvf_endpoint *endpoint)
{
    if (endpoint->is_disconnected && endpoint->is_closed && endpoint->n_posted == 0) {
        kvf_loop_timer_stop(&endpoint->close_timer);
        kvf_list_remove(&endpoint->ucx->endpoints, &endpoint->node);
        kvf_loop_destroy_later(endpoint->ucx->loop, &endpoint->zombie, free_endpoint,
                               endpoint);
    }
}

/* Takes op off the books; done is not called. */
static void forget_operation(struct kvf_chunk_op *op)
{
    struct kvf_endpoint *endpoint = op->impl[0];
    struct kvf_ucx *ucx = op->impl[1];
    kvf_list_remove(&ucx->operations, &op->node);
    if (endpoint != NULL) {
        endpoint->n_posted--;
        free_if_over(endpoint);
    }
}

static void end_operation(struct kvf_chunk_op *op, enum kvf_status status)
{
    struct kvf_ucx *ucx = op->impl[1];
    forget_operation(op);
    kvf_loop_post(ucx->loop, &op->post, op->done, op->owner, status);
}

static void on_sent(void *request, ucs_status_t status, void *user_data)
{
    struct kvf_chunk_op *op = user_data;
    struct kvf_endpoint *endpoint = op->impl[0];
    enum kvf_status result = to_status(status);
    if (result != KVF_OK && !endpoint->is_disconnected) {
        result = KVF_DATA_PATH; /* UCX says "cancelled" when the endpoint broke */
    }
    ucp_request_free(request);
    end_operation(op, result);
}

static void on_received(void *request, ucs_status_t status, size_t length,
                        void *user_data)
{
    (void)length; /* equals the header's, which was compared on arrival */
    ucp_request_free(request);
    end_operation(user_data, to_status(status));
}

/* Fields that post and receive share. */
static ucp_request_param_t operation_param(const struct kvf_chunk_op *op)
{
    return (ucp_request_param_t){
        .op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_CALLBACK |
                        UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE |
                        UCP_OP_ATTR_FIELD_MEMH,
        .datatype = op->n_spans == 1 ? ucp_dt_make_contig(1) : UCP_DATATYPE_IOV,
        .memory_type = UCS_MEMORY_TYPE_HOST,
        /* Without it a send from mapped memory never completes after the peer's death. */
        .memh = op->memory->handle,
    };
}

static void *operation_buffer(struct kvf_chunk_op *op)
{
    return op->n_spans == 1 ? op->spans[0].iov_base : op->spans;
}

static size_t operation_count(const struct kvf_chunk_op *op)
{
    return op->n_spans == 1 ? op->spans[0].iov_len : op->n_spans;
}

/* What a nonblocking call returned. When it failed op was not begun, done will not run.
 */
static enum kvf_status judge_start(struct kvf_chunk_op *op, ucs_status_ptr_t request)
{
    if (UCS_PTR_IS_ERR(request)) {
        forget_operation(op);
        return to_status(UCS_PTR_STATUS(request));
    }
    if (request == NULL) {
        end_operation(op, KVF_OK);
    }
    return KVF_OK;
}

static enum kvf_status post(struct kvf_endpoint *endpoint, struct kvf_chunk_op *op)
{
    if (endpoint->is_dead) {
        return KVF_DATA_PATH;
    }
    if (endpoint->n_posted >= POSTED_MAX) {
        return KVF_BUSY;
    }
    assert(kvf_chunk_op_is_sound(op, op->memory->base, op->memory->length,
                                 endpoint->ucx->is_contiguous, op->header.length));
    kvf_chunk_header_write(&op->header, op->wire);
    ucp_request_param_t param = operation_param(op);
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_AM_SEND_FLAG_RNDV | UCP_AM_SEND_FLAG_REPLY;
    param.cb.send = on_sent;
    param.user_data = op;
    begin_operation(endpoint->ucx, op, endpoint);
    /* op->wire lives until done, as UCX before 1.14 wants it. */
    return judge_start(op, ucp_am_send_nbx(endpoint->ep, KVF_UCX_AM_CHUNK, op->wire,
                                           sizeof(op->wire), operation_buffer(op),
                                           operation_count(op), &param));
}

/* ---- arrivals */

static void free_arrival(struct kvf_arrival *arrival)
{
    kvf_slab_release(arrival->ucx->slab, arrival->id);
}

/* UCX's callback: keep the announcement or let it go, never decide. Returning UCS_OK
 * drops it, and UCX tells the sender that all went well: only receipts count. */
static ucs_status_t on_message(void *owner, const void *header_bytes,
                               size_t header_length, void *data, size_t length,
                               const ucp_am_recv_param_t *param)
{
    struct kvf_ucx *ucx = owner;
    struct kvf_chunk_header header;
    uint64_t id;
    if (kvf_chunk_header_read(header_bytes, header_length, &header) != KVF_OK ||
        header.length != length) {
        kvf_log_warn(&log_ctx, "chunk dropped: malformed header");
        return UCS_OK;
    }
    /* The handler's flags promise that one of the two is set. */
    assert((param->recv_attr &
            (UCP_AM_RECV_ATTR_FLAG_RNDV | UCP_AM_RECV_ATTR_FLAG_DATA)) != 0);
    struct kvf_arrival *arrival = kvf_slab_acquire(ucx->slab, &id);
    if (arrival == NULL) {
        kvf_log_warn(&log_ctx, "chunk dropped: %u arrivals are unanswered",
                     (unsigned)kvf_slab_used(ucx->slab));
        return UCS_OK;
    }
    arrival->ucx = ucx;
    arrival->id = id;
    arrival->descriptor = data;
    arrival->header = header;
    if ((param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) != 0) {
        arrival->reply_ep = param->reply_ep;
    }
    kvf_list_add_tail(&ucx->fresh, &arrival->node);
    return UCS_INPROGRESS;
}

static void release_descriptor(struct kvf_arrival *arrival)
{
    ucp_am_data_release(arrival->ucx->worker, arrival->descriptor);
    arrival->descriptor = NULL;
}

static bool is_from(const struct kvf_arrival *arrival, ucp_ep_h ep, const uint8_t *token)
{
    return (ep != NULL && arrival->reply_ep == ep) ||
           (token != NULL &&
            memcmp(arrival->header.token, token, KVF_DATA_TOKEN_BYTES) == 0);
}

/* Gives up announcements that came through ep or under token. UCX must have them back
 * before their endpoint closes. */
static void lose_arrivals(struct kvf_ucx *ucx, ucp_ep_h ep, const uint8_t *token)
{
    struct kvf_node *next = NULL;
    for (struct kvf_node *node = kvf_list_first(&ucx->fresh); node != NULL; node = next) {
        struct kvf_arrival *arrival = KVF_CONTAINER(node, struct kvf_arrival, node);
        next = kvf_list_next(&ucx->fresh, node);
        if (is_from(arrival, ep, token)) {
            kvf_list_remove(&ucx->fresh, node);
            release_descriptor(arrival);
            free_arrival(arrival);
        }
    }
    for (struct kvf_node *node = kvf_list_first(&ucx->kept); node != NULL; node = next) {
        struct kvf_arrival *arrival = KVF_CONTAINER(node, struct kvf_arrival, node);
        next = kvf_list_next(&ucx->kept, node);
        if (is_from(arrival, ep, token)) {
            kvf_list_remove(&ucx->kept, node);
            release_descriptor(arrival);
            kvf_list_add_tail(&ucx->lost, node);
        }
    }
}

static void drop(struct kvf_arrival *arrival)
{
    struct kvf_ucx *ucx = arrival->ucx;
    if (arrival->descriptor != NULL) {
        kvf_list_remove(&ucx->kept, &arrival->node);
        release_descriptor(arrival);
    } else {
        kvf_list_remove(&ucx->lost, &arrival->node);
    }
    free_arrival(arrival);
}

static enum kvf_status receive(struct kvf_arrival *arrival, struct kvf_chunk_op *op)
{
    struct kvf_ucx *ucx = arrival->ucx;
    if (arrival->descriptor == NULL) {
        drop(arrival);
        return KVF_DATA_PATH;
    }
    assert(kvf_chunk_op_is_sound(op, op->memory->base, op->memory->length,
                                 ucx->is_contiguous, arrival->header.length));
    void *descriptor = arrival->descriptor;
    kvf_list_remove(&ucx->kept, &arrival->node);
    free_arrival(arrival);
    ucp_request_param_t param = operation_param(op);
    param.cb.recv_am = on_received;
    param.user_data = op;
    begin_operation(ucx, op, NULL);
    /* The descriptor is UCX's again, also when this fails. */
    return judge_start(op,
                       ucp_am_recv_data_nbx(ucx->worker, descriptor, operation_buffer(op),
                                            operation_count(op), &param));
}

/* ---- endpoints */

static void on_endpoint_error(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    struct kvf_endpoint *endpoint = arg;
    (void)ep;
    if (endpoint->is_dead) {
        return;
    }
    endpoint->is_dead = true;
    if (!endpoint->is_disconnected) {
        kvf_log_info(&log_ctx, "data endpoint lost: %s", ucs_status_string(status));
        kvf_list_add_tail(&endpoint->ucx->broken, &endpoint->broken_node);
    }
}

/* NOLINTNEXTLINE(readability-function-size): the port's signature */
static enum kvf_status connect_ucx(struct kvf_transport *transport, const uint8_t *blob,
                                   size_t n, const char *peer_host,
                                   const uint8_t token[KVF_DATA_TOKEN_BYTES], void *owner,
                                   struct kvf_endpoint **out)
{
    struct kvf_ucx *ucx = kvf_ucx_of(transport);
    (void)peer_host; /* the worker address has every address it needs */
    (void)token;     /* travels in each header */
    uint8_t address[KVF_UCX_ADDRESS_BYTES];
    enum kvf_status opened = kvf_ucx_blob_open(blob, n, address);
    if (opened != KVF_OK) {
        kvf_log_warn(&log_ctx, "the peer's worker address cannot be used");
        return opened;
    }
    struct kvf_endpoint *endpoint = kvf_alloc(sizeof(*endpoint));
    if (endpoint == NULL) {
        return KVF_NO_MEMORY;
    }
    endpoint->ucx = ucx;
    endpoint->owner = owner;
    const ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                      UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER,
        .address = (const ucp_address_t *)address,
        .err_mode = UCP_ERR_HANDLING_MODE_PEER,
        .err_handler = {.cb = on_endpoint_error, .arg = endpoint},
    };
    ucs_status_t status = ucp_ep_create(ucx->worker, &params, &endpoint->ep);
    if (status != UCS_OK) {
        kvf_log_warn(&log_ctx, "no data endpoint: %s", ucs_status_string(status));
        kvf_free(endpoint);
        return status == UCS_ERR_UNREACHABLE ? KVF_TRANSPORT_REFUSED : KVF_DATA_PATH;
    }
    kvf_list_add_tail(&ucx->endpoints, &endpoint->node);
    *out = endpoint;
    return KVF_OK;
}

static void on_closed(void *request, ucs_status_t status, void *user_data)
{
    struct kvf_endpoint *endpoint = user_data;
    (void)status; /* a forced close of a dead endpoint has nothing to tell */
    ucp_request_free(request);
    endpoint->is_closed = true;
    free_if_over(endpoint);
}

static void on_close_late(void *owner)
{
    struct kvf_endpoint *endpoint = owner;
    kvf_log_warn(&log_ctx,
                 "endpoint not closed in time, %zu chunks unaccounted for keep their "
                 "memory",
                 endpoint->n_posted);
}

static void close_endpoint(struct kvf_endpoint *endpoint)
{
    const ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK |
                        UCP_OP_ATTR_FIELD_USER_DATA,
        .flags = UCP_EP_CLOSE_FLAG_FORCE,
        .cb.send = on_closed,
        .user_data = endpoint,
    };
    ucs_status_ptr_t request = ucp_ep_close_nbx(endpoint->ep, &param);
    if (request == NULL || UCS_PTR_IS_ERR(request)) {
        endpoint->is_closed = true;
    }
}

static void disconnect(struct kvf_endpoint *endpoint)
{
    struct kvf_ucx *ucx = endpoint->ucx;
    endpoint->is_disconnected = true;
    endpoint->is_dead = true;
    if (kvf_node_is_linked(&endpoint->broken_node)) {
        kvf_list_remove(&ucx->broken, &endpoint->broken_node);
    }
    lose_arrivals(ucx, endpoint->ep, NULL);
    close_endpoint(endpoint);
    if (!endpoint->is_closed || endpoint->n_posted > 0) {
        enum kvf_status status = kvf_loop_timer_start(
            ucx->loop, &endpoint->close_timer,
            kvf_loop_now_ns(ucx->loop) + CLOSE_LIMIT_NS, on_close_late, endpoint);
        (void)status; /* without a timer only the warning is missing */
    }
    free_if_over(endpoint);
}

/* ---- which transport UCX chose */

/* Fastest first: the one that carries the payload when an endpoint has several. */
static const char *const lane_order[] = {"rc",   "dc",   "ud", "posix",
                                         "sysv", "self", "tcp"};
#define N_LANE_ORDER (sizeof(lane_order) / sizeof(lane_order[0]))

static size_t lane_rank(const char *name)
{
    size_t rank = 0;
    while (rank < N_LANE_ORDER &&
           strncmp(name, lane_order[rank], strlen(lane_order[rank])) != 0) {
        rank++;
    }
    return rank;
}

static void take_better_lane(struct kvf_endpoint *endpoint, const char *name, size_t n)
{
    char copy[KVF_UCX_LANE_BYTES];
    (void)snprintf(copy, sizeof(copy), "%.*s", (int)n, name);
    if (endpoint->lane[0] == '\0' || lane_rank(copy) < lane_rank(endpoint->lane)) {
        memcpy(endpoint->lane, copy, sizeof(copy));
    }
}

#if UCP_API_VERSION >= UCP_VERSION(1, 14)
static void find_lane(struct kvf_endpoint *endpoint)
{
    ucp_transport_entry_t entries[8];
    ucp_ep_attr_t attr = {
        .field_mask = UCP_EP_ATTR_FIELD_TRANSPORTS,
        .transports = {.entries = entries,
                       .num_entries = sizeof(entries) / sizeof(entries[0]),
                       .entry_size = sizeof(entries[0])},
    };
    if (ucp_ep_query(endpoint->ep, &attr) != UCS_OK) {
        return;
    }
    for (unsigned i = 0; i < attr.transports.num_entries; i++) {
        const char *name = entries[i].transport_name;
        take_better_lane(endpoint, name, strlen(name));
    }
}
#else
/* Lines such as "lane[0]:  1:tcp/lo.0 md[1] -> ...". */
static void parse_lane(struct kvf_endpoint *endpoint, const char *line)
{
    const char *at = strstr(line, "lane[");
    const char *name = at != NULL ? strstr(at, "]:") : NULL;
    name = name != NULL ? strchr(name + 2, ':') : NULL;
    if (name != NULL) {
        take_better_lane(endpoint, name + 1, strcspn(name + 1, "/ \n"));
    }
}

static void find_lane(struct kvf_endpoint *endpoint)
{
    char text[4096] = "";
    FILE *out = fmemopen(text, sizeof(text) - 1, "w");
    if (out == NULL) {
        return;
    }
    ucp_ep_print_info(endpoint->ep, out);
    (void)fclose(out); /* a text cut short still has the first lanes */
    for (const char *line = text; line != NULL; line = strchr(line + 1, '\n')) {
        parse_lane(endpoint, line);
    }
}
#endif

static const char *lane(struct kvf_endpoint *endpoint)
{
    if (endpoint->lane[0] == '\0' && !endpoint->is_dead) {
        find_lane(endpoint);
    }
    return endpoint->lane;
}

/* ---- the hook */

static void tell_arrivals(struct kvf_ucx *ucx)
{
    for (struct kvf_node *node; (node = kvf_list_pop(&ucx->lost)) != NULL;) {
        struct kvf_arrival *arrival = KVF_CONTAINER(node, struct kvf_arrival, node);
        ucx->events->arrival_lost(ucx->owner, arrival);
        free_arrival(arrival);
    }
    for (struct kvf_node *node; (node = kvf_list_pop(&ucx->fresh)) != NULL;) {
        struct kvf_arrival *arrival = KVF_CONTAINER(node, struct kvf_arrival, node);
        kvf_list_add_tail(&ucx->kept, node);
        ucx->events->arrived(ucx->owner, &ucx->base, arrival, &arrival->header);
    }
}

static bool tell_owner(struct kvf_ucx *ucx)
{
    if (ucx->fresh.n + ucx->lost.n + ucx->broken.n == 0) {
        return false;
    }
    for (struct kvf_node *node; (node = kvf_list_pop(&ucx->broken)) != NULL;) {
        struct kvf_endpoint *endpoint =
            KVF_CONTAINER(node, struct kvf_endpoint, broken_node);
        lose_arrivals(ucx, endpoint->ep, NULL);
        ucx->events->endpoint_lost(ucx->owner, endpoint->owner, KVF_DATA_PATH);
    }
    tell_arrivals(ucx);
    return true;
}

static bool progress(void *owner)
{
    struct kvf_ucx *ucx = owner;
    bool found = false;
    for (int i = 0; i < PROGRESS_PER_TURN && ucp_worker_progress(ucx->worker) != 0; i++) {
        found = true;
    }
    return tell_owner(ucx) || found;
}

static bool prepare_sleep(void *owner)
{
    struct kvf_ucx *ucx = owner;
    if (ucx->fresh.n + ucx->lost.n + ucx->broken.n > 0) {
        return false;
    }
    return ucp_worker_arm(ucx->worker) == UCS_OK; /* else: events came meanwhile */
}

static void on_wake(void *owner, uint32_t events)
{
    (void)owner; /* the hook progresses in every turn; waking up was all */
    (void)events;
}

static enum kvf_status join_loop(struct kvf_ucx *ucx)
{
    int fd = -1;
    ucs_status_t status = ucp_worker_get_efd(ucx->worker, &fd);
    if (status != UCS_OK) {
        kvf_log_error(&log_ctx, "no event descriptor: %s", ucs_status_string(status));
        return KVF_SYSTEM;
    }
    enum kvf_status added =
        kvf_loop_io_add(ucx->loop, &ucx->wake_io, fd, KVF_IO_READ, on_wake, ucx);
    if (added != KVF_OK) {
        return added;
    }
    ucx->hook = (struct kvf_hook){
        .progress = progress,
        .prepare_sleep = prepare_sleep,
        .owner = ucx,
    };
    kvf_loop_hook_add(ucx->loop, &ucx->hook);
    ucx->is_hooked = true;
    return KVF_OK;
}

/* Lets UCX finish what was forced shut; bounded, the daemon is going down. */
static void drain(struct kvf_ucx *ucx)
{
    uint64_t end_ns = kvf_loop_clock_ns(ucx->loop) + CLOSE_LIMIT_NS;
    while (ucx->endpoints.n + ucx->operations.n > 0 &&
           kvf_loop_clock_ns(ucx->loop) < end_ns) {
        (void)ucp_worker_progress(ucx->worker);
    }
}

static void release_arrivals(struct kvf_ucx *ucx)
{
    struct kvf_list *const lists[] = {&ucx->fresh, &ucx->kept, &ucx->lost};
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        for (struct kvf_node *node; (node = kvf_list_pop(lists[i])) != NULL;) {
            struct kvf_arrival *arrival = KVF_CONTAINER(node, struct kvf_arrival, node);
            if (arrival->descriptor != NULL) {
                release_descriptor(arrival);
            }
            free_arrival(arrival);
        }
    }
}

/* After the worker is gone nothing touches any memory: what it did not account for ends.
 */
static void end_leftovers(struct kvf_ucx *ucx)
{
    for (struct kvf_node *node; (node = kvf_list_first(&ucx->operations)) != NULL;) {
        end_operation(KVF_CONTAINER(node, struct kvf_chunk_op, node), KVF_CANCELLED);
    }
    for (struct kvf_node *node; (node = kvf_list_first(&ucx->endpoints)) != NULL;) {
        struct kvf_endpoint *endpoint = KVF_CONTAINER(node, struct kvf_endpoint, node);
        assert(endpoint->is_disconnected);
        endpoint->is_closed = true;
        free_if_over(endpoint);
    }
}

static void close_ucx(struct kvf_transport *transport)
{
    if (transport == NULL) {
        return;
    }
    struct kvf_ucx *ucx = kvf_ucx_of(transport);
    assert(ucx->broken.n == 0); /* every endpoint was disconnected */
    if (ucx->is_hooked) {
        kvf_loop_hook_remove(&ucx->hook);
    }
    kvf_loop_io_remove(&ucx->wake_io);
    if (ucx->worker != NULL) {
        release_arrivals(ucx);
        drain(ucx);
        release_arrivals(ucx); /* what came while draining */
    }
    kvf_ucx_stop(ucx);
    end_leftovers(ucx);
    kvf_slab_destroy(ucx->slab);
    kvf_free(ucx);
}

static enum kvf_status open_ucx(const struct kvf_transport_config *config,
                                struct kvf_transport **out)
{
    struct kvf_ucx *ucx = kvf_alloc(sizeof(*ucx));
    if (ucx == NULL) {
        return KVF_NO_MEMORY;
    }
    ucx->ops = kvf_transport_ucx;
    ucx->base.ops = &ucx->ops;
    ucx->loop = config->loop;
    ucx->events = config->events;
    ucx->owner = config->owner;
    struct kvf_list *const lists[] = {&ucx->fresh,     &ucx->kept,   &ucx->lost,
                                      &ucx->endpoints, &ucx->broken, &ucx->operations};
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        kvf_list_init(lists[i]);
    }
    enum kvf_status status = kvf_slab_create(sizeof(struct kvf_arrival), 0,
                                             (uint32_t)config->max_kept, &ucx->slab);
    if (status != KVF_OK) {
        goto fail;
    }
    status = kvf_ucx_start(ucx, config->config, on_message);
    if (status != KVF_OK) {
        goto fail;
    }
    ucx->ops.is_direct_send = ucx->ops.is_direct_receive = !ucx->is_contiguous;
    status = join_loop(ucx);
    if (status != KVF_OK) {
        goto fail;
    }
    *out = &ucx->base;
    return KVF_OK;
fail:
    close_ucx(&ucx->base);
    return status;
}

static enum kvf_status token_add(struct kvf_transport *transport,
                                 const uint8_t token[KVF_DATA_TOKEN_BYTES])
{
    (void)transport; /* the owner judges each header's token when it arrives */
    (void)token;
    return KVF_OK;
}

static void token_remove(struct kvf_transport *transport,
                         const uint8_t token[KVF_DATA_TOKEN_BYTES])
{
    lose_arrivals(kvf_ucx_of(transport), NULL, token);
}

const struct kvf_transport_ops kvf_transport_ucx = {
    .name = "ucx",
    .open = open_ucx,
    .close = close_ucx,
    .blob = kvf_ucx_blob,
    .version = kvf_ucx_version,
    .memory_add = kvf_ucx_memory_add,
    .memory_remove = kvf_ucx_memory_remove,
    .connect = connect_ucx,
    .disconnect = disconnect,
    .lane = lane,
    .post = post,
    .receive = receive,
    .drop = drop,
    .token_add = token_add,
    .token_remove = token_remove,
    .is_direct_send = true,
    .is_direct_receive = true,
};
