// Matrices spread over a warp. GPUs from 8.0 on.
//
// An 8x8 matrix of 16-bit elements: lane l holds (l / 4, l % 4 * 2 + {0, 1}), the first one in the low half.
// Source: PTX ISA 9.0, 9.7.14.5 "Matrix multiply-accumulate operation using mma instruction": ldmatrix, movmatrix, mma.
#pragma once

#include <cstdint>

namespace tokamak::cuda::ptx {

// Four 8x8 matrices from shared memory; lane 8 i + r names row r of matrix i, 16 bytes.
__device__ __forceinline__ void load_matrices(uint32_t (&out)[4], uint32_t at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(at)
               : "memory");
}
// Their transposes.
__device__ __forceinline__ void load_transposed(uint32_t (&out)[4], uint32_t at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(at)
               : "memory");
}
// An 8x8 matrix, transposed.
__device__ __forceinline__ uint32_t transpose(uint32_t x) {
  uint32_t y;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(x));
  return y;
}

// c[16 x 8] += a[16 x 16] * b[16 x 8]. a: the 8x8 quarters (upper left, lower left, upper right, lower right); b: the
// transposes of its upper and lower half; c: (l / 4, l % 4 * 2 + {0, 1}), then the same 8 rows below.
__device__ __forceinline__ void multiply_f16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ void multiply_bf16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace tokamak::cuda::ptx
