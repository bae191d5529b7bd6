/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How KV blocks lie in a pool: bytes and strides, nothing else.
 *
 * address(layer, kv, block, head, token, byte) =
 *     pool base + layer_offsets[layer] + kv * kv_stride + block * block_stride
 *     + head * head_stride + token * token_stride + byte,    0 <= byte < row_bytes
 *
 * A "row" is what one token of one head of one plane occupies: head_dim * element bytes
 * for K or V, the latent width for MLA, the packed row for an indexer or a scale pool.
 * HND, NHD, blocks-first and per-layer tensors differ in the numbers only.
 */
#ifndef KVFERRY_LAYOUT_H
#define KVFERRY_LAYOUT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Element types; the values are those of the original cache transceiver. */
enum kvf_dtype {
    KVF_DTYPE_F32 = 0,
    KVF_DTYPE_F16 = 1,
    KVF_DTYPE_I8 = 2,
    KVF_DTYPE_I32 = 3,
    KVF_DTYPE_BOOL = 4,
    KVF_DTYPE_U8 = 5,
    KVF_DTYPE_FP8 = 6,
    KVF_DTYPE_BF16 = 7,
    KVF_DTYPE_I64 = 8,
    KVF_DTYPE_I4 = 9,
    KVF_DTYPE_FP4 = 10
};

enum kvf_attention { KVF_ATTENTION_DEFAULT = 0, KVF_ATTENTION_MLA = 1 };

enum kvf_memory { KVF_MEMORY_HOST = 0, KVF_MEMORY_CUDA = 1 };

/* All counts are those of one rank. Every stride is in bytes. */
struct kvf_layout {
    uint32_t size;             /* sizeof(struct kvf_layout) of the caller */
    uint32_t n_layers;         /* layers of this rank in this pool, >= 1 */
    uint32_t kv_factor;        /* planes: 2 = K and V, 1 = latent or K only */
    uint32_t n_heads;          /* KV heads held by this rank; 1 for MLA */
    uint32_t tokens_per_block; /* B */
    uint32_t row_bytes;        /* bytes of one (plane, head, token) row */
    uint32_t n_blocks;         /* valid block ids are 0 .. n_blocks-1 */
    uint32_t dtype;            /* enum kvf_dtype; compared, never converted */
    uint64_t block_stride;
    uint64_t kv_stride;
    uint64_t head_stride;
    uint64_t token_stride;
    const uint64_t
        *layer_offsets; /* [n_layers] from the pool base; borrowed by the call */
};

/*
 * How one instance spreads its KV cache over ranks: CacheState of the original, as seen
 * from one rank. Rank numbering is pp * (tp * cp) + tp * cp + cp (CP fastest).
 */
struct kvf_cache_state {
    const int32_t *kv_heads_per_layer; /* [n_model_layers], heads held by one rank */
    uint64_t n_model_layers;           /* attention layers over all pipeline stages */
    int32_t size_per_head;             /* elements; latent width for MLA */
    int32_t tokens_per_block;
    int32_t tp, pp, cp;
    uint32_t has_attention_dp; /* 0 or 1, like every has_, is_ field here */
    int32_t dp_rank, dp_size;
    const int32_t *layers_per_stage; /* [n_stages], may be uneven, may contain 0 */
    uint64_t n_stages;
    int32_t attention; /* enum kvf_attention */
    int32_t kv_factor; /* 2 = K and V, 1 = K only or latent */
    int32_t dtype;     /* enum kvf_dtype */
    uint32_t has_block_reuse, has_partial_reuse, has_indexer;
    int32_t indexer_dim_per_head, indexer_quant_block_size;
    uint32_t indexer_is_fp4;
    uint32_t rank_convention; /* 1 = CP fastest; anything else is refused */
};

#ifdef __cplusplus
}
#endif
#endif
