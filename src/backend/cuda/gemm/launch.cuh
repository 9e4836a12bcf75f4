// From a plan to the instance of the kernel.
#pragma once

#include "backend/cuda/gemm/kernel.cuh"
#include "backend/cuda/gemm/kernels.h"

namespace tokamak::cuda {

template <class P, int N, int W, int D>
cudaError_t launch_shape(GemmParams p, cudaStream_t stream) {
  using Shape = GemmShape<P, N, W, D>;
  const auto kernel = gemm_kernel<P, N, W, D>;
  static const cudaError_t prepared =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Shape::kSharedTotal);
  if (prepared != cudaSuccess) return prepared;
  const int rows = 64 * W / p.n_lanes;
  p.n_row_tiles = static_cast<int>((p.n_rows + rows - 1) / rows);
  if (!p.tiles) p.n_col_tiles = (p.n_cols + N - 1) / N;
  const int64_t n_items = int64_t{p.n_row_tiles} * p.n_col_tiles * p.n_splits;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(n_items < p.n_sms ? n_items : p.n_sms));
  config.blockDim = dim3(Shape::kThreads);
  config.dynamicSmemBytes = Shape::kSharedTotal;
  config.stream = stream;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute;
  config.numAttrs = p.overlap ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, p);
}

template <class P>
cudaError_t launch_gemm_type(const GemmParams& params, const GemmPlan& plan, cudaStream_t stream) {
  GemmParams p = params;
  p.g = geometry_of<P>(p.n_rows, p.k);
  p.n_splits = plan.n_splits;
  constexpr int kWide = P::kQuantized ? 4 : 2;  // plain codes take too many registers
  switch (plan.columns) {
    case 32:
      return launch_shape<P, 32, kWide, 1>(p, stream);
    case 64:
      return launch_shape<P, 64, kWide, 1>(p, stream);
    case 128:
      return launch_shape<P, 128, 2, 1>(p, stream);
    case 256:
      return launch_shape < P, 256, 2, P::kQuantized ? 1 : 0 > (p, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace tokamak::cuda
