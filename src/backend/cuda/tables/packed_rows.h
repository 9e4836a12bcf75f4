// GET_ROWS from a packed matrix, so that a table that is also the output matrix lies in memory once.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "tensor/dtypes.h"

namespace tokamak::cuda {

// y[r] = row ids[r / n_per_token * ids_stride + r % n_per_token] of the table, as f32.
struct PackedRowsArgs {
  DType dtype = DType::f32;
  const void* table = nullptr;  // matvec/layout.h, one matrix; 16-byte aligned
  int64_t n_table_rows = 0;
  const int32_t* ids = nullptr;
  int64_t n_per_token = 1, ids_stride = 1;  // rows wanted per token; elements between tokens
  float* y = nullptr;
  int64_t y_stride = 0, n_rows = 0, row_elems = 0;  // row_elems: also of the table
};
// Errors: cudaErrorInvalidValue when the type has no layout; what a launch returns. Asynchronous, can be captured.
cudaError_t launch_packed_rows(const PackedRowsArgs& args, cudaStream_t stream);

}  // namespace tokamak::cuda
