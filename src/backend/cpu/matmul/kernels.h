// The kernel table, in order of preference; the last row of each type is scalar.
#pragma once

#include <array>

#include "backend/cpu/matmul/kernel_functions.h"

namespace tokamak::cpu {

inline constexpr auto kGemmKernels = std::to_array<GemmKernel>({
#if defined(__x86_64__)
  {"gemm_q8_0_16x8_avx512vnni", DType::q8_0, Isa::avx512, gemm_packed<DType::q8_0, Isa::avx512>},
      {"gemm_q4_0_16x8_avx512vnni", DType::q4_0, Isa::avx512, gemm_packed<DType::q4_0, Isa::avx512>},
      {"gemm_q4_1_16x8_avx512vnni", DType::q4_1, Isa::avx512, gemm_packed<DType::q4_1, Isa::avx512>},
      {"gemm_q5_0_16x8_avx512vnni", DType::q5_0, Isa::avx512, gemm_packed<DType::q5_0, Isa::avx512>},
      {"gemm_q5_1_16x8_avx512vnni", DType::q5_1, Isa::avx512, gemm_packed<DType::q5_1, Isa::avx512>},
      {"gemm_q4_k_16x8_avx512vnni", DType::q4_k, Isa::avx512, gemm_packed<DType::q4_k, Isa::avx512>},
      {"gemm_q5_k_16x8_avx512vnni", DType::q5_k, Isa::avx512, gemm_packed<DType::q5_k, Isa::avx512>},
      {"gemm_q6_k_16x8_avx512vnni", DType::q6_k, Isa::avx512, gemm_packed<DType::q6_k, Isa::avx512>},
      {"gemm_f16_16x8_avx512", DType::f16, Isa::avx512, gemm_packed<DType::f16, Isa::avx512>},
      {"gemm_bf16_16x8_avx512", DType::bf16, Isa::avx512, gemm_packed<DType::bf16, Isa::avx512>},
      {"gemm_f32_16x8_avx512", DType::f32, Isa::avx512, gemm_packed<DType::f32, Isa::avx512>},
      {"gemm_q8_0_16x4_avx2", DType::q8_0, Isa::avx2, gemm_packed<DType::q8_0, Isa::avx2>},
      {"gemm_q4_0_16x4_avx2", DType::q4_0, Isa::avx2, gemm_packed<DType::q4_0, Isa::avx2>},
      {"gemm_q4_1_16x4_avx2", DType::q4_1, Isa::avx2, gemm_packed<DType::q4_1, Isa::avx2>},
      {"gemm_q5_0_16x4_avx2", DType::q5_0, Isa::avx2, gemm_packed<DType::q5_0, Isa::avx2>},
      {"gemm_q5_1_16x4_avx2", DType::q5_1, Isa::avx2, gemm_packed<DType::q5_1, Isa::avx2>},
      {"gemm_q4_k_16x4_avx2", DType::q4_k, Isa::avx2, gemm_packed<DType::q4_k, Isa::avx2>},
      {"gemm_q5_k_16x4_avx2", DType::q5_k, Isa::avx2, gemm_packed<DType::q5_k, Isa::avx2>},
      {"gemm_q6_k_16x4_avx2", DType::q6_k, Isa::avx2, gemm_packed<DType::q6_k, Isa::avx2>},
      {"gemm_f16_16x4_avx2", DType::f16, Isa::avx2, gemm_packed<DType::f16, Isa::avx2>},
      {"gemm_bf16_16x4_avx2", DType::bf16, Isa::avx2, gemm_packed<DType::bf16, Isa::avx2>},
      {"gemm_f32_16x4_avx2", DType::f32, Isa::avx2, gemm_packed<DType::f32, Isa::avx2>},
#elif defined(__aarch64__)
  {"gemm_q8_0_16x4_neondot", DType::q8_0, Isa::neon, gemm_packed<DType::q8_0, Isa::neon>},
      {"gemm_q4_0_16x4_neondot", DType::q4_0, Isa::neon, gemm_packed<DType::q4_0, Isa::neon>},
      {"gemm_q4_1_16x4_neondot", DType::q4_1, Isa::neon, gemm_packed<DType::q4_1, Isa::neon>},
      {"gemm_q5_0_16x4_neondot", DType::q5_0, Isa::neon, gemm_packed<DType::q5_0, Isa::neon>},
      {"gemm_q5_1_16x4_neondot", DType::q5_1, Isa::neon, gemm_packed<DType::q5_1, Isa::neon>},
      {"gemm_q4_k_16x4_neondot", DType::q4_k, Isa::neon, gemm_packed<DType::q4_k, Isa::neon>},
      {"gemm_q5_k_16x4_neondot", DType::q5_k, Isa::neon, gemm_packed<DType::q5_k, Isa::neon>},
      {"gemm_q6_k_16x4_neondot", DType::q6_k, Isa::neon, gemm_packed<DType::q6_k, Isa::neon>},
      {"gemm_f16_16x4_neon", DType::f16, Isa::neon, gemm_packed<DType::f16, Isa::neon>},
      {"gemm_bf16_16x4_neon", DType::bf16, Isa::neon, gemm_packed<DType::bf16, Isa::neon>},
      {"gemm_f32_16x4_neon", DType::f32, Isa::neon, gemm_packed<DType::f32, Isa::neon>},
#endif
      {"gemm_q8_0_16x2_scalar", DType::q8_0, Isa::scalar, gemm_packed<DType::q8_0, Isa::scalar>},
      {"gemm_q4_0_16x2_scalar", DType::q4_0, Isa::scalar, gemm_packed<DType::q4_0, Isa::scalar>},
      {"gemm_q4_1_16x2_scalar", DType::q4_1, Isa::scalar, gemm_packed<DType::q4_1, Isa::scalar>},
      {"gemm_q5_0_16x2_scalar", DType::q5_0, Isa::scalar, gemm_packed<DType::q5_0, Isa::scalar>},
      {"gemm_q5_1_16x2_scalar", DType::q5_1, Isa::scalar, gemm_packed<DType::q5_1, Isa::scalar>},
      {"gemm_q4_k_16x2_scalar", DType::q4_k, Isa::scalar, gemm_packed<DType::q4_k, Isa::scalar>},
      {"gemm_q5_k_16x2_scalar", DType::q5_k, Isa::scalar, gemm_packed<DType::q5_k, Isa::scalar>},
      {"gemm_q6_k_16x2_scalar", DType::q6_k, Isa::scalar, gemm_packed<DType::q6_k, Isa::scalar>},
      {"gemm_f16_16x2_scalar", DType::f16, Isa::scalar, gemm_packed<DType::f16, Isa::scalar>},
      {"gemm_bf16_16x2_scalar", DType::bf16, Isa::scalar, gemm_packed<DType::bf16, Isa::scalar>},
      {"gemm_f32_16x2_scalar", DType::f32, Isa::scalar, gemm_packed<DType::f32, Isa::scalar>},
});

// Every packed format ends with a scalar row.
constexpr bool every_format_has_scalar_last() {
  for (const PackedFormat& f : kPackedFormats) {
    bool scalar_last = false;
    for (const GemmKernel& k : kGemmKernels)
      if (k.dtype == f.dtype) scalar_last = k.isa == Isa::scalar;
    if (!scalar_last) return false;
  }
  return true;
}
static_assert(every_format_has_scalar_last());

}  // namespace tokamak::cpu
