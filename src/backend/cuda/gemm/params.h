// What the kernels get: plain numbers and device pointers. gemm.cpp fills it from GemmArgs.
#pragma once

#include <cstdint>

#include "backend/cuda/gemm/route.h"
#include "backend/cuda/matvec/geometry.h"
#include "backend/cuda/matvec/params.h"

namespace tokamak::cuda {

inline constexpr int kGroup = 128;  // k of a group: two stages

struct GemmParams {
  MatvecLane lanes[2];
  int n_lanes;
  int64_t n_rows;
  Geometry g;
  int64_t k;
  int n_groups;      // of kGroup along k
  const uint8_t* x;  // half columns (gemm.h): tiles of 64 k by n_padded columns, 128 bytes each
  int n_padded;
  const float* x_factor;  // [n_padded]
  float* y;
  int64_t y_stride;  // elements between columns
  int n_cols;
  const float* residual;  // added last; null = none
  int64_t residual_stride;
  int glu;  // -1, or ir::Glu
  float alpha, limit;
  int n_row_tiles, n_col_tiles;
  int strip;                   // column tiles that are worked on together
  int n_splits, split_groups;  // parts of k, and groups in each (the last has the rest)
  int n_parts;                 // of the reduction: n_splits, which is 1 there
  float* partial;              // of n_splits > 1: [n_splits, n_lanes, n_cols, n_rows]
  // Experts: column tiles and their number lie in device memory (null: n_col_tiles of one matrix); column c of x is
  // column destination[c] of y.
  const GemmTile* tiles;
  const int32_t* n_tiles;
  const int32_t* destination;
  bool overlap;  // programmatic dependent launch
  int n_sms;
};

}  // namespace tokamak::cuda
