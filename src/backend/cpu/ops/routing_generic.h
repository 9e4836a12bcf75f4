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

  template <class Fn>
  static void map_row(const float* x, int64_t n_elems, float* y, Fn fn) {
    for_vectors(n_elems, [&](int64_t i, int n) { R::store(y + i, fn(R::load(x + i, n)), n); });
  }
  static void probabilities(RouterKind kind, const float* x, int64_t n, float* p) {
    if (kind == RouterKind::soft_max) return soft_max_row(x, n, p);
    if (kind == RouterKind::sigmoid) return map_row(x, n, p, [](F v) { return A::sigmoid(v); });
    map_row(x, n, p, [](F v) { return V::sqrt(A::softplus(v)); });
  }
  static void route(const RouterArgs& a, int64_t begin, int64_t end) {
    alignas(64) float p[kMaxRoutedExperts], biased[kMaxRoutedExperts], masked[kMaxRoutedExperts];
    const bool late = a.kind == RouterKind::late_soft_max || a.kind == RouterKind::late_sigmoid;
    for (int64_t t = begin; t < end; ++t) {
      const float* x = a.x + t * a.x_stride;
      int32_t* ids = a.ids + t * a.ids_stride;
      float* w = a.weights + t * a.n_used;
      if (!late) probabilities(a.kind, x, a.n_expert, p);
      const float *source = late ? x : p, *score = source;
      if (a.bias) {
        for_vectors(a.n_expert, [&](int64_t i, int n) {
          R::store(biased + i, V::add(R::load(score + i, n), R::load(a.bias + i, n)), n);
        });
        score = biased;
      }
      if (a.n_best > 0) {
        mask_groups_rows({.row_elems = a.n_expert,
                          .n_group = a.n_group,
                          .n_group_used = a.n_group_used,
                          .n_best = a.n_best,
                          .x = score,
                          .y = masked},
                         0, 1);
        score = masked;
      }
      best_of_row(score, a.n_expert, a.n_used, ids);
      for (int64_t i = 0; i < a.n_used; ++i) w[i] = source[ids[i]];
      weigh(a, w);
    }
  }
  // From the chosen ones' scores to their weights.
  static void weigh(const RouterArgs& a, float* w) {
    if (a.kind == RouterKind::late_soft_max) soft_max_row(w, a.n_used, w);
    if (a.kind == RouterKind::late_sigmoid) map_row(w, a.n_used, w, [](F v) { return A::sigmoid(v); });
    if (a.renormalise) {
      const F sum = V::set1(R::sum_row(w, a.n_used, [](F s, F v, int) { return V::add(s, v); }));
      const F divisor = V::min(V::set1(a.high), V::max(V::set1(a.low), sum));
      map_row(w, a.n_used, w, [divisor](F v) { return V::div(v, divisor); });
    }
    if (a.scaled) map_row(w, a.n_used, w, [&a](F v) { return V::fma(V::set1(a.scale), v, V::zero()); });
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

  static void weighted_sum(const WeightedSumArgs& a, int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const float *x = a.x + t * a.n_used * a.x_stride, *w = a.weights + t * a.n_used * a.weight_stride;
      float* y = a.y + t * a.y_stride;
      for_vectors(a.row_elems, [&](int64_t i, int n) {
        F s = V::mul(R::load(x + i, n), V::set1(w[0]));
        for (int64_t k = 1; k < a.n_used; ++k)
          s = V::add(s, V::mul(R::load(x + k * a.x_stride + i, n), V::set1(w[k * a.weight_stride])));
        for (size_t k = 0; k < a.n_addends; ++k) s = V::add(s, R::load(a.addends[k] + t * a.addend_strides[k] + i, n));
        R::store(y + i, s, n);
      });
    }
  }
};

}  // namespace
}  // namespace tokamak::cpu
