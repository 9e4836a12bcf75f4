// Routing to experts: kernels over rows of scores. Strides in elements between rows.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "backend/lowering/router_kind.h"

namespace tokamak::cuda {

using lowering::RouterKind;

// y[r] = the indices of x[r] by falling value, the lower index first among equals, NaN last.
struct ArgsortArgs {
  const float* x = nullptr;
  int32_t* y = nullptr;
  int64_t x_stride = 0, y_stride = 0, n_rows = 0, row_elems = 0;
};
cudaError_t launch_argsort(const ArgsortArgs& args, cudaStream_t stream);

inline constexpr int64_t kMaxGroups = 256, kMaxBest = 8;

// Scores outside the n_group_used best groups become -inf; a group counts as the sum of its n_best largest scores.
struct MaskGroupsArgs {
  const float* x = nullptr;
  float* y = nullptr;
  int64_t n_group = 1, n_group_used = 1, n_best = 1;  // at most kMaxGroups, and kMaxBest
  int64_t x_stride = 0, y_stride = 0, n_rows = 0, row_elems = 0;
};
cudaError_t launch_mask_groups(const MaskGroupsArgs& args, cudaStream_t stream);

// From router logits to experts and their weights in one pass over a token's row:
//   p = softmax(x), sigmoid(x) or sqrt(softplus(x)); s = p + bias; groups of s masked; ids = the n_used best of s
//   w = p[ids]; w /= clamp(sum w, low, high); w *= scale
// or, late: ids = the n_used best of x, w = softmax or sigmoid of x[ids].
inline constexpr int64_t kMaxRoutedExperts = 1024;
struct RouterArgs {
  RouterKind kind = RouterKind::soft_max;
  int64_t n_tokens = 0, n_expert = 0, n_used = 0;  // n_expert <= kMaxRoutedExperts
  const float* x = nullptr;
  int64_t x_stride = 0;
  const float* bias = nullptr;                        // [n_expert] or null
  int64_t n_group = 1, n_group_used = 1, n_best = 0;  // n_best 0: no groups
  bool renormalise = false;
  float low = 0, high = 0;
  float scale = 1;
  int32_t* ids = nullptr;  // n_used per token
  int64_t ids_stride = 0;
  float* weights = nullptr;  // [n_tokens][n_used]
};
cudaError_t launch_router(const RouterArgs& args, cudaStream_t stream);

// y[t, u] = a[t, u] + b[ids[t, u]]
struct AddIdArgs {
  const float* a = nullptr;
  const float* b = nullptr;
  const int32_t* ids = nullptr;
  float* y = nullptr;
  int64_t a_stride = 0, b_stride = 0, ids_stride = 0, y_stride = 0;
  int64_t n_used = 1, n_rows = 0, row_elems = 0;
};
cudaError_t launch_add_id(const AddIdArgs& args, cudaStream_t stream);

}  // namespace tokamak::cuda
