/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An example engine: what prefill and decode servers do with libkvferry, without a model.
 * It links the library alone. Requests come as lines on stdin and go as lines to stdout
 * (channel.h), the way a router would carry them. The process waits in one place, for its
 * router and for the library, and never in the library.
 */
#include "examples/engine.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "examples/pattern.h"

#define EVENTS_MAX 32
#define POLL_MS    100

struct engine_options {
    const char *role, *socket_path;
    uint64_t seed;
};

static void print_usage(void)
{
    (void)fputs("usage: engine --role prefill|decode --socket PATH --shape SHAPE...\n"
                "              [--seed N] [--reuse]\n"
                "SHAPE is NAME:LAYERS:KV_HEADS:HEAD_DIM:KV_PLANES:BLOCK_TOKENS:BLOCKS\n",
                stderr);
}

static bool add_shape(struct engine *engine, const char *text)
{
    if (engine->n_lanes == SHAPES_PER_ENGINE) {
        return false;
    }
    struct lane *lane = &engine->lanes[engine->n_lanes];
    /* Prefixes are kept in parts of CHUNK_TOKENS, whole blocks each. */
    if (!shape_parse(text, &lane->shape) ||
        CHUNK_TOKENS % lane->shape.tokens_per_block != 0) {
        (void)fprintf(stderr, "engine: bad shape '%s'\n", text);
        return false;
    }
    engine->n_lanes++;
    return true;
}

static bool parse_options(int argc, char **argv, struct engine_options *options,
                          struct engine *engine)
{
    static const struct option known[] = {
        {"role", required_argument, NULL, 'r'},  {"socket", required_argument, NULL, 's'},
        {"shape", required_argument, NULL, 'S'}, {"seed", required_argument, NULL, 'n'},
        {"reuse", no_argument, NULL, 'u'},       {NULL, 0, NULL, 0},
    };
    int option;
    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        if (option == 'r') {
            options->role = optarg;
        } else if (option == 's') {
            options->socket_path = optarg;
        } else if (option == 'n') {
            options->seed = strtoull(optarg, NULL, 10);
        } else if (option == 'u') {
            engine->has_reuse = true;
        } else if (option != 'S' || !add_shape(engine, optarg)) {
            return false;
        }
    }
    bool is_prefill = options->role != NULL && strcmp(options->role, "prefill") == 0;
    bool is_decode = options->role != NULL && strcmp(options->role, "decode") == 0;
    engine->is_sender = is_prefill;
    engine->poison = is_prefill ? PATTERN_POISON_SENDER : PATTERN_POISON_RECEIVER;
    return (is_prefill || is_decode) && engine->n_lanes > 0 && optind == argc;
}

/* ---- sessions and pools */

static bool open_session(struct engine *engine, struct lane *lane,
                         const char *socket_path)
{
    char instance[KVF_NAME_MAX + 1];
    (void)snprintf(instance, sizeof(instance), "%s-%s", lane->shape.name,
                   engine->is_sender ? "context" : "generation");
    struct kvf_engine_config config = {
        .size = sizeof(config), .socket_path = socket_path, .instance = instance};
    enum kvf_status status = kvf_engine_open(&config, &lane->engine);
    if (status != KVF_OK) {
        (void)fprintf(stderr, "engine: %s: %s: %s\n", instance, kvf_status_text(status),
                      kvf_engine_detail(NULL));
    }
    return status == KVF_OK;
}

static bool register_pool(struct engine *engine, struct lane *lane)
{
    uint64_t offsets[SHAPE_LAYERS_MAX];
    struct kvf_layout layout;
    shape_layout(&lane->shape, offsets, &layout);
    struct kvf_pool_config config = {.size = sizeof(config),
                                     .memory = KVF_MEMORY_HOST,
                                     .fd = -1,
                                     .length = shape_pool_bytes(&lane->shape),
                                     .layout = &layout};
    enum kvf_status status = kvf_pool_register(lane->engine, &config, 0, &lane->pool);
    if (status != KVF_OK) {
        (void)fprintf(stderr, "engine: pool of %s: %s: %s\n", lane->shape.name,
                      kvf_status_text(status), kvf_engine_detail(lane->engine));
        return false;
    }
    lane->base = kvf_pool_base(lane->pool);
    pattern_poison(lane->base, config.length, engine->poison);
    return true;
}

static bool open_lanes(struct engine *engine, const struct engine_options *options)
{
    for (size_t i = 0; i < engine->n_lanes; i++) {
        struct lane *lane = &engine->lanes[i];
        uint32_t per_chunk = CHUNK_TOKENS / lane->shape.tokens_per_block;
        if (!open_session(engine, lane, options->socket_path) ||
            !register_pool(engine, lane) ||
            !blocks_init(&lane->blocks, lane->shape.n_blocks,
                         pattern_key(options->seed, i)) ||
            !prefix_cache_init(&lane->cache, lane->shape.n_blocks / per_chunk + 1,
                               per_chunk)) {
            return false;
        }
    }
    return true;
}

static void close_lanes(struct engine *engine)
{
    engine_requests_drop(engine);
    for (size_t i = 0; i < engine->n_lanes; i++) {
        kvf_engine_close(engine->lanes[i].engine);
        blocks_fini(&engine->lanes[i].blocks);
        prefix_cache_fini(&engine->lanes[i].cache);
    }
}

/* ---- the loop */

/* False: the router is gone, said quit, or talks nonsense. */
static bool obey(struct engine *engine)
{
    char *line = NULL;
    enum channel_result result;
    while ((result = channel_next(&engine->channel, &line)) == CHANNEL_LINE) {
        const char *verb = channel_word(&line);
        const char *expected = engine->is_sender ? "run" : "take";
        if (verb == NULL || strcmp(verb, "quit") == 0) {
            return false;
        }
        if (strcmp(verb, "audit") == 0) {
            engine_audit(engine);
        } else if (strcmp(verb, expected) != 0 || !engine_request_add(engine, line)) {
            (void)fprintf(stderr, "engine: bad command '%s'\n", verb);
            return false;
        }
    }
    return result == CHANNEL_EMPTY;
}

static bool poll_lane(struct engine *engine, struct lane *lane)
{
    struct kvf_event events[EVENTS_MAX];
    size_t n = 0;
    do {
        enum kvf_status status = kvf_poll(lane->engine, events, EVENTS_MAX, &n);
        if (status != KVF_OK) {
            (void)fprintf(stderr, "engine: %s: %s\n", lane->shape.name,
                          kvf_status_text(status));
            return false;
        }
        for (size_t i = 0; i < n; i++) {
            engine_request_event(engine, lane, &events[i]);
        }
    } while (n == EVENTS_MAX);
    return true;
}

/* True: ended because the router wanted it. */
static bool serve(struct engine *engine)
{
    struct pollfd fds[1 + SHAPES_PER_ENGINE] = {{.fd = STDIN_FILENO, .events = POLLIN}};
    for (;;) {
        for (size_t i = 0; i < engine->n_lanes; i++) {
            if (!poll_lane(engine, &engine->lanes[i])) {
                return false;
            }
            fds[1 + i] = (struct pollfd){.fd = kvf_engine_fd(engine->lanes[i].engine),
                                         .events = POLLIN};
        }
        engine_requests_begin(engine);
        if (poll(fds, (nfds_t)(1 + engine->n_lanes), POLL_MS) < 0 && errno != EINTR) {
            return false;
        }
        if (fds[0].revents != 0 && !obey(engine)) {
            return true;
        }
    }
}

int main(int argc, char **argv)
{
    struct engine_options options = {.seed = 1};
    struct engine engine = {.is_sender = false};
    if (!parse_options(argc, argv, &options, &engine)) {
        print_usage();
        return 2;
    }
    (void)signal(SIGPIPE, SIG_IGN); /* a gone router is seen as a closed pipe */
    int flags = fcntl(STDIN_FILENO, F_GETFL);
    bool is_good = flags >= 0 && fcntl(STDIN_FILENO, F_SETFL, flags | O_NONBLOCK) == 0 &&
                   channel_init(&engine.channel, STDIN_FILENO, STDOUT_FILENO) &&
                   open_lanes(&engine, &options);
    if (is_good) {
        uint64_t n_bytes = 0;
        for (size_t i = 0; i < engine.n_lanes; i++) {
            n_bytes += shape_pool_bytes(&engine.lanes[i].shape);
        }
        (void)channel_send(&engine.channel, "ready %" PRIu64 "\n", n_bytes);
        is_good = serve(&engine);
    }
    close_lanes(&engine);
    channel_fini(&engine.channel);
    return is_good ? EXIT_SUCCESS : EXIT_FAILURE;
}
