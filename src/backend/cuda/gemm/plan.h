// How a product is cut, by shape only: never by the device, so that results can be repeated anywhere.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backend/cuda/gemm/kernels.h"
#include "base/round_up.h"
#include "tensor/dtypes.h"

namespace tokamak::cuda {

// A large GPU has so many multiprocessors; k is split until there is a CTA for each.
inline constexpr int64_t kFullGpu = 132, kMaxSplits = 8;
inline constexpr int64_t kMinSplitGroups = 4;  // of a part of k
inline constexpr int64_t kWarpgroupRows = 64;

inline int warpgroups_of(int columns, bool plain) { return columns <= 64 && !plain ? 4 : 2; }

// n_rows of both matrices when there are two (a GLU).
inline GemmPlan plan_of(int64_t n_rows, int64_t k, int n_cols, DType dtype) {
  GemmPlan plan;
  plan.columns = n_cols <= 64 ? 64 : n_cols <= 128 || dtype == DType::f32 ? 128 : 256;
  plan.warpgroups = warpgroups_of(plan.columns, !is_quantized(dtype));
  const int64_t n_tiles =
      div_round_up(n_rows, kWarpgroupRows * plan.warpgroups) * div_round_up(int64_t{n_cols}, int64_t{plan.columns});
  const int64_t n_groups = div_round_up(k, int64_t{kGroup});
  const int64_t n_wanted = std::clamp(kFullGpu / n_tiles, int64_t{1}, kMaxSplits);
  const int64_t split_groups = std::max(div_round_up(n_groups, n_wanted), kMinSplitGroups);
  plan.split_groups = static_cast<int>(split_groups);
  plan.n_splits = static_cast<int>(div_round_up(n_groups, split_groups));
  return plan;
}

// Experts: k is not split.
inline GemmPlan expert_plan(int tile_cols, int64_t k, bool plain) {
  return {tile_cols, warpgroups_of(tile_cols, plain), 1, static_cast<int>(div_round_up(k, int64_t{kGroup}))};
}

}  // namespace tokamak::cuda
