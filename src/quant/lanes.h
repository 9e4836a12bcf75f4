// Four f32 side by side, in the vector extension of GCC and Clang: what the encoders' search loops are written in. Any
// instruction set rounds and sums in the same order, so a file does not depend on the machine that wrote it.
#pragma once

#include <cstdint>
#include <cstring>

namespace tokamak {

using F32x4 = float __attribute__((vector_size(16)));
using I32x4 = int32_t __attribute__((vector_size(16)));

inline F32x4 load4(const float* p) {
  F32x4 v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
inline void store4(float* p, F32x4 v) { std::memcpy(p, &v, sizeof v); }
inline F32x4 splat4(float v) { return F32x4{v, v, v, v}; }
inline F32x4 min4(F32x4 a, F32x4 b) { return a < b ? a : b; }
inline F32x4 max4(F32x4 a, F32x4 b) { return a > b ? a : b; }
inline float sum4(F32x4 v) { return (v[0] + v[2]) + (v[1] + v[3]); }

// v where the mask is set, else +0.
inline F32x4 mask4(I32x4 mask, F32x4 v) {
  I32x4 bits;
  std::memcpy(&bits, &v, sizeof bits);
  bits &= mask;
  std::memcpy(&v, &bits, sizeof v);
  return v;
}

// Nearest integer, halves to even. |v| < 2^22.
inline F32x4 round4(F32x4 v) {
  constexpr float shift = 0x1.8p23f;  // adding it leaves no room for a fraction
  return (v + shift) - shift;
}

}  // namespace tokamak
