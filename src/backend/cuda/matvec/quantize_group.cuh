// Quantization of a group by one warp, for kernels that make its values.
#pragma once

#include "backend/cuda/matvec/activations.h"

namespace tokamak::cuda {

// Elements d to d + 31 of a column of k (activations.h), one per lane; low: the low bytes too.
__device__ __forceinline__ void quantize_group(uint8_t* column, int64_t k, int64_t d, float value, int lane, bool low) {
  const uint32_t largest = __reduce_max_sync(~0u, __float_as_uint(value) & 0x7FFFFFFF);
  const Q8Scale scale = q8_scale(__uint_as_float(largest));
  const int code = scale.inverse == 0.0f ? 0 : __float2int_rn(value * scale.inverse);
  const int s0 = __reduce_add_sync(~0u, lane < 16 ? code : 0), s1 = __reduce_add_sync(~0u, lane < 16 ? 0 : code);
  column[d + lane] = static_cast<uint8_t>(code);
  if (lane == 0)
    reinterpret_cast<uint2*>(column + k)[d / 32] =
        make_uint2(__float_as_uint(scale.d), (s0 & 0xFFFF) | static_cast<uint32_t>(s1) << 16);
  if (!low) return;
  const int low_code =
      scale.inverse == 0.0f ? 0 : __float2int_rn(q8_low(value, scale.inverse, static_cast<float>(code)));
  const int l0 = __reduce_add_sync(~0u, lane < 16 ? low_code : 0),
            l1 = __reduce_add_sync(~0u, lane < 16 ? 0 : low_code);
  column += q8_low_offset(k);
  column[d + lane] = static_cast<uint8_t>(low_code);
  if (lane == 0) reinterpret_cast<uint32_t*>(column + k)[d / 32] = (l0 & 0xFFFF) | static_cast<uint32_t>(l1) << 16;
}

// Four codes of a lane: as bytes, and in eight lanes that have a group the sums of its halves as two int16, the lane's
// own half first.
struct FourCodes {
  uint32_t bytes, sums;
};
__device__ __forceinline__ FourCodes join_codes(const int (&c)[4]) {
  FourCodes out{.bytes = 0, .sums = 0};
  int sum = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    out.bytes |= static_cast<uint32_t>(c[i] & 0xFF) << 8 * i;
    sum += c[i];
  }
  sum += __shfl_xor_sync(~0u, sum, 1);
  sum += __shfl_xor_sync(~0u, sum, 2);
  out.sums = (sum & 0xFFFF) | static_cast<uint32_t>(__shfl_xor_sync(~0u, sum, 4)) << 16;
  return out;
}

// quantize_group of several groups: a lane has elements d to d + 3, eight lanes a group. All lanes of the warp must
// call, with is_inside those whose elements are stored.
__device__ __forceinline__ void quantize_four(uint8_t* column, int64_t k, int64_t d, float4 value, bool is_inside,
                                              int lane, bool low) {
  const float x[4] = {value.x, value.y, value.z, value.w};
  uint32_t largest = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) largest = max(largest, __float_as_uint(x[i]) & 0x7FFFFFFF);
#pragma unroll
  for (int i = 1; i < 8; i *= 2) largest = max(largest, __shfl_xor_sync(~0u, largest, i));
  const Q8Scale scale = q8_scale(__uint_as_float(largest));
  const bool is_zero = scale.inverse == 0.0f, is_first = is_inside && lane % 8 == 0;
  int codes[4], low_codes[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) codes[i] = is_zero ? 0 : __float2int_rn(x[i] * scale.inverse);
  const FourCodes high = join_codes(codes);
  if (is_inside) *reinterpret_cast<uint32_t*>(column + d) = high.bytes;
  if (is_first) reinterpret_cast<uint2*>(column + k)[d / 32] = make_uint2(__float_as_uint(scale.d), high.sums);
  if (!low) return;
#pragma unroll
  for (int i = 0; i < 4; ++i)
    low_codes[i] = is_zero ? 0 : __float2int_rn(q8_low(x[i], scale.inverse, static_cast<float>(codes[i])));
  const FourCodes rest = join_codes(low_codes);
  column += q8_low_offset(k);
  if (is_inside) *reinterpret_cast<uint32_t*>(column + d) = rest.bytes;
  if (is_first) reinterpret_cast<uint32_t*>(column + k)[d / 32] = rest.sums;
}

}  // namespace tokamak::cuda
