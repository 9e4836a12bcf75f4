// src/backend/cuda/ptx/arithmetic.cuh, emulated.
#pragma once

#include <cstdint>

#include "backend/cuda/emulator/number.h"

namespace tokamak::cuda::ptx {

inline uint32_t pick_bytes(uint32_t low, uint32_t high, uint32_t selector) {
  uint32_t y = 0;
  for (int i = 0; i < 4; ++i) {
    const uint32_t from = selector >> (4 * i) & 7, sign = selector >> (4 * i) & 8;
    const uint32_t byte = (from < 4 ? low >> (8 * from) : high >> (8 * (from - 4))) & 255;
    y |= (sign ? (byte & 128 ? 255 : 0) : byte) << (8 * i);
  }
  return y;
}
template <bool kSigned>
int dot_bytes(uint32_t w, uint32_t a, int sum) {
  for (int i = 0; i < 4; ++i) {
    const int x = kSigned ? static_cast<int8_t>(w >> (8 * i)) : static_cast<uint8_t>(w >> (8 * i));
    sum += x * static_cast<int8_t>(a >> (8 * i));
  }
  return sum;
}

inline float low_half(uint32_t word) { return emulator::half_to_float(word & 0xFFFF); }
inline float high_half(uint32_t word) { return emulator::half_to_float(word >> 16); }
inline uint32_t add_halves(uint32_t a, uint32_t b) {
  return emulator::both_halves([](double x, double y, double) { return x + y; }, a, b, 0);
}
inline uint32_t multiply_halves(uint32_t a, uint32_t b) {
  return emulator::both_halves([](double x, double y, double) { return x * y; }, a, b, 0);
}
inline uint32_t fuse_halves(uint32_t a, uint32_t b, uint32_t c) {
  return emulator::both_halves([](double x, double y, double z) { return x * y + z; }, a, b, c);
}
inline uint32_t to_halves(float low, float high) { return emulator::to_half(low) | emulator::to_half(high) << 16; }
inline uint32_t to_halves_clamped(float low, float high) {
  return to_halves(emulator::clamp_to_half(low), emulator::clamp_to_half(high));
}
inline uint32_t to_bfloats(float low, float high) { return emulator::to_bfloat(low) | emulator::to_bfloat(high) << 16; }
template <bool kUpper>
uint32_t halves_of_e4m3(uint32_t word) {
  const uint32_t bytes = kUpper ? word >> 16 : word & 0xFFFF;
  return emulator::half_of_e4m3(bytes & 255) | emulator::half_of_e4m3(bytes >> 8) << 16;
}

inline float exp2_fast(float x) { return emulator::flush(std::exp2(emulator::flush(x))); }
inline float reciprocal(float x) { return emulator::flush(1.0f / emulator::flush(x)); }

inline void pin(uint32_t&) {}
inline void pin(int&) {}

}  // namespace tokamak::cuda::ptx
