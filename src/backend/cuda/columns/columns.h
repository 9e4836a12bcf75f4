// Products of 2 to 16 columns on tensor cores: each block of weights is read and decoded once. Everything here only
// enqueues: no allocation, no synchronization, capturable into a CUDA graph.
//
// Results are those of binary16 weights and activations, added in f32 in an order that depends on the type and k only:
// a column has the same bits whatever the other columns are and however many, within 2 to 16. They differ from those of
// matvec/ (int8 activations).
#pragma once

#include <cuda_runtime_api.h>

#include "backend/cuda/columns/halves.h"
#include "backend/cuda/matvec/matvec.h"

namespace tokamak::cuda {

// The backend takes them from 4 on: there they take 0.8 to 1.15 times as long as matvec/, at 8 half to two thirds
// (H200).
inline constexpr int kMinTensorColumns = 4, kMaxTensorColumns = 16;

// kMaxTensorColumns, or 8 where the current device has too little shared memory for a block (8.6, 8.9, 12.0): partial
// sums of 16 columns of both matrices of a GLU do not fit for every type.
int most_tensor_columns();
// Every type of matvec/ but F32.
bool has_columns(DType dtype);
// For reports: "columns_nvfp4".
std::string_view columns_kernel(DType dtype);

// As launch_matvec and launch_matvec_group, with x in the form of halves.h and n_cols up to most_tensor_columns(); no
// ids.
// x_stride is not read. A group is one launch whatever n_cols is; its results are those of single launches.
// Errors: cudaErrorInvalidValue for what has no kernel; what a launch returns.
cudaError_t launch_columns(const MatvecArgs& args, cudaStream_t stream);
cudaError_t launch_columns_group(const MatvecGroupArgs& group, cudaStream_t stream);

// halves[c] = x[c] in the form of halves.h.
struct HalveArgs {
  const float* x = nullptr;  // [n_cols, k], rows x_stride elements apart
  int64_t n_cols = 1, k = 0, x_stride = 0;
  void* halves = nullptr;  // halves_bytes(k, n_cols) bytes, 16-byte aligned
  bool overlap = false;    // programmatic dependent launch
};
cudaError_t launch_halve(const HalveArgs& args, cudaStream_t stream);

}  // namespace tokamak::cuda
