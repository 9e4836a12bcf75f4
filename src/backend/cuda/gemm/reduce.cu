// The end of products whose k is split: parts added in ascending order, then the epilogue.
#include "backend/cuda/gemm/epilogue.cuh"
#include "backend/cuda/gemm/kernels.h"
#include "backend/cuda/overlap.h"

namespace tokamak::cuda {

namespace {

constexpr int kThreads = 128;

// n neighbouring rows per thread: n_rows is a multiple of n.
template <int n>
struct alignas(4 * n) Floats {
  float v[n];
};

template <int n>
__global__ void __launch_bounds__(kThreads) reduce_kernel(const __grid_constant__ GemmParams p) {
  start_after_previous_kernel();
  const int64_t row = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * n, col = blockIdx.y;
  if (row >= p.n_rows) return;
  Floats<n> sum[2] = {};
  for (int l = 0; l < p.n_lanes; ++l) {
    const float* part = p.partial + (l * static_cast<int64_t>(p.n_cols) + col) * p.n_rows + row;
    const int64_t step = static_cast<int64_t>(p.n_lanes) * p.n_cols * p.n_rows;
    sum[l] = *reinterpret_cast<const Floats<n>*>(part);
#pragma unroll 8
    for (int i = 1; i < p.n_parts; ++i) {
      const auto more = *reinterpret_cast<const Floats<n>*>(part + i * step);
#pragma unroll
      for (int r = 0; r < n; ++r) sum[l].v[r] += more.v[r];
    }
  }
  const GemmRows<n> rows = GemmRows<n>::load(p, row, 0);
#pragma unroll
  for (int r = 0; r < n; ++r) {
    float y = rows.value(0, r, sum[0].v[r]);
    if (p.n_lanes == 2) y = glu_of(p.glu, y, rows.value(1, r, sum[1].v[r]), p.alpha, p.limit);
    const float rest = p.residual ? p.residual[col * p.residual_stride + row + r] : 0.0f;
    p.y[col * p.y_stride + row + r] = y + rest;
  }
}

}  // namespace

cudaError_t run_reduce(const GemmParams& p, cudaStream_t stream) {
  const int n = p.n_rows % 2 == 0 ? 2 : 1;
  const dim3 grid(static_cast<unsigned>((p.n_rows / n + kThreads - 1) / kThreads), static_cast<unsigned>(p.n_cols));
  return launch_overlapped(n == 2 ? reduce_kernel<2> : reduce_kernel<1>, grid, kThreads, 0, stream, p);
}

}  // namespace tokamak::cuda
