// From a plan to the instance of the kernel.
#pragma once

#include "backend/cuda/gemm/kernel.cuh"
#include "backend/cuda/gemm/kernels.h"
#include "backend/cuda/overlap.h"

namespace tokamak::cuda {

// Column tiles that are worked on together: their columns stay in the L2 while weights are read once.
inline constexpr int kStripTiles = 8;

template <class P, int N, int W, int D>
cudaError_t launch_shape(GemmParams p, cudaStream_t stream) {
  using Shape = GemmShape<P, N, W, D>;
  const auto kernel = gemm_kernel<P, N, W, D>;
  const cudaError_t prepared = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                    Shape::kSharedTotal);  // of the current device
  if (prepared != cudaSuccess) return prepared;
  const int rows = 64 * W / p.n_lanes;
  p.n_row_tiles = static_cast<int>((p.n_rows + rows - 1) / rows);
  if (!p.tiles) p.n_col_tiles = (p.n_cols + N - 1) / N;
  p.strip = kStripTiles;
  const int64_t n_items = int64_t{p.n_row_tiles} * p.n_col_tiles * p.n_splits;
  const dim3 grid(static_cast<unsigned>(n_items < p.n_sms ? n_items : p.n_sms));
  return enqueue(kernel, {grid, Shape::kThreads, Shape::kSharedTotal, p.overlap}, stream, p);
}

template <class P>
cudaError_t launch_gemm_type(const GemmParams& params, const GemmPlan& plan, cudaStream_t stream) {
  GemmParams p = params;
  p.g = geometry_of<P>(p.n_rows, p.k);
  p.n_splits = plan.n_splits;
  p.split_groups = plan.split_groups;
  // Registers bound the warpgroups and the weights in flight.
  constexpr int kPairBytes = 2 * kUnitsPerBlock<P> * sizeof(typename P::Codes) + sizeof(typename P::Scales);
  constexpr bool kSmall = kPairBytes <= 40;
  constexpr int kWide = P::kQuantized ? 4 : 2, kAhead64 = kSmall || (!P::kQuantized && kPairBytes <= 160) ? 1 : 0;
  constexpr int kAhead128 = kSmall ? 2 : kPairBytes <= 160 ? 1 : 0, kAhead256 = kPairBytes <= 48 ? 1 : 0;
  switch (plan.columns) {
    case 64:
      return launch_shape<P, 64, kWide, kAhead64>(p, stream);
    case 128:
      return launch_shape<P, 128, 2, kAhead128>(p, stream);
    case 256:
      if constexpr (kPairBytes <= 160) return launch_shape<P, 256, 2, kAhead256>(p, stream);
      return cudaErrorInvalidValue;
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace tokamak::cuda
