// Activations to int8, alone or behind the norm that makes them. Eight lanes of four elements each share a group of 32.
#include <cuda_runtime_api.h>

#include "backend/cuda/matvec/activations.h"
#include "backend/cuda/matvec/quantize.h"
#include "backend/cuda/overlap.h"

namespace tokamak::cuda {

namespace {

// Quantizes element quad i of a column (v: its four values) together with the other seven lanes of its group. Every
// lane of the warp must call; `inside` tells whether quad i exists.
__device__ inline void quantize_quad(float4 v, int64_t i, bool inside, uint8_t* column, int64_t k) {
  uint32_t largest = 0;  // bits of max |x|: infinities and NaN win
  for (const float x : {v.x, v.y, v.z, v.w}) {
    const uint32_t bits = __float_as_uint(x) & 0x7FFFFFFF;
    largest = bits > largest ? bits : largest;
  }
#pragma unroll
  for (int d = 1; d < 8; d *= 2) {
    const uint32_t other = __shfl_xor_sync(0xFFFFFFFF, largest, d);
    largest = other > largest ? other : largest;
  }
  const Q8Scale scale = q8_scale(__uint_as_float(largest));
  uint32_t codes = 0;
  if (scale.inverse != 0.0f) {
    const int q0 = __float2int_rn(v.x * scale.inverse), q1 = __float2int_rn(v.y * scale.inverse),
              q2 = __float2int_rn(v.z * scale.inverse), q3 = __float2int_rn(v.w * scale.inverse);
    codes = (q0 & 255) | (q1 & 255) << 8 | (q2 & 255) << 16 | static_cast<uint32_t>(q3) << 24;
  }
  int sum = dot4<true>(0x01010101, codes, 0);
  sum += __shfl_xor_sync(0xFFFFFFFF, sum, 1);
  sum += __shfl_xor_sync(0xFFFFFFFF, sum, 2);
  const int other_half = __shfl_xor_sync(0xFFFFFFFF, sum, 4);
  if (!inside) return;
  reinterpret_cast<uint32_t*>(column)[i] = codes;
  if (i % 8 == 0)
    reinterpret_cast<uint2*>(column + k)[i / 8] =
        make_uint2(__float_as_uint(scale.d), (sum & 0xFFFF) | static_cast<uint32_t>(other_half) << 16);
}

__global__ void __launch_bounds__(256) quantize_kernel(const __grid_constant__ QuantizeParams p) {
  allow_next_kernel();
  wait_for_previous_kernel();
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x, col = blockIdx.y;
  const bool inside = i < p.k / 4;
  const float4 v =
      inside ? reinterpret_cast<const float4*>(p.x + col * p.x_stride)[i] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  quantize_quad(v, i, inside, p.q8 + col * q8_column_bytes(p.k), p.k);
}

__device__ inline float4 add4(float4 a, float4 b) { return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w); }

// The sum over the block, in an order that depends on its size only.
__device__ inline float block_sum(float value) {
  __shared__ float sums[32];
#pragma unroll
  for (int d = 16; d > 0; d /= 2) value += __shfl_xor_sync(0xFFFFFFFF, value, d);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;
  __syncthreads();
  value = threadIdx.x % 32 < blockDim.x / 32 ? sums[threadIdx.x % 32] : 0.0f;
#pragma unroll
  for (int d = 16; d > 0; d /= 2) value += __shfl_xor_sync(0xFFFFFFFF, value, d);
  return value;
}

// A block per column.
__global__ void __launch_bounds__(1024) rms_norm_kernel(const __grid_constant__ RmsNormParams p) {
  allow_next_kernel();
  const int64_t col = blockIdx.x, n_quads = p.k / 4;
  const auto* x = reinterpret_cast<const float4*>(p.x + col * p.x_stride);
  const auto* add = reinterpret_cast<const float4*>(p.add + col * p.x_stride);
  auto* sum = reinterpret_cast<float4*>(p.sum + col * p.x_stride);
  const auto* weight = reinterpret_cast<const float4*>(p.weight);
  constexpr int kHeld = 4;  // quads kept in registers between the passes
  float4 held[kHeld], weights[kHeld];
#pragma unroll
  for (int h = 0; h < kHeld; ++h) {
    const int64_t i = threadIdx.x + int64_t{h} * blockDim.x;
    weights[h] = p.weight && i < n_quads ? weight[i] : make_float4(1.0f, 1.0f, 1.0f, 1.0f);
  }
  wait_for_previous_kernel();
  float squares = 0.0f;
  for (int64_t i = threadIdx.x, n = 0; i < n_quads; i += blockDim.x, ++n) {
    float4 v = x[i];
    if (p.add) v = add4(v, add[i]);
    if (p.sum) sum[i] = v;
#pragma unroll
    for (int h = 0; h < kHeld; ++h)
      if (n == h) held[h] = v;
    squares = fused(v.x, v.x, fused(v.y, v.y, fused(v.z, v.z, fused(v.w, v.w, squares))));
  }
  const float mean = block_sum(squares) / static_cast<float>(p.k);
  const float factor = 1.0f / sqrtf(mean + p.eps);
  for (int64_t first = 0, n = 0; first < n_quads; first += blockDim.x, ++n) {
    const int64_t i = first + threadIdx.x;
    const bool inside = i < n_quads;
    float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f), w = v;
    if (inside && n >= kHeld) {
      v = p.sum ? sum[i] : p.add ? add4(x[i], add[i]) : x[i];
      w = p.weight ? weight[i] : make_float4(1.0f, 1.0f, 1.0f, 1.0f);
    }
#pragma unroll
    for (int h = 0; h < kHeld; ++h)
      if (inside && n == h) v = held[h], w = weights[h];
    v = make_float4(w.x * (v.x * factor), w.y * (v.y * factor), w.z * (v.z * factor), w.w * (v.w * factor));
    if (inside && p.norm) reinterpret_cast<float4*>(p.norm + col * p.k)[i] = v;
    if (p.q8) quantize_quad(v, i, inside, p.q8 + col * q8_column_bytes(p.k), p.k);
  }
}

}  // namespace

cudaError_t run_quantize(const QuantizeParams& p, bool overlap, cudaStream_t stream) {
  const auto n_blocks = static_cast<unsigned>((p.k / 4 + 255) / 256);
  return enqueue(quantize_kernel, {dim3(n_blocks, static_cast<unsigned>(p.n_cols)), 256, 0, overlap}, stream, p);
}

cudaError_t run_rms_norm(const RmsNormParams& p, bool overlap, cudaStream_t stream) {
  const int64_t warps = (p.k / 4 + 31) / 32;
  const auto n_threads = static_cast<unsigned>(warps < 32 ? warps * 32 : 1024);
  return enqueue(rms_norm_kernel, {static_cast<unsigned>(p.n_cols), n_threads, 0, overlap}, stream, p);
}

}  // namespace tokamak::cuda
