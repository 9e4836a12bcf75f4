#include "backend/cpu/matmul/tile_k.h"
#include "backend/cpu/matmul/vec_scalar.h"

namespace tokamak::cpu {

template <>
std::span<const GemmTile> gemm_tiles<TileFamily::k, ActivationKind::int16, Isa::scalar>() {
  return kKTiles<Scalar, 2>;
}

}  // namespace tokamak::cpu
