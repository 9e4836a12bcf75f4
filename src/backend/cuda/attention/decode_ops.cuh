// What decode attention is made of beside ptx/: operands of products by cache type, and copies into shared
// memory that count into barriers (bulk copies where the GPU has them).
#pragma once

#include <cuda_fp16.h>

#include "backend/cuda/attention/layout.h"
#include "backend/cuda/ptx/arithmetic.cuh"
#include "backend/cuda/ptx/barrier.cuh"
#include "backend/cuda/ptx/copy.cuh"
#include "backend/cuda/ptx/memory.cuh"
#include "backend/cuda/ptx/mma.cuh"

namespace tokamak::cuda::decode {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
inline constexpr bool kBulkCopies = true;
#else
inline constexpr bool kBulkCopies = false;
#endif

// Numbers as operands of products: two in a register, low first.
struct F16 {
  __device__ static uint32_t pack(float low, float high) { return ptx::to_halves(low, high); }
  __device__ static float2 unpack(uint32_t x) { return __half22float2(*reinterpret_cast<const __half2*>(&x)); }
  __device__ static void multiply(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    ptx::multiply_f16(c, a, b[0], b[1]);
  }
};
struct Bf16 {
  __device__ static uint32_t pack(float low, float high) { return ptx::to_bfloats(low, high); }
  __device__ static float2 unpack(uint32_t x) {
    return make_float2(__uint_as_float(x << 16), __uint_as_float(x & 0xFFFF0000));
  }
  __device__ static void multiply(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    ptx::multiply_bf16(c, a, b[0], b[1]);
  }
};

// Two bytes of a word of codes as two f16; kFirst and kSecond tell which. Of f8: 2^-8 times the numbers.
template <KvType kType, int kFirst, int kSecond>
__device__ __forceinline__ uint32_t decode_two(uint32_t codes) {
  if constexpr (kType == KvType::q8_0) {
    // Behind a high byte of 0x64 a byte b is the f16 1024 + b.
    const uint32_t moved = __byte_perm(codes, 0x64646464, kFirst | 4 << 4 | kSecond << 8 | 4 << 12);
    const __half2 y = __hsub2(*reinterpret_cast<const __half2*>(&moved), __float2half2_rn(1024 + kQ8Bias));
    return *reinterpret_cast<const uint32_t*>(&y);
  } else {
    static_assert(kType == KvType::f8);
    const uint32_t moved = __byte_perm(codes, 0, 4 | kFirst << 4 | 4 << 8 | kSecond << 12);
    return (moved & 0x80008000) | (moved >> 1 & 0x3F803F80);
  }
}
inline constexpr float kF8Decoded = 256;  // numbers over what decode_two gives

// A stage's copies are made by one warp: announce_copies(), copy() any number of times, finish_copies(). The barrier
// counts kCopyArrivals arrivals besides the bytes.
inline constexpr uint32_t kCopyArrivals = 32;
__device__ __forceinline__ void announce_copies(uint32_t barrier, uint32_t n_bytes, int lane) {
#if __CUDA_ARCH__ >= 900
  if (lane == 0) ptx::barrier_announce(barrier, n_bytes);
  __syncwarp();
#endif
}
// n_bytes: a multiple of 16. Called by the whole warp; where there are bulk copies, each lane may have its own.
__device__ __forceinline__ void copy(uint32_t to, const uint8_t* from, uint32_t n_bytes, uint32_t barrier, int lane) {
#if __CUDA_ARCH__ >= 900
  if (n_bytes > 0) ptx::copy_bulk(to, from, n_bytes, barrier);
#else
  for (uint32_t at = 16 * lane; at < n_bytes; at += 16 * 32) ptx::copy_16(to + at, from + at);
#endif
}
__device__ __forceinline__ void finish_copies(uint32_t barrier) {
#if __CUDA_ARCH__ >= 900
  ptx::barrier_arrive(barrier);
#else
  ptx::arrive_after_copies(barrier);
#endif
}
// Orders plain writes to shared memory before later copies to the same place.
__device__ __forceinline__ void fence_copies() {
#if __CUDA_ARCH__ >= 900
  ptx::fence_bulk();
#endif
}

}  // namespace tokamak::cuda::decode
