// Words of packed weights and the few integer tricks that the types share, for the GPU and (for tests) the host.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__CUDACC__)
#include "backend/cuda/ptx/arithmetic.cuh"
#include "backend/cuda/ptx/memory.cuh"
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

// Where packed weights are read: in memory, not kept in L1 (stream) or kept; or copied to shared memory.
enum class ReadFrom : uint8_t { stream, memory, shared };

// T from p, aligned to T.
template <class T, ReadFrom from>
TOKAMAK_HD T load_as(const uint8_t* p) {
#if defined(__CUDA_ARCH__)
  constexpr bool kStream = from == ReadFrom::stream;
  if constexpr (from == ReadFrom::shared) {
    return *reinterpret_cast<const T*>(p);
  } else if constexpr (sizeof(T) > 16) {
    T value;
    const auto* parts = p;
    for (int i = 0; i < static_cast<int>(sizeof(T) / 16); ++i) {
      const auto part = load_as<Words<4>, from>(parts + 16 * i);
      for (int j = 0; j < 4; ++j) value.w[4 * i + j] = part.w[j];
    }
    return value;
  } else if constexpr (sizeof(T) == 16 || sizeof(T) == 8) {
    T v;
    ptx::load_constant<kStream>(p, v.w);
    return v;
  } else if constexpr (sizeof(T) == 4 && alignof(T) == 4 && sizeof(T) == sizeof(Words<1>)) {
    const uint32_t v = ptx::load_constant_4(p);
    T value;
    memcpy(&value, &v, 4);
    return value;
  } else if constexpr (sizeof(T) == 2) {
    return ptx::load_constant_2(p);
  } else {
    static_assert(sizeof(T) == 1);
    return static_cast<T>(ptx::load_constant_1(p));
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
  return part ? ptx::high_half(word) : ptx::low_half(word);
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
  return ptx::pick_bytes(lo, hi, selector);
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
  return ptx::dot_bytes<kSigned>(w, a, sum);
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
