#include "backend/cpu/matmul/tile_expanded.h"
#include "backend/cpu/matmul/vec_avx512.h"

namespace tokamak::cpu {

template <>
std::span<const GemmTile> gemm_tiles<TileFamily::expanded, ActivationKind::int8, Isa::avx512>() {
  return kExpandedTiles<Avx512, 1>;
}

}  // namespace tokamak::cpu
