// ROPE, writes to the paged cache, and attention over it. Where keys and values lie: layout.h.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "backend/cuda/attention/chunks.h"
#include "backend/cuda/attention/layout.h"

namespace tokamak::cuda {

// rows[t] = n_rot factors of the dimension itself, then n_rot of its partner, as cpu/ops/rope.h has them.
struct RopeTableArgs {
  const double* frequencies = nullptr;  // [n_rot / 2] radians per position
  double attn_factor = 1;
  bool neox = false;  // pairs (i, i + n_rot / 2), else (2i, 2i + 1)
  int64_t n_rot = 0, n_tokens = 0;
  const int32_t* positions = nullptr;
  float* rows = nullptr;  // [n_tokens][2 n_rot]
};
cudaError_t launch_rope_table(const RopeTableArgs& args, cudaStream_t stream);

// Per head: RMS norm with weight (norm_weight not null), rotation (table not null), then to y or to the cache.
struct HeadJob {
  const float* x = nullptr;
  int64_t x_stride = 0, x_head_stride = 0;  // elements, token to token, head to head
  const float* norm_weight = nullptr;       // [head_dim]
  float eps = 0;
  const float* table = nullptr;
  bool neox = false;
  int64_t n_rot = 0;
  float* y = nullptr;  // [n_tokens][n_head][head_dim]; may be x; null: to the cache
  void* cache = nullptr;
  KvHeadLayout layout = {};        // of the cache
  const int32_t* slots = nullptr;  // [n_tokens], where the cache takes them
  int64_t n_head = 0, head_dim = 0;
};
inline constexpr int kMaxHeadJobs = 3;  // queries, keys, values
struct HeadsArgs {
  HeadJob jobs[kMaxHeadJobs];  // none reads what another one writes
  int n_jobs = 0;
  int64_t n_tokens = 0;
};
cudaError_t launch_heads(const HeadsArgs& args, cudaStream_t stream);

inline constexpr int64_t kMaxHeadDims = 576;  // of keys and values

// FLASH_ATTN_EXT; which keys are visible: cpu/ops/attention.h. A token's keys are cut into chunks as chunks.h says.
// Split (partials not null): every chunk has a block, and launch_attention_merge must follow. Else one block walks over
// all chunks of a token and head; the same result when there is one chunk.
struct AttentionArgs {
  const float* q = nullptr;
  int64_t q_stride = 0, q_head_stride = 0;
  float* y = nullptr;     // [n_tokens][n_head][dv]
  uint8_t* q8 = nullptr;  // y quantized too, n_tokens columns of matvec/activations.h (with writes_q8)
  bool q8_low = false;    // with their low bytes
  const void* keys = nullptr;
  const void* values = nullptr;
  KvType type = KvType::f16;
  int64_t n_tokens = 0, n_head = 0, n_head_kv = 0, dk = 0, dv = 0, page_size = 0;
  int64_t n_step_tokens = 0;  // of the step that these are a part of; 0: n_tokens
  // Inputs of the step: they are read before the kernel before this one has ended.
  const int32_t* positions = nullptr;
  const int32_t* seq_ids = nullptr;
  const int32_t* page_begin = nullptr;  // by sequence, into pages
  const int32_t* n_keys = nullptr;      // by sequence
  const int32_t* pages = nullptr;
  const float* sinks = nullptr;
  float scale = 1, softcap = 0;
  int64_t window = 0, chunk = 0;
  bool causal = true;
  float* partials = nullptr;  // attention_partial_floats()
  int64_t most_keys = 0;      // with partials: no sequence has more keys
  int64_t n_chunks = 0;       // attention_chunks(*this, most_keys), blocks per token
};
inline int64_t attention_partial_floats(int64_t n_tokens, int64_t n_head, int64_t dv, int64_t n_chunks) {
  return n_tokens * n_head * n_chunks * (dv + 2);
}
// The most chunks of a token when no sequence has more than n_keys keys.
inline int64_t attention_chunks(const AttentionArgs& args, int64_t n_keys) {
  const int64_t window = args.window + kKeyTile;
  return max_key_chunks(args.window > 0 && window < n_keys ? window : n_keys, args.n_head_kv);
}
// Whether there is a kernel for these head sizes and this type on tensor cores. Else a generic one works.
bool has_decode_attention(const AttentionArgs& args);
inline bool writes_q8(const AttentionArgs& args) { return has_decode_attention(args) && args.dv % 32 == 0; }
cudaError_t launch_attention(const AttentionArgs& args, cudaStream_t stream);
cudaError_t launch_attention_merge(const AttentionArgs& args, cudaStream_t stream);  // with partials

// The queries, the key and the value of a step of one token: what launch_heads would make of them first.
struct TokenHeads {
  HeadJob q, k, v;  // q.y is not written
};
// Whether launch_heads and launch_attention are one launch too: args.q is not read then, and y and q8 must not overlap
// what the heads are made of. The token's slot must be that of its position.
bool attention_makes_heads(const AttentionArgs& args, const TokenHeads& heads);
// The bits of the two launches.
cudaError_t launch_attention_with_heads(const AttentionArgs& args, const TokenHeads& heads, cudaStream_t stream);

}  // namespace tokamak::cuda
