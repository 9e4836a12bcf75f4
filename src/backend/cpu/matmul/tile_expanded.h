// 16 rows x NC columns of panels expanded from codebook types: codes of 8 bits, f32 scales (formats.h). Groups of 32
// in ascending k:
//   a scale per 32  f = fma(sum, dw * da, f)
//   a scale per 16  t = sum_0 * dw_0;  t = fma(sum_1, dw_1, t);  f = fma(t, da, f)
#pragma once

#include "backend/cpu/matmul/tile_block32.h"

namespace tokamak::cpu {
namespace {

template <class V, int kScales, int kTerms>
struct TileExpanded {
  static constexpr PackedFormat kFormat = expanded_chunks(kScales);
  static constexpr ActivationKind kActivation = Group<V, 1, kTerms>::kKind;

  // 16 codes of 8 bits: V[0..3].
  template <class S, class G>
  [[gnu::always_inline]] static void add_half(S& s, const std::byte* w, const G& a, int first) {
    s.add(V::load_codes(w), V::load_codes(w + 64), a, first, first + 4);
    s.add(V::load_codes(w + 128), V::load_codes(w + 192), a, first + 8, first + 12);
  }
  template <int NC>
  static void run(const std::byte* w, const TileColumns& cols, int64_t n_chunks, typename V::F (&f)[NC]) {
    Group<V, NC, kTerms> a(cols);
    for (int64_t i = 0; i < n_chunks; ++i, w += kFormat.chunk_bytes, a.next()) {
      if constexpr (kScales == 1)
        block_8bit<V, Start::minus128>(w + 64, V::load_f32(w), a, f);
      else
        add_halves<V, 8, Start::minus128_first, Start::minus128_second>(
            f, a, V::load_f32(w),
            V::load_f32(w + 64), [&](auto& s) __attribute__((always_inline)) { add_half(s, w + 128, a, 0); },
            [&](auto& s) __attribute__((always_inline)) { add_half(s, w + 384, a, 16); });
    }
  }
};

template <class V, int kTerms>
constexpr auto kExpandedTiles = std::to_array<GemmTile>({
    {DType::iq2_xxs, run_gemm<V, TileExpanded<V, 1, kTerms>>},
    {DType::iq2_xs, run_gemm<V, TileExpanded<V, 2, kTerms>>},
    {DType::iq2_s, run_gemm<V, TileExpanded<V, 2, kTerms>>},
    {DType::iq3_xxs, run_gemm<V, TileExpanded<V, 1, kTerms>>},
    {DType::iq3_s, run_gemm<V, TileExpanded<V, 1, kTerms>>},
    {DType::iq1_s, run_gemm<V, TileExpanded<V, 1, kTerms>>},
    {DType::iq1_m, run_gemm<V, TileExpanded<V, 2, kTerms>>},
});

}  // namespace
}  // namespace tokamak::cpu
