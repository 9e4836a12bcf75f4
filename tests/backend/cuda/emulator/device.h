// What nvcc gives to device code, for a compiler of the host: included before every kernel source.
//
// The toolkit's headers come first and are read as host code; then device code is what the sources are told they are,
// for a GPU of compute capability 9.0.
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "backend/cuda/emulator/block.h"
#include "backend/cuda/emulator/launch.h"
#include "backend/cuda/emulator/warp.h"

// --- words of the language.
#undef __host__
#undef __device__
#undef __global__
#undef __shared__
#undef __constant__
#undef __forceinline__
#undef __launch_bounds__
#undef __maxnreg__
#undef __grid_constant__
#define __host__
#define __device__
#define __global__
#define __shared__ static thread_local
#define __constant__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __grid_constant__
#define __CUDACC__
#define __CUDA_ARCH__ 900
#define __CUDA_ARCH_FEAT_SM90_ALL

// --- names that every kernel knows; threadIdx and its like are in block.h.
using std::isfinite, std::isinf, std::isnan, std::signbit;

inline void __syncthreads() { tokamak::cuda::emulator::sync_block(); }
inline int __syncthreads_count(int x) {
  static thread_local int n;
  __syncthreads();
  n = 0;
  __syncthreads();
  n += x != 0;
  __syncthreads();
  return n;
}
inline void __syncwarp(unsigned lanes = ~0u) { tokamak::cuda::emulator::sync_lanes(lanes); }
[[noreturn]] inline void __trap() { tokamak::cuda::emulator::fail("__trap"); }

template <class T>
T __shfl_sync(unsigned lanes, T x, int lane) {
  return tokamak::cuda::emulator::shuffle(lanes, x, lane % 32);
}
template <class T>
T __shfl_xor_sync(unsigned lanes, T x, int distance) {
  return tokamak::cuda::emulator::shuffle(lanes, x, static_cast<int>(tokamak::cuda::emulator::lane()) ^ distance);
}
template <class T>
T __shfl_up_sync(unsigned lanes, T x, int distance) {
  const int lane = static_cast<int>(tokamak::cuda::emulator::lane());
  return tokamak::cuda::emulator::shuffle(lanes, x, lane < distance ? lane : lane - distance);
}
template <class T>
T __shfl_down_sync(unsigned lanes, T x, int distance) {
  const int lane = static_cast<int>(tokamak::cuda::emulator::lane());
  return tokamak::cuda::emulator::shuffle(lanes, x, lane + distance > 31 ? lane : lane + distance);
}
template <class T>
T __reduce_max_sync(unsigned lanes, T x) {
  return tokamak::cuda::emulator::reduce(lanes, x, [](T a, T b) { return std::max(a, b); });
}
template <class T>
T __reduce_min_sync(unsigned lanes, T x) {
  return tokamak::cuda::emulator::reduce(lanes, x, [](T a, T b) { return std::min(a, b); });
}
template <class T>
T __reduce_add_sync(unsigned lanes, T x) {
  return tokamak::cuda::emulator::reduce(lanes, x, [](T a, T b) { return static_cast<T>(a + b); });
}
inline unsigned __ballot_sync(unsigned lanes, int x) { return tokamak::cuda::emulator::ballot(lanes, x != 0); }
inline int __any_sync(unsigned lanes, int x) { return __ballot_sync(lanes, x) != 0; }
inline int __all_sync(unsigned lanes, int x) { return __ballot_sync(lanes, x) == lanes; }

// Threads of a block run one at a time.
template <class T>
T atomicAdd(T* at, T x) {
  const T before = *at;
  *at = before + x;
  return before;
}
template <class T>
T __ldg(const T* p) {
  return *p;
}

inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline float __expf(float x) { return std::exp(x); }
inline float __fdividef(float a, float b) { return std::fabs(b) > 0x1p126f && std::isfinite(b) ? 0.0f * a : a / b; }
inline float rsqrtf(float x) { return static_cast<float>(1.0 / std::sqrt(static_cast<double>(x))); }
inline float normcdff(float x) { return static_cast<float>(0.5 * std::erfc(-x / std::sqrt(2.0))); }
inline int __float2int_rn(float x) {  // ties to even; clamped, NaN is 0
  if (std::isnan(x)) return 0;
  if (x >= 0x1p31f) return INT32_MAX;
  if (x < -0x1p31f) return INT32_MIN;
  return static_cast<int>(std::nearbyint(x));
}
inline int __ffs(int x) { return x == 0 ? 0 : std::countr_zero(static_cast<unsigned>(x)) + 1; }
inline int __clzll(long long x) { return std::countl_zero(static_cast<unsigned long long>(x)); }
inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>(uint64_t{a} * b >> 32); }
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
  unsigned y = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned from = selector >> (4 * i) & 7;
    y |= (from < 4 ? low >> (8 * from) : high >> (8 * (from - 4))) % 256 << (8 * i);
  }
  return y;
}

template <class A, class B>
requires(std::is_arithmetic_v<A>&& std::is_arithmetic_v<B>) constexpr std::common_type_t<A, B> max(A a, B b) {
  using T = std::common_type_t<A, B>;
  return static_cast<T>(a) < static_cast<T>(b) ? static_cast<T>(b) : static_cast<T>(a);
}
template <class A, class B>
requires(std::is_arithmetic_v<A>&& std::is_arithmetic_v<B>) constexpr std::common_type_t<A, B> min(A a, B b) {
  using T = std::common_type_t<A, B>;
  return static_cast<T>(b) < static_cast<T>(a) ? static_cast<T>(b) : static_cast<T>(a);
}
