#include "backend/cpu/matmul/tile_table.h"
#include "backend/cpu/matmul/vec_scalar.h"

namespace tokamak::cpu {

template <>
std::span<const GemmTile> gemm_tiles<TileFamily::table, ActivationKind::int8, Isa::scalar>() {
  return kTableTiles<Scalar, 1>;
}

}  // namespace tokamak::cpu
