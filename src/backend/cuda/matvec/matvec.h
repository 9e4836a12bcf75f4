// Matrix times a few columns on the GPU: the launch table of the mat-vec kernels, and the kernels that prepare their
// activations. Everything here only enqueues: no allocation, no synchronization, capturable into a CUDA graph.
// Layouts and packing: layout.h. Pointers are device pointers unless stated.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>

#include "backend/cuda/matvec/activations.h"
#include "tensor/dtypes.h"

namespace tokamak::cuda {

// y[c, row] = epilogue(sum over k of W[row, k] * x[c, k]):
//   value = dot * scale + bias, for `weights` and for `up` apart; then GLU(value of weights, value of up) when `up` is
//   given; then + residual.
// Experts (ids): y column c = t * n_used + u is matrix ids[t * ids_stride + u] times x column t (x_per_token) or c.
// Results of a column do not depend on n_cols, the grid or the device. y may be residual itself; it must not overlap
// anything else.
struct MatvecArgs {
  DType dtype = DType::f32;
  const void* weights = nullptr;  // packed, 16-byte aligned; with `up`: the gate
  const void* up = nullptr;       // same type and shape, or null
  int64_t n_rows = 0, k = 0;      // k: a multiple of the type's block
  int n_cols = 1;                 // any number; weights are read once per 8 columns, with ids once per column
  const void* x = nullptr;        // of quantized types q8 columns, q8_column_bytes(k) apart; else f32 rows
  int64_t x_stride = 0;           // f32 elements between rows of plain types; a multiple of 4 with k is fastest
  float* y = nullptr;
  int64_t y_stride = 0;  // elements between columns
  // y quantized too (activations.h), columns of q8_column_bytes(n_rows): by the product itself where 32 rows belong to
  // few blocks, else by a launch behind it. With it n_rows % 32 == 0, y_stride % 4 == 0 and y is 16-byte aligned.
  void* y_q8 = nullptr;
  bool y_low = true;                                  // with low bytes
  const float *scale = nullptr, *up_scale = nullptr;  // 1 element, or [n_expert]; null = 1
  const float *bias = nullptr, *up_bias = nullptr;    // [n_rows], or [n_expert, n_rows]; null = 0
  const float* residual = nullptr;                    // [n_cols, n_rows]; null = 0
  int64_t residual_stride = 0;                        // elements
  int glu = -1;                                       // ir::Glu when `up` is given
  float alpha = 0.0f, limit = 0.0f;                   // of swiglu_oai
  const int32_t* ids = nullptr;                       // [n_cols / n_used, n_used], each below the packed n_matrices
  int n_used = 1;
  int64_t ids_stride = 0;
  bool x_per_token = true;
  // Programmatic dependent launch: the kernel begins while the one before in the stream still runs. It waits for that
  // one before it reads anything but weights, and, when ids_are_settled, the ids (which no kernel of the step writes:
  // those before may still run too).
  bool overlap = false, ids_are_settled = false;
};
// Errors: cudaErrorInvalidValue when the type has no kernel; what a launch returns.
cudaError_t launch_matvec(const MatvecArgs& args, cudaStream_t stream);

// Up to kMaxMatvecParts products of the same activations (q, k and v of attention). Of one column all are one launch,
// of more each is its own. Every y has the bits of its own launch_matvec.
struct MatvecPartArgs {
  const void* weights = nullptr;  // packed, of the group's type and k
  int64_t n_rows = 0;
  float* y = nullptr;
  int64_t y_stride = 0;
  const float *scale = nullptr, *bias = nullptr;  // 1 element; [n_rows]
};
inline constexpr size_t kMaxMatvecParts = 4;
struct MatvecGroupArgs {
  DType dtype = DType::f32;
  std::span<const MatvecPartArgs> parts;  // at least one; read before the call returns
  int64_t k = 0;
  int n_cols = 1;
  const void* x = nullptr;
  int64_t x_stride = 0;
  bool overlap = false;
};
// Errors: as launch_matvec; cudaErrorInvalidValue for too many parts.
cudaError_t launch_matvec_group(const MatvecGroupArgs& group, cudaStream_t stream);

// q8[c] = x[c] in int8 with a scale and sums per 32, with low bytes where wanted (activations.h).
struct QuantizeQ8Args {
  const float* x = nullptr;  // [n_cols, k], rows x_stride elements apart; 16-byte aligned, x_stride % 4 == 0
  int64_t n_cols = 1, k = 0, x_stride = 0;
  void* q8 = nullptr;  // n_cols * q8_column_bytes(k) bytes, 16-byte aligned
  bool overlap = false;
  bool low = true;
};
cudaError_t launch_quantize_q8(const QuantizeQ8Args& args, cudaStream_t stream);

// h = x + add; y = weight * h / sqrt(mean(h^2) + eps); q8 = y quantized. One kernel.
struct RmsNormQ8Args {
  const float* x = nullptr;       // as above
  const float* add = nullptr;     // like x (same stride), or null
  const float* weight = nullptr;  // [k], or null = 1; read before the kernel in front has ended
  int64_t n_cols = 1, k = 0, x_stride = 0;
  float eps = 0.0f;
  float* sum = nullptr;   // h, like x; may be x; null = not wanted
  float* norm = nullptr;  // y, [n_cols, k] contiguous; null = not wanted
  void* q8 = nullptr;     // null = not wanted
  bool overlap = false;
  bool low = true;
};
cudaError_t launch_rms_norm_q8(const RmsNormQ8Args& args, cudaStream_t stream);

}  // namespace tokamak::cuda
