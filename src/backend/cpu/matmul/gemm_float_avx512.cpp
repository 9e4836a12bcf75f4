#include "backend/cpu/matmul/tile_float.h"
#include "backend/cpu/matmul/vec_avx512.h"

namespace tokamak::cpu {

template <>
std::span<const GemmTile> gemm_tiles<TileFamily::floating, ActivationKind::f32, Isa::avx512>() {
  return kFloatTiles<Avx512>;
}

}  // namespace tokamak::cpu
