// 16 rows x NC columns of the types whose 4-bit codes index a table of 16 values: MXFP4, NVFP4, IQ4_NL, IQ4_XS.
// Layouts: formats.h. Table entries carry an offset that the start value takes back. Groups of 32 in ascending k:
//   MXFP4, IQ4_NL  f = fma(sum, dw * da, f)
//   IQ4_XS         f = fma(sum, (d * sc) * da, f)
//   NVFP4          t = sum_0 * sc_0;  t = fma(sum_1, sc_1, t);  f = fma(t, da, f)      two groups of 16
#pragma once

#include "backend/cpu/matmul/gemm_template.h"
#include "backend/cpu/matmul/tile_group.h"
#include "quant/fp4.h"
#include "quant/iq_tables.h"

namespace tokamak::cpu {
namespace {

// Twice the E2M1 values, plus kOffset.
template <int kOffset>
constexpr std::array<uint8_t, 16> e2m1_table() {
  std::array<uint8_t, 16> table{};
  for (size_t i = 0; i < 16; ++i) table[i] = static_cast<uint8_t>(kOffset + kDoubledE2M1[i]);
  return table;
}
alignas(16) constexpr std::array<uint8_t, 16> kE2M1Plus16 = e2m1_table<16>(), kE2M1Plus32 = e2m1_table<32>();
// The values of IQ4_NL and IQ4_XS, plus 128.
constexpr std::array<uint8_t, 16> iq4_table() {
  std::array<uint8_t, 16> table{};
  for (size_t i = 0; i < 16; ++i) table[i] = static_cast<uint8_t>(128 + kIq4Values[i]);
  return table;
}
alignas(16) constexpr std::array<uint8_t, 16> kIq4Plus128 = iq4_table();

// Adds the codes of kVectors vectors: low nibbles of V[t] = elements first + 4t.., high nibbles kHighAt further.
template <class V, int kVectors, int kHighAt, class S, class G>
[[gnu::always_inline]] inline void add_nibbles(S& s, const typename V::B& table, const std::byte* w, const G& a,
                                               int first) {
#pragma GCC unroll 4
  for (int t = 0; t < kVectors; ++t) {
    const auto x = V::load_codes(w + 64 * t);
    s.add(V::lookup16(table, V::template mask<0x0F>(x)),
          V::lookup16(table, V::template mask<0x0F>(V::template shr<4>(x))), a, first + 4 * t, first + 4 * t + kHighAt);
  }
}

// 32 codes: V[0..3].
template <class V, int kBits, Start kStart, int NC, int kTerms>
[[gnu::always_inline]] inline void block_table(const std::byte* w, const typename V::B& table, const typename V::F& dw,
                                               const Group<V, NC, kTerms>& a, typename V::F (&f)[NC]) {
  Sums<V, kBits, kStart, NC, kTerms> s(a);
  add_nibbles<V, 4, 16>(s, table, w, a, 0);
  add_scaled(f, s, dw, a);
}

template <class V, int kTerms>
struct TileMXFP4 {
  static constexpr const PackedFormat& kFormat = *find_packed_format(DType::mxfp4);
  static constexpr ActivationKind kActivation = Group<V, 1, kTerms>::kKind;

  template <int NC>
  static void run(const std::byte* w, const TileColumns& cols, int64_t n_chunks, typename V::F (&f)[NC]) {
    Group<V, NC, kTerms> a(cols);
    const auto table = V::load_table(kE2M1Plus16.data());
    for (int64_t i = 0; i < n_chunks; ++i, w += kFormat.chunk_bytes) {
      prefetch_chunk<NC, kFormat.chunk_bytes>(w);
      for (int b = 0; b < 4; ++b, a.next())
        block_table<V, 5, Start::minus16>(w + 64 + 256 * b, table, V::mul(V::load_e8m0(w + 16 * b), V::set1(0.5f)), a,
                                          f);
    }
  }
};

template <class V, int kTerms>
struct TileNVFP4 {
  static constexpr const PackedFormat& kFormat = *find_packed_format(DType::nvfp4);
  static constexpr ActivationKind kActivation = Group<V, 1, kTerms>::kKind;

  // 32 codes of two runs of 16: V[0..1], V[0..1].
  template <int NC>
  [[gnu::always_inline]] static void block(const std::byte* w, const std::byte* scales, const typename V::B& table,
                                           const Group<V, NC, kTerms>& a, typename V::F (&f)[NC]) {
    const auto unit = V::set1(128.0f);  // 256 of load_ue4m3, halved for the doubled codes
    add_halves<V, 6, Start::minus32_first, Start::minus32_second>(
        f, a, V::mul(V::load_ue4m3(scales), unit), V::mul(V::load_ue4m3(scales + 16), unit),
        [&](auto& s) __attribute__((always_inline)) { add_nibbles<V, 2, 8>(s, table, w, a, 0); },
        [&](auto& s) __attribute__((always_inline)) { add_nibbles<V, 2, 8>(s, table, w + 128, a, 16); });
  }
  template <int NC>
  static void run(const std::byte* w, const TileColumns& cols, int64_t n_chunks, typename V::F (&f)[NC]) {
    Group<V, NC, kTerms> a(cols);
    const auto table = V::load_table(kE2M1Plus32.data());
    for (int64_t i = 0; i < n_chunks; ++i, w += kFormat.chunk_bytes, a.next(2)) {
      prefetch_chunk<NC, kFormat.chunk_bytes>(w);
      block(w + 64, w, table, a, f);
      block(w + 320, w + 32, table, a.ahead(1), f);
    }
  }
};

template <class V, int kTerms>
struct TileIQ4_NL {
  static constexpr const PackedFormat& kFormat = *find_packed_format(DType::iq4_nl);
  static constexpr ActivationKind kActivation = Group<V, 1, kTerms>::kKind;

  template <int NC>
  static void run(const std::byte* w, const TileColumns& cols, int64_t n_chunks, typename V::F (&f)[NC]) {
    Group<V, NC, kTerms> a(cols);
    const auto table = V::load_table(kIq4Plus128.data());
    for (int64_t i = 0; i < n_chunks; ++i, w += kFormat.chunk_bytes, a.next(2)) {
      prefetch_chunk<NC, kFormat.chunk_bytes>(w);
      block_table<V, 8, Start::minus128>(w + 64, table, V::load_f16(w), a, f);
      block_table<V, 8, Start::minus128>(w + 320, table, V::load_f16(w + 32), a.ahead(1), f);
    }
  }
};

template <class V, int kTerms>
struct TileIQ4_XS {
  static constexpr const PackedFormat& kFormat = *find_packed_format(DType::iq4_xs);
  static constexpr ActivationKind kActivation = Group<V, 1, kTerms>::kKind;

  template <int NC>
  static void run(const std::byte* w, const TileColumns& cols, int64_t n_chunks, typename V::F (&f)[NC]) {
    Group<V, NC, kTerms> a(cols);
    const auto table = V::load_table(kIq4Plus128.data());
    for (int64_t i = 0; i < n_chunks; ++i, w += kFormat.chunk_bytes) {
      prefetch_chunk<NC, kFormat.chunk_bytes>(w);
      for (int half = 0; half < 2; ++half, a.next(4)) {
        const auto scales = V::load_codes(w + 64 * half);
        for_each_index<4>([&](auto g) __attribute__((always_inline)) {
          const auto dw = V::mul(V::load_f16(w + 128), V::to_f32(V::template lane_i8<g>(scales)));
          block_table<V, 8, Start::minus128>(w + 160 + 1024 * half + 256 * g, table, dw, a.ahead(g), f);
        });
      }
    }
  }
};

template <class V, int kTerms>
constexpr auto kTableTiles = std::to_array<GemmTile>({
    {DType::mxfp4, run_gemm<V, TileMXFP4<V, kTerms>>},
    {DType::nvfp4, run_gemm<V, TileNVFP4<V, kTerms>>},
    {DType::iq4_nl, run_gemm<V, TileIQ4_NL<V, kTerms>>},
    {DType::iq4_xs, run_gemm<V, TileIQ4_XS<V, kTerms>>},
});

}  // namespace
}  // namespace tokamak::cpu
