// MUL_MAT with F32, F16 and BF16 rows in f32 arithmetic: plain kernels for what matvec/ has no layout for. Quantized
// types come decoded.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "tensor/dtypes.h"

namespace tokamak::cuda {

// y[c][r] = w[r] . x[c] * scale[0] + bias[r] + residual[c][r]; with `up` the same of it, then y = act(gate) * up.
// Null: no such factor or addend.
struct MatmulArgs {
  DType type = DType::f32;  // or F16, BF16
  const void* weights = nullptr;
  const void* up = nullptr;
  int64_t n_rows = 0, n_cols = 0, k = 0;  // rows of the matrix, columns (tokens)
  const float* x = nullptr;
  float* y = nullptr;
  int64_t x_stride = 0, y_stride = 0;  // elements between columns
  const float* scale = nullptr;        // one number each
  const float* up_scale = nullptr;
  const float* bias = nullptr;
  const float* up_bias = nullptr;
  const float* residual = nullptr;
  int64_t residual_stride = 0;
  int glu = -1;  // ir::Glu, with `up`
  float alpha = 0, limit = 0;
};
// A column's sum has the same order whatever n_cols is, up to 8 columns; beyond them another one.
cudaError_t launch_matmul(const MatmulArgs& args, cudaStream_t stream);

}  // namespace tokamak::cuda
