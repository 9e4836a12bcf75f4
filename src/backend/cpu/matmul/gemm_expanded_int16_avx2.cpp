#include "backend/cpu/matmul/tile_expanded.h"
#include "backend/cpu/matmul/vec_avx2.h"

namespace tokamak::cpu {

template <>
std::span<const GemmTile> gemm_tiles<TileFamily::expanded, ActivationKind::int16, Isa::avx2>() {
  return kExpandedTiles<Avx2, 2>;
}

}  // namespace tokamak::cpu
