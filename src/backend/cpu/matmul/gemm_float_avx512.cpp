#include "backend/cpu/matmul/gemm_template.h"
#include "backend/cpu/matmul/kernel_functions.h"
#include "backend/cpu/matmul/tile_float.h"
#include "backend/cpu/matmul/vec_avx512.h"

namespace tokamak::cpu {

template <>
void gemm_packed<DType::f16, Isa::avx512>(const GemmTask& t) {
  run_gemm<Avx512, TileFloat<Avx512, DType::f16>>(t);
}
template <>
void gemm_packed<DType::bf16, Isa::avx512>(const GemmTask& t) {
  run_gemm<Avx512, TileFloat<Avx512, DType::bf16>>(t);
}
template <>
void gemm_packed<DType::f32, Isa::avx512>(const GemmTask& t) {
  run_gemm<Avx512, TileFloat<Avx512, DType::f32>>(t);
}

}  // namespace tokamak::cpu
