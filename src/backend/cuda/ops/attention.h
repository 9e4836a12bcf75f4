// ROPE, writes to the paged cache, and attention over it.
//
// The keys (or values) of one layer are [n_slots][n_head_kv][cache_stride(head_dim)]; a page is page_size slots in a
// row. What pads a head is zero.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace tokamak::cuda {

enum class KvType : uint8_t { f32, f16 };
constexpr int64_t cache_stride(int64_t head_dim) { return (head_dim + 7) / 8 * 8; }  // 16-byte loads, pairs

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
struct HeadArgs {
  const float* x = nullptr;
  int64_t x_stride = 0, x_head_stride = 0;  // elements, token to token, head to head
  const float* norm_weight = nullptr;       // [head_dim]
  float eps = 0;
  const float* table = nullptr;
  bool neox = false;
  int64_t n_rot = 0;
  float* y = nullptr;  // [n_tokens][n_head][head_dim]; null: to the cache
  void* cache = nullptr;
  KvType cache_type = KvType::f16;
  const int32_t* slots = nullptr;
  int64_t n_tokens = 0, n_head = 0, head_dim = 0;
};
cudaError_t launch_heads(const HeadArgs& args, cudaStream_t stream);

inline constexpr int64_t kKeyChunk = 256;     // keys that one block works on; cut at absolute positions
inline constexpr int64_t kMaxHeadDims = 576;  // of keys and values

// FLASH_ATTN_EXT; which keys are visible: cpu/ops/attention.h. A token's result is merged from its chunks in ascending
// order, whether a block walks over all of them (partials null) or every chunk has a block.
struct AttentionArgs {
  const float* q = nullptr;
  int64_t q_stride = 0, q_head_stride = 0;
  float* y = nullptr;  // [n_tokens][n_head][dv]
  const void* keys = nullptr;
  const void* values = nullptr;
  KvType type = KvType::f16;
  int64_t n_tokens = 0, n_head = 0, n_head_kv = 0, dk = 0, dv = 0, page_size = 0;
  const int32_t* positions = nullptr;
  const int32_t* seq_ids = nullptr;
  const int32_t* page_begin = nullptr;  // by sequence, into pages
  const int32_t* n_keys = nullptr;      // by sequence
  const int32_t* pages = nullptr;
  const float* sinks = nullptr;
  float scale = 1, softcap = 0;
  int64_t window = 0, chunk = 0;
  bool causal = true;
  float* partials = nullptr;  // [n_tokens][n_head][n_chunks][dv + 2]
  int64_t n_chunks = 0;       // blocks per token, at least chunks of the longest sequence
};
inline int64_t attention_partial_floats(int64_t n_tokens, int64_t n_head, int64_t dv, int64_t n_chunks) {
  return n_tokens * n_head * n_chunks * (dv + 2);
}
cudaError_t launch_attention(const AttentionArgs& args, cudaStream_t stream);
cudaError_t launch_attention_merge(const AttentionArgs& args, cudaStream_t stream);  // with partials

}  // namespace tokamak::cuda
