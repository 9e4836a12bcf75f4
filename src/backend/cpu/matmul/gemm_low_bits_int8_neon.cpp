#include "backend/cpu/matmul/tile_low_bits.h"
#include "backend/cpu/matmul/vec_neon.h"

namespace tokamak::cpu {

template <>
std::span<const GemmTile> gemm_tiles<TileFamily::low_bits, ActivationKind::int8, Isa::neon>() {
  return kLowBitTiles<Neon, 1>;
}

}  // namespace tokamak::cpu
