#include "backend/cpu/matmul/tile_float.h"
#include "backend/cpu/matmul/vec_avx2.h"

namespace tokamak::cpu {

template <>
std::span<const GemmTile> gemm_tiles<TileFamily::floating, ActivationKind::f32, Isa::avx2>() {
  return kFloatTiles<Avx2>;
}

}  // namespace tokamak::cpu
