#include "backend/cpu/matmul/gemm_template.h"
#include "backend/cpu/matmul/kernel_functions.h"
#include "backend/cpu/matmul/tile_block32.h"
#include "backend/cpu/matmul/vec_scalar.h"

namespace tokamak::cpu {

template <>
void gemm_packed<DType::q8_0, Isa::scalar>(const GemmTask& t) {
  run_gemm<Scalar, TileQ8_0<Scalar>>(t);
}
template <>
void gemm_packed<DType::q4_0, Isa::scalar>(const GemmTask& t) {
  run_gemm<Scalar, TileQ4_0<Scalar>>(t);
}
template <>
void gemm_packed<DType::q4_1, Isa::scalar>(const GemmTask& t) {
  run_gemm<Scalar, TileQ4_1<Scalar>>(t);
}
template <>
void gemm_packed<DType::q5_0, Isa::scalar>(const GemmTask& t) {
  run_gemm<Scalar, TileQ5_0<Scalar>>(t);
}
template <>
void gemm_packed<DType::q5_1, Isa::scalar>(const GemmTask& t) {
  run_gemm<Scalar, TileQ5_1<Scalar>>(t);
}

}  // namespace tokamak::cpu
