// What a lane holds of one column of activations, and the products of one unit of weights with it.
#pragma once

#include "backend/cuda/matvec/bits.h"

namespace tokamak::cuda {

// A column of k activations quantized to int8, k a multiple of 32: k codes, then one GroupQ8 per 32 of them.
// value = d * code; s0 and s1 are the sums of the codes of the two halves of the group.
struct GroupQ8 {
  float d;
  int16_t s0, s1;
};
static_assert(sizeof(GroupQ8) == 8);
constexpr int64_t q8_column_bytes(int64_t k) { return (k + k / 32 * 8 + 127) / 128 * 128; }

struct Q8Scale {
  float d, inverse;  // codes = round(x * inverse)
};
// Of a group whose largest magnitude is max_abs. Groups below 2^-80 are zero, as on the CPU: products of scales stay
// normal numbers. A group with an infinity or NaN has the scale NaN and codes 0.
TOKAMAK_HD Q8Scale q8_scale(float max_abs) {
  if (!(max_abs <= 3.4028235e38f)) return {max_abs - max_abs, 0.0f};
  if (max_abs < 0x1p-80f) return {0.0f, 0.0f};
  return {max_abs / 127.0f, 127.0f / max_abs};
}

// 32 activations. Sums of products begin at init: kMagic minus the type's code offset times the sum of the activations.
struct ActsQ8 {
  uint32_t a[8];
  float d;   // times what the type folds in
  int init;  // of both halves together
  int init0, init1;
  float s, s0, s1;  // sums of codes
};

struct ActsF32 {
  float x[16];
};

template <class P>
TOKAMAK_HD ActsQ8 make_acts(const Words<8>& codes, float d, int s0, int s1) {
  ActsQ8 acts;
  for (int i = 0; i < 8; ++i) acts.a[i] = codes.w[i];
  acts.d = d * P::kFactor;
  acts.init0 = kMagic - P::kOffset * s0;
  acts.init1 = kMagic - P::kOffset * s1;
  acts.init = kMagic - P::kOffset * (s0 + s1);
  acts.s0 = static_cast<float>(s0);
  acts.s1 = static_cast<float>(s1);
  acts.s = static_cast<float>(s0 + s1);
  return acts;
}

// Decoded units: bytes of the 32 codes in order, and scales.
struct UnitD {  // x = d * (q - offset)
  uint32_t w[8];
  float d;
};
struct UnitDM {  // x = d * (q - offset) + m
  uint32_t w[8];
  float d, m;
};
struct UnitD2 {  // as UnitD, for each half
  uint32_t w[8];
  float d0, d1;
};
struct UnitDM2 {
  uint32_t w[8];
  float d0, d1, m0, m1;
};

// kHigh16: words 4 to 7 hold their codes times 16 (the high nibbles where they were).
template <bool kSigned, bool kHigh16>
TOKAMAK_HD float sum_of_32(const uint32_t (&w)[8], const ActsQ8& acts) {
  int sum = acts.init;
  for (int i = 0; i < 4; ++i) sum = dot4<kSigned>(w[i], acts.a[i], sum);
  if constexpr (kHigh16) {
    int high = 0;
    for (int i = 4; i < 8; ++i) high = dot4<kSigned>(w[i], acts.a[i], high);
    sum += high >> 4;
  } else {
    for (int i = 4; i < 8; ++i) sum = dot4<kSigned>(w[i], acts.a[i], sum);
  }
  return float_of_sum(sum);
}
template <bool kSigned, bool kHigh16>
TOKAMAK_HD void sums_of_16(const uint32_t (&w)[8], const ActsQ8& acts, float& f0, float& f1) {
  static_assert(!kHigh16);
  int sum0 = acts.init0, sum1 = acts.init1;
  for (int i = 0; i < 4; ++i) sum0 = dot4<kSigned>(w[i], acts.a[i], sum0);
  for (int i = 0; i < 4; ++i) sum1 = dot4<kSigned>(w[4 + i], acts.a[4 + i], sum1);
  f0 = float_of_sum(sum0);
  f1 = float_of_sum(sum1);
}

// The codes as differences of two words of signed bytes. Products with both cost two integer dots instead of the
// operations that join them: better for one column.
struct TwoSided {
  uint32_t plus[8], minus[8];

  // Byte by byte plus - minus.
  TOKAMAK_HD void join(uint32_t (&w)[8]) const {
    for (int i = 0; i < 8; ++i) {
      const uint32_t top = 0x80808080;
      w[i] = ((plus[i] | top) - (minus[i] & ~top)) ^ ((plus[i] ^ ~minus[i]) & top);
    }
  }
};
TOKAMAK_HD int two_sided_sum(const TwoSided& t, const ActsQ8& acts, int first, int last) {
  int plus = kMagic, minus = 0;
  for (int i = first; i < last; ++i) {
    plus = dot4<true>(t.plus[i], acts.a[i], plus);
    minus = dot4<true>(t.minus[i], acts.a[i], minus);
  }
  return plus - minus;
}

// Sums of products of the unit's codes, as floats, to the unit's value.
struct Sums1 {
  float f;
};
struct Sums2 {
  float f0, f1;
};
TOKAMAK_HD float finish(const UnitD& u, Sums1 s, const ActsQ8& acts) { return s.f * (u.d * acts.d); }
TOKAMAK_HD float finish(const UnitDM& u, Sums1 s, const ActsQ8& acts) { return fused(s.f, u.d, u.m * acts.s) * acts.d; }
TOKAMAK_HD float finish(const UnitD2& u, Sums2 s, const ActsQ8& acts) {
  return fused(s.f0, u.d0, s.f1 * u.d1) * acts.d;
}
TOKAMAK_HD float finish(const UnitDM2& u, Sums2 s, const ActsQ8& acts) {
  return fused(s.f0, u.d0, fused(s.f1, u.d1, fused(u.m0, acts.s0, u.m1 * acts.s1))) * acts.d;
}

// Whether each half of a unit has its own scale.
template <class Decoded>
inline constexpr bool kHalves = false;
template <>
inline constexpr bool kHalves<UnitD2> = true;
template <>
inline constexpr bool kHalves<UnitDM2> = true;

template <bool kSigned, bool kHigh16, class Decoded>
TOKAMAK_HD float dot(const Decoded& u, const ActsQ8& acts) {
  if constexpr (kHalves<Decoded>) {
    Sums2 sums;
    sums_of_16<kSigned, kHigh16>(u.w, acts, sums.f0, sums.f1);
    return finish(u, sums, acts);
  } else {
    return finish(u, Sums1{sum_of_32<kSigned, kHigh16>(u.w, acts)}, acts);
  }
}
template <class Decoded>
TOKAMAK_HD float dot_two_sided(const TwoSided& t, const Decoded& u, const ActsQ8& acts) {
  if constexpr (kHalves<Decoded>)
    return finish(u, Sums2{float_of_sum(two_sided_sum(t, acts, 0, 4)), float_of_sum(two_sided_sum(t, acts, 4, 8))},
                  acts);
  else
    return finish(u, Sums1{float_of_sum(two_sided_sum(t, acts, 0, 8))}, acts);
}

}  // namespace tokamak::cuda
