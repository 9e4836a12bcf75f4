#include "backend/cpu/matmul/tile_table.h"
#include "backend/cpu/matmul/vec_avx2.h"

namespace tokamak::cpu {

template <>
std::span<const GemmTile> gemm_tiles<TileFamily::table, ActivationKind::int8, Isa::avx2>() {
  return kTableTiles<Avx2, 1>;
}

}  // namespace tokamak::cpu
