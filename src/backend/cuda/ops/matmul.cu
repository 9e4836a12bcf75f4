#include "backend/cuda/ops/matmul.h"

#include "backend/cuda/ops/functions.h"
#include "backend/cuda/ops/launch.h"
#include "backend/cuda/ops/to_float.cuh"

namespace tokamak::cuda {

namespace {
constexpr int kWarps = 8;               // rows of a block, few columns
constexpr int kTile = 64, kTileK = 16;  // many columns: 64 rows x 64 columns per block
constexpr int kEach = 4;                // rows and columns of a thread
constexpr int64_t kFewCols = 8;

__device__ void finish(const MatmulArgs& a, int64_t row, int64_t col, float gate, float up) {
  float y = a.scale ? gate * *a.scale : gate;
  if (a.bias) y += a.bias[row];
  if (a.residual) y += a.residual[col * a.residual_stride + row];
  if (a.up) {
    if (a.up_scale) up *= *a.up_scale;
    if (a.up_bias) up += a.up_bias[row];
    y = apply_glu(static_cast<GluKind>(a.glu), y, up, a.alpha, a.limit);
  }
  a.y[col * a.y_stride + row] = y;
}

// A warp per row, kCols columns at once.
template <class T, int kCols>
__global__ void few_columns_kernel(MatmulArgs a) {
  start_after_previous_kernel();
  const int64_t row = blockIdx.x * int64_t{kWarps} + threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  if (row >= a.n_rows) return;
  const T* w = static_cast<const T*>(a.weights) + row * a.k;
  const T* up = a.up ? static_cast<const T*>(a.up) + row * a.k : nullptr;
  float sums[kCols] = {}, up_sums[kCols] = {};
  for (int64_t i = lane; i < a.k; i += kWarp) {
    const float wi = to_float(w[i]), ui = up ? to_float(up[i]) : 0;
#pragma unroll
    for (int c = 0; c < kCols; ++c) {
      if (c >= a.n_cols) continue;
      const float x = a.x[c * a.x_stride + i];
      sums[c] = fmaf(wi, x, sums[c]);
      up_sums[c] = fmaf(ui, x, up_sums[c]);
    }
  }
#pragma unroll
  for (int c = 0; c < kCols; ++c) {
    const float sum = warp_sum(sums[c]), up_sum = up ? warp_sum(up_sums[c]) : 0;
    if (lane == 0 && c < a.n_cols) finish(a, row, c, sum, up_sum);
  }
}

// rows [kTileK][kTile] of a matrix whose rows lie `stride` apart, from (first_row, first_k) on; zeros beyond the edges.
template <class T>
__device__ void load_tile(float (*tile)[kTile + 1], const T* from, int64_t stride, int64_t first_row, int64_t n_rows,
                          int64_t first_k, int64_t k) {
  for (int i = threadIdx.x; i < kTile * kTileK; i += blockDim.x) {
    const int64_t row = first_row + i / kTileK, at = first_k + i % kTileK;
    tile[i % kTileK][i / kTileK] = row < n_rows && at < k ? to_float(from[row * stride + at]) : 0;
  }
}

template <class T, bool kUp>
__global__ void __launch_bounds__(256) many_columns_kernel(MatmulArgs a) {
  start_after_previous_kernel();
  __shared__ float w[kTileK][kTile + 1], up[kUp ? kTileK : 1][kTile + 1], x[kTileK][kTile + 1];
  const int64_t first_row = blockIdx.x * int64_t{kTile}, first_col = blockIdx.y * int64_t{kTile};
  const int r = threadIdx.x % (kTile / kEach), c = threadIdx.x / (kTile / kEach);
  float sums[kEach][kEach] = {}, up_sums[kEach][kEach] = {};
  for (int64_t at = 0; at < a.k; at += kTileK) {
    __syncthreads();
    load_tile(w, static_cast<const T*>(a.weights), a.k, first_row, a.n_rows, at, a.k);
    if constexpr (kUp) load_tile(up, static_cast<const T*>(a.up), a.k, first_row, a.n_rows, at, a.k);
    load_tile(x, a.x, a.x_stride, first_col, a.n_cols, at, a.k);
    __syncthreads();
    for (int i = 0; i < kTileK; ++i)
#pragma unroll
      for (int m = 0; m < kEach; ++m)
#pragma unroll
        for (int n = 0; n < kEach; ++n) {
          const float xi = x[i][c + n * (kTile / kEach)];
          sums[m][n] = fmaf(w[i][r + m * (kTile / kEach)], xi, sums[m][n]);
          if constexpr (kUp) up_sums[m][n] = fmaf(up[i][r + m * (kTile / kEach)], xi, up_sums[m][n]);
        }
  }
#pragma unroll
  for (int m = 0; m < kEach; ++m)
#pragma unroll
    for (int n = 0; n < kEach; ++n) {
      const int64_t row = first_row + r + m * (kTile / kEach), col = first_col + c + n * (kTile / kEach);
      if (row < a.n_rows && col < a.n_cols) finish(a, row, col, sums[m][n], up_sums[m][n]);
    }
}

template <class T>
cudaError_t launch(const MatmulArgs& a, cudaStream_t stream) {
  if (a.n_cols <= kFewCols) {
    const auto grid = static_cast<unsigned>(ceil_div(a.n_rows, kWarps));
    const auto kernel = a.n_cols == 1 ? few_columns_kernel<T, 1> : few_columns_kernel<T, kFewCols>;
    return launch_overlapped(kernel, grid, kWarps * kWarp, 0, stream, a);
  }
  const dim3 grid(static_cast<unsigned>(ceil_div(a.n_rows, kTile)), static_cast<unsigned>(ceil_div(a.n_cols, kTile)));
  return launch_overlapped(a.up ? many_columns_kernel<T, true> : many_columns_kernel<T, false>, grid, 256, 0, stream,
                           a);
}
}  // namespace

cudaError_t launch_matmul(const MatmulArgs& args, cudaStream_t stream) {
  if (args.type == DType::f32) return launch<float>(args, stream);
  return args.type == DType::f16 ? launch<__half>(args, stream) : launch<__nv_bfloat16>(args, stream);
}

}  // namespace tokamak::cuda
