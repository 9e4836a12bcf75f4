#include "backend/cpu/ops/routing.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace tokamak::cpu {

void argsort_rows(const ArgsortArgs& a, int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; ++r) {
    const float* x = a.x + r * a.x_stride;
    int32_t* y = a.y + r * a.y_stride;
    std::iota(y, y + a.row_elems, 0);
    std::sort(y, y + a.row_elems, [x](int32_t i, int32_t j) {
      if (ranks_before(x[i], x[j])) return true;
      return !ranks_before(x[j], x[i]) && i < j;
    });
  }
}

void best_of_row(const float* x, int64_t n, int64_t n_best, int32_t* ids) {
  int64_t n_found = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (n_found == n_best && !ranks_before(x[i], x[ids[n_best - 1]])) continue;  // most of them
    int64_t at = n_found < n_best ? n_found++ : n_best - 1;
    for (; at > 0 && ranks_before(x[i], x[ids[at - 1]]); --at) ids[at] = ids[at - 1];
    ids[at] = static_cast<int32_t>(i);
  }
}

namespace {
// Sum of the n_best largest of x; exact for two of like size, as f64 holds it.
double group_score(const float* x, int64_t n, int64_t n_best) {
  float first = std::numeric_limits<float>::quiet_NaN(), second = first;
  for (int64_t i = 0; i < n; ++i) {
    if (i == 0 || ranks_before(x[i], first)) {
      second = first;
      first = x[i];
    } else if (i == 1 || ranks_before(x[i], second)) {
      second = x[i];
    }
  }
  return n_best == 1 ? double{first} : double{first} + double{second};
}
// How many groups count for more; equal ones count in their order, NaN last.
int64_t rank_of_group(const MaskGroupsArgs& a, const float* x, int64_t group) {
  const int64_t size = a.row_elems / a.n_group;
  const double own = group_score(x + group * size, size, a.n_best);
  int64_t rank = 0;
  for (int64_t g = 0; g < a.n_group; ++g) {
    if (g == group) continue;
    const double other = group_score(x + g * size, size, a.n_best);
    const bool before = other > own || (own != own && other == other);
    const bool after = own > other || (other != other && own == own);
    if (before || (!after && g < group)) ++rank;
  }
  return rank;
}
}  // namespace

void mask_groups_rows(const MaskGroupsArgs& a, int64_t begin, int64_t end) {
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  const int64_t size = a.row_elems / a.n_group;
  for (int64_t r = begin; r < end; ++r) {
    const float* x = a.x + r * a.x_stride;
    float* y = a.y + r * a.y_stride;
    for (int64_t g = 0; g < a.n_group; ++g) {
      if (rank_of_group(a, x, g) < a.n_group_used)
        std::copy_n(x + g * size, size, y + g * size);
      else
        std::fill_n(y + g * size, size, kNone);
    }
  }
}

}  // namespace tokamak::cpu
