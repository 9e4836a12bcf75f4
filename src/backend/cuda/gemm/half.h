// Packed weights decoded to binary16 for tensor cores, for the GPU and (for tests) the host.
//
// A block is 32 weights of a row: one unit, or two of the plain types. Tensor-core fragments do not care in which order
// k is summed when both operands agree; ours is, for each four weights 4i .. 4i + 3 of a block, the words
// (4i, 4i + 2) and (4i + 1, 4i + 3), low half first. Thread t of a quad decodes block 4g + t of its rows: 128 weights
// of k make eight steps of 16, and step i takes weights 4i .. 4i + 3 of the quad's four blocks. Positions 2t and
// 2t + 1 of the step are thread t's first word, 2t + 8 and 2t + 9 its second one (the layout of mma's A fragment).
//
// value of a weight = half * kHalfFactor<P>. Halves are scaled by 16, so that usual weights are normal numbers; a
// weight above 4094 becomes infinite (12,000 of MXFP4, 65,504 of F16 and BF16), and one below 2^-28 is rounded to a
// multiple of that. NVFP4 is exact. Scales are rounded to 11 bits, products too.
#pragma once

#include "backend/cuda/matvec/types_grid.h"
#include "backend/cuda/matvec/types_k.h"
#include "backend/cuda/matvec/types_nibble.h"
#include "backend/cuda/matvec/types_plain.h"

#if defined(__CUDA_ARCH__)
#define TOKAMAK_UNROLL _Pragma("unroll")
#else
#define TOKAMAK_UNROLL
#endif

namespace tokamak::cuda {

// --- arithmetic of two binary16 in a word.
#if !defined(__CUDA_ARCH__)
inline uint32_t host_half(double x) {  // nearest, ties to even
  const uint32_t sign = __builtin_signbit(x) ? 0x8000u : 0u;
  const double a = x < 0 ? -x : x;
  if (a != a) return 0x7FFF;
  if (a >= 65520.0) return sign | 0x7C00;
  int exponent = -14;
  while (exponent < 15 && a >= __builtin_ldexp(1.0, exponent + 1)) ++exponent;
  const double steps = __builtin_nearbyint(__builtin_ldexp(a, 10 - exponent));  // exact before rounding
  const auto n = static_cast<uint32_t>(steps);
  if (n < 1024) return sign | n;
  return sign | (static_cast<uint32_t>(exponent + 14) * 1024 + n);
}
template <class F>
uint32_t host_half2(F f) {
  return host_half(f(0)) | host_half(f(1)) << 16;
}
#endif

TOKAMAK_HD uint32_t half2_add(uint32_t a, uint32_t b) {
#if defined(__CUDA_ARCH__)
  return ptx::add_halves(a, b);
#else
  return host_half2([&](int i) { return double{half_at(a, i)} + half_at(b, i); });
#endif
}
TOKAMAK_HD uint32_t half2_mul(uint32_t a, uint32_t b) {
#if defined(__CUDA_ARCH__)
  return ptx::multiply_halves(a, b);
#else
  return host_half2([&](int i) { return double{half_at(a, i)} * half_at(b, i); });
#endif
}
TOKAMAK_HD uint32_t half2_fma(uint32_t a, uint32_t b, uint32_t c) {
#if defined(__CUDA_ARCH__)
  return ptx::fuse_halves(a, b, c);
#else
  return host_half2([&](int i) { return double{half_at(a, i)} * half_at(b, i) + half_at(c, i); });
#endif
}
TOKAMAK_HD uint32_t half2_of(float low, float high) {
#if defined(__CUDA_ARCH__)
  return ptx::to_halves(low, high);
#else
  return host_half(low) | host_half(high) << 16;
#endif
}
TOKAMAK_HD uint32_t half2_twice(float x) { return half2_of(x, x); }
// Both halves n, |n| < 2048.
constexpr uint32_t half2_int(int n) {
  const uint32_t a = static_cast<uint32_t>(n < 0 ? -n : n);
  uint32_t exponent = 0;
  while (a >> (exponent + 1)) ++exponent;
  const uint32_t half = a == 0 ? 0 : (n < 0 ? 0x8000u : 0u) | (exponent + 15) << 10 | ((a << (10 - exponent)) & 1023);
  return half * 0x10001u;
}

// --- factors.
inline constexpr float kHalfScale = 16.0f;
template <class P>
inline constexpr float kHalfFactor = 1.0f / kHalfScale;
template <>
inline constexpr float kHalfFactor<NVFP4> = 0x1p14f;  // 2^6 of its codes, 2^8 of its scales
template <>
inline constexpr float kHalfFactor<MXFP4> = 4.0f;
template <>
inline constexpr float kHalfFactor<F16> = 1.0f;
template <>
inline constexpr float kHalfFactor<BF16> = 1.0f;

// F32 as the sum of two halves, each with its factor: 22 bits. The same packed weights as F32.
struct F32High : F32 {};
struct F32Low : F32 {};
inline constexpr float kLowScale = 2048.0f;
template <>
inline constexpr float kHalfFactor<F32Low> = 1.0f / (kHalfScale * kLowScale);
template <class P>
inline constexpr bool kIsF32 = false;
template <>
inline constexpr bool kIsF32<F32High> = true;
template <>
inline constexpr bool kIsF32<F32Low> = true;
// Of two values, already scaled: their halves, or what is left of them.
template <bool kLow>
TOKAMAK_HD uint32_t split_halves(float first, float second) {
  const uint32_t high = half2_of(first, second);
  if constexpr (!kLow) return high;
  return half2_of((first - half_at(high, 0)) * kLowScale, (second - half_at(high, 1)) * kLowScale);
}

// --- four-bit floats: four of eight codes to halves, value * 2^-6. upper: weights 4 to 7 of the word's eight.
template <bool upper>
TOKAMAK_HD void e2m1_halves(uint32_t codes, uint32_t (&out)[2]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  // As e4m3 the bits of an e2m1 are its value times 2^-6. Even codes, then odd ones.
  const uint32_t even = (codes << 2 & 0x1C1C1C1C) | (codes << 4 & 0x80808080);
  const uint32_t odd = (codes >> 2 & 0x1C1C1C1C) | (codes & 0x80808080);
  out[0] = ptx::halves_of_e4m3<upper>(even);
  out[1] = ptx::halves_of_e4m3<upper>(odd);
#else
  // A code at the top of a half: its sign, then exponent and mantissa at their places give value * 2^-14.
  const uint32_t odd = pick_bytes(codes, 0, upper ? 0x3424 : 0x1404), even = odd << 4;
  out[0] = half2_mul((even & 0x80008000) | (even >> 3 & 0x0E000E00), half2_int(256));
  out[1] = half2_mul((odd & 0x80008000) | (odd >> 3 & 0x0E000E00), half2_int(256));
#endif
}
template <class P>
inline constexpr bool kIsE2m1 = false;
template <>
inline constexpr bool kIsE2m1<NVFP4> = true;
template <>
inline constexpr bool kIsE2m1<MXFP4> = true;
template <class P>
inline constexpr bool kIsBf16 = false;
template <>
inline constexpr bool kIsBf16<BF16> = true;

// NVFP4's scale of weights 16h .. 16h + 15, times 2^-8, as both halves of a word.
template <int h>
TOKAMAK_HD uint32_t nvfp4_scale(const Words<2>& s, int row) {
  constexpr uint32_t kFirst = h ? 0x1414 : 0x0404, kSecond = h ? 0x3434 : 0x2424;
  return pick_bytes(s.w[row / 2], 0, row % 2 ? kSecond : kFirst) >> 1;
}

template <class Decoded>
inline constexpr bool kHasMinimum = false;
template <>
inline constexpr bool kHasMinimum<UnitDM> = true;
template <>
inline constexpr bool kHasMinimum<UnitDM2> = true;

// Bytes of decoded codes to halves: (code - offset) * d + m.
template <class P, int h, class Decoded>
TOKAMAK_HD void bytes_to_halves(const Decoded& unit, uint32_t (&out)[8]) {
  constexpr bool kBySixteen = P::kHigh16 && h == 1;
  constexpr int kBias = P::kSigned ? 128 : P::kOffset;
  float d, m = 0.0f;
  if constexpr (kHalves<Decoded>) {
    d = h ? unit.d1 : unit.d0;
    if constexpr (kHasMinimum<Decoded>) m = h ? unit.m1 : unit.m0;
  } else {
    d = unit.d;
    if constexpr (kHasMinimum<Decoded>) m = unit.m;
  }
  const uint32_t scale = half2_twice(d * (P::kFactor * kHalfScale));
  const uint32_t minimum = kHasMinimum<Decoded> ? half2_twice(m * (P::kFactor * kHalfScale)) : 0;
  TOKAMAK_UNROLL
  for (int i = 0; i < 4; ++i) {
    const uint32_t word = P::kSigned ? unit.w[4 * h + i] ^ 0x80808080 : unit.w[4 * h + i];
    TOKAMAK_UNROLL
    for (int p = 0; p < 2; ++p) {
      const uint32_t raw = pick_bytes(word, 0x64646464, p ? 0x4341 : 0x4240);                // 1024 + byte
      const uint32_t code = kBySixteen ? half2_fma(raw, 0x2C002C00, half2_int(-64 - kBias))  // raw / 16 - 64 - bias
                                       : half2_add(raw, half2_int(-1024 - kBias));
      out[2 * i + p] = kHasMinimum<Decoded> ? half2_fma(code, scale, minimum) : half2_mul(code, scale);
    }
  }
}

// Words of neighbours (2i, 2i + 1) to our order.
TOKAMAK_HD void reorder_halves(const uint32_t (&w)[8], uint32_t (&out)[8]) {
  TOKAMAK_UNROLL
  for (int i = 0; i < 4; ++i) {
    out[2 * i] = pick_bytes(w[2 * i], w[2 * i + 1], 0x5410);
    out[2 * i + 1] = pick_bytes(w[2 * i], w[2 * i + 1], 0x7632);
  }
}

// Weights 16h .. 16h + 15 of a quantized unit: words 2i and 2i + 1 are those of weights 16h + 4i .. 16h + 4i + 3.
// s: what P::prepare gives.
template <class P, int h, class Prepared>
TOKAMAK_HD void quantized_halves(const typename P::Codes& c, const Prepared& s, int row, Lookup lookup,
                                 uint32_t (&out)[8]) {
  if constexpr (kIsE2m1<P>) {
    uint32_t scale;
    if constexpr (kHalves<typename P::Decoded>) {
      scale = nvfp4_scale<h>(s, row);
    } else {
      scale = half2_twice(P::decode(c, s, row, lookup).d * 16.0f);
    }
    TOKAMAK_UNROLL
    for (int i = 0; i < 2; ++i) {
      uint32_t low[2], high[2];
      e2m1_halves<false>(c.w[2 * h + i], low);
      e2m1_halves<true>(c.w[2 * h + i], high);
      TOKAMAK_UNROLL
      for (int p = 0; p < 2; ++p) {
        out[4 * i + p] = half2_mul(low[p], scale);
        out[4 * i + 2 + p] = half2_mul(high[p], scale);
      }
    }
  } else {
    bytes_to_halves<P, h>(decode_unit<P>(c, s, row, lookup), out);
  }
}
// The same of a plain unit (16 weights).
template <class P>
TOKAMAK_HD void plain_halves(const typename P::Codes& c, uint32_t (&out)[8]) {
  if constexpr (kIsF32<P>) {
    constexpr bool kLow = kHalfFactor<P> != kHalfFactor<F32High>;
    TOKAMAK_UNROLL
    for (int i = 0; i < 4; ++i) {
      float x[4];
      TOKAMAK_UNROLL
      for (int j = 0; j < 4; ++j) x[j] = as_float(c.part[i].w[j]) * kHalfScale;
      out[2 * i] = split_halves<kLow>(x[0], x[2]);
      out[2 * i + 1] = split_halves<kLow>(x[1], x[3]);
    }
    return;
  } else {
    static_assert(sizeof(c) == 32);
    uint32_t w[8];
    TOKAMAK_UNROLL
    for (int i = 0; i < 8; ++i) {
      const uint32_t word = c.part[i / 4].w[i % 4];
      w[i] = kIsBf16<P> ? half2_of(as_float(word << 16), as_float(word & 0xFFFF0000u)) : word;
    }
    reorder_halves(w, out);
  }
}

// --- blocks of two neighbouring rows, what an A fragment with rows (2g, 2g + 1) as its rows g and g + 8 takes.
template <class P>
inline constexpr int kUnitsPerBlock = 32 / P::kUnit;

template <class P>
struct BlockPair {
  typename P::Codes codes[2][kUnitsPerBlock<P>];
  typename P::Scales scales;
};

// Scales of a row block hold the same number of bits for each of its rows, ascending. These move those of a pair of
// rows to the places of the first pair, so that rows are known to the compiler.
template <int kPairs>
struct PairMover {
  int pair;  // below kPairs

  template <int n>
  TOKAMAK_HD void operator()(Words<n>& words) const {
    if constexpr (n < kPairs) {
      words.w[0] >>= 32 / kPairs * n * pair;
    } else {
      TOKAMAK_UNROLL
      for (int i = 0; i < n / kPairs; ++i) TOKAMAK_UNROLL
      for (int p = 1; p < kPairs; ++p)
        if (p == pair) words.w[i] = words.w[p * (n / kPairs) + i];
    }
  }
  TOKAMAK_HD void operator()(uint16_t& bits) const { bits = static_cast<uint16_t>(bits >> (16 / kPairs * pair)); }
  TOKAMAK_HD void operator()(uint8_t& bits) const { bits = static_cast<uint8_t>(bits >> (8 / kPairs * pair)); }
  TOKAMAK_HD void operator()(SixBits4& six) const { (*this)(six.low), (*this)(six.high); }
  TOKAMAK_HD void operator()(ScaleMin4& s) const { (*this)(s.d_dmin), (*this)(s.six); }
  TOKAMAK_HD void operator()(Q5_0::Scales& s) const { (*this)(s.fifth), (*this)(s.d); }
  TOKAMAK_HD void operator()(Q5_1::Scales& s) const { (*this)(s.fifth), (*this)(s.dm); }
  TOKAMAK_HD void operator()(Q5_K::Scales& s) const { (*this)(s.fifth), (*this)(s.s); }
  TOKAMAK_HD void operator()(IQ4_XS::Scales& s) const { (*this)(s.d), (*this)(s.low), (*this)(s.high); }
  TOKAMAK_HD void operator()(Q2_K::Scales& s) const { (*this)(s.d_dmin), (*this)(s.codes); }
  TOKAMAK_HD void operator()(Q3_K::Scales& s) const { (*this)(s.third), (*this)(s.d), (*this)(s.six); }
  TOKAMAK_HD void operator()(IQ2_XS::Scales& s) const { (*this)(s.d), (*this)(s.codes); }
  TOKAMAK_HD void operator()(IQ2_S::Scales& s) const { (*this)(s.codes), (*this)(s.d); }
  TOKAMAK_HD void operator()(IQ3_XXS::Scales& s) const { (*this)(s.signs), (*this)(s.d); }
  TOKAMAK_HD void operator()(IQ3_S::Scales& s) const {
    (*this)(s.signs), (*this)(s.d), (*this)(s.high), (*this)(s.codes);
  }
  TOKAMAK_HD void operator()(IQ1_S::Scales& s) const { (*this)(s.qh), (*this)(s.d); }
  TOKAMAK_HD void operator()(IQ1_M::Scales& s) const { (*this)(s.qh), (*this)(s.d), (*this)(s.codes); }
  TOKAMAK_HD void operator()(Q1_0::Scales& s) const {  // a word per row
    TOKAMAK_UNROLL
    for (int r = 0; r < 2; ++r) TOKAMAK_UNROLL
    for (int p = 1; p < kPairs; ++p)
      if (p == pair) s.bits[0].w[r] = s.bits[p / 2].w[p % 2 * 2 + r];
    (*this)(s.d);
  }
};

// Block `block` of rows row and row + 1 (even row, below P::kRows) of a tile of n_units units. Units past the end are
// those of the last one: finite where the row's weights are, so that activations of 0 cancel them.
// kWhole: all units are there. next_row: where the second row's tile lies behind the first's, of types with one row in
// a tile.
template <class P, bool kWhole = false>
TOKAMAK_HD BlockPair<P> load_block_pair(const uint8_t* tile, int block, int n_units, int row, uint32_t next_row = 0) {
  static_assert(P::kRows % 2 == 0 || P::kRows == 1);
  BlockPair<P> out;
  TOKAMAK_UNROLL
  for (int j = 0; j < kUnitsPerBlock<P>; ++j) {
    const int at = block * kUnitsPerBlock<P> + j;
    const Unit unit = make_unit<P>(tile, kWhole || at < n_units ? at : n_units - 1, n_units);
    TOKAMAK_UNROLL
    for (int r = 0; r < 2; ++r) {
      Unit of_row = unit;
      if (P::kRows == 1) of_row.place += r * next_row;
      out.codes[r][j] = P::load_codes(of_row, P::kRows == 1 ? 0 : row + r);
    }
    if (j == 0) out.scales = P::load_scales(unit);
  }
  return out;
}
// Weights 16h .. 16h + 15 of both rows.
template <class P, int h>
TOKAMAK_HD void block_pair_halves(const BlockPair<P>& b, int row, Lookup lookup, uint32_t (&out)[2][8]) {
  if constexpr (P::kQuantized) {
    typename P::Scales scales = b.scales;
    if constexpr (P::kRows > 2) PairMover<P::kRows / 2>{row / 2}(scales);
    const auto& prepared = P::prepare(scales);
    TOKAMAK_UNROLL
    for (int r = 0; r < 2; ++r) quantized_halves<P, h>(b.codes[r][0], prepared, r, lookup, out[r]);
  } else {
    TOKAMAK_UNROLL
    for (int r = 0; r < 2; ++r) plain_halves<P>(b.codes[r][h], out[r]);
  }
}

}  // namespace tokamak::cuda
