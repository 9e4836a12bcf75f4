// What a lane holds of one column of activations, and the products of one unit of weights with it.
#pragma once

#include <type_traits>

#include "backend/cuda/matvec/bits.h"

namespace tokamak::cuda {

// A column of k activations quantized to int8, k a multiple of 32: k codes, then one GroupQ8 per 32 of them, then room
// for what a reader of 15 bits needs more: k low bytes and one GroupLow per 32 of them.
// value = d * code, or d * (code + low / 128), -64 <= low <= 64. s0 and s1 are the sums of the codes (of the low bytes)
// of the two halves of the group.
struct GroupQ8 {
  float d;
  int16_t s0, s1;
};
struct GroupLow {
  int16_t s0, s1;
};
static_assert(sizeof(GroupQ8) == 8 && sizeof(GroupLow) == 4);
constexpr int64_t q8_low_offset(int64_t k) { return (k + k / 32 * 8 + 15) / 16 * 16; }  // bytes
constexpr int64_t q8_column_bytes(int64_t k) { return (q8_low_offset(k) + k + k / 32 * 4 + 127) / 128 * 128; }

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

// What the code (as a float) leaves of x * inverse, in units of 1 / 128, to be rounded.
TOKAMAK_HD float q8_low(float x, float inverse, float code) { return 128.0f * fused(x, inverse, -code); }

// 32 activations. Sums of products begin at init: kMagic minus the type's code offset times the sum of the activations.
struct ActsQ8 {
  uint32_t a[8];
  float d;   // times what the type folds in
  int init;  // of both halves together
  int init0, init1;
  float s, s0, s1;  // sums of codes
};

// The same with low bytes. s, s0 and s1 take both into account.
struct ActsQ15 : ActsQ8 {
  uint32_t low[8];
  int low_init, low_init0, low_init1;
};
template <class P>
inline constexpr bool kReadsLow = std::is_same_v<typename P::Acts, ActsQ15>;

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
// l0 and l1: sums of the low bytes.
template <class P>
TOKAMAK_HD ActsQ15 make_acts(const Words<8>& codes, float d, int s0, int s1, const Words<8>& low, int l0, int l1) {
  ActsQ15 acts{make_acts<P>(codes, d, s0, s1)};
  for (int i = 0; i < 8; ++i) acts.low[i] = low.w[i];
  acts.low_init0 = kMagic - P::kOffset * l0;
  acts.low_init1 = kMagic - P::kOffset * l1;
  acts.low_init = kMagic - P::kOffset * (l0 + l1);
  acts.s0 = fused(static_cast<float>(l0), 1.0f / 128, acts.s0);
  acts.s1 = fused(static_cast<float>(l1), 1.0f / 128, acts.s1);
  acts.s = fused(static_cast<float>(l0 + l1), 1.0f / 128, acts.s);
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

// high + low / 128 of two sums that began at kMagic, rounded once. As a float kMagic / 128 is 98304.
TOKAMAK_HD float float_of_sums(int high, int low) {
  return fused(as_float(static_cast<uint32_t>(low)), 1.0f / 128,
               as_float(static_cast<uint32_t>(high)) - (12582912.0f + 98304.0f));
}

// kHigh16: words 4 to 7 hold their codes times 16 (the high nibbles where they were).
template <bool kSigned, bool kHigh16>
TOKAMAK_HD int sum_of_32(const uint32_t (&w)[8], const uint32_t (&a)[8], int sum) {
  for (int i = 0; i < 4; ++i) sum = dot4<kSigned>(w[i], a[i], sum);
  if constexpr (kHigh16) {
    int high = 0;
    for (int i = 4; i < 8; ++i) high = dot4<kSigned>(w[i], a[i], high);
    sum += high >> 4;
  } else {
    for (int i = 4; i < 8; ++i) sum = dot4<kSigned>(w[i], a[i], sum);
  }
  return sum;
}
template <bool kSigned>
TOKAMAK_HD int sum_of_16(const uint32_t (&w)[8], const uint32_t (&a)[8], int first, int sum) {
  for (int i = first; i < first + 4; ++i) sum = dot4<kSigned>(w[i], a[i], sum);
  return sum;
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
    static_assert(!kHigh16);
    return finish(u,
                  Sums2{float_of_sum(sum_of_16<kSigned>(u.w, acts.a, 0, acts.init0)),
                        float_of_sum(sum_of_16<kSigned>(u.w, acts.a, 4, acts.init1))},
                  acts);
  } else {
    return finish(u, Sums1{float_of_sum(sum_of_32<kSigned, kHigh16>(u.w, acts.a, acts.init))}, acts);
  }
}
template <bool kSigned, bool kHigh16, class Decoded>
TOKAMAK_HD float dot(const Decoded& u, const ActsQ15& acts) {
  if constexpr (kHalves<Decoded>) {
    static_assert(!kHigh16);
    const int high0 = sum_of_16<kSigned>(u.w, acts.a, 0, acts.init0),
              high1 = sum_of_16<kSigned>(u.w, acts.a, 4, acts.init1),
              low0 = sum_of_16<kSigned>(u.w, acts.low, 0, acts.low_init0),
              low1 = sum_of_16<kSigned>(u.w, acts.low, 4, acts.low_init1);
    return finish(u, Sums2{float_of_sums(high0, low0), float_of_sums(high1, low1)}, acts);
  } else {
    const int high = sum_of_32<kSigned, kHigh16>(u.w, acts.a, acts.init),
              low = sum_of_32<kSigned, kHigh16>(u.w, acts.low, acts.low_init);
    return finish(u, Sums1{float_of_sums(high, low)}, acts);
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
