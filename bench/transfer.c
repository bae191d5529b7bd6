/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goodput through running daemons: one engine offers a prompt of permuted blocks, another
 * receives it into permuted blocks; every byte is compared after the last round. Both
 * engine sessions live in this process; the daemons' CPU time is read from /proc. Prints
 * one JSON line. The floors beside it (floor_*.c) use the same sizes and no protocol.
 */
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <kvferry/kvferry.h>

#include "base/clock.h"

#define BENCH_ROUNDS_MAX 256
#define BENCH_PIDS_MAX   2
#define BENCH_TOKENS     16u  /* per block */
#define BENCH_ROW        128u /* 64 elements of bf16 */

struct bench {
    const char *socket[2], *instance[2]; /* context, generation */
    const char *label;
    uint32_t block_bytes, n_blocks;
    int n_rounds, n_warmup;
    long pids[BENCH_PIDS_MAX];
    int n_pids;
    struct kvf_engine *engine[2];
    struct kvf_pool *pool[2];
    int32_t *blocks[2];
    double seconds[BENCH_ROUNDS_MAX];
    struct kvf_event last;
};

static void die(const struct bench *bench, int side, const char *what,
                enum kvf_status status)
{
    const char *detail =
        kvf_engine_detail(side >= 0 && bench->engine[side] ? bench->engine[side] : NULL);
    (void)fprintf(stderr, "bench: %s: %s: %s\n", what, kvf_status_text(status), detail);
    exit(EXIT_FAILURE); /* NOLINT(concurrency-mt-unsafe): one thread */
}

static double now_s(void)
{
    return (double)kvf_clock_now_ns(&kvf_clock_system) * 1e-9;
}

/* User and system time of one process, in seconds. */
static double process_cpu_s(long pid)
{
    char path[64], line[1024] = "";
    (void)snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return 0;
    }
    bool is_read = fgets(line, sizeof(line), file) != NULL;
    (void)fclose(file);
    const char *at = is_read ? strrchr(line, ')') : NULL;
    unsigned long user = 0, system = 0;
    /* Fields 14 and 15; the name in field 2 may hold blanks, so count from its end. */
    for (int field = 2; at != NULL && field < 14; field++) {
        at = strchr(at + 1, ' ');
    }
    if (at == NULL) {
        return 0;
    }
    char *end;
    user = strtoul(at, &end, 10);
    system = strtoul(end, NULL, 10);
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

static double all_cpu_s(const struct bench *bench)
{
    struct rusage usage;
    double seconds = 0;
    for (int i = 0; i < bench->n_pids; i++) {
        seconds += process_cpu_s(bench->pids[i]);
    }
    if (getrusage(RUSAGE_SELF, &usage) == 0) {
        seconds += (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                   (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
    }
    return seconds;
}

/* A permutation of the even (context) or odd (generation) blocks, so that no two blocks
 * of a request touch and nothing can be coalesced. */
static int32_t *permutation(uint32_t n, uint32_t side)
{
    int32_t *blocks = calloc(n, sizeof(*blocks));
    uint64_t seed = 0x9e3779b97f4a7c15u + side;
    if (blocks == NULL) {
        return NULL;
    }
    for (uint32_t i = 0; i < n; i++) {
        blocks[i] = (int32_t)(2 * i + side);
    }
    for (uint32_t i = n - 1; i > 0; i--) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        uint32_t j = (uint32_t)((seed >> 33) % (i + 1));
        int32_t other = blocks[j];
        blocks[j] = blocks[i];
        blocks[i] = other;
    }
    return blocks;
}

static void open_side(struct bench *bench, int side)
{
    const struct kvf_engine_config engine = {
        .size = sizeof(engine),
        .socket_path = bench->socket[side],
        .instance = bench->instance[side],
    };
    enum kvf_status status = kvf_engine_open(&engine, &bench->engine[side]);
    if (status != KVF_OK) {
        die(bench, -1, "open", status);
    }
    static const uint64_t offset = 0;
    uint32_t head_bytes = BENCH_TOKENS * BENCH_ROW;
    uint32_t n_heads = bench->block_bytes / 2 / head_bytes;
    const struct kvf_layout layout = {
        .size = sizeof(layout),
        .n_layers = 1,
        .kv_factor = 2,
        .n_heads = n_heads,
        .tokens_per_block = BENCH_TOKENS,
        .row_bytes = BENCH_ROW,
        .n_blocks = 2 * bench->n_blocks,
        .dtype = KVF_DTYPE_BF16,
        .block_stride = bench->block_bytes,
        .kv_stride = bench->block_bytes / 2,
        .head_stride = head_bytes,
        .token_stride = BENCH_ROW,
        .layer_offsets = &offset,
    };
    const struct kvf_pool_config pool = {
        .size = sizeof(pool),
        .fd = -1,
        .length = 2ull * bench->n_blocks * bench->block_bytes,
        .layout = &layout,
    };
    status = kvf_pool_register(bench->engine[side], &pool, 0, &bench->pool[side]);
    if (status != KVF_OK) {
        die(bench, side, "register", status);
    }
    bench->blocks[side] = permutation(bench->n_blocks, (uint32_t)side);
    uint64_t *word = kvf_pool_base(bench->pool[side]);
    for (uint64_t i = 0; i < pool.length / sizeof(*word); i++) {
        word[i] = side == 0 ? i * 0x9e3779b97f4a7c15u : UINT64_MAX;
    }
}

static double transfer_once(struct bench *bench, uint64_t request_id)
{
    static uint8_t params[KVF_PARAMS_MAX];
    size_t n = sizeof(params);
    uint64_t handle[2];
    const struct kvf_block_table table[2] = {
        {.n_blocks = bench->n_blocks, .blocks = bench->blocks[0]},
        {.n_blocks = bench->n_blocks, .blocks = bench->blocks[1]},
    };
    double start = now_s();
    const struct kvf_send_args send = {
        .size = sizeof(send),
        .request_id = request_id,
        .n_tokens = bench->n_blocks * BENCH_TOKENS,
        .n_tables = 1,
        .tables = &table[0],
    };
    enum kvf_status status =
        kvf_send_async(bench->engine[0], &send, params, &n, &handle[0]);
    if (status != KVF_OK) {
        die(bench, 0, "send", status);
    }
    const struct kvf_receive_args receive = {
        .size = sizeof(receive),
        .params = params,
        .params_len = n,
        .n_tables = 1,
        .tables = &table[1],
    };
    status = kvf_receive_async(bench->engine[1], &receive, &handle[1]);
    if (status == KVF_OK) {
        status = kvf_wait(bench->engine[1], handle[1], 60000, &bench->last);
    }
    double seconds = now_s() - start;
    if (status != KVF_OK || bench->last.status != KVF_OK) {
        (void)fprintf(stderr, "bench: %s\n", bench->last.detail);
        die(bench, 1, "receive",
            status != KVF_OK ? status : (enum kvf_status)bench->last.status);
    }
    struct kvf_event sent = {.size = sizeof(sent)};
    status = kvf_wait(bench->engine[0], handle[0], 60000, &sent);
    if (status != KVF_OK) {
        die(bench, 0, "wait", status);
    }
    return seconds;
}

static size_t count_bad_blocks(const struct bench *bench)
{
    const uint8_t *from = kvf_pool_base(bench->pool[0]),
                  *to = kvf_pool_base(bench->pool[1]);
    size_t n_bad = 0;
    for (uint32_t i = 0; i < bench->n_blocks; i++) {
        n_bad += memcmp(from + (uint64_t)bench->blocks[0][i] * bench->block_bytes,
                        to + (uint64_t)bench->blocks[1][i] * bench->block_bytes,
                        bench->block_bytes) != 0;
    }
    return n_bad;
}

static int by_value(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static int run(struct bench *bench)
{
    open_side(bench, 0);
    open_side(bench, 1);
    for (int i = 0; i < bench->n_warmup; i++) {
        (void)transfer_once(bench,
                            (uint64_t)i + 1); /* only the counted rounds are kept */
    }
    double cpu = all_cpu_s(bench);
    for (int i = 0; i < bench->n_rounds; i++) {
        bench->seconds[i] = transfer_once(bench, 1000 + (uint64_t)i);
    }
    cpu = all_cpu_s(bench) - cpu;
    qsort(bench->seconds, (size_t)bench->n_rounds, sizeof(double), by_value);
    double bytes = (double)bench->n_blocks * bench->block_bytes;
    double median = bench->seconds[bench->n_rounds / 2];
    size_t n_bad = count_bad_blocks(bench);
    (void)printf("{\"name\":\"%s\",\"path\":\"%s\",\"block\":%u,\"blocks\":%u,"
                 "\"rounds\":%d,\"gb_per_s\":%.3f,\"best_gb_per_s\":%.3f,"
                 "\"cpu_s_per_gib\":%.3f,\"bad_blocks\":%zu}\n",
                 bench->label, bench->last.path, bench->block_bytes, bench->n_blocks,
                 bench->n_rounds, bytes / median / 1e9, bytes / bench->seconds[0] / 1e9,
                 cpu / (bytes * bench->n_rounds / (double)(1u << 30)), n_bad);
    kvf_engine_close(bench->engine[0]);
    kvf_engine_close(bench->engine[1]);
    free(bench->blocks[0]);
    free(bench->blocks[1]);
    return n_bad == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

static void usage(void)
{
    (void)fputs(
        "usage: transfer --context SOCKET --generation SOCKET --instances A,B\n"
        "  [--block BYTES] [--blocks N] [--rounds N] [--warmup N] [--pid PID]...\n"
        "  [--name TEXT]\n"
        "block: a multiple of 4096; the instances' kv_heads must be block / 4096\n",
        stderr);
    exit(2); /* NOLINT(concurrency-mt-unsafe): one thread */
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"context", required_argument, NULL, 'c'},
        {"generation", required_argument, NULL, 'g'},
        {"instances", required_argument, NULL, 'i'},
        {"block", required_argument, NULL, 'b'},
        {"blocks", required_argument, NULL, 'n'},
        {"rounds", required_argument, NULL, 'r'},
        {"warmup", required_argument, NULL, 'w'},
        {"pid", required_argument, NULL, 'p'},
        {"name", required_argument, NULL, 'l'},
        {NULL, 0, NULL, 0},
    };
    struct bench bench = {.label = "transfer",
                          .block_bytes = 32768,
                          .n_blocks = 4096,
                          .n_rounds = 7,
                          .n_warmup = 2};
    bench.last.size = sizeof(bench.last);
    int option;
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): one thread */
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 'c':
            bench.socket[0] = optarg;
            break;
        case 'g':
            bench.socket[1] = optarg;
            break;
        case 'i': {
            char *comma = strchr(optarg, ',');
            if (comma == NULL) {
                usage();
                break;
            }
            *comma = '\0';
            bench.instance[0] = optarg;
            bench.instance[1] = comma + 1;
            break;
        }
        case 'b':
            bench.block_bytes = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        case 'n':
            bench.n_blocks = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        case 'r':
            bench.n_rounds = (int)strtol(optarg, NULL, 10);
            break;
        case 'w':
            bench.n_warmup = (int)strtol(optarg, NULL, 10);
            break;
        case 'p':
            if (bench.n_pids < BENCH_PIDS_MAX) {
                bench.pids[bench.n_pids++] = strtol(optarg, NULL, 10);
            }
            break;
        case 'l':
            bench.label = optarg;
            break;
        default:
            usage();
        }
    }
    if (bench.socket[0] == NULL || bench.socket[1] == NULL || bench.instance[0] == NULL ||
        bench.block_bytes == 0 || bench.block_bytes % 4096 != 0 || bench.n_blocks == 0 ||
        bench.n_rounds < 1 || bench.n_rounds > BENCH_ROUNDS_MAX) {
        usage();
    }
    return run(&bench);
}
