#include "backend/cpu/matmul/tile_low_bits.h"
#include "backend/cpu/matmul/vec_scalar.h"

namespace tokamak::cpu {

template <>
std::span<const GemmTile> gemm_tiles<TileFamily::low_bits, ActivationKind::int8, Isa::scalar>() {
  return kLowBitTiles<Scalar, 1>;
}

}  // namespace tokamak::cpu
