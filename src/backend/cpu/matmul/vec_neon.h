// The vector layer of NEON with dot product: 16 rows are four registers of 4. Contract in vec_scalar.h.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

namespace tokamak::cpu {
namespace {

struct Neon {
  static constexpr int kMaxCols = 4;
  static constexpr bool kDotsAnyByte = false;
  struct F {
    float32x4_t q[4];
  };
  struct I {
    int32x4_t q[4];
  };
  struct B {
    uint8x16_t q[4];
  };
  template <int kBits>
  struct Acc {
    int32x4_t q[4];
  };

  template <class Fn>
  static F map_f(Fn fn) {
    return {{fn(0), fn(1), fn(2), fn(3)}};
  }
  template <class Fn>
  static I map_i(Fn fn) {
    return {{fn(0), fn(1), fn(2), fn(3)}};
  }
  template <class Fn>
  static B map_b(Fn fn) {
    return {{fn(0), fn(1), fn(2), fn(3)}};
  }
  static const uint8_t* u8(const std::byte* p) { return reinterpret_cast<const uint8_t*>(p); }
  static uint16x4_t load_u16(const std::byte* p) { return vreinterpret_u16_u8(vld1_u8(u8(p))); }

  static F zero() { return set1(0.0f); }
  static F set1(float x) {
    return map_f([&](int) { return vdupq_n_f32(x); });
  }
  static F load(const float* p) {
    return map_f([&](int i) { return vld1q_f32(p + 4 * i); });
  }
  static void store(float* p, F x) {
    for (int i = 0; i < 4; ++i) vst1q_f32(p + 4 * i, x.q[i]);
  }
  static F load_f32(const std::byte* p) {
    return map_f([&](int i) { return vreinterpretq_f32_u8(vld1q_u8(u8(p + 16 * i))); });
  }
  static F load_f16(const std::byte* p) {
    return map_f([&](int i) { return vcvt_f32_f16(vreinterpret_f16_u16(load_u16(p + 8 * i))); });
  }
  static F load_bf16(const std::byte* p) {
    return map_f([&](int i) { return vreinterpretq_f32_u32(vshll_n_u16(load_u16(p + 8 * i), 16)); });
  }
  static uint16x8_t widen_u8(uint8x16_t x, int half) { return vmovl_u8(half == 0 ? vget_low_u8(x) : vget_high_u8(x)); }
  static F load_ue4m3(const std::byte* p) {
    const uint8x16_t codes = vandq_u8(vld1q_u8(u8(p)), vdupq_n_u8(127));
    return map_f([&](int i) {
      const uint16x8_t bits = vshlq_n_u16(widen_u8(codes, i / 2), 7);
      return vcvt_f32_f16(vreinterpret_f16_u16(i % 2 == 0 ? vget_low_u16(bits) : vget_high_u16(bits)));
    });
  }
  static F load_e8m0(const std::byte* p) {
    const uint8x16_t codes = vld1q_u8(u8(p));
    return map_f([&](int i) {
      const uint16x8_t wide = widen_u8(codes, i / 2);
      const uint32x4_t bits = vshlq_n_u32(vmovl_u16(i % 2 == 0 ? vget_low_u16(wide) : vget_high_u16(wide)), 23);
      return vreinterpretq_f32_u32(vmaxq_u32(bits, vdupq_n_u32(0x00400000)));
    });
  }
  static F add(F a, F b) {
    return map_f([&](int i) { return vaddq_f32(a.q[i], b.q[i]); });
  }
  static F sub(F a, F b) {
    return map_f([&](int i) { return vsubq_f32(a.q[i], b.q[i]); });
  }
  static F mul(F a, F b) {
    return map_f([&](int i) { return vmulq_f32(a.q[i], b.q[i]); });
  }
  static F div(F a, F b) {
    return map_f([&](int i) { return vdivq_f32(a.q[i], b.q[i]); });
  }
  static F fma(F a, F b, F c) {
    return map_f([&](int i) { return vfmaq_f32(c.q[i], a.q[i], b.q[i]); });
  }
  static F fnma(F a, F b, F c) {
    return map_f([&](int i) { return vfmsq_f32(c.q[i], a.q[i], b.q[i]); });
  }
  static F max(F a, F b) {
    return map_f([&](int i) { return vbslq_f32(vcgtq_f32(a.q[i], b.q[i]), a.q[i], b.q[i]); });
  }
  static F min(F a, F b) {
    return map_f([&](int i) { return vbslq_f32(vcltq_f32(a.q[i], b.q[i]), a.q[i], b.q[i]); });
  }
  static F to_f32(I x) {
    return map_f([&](int i) { return vcvtq_f32_s32(x.q[i]); });
  }
  static F add_exponent(F p, F t) {
    return map_f([&](int i) {
      const int32x4_t n = vshlq_n_s32(vreinterpretq_s32_f32(t.q[i]), 23);
      return vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(p.q[i]), n));
    });
  }

  static I zero_i() {
    return map_i([](int) { return vdupq_n_s32(0); });
  }
  static I max_abs_bits(I m, F x) {
    return map_i(
        [&](int i) { return vmaxq_s32(m.q[i], vandq_s32(vreinterpretq_s32_f32(x.q[i]), vdupq_n_s32(0x7FFFFFFF))); });
  }
  static I add_i(I a, I b) {
    return map_i([&](int i) { return vaddq_s32(a.q[i], b.q[i]); });
  }
  static I sub_i(I a, I b) {
    return map_i([&](int i) { return vsubq_s32(a.q[i], b.q[i]); });
  }
  static I set1_i(int32_t x) {
    return map_i([&](int) { return vdupq_n_s32(x); });
  }
  static I shift_right7(I x) {
    return map_i([&](int i) { return vshrq_n_s32(x.q[i], 7); });
  }
  static int32_t reduce_max(I x) { return vmaxvq_s32(vmaxq_s32(vmaxq_s32(x.q[0], x.q[1]), vmaxq_s32(x.q[2], x.q[3]))); }
  static int32_t reduce_add(I x) { return vaddvq_s32(vaddq_s32(vaddq_s32(x.q[0], x.q[1]), vaddq_s32(x.q[2], x.q[3]))); }
  static I round_i32(F x) {
    return map_i([&](int i) { return vcvtnq_s32_f32(x.q[i]); });
  }
  static void store_i8(std::byte* p, I x) {
    const int16x8_t low = vcombine_s16(vmovn_s32(x.q[0]), vmovn_s32(x.q[1]));
    const int16x8_t high = vcombine_s16(vmovn_s32(x.q[2]), vmovn_s32(x.q[3]));
    vst1q_s8(reinterpret_cast<int8_t*>(p), vcombine_s8(vmovn_s16(low), vmovn_s16(high)));
  }

  static B load_codes(const std::byte* p) {
    return map_b([&](int i) { return vld1q_u8(u8(p + 16 * i)); });
  }
  static B load_table(const uint8_t* table) {
    return map_b([&](int) { return vld1q_u8(table); });
  }
  static B lookup16(B table, B indices) {
    return map_b([&](int i) { return vqtbl1q_u8(table.q[i], indices.q[i]); });
  }
  template <uint8_t kMask>
  static B mask(B x) {
    return map_b([&](int i) { return vandq_u8(x.q[i], vdupq_n_u8(kMask)); });
  }
  template <int n>
  static B shr(B x) {
    if constexpr (n == 0)
      return x;
    else
      return map_b([&](int i) { return vshrq_n_u8(x.q[i], n); });
  }
  template <int n>
  static B shl(B x) {
    return map_b([&](int i) { return vshlq_n_u8(x.q[i], n); });
  }
  static B or_(B a, B b) {
    return map_b([&](int i) { return vorrq_u8(a.q[i], b.q[i]); });
  }
  template <uint8_t kMask>
  static B or_masked(B acc, B x) {
    return or_(acc, mask<kMask>(x));
  }
  static B join_nibbles(B low, B high) {
    return map_b([&](int i) { return vbslq_u8(vdupq_n_u8(0x0F), low.q[i], high.q[i]); });
  }
  template <int k>
  static I lane_u8(B x) {
    return map_i([&](int i) {
      const uint32x4_t y = vreinterpretq_u32_u8(x.q[i]);
      return vreinterpretq_s32_u32(vandq_u32(vshlq_u32(y, vdupq_n_s32(-8 * k)), vdupq_n_u32(255)));
    });
  }
  template <int k>
  static I lane_i8(B x) {
    return map_i([&](int i) {
      const int32x4_t y = vshlq_s32(vreinterpretq_s32_u8(x.q[i]), vdupq_n_s32(24 - 8 * k));
      return vshrq_n_s32(y, 24);
    });
  }
  static I shl7_add(I high, I low) {
    return map_i([&](int i) { return vaddq_s32(vshlq_n_s32(high.q[i], 7), low.q[i]); });
  }

  template <int kBits>
  static Acc<kBits> start(int32_t offset) {
    const int32x4_t s = vdupq_n_s32(kBits == 8 ? 0 : offset);
    return {{s, s, s, s}};
  }
  template <int kBits>
  static I sum(Acc<kBits> s, int32_t) {
    return {{s.q[0], s.q[1], s.q[2], s.q[3]}};
  }
  static int8x16_t quad(const std::byte* p) {
    int32_t x;
    __builtin_memcpy(&x, p, 4);
    return vreinterpretq_s8_s32(vdupq_n_s32(x));
  }
  template <int kBits>
  static int8x16_t code(uint8x16_t x) {
    return vreinterpretq_s8_u8(kBits == 8 ? veorq_u8(x, vdupq_n_u8(128)) : x);
  }
  template <int kBits, int NC>
  [[gnu::always_inline]] static inline void dot2(Acc<kBits> (&s)[NC], B w0, B w1, const std::byte* a0,
                                                 const std::byte* a1, int col_stride) {
#pragma GCC unroll 4
    for (int c = 0; c < NC; ++c) {
      const int8x16_t q0 = quad(a0 + c * col_stride), q1 = quad(a1 + c * col_stride);
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        s[c].q[i] = vdotq_s32(s[c].q[i], code<kBits>(w0.q[i]), q0);
        s[c].q[i] = vdotq_s32(s[c].q[i], code<kBits>(w1.q[i]), q1);
      }
    }
  }
};

}  // namespace
}  // namespace tokamak::cpu
