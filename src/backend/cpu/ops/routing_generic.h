// Softmax, sums and expert biases over a vector layer V. Included by ops_ISA.cpp only.
#pragma once

#include <limits>

#include "backend/cpu/ops/rows_generic.h"

namespace tokamak::cpu {
namespace {

template <class V>
struct Routing {
  using F = typename V::F;
  using A = Math<V>;
  using R = Rows<V>;

  // y = exp(x - max) / sum. The sum is off by its own additions and 3 u per term; each result by 2 roundings more.
  static void soft_max_row(const float* x, int64_t n_elems, float* y) {
    const F lowest = V::set1(-std::numeric_limits<float>::infinity());
    F largest = lowest;
    for_vectors(n_elems, [&](int64_t i, int n) {
      F v = R::load(x + i, n);
      if (n < 16) v = V::select(V::lanes(0, n), v, lowest);
      largest = V::max(v, largest);
    });
    const F top = V::set1(V::max_lane(largest));
    for_vectors(n_elems, [&](int64_t i, int n) { R::store(y + i, A::exp(V::sub(R::load(x + i, n), top)), n); });
    const F sum = V::set1(R::sum_row(y, n_elems, [](F s, F v, int) { return V::add(s, v); }));
    for_vectors(n_elems, [&](int64_t i, int n) { R::store(y + i, V::div(R::load(y + i, n), sum), n); });
  }
  static void soft_max(const SoftMaxArgs& a, int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) soft_max_row(a.x + r * a.x_stride, a.row_elems, a.y + r * a.y_stride);
  }

  static void sum_rows(const SumRowsArgs& a, int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      a.y[r] = R::sum_row(a.x + r * a.x_stride, a.row_elems, [](F s, F v, int) { return V::add(s, v); });
  }

  static void add_id(const AddIdArgs& a, int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const int32_t expert = a.ids[item / a.n_used * a.ids_stride + item % a.n_used];
      const float *x = a.a + item * a.a_stride, *b = a.b + expert * a.b_stride;
      float* y = a.y + item * a.y_stride;
      for_vectors(a.row_elems,
                  [&](int64_t i, int n) { R::store(y + i, V::add(R::load(x + i, n), R::load(b + i, n)), n); });
    }
  }
};

}  // namespace
}  // namespace tokamak::cpu
