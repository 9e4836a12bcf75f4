#include "backend/cpu/matmul/gemm_template.h"
#include "backend/cpu/matmul/kernel_functions.h"
#include "backend/cpu/matmul/tile_k.h"
#include "backend/cpu/matmul/vec_scalar.h"

namespace tokamak::cpu {

template <>
void gemm_packed<DType::q4_k, Isa::scalar>(const GemmTask& t) {
  run_gemm<Scalar, TileQ4_K<Scalar>>(t);
}
template <>
void gemm_packed<DType::q5_k, Isa::scalar>(const GemmTask& t) {
  run_gemm<Scalar, TileQ5_K<Scalar>>(t);
}
template <>
void gemm_packed<DType::q6_k, Isa::scalar>(const GemmTask& t) {
  run_gemm<Scalar, TileQ6_K<Scalar>>(t);
}

}  // namespace tokamak::cpu
