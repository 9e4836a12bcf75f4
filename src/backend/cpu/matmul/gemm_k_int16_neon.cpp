#include "backend/cpu/matmul/tile_k.h"
#include "backend/cpu/matmul/vec_neon.h"

namespace tokamak::cpu {

template <>
std::span<const GemmTile> gemm_tiles<TileFamily::k, ActivationKind::int16, Isa::neon>() {
  return kKTiles<Neon, 2>;
}

}  // namespace tokamak::cpu
