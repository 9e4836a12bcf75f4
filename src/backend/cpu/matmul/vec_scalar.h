// The vector layer in plain C++: what every other vec_*.h must compute, lane by lane. It is the definition.
//   F, I   16 lanes of f32 / int32, one per row of a panel
//   B      a code vector: 16 dwords of four bytes, dword r belongs to row r
//   Acc    running integer dot product of 16 rows with one column; kBits = width of the unsigned weight codes. Codes
//          of 8 bits carry an offset of 128: a layer may use the signed code and ignore the start value instead
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/half.h"

namespace tokamak::cpu {
namespace {

struct Scalar {
  static constexpr int kMaxCols = 2;
  static constexpr bool kDotsAnyByte = false;  // dot2 is exact for codes 0 to 255, whatever kBits
  struct F {
    float v[16];
  };
  struct I {
    int32_t v[16];
  };
  struct B {
    uint8_t v[64];
  };
  template <int kBits>
  struct Acc {
    int32_t v[16];
  };

  template <class Fn>
  static F map_f(Fn fn) {
    F r;
    for (int i = 0; i < 16; ++i) r.v[i] = fn(i);
    return r;
  }
  template <class Fn>
  static I map_i(Fn fn) {
    I r;
    for (int i = 0; i < 16; ++i) r.v[i] = fn(i);
    return r;
  }
  template <class Fn>
  static B map_b(Fn fn) {
    B r;
    for (int i = 0; i < 64; ++i) r.v[i] = static_cast<uint8_t>(fn(i));
    return r;
  }
  template <class T>
  static T load_as(const std::byte* p) {
    T x;
    std::memcpy(&x, p, sizeof x);
    return x;
  }

  static F zero() { return F{}; }
  static F set1(float x) {
    return map_f([&](int) { return x; });
  }
  static F load(const float* p) {
    return map_f([&](int i) { return p[i]; });
  }
  static void store(float* p, const F& x) { std::memcpy(p, x.v, sizeof x.v); }
  static F load_f32(const std::byte* p) { return load_as<F>(p); }
  static F load_f16(const std::byte* p) {
    return map_f([&](int i) { return f16_to_f32(load_as<uint16_t>(p + 2 * i)); });
  }
  static F load_bf16(const std::byte* p) {
    return map_f([&](int i) { return bf16_to_f32(load_as<uint16_t>(p + 2 * i)); });
  }
  // 16 bytes -> UE4M3 values / 256: the f16 whose bits are code << 7. Bit 7 of a code is not looked at.
  static F load_ue4m3(const std::byte* p) {
    return map_f([&](int i) { return f16_to_f32(static_cast<uint16_t>((std::to_integer<int>(p[i]) & 127) << 7)); });
  }
  // 16 bytes -> E8M0 values 2^(code - 127); code 255 is infinite.
  static F load_e8m0(const std::byte* p) {
    return map_f([&](int i) {
      const uint32_t bits = std::to_integer<uint32_t>(p[i]) << 23;
      return std::bit_cast<float>(bits > 0x00400000 ? bits : 0x00400000);  // code 0: a subnormal
    });
  }
  static F add(const F& a, const F& b) {
    return map_f([&](int i) { return a.v[i] + b.v[i]; });
  }
  static F sub(const F& a, const F& b) {
    return map_f([&](int i) { return a.v[i] - b.v[i]; });
  }
  static F mul(const F& a, const F& b) {
    return map_f([&](int i) { return a.v[i] * b.v[i]; });
  }
  static F div(const F& a, const F& b) {
    return map_f([&](int i) { return a.v[i] / b.v[i]; });
  }
  static F fma(const F& a, const F& b, const F& c) {
    return map_f([&](int i) { return std::fma(a.v[i], b.v[i], c.v[i]); });
  }
  static F fnma(const F& a, const F& b, const F& c) {  // c - a * b
    return map_f([&](int i) { return std::fma(-a.v[i], b.v[i], c.v[i]); });
  }
  static F max(const F& a, const F& b) {
    return map_f([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
  }
  static F min(const F& a, const F& b) {
    return map_f([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
  }
  static F to_f32(const I& x) {
    return map_f([&](int i) { return static_cast<float>(x.v[i]); });
  }
  // p * 2^n for the integer n in the low bits of t
  static F add_exponent(const F& p, const F& t) {
    return map_f([&](int i) {
      return std::bit_cast<float>(std::bit_cast<uint32_t>(p.v[i]) + (std::bit_cast<uint32_t>(t.v[i]) << 23));
    });
  }

  static I zero_i() { return I{}; }
  static I max_abs_bits(const I& m, const F& x) {  // max(m, bits of |x|): NaN is largest
    return map_i([&](int i) {
      const int32_t bits = std::bit_cast<int32_t>(x.v[i]) & 0x7FFFFFFF;
      return m.v[i] > bits ? m.v[i] : bits;
    });
  }
  static I add_i(const I& a, const I& b) {
    return map_i([&](int i) { return a.v[i] + b.v[i]; });
  }
  static I sub_i(const I& a, const I& b) {
    return map_i([&](int i) { return a.v[i] - b.v[i]; });
  }
  static I set1_i(int32_t x) {
    return map_i([&](int) { return x; });
  }
  static I shift_right7(const I& x) {
    return map_i([&](int i) { return x.v[i] >> 7; });
  }
  static int32_t reduce_max(const I& x) {
    int32_t m = x.v[0];
    for (int32_t v : x.v) m = v > m ? v : m;
    return m;
  }
  static int32_t reduce_add(const I& x) {
    int32_t s = 0;
    for (int32_t v : x.v) s += v;
    return s;
  }
  static I round_i32(const F& x) {  // nearest even
    return map_i([&](int i) { return static_cast<int32_t>(std::nearbyint(x.v[i])); });
  }
  static void store_i8(std::byte* p, const I& x) {
    for (int i = 0; i < 16; ++i) p[i] = static_cast<std::byte>(x.v[i]);
  }

  static B load_codes(const std::byte* p) { return load_as<B>(p); }
  // A table of 16 bytes for lookup16.
  static B load_table(const uint8_t* table) {
    return map_b([&](int i) { return table[i % 16]; });
  }
  static B lookup16(const B& table, const B& indices) {  // indices below 16
    return map_b([&](int i) { return table.v[indices.v[i] & 15]; });
  }
  template <uint8_t kMask>
  static B mask(const B& x) {
    return map_b([&](int i) { return x.v[i] & kMask; });
  }
  // Shifts within a byte. Other layers shift 16-bit pairs: mask afterwards.
  template <int n>
  static B shr(const B& x) {
    return map_b([&](int i) { return x.v[i] >> n; });
  }
  template <int n>
  static B shl(const B& x) {
    return map_b([&](int i) { return x.v[i] << n; });
  }
  static B or_(const B& a, const B& b) {
    return map_b([&](int i) { return a.v[i] | b.v[i]; });
  }
  template <uint8_t kMask>
  static B or_masked(const B& acc, const B& x) {
    return map_b([&](int i) { return acc.v[i] | (x.v[i] & kMask); });
  }
  static B join_nibbles(const B& low, const B& high) {
    return map_b([&](int i) { return (low.v[i] & 0x0F) | (high.v[i] & 0xF0); });
  }
  template <int k>
  static I lane_u8(const B& x) {
    return map_i([&](int i) { return int32_t{x.v[4 * i + k]}; });
  }
  template <int k>
  static I lane_i8(const B& x) {
    return map_i([&](int i) { return int32_t{static_cast<int8_t>(x.v[4 * i + k])}; });
  }
  static I shl7_add(const I& high, const I& low) {
    return map_i([&](int i) { return high.v[i] * 128 + low.v[i]; });
  }

  template <int kBits>
  static Acc<kBits> start(int32_t offset) {
    Acc<kBits> s;
    for (int32_t& v : s.v) v = offset;
    return s;
  }
  template <int kBits>
  static I sum(const Acc<kBits>& s, int32_t) {
    return std::bit_cast<I>(s);
  }
  // s[c] += w0 . (4 codes at a0) + w1 . (4 codes at a1), column c's codes col_stride bytes further
  template <int kBits, int NC>
  static void dot2(Acc<kBits> (&s)[NC], const B& w0, const B& w1, const std::byte* a0, const std::byte* a1,
                   int col_stride) {
    for (int c = 0; c < NC; ++c) {
      add_dot(s[c].v, w0, a0 + c * col_stride);
      add_dot(s[c].v, w1, a1 + c * col_stride);
    }
  }
  static void add_dot(int32_t (&s)[16], const B& w, const std::byte* a) {
    for (int r = 0; r < 16; ++r)
      for (int i = 0; i < 4; ++i) s[r] += int32_t{w.v[4 * r + i]} * static_cast<int8_t>(a[i]);
  }
};

}  // namespace
}  // namespace tokamak::cpu
