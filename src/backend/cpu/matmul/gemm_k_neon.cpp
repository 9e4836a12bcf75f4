#include "backend/cpu/matmul/gemm_template.h"
#include "backend/cpu/matmul/kernel_functions.h"
#include "backend/cpu/matmul/tile_k.h"
#include "backend/cpu/matmul/vec_neon.h"

namespace tokamak::cpu {

template <>
void gemm_packed<DType::q4_k, Isa::neon>(const GemmTask& t) {
  run_gemm<Neon, TileQ4_K<Neon>>(t);
}
template <>
void gemm_packed<DType::q5_k, Isa::neon>(const GemmTask& t) {
  run_gemm<Neon, TileQ5_K<Neon>>(t);
}
template <>
void gemm_packed<DType::q6_k, Isa::neon>(const GemmTask& t) {
  run_gemm<Neon, TileQ6_K<Neon>>(t);
}

}  // namespace tokamak::cpu
