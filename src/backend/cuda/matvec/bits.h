// Words of packed weights and the few integer tricks that the types share, for the GPU and (for tests) the host.
// No includes of the project: device code is compiled by nvcc.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__CUDACC__)
#define TOKAMAK_HD __host__ __device__ __forceinline__
#else
#define TOKAMAK_HD inline
#endif

namespace tokamak::cuda {

// n 32-bit words, aligned to their size up to 16 bytes: one load.
template <int n>
struct alignas(n >= 4 ? 16 : 4 * n) Words {
  uint32_t w[n];
};

// T from p, aligned to T. stream: read once, not kept in L1.
template <class T, bool kStream>
TOKAMAK_HD T load_as(const uint8_t* p) {
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(T) > 16) {
    T value;
    const auto* parts = p;
    for (int i = 0; i < static_cast<int>(sizeof(T) / 16); ++i) {
      const auto part = load_as<Words<4>, kStream>(parts + 16 * i);
      for (int j = 0; j < 4; ++j) value.w[4 * i + j] = part.w[j];
    }
    return value;
  } else if constexpr (sizeof(T) == 16) {
    T v;
    if constexpr (kStream)
      asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(v.w[0]), "=r"(v.w[1]), "=r"(v.w[2]), "=r"(v.w[3])
                   : "l"(p));
    else
      asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(v.w[0]), "=r"(v.w[1]), "=r"(v.w[2]), "=r"(v.w[3])
                   : "l"(p));
    return v;
  } else if constexpr (sizeof(T) == 8) {
    T v;
    if constexpr (kStream)
      asm volatile("ld.global.nc.L1::no_allocate.v2.u32 {%0, %1}, [%2];" : "=r"(v.w[0]), "=r"(v.w[1]) : "l"(p));
    else
      asm volatile("ld.global.nc.v2.u32 {%0, %1}, [%2];" : "=r"(v.w[0]), "=r"(v.w[1]) : "l"(p));
    return v;
  } else if constexpr (sizeof(T) == 4 && alignof(T) == 4 && sizeof(T) == sizeof(Words<1>)) {
    uint32_t v;
    asm volatile("ld.global.nc.u32 %0, [%1];" : "=r"(v) : "l"(p));
    T value;
    memcpy(&value, &v, 4);
    return value;
  } else if constexpr (sizeof(T) == 2) {
    uint16_t v;
    asm volatile("ld.global.nc.u16 %0, [%1];" : "=h"(v) : "l"(p));
    return v;
  } else {
    static_assert(sizeof(T) == 1);
    uint32_t v;
    asm volatile("ld.global.nc.u8 %0, [%1];" : "=r"(v) : "l"(p));
    return static_cast<T>(v);
  }
#else
  T value;
  memcpy(&value, p, sizeof value);
  return value;
#endif
}

TOKAMAK_HD float as_float(uint32_t bits) {
#if defined(__CUDA_ARCH__)
  return __uint_as_float(bits);
#else
  float f;
  memcpy(&f, &bits, 4);
  return f;
#endif
}

TOKAMAK_HD float fused(float a, float b, float c) {  // a * b + c, rounded once
#if defined(__CUDA_ARCH__)
  return __fmaf_rn(a, b, c);
#else
  return __builtin_fmaf(a, b, c);
#endif
}

// The binary16 in the low (part 0) or high half of a word.
TOKAMAK_HD float half_at(uint32_t word, int part) {
#if defined(__CUDA_ARCH__)
  float f;
  if (part)
    asm("{\n.reg .b16 l, h;\nmov.b32 {l, h}, %1;\ncvt.f32.f16 %0, h;\n}" : "=f"(f) : "r"(word));
  else
    asm("{\n.reg .b16 l, h;\nmov.b32 {l, h}, %1;\ncvt.f32.f16 %0, l;\n}" : "=f"(f) : "r"(word));
  return f;
#else
  const uint32_t h = part ? word >> 16 : word & 0xFFFF;
  const uint32_t sign = (h & 0x8000u) << 16, exponent = (h >> 10) & 31, mantissa = h & 1023;
  if (exponent == 31) return as_float(sign | 0x7F800000u | mantissa << 13);
  if (exponent != 0) return as_float(sign | (exponent + 112) << 23 | mantissa << 13);
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  return sign ? -magnitude : magnitude;
#endif
}

// Four bytes picked from the eight of (lo, hi), one per nibble of the selector's low half; a nibble >= 8 gives the
// picked byte's top bit eight times.
TOKAMAK_HD uint32_t pick_bytes(uint32_t lo, uint32_t hi, uint32_t selector) {
#if defined(__CUDA_ARCH__)
  uint32_t out;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(out) : "r"(lo), "r"(hi), "r"(selector));
  return out;
#else
  const uint64_t all = static_cast<uint64_t>(hi) << 32 | lo;
  uint32_t out = 0;
  for (int i = 0; i < 4; ++i) {
    const uint32_t nibble = selector >> (4 * i) & 15;
    uint32_t byte = static_cast<uint32_t>(all >> (8 * (nibble & 7))) & 255;
    if (nibble & 8) byte = byte & 128 ? 255 : 0;
    out |= byte << (8 * i);
  }
  return out;
#endif
}

// sum + the dot product of four bytes of w (unsigned, or signed) with the four signed bytes of a.
template <bool kSigned>
TOKAMAK_HD int dot4(uint32_t w, uint32_t a, int sum) {
#if defined(__CUDA_ARCH__)
  int out;
  if constexpr (kSigned)
    asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(out) : "r"(w), "r"(a), "r"(sum));
  else
    asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(out) : "r"(w), "r"(a), "r"(sum));
  return out;
#else
  for (int i = 0; i < 4; ++i) {
    const int x = kSigned ? static_cast<int8_t>(w >> (8 * i)) : static_cast<int>(w >> (8 * i) & 255);
    sum += x * static_cast<int8_t>(a >> (8 * i));
  }
  return sum;
#endif
}

// What look-ups need: the grid of the type (shared memory), and a 0 that the compiler does not know, so that constants
// added to it stay in registers.
struct Lookup {
  const uint32_t* grid;
  uint32_t zero;
};

// An integer sum that starts at kMagic is, as bits, the float 1.5 * 2^23 + sum while |sum| < 2^22: no conversion.
inline constexpr int kMagic = 0x4B400000;
TOKAMAK_HD float float_of_sum(int sum) { return as_float(static_cast<uint32_t>(sum)) - 12582912.0f; }
// Byte i of a word as a float, by the same trick.
TOKAMAK_HD float float_of_byte(uint32_t word, int i) {
  return as_float(pick_bytes(word, 0x4B000000, 0x7440 | static_cast<uint32_t>(i))) - 8388608.0f;
}
// x < 2^23 as a float, by the same trick.
TOKAMAK_HD float float_of_small(uint32_t x) { return as_float(0x4B000000u | x) - 8388608.0f; }

}  // namespace tokamak::cuda
