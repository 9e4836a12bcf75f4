// What the kernels get: plain numbers and device pointers. matvec.cpp fills it from MatvecArgs; no project headers, so
// that nvcc stays fast.
#pragma once

#include <cstdint>

struct CUstream_st;

namespace tokamak::cuda {

// One matrix of a launch: the only one or the gate (0), the up matrix of a GLU (1).
struct MatvecLane {
  const uint8_t* weights;  // packed, table first
  const float* scale;      // device, 1 element or one per expert; null = 1
  const float* bias;       // device, [n_rows] or [n_expert, n_rows]; null = none
};

// Several matrices of one type and k in one launch: what each has of its own, in place of lanes[0], n_rows (there the
// largest), y and y_stride.
inline constexpr int kMaxParts = 4;
struct MatvecPart {
  MatvecLane lane;
  int64_t n_rows;
  float* y;
  int64_t y_stride;
};
struct MatvecParts {
  MatvecPart part[kMaxParts];
  int n_parts;
  int n_ctas[kMaxParts];  // set by the launch
};

struct MatvecParams {
  MatvecLane lanes[2];
  int n_lanes;
  int64_t n_rows, k;
  const void* x;
  int64_t x_stride_bytes;  // between columns
  float* y;
  int64_t y_stride;  // elements between columns
  int n_cols;
  uint8_t* y_q8;  // y quantized too, q8_column_bytes(n_rows) apart; null = not wanted
  bool y_low;
  const float* residual;  // added last; null = none
  int64_t residual_stride;
  int glu;  // -1, or ir::Glu
  float alpha, limit;
  // Experts: column c of y is matrix ids[c / n_used * ids_stride + c % n_used] times column (x_per_token ? c / n_used :
  // c) of x; n_cols is tokens times n_used.
  const int32_t* ids;
  int n_used;
  int64_t ids_stride;
  bool x_per_token, ids_are_settled;
  bool overlap;  // programmatic dependent launch
  int n_sms;
  uint32_t zero;  // 0
};

}  // namespace tokamak::cuda
