// What a token of AttentionArgs sees (whole warps must ask), and how results over chunks of keys are put together. For
// .cu files only.
//
// Scores are kept times log2(e), so that powers of 2 take the place of exponentials.
#pragma once

#include <cuda_runtime.h>

#include "backend/cuda/attention/attention.h"
#include "backend/cuda/matvec/quantize_group.cuh"
#include "backend/cuda/ops/launch.h"
#include "backend/cuda/overlap.h"

namespace tokamak::cuda {

inline constexpr float kLog2e = 1.44269504f;

struct TokenKeys {
  const int32_t* pages;
  int begin, end;  // visible keys
};
__device__ inline TokenKeys token_keys(const AttentionArgs& a, int64_t token) {
  // Read along with the sequence's number, not after it: there are as many sequences as tokens at most.
  const int lane = threadIdx.x % kWarp;
  const int32_t early = lane < a.n_tokens ? a.page_begin[lane] : 0;
  const int32_t seq = a.seq_ids[token], position = a.positions[token];
  const int32_t found = __shfl_sync(~0u, early, seq % kWarp);
  const int32_t page_begin = seq < kWarp && seq < a.n_tokens ? found : a.page_begin[seq];
  TokenKeys out{.pages = a.pages + page_begin, .begin = 0, .end = a.causal ? position + 1 : a.n_keys[seq]};
  const int window = static_cast<int>(a.window), chunk = static_cast<int>(a.chunk);
  if (window > 0) {
    out.begin = max(0, position - window + 1);
    out.end = min(out.end, position + 1);
  }
  if (chunk > 0) out.begin = max(out.begin, position / chunk * chunk);
  return out;
}
__device__ inline KeyChunks chunks_of(const AttentionArgs& a, const TokenKeys& keys) {
  return key_chunks(keys.begin, keys.end, static_cast<int>(a.n_head_kv));
}

// Partial results: values [n_tokens][n_head][n_chunks][dv], then {largest score, sum} for each.
__device__ inline float* partial_values(const AttentionArgs& a, int64_t token, int64_t head, int64_t chunk) {
  return a.partials + ((token * a.n_head + head) * a.n_chunks + chunk) * a.dv;
}
__device__ inline float2* partial_stats(const AttentionArgs& a, int64_t token, int64_t head, int64_t chunk) {
  auto* stats = reinterpret_cast<float2*>(a.partials + a.n_tokens * a.n_head * a.n_chunks * a.dv);
  return stats + (token * a.n_head + head) * a.n_chunks + chunk;
}

// The factor that makes a sum of weighted values the result; largest and sum as in partial_stats.
__device__ inline float final_factor(const AttentionArgs& a, int64_t head, float largest, float sum) {
  if (sum == 0) return 0;
  if (!a.sinks) return 1.0f / sum;
  const float sink = a.sinks[head] * kLog2e, top = fmaxf(largest, sink), factor = exp2f(largest - top);
  return factor / fmaf(sum, factor, exp2f(sink - top));
}

// A warp quantizes 32 neighbouring elements of a token's result, the d-th of the whole row on, where that is wanted.
__device__ __forceinline__ void quantize_group(const AttentionArgs& a, int64_t token, int64_t d, float value,
                                               int lane) {
  if (!a.q8) return;
  const int64_t n = a.n_head * a.dv;
  quantize_group(a.q8 + token * q8_column_bytes(n), n, d, value, lane, a.q8_low);
}

// The same with four neighbouring elements per lane: quantize_four.
__device__ __forceinline__ void quantize_four(const AttentionArgs& a, int64_t token, int64_t d, float4 x,
                                              bool is_inside, int lane) {
  if (!a.q8) return;
  const int64_t n = a.n_head * a.dv;
  quantize_four(a.q8 + token * q8_column_bytes(n), n, d, x, is_inside, lane, a.q8_low);
}

}  // namespace tokamak::cuda
