#include "backend/cuda/emulator/number.h"

#include <bit>
#include <limits>
#include <vector>

namespace tokamak::cuda::emulator {

namespace {
// A number of kMantissa stored bits and the given bias, by its definition.
float decode(uint32_t bits, int n_mantissa, int n_exponent) {
  const int bias = (1 << (n_exponent - 1)) - 1;
  const auto mantissa = static_cast<double>(bits & ((1u << n_mantissa) - 1));
  const int exponent = static_cast<int>(bits >> n_mantissa & ((1u << n_exponent) - 1));
  const double sign = bits >> (n_mantissa + n_exponent) & 1 ? -1.0 : 1.0;
  if (exponent == (1 << n_exponent) - 1)
    return static_cast<float>(mantissa == 0 ? sign * INFINITY : std::numeric_limits<double>::quiet_NaN());
  if (exponent == 0) return static_cast<float>(sign * std::ldexp(mantissa, 1 - bias - n_mantissa));
  return static_cast<float>(sign * std::ldexp(1.0 + std::ldexp(mantissa, -n_mantissa), exponent - bias));
}
const std::vector<float>& halves() {
  static const std::vector<float> kAll = [] {
    std::vector<float> all(1 << 16);
    for (uint32_t i = 0; i < all.size(); ++i) all[i] = decode(i, 10, 5);
    return all;
  }();
  return kAll;
}
}  // namespace

float half_to_float(uint32_t half) {
  static const float* const kAll = halves().data();
  return kAll[half & 0xFFFF];
}
float bfloat_to_float(uint32_t bfloat) { return std::bit_cast<float>(bfloat << 16); }

uint32_t to_half(double x) {
  const uint32_t sign = std::signbit(x) ? 0x8000 : 0;
  const double a = std::fabs(x);
  if (std::isnan(x)) return 0x7FFF;
  if (a >= 65520.0) return sign | 0x7C00;
  const int exponent = a < 0x1p-14 ? -14 : std::ilogb(a);
  // Whole steps of the last place; a carry moves on into the exponent.
  const auto steps = static_cast<uint32_t>(std::nearbyint(std::ldexp(a, 10 - exponent)));
  return sign | (static_cast<uint32_t>(exponent + 14) * 1024 + steps);
}
uint32_t to_bfloat(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  if (std::isnan(x)) return 0x7FFF;
  return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
}
uint32_t half_of_e4m3(uint32_t byte) {
  const uint32_t sign = byte >> 7 & 1, exponent = byte >> 3 & 15, mantissa = byte & 7;
  if (exponent == 15 && mantissa == 7) return 0x7FFF;
  const double value =
      exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, static_cast<int>(exponent) - 10);
  return to_half(sign ? -value : value);
}
float clamp_to_half(float x) { return std::isnan(x) ? x : std::fmin(std::fmax(x, -65504.0f), 65504.0f); }

}  // namespace tokamak::cuda::emulator
