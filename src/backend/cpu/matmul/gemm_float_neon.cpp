#include "backend/cpu/matmul/tile_float.h"
#include "backend/cpu/matmul/vec_neon.h"

namespace tokamak::cpu {

template <>
std::span<const GemmTile> gemm_tiles<TileFamily::floating, ActivationKind::f32, Isa::neon>() {
  return kFloatTiles<Neon>;
}

}  // namespace tokamak::cpu
