// F32, F16 and BF16 with activations in f32: exact products. A unit is 16 consecutive weights.
#pragma once

#include "backend/cuda/matvec/activations.h"
#include "backend/cuda/matvec/tile.h"

namespace tokamak::cuda {

struct PlainType {
  static constexpr bool kQuantized = false, kSigned = false, kHigh16 = false, kTwoSided = false;
  static constexpr int kUnit = 16, kTableBytes = 0, kStride = 16;
  static constexpr int kRegisters = 72;  // 28 warps per multiprocessor
  using Acts = ActsF32;
  using Table = Lookup;
  struct Scales {};
  TOKAMAK_HD static Scales load_scales(const auto&) { return {}; }
  TOKAMAK_HD static Scales prepare(const Scales&) { return {}; }
};

template <int n>
struct PlainCodes {
  Words<4> part[n];
};

// Two chains of eight or more fused multiply-adds: even and odd elements.
template <class P, int n>
TOKAMAK_HD float dot_plain(const PlainCodes<n>& c, const ActsF32& acts) {
  float even = 0.0f, odd = 0.0f;
  constexpr int kPerWord = 16 / (4 * n);  // elements in a word
  for (int i = 0; i < 4 * n; ++i) {
    if constexpr (kPerWord == 2) {
      even = fused(P::low(c.part[i / 4].w[i % 4]), acts.x[2 * i], even);
      odd = fused(P::high(c.part[i / 4].w[i % 4]), acts.x[2 * i + 1], odd);
    } else {
      float& sum = i % 2 ? odd : even;
      sum = fused(as_float(c.part[i / 4].w[i % 4]), acts.x[i], sum);
    }
  }
  return even + odd;
}

template <class P, int kPlainRows, int n>
struct Plain : PlainType {
  static constexpr int kRows = kPlainRows;
  static constexpr Plane kPlanes[] = {{16 * n * kRows, 1}};
  using Codes = PlainCodes<n>;
  struct Decoded {
    Codes c;
  };
  TOKAMAK_HD static Codes load_codes(const auto& u, int row) {
    Codes c;
    for (int i = 0; i < n; ++i) c.part[i] = load_row<Plain, 0, Words<4>, n>(u, row, i);
    return c;
  }
  TOKAMAK_HD static Decoded decode(const Codes& c, const Scales&, int, Table) { return {c}; }
  TOKAMAK_HD static float dot_unit(const Decoded& u, const ActsF32& acts) { return dot_plain<P, n>(u.c, acts); }
};

struct F32 : Plain<F32, 1, 4> {
  TOKAMAK_HD static float low(uint32_t w) { return as_float(w); }
  TOKAMAK_HD static float high(uint32_t) { return 0.0f; }
};
struct F16 : Plain<F16, 2, 2> {
  TOKAMAK_HD static float low(uint32_t w) { return half_at(w, 0); }
  TOKAMAK_HD static float high(uint32_t w) { return half_at(w, 1); }
};
struct BF16 : Plain<BF16, 2, 2> {
  TOKAMAK_HD static float low(uint32_t w) { return as_float(w << 16); }
  TOKAMAK_HD static float high(uint32_t w) { return as_float(w & 0xFFFF0000u); }
};

// One unit for several columns. s: what P::prepare gives.
template <class P, class Prepared>
TOKAMAK_HD typename P::Decoded decode_unit(const typename P::Codes& c, const Prepared& s, int row, Lookup lookup) {
  typename P::Decoded out = P::decode(c, s, row, lookup);
  if constexpr (P::kTwoSided) P::decode_codes(c, s, row, lookup).join(out.w);
  return out;
}
template <class P>
TOKAMAK_HD float dot_of(const typename P::Decoded& u, const typename P::Acts& acts) {
  if constexpr (P::kQuantized)
    return dot<P::kSigned, P::kHigh16>(u, acts);
  else
    return P::dot_unit(u, acts);
}
// The same value for one column.
template <class P, class Prepared>
TOKAMAK_HD float dot_once(const typename P::Codes& c, const Prepared& s, int row, Lookup lookup,
                          const typename P::Acts& acts) {
  if constexpr (P::kTwoSided)
    return dot_two_sided(P::decode_codes(c, s, row, lookup), P::decode(c, s, row, lookup), acts);
  else
    return dot_of<P>(P::decode(c, s, row, lookup), acts);
}

}  // namespace tokamak::cuda
