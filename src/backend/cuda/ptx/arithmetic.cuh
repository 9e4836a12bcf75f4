// Arithmetic that C++ has no word for: two binary16 in a register, bytes, fast functions.
// Source: PTX ISA 9.0, section 9.7 (the instruction's name is in the text of each function).
#pragma once

#include <cstdint>

namespace tokamak::cuda::ptx {

// --- words of four bytes.
// Four bytes of the eight of (low, high), one per nibble of the selector; a nibble >= 8: the byte's top bit eight
// times.
__device__ __forceinline__ uint32_t pick_bytes(uint32_t low, uint32_t high, uint32_t selector) {
  uint32_t y;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(y) : "r"(low), "r"(high), "r"(selector));
  return y;
}
// sum + the products of four bytes, signed ones of `a` and unsigned ones (or, with kSigned, signed ones) of w.
template <bool kSigned>
__device__ __forceinline__ int dot_bytes(uint32_t w, uint32_t a, int sum) {
  int y;
  if constexpr (kSigned)
    asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(y) : "r"(w), "r"(a), "r"(sum));
  else
    asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(y) : "r"(w), "r"(a), "r"(sum));
  return y;
}

// --- words of two binary16, the first one in the low half. Rounded to nearest, ties to even.
__device__ __forceinline__ float low_half(uint32_t word) {
  float y;
  asm("{\n.reg .b16 l, h;\nmov.b32 {l, h}, %1;\ncvt.f32.f16 %0, l;\n}" : "=f"(y) : "r"(word));
  return y;
}
__device__ __forceinline__ float high_half(uint32_t word) {
  float y;
  asm("{\n.reg .b16 l, h;\nmov.b32 {l, h}, %1;\ncvt.f32.f16 %0, h;\n}" : "=f"(y) : "r"(word));
  return y;
}
__device__ __forceinline__ uint32_t add_halves(uint32_t a, uint32_t b) {
  uint32_t y;
  asm("add.rn.f16x2 %0, %1, %2;" : "=r"(y) : "r"(a), "r"(b));
  return y;
}
__device__ __forceinline__ uint32_t multiply_halves(uint32_t a, uint32_t b) {
  uint32_t y;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(y) : "r"(a), "r"(b));
  return y;
}
// a * b + c, rounded once.
__device__ __forceinline__ uint32_t fuse_halves(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t y;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(y) : "r"(a), "r"(b), "r"(c));
  return y;
}
__device__ __forceinline__ uint32_t to_halves(float low, float high) {
  uint32_t y;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
  return y;
}
// The same, clamped to the finite numbers of binary16; NaN stays.
__device__ __forceinline__ uint32_t to_halves_clamped(float low, float high) {
  uint32_t y;
  asm("cvt.rn.satfinite.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
  return y;
}
__device__ __forceinline__ uint32_t to_bfloats(float low, float high) {
  uint32_t y;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
  return y;
}
// The e4m3 in bytes 0 and 1 of a word, or with kUpper in bytes 2 and 3. GPUs from 8.9 on.
template <bool kUpper>
__device__ __forceinline__ uint32_t halves_of_e4m3(uint32_t word) {
  uint32_t y;
  if constexpr (kUpper)
    asm("{\n.reg .b16 l, h;\nmov.b32 {l, h}, %1;\ncvt.rn.f16x2.e4m3x2 %0, h;\n}" : "=r"(y) : "r"(word));
  else
    asm("{\n.reg .b16 l, h;\nmov.b32 {l, h}, %1;\ncvt.rn.f16x2.e4m3x2 %0, l;\n}" : "=r"(y) : "r"(word));
  return y;
}

// --- fast functions: relative error 2^-22 (2^x) and one unit in the last place (1 / x); subnormals are 0.
__device__ __forceinline__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ float reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// --- for the compiler only: x is in a register here, with a value that is not known.
__device__ __forceinline__ void pin(uint32_t& x) { asm volatile("" : "+r"(x)); }
__device__ __forceinline__ void pin(int& x) { asm volatile("" : "+r"(x)); }

}  // namespace tokamak::cuda::ptx
