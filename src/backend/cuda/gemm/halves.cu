// Activations to binary16 tiles (layout: gemm.h). One CTA per column: its largest magnitude, then the conversion.
#include "backend/cuda/gemm/half.h"
#include "backend/cuda/gemm/kernels.h"
#include "backend/cuda/overlap.h"

namespace tokamak::cuda {

namespace {

constexpr int kThreads = 256;

__device__ uint32_t largest_of_block(uint32_t value) {
  __shared__ uint32_t parts[kThreads / 32];
  value = __reduce_max_sync(0xFFFFFFFF, value);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  return __reduce_max_sync(0xFFFFFFFF, parts[threadIdx.x % (kThreads / 32)]);
}

// What step `step` of 16 takes of a column: elements 4i .. 4i + 3 of the four blocks of 32 of its group of 128.
struct Step {
  float4 v[4];

  __device__ static Step load(const float* x, int64_t step, int64_t k, bool aligned) {
    Step out;
#pragma unroll
    for (int t = 0; t < 4; ++t) {
      const int64_t at = step / 8 * 128 + step % 8 * 4 + 32 * t;
      if (aligned && at + 4 <= k)
        out.v[t] = *reinterpret_cast<const float4*>(x + at);
      else
        out.v[t] = {at < k ? x[at] : 0.0f, at + 1 < k ? x[at + 1] : 0.0f, at + 2 < k ? x[at + 2] : 0.0f,
                    at + 3 < k ? x[at + 3] : 0.0f};
    }
    return out;
  }
  // As bits of a magnitude: infinities and NaN win.
  __device__ uint32_t largest() const {
    uint32_t most = 0;
#pragma unroll
    for (int t = 0; t < 4; ++t)
      most = max(most, max(max(__float_as_uint(v[t].x) & 0x7FFFFFFF, __float_as_uint(v[t].y) & 0x7FFFFFFF),
                           max(__float_as_uint(v[t].z) & 0x7FFFFFFF, __float_as_uint(v[t].w) & 0x7FFFFFFF)));
    return most;
  }
  template <bool kLow>
  __device__ void store(const HalfColumnsParams& p, int column, int64_t step, float inverse) const {
    uint32_t low[4], high[4];
#pragma unroll
    for (int t = 0; t < 4; ++t) {
      low[t] = split_halves<kLow>(v[t].x * inverse, v[t].z * inverse);
      high[t] = split_halves<kLow>(v[t].y * inverse, v[t].w * inverse);
    }
    uint8_t* out = p.tiles + (step / 4 * p.n_padded + column) * 128;
    const int chunk = static_cast<int>(step % 4 * 2), turn = column & 7;
    *reinterpret_cast<uint4*>(out + ((chunk ^ turn) * 16)) = make_uint4(low[0], low[1], low[2], low[3]);
    *reinterpret_cast<uint4*>(out + (((chunk + 1) ^ turn) * 16)) = make_uint4(high[0], high[1], high[2], high[3]);
  }
};

// The first kSteps steps of a thread stay in registers; further ones are read again.
template <int kSteps, bool kLow>
__global__ void __launch_bounds__(kThreads) half_columns_kernel(const __grid_constant__ HalfColumnsParams p) {
  start_after_previous_kernel();
  const float* x = p.x + blockIdx.x * p.x_stride;
  const bool aligned = reinterpret_cast<uintptr_t>(x) % 16 == 0;
  const int64_t n_steps = 8 * p.n_groups;
  Step kept[kSteps];
  uint32_t largest = 0;
#pragma unroll
  for (int i = 0; i < kSteps; ++i)
    if (threadIdx.x + i * kThreads < n_steps) kept[i] = Step::load(x, threadIdx.x + i * kThreads, p.k, aligned);
#pragma unroll
  for (int i = 0; i < kSteps; ++i)
    if (threadIdx.x + i * kThreads < n_steps) largest = max(largest, kept[i].largest());
  for (int64_t step = threadIdx.x + kSteps * kThreads; step < n_steps; step += kThreads)
    largest = max(largest, Step::load(x, step, p.k, aligned).largest());
  largest = largest_of_block(largest);
  // Exponents 27 to 254 keep both factors normal numbers; below, halves are smaller.
  const uint32_t exponent = max(largest >> 23, 27u);
  const bool finite = exponent < 255;
  const float inverse = __uint_as_float((268 - min(exponent, 254u)) << 23);  // 2^(14 - e)
  for (int copy = 0; copy < p.n_copies; ++copy) {
    const int column = p.positions ? p.positions[blockIdx.x * p.n_copies + copy] : blockIdx.x;
    if (column < 0) continue;
    if (threadIdx.x == 0)
      p.factor[column] = !finite ? __uint_as_float(0x7FFFFFFF)
                         : kLow  ? __uint_as_float((exponent - 14) << 23) / kLowScale
                                 : __uint_as_float((exponent - 14) << 23);
#pragma unroll
    for (int i = 0; i < kSteps; ++i)
      if (threadIdx.x + i * kThreads < n_steps)
        kept[i].template store<kLow>(p, column, threadIdx.x + i * kThreads, inverse);
    for (int64_t step = threadIdx.x + kSteps * kThreads; step < n_steps; step += kThreads)
      Step::load(x, step, p.k, aligned).template store<kLow>(p, column, step, inverse);
  }
}

}  // namespace

cudaError_t run_half_columns(const HalfColumnsParams& p, cudaStream_t stream) {
  const int64_t steps = (8 * p.n_groups + kThreads - 1) / kThreads;
  const auto kernel = p.low        ? half_columns_kernel<1, true>
                      : steps <= 1 ? half_columns_kernel<1, false>
                      : steps <= 2 ? half_columns_kernel<2, false>
                                   : half_columns_kernel<4, false>;
  return enqueue(kernel, {static_cast<unsigned>(p.n_cols), kThreads, 0, p.overlap}, stream, p);
}

}  // namespace tokamak::cuda
