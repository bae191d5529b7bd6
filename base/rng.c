/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The system's randomness and a seeded sequence behind the kvf_rng port. The seeded one
 * is xoroshiro128++ (Blackman and Vigna, 2019) with its state filled by splitmix64, so
 * that near seeds give unrelated sequences; it is for tests and the simulator and says
 * nothing about secrecy. A generator belongs to one thread.
 */
#include "base/rng.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* Nonces and tokens must not be guessable, and fill has no way to say "no": a kernel
 * without getrandom (before 3.17) is one we cannot run on. */
static void system_fill(struct kvf_rng *rng, void *bytes, size_t n_bytes)
{
    (void)rng;
    uint8_t *next = bytes;
    while (n_bytes > 0) {
        ssize_t n = getrandom(next, n_bytes, 0);
        if (n > 0) {
            next += n;
            n_bytes -= (size_t)n;
        } else if (errno != EINTR) {
            abort();
        }
    }
}

static uint64_t rotate_left(uint64_t x, unsigned n_bits)
{
    return (x << n_bits) | (x >> (64 - n_bits));
}

static uint64_t seeded_next(struct kvf_rng *rng)
{
    uint64_t s0 = rng->state[0];
    uint64_t s1 = rng->state[1];
    uint64_t result = rotate_left(s0 + s1, 17) + s0;
    s1 ^= s0;
    rng->state[0] = rotate_left(s0, 49) ^ s1 ^ (s1 << 21);
    rng->state[1] = rotate_left(s1, 28);
    return result;
}

static void seeded_fill(struct kvf_rng *rng, void *bytes, size_t n_bytes)
{
    uint8_t *next = bytes;
    while (n_bytes > 0) {
        uint64_t word = seeded_next(rng);
        size_t n = n_bytes < sizeof(word) ? n_bytes : sizeof(word);
        memcpy(next, &word, n);
        next += n;
        n_bytes -= n;
    }
}

static uint64_t splitmix_next(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15u;
    uint64_t z = *state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static const struct kvf_rng_ops system_ops = {.fill = system_fill};
static const struct kvf_rng_ops seeded_ops = {.fill = seeded_fill};

void kvf_rng_init_system(struct kvf_rng *rng)
{
    *rng = (struct kvf_rng){.ops = &system_ops};
}

void kvf_rng_init_seeded(struct kvf_rng *rng, uint64_t seed)
{
    *rng = (struct kvf_rng){.ops = &seeded_ops};
    /* splitmix64 is a bijection of a counter: the two words are never both zero, the one
     * state xoroshiro cannot leave. */
    rng->state[0] = splitmix_next(&seed);
    rng->state[1] = splitmix_next(&seed);
}

uint64_t kvf_rng_u64(struct kvf_rng *rng)
{
    uint64_t word = 0;
    kvf_rng_fill(rng, &word, sizeof(word));
    return word;
}

uint64_t kvf_rng_below(struct kvf_rng *rng, uint64_t n)
{
    assert(n >= 1);
    /* Words below 2^64 mod n would make the small results more likely: draw again. Less
     * than half of all words are refused, whatever n is. */
    uint64_t n_refused = (UINT64_MAX - n + 1) % n;
    uint64_t word;
    do {
        word = kvf_rng_u64(rng);
    } while (word < n_refused);
    return word % n;
}
