// What the warps of a block of decode attention have found, and how it becomes the block's result.
#pragma once

#include "backend/cuda/attention/decode_fetch.cuh"
#include "backend/cuda/attention/decode_ops.cuh"

namespace tokamak::cuda::decode {

inline constexpr float kProbabilityUnit = 4096;  // probabilities are up to this: small ones stay normal f16

// Weighted values of a warp so far, and the softmax they belong to. Lane 4g + t has columns 2t and 2t + 1.
template <class C>
struct Result {
  float largest[2] = {-INFINITY, -INFINITY};
  float sum[2] = {};               // over the lane's keys
  float acc[C::kDv / 16][4] = {};  // dimensions 16j + g and g + 8, or where codes are decoded 16j + 2g and 2g + 1
  // Scaled types: acc is 2^(kTop - exponent) times the values; exponent is that of the largest scale so far.
  int exponent = C::kType == KvType::q8_0 ? 0 : 40;

  static constexpr int kTop = C::kType == KvType::q8_0 ? 16 : 128;
  __device__ float up() const { return __uint_as_float((127 + kTop - exponent) << 23); }
  __device__ float down() const {
    if constexpr (!C::kCodes) return 1.0f;
    return __uint_as_float((127 - kTop + exponent) << 23) * (C::kType == KvType::f8 ? kF8Decoded : 1.0f);
  }
};

// results [kWarps][kColumns][kResultStride], stats [kWarps][kColumns]: largest score and sum.
template <class C>
__device__ __forceinline__ void leave_result(Result<C>& r, float* results, float2* stats, int warp, int lane) {
  const int g = lane / 4, t = lane % 4;
  const float down = r.down() / kProbabilityUnit;
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int d = 4; d < kWarp; d *= 2) r.sum[i] += __shfl_xor_sync(~0u, r.sum[i], d);
  float* own = results + warp * C::kColumns * C::kResultStride;
  const auto place = [&](int column, int j, int i) -> float& {
    return own[column * C::kResultStride + 16 * j + (C::kCodes ? 2 * g + i / 2 : g + i / 2 * 8)];
  };
  if constexpr (C::kFew) {
    // Columns 4 to 7 are the second parts of 0 to 3: of two neighbouring j, lanes with t < 2 finish the first one.
#pragma unroll
    for (int j = 0; j < C::kDv / 16; j += 2)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const bool has_two = j + 1 < C::kDv / 16;
        const float first = r.acc[j][i], second = has_two ? r.acc[has_two ? j + 1 : j][i] : 0.0f;
        const float other = __shfl_xor_sync(~0u, t < 2 ? second : first, 2);
        if (t < 2 || has_two)
          place(2 * (t % 2) + i % 2, t < 2 ? j : j + 1, i) = ((t < 2 ? first : second) + other) * down;
      }
  } else {
#pragma unroll
    for (int j = 0; j < C::kDv / 16; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) place(2 * t + i % 2, j, i) = r.acc[j][i] * down;
  }
  if (g == 0)
    for (int i = 0; i < 2; ++i)
      if (2 * t + i < C::kColumns)
        stats[warp * C::kColumns + 2 * t + i] = make_float2(r.largest[i], r.sum[i] / kProbabilityUnit);
}

// The four warps' results of one head become one. A lane takes four neighbouring dimensions at a time.
template <class C>
__device__ __forceinline__ void write_head(const AttentionArgs& a, const Work& w, const float* results,
                                           const float2* stats, int head, int lane) {
  float factors[kWarps], largest = -INFINITY, sum = 0;
#pragma unroll
  for (int i = 0; i < kWarps; ++i) largest = fmaxf(largest, stats[i * C::kColumns + head].x);
#pragma unroll
  for (int i = 0; i < kWarps; ++i) {
    const float2 s = stats[i * C::kColumns + head];
    factors[i] = s.y == 0 ? 0.0f : exp2f(s.x - largest);
    sum = fmaf(s.y, factors[i], sum);
  }
  const int64_t at = w.first_head + head;
  float factor = 1;
  if (!a.partials)
    factor = final_factor(a, at, largest, sum);
  else if (lane == 0)
    *partial_stats(a, w.token, at, w.chunk) = make_float2(largest, sum);
  float* out = a.partials ? partial_values(a, w.token, at, w.chunk) : a.y + (w.token * a.n_head + at) * C::kDv;
#pragma unroll
  for (int first = 0; first < C::kDv; first += 4 * kWarp) {
    const int d = first + 4 * lane;
    const bool is_inside = C::kDv % (4 * kWarp) == 0 || d < C::kDv;
    float4 value = make_float4(0, 0, 0, 0);
#pragma unroll
    for (int i = 0; i < kWarps; ++i) {
      if (!is_inside) continue;
      const float* from = results + (i * C::kColumns + head) * C::kResultStride + d;
      const float4 x = *reinterpret_cast<const float4*>(from);
      value.x = fmaf(x.x, factors[i], value.x);
      value.y = fmaf(x.y, factors[i], value.y);
      value.z = fmaf(x.z, factors[i], value.z);
      value.w = fmaf(x.w, factors[i], value.w);
    }
    if (!a.partials) value = make_float4(value.x * factor, value.y * factor, value.z * factor, value.w * factor);
    if (is_inside) *reinterpret_cast<float4*>(out + d) = value;
    if (C::kDv % kWarp == 0 && !a.partials) quantize_four(a, w.token, at * C::kDv + d, value, is_inside, lane);
  }
}

}  // namespace tokamak::cuda::decode
