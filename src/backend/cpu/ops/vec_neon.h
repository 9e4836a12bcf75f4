// NEON form of vec_scalar.h: a vector is four registers. Included only by *_neon.cpp.
#pragma once

#include <arm_neon.h>

#include <cstdint>
#include <cstring>

namespace tokamak::cpu {
namespace {

struct VecNeon {
  static constexpr int kQueryRows = 6;  // 24 registers of sums + 4 of the vector + a broadcast, of 32
  static constexpr int kTileVecs = 1;

  struct F {
    float32x4_t q[4];
  };
  struct M {  // all bits of a lane
    uint32x4_t q[4];
  };

  template <class Fn>
  static F map(Fn fn) {
    return {{fn(0), fn(1), fn(2), fn(3)}};
  }
  static F zero() { return set1(0.0f); }
  static F set1(float x) {
    return map([&](int) { return vdupq_n_f32(x); });
  }
  static F load(const float* p) {
    return map([&](int i) { return vld1q_f32(p + 4 * i); });
  }
  static void store(float* p, F x) {
    for (int i = 0; i < 4; ++i) vst1q_f32(p + 4 * i, x.q[i]);
  }
  static F load_n(const float* p, int n) {
    float lanes[16] = {};
    std::memcpy(lanes, p, sizeof(float) * static_cast<size_t>(n));
    return load(lanes);
  }
  static void store_n(float* p, F x, int n) {
    float lanes[16];
    store(lanes, x);
    std::memcpy(p, lanes, sizeof(float) * static_cast<size_t>(n));
  }
  static F load(const uint16_t* p) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(p);
    return map([&](int i) { return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(bytes + 8 * i))); });
  }
  static void store_f16(uint16_t* p, F x) {
    for (int i = 0; i < 4; ++i) vst1_u16(p + 4 * i, vreinterpret_u16_f16(vcvt_f16_f32(x.q[i])));
  }
  static F load_i8(const int8_t* p) {
    const int8x16_t bytes = vld1q_s8(p);
    const int16x8_t low = vmovl_s8(vget_low_s8(bytes)), high = vmovl_s8(vget_high_s8(bytes));
    return {{vcvtq_f32_s32(vmovl_s16(vget_low_s16(low))), vcvtq_f32_s32(vmovl_s16(vget_high_s16(low))),
             vcvtq_f32_s32(vmovl_s16(vget_low_s16(high))), vcvtq_f32_s32(vmovl_s16(vget_high_s16(high)))}};
  }

  static F add(F a, F b) {
    return map([&](int i) { return vaddq_f32(a.q[i], b.q[i]); });
  }
  static F sub(F a, F b) {
    return map([&](int i) { return vsubq_f32(a.q[i], b.q[i]); });
  }
  static F mul(F a, F b) {
    return map([&](int i) { return vmulq_f32(a.q[i], b.q[i]); });
  }
  static F div(F a, F b) {
    return map([&](int i) { return vdivq_f32(a.q[i], b.q[i]); });
  }
  static F sqrt(F a) {
    return map([&](int i) { return vsqrtq_f32(a.q[i]); });
  }
  static F fma(F a, F b, F c) {
    return map([&](int i) { return vfmaq_f32(c.q[i], a.q[i], b.q[i]); });
  }
  static F fnma(F a, F b, F c) {
    return map([&](int i) { return vfmsq_f32(c.q[i], a.q[i], b.q[i]); });
  }
  // Not vmaxq and vminq: those return NaN when either operand is.
  static F max(F a, F b) {
    return map([&](int i) { return vbslq_f32(vcgtq_f32(a.q[i], b.q[i]), a.q[i], b.q[i]); });
  }
  static F min(F a, F b) {
    return map([&](int i) { return vbslq_f32(vcltq_f32(a.q[i], b.q[i]), a.q[i], b.q[i]); });
  }
  static F abs(F a) {
    return map([&](int i) { return vabsq_f32(a.q[i]); });
  }
  static F copy_sign(F magnitude, F sign) {
    return map([&](int i) { return vbslq_f32(vdupq_n_u32(0x80000000u), sign.q[i], magnitude.q[i]); });
  }
  static F round(F x) {
    return map([&](int i) { return vrndnq_f32(x.q[i]); });
  }
  static F scale_by_power(F p, F n) {  // two exact factors: 2^n itself may be no normal number
    return map([&](int i) {
      const int32x4_t whole =
          vsubq_s32(vreinterpretq_s32_f32(vaddq_f32(n.q[i], vdupq_n_f32(12582912.0f))), vdupq_n_s32(0x4B400000));
      const int32x4_t half = vshrq_n_s32(whole, 1);
      return vmulq_f32(vmulq_f32(p.q[i], power_of_2(half)), power_of_2(vsubq_s32(whole, half)));
    });
  }
  static F swap_pairs(F x) {
    return map([&](int i) { return vrev64q_f32(x.q[i]); });
  }
  static M lanes(int begin, int end) {
    M m;
    for (int i = 0; i < 4; ++i) m.q[i] = vandq_u32(below(end - 4 * i), vmvnq_u32(below(begin - 4 * i)));
    return m;
  }
  static F select(M m, F yes, F no) {
    return map([&](int i) { return vbslq_f32(m.q[i], yes.q[i], no.q[i]); });
  }
  static float sum(F x) {
    const float32x4_t quarter = vaddq_f32(vaddq_f32(x.q[0], x.q[2]), vaddq_f32(x.q[1], x.q[3]));
    const float32x2_t pair = vadd_f32(vget_low_f32(quarter), vget_high_f32(quarter));
    return vget_lane_f32(pair, 0) + vget_lane_f32(pair, 1);
  }
  static float first_lane(F x) { return vgetq_lane_f32(x.q[0], 0); }
  static float max_lane(F x) { return vmaxvq_f32(vmaxq_f32(vmaxq_f32(x.q[0], x.q[1]), vmaxq_f32(x.q[2], x.q[3]))); }

 private:
  static uint32x4_t below(int n) {  // lanes 0 .. n - 1; n may be negative or above 4
    constexpr int32_t kLanes[4] = {0, 1, 2, 3};
    return vcltq_s32(vld1q_s32(kLanes), vdupq_n_s32(n));
  }
  static float32x4_t power_of_2(int32x4_t n) {
    return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(n, vdupq_n_s32(127)), 23));
  }
};

}  // namespace
}  // namespace tokamak::cpu
