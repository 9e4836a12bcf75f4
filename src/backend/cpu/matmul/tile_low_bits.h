// 16 rows x NC columns of the types with codes of one to three bits: Q1_0, Q2_0, TQ1_0, TQ2_0, Q2_K, Q3_K.
// Layouts: formats.h. Codes that carry an offset are multiplied by a power of two that makes it one of the start
// values,
//   8 (q - 1) = 8 q - 8,  8 (2 q - 1) = 16 q - 8,  8 (q - 4) = 8 q - 32,
// and their scale is divided by it: all of that is exact. Groups of 32 in ascending k:
//   Q1_0, Q2_0, TQ1_0, TQ2_0  f = fma(sum, dw * da, f)
//   Q3_K                      t = sum_0 * (d * sc_0);  t = fma(sum_1, d * sc_1, t);  f = fma(t, da, f)
//   Q2_K                      the same, then  f = fma(-dmin * m_0, da * sum(a_0), f);  f = fma(-dmin * m_1, ..., f)
#pragma once

#include "backend/cpu/matmul/gemm_template.h"
#include "backend/cpu/matmul/tile_group.h"

namespace tokamak::cpu {
namespace {

// The bits kMask of each byte after moving bit kFrom to bit kTo.
template <class V, int kFrom, int kTo, uint8_t kMask>
[[gnu::always_inline]] inline typename V::B move_bits(const typename V::B& x) {
  if constexpr (kFrom >= kTo)
    return V::template mask<kMask>(V::template shr<kFrom - kTo>(x));
  else
    return V::template mask<kMask>(V::template shl<kTo - kFrom>(x));
}

// To which bit a tile moves field p (bits 2p, 2p + 1) of the codes. Any place gives the same f32 result. Where any byte
// is a good operand, codes may stay in their place; but for many columns the start values must be ready in memory.
template <class V, int NC>
constexpr int two_bit_place(int p) {
  if (!V::kDotsAnyByte) return 2;
  return NC <= 2 ? 2 * p : p == 2 ? 4 : 3;
}
constexpr Start two_bit_start(int place) {
  constexpr Start kStarts[] = {Start::minus1,  Start::none, Start::minus4, Start::minus8,
                               Start::minus16, Start::none, Start::minus64};
  return kStarts[place];
}
constexpr float two_bit_unit(int place) { return 1.0f / static_cast<float>(1 << place); }

// Group p of a run of 128 codes of two bits: field p of V[0..7].
template <class V, int p, int NC, int kTerms>
[[gnu::always_inline]] inline void two_bit_group(const std::byte* w, const typename V::F& dw,
                                                 const Group<V, NC, kTerms>& a, typename V::F (&f)[NC]) {
  constexpr int kPlace = two_bit_place<V, NC>(p);
  Sums<V, 4, two_bit_start(kPlace), NC, kTerms> s(a);
  const std::byte* v = NC <= 2 ? w : opaque(w);  // many columns leave no registers to keep vectors for the next group
  constexpr uint8_t kMask = 3 << kPlace;
#pragma GCC unroll 4
  for (int t = 0; t < 8; t += 2)
    s.add(move_bits<V, 2 * p, kPlace, kMask>(V::load_codes(v + 64 * t)),
          move_bits<V, 2 * p, kPlace, kMask>(V::load_codes(v + 64 * t + 64)), a, 4 * t, 4 * t + 4);
  add_scaled(f, s, V::mul(dw, V::set1(two_bit_unit(kPlace))), a);
}

template <class V, int kTerms>
struct TileQ2_0 {
  static constexpr const PackedFormat& kFormat = *find_packed_format(DType::q2_0);
  static constexpr ActivationKind kActivation = Group<V, 1, kTerms>::kKind;

  template <int NC>
  static void run(const std::byte* w, const TileColumns& cols, int64_t n_chunks, typename V::F (&f)[NC]) {
    Group<V, NC, kTerms> a(cols);
    for (int64_t i = 0; i < n_chunks; ++i, w += kFormat.chunk_bytes, a.next(4)) {
      prefetch_chunk<NC, kFormat.chunk_bytes>(w);
      for_each_index<4>([&](auto p) __attribute__((always_inline)) {
        two_bit_group<V, p>(w + 64, V::load_f16(w + p / 2 * 32), a.ahead(p), f);
      });
    }
  }
};

// Both ternary types (their packed form is the same).
template <class V, DType kType, int kTerms>
struct TileTernary {
  static constexpr const PackedFormat& kFormat = *find_packed_format(kType);
  static constexpr ActivationKind kActivation = Group<V, 1, kTerms>::kKind;

  template <int NC>
  static void run(const std::byte* w, const TileColumns& cols, int64_t n_chunks, typename V::F (&f)[NC]) {
    Group<V, NC, kTerms> a(cols);
    for (int64_t i = 0; i < n_chunks; ++i, w += kFormat.chunk_bytes) {
      prefetch_chunk<NC, kFormat.chunk_bytes>(w);
      for (int half = 0; half < 2; ++half, a.next(4))
        for_each_index<4>([&](auto p) __attribute__((always_inline)) {
          two_bit_group<V, p>(w + 512 * half, V::load_f16(w + 1024), a.ahead(p), f);
        });
    }
  }
};

template <class V, int kTerms>
struct TileQ1_0 {
  static constexpr const PackedFormat& kFormat = *find_packed_format(DType::q1_0);
  static constexpr ActivationKind kActivation = Group<V, 1, kTerms>::kKind;

  // 32 codes of one bit: bit q of each byte is quad q.
  template <int NC>
  [[gnu::always_inline]] static void block(const std::byte* w, const typename V::F& dw, const Group<V, NC, kTerms>& a,
                                           typename V::F (&f)[NC]) {
    const auto x = V::load_codes(w);
    Sums<V, 5, Start::minus8, NC, kTerms> s(a);
    for_each_index<4>([&](auto i) __attribute__((always_inline)) {
      s.add(move_bits<V, 2 * i, 4, 0x10>(x), move_bits<V, 2 * i + 1, 4, 0x10>(x), a, 8 * i, 8 * i + 4);
    });
    add_scaled(f, s, dw, a);
  }
  template <int NC>
  static void run(const std::byte* w, const TileColumns& cols, int64_t n_chunks, typename V::F (&f)[NC]) {
    Group<V, NC, kTerms> a(cols);
    const auto eighth = V::set1(0.125f);
    for (int64_t i = 0; i < n_chunks; ++i, w += kFormat.chunk_bytes) {
      prefetch_chunk<NC, kFormat.chunk_bytes>(w);
      const auto dw = V::mul(V::load_f16(w + 256), eighth);
      for (int b = 0; b < 4; ++b, a.next()) block(w + 64 * b, dw, a, f);
    }
  }
};

// 16 codes of two bits in one vector: field q of each byte is quad q.
template <class V, class S, class G>
[[gnu::always_inline]] inline void add_sixteen(S& s, const std::byte* w, const G& a, int first) {
  const auto x = V::load_codes(w);
  s.add(move_bits<V, 0, 0, 3>(x), move_bits<V, 2, 0, 3>(x), a, first, first + 4);
  s.add(move_bits<V, 4, 0, 3>(x), move_bits<V, 6, 0, 3>(x), a, first + 8, first + 12);
}

template <class V, int kTerms>
struct TileQ2_K {
  static constexpr const PackedFormat& kFormat = *find_packed_format(DType::q2_k);
  static constexpr ActivationKind kActivation = Group<V, 1, kTerms>::kKind;

  // Scales and mins of groups 4v .. 4v + 3 of 16, which are run v of 64 codes.
  template <int NC>
  [[gnu::always_inline]] static void run64(const std::byte* w, const typename V::B& scales, const typename V::B& mins,
                                           const std::byte* d, const Group<V, NC, kTerms>& a, typename V::F (&f)[NC]) {
    for_each_index<2>([&](auto g) __attribute__((always_inline)) {
      const auto group = a.ahead(g);
      const auto scale = [&](auto i) __attribute__((always_inline)) {
        return V::mul(V::load_f16(d), V::to_f32(V::template lane_u8<i>(scales)));
      };
      add_halves<V, 4, Start::none, Start::none>(
          f, group, scale(std::integral_constant<int, 2 * g>{}), scale(std::integral_constant<int, 2 * g + 1>{}),
          [&](auto& s) __attribute__((always_inline)) { add_sixteen<V>(s, w + 128 * g, group, 0); },
          [&](auto& s) __attribute__((always_inline)) { add_sixteen<V>(s, w + 128 * g + 64, group, 16); });
      const auto minus_dmin = V::sub(V::zero(), V::load_f16(d + 32));
      add_mins<V>(f, V::mul(minus_dmin, V::to_f32(V::template lane_u8<2 * g>(mins))), GroupArray::d_s0, group);
      add_mins<V>(f, V::mul(minus_dmin, V::to_f32(V::template lane_u8<2 * g + 1>(mins))), GroupArray::d_s1, group);
    });
  }
  template <int NC>
  static void run(const std::byte* w, const TileColumns& cols, int64_t n_chunks, typename V::F (&f)[NC]) {
    Group<V, NC, kTerms> a(cols);
    for (int64_t i = 0; i < n_chunks; ++i, w += kFormat.chunk_bytes) {
      prefetch_chunk<NC, kFormat.chunk_bytes>(w);
      for (int v = 0; v < 4; ++v, a.next(2)) {
        const auto x = V::load_codes(w + 64 * v);
        run64(w + 320 + 256 * v, V::template mask<0x0F>(x), V::template mask<0x0F>(V::template shr<4>(x)), w + 256, a,
              f);
      }
    }
  }
};

template <class V, int kTerms>
struct TileQ3_K {
  static constexpr const PackedFormat& kFormat = *find_packed_format(DType::q3_k);
  static constexpr ActivationKind kActivation = Group<V, 1, kTerms>::kKind;

  // Quads kFirst and kFirst + 1 of a group of 32; the low bits are fields of x, the high ones bits of h.
  template <int kFirst, class S, class G>
  [[gnu::always_inline]] static void add_quads(S& s, const typename V::B& x, const typename V::B& h, const G& a) {
    constexpr int kField = 2 * (kFirst % 4);
    const auto code = [&]<int q>(std::integral_constant<int, q>) __attribute__((always_inline)) {
      return V::or_(move_bits<V, kField + 2 * q, 3, 0x18>(x), move_bits<V, kFirst + q, 5, 0x20>(h));
    };
    s.add(code(std::integral_constant<int, 0>{}), code(std::integral_constant<int, 1>{}), a, 4 * kFirst,
          4 * kFirst + 4);
  }
  // Byte i of dword r of `scales`: 4 times the scale of group i, less 128. Run of 64 codes: H, H, V[0..3].
  template <int NC>
  [[gnu::always_inline]] static void run64(const std::byte* w, const typename V::B& scales, const typename V::F& d,
                                           const Group<V, NC, kTerms>& a, typename V::F (&f)[NC]) {
    for_each_index<2>([&](auto g) __attribute__((always_inline)) {
      const auto group = a.ahead(g);
      const auto h = V::load_codes(w + 64 * g);
      const std::byte* v = w + 128 + 128 * g;
      add_halves<V, 6, Start::minus32_first, Start::minus32_second>(
          f, group, V::mul(d, V::to_f32(V::template lane_i8<2 * g>(scales))),
          V::mul(d, V::to_f32(V::template lane_i8<2 * g + 1>(scales))),
          [&](auto& s) __attribute__((always_inline)) {
            const auto x = V::load_codes(v);
            add_quads<0>(s, x, h, group);
            add_quads<2>(s, x, h, group);
          },
          [&](auto& s) __attribute__((always_inline)) {
            const auto x = V::load_codes(v + 64);
            add_quads<4>(s, x, h, group);
            add_quads<6>(s, x, h, group);
          });
    });
  }
  // Scales of groups 4 kRun .. 4 kRun + 3 of 16: low nibbles and high pairs (as in the file, sign bit flipped), x 4.
  template <int kRun>
  [[gnu::always_inline]] static typename V::B scales_of_run(const std::byte* w) {
    const auto low = move_bits<V, kRun / 2 * 4, 2, 0x3C>(V::load_codes(w + kRun % 2 * 64));
    return V::or_(low, move_bits<V, 2 * kRun, 6, 0xC0>(V::load_codes(w + 128)));
  }
  template <int NC>
  static void run(const std::byte* w, const TileColumns& cols, int64_t n_chunks, typename V::F (&f)[NC]) {
    Group<V, NC, kTerms> a(cols);
    const auto unit = V::set1(0x1p-5f);  // codes times 8, scales times 4
    for (int64_t i = 0; i < n_chunks; ++i, w += kFormat.chunk_bytes, a.next(8)) {
      prefetch_chunk<NC, kFormat.chunk_bytes>(w);
      for_each_index<4>([&](auto run) __attribute__((always_inline)) {
        run64(w + 192 + 384 * run, scales_of_run<run>(w), V::mul(V::load_f16(w + 1728), unit), a.ahead(2 * run), f);
      });
    }
  }
};

template <class V, int kTerms>
constexpr auto kLowBitTiles = std::to_array<GemmTile>({
    {DType::q1_0, run_gemm<V, TileQ1_0<V, kTerms>>},
    {DType::q2_0, run_gemm<V, TileQ2_0<V, kTerms>>},
    {DType::tq1_0, run_gemm<V, TileTernary<V, DType::tq1_0, kTerms>>},
    {DType::tq2_0, run_gemm<V, TileTernary<V, DType::tq2_0, kTerms>>},
    {DType::q2_k, run_gemm<V, TileQ2_K<V, kTerms>>},
    {DType::q3_k, run_gemm<V, TileQ3_K<V, kTerms>>},
});

}  // namespace
}  // namespace tokamak::cpu
