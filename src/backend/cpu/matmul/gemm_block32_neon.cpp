#include "backend/cpu/matmul/gemm_template.h"
#include "backend/cpu/matmul/kernel_functions.h"
#include "backend/cpu/matmul/tile_block32.h"
#include "backend/cpu/matmul/vec_neon.h"

namespace tokamak::cpu {

template <>
void gemm_packed<DType::q8_0, Isa::neon>(const GemmTask& t) {
  run_gemm<Neon, TileQ8_0<Neon>>(t);
}
template <>
void gemm_packed<DType::q4_0, Isa::neon>(const GemmTask& t) {
  run_gemm<Neon, TileQ4_0<Neon>>(t);
}
template <>
void gemm_packed<DType::q4_1, Isa::neon>(const GemmTask& t) {
  run_gemm<Neon, TileQ4_1<Neon>>(t);
}
template <>
void gemm_packed<DType::q5_0, Isa::neon>(const GemmTask& t) {
  run_gemm<Neon, TileQ5_0<Neon>>(t);
}
template <>
void gemm_packed<DType::q5_1, Isa::neon>(const GemmTask& t) {
  run_gemm<Neon, TileQ5_1<Neon>>(t);
}

}  // namespace tokamak::cpu
