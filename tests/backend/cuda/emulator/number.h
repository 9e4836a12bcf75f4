// Numbers of few bits as a GPU rounds them: to nearest, ties to even.
#pragma once

#include <cmath>
#include <cstdint>

namespace tokamak::cuda::emulator {

float half_to_float(uint32_t half);
float bfloat_to_float(uint32_t bfloat);
// x is exact, or rounded to odd: a double is enough for sums and products of two halves and for a float.
uint32_t to_half(double x);
uint32_t to_bfloat(float x);
uint32_t half_of_e4m3(uint32_t byte);  // exact; NaN is 0x7FFF
// Infinities and what would become one: the largest finite half. NaN stays.
float clamp_to_half(float x);
inline float flush(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; }

// Of the low halves and of the high halves of the words.
template <class F>
uint32_t both_halves(F f, uint32_t a, uint32_t b, uint32_t c) {
  const auto one = [&](int shift) {
    return to_half(
        f(half_to_float(a >> shift & 0xFFFF), half_to_float(b >> shift & 0xFFFF), half_to_float(c >> shift & 0xFFFF)));
  };
  return one(0) | one(16) << 16;
}

}  // namespace tokamak::cuda::emulator
