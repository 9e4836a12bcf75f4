#include "backend/cpu/matmul/tile_table.h"
#include "backend/cpu/matmul/vec_neon.h"

namespace tokamak::cpu {

template <>
std::span<const GemmTile> gemm_tiles<TileFamily::table, ActivationKind::int8, Isa::neon>() {
  return kTableTiles<Neon, 1>;
}

}  // namespace tokamak::cpu
