// The end of products whose k is split: parts added in ascending order, then the epilogue.
#include "backend/cuda/gemm/epilogue.cuh"
#include "backend/cuda/gemm/kernels.h"

namespace tokamak::cuda {

namespace {

constexpr int kThreads = 128;

__global__ void __launch_bounds__(kThreads) reduce_kernel(const __grid_constant__ GemmParams p) {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  asm volatile("griddepcontrol.wait;" ::: "memory");
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x, col = blockIdx.y;
  if (row >= p.n_rows) return;
  float sum[2] = {};
  for (int l = 0; l < p.n_lanes; ++l) {
    const float* part = p.partial + (l * static_cast<int64_t>(p.n_cols) + col) * p.n_rows + row;
    const int64_t step = static_cast<int64_t>(p.n_lanes) * p.n_cols * p.n_rows;
    float s = part[0];
#pragma unroll 4
    for (int i = 1; i < p.n_splits; ++i) s += part[i * step];
    sum[l] = s;
  }
  const float rest = p.residual ? p.residual[col * p.residual_stride + row] : 0.0f;
  p.y[col * p.y_stride + row] = finish_value(p, sum[0], sum[1], load_gemm_row(p, row, 0)) + rest;
}

}  // namespace

cudaError_t run_reduce(const GemmParams& p, cudaStream_t stream) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>((p.n_rows + kThreads - 1) / kThreads), static_cast<unsigned>(p.n_cols));
  config.blockDim = dim3(kThreads);
  config.stream = stream;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute;
  config.numAttrs = p.overlap ? 1 : 0;
  return cudaLaunchKernelEx(&config, reduce_kernel, p);
}

}  // namespace tokamak::cuda
