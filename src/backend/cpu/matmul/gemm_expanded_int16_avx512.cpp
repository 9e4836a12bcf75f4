#include "backend/cpu/matmul/tile_expanded.h"
#include "backend/cpu/matmul/vec_avx512.h"

namespace tokamak::cpu {

template <>
std::span<const GemmTile> gemm_tiles<TileFamily::expanded, ActivationKind::int16, Isa::avx512>() {
  return kExpandedTiles<Avx512, 2>;
}

}  // namespace tokamak::cpu
