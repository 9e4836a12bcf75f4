// How a product is cut, by shape only: never by the device, so that results can be repeated anywhere.
#pragma once

#include <cstdint>

#include "backend/cuda/gemm/kernels.h"

namespace tokamak::cuda {

// n_rows of both matrices when there are two (a GLU). Enough CTAs for the largest GPUs of 2024: 96 to 192.
inline GemmPlan plan_of(int64_t n_rows, int64_t k, int n_cols, bool plain) {
  GemmPlan plan;
  plan.columns = n_cols <= 32 ? 32 : n_cols <= 64 ? 64 : n_cols <= 128 ? 128 : 256;
  plan.warpgroups = plan.columns <= 64 && !plain ? 4 : 2;
  const int64_t rows = 64 * plan.warpgroups;
  const int64_t tiles = (n_rows + rows - 1) / rows * ((n_cols + plan.columns - 1) / plan.columns);
  const int64_t most = (k + 511) / 512;  // at least 512 k each
  int64_t splits = 1;
  while (splits * 2 <= most && splits < 8 && tiles * splits * 2 <= 192) splits *= 2;
  plan.n_splits = static_cast<int>(splits);
  return plan;
}

}  // namespace tokamak::cuda
