// 16 rows x NC columns of F16, BF16 and F32 against f32 activations: f = fma(w_k, x_k, f) for ascending k, weights
// widened exactly to f32. (Not vdpbf16ps: it rounds in its own way, no other instruction set could follow.)
#pragma once

#include "backend/cpu/matmul/gemm_template.h"

namespace tokamak::cpu {
namespace {

template <class V, DType kType>
struct TileFloat {
  static constexpr const PackedFormat& kFormat = *find_packed_format(kType);
  static constexpr ActivationKind kActivation = ActivationKind::f32;
  static typename V::F load(const std::byte* w) {
    if constexpr (kType == DType::f16)
      return V::load_f16(w);
    else if constexpr (kType == DType::bf16)
      return V::load_bf16(w);
    else
      return V::load_f32(w);
  }
  template <int NC>
  static void run(const std::byte* w, const TileColumns& cols, int64_t n_chunks, typename V::F (&f)[NC]) {
    const std::byte* x = cols.panel + 4 * cols.first;
#pragma GCC unroll 4
    for (int64_t k = 0; k < n_chunks; ++k, w += kFormat.chunk_bytes, x += 4 * cols.n_cols) {
      prefetch_chunk<NC, 64>(w);
      const auto weights = load(w);
#pragma GCC unroll 8
      for (int c = 0; c < NC; ++c) f[c] = V::fma(weights, V::set1(load_scalar<float>(x + 4 * c)), f[c]);
    }
  }
};

template <class V>
constexpr auto kFloatTiles = std::to_array<GemmTile>({
    {DType::f16, run_gemm<V, TileFloat<V, DType::f16>>},
    {DType::bf16, run_gemm<V, TileFloat<V, DType::bf16>>},
    {DType::f32, run_gemm<V, TileFloat<V, DType::f32>>},
});

}  // namespace
}  // namespace tokamak::cpu
