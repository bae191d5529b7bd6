/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The smallest use of libkvferry: this process plays a prefill and a decode engine, moves
 * the KV cache of one prompt from the one's pool to the other's and prints what happened.
 * Real engines are two processes on two nodes; nothing below would change, but the params
 * would travel through a router. It needs a daemon that knows both instances:
 *
 *     kvferryd --config examples/send_receive.yaml &
 *     send_receive /tmp/kvferry-engine.sock prefill decode
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kvferry/kvferry.h>

/* The model of send_receive.yaml: 4 layers, 2 KV heads of 64 bf16 elements, 16 tokens a
 * block, in the order [layer][block][k or v][head][token][element]. */
enum {
    N_LAYERS = 4,
    N_HEADS = 2,
    BLOCK_TOKENS = 16,
    ROW_BYTES = 64 * 2,
    N_BLOCKS = 32,
    HEAD_BYTES = BLOCK_TOKENS * ROW_BYTES,
    BLOCK_BYTES = 2 * N_HEADS * HEAD_BYTES,
    LAYER_BYTES = N_BLOCKS * BLOCK_BYTES,
    POOL_BYTES = N_LAYERS * LAYER_BYTES,
    N_USED = 3,
    N_TOKENS = N_USED * BLOCK_TOKENS
};

static const int32_t send_blocks[N_USED] = {5, 0, 17};
static const int32_t receive_blocks[N_USED] = {30, 31, 2};

/* Ends the program when a call failed, with what the library knows about it. */
static void must(enum kvf_status status, const char *what, struct kvf_engine *engine)
{
    if (status != KVF_OK) {
        (void)fprintf(stderr, "%s: %s: %s\n  %s\n", what, kvf_status_text(status),
                      kvf_engine_detail(engine), kvf_status_advice(status));
        exit(1); /* NOLINT(concurrency-mt-unsafe): there is one thread */
    }
}

static struct kvf_engine *open_engine(const char *socket_path, const char *instance)
{
    const struct kvf_engine_config config = {
        .size = sizeof(config), .socket_path = socket_path, .instance = instance};
    struct kvf_engine *engine = NULL;
    must(kvf_engine_open(&config, &engine), "open", NULL);
    return engine;
}

static uint8_t *register_pool(struct kvf_engine *engine)
{
    static const uint64_t offsets[N_LAYERS] = {0, LAYER_BYTES, 2 * LAYER_BYTES,
                                               3 * LAYER_BYTES};
    const struct kvf_layout layout = {.size = sizeof(layout),
                                      .n_layers = N_LAYERS,
                                      .kv_factor = 2,
                                      .n_heads = N_HEADS,
                                      .tokens_per_block = BLOCK_TOKENS,
                                      .row_bytes = ROW_BYTES,
                                      .n_blocks = N_BLOCKS,
                                      .dtype = KVF_DTYPE_BF16,
                                      .block_stride = BLOCK_BYTES,
                                      .kv_stride = BLOCK_BYTES / 2,
                                      .head_stride = HEAD_BYTES,
                                      .token_stride = ROW_BYTES,
                                      .layer_offsets = offsets};
    const struct kvf_pool_config config = {.size = sizeof(config),
                                           .memory = KVF_MEMORY_HOST,
                                           .fd = -1, /* the library makes the memory */
                                           .length = POOL_BYTES,
                                           .layout = &layout};
    struct kvf_pool *pool = NULL;
    must(kvf_pool_register(engine, &config, 0, &pool), "register the pool", engine);
    return kvf_pool_base(pool);
}

static size_t count_wrong_blocks(const uint8_t *sent, const uint8_t *received)
{
    size_t n_wrong = 0;
    for (size_t i = 0; i < (size_t)N_LAYERS * N_USED; i++) {
        size_t layer = i / N_USED * LAYER_BYTES;
        size_t from = (size_t)send_blocks[i % N_USED] * BLOCK_BYTES;
        size_t to = (size_t)receive_blocks[i % N_USED] * BLOCK_BYTES;
        n_wrong += memcmp(sent + layer + from, received + layer + to, BLOCK_BYTES) != 0;
    }
    return n_wrong;
}

static void print_event(const char *side, const struct kvf_event *event)
{
    printf("%s: %s, %" PRIu64 " bytes in %.3f ms, peer %s, path %s %s\n", side,
           kvf_status_text(event->status), event->bytes, (double)event->duration_ns / 1e6,
           event->peer, event->path, event->detail);
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        (void)fprintf(
            stderr, "usage: send_receive SOCKET CONTEXT-INSTANCE GENERATION-INSTANCE\n");
        return 2;
    }
    struct kvf_engine *prefill = open_engine(argv[1], argv[2]);
    struct kvf_engine *decode = open_engine(argv[1], argv[3]);
    uint8_t *source = register_pool(prefill);
    const uint8_t *target = register_pool(decode);
    for (size_t i = 0; i < POOL_BYTES; i++) {
        source[i] = (uint8_t)(i * 2654435761u >> 24); /* what a model would compute */
    }

    /* The prefill engine offers its blocks; the params are what a router hands over. */
    const struct kvf_block_table offered = {.n_blocks = N_USED, .blocks = send_blocks};
    const struct kvf_send_args send = {.size = sizeof(send),
                                       .request_id = 1,
                                       .label = "send_receive",
                                       .n_tokens = N_TOKENS,
                                       .n_tables = 1,
                                       .tables = &offered};
    static uint8_t params[KVF_PARAMS_MAX];
    size_t params_len = sizeof(params);
    uint64_t handle = 0;
    must(kvf_send_async(prefill, &send, params, &params_len, &handle), "send", prefill);

    /* The decode engine asks for them, into blocks of its own. */
    const struct kvf_block_table wanted = {.n_blocks = N_USED, .blocks = receive_blocks};
    const struct kvf_receive_args receive = {.size = sizeof(receive),
                                             .params = params,
                                             .params_len = params_len,
                                             .n_tables = 1,
                                             .tables = &wanted};
    struct kvf_event received = {.status = KVF_IN_PROGRESS};
    must(kvf_receive(decode, &receive, 10000, &received), "receive", decode);
    print_event("received", &received);
    /* Only now may the prefill engine use its blocks for something else. */
    struct kvf_event sent = {.status = KVF_IN_PROGRESS};
    must(kvf_wait(prefill, handle, 10000, &sent), "wait", prefill);
    print_event("sent", &sent);

    size_t n_wrong = count_wrong_blocks(source, target);
    printf("%zu blocks differ\n", n_wrong);
    kvf_engine_close(decode);
    kvf_engine_close(prefill);
    return n_wrong == 0 && sent.status == KVF_OK ? 0 : 1;
}
