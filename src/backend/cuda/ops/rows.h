// Kernels over rows: GET_ROWS, norms, softmax, sums, copies. f32 unless said otherwise; strides in elements between
// rows. All launches are asynchronous and can be captured; arguments were checked when compiling.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "tensor/dtypes.h"

namespace tokamak::cuda {

// y[r] = table[ids of row r]
struct GetRowsArgs {
  DType type = DType::f32;  // or F16, BF16
  const void* table = nullptr;
  int64_t table_stride = 0;
  int64_t token_rows = 0;   // rows of a token's own part of the table; 0: one table for all
  int64_t n_per_token = 1;  // rows wanted per token
  const int32_t* ids = nullptr;
  int64_t ids_stride = 1;  // between tokens
  float* y = nullptr;
  int64_t y_stride = 0, n_rows = 0, row_elems = 0;
};
cudaError_t launch_get_rows(const GetRowsArgs& args, cudaStream_t stream);

enum class NormKind : uint8_t { rms, centred, l2 };

// y[r] = norm(x[r]) * weight[r % n_weight_rows] + addend[r % n_addend_rows]; null: no such factor or addend.
struct NormArgs {
  NormKind kind = NormKind::rms;
  float eps = 0;
  const float* x = nullptr;
  const float* weight = nullptr;
  const float* addend = nullptr;
  float* y = nullptr;
  int64_t x_stride = 0, y_stride = 0, weight_stride = 0, addend_stride = 0;
  int64_t n_weight_rows = 1, n_addend_rows = 1;
  int64_t n_rows = 0, row_elems = 0;
};
cudaError_t launch_norm(const NormArgs& args, cudaStream_t stream);

struct RowArgs {
  const float* x = nullptr;
  float* y = nullptr;
  int64_t x_stride = 0, y_stride = 0, n_rows = 0, row_elems = 0;  // of x
};
cudaError_t launch_soft_max(const RowArgs& args, cudaStream_t stream);
cudaError_t launch_sum_rows(const RowArgs& args, cudaStream_t stream);  // y: one element per row
cudaError_t launch_copy_rows(const RowArgs& args, cudaStream_t stream);

// Whether this build has machine code for the current device.
cudaError_t check_kernel_image();

}  // namespace tokamak::cuda
