#include "backend/cpu/matmul/tile_table.h"
#include "backend/cpu/matmul/vec_avx512.h"

namespace tokamak::cpu {

template <>
std::span<const GemmTile> gemm_tiles<TileFamily::table, ActivationKind::int8, Isa::avx512>() {
  return kTableTiles<Avx512, 1>;
}

}  // namespace tokamak::cpu
