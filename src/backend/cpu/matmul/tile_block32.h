// 16 rows x NC columns of the weight types with blocks of 32: Q8_0, Q4_0, Q4_1, Q5_0, Q5_1. Layouts: formats.h.
// Per block, in ascending k:  f = fma(sum, dw * da, f);  with mins then:  f = fma(m, da * sum(a), f).
#pragma once

#include "backend/cpu/matmul/gemm_template.h"
#include "backend/cpu/matmul/tile_group.h"

namespace tokamak::cpu {
namespace {

// 32 codes of 8 bits: V[0..7].
template <class V, Start kStart, int NC, int kTerms>
[[gnu::always_inline]] inline void block_8bit(const std::byte* w, const typename V::F& dw,
                                              const Group<V, NC, kTerms>& a, typename V::F (&f)[NC]) {
  Sums<V, 8, kStart, NC, kTerms> s(a);
#pragma GCC unroll 4
  for (int j = 0; j < 8; j += 2) s.add(V::load_codes(w + 64 * j), V::load_codes(w + 64 * j + 64), a, 4 * j, 4 * j + 4);
  add_scaled(f, s, dw, a);
}

// 32 codes of 4 bits: V[0..3].
template <class V, Start kStart, int NC, int kTerms>
[[gnu::always_inline]] inline void block_4bit(const std::byte* w, const typename V::F& dw,
                                              const Group<V, NC, kTerms>& a, typename V::F (&f)[NC]) {
  Sums<V, 4, kStart, NC, kTerms> s(a);
#pragma GCC unroll 4
  for (int t = 0; t < 4; ++t) {
    const auto x = V::load_codes(w + 64 * t);
    s.add(V::template mask<0x0F>(x), V::template mask<0x0F>(V::template shr<4>(x)), a, 4 * t, 4 * t + 16);
  }
  add_scaled(f, s, dw, a);
}

// 32 codes of 5 bits: H, V[0..3].
template <class V, Start kStart, int NC, int kTerms>
[[gnu::always_inline]] inline void block_5bit(const std::byte* w, const typename V::F& dw,
                                              const Group<V, NC, kTerms>& a, typename V::F (&f)[NC]) {
  Sums<V, 5, kStart, NC, kTerms> s(a);
  const auto high = V::load_codes(w);
  for_each_index<4>([&](auto t) __attribute__((always_inline)) {
    const auto x = V::load_codes(w + 64 + 64 * t);
    const auto h = V::template mask<0x11>(V::template shr<t>(high));  // bit 0: quad t, bit 4: quad t + 4
    s.add(V::join_nibbles(x, V::template shl<4>(h)), V::join_nibbles(V::template shr<4>(x), h), a, 4 * t, 4 * t + 16);
  });
  add_scaled(f, s, dw, a);
}

// Types without mins: two blocks a chunk, `d, d` and then the codes of each.
template <class V, DType kType, int kTerms>
struct TileScaled {
  static constexpr const PackedFormat& kFormat = *find_packed_format(kType);
  static constexpr ActivationKind kActivation = Group<V, 1, kTerms>::kKind;
  static constexpr int kCodes = (kFormat.chunk_bytes - 64) / 2;  // bytes of a block's codes

  template <int NC>
  [[gnu::always_inline]] static void block(const std::byte* w, const typename V::F& dw, const Group<V, NC, kTerms>& a,
                                           typename V::F (&f)[NC]) {
    if constexpr (kType == DType::q8_0)
      block_8bit<V, Start::minus128>(w, dw, a, f);
    else if constexpr (kType == DType::q4_0)
      block_4bit<V, Start::minus8>(w, dw, a, f);
    else
      block_5bit<V, Start::minus16>(w, dw, a, f);
  }
  template <int NC>
  static void run(const std::byte* w, const TileColumns& cols, int64_t n_chunks, typename V::F (&f)[NC]) {
    Group<V, NC, kTerms> a(cols);
    for (int64_t i = 0; i < n_chunks; ++i, w += kFormat.chunk_bytes, a.next(2)) {
      prefetch_chunk<NC, kFormat.chunk_bytes>(w);
      block(w + 64, V::load_f16(w), a, f);
      block(w + 64 + kCodes, V::load_f16(w + 32), a.ahead(1), f);
    }
  }
};

// Types with mins: one block a chunk, `d, m`, codes.
template <class V, DType kType, int kTerms>
struct TileWithMin {
  static constexpr const PackedFormat& kFormat = *find_packed_format(kType);
  static constexpr ActivationKind kActivation = Group<V, 1, kTerms>::kKind;

  template <int NC>
  static void run(const std::byte* w, const TileColumns& cols, int64_t n_chunks, typename V::F (&f)[NC]) {
    Group<V, NC, kTerms> a(cols);
    for (int64_t i = 0; i < n_chunks; ++i, w += kFormat.chunk_bytes, a.next()) {
      prefetch_chunk<NC, kFormat.chunk_bytes>(w);
      if constexpr (kType == DType::q4_1)
        block_4bit<V, Start::none>(w + 64, V::load_f16(w), a, f);
      else
        block_5bit<V, Start::none>(w + 64, V::load_f16(w), a, f);
      add_mins<V>(f, V::load_f16(w + 32), GroupArray::d_s, a);
    }
  }
};

template <class V, int kTerms>
constexpr auto kBlock32Tiles = std::to_array<GemmTile>({
    {DType::q8_0, run_gemm<V, TileScaled<V, DType::q8_0, kTerms>>},
    {DType::q4_0, run_gemm<V, TileScaled<V, DType::q4_0, kTerms>>},
    {DType::q4_1, run_gemm<V, TileWithMin<V, DType::q4_1, kTerms>>},
    {DType::q5_0, run_gemm<V, TileScaled<V, DType::q5_0, kTerms>>},
    {DType::q5_1, run_gemm<V, TileWithMin<V, DType::q5_1, kTerms>>},
});

}  // namespace
}  // namespace tokamak::cpu
