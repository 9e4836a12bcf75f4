#include "backend/cuda/columns/halves.h"
#include "backend/cuda/columns/launchers.h"
#include "backend/cuda/overlap.h"
#include "backend/cuda/ptx/arithmetic.cuh"

namespace tokamak::cuda {

namespace {
constexpr int kThreads = 1024;

// Elements 8i .. 8i + 7 of a column, zeros past the end.
struct Eight {
  float v[8];
};
__device__ Eight load_eight(const float* x, int64_t k, int i, bool aligned) {
  Eight out;
  if (aligned && 8 * i + 7 < k) {
    const float4 a = reinterpret_cast<const float4*>(x)[2 * i], b = reinterpret_cast<const float4*>(x)[2 * i + 1];
    return {{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}};
  }
#pragma unroll
  for (int j = 0; j < 8; ++j) out.v[j] = 8 * i + j < k ? x[8 * i + j] : 0.0f;
  return out;
}

// A CTA per column: the largest magnitude first.
__global__ void __launch_bounds__(kThreads) halve_kernel(const float* x, int64_t k, int64_t x_stride, uint8_t* halves) {
  start_after_previous_kernel();
  const float* column = x + blockIdx.x * x_stride;
  const bool aligned = reinterpret_cast<uintptr_t>(column) % 16 == 0;
  const int n = static_cast<int>(halves_padded(k) / 8);
  float largest = 0.0f;
  for (int i = threadIdx.x; i < n; i += kThreads) {
    const Eight e = load_eight(column, k, i, aligned);
#pragma unroll
    for (int j = 0; j < 8; ++j) largest = fmaxf(largest, fabsf(e.v[j]));
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
    reinterpret_cast<float*>(halves + halves_factors_at(k, gridDim.x))[blockIdx.x] =
        __uint_as_float(static_cast<uint32_t>(127 - 14 + exponent) << 23);
  for (int i = threadIdx.x; i < n; i += kThreads) {
    // Neighbours write beside each other: t changes first, then the eight of the 32.
    const int at = i / 16 * 16 + i % 4 * 4 + i / 4 % 4;
    Eight e = load_eight(column, k, at, aligned);
#pragma unroll
    for (float& v : e.v) v *= scale;
    const auto& v = e.v;
    const uint4 out{ptx::to_halves(v[0], v[2]), ptx::to_halves(v[1], v[3]), ptx::to_halves(v[4], v[6]),
                    ptx::to_halves(v[5], v[7])};
    *reinterpret_cast<uint4*>(halves + halves_place(k, blockIdx.x, at)) = out;
  }
}
}  // namespace

cudaError_t run_halve(const float* x, int64_t n_cols, int64_t k, int64_t x_stride, uint8_t* halves, bool overlap,
                      cudaStream_t stream) {
  const auto grid = static_cast<unsigned>(n_cols);
  return enqueue(halve_kernel, {grid, kThreads, 0, overlap}, stream, x, k, x_stride, halves);
}

}  // namespace tokamak::cuda
