// Attention of steps with many tokens: tiles of queries on tensor cores.
//
// A tile is some tokens of one sequence with all query heads of one key head, so keys and values are fetched once for
// the group. It walks over blocks of 64 keys at absolute positions in ascending order. Rows of a tile do not meet, and
// a block of which a row sees nothing leaves the row's bits alone: a token's result does not depend on the other
// tokens, on how a prompt is cut into steps, on the pages or on the grid.
//
// Arithmetic: queries (times scale), keys, values and probabilities are f16, values beyond f16 are clamped to its
// range; products are summed in f32. Keys of the step's later tokens are multiplied by zero, so an infinite one is
// seen by earlier tokens of its tile.
// Source: Dao et al. 2022 (arXiv:2205.14135); Milakov & Gimelshein 2018 (arXiv:1805.02867).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "backend/cuda/attention/layout.h"

namespace tokamak::cuda {

// FLASH_ATTN_EXT; which keys are visible: cpu/ops/attention.h.
struct PrefillAttentionArgs {
  const float* q = nullptr;                 // [n_tokens][n_head][dk], 16-byte aligned
  int64_t q_stride = 0, q_head_stride = 0;  // elements, token to token, head to head; multiples of 4
  float* y = nullptr;                       // [n_tokens][n_head][dv], 8-byte aligned; must not overlap q
  const void* keys = nullptr;               // planes of layout.h; the step's own keys are there already
  const void* values = nullptr;
  KvType type = KvType::f16;
  int64_t n_tokens = 0, n_head = 0, n_head_kv = 0, dk = 0, dv = 0, page_size = 0;
  const int32_t* positions = nullptr;   // [n_tokens]
  const int32_t* seq_ids = nullptr;     // [n_tokens]
  const int32_t* page_begin = nullptr;  // by sequence, into pages
  const int32_t* n_keys = nullptr;      // by sequence; read where attention is not causal
  const int32_t* pages = nullptr;
  const int32_t* tiles = nullptr;  // of launch_prefill_tiles for prefill_tile_tokens() of this shape
  const float* sinks = nullptr;    // [n_head] or null
  float scale = 1, softcap = 0;    // scale > 0
  int64_t window = 0, chunk = 0;
  bool causal = true;
  // Split (not null, with prefill_splits): every kPrefillSplitKeys keys are worked on apart, and launch_prefill_merge
  // must follow; the same bits. For few tokens with a long context.
  float* partials = nullptr;  // prefill_partial_floats()
  int64_t n_parts = 0;        // at least those of any token
  bool wide = true;           // with products of warpgroups where there are any; another order of sums
};

// Tokens per tile; 0: there is no kernel for this type, these head sizes, so many query heads per key head or this
// device (compute capability below 9.0).
int64_t prefill_tile_tokens(KvType type, int64_t dk, int64_t dv, int64_t n_head, int64_t n_head_kv, bool wide = true);

// Keys are worked on, and results merged, in parts of so many at absolute positions.
inline constexpr int kPrefillSplitKeys = 4096;
// Whether the kernel for this shape can split.
bool prefill_splits(KvType type, int64_t dk, int64_t dv);
constexpr int64_t prefill_partial_floats(int64_t n_tokens, int64_t n_head, int64_t dv, int64_t n_parts) {
  return n_tokens * n_head * n_parts * (dv + 2);
}

// Cuts a step into tiles of at most tile_tokens neighbouring tokens of the same sequence. The same for all layers of a
// step that have the same prefill_tile_tokens().
//   tiles  [n_tokens + 2]: n, then the first token of each of n tiles, then n_tokens
inline constexpr int64_t prefill_tile_ints(int64_t n_tokens) { return n_tokens + 2; }
cudaError_t launch_prefill_tiles(const int32_t* seq_ids, int64_t n_tokens, int64_t tile_tokens, int32_t* tiles,
                                 cudaStream_t stream);

cudaError_t launch_prefill_attention(const PrefillAttentionArgs& args, cudaStream_t stream);
cudaError_t launch_prefill_merge(const PrefillAttentionArgs& args, cudaStream_t stream);  // with partials

}  // namespace tokamak::cuda
