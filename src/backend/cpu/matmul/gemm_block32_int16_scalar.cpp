#include "backend/cpu/matmul/tile_block32.h"
#include "backend/cpu/matmul/vec_scalar.h"

namespace tokamak::cpu {

template <>
std::span<const GemmTile> gemm_tiles<TileFamily::block32, ActivationKind::int16, Isa::scalar>() {
  return kBlock32Tiles<Scalar, 2>;
}

}  // namespace tokamak::cpu
