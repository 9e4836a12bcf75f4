// What the integer tiles share: a group of 32 activation codes, running sums, scaling. kTerms = 1 for int8 activations,
// 2 for int16 (high and low bytes; formats.h).
#pragma once

#include <utility>

#include "backend/cpu/matmul/tile_common.h"

namespace tokamak::cpu {
namespace {

// One group of 32 for the NC columns of a tile.
template <class V, int NC, int kTerms>
struct Group {
  static constexpr ActivationKind kKind = kTerms == 1 ? ActivationKind::int8 : ActivationKind::int16;
  TilePosition<V, NC> at;
  const std::byte* base;  // of the panel's group

  explicit Group(const TileColumns& a) : at(a), base(a.panel) {}
  int64_t stride() const { return activation_format(kKind).group_bytes_per_col * at.n_cols(); }
  void next(int n_groups = 1) { base += n_groups * stride(); }
  Group ahead(int n_groups) const {
    Group g = *this;
    g.next(n_groups);
    return g;
  }
  const std::byte* codes(int term) const { return base + 32 * (term * at.n_cols() + at.first()); }  // 32 bytes apart
  const std::byte* place(GroupArray array, int c) const {
    return base + (32 * kTerms + 4 * static_cast<int>(array)) * at.n_cols() + 4 * (at.first() + c);
  }
  float f32(GroupArray array, int c) const { return load_scalar<float>(place(array, c)); }
  int32_t i32(GroupArray array, int c) const { return load_scalar<int32_t>(place(array, c)); }
};

// Which start value the code offset of a weight type needs: minus that times the sum of a group or of its halves.
enum class Start {
  none,
  minus1,
  minus4,
  minus8,
  minus16,
  minus64,
  minus128,
  minus32_first,
  minus32_second,
  minus128_first,
  minus128_second
};

template <Start kStart, class V, int NC, int kTerms>
[[gnu::always_inline]] inline int32_t start_value(const Group<V, NC, kTerms>& a, int c) {
  switch (kStart) {
    case Start::none:
      return 0;
    case Start::minus1:
      return a.i32(GroupArray::minus8_s, c) >> 3;
    case Start::minus4:
      return a.i32(GroupArray::minus8_s, c) >> 1;
    case Start::minus8:
      return a.i32(GroupArray::minus8_s, c);
    case Start::minus16:
      return a.i32(GroupArray::minus16_s, c);
    case Start::minus64:
      return a.i32(GroupArray::minus128_s, c) >> 1;
    case Start::minus128:
      return a.i32(GroupArray::minus128_s, c);
    case Start::minus32_first:
      return a.i32(GroupArray::minus32_s0, c);
    case Start::minus32_second:
      return a.i32(GroupArray::minus32_s1, c);
    case Start::minus128_first:
      return a.i32(GroupArray::minus32_s0, c) * 4;
    case Start::minus128_second:
      return a.i32(GroupArray::minus32_s1, c) * 4;
  }
}

// Integer sums of 16 rows with NC columns. The start value belongs to the low term (it is a multiple of the whole
// code).
template <class V, int kBits, Start kStart, int NC, int kTerms>
struct Sums {
  using Acc = typename V::template Acc<kBits>;
  Acc high[NC], low[kTerms == 2 ? NC : 1];

  [[gnu::always_inline]] explicit Sums(const Group<V, NC, kTerms>& a) {
#pragma GCC unroll 8
    for (int c = 0; c < NC; ++c) {
      const Acc first = V::template start<kBits>(start_value<kStart>(a, c));
      if constexpr (kTerms == 2) {
        high[c] = V::template start<kBits>(0);
        low[c] = first;
      } else {
        high[c] = first;
      }
    }
  }
  // += w0 . codes[at0, at0 + 4) + w1 . codes[at1, at1 + 4)
  [[gnu::always_inline]] void add(const typename V::B& w0, const typename V::B& w1, const Group<V, NC, kTerms>& a,
                                  int at0, int at1) {
    V::template dot2<kBits, NC>(high, w0, w1, a.codes(0) + at0, a.codes(0) + at1, 32);
    if constexpr (kTerms == 2) V::template dot2<kBits, NC>(low, w0, w1, a.codes(1) + at0, a.codes(1) + at1, 32);
  }
  [[gnu::always_inline]] typename V::F value(const Group<V, NC, kTerms>& a, int c) const {
    const int32_t start = start_value<kStart>(a, c);
    if constexpr (kTerms == 1) return V::to_f32(V::template sum<kBits>(high[c], start));
    return V::to_f32(V::shl7_add(V::template sum<kBits>(high[c], 0), V::template sum<kBits>(low[c], start)));
  }
};

// f = fma(sum, dw * da, f)
template <class V, int kBits, Start kStart, int NC, int kTerms>
[[gnu::always_inline]] inline void add_scaled(typename V::F (&f)[NC], const Sums<V, kBits, kStart, NC, kTerms>& s,
                                              const typename V::F& dw, const Group<V, NC, kTerms>& a) {
#pragma GCC unroll 8
  for (int c = 0; c < NC; ++c) f[c] = V::fma(s.value(a, c), V::mul(dw, V::set1(a.f32(GroupArray::d, c))), f[c]);
}

// Two groups of 16 with scales dw0 and dw1:  t = sum_0 * dw0;  t = fma(sum_1, dw1, t);  f = fma(t, da, f).
// first(sums) and second(sums) add their codes.
template <class V, int kBits, Start kFirst, Start kSecond, int NC, int kTerms, class First, class Second>
[[gnu::always_inline]] inline void add_halves(typename V::F (&f)[NC], const Group<V, NC, kTerms>& a,
                                              const typename V::F& dw0, const typename V::F& dw1, First first,
                                              Second second) {
  typename V::F t[NC];
  {
    Sums<V, kBits, kFirst, NC, kTerms> s(a);
    first(s);
#pragma GCC unroll 8
    for (int c = 0; c < NC; ++c) t[c] = V::mul(s.value(a, c), dw0);
  }
  Sums<V, kBits, kSecond, NC, kTerms> s(a);
  second(s);
#pragma GCC unroll 8
  for (int c = 0; c < NC; ++c) f[c] = V::fma(V::fma(s.value(a, c), dw1, t[c]), V::set1(a.f32(GroupArray::d, c)), f[c]);
}

// f = fma(m, array, f): the weight's min times d_s, d_s0 or d_s1.
template <class V, int NC, int kTerms>
[[gnu::always_inline]] inline void add_mins(typename V::F (&f)[NC], const typename V::F& m, GroupArray array,
                                            const Group<V, NC, kTerms>& a) {
#pragma GCC unroll 8
  for (int c = 0; c < NC; ++c) f[c] = V::fma(m, V::set1(a.f32(array, c)), f[c]);
}

// fn(integral_constant<int, 0>) ... fn(integral_constant<int, n - 1>)
template <int n, class Fn>
[[gnu::always_inline]] inline void for_each_index(Fn fn) {
  [&]<int... i>(std::integer_sequence<int, i...>) __attribute__((always_inline)) {
    (fn(std::integral_constant<int, i>{}), ...);
  }
  (std::make_integer_sequence<int, n>{});
}

}  // namespace
}  // namespace tokamak::cpu
