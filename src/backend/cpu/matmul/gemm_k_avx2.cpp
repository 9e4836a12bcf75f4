#include "backend/cpu/matmul/gemm_template.h"
#include "backend/cpu/matmul/kernel_functions.h"
#include "backend/cpu/matmul/tile_k.h"
#include "backend/cpu/matmul/vec_avx2.h"

namespace tokamak::cpu {

template <>
void gemm_packed<DType::q4_k, Isa::avx2>(const GemmTask& t) {
  run_gemm<Avx2, TileQ4_K<Avx2>>(t);
}
template <>
void gemm_packed<DType::q5_k, Isa::avx2>(const GemmTask& t) {
  run_gemm<Avx2, TileQ5_K<Avx2>>(t);
}
template <>
void gemm_packed<DType::q6_k, Isa::avx2>(const GemmTask& t) {
  run_gemm<Avx2, TileQ6_K<Avx2>>(t);
}

}  // namespace tokamak::cpu
