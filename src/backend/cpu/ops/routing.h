// Arguments of the routing kernels: from router logits to the chosen experts and their weights, and the sum of what
// these make. Strides count elements.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "backend/lowering/router_kind.h"

namespace tokamak::cpu {

using lowering::RouterKind;

// SOFT_MAX: y = exp(x - max) / sum exp(x - max); item = row. In place: x.
struct SoftMaxArgs {
  int64_t row_elems = 0;
  const float* x = nullptr;
  int64_t x_stride = 0;
  float* y = nullptr;
  int64_t y_stride = 0;
};

// SUM_ROWS: y[r] = sum of row r; item = row.
struct SumRowsArgs {
  int64_t row_elems = 0;
  const float* x = nullptr;
  int64_t x_stride = 0;
  float* y = nullptr;
};

// ARGSORT: indices by falling value, the lower index first among equals, NaN last; item = row.
struct ArgsortArgs {
  int64_t row_elems = 0;
  const float* x = nullptr;
  int64_t x_stride = 0;
  int32_t* y = nullptr;
  int64_t y_stride = 0;
};

// MASK_GROUPS: experts outside the n_group_used best groups become -inf; item = row. A group of row_elems / n_group
// neighbours counts as the sum of its n_best (1 or 2) largest.
struct MaskGroupsArgs {
  int64_t row_elems = 0;
  int64_t n_group = 1, n_group_used = 1, n_best = 1;
  const float* x = nullptr;
  int64_t x_stride = 0;
  float* y = nullptr;
  int64_t y_stride = 0;
};

// ADD_ID: y[t, i] = a[t, i] + b[ids[t, i]]; item = t * n_used + i. In place: a.
struct AddIdArgs {
  int64_t row_elems = 0, n_used = 1;
  const float* a = nullptr;
  int64_t a_stride = 0;
  const float* b = nullptr;  // [n_expert][row_elems]
  int64_t b_stride = 0;
  const int32_t* ids = nullptr;
  int64_t ids_stride = 0;  // token to token
  float* y = nullptr;
  int64_t y_stride = 0;
};

// MUL+ADD+...: y[t] = w[t, 0] x[t, 0] + w[t, 1] x[t, 1] + ... + addends[0][t] + ..., from left to right, rounded after
// each step as the separate ops would; item = token. Rows of x and w: t * n_used + i. In place: addends.
struct WeightedSumArgs {
  static constexpr size_t kMaxAddends = 2;
  int64_t row_elems = 0, n_used = 1;
  const float* x = nullptr;
  int64_t x_stride = 0;
  const float* weights = nullptr;  // one number per row
  int64_t weight_stride = 0;
  size_t n_addends = 0;
  std::array<const float*, kMaxAddends> addends{};
  std::array<int64_t, kMaxAddends> addend_strides{};
  float* y = nullptr;
  int64_t y_stride = 0;
};

// From router logits to experts and their weights in one pass over a row; item = token. The same bits as the ops one by
// one:
//   p = softmax(x), sigmoid(x) or sqrt(softplus(x)); s = p + bias; groups of s masked; ids = the n_used best of s
//   w = p[ids]; w /= clamp(sum w, low, high); w *= scale
// or, late: ids = the n_used best of x, w = softmax or sigmoid of x[ids].
inline constexpr int64_t kMaxRoutedExperts = 1024;
struct RouterArgs {
  RouterKind kind = RouterKind::soft_max;
  int64_t n_expert = 0, n_used = 0;  // n_expert <= kMaxRoutedExperts
  const float* x = nullptr;
  int64_t x_stride = 0;
  const float* bias = nullptr;                        // [n_expert] or null
  int64_t n_group = 1, n_group_used = 1, n_best = 0;  // n_best 0: no groups
  bool renormalise = false;
  float low = 0, high = 0;
  bool scaled = false;
  float scale = 1;
  int32_t* ids = nullptr;  // n_used per token
  int64_t ids_stride = 0;
  float* weights = nullptr;  // [n_tokens][n_used]
};

// Whether a value comes before another in falling order: NaN last, as ARGSORT has it.
inline bool ranks_before(float a, float b) { return a > b || (b != b && a == a); }

// In plain C++ for all instruction sets: they compare and move, and do no arithmetic worth a vector. routing.cpp.
void argsort_rows(const ArgsortArgs& args, int64_t begin, int64_t end);
void mask_groups_rows(const MaskGroupsArgs& args, int64_t begin, int64_t end);
// The first n_best entries of argsort.
void best_of_row(const float* x, int64_t n, int64_t n_best, int32_t* ids);

}  // namespace tokamak::cpu
