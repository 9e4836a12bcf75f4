#include "backend/cpu/matmul/tile_k.h"
#include "backend/cpu/matmul/vec_scalar.h"

namespace tokamak::cpu {

template <>
std::span<const GemmTile> gemm_tiles<TileFamily::k, ActivationKind::int8, Isa::scalar>() {
  return kKTiles<Scalar, 1>;
}

}  // namespace tokamak::cpu
