#include "backend/cpu/matmul/tile_expanded.h"
#include "backend/cpu/matmul/vec_scalar.h"

namespace tokamak::cpu {

template <>
std::span<const GemmTile> gemm_tiles<TileFamily::expanded, ActivationKind::int16, Isa::scalar>() {
  return kExpandedTiles<Scalar, 2>;
}

}  // namespace tokamak::cpu
