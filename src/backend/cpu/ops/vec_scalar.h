// The vector layer of the op kernels in plain C++: 16 lanes of f32. It is the definition: the other vec_*.h compute
// the same bits lane by lane (NaN payloads excepted). Kernels are templates over such a layer.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/half.h"

namespace tokamak::cpu {
namespace {

struct VecScalar {
  static constexpr int kQueryRows = 1;  // attention register tile: query rows x vectors
  static constexpr int kTileVecs = 1;

  struct F {
    float v[16];
  };
  struct M {  // bit i = lane i
    uint32_t bits;
  };

  template <class Fn>
  static F map(Fn fn) {
    F r;
    for (int i = 0; i < 16; ++i) r.v[i] = fn(i);
    return r;
  }
  static F zero() { return F{}; }
  static F set1(float x) {
    return map([&](int) { return x; });
  }
  static F load(const float* p) {
    F r;
    std::memcpy(r.v, p, sizeof r.v);
    return r;
  }
  static void store(float* p, const F& x) { std::memcpy(p, x.v, sizeof x.v); }
  // The first n lanes (0 < n < 16); the others are 0, or not stored.
  static F load_n(const float* p, int n) {
    F r{};
    std::memcpy(r.v, p, sizeof(float) * static_cast<size_t>(n));
    return r;
  }
  static void store_n(float* p, const F& x, int n) { std::memcpy(p, x.v, sizeof(float) * static_cast<size_t>(n)); }
  static F load(const uint16_t* p) {  // f16; any alignment: rows of a file
    uint16_t half[16];
    std::memcpy(half, static_cast<const void*>(p), sizeof half);
    return map([&](int i) { return f16_to_f32(half[i]); });
  }
  static void store_f16(uint16_t* p, const F& x) {
    for (int i = 0; i < 16; ++i) p[i] = f32_to_f16(x.v[i]);
  }
  static F load_i8(const int8_t* p) {
    return map([&](int i) { return static_cast<float>(p[i]); });
  }

  static F add(const F& a, const F& b) {
    return map([&](int i) { return a.v[i] + b.v[i]; });
  }
  static F sub(const F& a, const F& b) {
    return map([&](int i) { return a.v[i] - b.v[i]; });
  }
  static F mul(const F& a, const F& b) {
    return map([&](int i) { return a.v[i] * b.v[i]; });
  }
  static F div(const F& a, const F& b) {
    return map([&](int i) { return a.v[i] / b.v[i]; });
  }
  static F sqrt(const F& a) {
    return map([&](int i) { return std::sqrt(a.v[i]); });
  }
  static F fma(const F& a, const F& b, const F& c) {  // a * b + c
    return map([&](int i) { return std::fma(a.v[i], b.v[i], c.v[i]); });
  }
  static F fnma(const F& a, const F& b, const F& c) {  // c - a * b
    return map([&](int i) { return std::fma(-a.v[i], b.v[i], c.v[i]); });
  }
  // b when either is NaN.
  static F max(const F& a, const F& b) {
    return map([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
  }
  static F min(const F& a, const F& b) {
    return map([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
  }
  static F abs(const F& a) {
    return map([&](int i) { return std::fabs(a.v[i]); });
  }
  static F copy_sign(const F& magnitude, const F& sign) {
    return map([&](int i) { return std::copysign(magnitude.v[i], sign.v[i]); });
  }
  // Nearest even integer of x, |x| < 2^21 (any bits for NaN).
  static F round(const F& x) {
    return map([&](int i) { return x.v[i] + 12582912.0f - 12582912.0f; });
  }
  // p * 2^n, rounded once; n integral, -151 <= n <= 128, 0.5 < p < 2.
  static F scale_by_power(const F& p, const F& n) {
    return map([&](int i) {
      // n may be NaN: take the integer from the bits of n + 1.5 * 2^23, never by a conversion.
      const int32_t whole = std::bit_cast<int32_t>(n.v[i] + 12582912.0f) - 0x4B400000;
      const uint32_t half = static_cast<uint32_t>(whole >> 1), rest = static_cast<uint32_t>(whole) - half;
      return p.v[i] * std::bit_cast<float>((half + 127) << 23) * std::bit_cast<float>((rest + 127) << 23);
    });
  }
  static F swap_pairs(const F& x) {  // lanes 1 0 3 2 ...
    return map([&](int i) { return x.v[i ^ 1]; });
  }
  static M lanes(int begin, int end) {  // begin <= lane < end; 0 <= begin <= end <= 16
    return {((1u << end) - 1) & ~((1u << begin) - 1)};
  }
  static F select(M m, const F& yes, const F& no) {
    return map([&](int i) { return (m.bits >> i & 1) ? yes.v[i] : no.v[i]; });
  }
  // The fixed tree of every sum: lanes i and i + 8, then i + 4, i + 2, i + 1.
  static float sum(F x) {
    for (int width = 8; width > 0; width /= 2)
      for (int i = 0; i < width; ++i) x.v[i] += x.v[i + width];
    return x.v[0];
  }
  static float first_lane(const F& x) { return x.v[0]; }
  static float max_lane(const F& x) {
    float m = x.v[0];
    for (int i = 1; i < 16; ++i) m = x.v[i] > m ? x.v[i] : m;
    return m;
  }
};

}  // namespace
}  // namespace tokamak::cpu
