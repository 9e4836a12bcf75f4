// Activations to binary16 tiles (layout: gemm.h). One CTA per column: its largest magnitude, then the conversion.
#include "backend/cuda/gemm/half.h"
#include "backend/cuda/gemm/kernels.h"

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

__device__ float4 load_four(const float* x, int64_t at, int64_t k, bool aligned) {
  if (aligned && at + 4 <= k) return *reinterpret_cast<const float4*>(x + at);
  return {at < k ? x[at] : 0.0f, at + 1 < k ? x[at + 1] : 0.0f, at + 2 < k ? x[at + 2] : 0.0f,
          at + 3 < k ? x[at + 3] : 0.0f};
}

__global__ void __launch_bounds__(kThreads) half_columns_kernel(const __grid_constant__ HalfColumnsParams p) {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  asm volatile("griddepcontrol.wait;" ::: "memory");
  const int column = blockIdx.x;
  const int64_t row = p.source ? p.source[column] : column;
  if (row < 0) return;
  const float* x = p.x + row * p.x_stride;
  const bool aligned = reinterpret_cast<uintptr_t>(x) % 16 == 0;
  uint32_t largest = 0;  // bits of the magnitude: infinities and NaN win
  for (int64_t i = 4 * threadIdx.x; i < p.k; i += 4 * kThreads) {
    const float4 v = load_four(x, i, p.k, aligned);
    const uint32_t a = max(__float_as_uint(v.x) & 0x7FFFFFFF, __float_as_uint(v.y) & 0x7FFFFFFF);
    const uint32_t b = max(__float_as_uint(v.z) & 0x7FFFFFFF, __float_as_uint(v.w) & 0x7FFFFFFF);
    largest = max(largest, max(a, b));
  }
  largest = largest_of_block(largest);
  // Exponents 27 to 254 keep both factors normal numbers; below, halves are smaller.
  const uint32_t exponent = max(largest >> 23, 27u);
  const bool finite = exponent < 255;
  const float inverse = finite && largest > 0 ? __uint_as_float((268 - exponent) << 23) : 0.0f;  // 2^(14 - e)
  if (threadIdx.x == 0)
    p.factor[column] = finite ? __uint_as_float((exponent - 14) << 23) : __uint_as_float(0x7FFFFFFF);
  // Step i of a group of 128 takes elements 4i .. 4i + 3 of its four blocks of 32: 32 bytes.
  for (int64_t step = threadIdx.x; step < 8 * p.n_groups; step += kThreads) {
    const int64_t first = step / 8 * 128 + step % 8 * 4;
    uint32_t low[4], high[4];
#pragma unroll
    for (int t = 0; t < 4; ++t) {
      float4 v = load_four(x, first + 32 * t, p.k, aligned);
      if (!finite) v = {0.0f, 0.0f, 0.0f, 0.0f};
      low[t] = half2_of(v.x * inverse, v.z * inverse);
      high[t] = half2_of(v.y * inverse, v.w * inverse);
    }
    uint8_t* out = p.tiles + (step / 4 * p.n_padded + column) * 128;
    const int chunk = static_cast<int>(step % 4 * 2), turn = column & 7;
    *reinterpret_cast<uint4*>(out + ((chunk ^ turn) * 16)) = make_uint4(low[0], low[1], low[2], low[3]);
    *reinterpret_cast<uint4*>(out + (((chunk + 1) ^ turn) * 16)) = make_uint4(high[0], high[1], high[2], high[3]);
  }
}

}  // namespace

cudaError_t run_half_columns(const HalfColumnsParams& p, cudaStream_t stream) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(p.n_cols));
  config.blockDim = dim3(kThreads);
  config.stream = stream;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute;
  config.numAttrs = p.overlap ? 1 : 0;
  return cudaLaunchKernelEx(&config, half_columns_kernel, p);
}

}  // namespace tokamak::cuda
