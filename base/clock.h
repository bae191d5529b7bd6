/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time as a port: logic asks a kvf_clock, tests and the simulator hand in their own. Only
 * the monotonic clock decides anything; wall time is printed, never compared.
 */
#ifndef KVF_BASE_CLOCK_H
#define KVF_BASE_CLOCK_H

#include <stdint.h>

struct kvf_clock;
struct kvf_clock_ops {
    uint64_t (*now_ns)(const struct kvf_clock *clock);  /* CLOCK_MONOTONIC */
    uint64_t (*wall_ns)(const struct kvf_clock *clock); /* since 1970, UTC */
};
struct kvf_clock {
    const struct kvf_clock_ops *ops;
};

extern const struct kvf_clock kvf_clock_system;

static inline uint64_t kvf_clock_now_ns(const struct kvf_clock *clock)
{
    return clock->ops->now_ns(clock);
}

static inline uint64_t kvf_clock_wall_ns(const struct kvf_clock *clock)
{
    return clock->ops->wall_ns(clock);
}

#define KVF_NS_PER_US     1000ull
#define KVF_NS_PER_MS     1000000ull
#define KVF_NS_PER_S      1000000000ull

#define KVF_TIME_TEXT_MAX 32
/* "2026-11-30T21:00:00.123456Z" */
void kvf_clock_format_wall(uint64_t wall_ns, char out_text[KVF_TIME_TEXT_MAX]);

#endif
