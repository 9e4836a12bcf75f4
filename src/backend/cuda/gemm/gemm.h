// Matrix times many columns on tensor cores (sm_90a): the same packed weights as matvec/, activations in binary16,
// sums in f32. Everything here only enqueues: no allocation, no synchronization. Pointers are device pointers.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "backend/cuda/gemm/route.h"
#include "backend/cuda/matvec/matvec.h"
#include "base/round_up.h"

namespace tokamak::cuda {

// Whether the current device and this build have the kernels: compute capability 9.0.
bool has_gemm_device();
// Whether there is a kernel for weights of this type. F32 only for single matrices without GLU.
bool has_gemm(DType dtype);

// --- activations.
// n_cols columns of k activations in binary16, in the order of half.h: tiles of 64 k; in a tile 128 bytes per column,
// their 16-byte chunk c at c ^ (column & 7); then a factor per column: value = half * factor, a power of two that
// brings the column's largest magnitude to [2^14, 2^15). A column with an infinity or NaN has the factor NaN.
constexpr int64_t half_padded(int64_t n_cols) { return round_up(n_cols, int64_t{kColumnUnit}); }
constexpr int64_t half_tiles_bytes(int64_t n_cols, int64_t k) {
  return (k + 127) / 128 * 2 * half_padded(n_cols) * 128;
}
constexpr int64_t half_columns_bytes(int64_t n_cols, int64_t k) {
  return half_tiles_bytes(n_cols, k) + half_padded(n_cols) * 4;
}
struct HalfColumnsArgs {
  const float* x = nullptr;  // rows of k, x_stride elements apart
  int64_t n_cols = 1, k = 0, x_stride = 0;
  void* halves = nullptr;  // half_columns_bytes(n_cols, k), 256-byte aligned
  bool low = false;        // what binary16 leaves of x instead: for F32 weights
  // Experts: half_columns_bytes(shape->n_columns(), k); row r of x goes to the columns of n_copies pairs from
  // r * n_copies on (n_used of them, or 1), as the route says.
  const RouteShape* shape = nullptr;
  void* route = nullptr;
  int n_copies = 1;
  bool overlap = false;
};
cudaError_t launch_half_columns(const HalfColumnsArgs& args, cudaStream_t stream);

// --- experts.
// Fills a route (route.h) for ids [n_tokens, n_used], rows ids_stride apart, each below n_expert (at most
// kMostExperts).
cudaError_t launch_route(const int32_t* ids, int64_t ids_stride, const RouteShape& shape, void* route, bool overlap,
                         cudaStream_t stream);
// Tile width for experts: by the columns that an expert gets on average.
int expert_tile_columns(int64_t n_pairs, int64_t n_expert);

// --- products.
// As launch_matvec, with its epilogue. The result depends on n_cols: the split of k is chosen by it. Accuracy: x to
// 2^-11 of each value, weights to 2^-11 (NVFP4, F16 exact), sums in f32. F32 weights: three products of halves, both to
// 2^-21.
struct GemmArgs {
  MatvecArgs product;           // x: of launch_half_columns; x_stride and what it says of ids: not read
  const void* x_low = nullptr;  // F32: the low part of x
  void* workspace = nullptr;    // gemm_workspace_bytes(...), 16-byte aligned; shared by launches of one stream
  // Experts: column c = t * n_used + u of y is matrix ids[t, u] times the pair's column of x; scale and bias per
  // expert, no residual; n_cols = shape->n_pairs(). Needs no workspace.
  const RouteShape* shape = nullptr;
  void* route = nullptr;
};
// Pointers say only what there is.
uint64_t gemm_workspace_bytes(const GemmArgs& args);
// Errors: cudaErrorInvalidValue when has_gemm is false; what a launch returns.
cudaError_t launch_gemm(const GemmArgs& args, cudaStream_t stream);

}  // namespace tokamak::cuda
