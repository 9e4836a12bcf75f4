// 16 rows x NC columns of the K types: Q4_K, Q5_K, Q6_K. Layouts: formats.h. Groups of 32 in ascending k:
//   Q4_K, Q5_K  f = fma(sum, (d * sc) * da, f);  f = fnma(dmin * m, da * sum(a), f)
//   Q6_K        t = sum_0 * (d * sc_0);  t = fma(sum_1, d * sc_1, t);  f = fma(t, da, f)      two groups of 16
#pragma once

#include "backend/cpu/matmul/gemm_template.h"
#include "backend/cpu/matmul/tile_group.h"

namespace tokamak::cpu {
namespace {

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
  template <int group>
  typename V::F min(const typename V::F& dmin) const {
    return V::mul(dmin, V::to_f32(V::template lane_u8<group % 4>(group < 4 ? min_low : min_high)));
  }
};

template <class V, int NC, int kTerms>
[[gnu::always_inline]] inline void subtract_mins(typename V::F (&f)[NC], const typename V::F& m,
                                                 const Group<V, NC, kTerms>& a) {
#pragma GCC unroll 8
  for (int c = 0; c < NC; ++c) f[c] = V::fnma(m, V::set1(a.f32(GroupArray::d_s, c)), f[c]);
}

// Nibbles of V[j]: low ones belong to the first 32 of a run of 64, high ones to the rest.
template <class V, bool kHigh>
[[gnu::always_inline]] inline typename V::B nibbles(const std::byte* w) {
  const auto x = V::load_codes(w);
  if constexpr (kHigh) return V::template mask<0x0F>(V::template shr<4>(x));
  return V::template mask<0x0F>(x);
}

// Group g of 32 codes of 4 bits. Both halves of a run load the same 8 vectors: 16 running sums would spill.
template <class V, int g, int NC, int kTerms>
[[gnu::always_inline]] inline void q4_k_group(const std::byte* w, const typename V::F& scale,
                                              const Group<V, NC, kTerms>& a, typename V::F (&f)[NC]) {
  const std::byte* v = opaque(w + 256 + (g / 2) * 512);
  Sums<V, 4, Start::none, NC, kTerms> s(a);
#pragma GCC unroll 4
  for (int j = 0; j < 8; j += 2)
    s.add(nibbles<V, g % 2>(v + 64 * j), nibbles<V, g % 2>(v + 64 * j + 64), a, 4 * j, 4 * j + 4);
  add_scaled(f, s, scale, a);
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

template <class V, int g, int NC, int kTerms>
[[gnu::always_inline]] inline void q5_k_group(const std::byte* w, const typename V::F& scale,
                                              const Group<V, NC, kTerms>& a, typename V::F (&f)[NC]) {
  const std::byte* run = opaque(w + 256 + (g / 2) * 640);
  const auto high = V::load_codes(run + 64 * (g % 2));
  Sums<V, 5, Start::none, NC, kTerms> s(a);
  for_each_index<4>([&](auto i) __attribute__((always_inline)) {
    s.add(code_5bit<V, g % 2, 2 * i>(run + 128, high), code_5bit<V, g % 2, 2 * i + 1>(run + 128, high), a, 8 * i,
          8 * i + 4);
  });
  add_scaled(f, s, scale, a);
}

template <class V, DType kType, int kTerms>
struct TileSixBitScales {
  static constexpr const PackedFormat& kFormat = *find_packed_format(kType);
  static constexpr ActivationKind kActivation = Group<V, 1, kTerms>::kKind;

  template <int NC>
  static void run(const std::byte* w, const TileColumns& cols, int64_t n_chunks, typename V::F (&f)[NC]) {
    Group<V, NC, kTerms> a(cols);
    for (int64_t i = 0; i < n_chunks; ++i, w += kFormat.chunk_bytes, a.next(8)) {
      prefetch_chunk<NC, kFormat.chunk_bytes>(w);
      const SixBitScales<V> scales(w);
      for_each_index<8>([&](auto g) __attribute__((always_inline)) {
        const auto group = a.ahead(g);
        const auto scale = scales.template scale<g>(V::load_f16(w + 192));
        if constexpr (kType == DType::q4_k)
          q4_k_group<V, g>(w, scale, group, f);
        else
          q5_k_group<V, g>(w, scale, group, f);
        subtract_mins<V>(f, scales.template min<g>(V::load_f16(w + 224)), group);
      });
    }
  }
};

// 16 codes of 6 bits in three vectors: bits 0-5 are quads 0, 1, 2; the top bits make quad 3.
template <class V, int group, Start kStart, int NC, int kTerms>
[[gnu::always_inline]] inline auto q6_k_sums(const std::byte* w, const Group<V, NC, kTerms>& a) {
  Sums<V, 6, kStart, NC, kTerms> s(a);
  constexpr int kFirst = 16 * (group % 2);
  const std::byte* v = w + 320 + 192 * group;
  const auto x = V::load_codes(v), y = V::load_codes(v + 64), z = V::load_codes(v + 128);
  s.add(V::template mask<0x3F>(x), V::template mask<0x3F>(y), a, kFirst, kFirst + 4);
  const auto low = V::template mask<0x03>(V::template shr<6>(x));
  const auto last =
      V::template or_masked<0x30>(V::template or_masked<0x0C>(low, V::template shr<4>(y)), V::template shr<2>(z));
  s.add(V::template mask<0x3F>(z), last, a, kFirst + 8, kFirst + 12);
  return s;
}

template <class V, int group>
[[gnu::always_inline]] inline typename V::F q6_k_scale(const std::byte* w) {
  const auto scales = V::load_codes(w + 64 * (group / 4));
  return V::mul(V::load_f16(w + 256), V::to_f32(V::template lane_i8<group % 4>(scales)));
}

template <class V, int kTerms>
struct TileQ6_K {
  static constexpr const PackedFormat& kFormat = *find_packed_format(DType::q6_k);
  static constexpr ActivationKind kActivation = Group<V, 1, kTerms>::kKind;

  template <int g, int NC>
  [[gnu::always_inline]] static void group32(const std::byte* w, const Group<V, NC, kTerms>& a,
                                             typename V::F (&f)[NC]) {
    typename V::F t[NC];
    {
      const auto s = q6_k_sums<V, 2 * g, Start::minus32_first>(w, a);
      const auto scale = q6_k_scale<V, 2 * g>(w);
#pragma GCC unroll 8
      for (int c = 0; c < NC; ++c) t[c] = V::mul(s.value(a, c), scale);
    }
    const auto s = q6_k_sums<V, 2 * g + 1, Start::minus32_second>(w, a);
    const auto scale = q6_k_scale<V, 2 * g + 1>(w);
#pragma GCC unroll 8
    for (int c = 0; c < NC; ++c)
      f[c] = V::fma(V::fma(s.value(a, c), scale, t[c]), V::set1(a.f32(GroupArray::d, c)), f[c]);
  }
  template <int NC>
  static void run(const std::byte* w, const TileColumns& cols, int64_t n_chunks, typename V::F (&f)[NC]) {
    Group<V, NC, kTerms> a(cols);
    for (int64_t i = 0; i < n_chunks; ++i, w += kFormat.chunk_bytes, a.next(8)) {
      prefetch_chunk<NC, kFormat.chunk_bytes>(w);
      for_each_index<8>([&](auto g) __attribute__((always_inline)) { group32<g>(w, a.ahead(g), f); });
    }
  }
};

template <class V, int kTerms>
constexpr auto kKTiles = std::to_array<GemmTile>({
    {DType::q4_k, run_gemm<V, TileSixBitScales<V, DType::q4_k, kTerms>>},
    {DType::q5_k, run_gemm<V, TileSixBitScales<V, DType::q5_k, kTerms>>},
    {DType::q6_k, run_gemm<V, TileQ6_K<V, kTerms>>},
});

}  // namespace
}  // namespace tokamak::cpu
