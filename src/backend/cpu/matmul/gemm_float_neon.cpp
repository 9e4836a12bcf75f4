#include "backend/cpu/matmul/gemm_template.h"
#include "backend/cpu/matmul/kernel_functions.h"
#include "backend/cpu/matmul/tile_float.h"
#include "backend/cpu/matmul/vec_neon.h"

namespace tokamak::cpu {

template <>
void gemm_packed<DType::f16, Isa::neon>(const GemmTask& t) {
  run_gemm<Neon, TileFloat<Neon, DType::f16>>(t);
}
template <>
void gemm_packed<DType::bf16, Isa::neon>(const GemmTask& t) {
  run_gemm<Neon, TileFloat<Neon, DType::bf16>>(t);
}
template <>
void gemm_packed<DType::f32, Isa::neon>(const GemmTask& t) {
  run_gemm<Neon, TileFloat<Neon, DType::f32>>(t);
}

}  // namespace tokamak::cpu
