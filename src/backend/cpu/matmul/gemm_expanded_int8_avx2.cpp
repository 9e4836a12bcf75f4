#include "backend/cpu/matmul/tile_expanded.h"
#include "backend/cpu/matmul/vec_avx2.h"

namespace tokamak::cpu {

template <>
std::span<const GemmTile> gemm_tiles<TileFamily::expanded, ActivationKind::int8, Isa::avx2>() {
  return kExpandedTiles<Avx2, 1>;
}

}  // namespace tokamak::cpu
