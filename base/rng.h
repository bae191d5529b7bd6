/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Randomness as a port: nonces and tokens from the system, or a seeded sequence in tests
 * and in the simulator. Not a cryptographic API; tokens take it because the system one
 * is.
 */
#ifndef KVF_BASE_RNG_H
#define KVF_BASE_RNG_H

#include <stddef.h>
#include <stdint.h>

struct kvf_rng;
struct kvf_rng_ops {
    void (*fill)(struct kvf_rng *rng, void *bytes, size_t n_bytes);
};
struct kvf_rng {
    const struct kvf_rng_ops *ops;
    uint64_t state[2]; /* seeded sequence only */
};

void kvf_rng_init_system(struct kvf_rng *rng);
void kvf_rng_init_seeded(struct kvf_rng *rng, uint64_t seed);

static inline void kvf_rng_fill(struct kvf_rng *rng, void *bytes, size_t n_bytes)
{
    rng->ops->fill(rng, bytes, n_bytes);
}

uint64_t kvf_rng_u64(struct kvf_rng *rng);
/* Uniform in [0, n); n >= 1. */
uint64_t kvf_rng_below(struct kvf_rng *rng, uint64_t n);

#endif
