#include "backend/cpu/matmul/gemm_template.h"
#include "backend/cpu/matmul/kernel_functions.h"
#include "backend/cpu/matmul/tile_k.h"
#include "backend/cpu/matmul/vec_avx512.h"

namespace tokamak::cpu {

template <>
void gemm_packed<DType::q4_k, Isa::avx512>(const GemmTask& t) {
  run_gemm<Avx512, TileQ4_K<Avx512>>(t);
}
template <>
void gemm_packed<DType::q5_k, Isa::avx512>(const GemmTask& t) {
  run_gemm<Avx512, TileQ5_K<Avx512>>(t);
}
template <>
void gemm_packed<DType::q6_k, Isa::avx512>(const GemmTask& t) {
  run_gemm<Avx512, TileQ6_K<Avx512>>(t);
}

}  // namespace tokamak::cpu
