#include <cuda_fp16.h>

#include "backend/cuda/columns/halves.h"
#include "backend/cuda/columns/launchers.h"
#include "backend/cuda/overlap.h"

namespace tokamak::cuda {

namespace {
constexpr int kThreads = 1024;

// Four elements from 4 * i on, zeros past the end.
__device__ float4 load_four(const float* x, int64_t k, int i, bool aligned) {
  if (aligned && 4 * i + 3 < k) return reinterpret_cast<const float4*>(x)[i];
  const auto at = [&](int j) { return 4 * i + j < k ? x[4 * i + j] : 0.0f; };
  return {at(0), at(1), at(2), at(3)};
}
__device__ uint32_t two_halves(float low, float high) {
  const __half2 halves = __floats2half2_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&halves);
}

// A CTA per column: the largest magnitude first.
__global__ void __launch_bounds__(kThreads) halve_kernel(const float* x, int64_t k, int64_t x_stride, uint8_t* halves) {
  start_after_previous_kernel();
  const float* column = x + blockIdx.x * x_stride;
  uint8_t* out = halves + blockIdx.x * halves_column_bytes(k);
  const bool aligned = reinterpret_cast<uintptr_t>(column) % 16 == 0;
  const int n = static_cast<int>(halves_padded(k) / 4);
  float largest = 0.0f;
  for (int i = threadIdx.x; i < n; i += kThreads) {
    const float4 v = load_four(column, k, i, aligned);
    largest = fmaxf(fmaxf(fmaxf(largest, fabsf(v.x)), fmaxf(fabsf(v.y), fabsf(v.z))), fabsf(v.w));
  }
  // Magnitudes are ordered as their bits are.
  __shared__ uint32_t warps[kThreads / 32];
  const uint32_t warp_largest = __reduce_max_sync(0xFFFFFFFF, __float_as_uint(largest));
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = warp_largest;
  __syncthreads();
  const uint32_t bits = __reduce_max_sync(0xFFFFFFFF, warps[threadIdx.x % 32]);
  // Of an infinity (NaN is not counted) and of zeros 1; tiny columns lose what no product can show.
  int exponent = static_cast<int>(bits >> 23) - 127;
  exponent = bits == 0 || exponent == 128 ? 14 : max(exponent, -100);
  const float scale = __uint_as_float(static_cast<uint32_t>(127 + 14 - exponent) << 23);
  if (threadIdx.x == 0)
    *reinterpret_cast<float*>(out + 2 * halves_padded(k)) =
        __uint_as_float(static_cast<uint32_t>(127 - 14 + exponent) << 23);
  for (int i = threadIdx.x; i < n; i += kThreads) {
    const float4 v = load_four(column, k, i, aligned);
    reinterpret_cast<uint2*>(out)[i] = {two_halves(v.x * scale, v.z * scale), two_halves(v.y * scale, v.w * scale)};
  }
}
}  // namespace

cudaError_t run_halve(const float* x, int64_t n_cols, int64_t k, int64_t x_stride, uint8_t* halves, bool overlap,
                      cudaStream_t stream) {
  const auto grid = static_cast<unsigned>(n_cols);
  return enqueue(halve_kernel, {grid, kThreads, 0, overlap}, stream, x, k, x_stride, halves);
}

}  // namespace tokamak::cuda
