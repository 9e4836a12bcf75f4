// 16 rows x NC columns of the K types: Q4_K, Q5_K, Q6_K. Layouts: formats.h.
// Per 256, groups in ascending k:  t = fma(sum_g, d * sc_g, t) from 0;  with mins t = t - min_sum * dmin (one fma);
// f = fma(t, da, f).
#pragma once

#include "backend/cpu/matmul/tile_common.h"

namespace tokamak::cpu {
namespace {

// One block of 256 for the NC columns of a tile.
template <class V, int NC>
struct Group256 {
  TilePosition<V, NC> at;
  const std::byte* base;  // of the panel's block

  explicit Group256(const TileColumns& a) : at(a), base(a.panel) {}
  void next() { base += activation_format(ActivationKind::int8_group256).block_bytes_per_col * at.n_cols(); }
  const std::byte* codes(int run) const { return base + run * 32 * at.n_cols() + 32 * at.first(); }  // 32 bytes apart
  int32_t start(int group16, int c) const {
    return load_scalar<int32_t>(base + (256 + 4 * group16) * at.n_cols() + 4 * (at.first() + c));
  }
  const std::byte* run_sums() const { return base + 320 * at.n_cols() + 16 * at.first(); }  // columns 16 bytes apart
  float d(int c) const { return load_scalar<float>(base + 336 * at.n_cols() + 4 * (at.first() + c)); }
};

// The 8 six-bit scales and mins of 16 rows: byte i of dword r belongs to group i (low) or i + 4 (high).
template <class V>
struct SixBitScales {
  typename V::B scale_low, scale_high, min_low, min_high;

  explicit SixBitScales(const std::byte* w) {
    const auto a = V::load_codes(w), b = V::load_codes(w + 64), h = V::load_codes(w + 128);
    scale_low = V::template or_masked<0x30>(V::template mask<0x0F>(a), V::template shl<4>(h));
    min_low = V::template or_masked<0x30>(V::template mask<0x0F>(V::template shr<4>(a)), V::template shl<2>(h));
    scale_high = V::template or_masked<0x30>(V::template mask<0x0F>(b), h);
    min_high = V::template or_masked<0x30>(V::template mask<0x0F>(V::template shr<4>(b)), V::template shr<2>(h));
  }
  template <int group>
  typename V::F scale(const typename V::F& d) const {
    return V::mul(d, V::to_f32(V::template lane_u8<group % 4>(group < 4 ? scale_low : scale_high)));
  }
};

// t -= dmin * sum over groups of min * (sum of the group's codes)
template <class V, int NC>
[[gnu::always_inline]] inline void subtract_mins(typename V::F (&t)[NC], const SixBitScales<V>& scales,
                                                 const typename V::F& dmin, const Group256<V, NC>& a) {
  typename V::template Acc<6> low[NC], high[NC];
#pragma GCC unroll 8
  for (int c = 0; c < NC; ++c) low[c] = high[c] = V::template start<6>(0);
  V::template dot2<6, NC>(low, scales.min_low, scales.min_high, a.run_sums(), a.run_sums() + 4, 16);
  V::template dot2<6, NC>(high, scales.min_low, scales.min_high, a.run_sums() + 8, a.run_sums() + 12, 16);
#pragma GCC unroll 8
  for (int c = 0; c < NC; ++c) {
    const auto sum = V::shl7_add(V::template sum<6>(high[c], 0), V::template sum<6>(low[c], 0));
    t[c] = V::fnma(V::to_f32(sum), dmin, t[c]);
  }
}

template <class V, int kBits, int NC>
[[gnu::always_inline]] inline void add_group(typename V::F (&t)[NC], typename V::template Acc<kBits> (&s)[NC],
                                             const typename V::F& scale) {
#pragma GCC unroll 8
  for (int c = 0; c < NC; ++c) t[c] = V::fma(V::to_f32(V::template sum<kBits>(s[c], 0)), scale, t[c]);
}

// Nibbles of V[j]: low ones belong to the first 32 of a run of 64, high ones to the rest.
template <class V, bool kHigh>
[[gnu::always_inline]] inline typename V::B nibbles(const std::byte* w) {
  const auto x = V::load_codes(w);
  if constexpr (kHigh) return V::template mask<0x0F>(V::template shr<4>(x));
  return V::template mask<0x0F>(x);
}

// Group g of 32 codes of 4 bits. Both halves of a run load the same 8 vectors: 16 running sums would spill.
template <class V, int g, int NC>
[[gnu::always_inline]] inline void q4_k_group(const std::byte* w, const typename V::F& scale, const Group256<V, NC>& a,
                                              typename V::F (&t)[NC]) {
  typename V::template Acc<4> s[NC];
  const std::byte* v = opaque(w + 256 + (g / 2) * 512);
  const std::byte* codes = a.codes(g);
#pragma GCC unroll 8
  for (int c = 0; c < NC; ++c) s[c] = V::template start<4>(0);
#pragma GCC unroll 4
  for (int j = 0; j < 8; j += 2)
    V::template dot2<4, NC>(s, nibbles<V, g % 2>(v + 64 * j), nibbles<V, g % 2>(v + 64 * j + 64), codes + 4 * j,
                            codes + 4 * j + 4, 32);
  add_group<V, 4>(t, s, scale);
}

// The code quad j of V[j] and bit j of each byte of H.
template <class V, bool kHigh, int j>
[[gnu::always_inline]] inline typename V::B code_5bit(const std::byte* v, const typename V::B& high) {
  const auto x = V::load_codes(v + 64 * j);
  typename V::B h;
  if constexpr (j <= 4)
    h = V::template shl<4 - j>(high);
  else
    h = V::template shr<j - 4>(high);
  return V::join_nibbles(V::template shr < kHigh ? 4 : 0 > (x), V::template mask<0x10>(h));
}

template <class V, int g, int NC>
[[gnu::always_inline]] inline void q5_k_group(const std::byte* w, const typename V::F& scale, const Group256<V, NC>& a,
                                              typename V::F (&t)[NC]) {
  typename V::template Acc<5> s[NC];
  const std::byte* run = opaque(w + 256 + (g / 2) * 640);
  const std::byte* codes = a.codes(g);
  const auto high = V::load_codes(run + 64 * (g % 2));
  const std::byte* v = run + 128;
#pragma GCC unroll 8
  for (int c = 0; c < NC; ++c) s[c] = V::template start<5>(0);
  constexpr bool kHigh = g % 2;
  V::template dot2<5, NC>(s, code_5bit<V, kHigh, 0>(v, high), code_5bit<V, kHigh, 1>(v, high), codes, codes + 4, 32);
  V::template dot2<5, NC>(s, code_5bit<V, kHigh, 2>(v, high), code_5bit<V, kHigh, 3>(v, high), codes + 8, codes + 12,
                          32);
  V::template dot2<5, NC>(s, code_5bit<V, kHigh, 4>(v, high), code_5bit<V, kHigh, 5>(v, high), codes + 16, codes + 20,
                          32);
  V::template dot2<5, NC>(s, code_5bit<V, kHigh, 6>(v, high), code_5bit<V, kHigh, 7>(v, high), codes + 24, codes + 28,
                          32);
  add_group<V, 5>(t, s, scale);
}

// 16 codes of 6 bits in three vectors: bits 0-5 are quads 0, 1, 2; the top bits make quad 3.
template <class V, int group, int NC>
[[gnu::always_inline]] inline void q6_k_group(const std::byte* w, const typename V::F& d, const Group256<V, NC>& a,
                                              typename V::F (&t)[NC]) {
  typename V::template Acc<6> s[NC];
  const std::byte* codes = a.codes(group / 2) + 16 * (group % 2);
  const std::byte* v = w + 320 + 192 * group;
  const auto x = V::load_codes(v), y = V::load_codes(v + 64), z = V::load_codes(v + 128);
#pragma GCC unroll 8
  for (int c = 0; c < NC; ++c) s[c] = V::template start<6>(a.start(group, c));
  V::template dot2<6, NC>(s, V::template mask<0x3F>(x), V::template mask<0x3F>(y), codes, codes + 4, 32);
  const auto low = V::template mask<0x03>(V::template shr<6>(x));
  const auto last =
      V::template or_masked<0x30>(V::template or_masked<0x0C>(low, V::template shr<4>(y)), V::template shr<2>(z));
  V::template dot2<6, NC>(s, V::template mask<0x3F>(z), last, codes + 8, codes + 12, 32);
  const auto scales = V::load_codes(w + 64 * (group / 4));
  add_group<V, 6>(t, s, V::mul(d, V::to_f32(V::template lane_i8<group % 4>(scales))));
}

template <class V, int NC>
[[gnu::always_inline]] inline void add_scaled_256(typename V::F (&f)[NC], const typename V::F (&t)[NC],
                                                  const Group256<V, NC>& a) {
#pragma GCC unroll 8
  for (int c = 0; c < NC; ++c) f[c] = V::fma(t[c], V::set1(a.d(c)), f[c]);
}

// fn(integral_constant<int, 0>) ... fn(integral_constant<int, n - 1>)
template <int n, class Fn>
[[gnu::always_inline]] inline void for_each_index(Fn fn) {
  [&]<int... i>(std::integer_sequence<int, i...>) __attribute__((always_inline)) {
    (fn(std::integral_constant<int, i>{}), ...);
  }
  (std::make_integer_sequence<int, n>{});
}

template <class V>
struct TileQ4_K {
  static constexpr const PackedFormat& kFormat = *find_packed_format(DType::q4_k);
  template <int NC>
  static void run(const std::byte* w, const TileColumns& cols, int64_t n_chunks, typename V::F (&f)[NC]) {
    Group256<V, NC> a(cols);
    for (int64_t i = 0; i < n_chunks; ++i, w += kFormat.chunk_bytes, a.next()) {
      prefetch_chunk<NC, kFormat.chunk_bytes>(w);
      const SixBitScales<V> scales(w);
      const auto d = V::load_f16(w + 192);
      typename V::F t[NC];
#pragma GCC unroll 8
      for (int c = 0; c < NC; ++c) t[c] = V::zero();
      for_each_index<8>([&](auto g)
                            __attribute__((always_inline)) { q4_k_group<V, g>(w, scales.template scale<g>(d), a, t); });
      subtract_mins<V>(t, scales, V::load_f16(w + 224), a);
      add_scaled_256<V>(f, t, a);
    }
  }
};

template <class V>
struct TileQ5_K {
  static constexpr const PackedFormat& kFormat = *find_packed_format(DType::q5_k);
  template <int NC>
  static void run(const std::byte* w, const TileColumns& cols, int64_t n_chunks, typename V::F (&f)[NC]) {
    Group256<V, NC> a(cols);
    for (int64_t i = 0; i < n_chunks; ++i, w += kFormat.chunk_bytes, a.next()) {
      prefetch_chunk<NC, kFormat.chunk_bytes>(w);
      const SixBitScales<V> scales(w);
      const auto d = V::load_f16(w + 192);
      typename V::F t[NC];
#pragma GCC unroll 8
      for (int c = 0; c < NC; ++c) t[c] = V::zero();
      for_each_index<8>([&](auto g)
                            __attribute__((always_inline)) { q5_k_group<V, g>(w, scales.template scale<g>(d), a, t); });
      subtract_mins<V>(t, scales, V::load_f16(w + 224), a);
      add_scaled_256<V>(f, t, a);
    }
  }
};

template <class V>
struct TileQ6_K {
  static constexpr const PackedFormat& kFormat = *find_packed_format(DType::q6_k);
  template <int NC>
  static void run(const std::byte* w, const TileColumns& cols, int64_t n_chunks, typename V::F (&f)[NC]) {
    Group256<V, NC> a(cols);
    for (int64_t i = 0; i < n_chunks; ++i, w += kFormat.chunk_bytes, a.next()) {
      prefetch_chunk<NC, kFormat.chunk_bytes>(w);
      const auto d = V::load_f16(w + 256);
      typename V::F t[NC];
#pragma GCC unroll 8
      for (int c = 0; c < NC; ++c) t[c] = V::zero();
      for_each_index<16>([&](auto g) __attribute__((always_inline)) { q6_k_group<V, g>(w, d, a, t); });
      add_scaled_256<V>(f, t, a);
    }
  }
};

}  // namespace
}  // namespace tokamak::cpu
