// What decode attention is made of beside prefill_ops.cuh: operands of products by cache type, and copies into shared
// memory that count into barriers (bulk copies where the GPU has them).
#pragma once

#include <cuda_fp16.h>

#include "backend/cuda/attention/layout.h"
#include "backend/cuda/attention/prefill_ops.cuh"

namespace tokamak::cuda::decode {

using prefill::exp2_fast, prefill::load_matrices, prefill::load_transposed, prefill::shared_address;

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
inline constexpr bool kBulkCopies = true;
#else
inline constexpr bool kBulkCopies = false;
#endif

// Numbers as operands of products: two in a register, low first.
struct F16 {
  __device__ static uint32_t pack(float low, float high) { return prefill::pack(low, high); }
  __device__ static float2 unpack(uint32_t x) { return __half22float2(*reinterpret_cast<const __half2*>(&x)); }
  __device__ static void multiply(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    prefill::multiply(c, a, b[0], b[1]);
  }
};
struct Bf16 {
  __device__ static uint32_t pack(float low, float high) {
    uint32_t y;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
    return y;
  }
  __device__ static float2 unpack(uint32_t x) {
    return make_float2(__uint_as_float(x << 16), __uint_as_float(x & 0xFFFF0000));
  }
  __device__ static void multiply(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
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

// An 8x8 matrix of 16-bit elements spread over a warp, transposed.
__device__ __forceinline__ uint32_t transpose(uint32_t x) {
  uint32_t y;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(x));
  return y;
}

// --- barriers of a ring of stages
__device__ __forceinline__ void wait_phase(uint32_t barrier, uint32_t parity) {
  for (uint32_t n_polls = 0;; ++n_polls) {
    uint32_t done;
#if __CUDA_ARCH__ >= 900
    asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                 : "=r"(done)
                 : "r"(barrier), "r"(parity)
                 : "memory");
#else
    asm volatile("{\n.reg .pred p;\nmbarrier.test_wait.parity.shared.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                 : "=r"(done)
                 : "r"(barrier), "r"(parity)
                 : "memory");
#endif
    if (done) return;
    if (n_polls > 1u << 26) __trap();  // a copy that never came: an error beats a hang
  }
}
__device__ __forceinline__ void arrive(uint32_t barrier) {
  asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.shared.b64 state, [%0];\n}" ::"r"(barrier) : "memory");
}

// A stage's copies are made by one warp: announce_copies(), copy() any number of times, finish_copies(). The barrier
// counts kCopyArrivals arrivals besides the bytes.
inline constexpr uint32_t kCopyArrivals = 32;
__device__ __forceinline__ void announce_copies(uint32_t barrier, uint32_t n_bytes, int lane) {
#if __CUDA_ARCH__ >= 900
  if (lane == 0)
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared.b64 [%0], %1;" ::"r"(barrier), "r"(n_bytes) : "memory");
  __syncwarp();
#endif
}
// n_bytes: a multiple of 16. Called by the whole warp; where there are bulk copies, each lane may have its own.
__device__ __forceinline__ void copy(uint32_t to, const uint8_t* from, uint32_t n_bytes, uint32_t barrier, int lane) {
#if __CUDA_ARCH__ >= 900
  if (n_bytes > 0)
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(from), "r"(n_bytes), "r"(barrier)
                 : "memory");
#else
  for (uint32_t at = 16 * lane; at < n_bytes; at += 16 * 32)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + at), "l"(from + at) : "memory");
#endif
}
__device__ __forceinline__ void finish_copies(uint32_t barrier) {
#if __CUDA_ARCH__ >= 900
  arrive(barrier);
#else
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(barrier) : "memory");
#endif
}
// Orders plain writes to shared memory before later copies to the same place.
__device__ __forceinline__ void fence_copies() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

}  // namespace tokamak::cuda::decode
