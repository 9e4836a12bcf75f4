// Row kernels over a vector layer V: norms, element-wise ops, rope, conversions. Included by ops_ISA.cpp only.
#pragma once

#include <cmath>
#include <cstring>

#include "backend/cpu/ops/math_generic.h"
#include "backend/cpu/ops/ops.h"
#include "base/half.h"

namespace tokamak::cpu {
namespace {

// fn(offset, n): whole vectors with n = 16, then once the rest.
template <class Fn>
inline void for_vectors(int64_t n_elems, Fn fn) {
  int64_t i = 0;
  for (; i + 16 <= n_elems; i += 16) fn(i, 16);
  if (i < n_elems) fn(i, static_cast<int>(n_elems - i));
}

template <class V>
struct Rows {
  using F = typename V::F;
  using A = Math<V>;

  static F load(const float* p, int n) { return n == 16 ? V::load(p) : V::load_n(p, n); }
  static void store(float* p, F x, int n) {
    if (n == 16)
      V::store(p, x);
    else
      V::store_n(p, x, n);
  }

  // sum of term(x vector, n) over a row: vector i goes to sum i % 4. term must give 0 in lanes from n on.
  template <class Term>
  static float sum_row(const float* x, int64_t n_elems, Term term) {
    F s0 = V::zero(), s1 = V::zero(), s2 = V::zero(), s3 = V::zero();
    int64_t i = 0;
    for (; i + 64 <= n_elems; i += 64) {
      s0 = term(s0, V::load(x + i), 16);
      s1 = term(s1, V::load(x + i + 16), 16);
      s2 = term(s2, V::load(x + i + 32), 16);
      s3 = term(s3, V::load(x + i + 48), 16);
    }
    F* const sums[4] = {&s0, &s1, &s2, &s3};
    for (int k = 0; i < n_elems; i += 16, ++k) {
      const int n = static_cast<int>(n_elems - i < 16 ? n_elems - i : 16);
      *sums[k] = term(*sums[k], load(x + i, n), n);
    }
    return V::sum(V::add(V::add(s0, s1), V::add(s2, s3)));
  }

  static float square_sum(const float* x, int64_t n) {
    return sum_row(x, n, [](F s, F v, int) { return V::fma(v, v, s); });
  }
  static float inverse_root(float square_sum, int64_t n, float eps) {
    return 1.0f / std::sqrt(square_sum / static_cast<float>(n) + eps);
  }
  static float rms_factor(const float* x, int64_t n, float eps) { return inverse_root(square_sum(x, n), n, eps); }
  // Of r rows that repeat every n; no division where nothing repeats.
  static int64_t repeated(int64_t r, int64_t n) { return r < n ? r : r % n; }

  static void norm(const NormArgs& a, int64_t begin, int64_t end) {
    const int64_t n = a.row_elems;
    for (int64_t r = begin; r < end; ++r) {
      const float* x = a.x + r * a.x_stride;
      float mean = 0, factor;
      if (a.kind == NormKind::centred) {
        mean = sum_row(x, n, [](F s, F v, int) { return V::add(s, v); }) / static_cast<float>(n);
        const F m = V::set1(mean);
        const float square = sum_row(x, n, [m](F s, F v, int lanes) {
          F d = V::sub(v, m);
          if (lanes < 16) d = V::select(V::lanes(0, lanes), d, V::zero());
          return V::fma(d, d, s);
        });
        factor = inverse_root(square, n, a.eps);
      } else {
        factor = a.kind == NormKind::rms ? rms_factor(x, n, a.eps) : 1.0f / std::sqrt(square_sum(x, n) + a.eps);
      }
      scale_row(a, r, mean, factor);
    }
  }
  static void scale_row(const NormArgs& a, int64_t r, float mean, float factor) {
    const float* x = a.x + r * a.x_stride;
    const float* weight = a.weight ? a.weight + repeated(r, a.n_weight_rows) * a.weight_stride : nullptr;
    const float* addend = a.addend ? a.addend + repeated(r, a.n_addend_rows) * a.addend_stride : nullptr;
    float* y = a.y + r * a.y_stride;
    const F m = V::set1(mean), f = V::set1(factor);
    for_vectors(a.row_elems, [&](int64_t i, int n) {
      F v = load(x + i, n);
      if (a.kind == NormKind::centred) v = V::sub(v, m);
      v = V::mul(v, f);
      if (weight) v = V::mul(v, load(weight + i, n));
      if (addend) v = V::add(v, load(addend + i, n));
      store(y + i, v, n);
    });
  }

  template <class Op>
  static void binary(const BinaryArgs& a, int64_t begin, int64_t end, Op op) {
    for (int64_t r = begin; r < end; ++r) {
      const float *x = a.a + r * a.a_stride, *b = a.b + repeated(r, a.n_b_rows) * a.b_stride;
      float* y = a.y + r * a.y_stride;
      if (a.b_is_number) {
        const F number = V::set1(*b);
        for_vectors(a.row_elems, [&](int64_t i, int n) { store(y + i, op(load(x + i, n), number), n); });
      } else {
        for_vectors(a.row_elems, [&](int64_t i, int n) { store(y + i, op(load(x + i, n), load(b + i, n)), n); });
      }
    }
  }
  static void add(const BinaryArgs& a, int64_t begin, int64_t end) {
    binary(a, begin, end, [](F x, F b) { return V::add(x, b); });
  }
  static void sub(const BinaryArgs& a, int64_t begin, int64_t end) {
    binary(a, begin, end, [](F x, F b) { return V::sub(x, b); });
  }
  static void mul(const BinaryArgs& a, int64_t begin, int64_t end) {
    binary(a, begin, end, [](F x, F b) { return V::mul(x, b); });
  }
  static void div(const BinaryArgs& a, int64_t begin, int64_t end) {
    binary(a, begin, end, [](F x, F b) { return V::div(x, b); });
  }
  template <class Op>
  static void chain(const ChainArgs& a, int64_t begin, int64_t end, Op op) {
    for (int64_t r = begin; r < end; ++r) {
      const float* x[ChainArgs::kMax];
      for (size_t k = 0; k < static_cast<size_t>(a.n_inputs); ++k)
        x[k] = a.x[k] + repeated(r, a.n_x_rows[k]) * a.x_stride[k];
      float* y = a.y + r * a.y_stride;
      for_vectors(a.row_elems, [&](int64_t i, int n) {
        F s = load(x[0] + i, n);
        for (size_t k = 1; k < static_cast<size_t>(a.n_inputs); ++k) s = op(s, load(x[k] + i, n));
        store(y + i, s, n);
      });
    }
  }
  static void add_chain(const ChainArgs& a, int64_t begin, int64_t end) {
    chain(a, begin, end, [](F x, F b) { return V::add(x, b); });
  }
  static void mul_chain(const ChainArgs& a, int64_t begin, int64_t end) {
    chain(a, begin, end, [](F x, F b) { return V::mul(x, b); });
  }

  template <class Op>
  static void map(const MapArgs& a, int64_t begin, int64_t end, Op op) {
    for (int64_t r = begin; r < end; ++r) {
      const float* x = a.x + r * a.x_stride;
      float* y = a.y + r * a.y_stride;
      for_vectors(a.row_elems, [&](int64_t i, int n) { store(y + i, op(load(x + i, n)), n); });
    }
  }
  static void scale(const MapArgs& a, int64_t begin, int64_t end) {
    const F s = V::set1(a.scale), bias = V::set1(a.bias);
    map(a, begin, end, [s, bias](F x) { return V::fma(s, x, bias); });
  }
  static void clamp(const MapArgs& a, int64_t begin, int64_t end) {
    const F low = V::set1(a.low), high = V::set1(a.high);
    map(a, begin, end, [low, high](F x) { return V::min(high, V::max(low, x)); });
  }
  static void relu_sqr(const MapArgs& a, int64_t begin, int64_t end) {
    map(a, begin, end, [](F x) { return A::sqr(A::relu(x)); });
  }
  static void softcap(const MapArgs& a, int64_t begin, int64_t end) {
    const float cap = a.cap, scale = a.scale;
    map(a, begin, end, [cap, scale](F x) { return A::softcap(x, cap, scale); });
  }
  static void unary(const MapArgs& a, int64_t begin, int64_t end) {
    switch (a.unary) {
      case UnaryKind::silu:
        return map(a, begin, end, [](F x) { return A::silu(x); });
      case UnaryKind::gelu:
        return map(a, begin, end, [](F x) { return A::gelu(x); });
      case UnaryKind::gelu_erf:
        return map(a, begin, end, [](F x) { return A::gelu_erf(x); });
      case UnaryKind::gelu_quick:
        return map(a, begin, end, [](F x) { return A::gelu_quick(x); });
      case UnaryKind::relu:
        return map(a, begin, end, [](F x) { return A::relu(x); });
      case UnaryKind::sigmoid:
        return map(a, begin, end, [](F x) { return A::sigmoid(x); });
      case UnaryKind::tanh:
        return map(a, begin, end, [](F x) { return A::tanh(x); });
      case UnaryKind::softplus:
        return map(a, begin, end, [](F x) { return A::softplus(x); });
      case UnaryKind::exp:
        return map(a, begin, end, [](F x) { return A::exp(x); });
      case UnaryKind::sqr:
        return map(a, begin, end, [](F x) { return A::sqr(x); });
      case UnaryKind::sqrt:
        return map(a, begin, end, [](F x) { return V::sqrt(x); });
      case UnaryKind::sin:
        return map(a, begin, end, [](F x) { return A::sin(x); });
      case UnaryKind::count_:
        break;
    }
  }

  template <class Gated>
  static void gate(const GluArgs& a, int64_t begin, int64_t end, Gated gated) {
    for (int64_t r = begin; r < end; ++r) {
      const float *g = a.gate + r * a.gate_stride, *up = a.up + r * a.up_stride;
      float* y = a.y + r * a.y_stride;
      for_vectors(a.row_elems, [&](int64_t i, int n) { store(y + i, gated(load(g + i, n), load(up + i, n)), n); });
    }
  }
  // Within (12 + 4 |alpha gate|) u.
  static void swiglu_oai(const GluArgs& a, int64_t begin, int64_t end) {
    const F minus_alpha = V::set1(-a.alpha), limit = V::set1(a.limit), minus_limit = V::set1(-a.limit);
    gate(a, begin, end, [=](F g, F up) {
      g = V::min(limit, g);  // NaN stays NaN
      up = V::min(limit, V::max(minus_limit, up));
      return V::mul(V::add(up, V::set1(1.0f)), A::gated(g, V::mul(minus_alpha, g)));
    });
  }
  static void glu(const GluArgs& a, int64_t begin, int64_t end) {
    switch (a.kind) {
      case GluKind::reglu:
        return gate(a, begin, end, [](F g, F up) { return V::mul(A::relu(g), up); });
      case GluKind::geglu:
        return gate(a, begin, end, [](F g, F up) { return V::mul(A::gelu(g), up); });
      case GluKind::swiglu:
        return gate(a, begin, end, [](F g, F up) { return V::mul(A::silu(g), up); });
      case GluKind::geglu_erf:
        return gate(a, begin, end, [](F g, F up) { return V::mul(A::gelu_erf(g), up); });
      case GluKind::geglu_quick:
        return gate(a, begin, end, [](F g, F up) { return V::mul(A::gelu_quick(g), up); });
      case GluKind::swiglu_oai:
        return swiglu_oai(a, begin, end);
      case GluKind::sigmoid_mul:
        return gate(a, begin, end, [](F g, F up) { return V::mul(A::sigmoid(g), up); });
      case GluKind::softplus_mul:
        return gate(a, begin, end, [](F g, F up) { return V::mul(A::softplus(g), up); });
      case GluKind::count_:
        break;
    }
  }
  static void snake(const SnakeArgs& s, int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const float* x = s.x + r * s.x_stride;
      float* y = s.y + r * s.y_stride;
      const F a = V::set1(s.a[r]), b = V::set1(s.b[r]);
      for_vectors(s.row_elems, [&](int64_t i, int n) {
        const F v = load(x + i, n);
        store(y + i, V::add(V::mul(A::sqr(A::sin(V::mul(v, a))), b), v), n);
      });
    }
  }

  // y = x rotated; dimensions from n_rot on copied. In place allowed.
  static void rotate(const float* x, const float* table, RopePairing pairing, int64_t n_rot, int64_t head_dim,
                     float* y) {
    const float *self = table, *partner = table + n_rot;
    const auto turn = [](F a, F c, F b, F s) { return V::fma(a, c, V::mul(b, s)); };
    if (pairing == RopePairing::norm) {
      for_vectors(n_rot, [&](int64_t i, int n) {
        const F v = load(x + i, n);
        store(y + i, turn(v, load(self + i, n), V::swap_pairs(v), load(partner + i, n)), n);
      });
    } else {
      const int64_t half = n_rot / 2;
      for_vectors(half, [&](int64_t i, int n) {
        const F a = load(x + i, n), b = load(x + half + i, n);
        store(y + i, turn(a, load(self + i, n), b, load(partner + i, n)), n);
        store(y + half + i, turn(b, load(self + half + i, n), a, load(partner + half + i, n)), n);
      });
    }
    if (y != x)
      for_vectors(head_dim - n_rot, [&](int64_t i, int n) { store(y + n_rot + i, load(x + n_rot + i, n), n); });
  }
  static void norm_head(const float* x, const float* weight, float eps, int64_t head_dim, float* y) {
    const F f = V::set1(rms_factor(x, head_dim, eps));
    for_vectors(head_dim,
                [&](int64_t i, int n) { store(y + i, V::mul(V::mul(load(x + i, n), f), load(weight + i, n)), n); });
  }
  static void rope(const RopeArgs& a, int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t token = item / a.n_head, head = item % a.n_head;
      const float* x = a.x + token * a.x_stride + head * (a.x_head_stride ? a.x_head_stride : a.head_dim);
      float* y = a.y + token * a.y_stride + head * a.head_dim;
      if (a.norm_weight) norm_head(x, a.norm_weight, a.eps, a.head_dim, y);
      rotate(a.norm_weight ? y : x, a.table + token * 2 * a.n_rot, a.pairing, a.n_rot, a.head_dim, y);
    }
  }

  static void copy(const CopyArgs& a, int64_t begin, int64_t end) {
    const auto size = [](DType t) { return t == DType::f32 ? 4 : 2; };
    for (int64_t r = begin; r < end; ++r) {
      const auto* x = static_cast<const std::byte*>(a.x) + r * a.x_stride * size(a.x_type);
      auto* y = static_cast<std::byte*>(a.y) + r * a.y_stride * size(a.y_type);
      if (a.x_type == a.y_type) {
        std::memcpy(y, x, static_cast<size_t>(a.row_elems * size(a.x_type)));
        continue;
      }
      int64_t i = 0;
      if (a.x_type != DType::bf16 && a.y_type != DType::bf16)
        for (; i + 16 <= a.row_elems; i += 16) {
          if (a.x_type == DType::f32)
            V::store_f16(reinterpret_cast<uint16_t*>(y) + i, V::load(reinterpret_cast<const float*>(x) + i));
          else
            V::store(reinterpret_cast<float*>(y) + i, V::load(reinterpret_cast<const uint16_t*>(x) + i));
        }
      for (; i < a.row_elems; ++i) put(a.y_type, y, i, get(a.x_type, x, i));
    }
  }
  static float get(DType type, const std::byte* p, int64_t i) {
    if (type == DType::f32) return reinterpret_cast<const float*>(p)[i];
    const uint16_t bits = reinterpret_cast<const uint16_t*>(p)[i];
    return type == DType::f16 ? f16_to_f32(bits) : bf16_to_f32(bits);
  }
  static void put(DType type, std::byte* p, int64_t i, float x) {
    if (type == DType::f32)
      reinterpret_cast<float*>(p)[i] = x;
    else
      reinterpret_cast<uint16_t*>(p)[i] = type == DType::f16 ? f32_to_f16(x) : f32_to_bf16(x);
  }
};

}  // namespace
}  // namespace tokamak::cpu
