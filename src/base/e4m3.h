// The 8-bit floating-point format e4m3: sign, 4 bits of exponent (bias 7), 3 of mantissa, no infinity.
// Source: Micikevicius et al. 2022 (arXiv:2209.05433).
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace tokamak {

inline constexpr float kLargestE4m3 = 448;

// Exact. 0x7F and 0xFF are NaN.
constexpr float f8_e4m3_to_f32(uint8_t code) {
  const uint32_t sign = (code & 0x80u) << 24, magnitude = code & 0x7Fu;
  if (magnitude == 0x7F) return std::bit_cast<float>(sign | 0x7FC00000u);
  const float value =
      magnitude < 8 ? static_cast<float>(magnitude) * 0x1p-9f : std::bit_cast<float>((magnitude << 20) + (120u << 23));
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
}

// To the nearest, ties to even; what is larger than 448, infinities too, becomes 448.
constexpr uint8_t f32_to_f8_e4m3(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x), sign = bits >> 24 & 0x80, magnitude = bits & 0x7FFFFFFF;
  if (magnitude > 0x7F800000) return static_cast<uint8_t>(sign | 0x7F);
  if (magnitude >= std::bit_cast<uint32_t>(kLargestE4m3)) return static_cast<uint8_t>(sign | 0x7E);
  if (magnitude < std::bit_cast<uint32_t>(0x1p-6f)) {  // subnormal or zero: the addition rounds to 2^-9
    const float shifted = std::bit_cast<float>(magnitude) + 0x1p14f;
    return static_cast<uint8_t>(sign | (std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(0x1p14f)));
  }
  const uint32_t odd = magnitude >> 20 & 1;
  return static_cast<uint8_t>(sign | ((magnitude - (120u << 23) + 0x7FFFF + odd) >> 20));
}

// How a row is kept as e4m3 with one scale, which makes its largest element 448: the code of x is that of x * inverse,
// and code c stands for scale * c. A row with an infinity or NaN has the scale NaN; one of nearly zeros is 0.
struct F8Scale {
  float inverse, scale;
};
// largest: of |x|; NaN when any is.
constexpr F8Scale f8_scale(float largest) {
  if (!(largest < std::numeric_limits<float>::infinity())) return {0, std::numeric_limits<float>::quiet_NaN()};
  if (largest < 0x1p-80f) return {0, 0};
  return {kLargestE4m3 / largest, largest / kLargestE4m3};
}

}  // namespace tokamak
