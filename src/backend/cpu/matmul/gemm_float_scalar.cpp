#include "backend/cpu/matmul/tile_float.h"
#include "backend/cpu/matmul/vec_scalar.h"

namespace tokamak::cpu {

template <>
std::span<const GemmTile> gemm_tiles<TileFamily::floating, ActivationKind::f32, Isa::scalar>() {
  return kFloatTiles<Scalar>;
}

}  // namespace tokamak::cpu
