#include "backend/cpu/matmul/gemm_template.h"
#include "backend/cpu/matmul/kernel_functions.h"
#include "backend/cpu/matmul/tile_block32.h"
#include "backend/cpu/matmul/vec_avx512.h"

namespace tokamak::cpu {

template <>
void gemm_packed<DType::q8_0, Isa::avx512>(const GemmTask& t) {
  run_gemm<Avx512, TileQ8_0<Avx512>>(t);
}
template <>
void gemm_packed<DType::q4_0, Isa::avx512>(const GemmTask& t) {
  run_gemm<Avx512, TileQ4_0<Avx512>>(t);
}
template <>
void gemm_packed<DType::q4_1, Isa::avx512>(const GemmTask& t) {
  run_gemm<Avx512, TileQ4_1<Avx512>>(t);
}
template <>
void gemm_packed<DType::q5_0, Isa::avx512>(const GemmTask& t) {
  run_gemm<Avx512, TileQ5_0<Avx512>>(t);
}
template <>
void gemm_packed<DType::q5_1, Isa::avx512>(const GemmTask& t) {
  run_gemm<Avx512, TileQ5_1<Avx512>>(t);
}

}  // namespace tokamak::cpu
