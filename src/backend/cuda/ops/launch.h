// How kernels are launched. For .cu files only.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "backend/cuda/overlap.h"

namespace tokamak::cuda {

inline constexpr int kWarp = 32;

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Blocks for n items of which every thread takes one or, beyond the grid's limit, several (grid-stride loops).
inline unsigned grid_for(int64_t n, int64_t threads) {
  const int64_t blocks = ceil_div(n, threads), most = 1 << 20;
  return static_cast<unsigned>(blocks < most ? blocks : most);
}

__device__ inline int64_t first_item() { return blockIdx.x * int64_t{blockDim.x} + threadIdx.x; }
__device__ inline int64_t item_step() { return int64_t{gridDim.x} * blockDim.x; }

__device__ inline float warp_sum(float x) {
  for (int d = kWarp / 2; d > 0; d /= 2) x += __shfl_xor_sync(~0u, x, d);
  return x;
}
__device__ inline float warp_max(float x) {
  for (int d = kWarp / 2; d > 0; d /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, d));
  return x;
}
// Over the whole block, for every thread; the order depends on the block's size only. All threads must call.
template <bool kMax>
__device__ inline float block_reduce(float x) {
  __shared__ float parts[kWarp];
  x = kMax ? warp_max(x) : warp_sum(x);
  __syncthreads();  // parts may still be read by an earlier call
  if (threadIdx.x % kWarp == 0) parts[threadIdx.x / kWarp] = x;
  __syncthreads();
  const unsigned n_warps = blockDim.x / kWarp;
  float out = parts[0];
  for (unsigned i = 1; i < n_warps; ++i) out = kMax ? fmaxf(out, parts[i]) : out + parts[i];
  return out;
}

}  // namespace tokamak::cuda
