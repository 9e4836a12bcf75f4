#include "backend/cpu/matmul/tile_table.h"
#include "backend/cpu/matmul/vec_avx512.h"

namespace tokamak::cpu {

template <>
std::span<const GemmTile> gemm_tiles<TileFamily::table, ActivationKind::int16, Isa::avx512>() {
  return kTableTiles<Avx512, 2>;
}

}  // namespace tokamak::cpu
