#include "backend/cpu/matmul/gemm_template.h"
#include "backend/cpu/matmul/kernel_functions.h"
#include "backend/cpu/matmul/tile_float.h"
#include "backend/cpu/matmul/vec_scalar.h"

namespace tokamak::cpu {

template <>
void gemm_packed<DType::f16, Isa::scalar>(const GemmTask& t) {
  run_gemm<Scalar, TileFloat<Scalar, DType::f16>>(t);
}
template <>
void gemm_packed<DType::bf16, Isa::scalar>(const GemmTask& t) {
  run_gemm<Scalar, TileFloat<Scalar, DType::bf16>>(t);
}
template <>
void gemm_packed<DType::f32, Isa::scalar>(const GemmTask& t) {
  run_gemm<Scalar, TileFloat<Scalar, DType::f32>>(t);
}

}  // namespace tokamak::cpu
