// How a product is cut, by shape only: never by the device, so that results can be repeated anywhere.
#pragma once

#include <cstdint>

#include "backend/cuda/gemm/kernels.h"
#include "tensor/dtypes.h"

namespace tokamak::cuda {

// n_rows of both matrices when there are two (a GLU). k is split until there are enough CTAs for a large GPU; parts
// have at least 512.
inline GemmPlan plan_of(int64_t n_rows, int64_t k, int n_cols, DType dtype) {
  const bool plain = !is_quantized(dtype);
  GemmPlan plan;
  plan.columns = n_cols <= 64 ? 64 : n_cols <= 128 || dtype == DType::f32 ? 128 : 256;
  plan.warpgroups = plan.columns <= 64 && !plain ? 4 : 2;
  const int64_t rows = 64 * plan.warpgroups;
  const int64_t tiles = (n_rows + rows - 1) / rows * ((n_cols + plan.columns - 1) / plan.columns);
  const int64_t n_groups = (k + 127) / 128;
  const int64_t wanted = tiles >= 132 ? 1 : 132 / tiles < 8 ? 132 / tiles : 8;
  const int64_t groups = (n_groups + wanted - 1) / wanted;
  plan.split_groups = static_cast<int>(groups < 4 ? 4 : groups);
  plan.n_splits = static_cast<int>((n_groups + plan.split_groups - 1) / plan.split_groups);
  return plan;
}

// Experts: k is not split.
inline GemmPlan expert_plan(int tile_cols, int64_t k, bool plain) {
  return {tile_cols, tile_cols <= 64 && !plain ? 4 : 2, 1, static_cast<int>((k + 127) / 128)};
}

}  // namespace tokamak::cuda
