// Activations to int8, alone or behind the norm that makes them. Eight lanes of four elements each share a group of 32.
#include <cuda_runtime_api.h>

#include "backend/cuda/matvec/activations.h"
#include "backend/cuda/matvec/quantize.h"
#include "backend/cuda/matvec/quantize_group.cuh"
#include "backend/cuda/overlap.h"

namespace tokamak::cuda {

namespace {

__global__ void __launch_bounds__(256) quantize_kernel(const __grid_constant__ QuantizeParams p) {
  allow_next_kernel();
  wait_for_previous_kernel();
  const int64_t i = static_cast<int64_t>(blockIdx.y) * blockDim.x + threadIdx.x, col = blockIdx.x;
  const bool inside = i < p.k / 4;
  const float4 v =
      inside ? reinterpret_cast<const float4*>(p.x + col * p.x_stride)[i] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  quantize_four(p.q8 + col * q8_column_bytes(p.k), p.k, 4 * i, v, inside, threadIdx.x % 32, p.low);
}

__device__ inline float4 add4(float4 a, float4 b) { return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w); }

// The sum over a block of at most kNormWarps warps, in an order that depends on its size only.
constexpr unsigned kNormWarps = 8;
__device__ inline float block_sum(float value) {
  __shared__ float sums[kNormWarps];
#pragma unroll
  for (int d = 16; d > 0; d /= 2) value += __shfl_xor_sync(0xFFFFFFFF, value, d);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;
  __syncthreads();
  const unsigned warp = threadIdx.x % kNormWarps;
  value = warp < blockDim.x / 32 ? sums[warp] : 0.0f;
#pragma unroll
  for (unsigned d = kNormWarps / 2; d > 0; d /= 2) value += __shfl_xor_sync(0xFFFFFFFF, value, d);
  return value;
}

// What a block reads of a column: quads of the input, its addend and the weight.
struct NormColumn {
  const float4 *x, *add, *weight;
  int n_quads;

  __device__ float4 input(int i) const { return add ? add4(x[i], add[i]) : x[i]; }
  // Inputs i, i + step, ..., the last one for those behind it: all loads before the first use.
  template <int n>
  __device__ void load(int i, int step, float4 (&v)[n]) const {
    float4 addend[n];
#pragma unroll
    for (int h = 0; h < n; ++h) v[h] = x[min(i + h * step, n_quads - 1)];
    if (!add) return;
#pragma unroll
    for (int h = 0; h < n; ++h) addend[h] = add[min(i + h * step, n_quads - 1)];
#pragma unroll
    for (int h = 0; h < n; ++h) v[h] = add4(v[h], addend[h]);
  }
  __device__ float4 weight_at(int i) const { return weight ? weight[i] : make_float4(1.0f, 1.0f, 1.0f, 1.0f); }
};

// A block's work on its column, without `writes` all but the writing.
__device__ __forceinline__ void norm_column(const RmsNormParams& p, const NormColumn& c, int64_t col, bool writes) {
  const int thread = static_cast<int>(threadIdx.x), run = static_cast<int>(blockDim.x);
  int first = static_cast<int>(blockIdx.y) * run;
  const float4 zero = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  float4 w = first + thread < c.n_quads ? c.weight_at(first + thread) : zero;
  constexpr int kInFlight = 4;
  float squares = 0.0f;
  float4 mine = zero;  // of the first run that the block writes
  for (int base = 0; base < c.n_quads; base += kInFlight * run) {
    float4 v[kInFlight];
    c.load(base + thread, run, v);
#pragma unroll
    for (int h = 0; h < kInFlight; ++h) {
      if (base + h * run + thread >= c.n_quads) v[h] = zero;
      squares = fused(v[h].x, v[h].x, fused(v[h].y, v[h].y, fused(v[h].z, v[h].z, fused(v[h].w, v[h].w, squares))));
      if (base + h * run == first) mine = v[h];
    }
  }
  const float mean = block_sum(squares) / static_cast<float>(p.k);
  const float factor = 1.0f / sqrtf(mean + p.eps);
  for (bool again = false; first < c.n_quads; first += static_cast<int>(gridDim.y) * run, again = true) {
    const int i = first + thread;
    const bool inside = i < c.n_quads;
    float4 v = mine;
    if (again) v = inside ? c.input(i) : zero, w = inside ? c.weight_at(i) : zero;
    if (inside && writes && p.sum) reinterpret_cast<float4*>(p.sum + col * p.x_stride)[i] = v;
    v = make_float4(w.x * (v.x * factor), w.y * (v.y * factor), w.z * (v.z * factor), w.w * (v.w * factor));
    if (inside && writes && p.norm) reinterpret_cast<float4*>(p.norm + col * p.k)[i] = v;
    if (p.q8) quantize_four(p.q8 + col * q8_column_bytes(p.k), p.k, 4 * i, v, inside && writes, thread % 32, p.low);
  }
}

// gridDim.y blocks per column. Each sums up all squares, so that none waits for another, and writes every gridDim.y-th
// run of blockDim.x quads: with one block the instructions behind the sum would take longer than all else.
// Few columns are what everything waits for: their blocks rehearse on what x holds before the kernel in front has
// ended, and find their instructions and weights at hand when it has.
__global__ void __launch_bounds__(32 * kNormWarps) rms_norm_kernel(const __grid_constant__ RmsNormParams p) {
  allow_next_kernel();
  const int64_t col = blockIdx.x;
  const NormColumn c{reinterpret_cast<const float4*>(p.x + col * p.x_stride),
                     p.add ? reinterpret_cast<const float4*>(p.add + col * p.x_stride) : nullptr,
                     reinterpret_cast<const float4*>(p.weight), static_cast<int>(p.k / 4)};
#pragma unroll 1
  for (bool writes = !p.rehearses;; writes = true) {  // a loop, so that both are the same instructions
    if (writes) wait_for_previous_kernel();
    norm_column(p, c, col, writes);
    if (writes) return;
    __syncthreads();  // block_sum's memory is used again
  }
}

}  // namespace

cudaError_t run_quantize(const QuantizeParams& p, bool overlap, cudaStream_t stream) {
  const auto n_blocks = static_cast<unsigned>((p.k / 4 + 255) / 256);
  // Columns of experts are more than the 65,535 that the other two dimensions of a grid take.
  return enqueue(quantize_kernel, {dim3(static_cast<unsigned>(p.n_cols), n_blocks), 256, 0, overlap}, stream, p);
}

cudaError_t run_rms_norm(RmsNormParams p, bool overlap, cudaStream_t stream) {
  const int64_t n_quads = p.k / 4, n_warps = (n_quads + 31) / 32;
  const unsigned n_threads = 32 * static_cast<unsigned>(n_warps < kNormWarps ? n_warps : kNormWarps);
  // Blocks per column: as many as there is something to write for, where columns alone leave the device empty. A sum
  // may lie where x does, which other blocks still read.
  constexpr int64_t kFewColumns = 64, kMaxBlocks = 16;
  const int64_t n_runs = (n_quads + n_threads - 1) / n_threads;
  const int64_t n_blocks = p.n_cols > kFewColumns || p.sum ? 1 : n_runs < kMaxBlocks ? n_runs : kMaxBlocks;
  const dim3 grid(static_cast<unsigned>(p.n_cols), static_cast<unsigned>(n_blocks));
  p.rehearses = overlap && p.n_cols <= kFewColumns;
  return enqueue(rms_norm_kernel, {grid, n_threads, 0, overlap}, stream, p);
}

}  // namespace tokamak::cuda
