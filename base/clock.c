/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The system's clock behind the kvf_clock port, and the one way in which wall time is
 * written. Nothing outside base/ calls clock_gettime. Any thread.
 */
#include "base/clock.h"

#include <stdio.h>
#include <time.h>

static uint64_t read_ns(clockid_t id)
{
    struct timespec ts = {0};
    (void)clock_gettime(id, &ts); /* both ids always exist on Linux */
    return (uint64_t)ts.tv_sec * KVF_NS_PER_S + (uint64_t)ts.tv_nsec;
}

static uint64_t system_now_ns(const struct kvf_clock *clock)
{
    (void)clock;
    return read_ns(CLOCK_MONOTONIC);
}

static uint64_t system_wall_ns(const struct kvf_clock *clock)
{
    (void)clock;
    return read_ns(CLOCK_REALTIME);
}

static const struct kvf_clock_ops system_ops = {
    .now_ns = system_now_ns,
    .wall_ns = system_wall_ns,
};

const struct kvf_clock kvf_clock_system = {.ops = &system_ops};

void kvf_clock_format_wall(uint64_t wall_ns, char out_text[KVF_TIME_TEXT_MAX])
{
    /* 2^64 ns end in the year 2554: four digits of year always suffice. */
    time_t seconds = (time_t)(wall_ns / KVF_NS_PER_S);
    unsigned microseconds = (unsigned)(wall_ns % KVF_NS_PER_S / KVF_NS_PER_US);
    struct tm utc;
    (void)gmtime_r(&seconds, &utc); /* fails only for years beyond int */
    size_t n = strftime(out_text, KVF_TIME_TEXT_MAX, "%Y-%m-%dT%H:%M:%S", &utc);
    (void)snprintf(out_text + n, KVF_TIME_TEXT_MAX - n, ".%06uZ", microseconds);
}
