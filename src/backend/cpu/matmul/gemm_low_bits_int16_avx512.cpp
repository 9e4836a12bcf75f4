#include "backend/cpu/matmul/tile_low_bits.h"
#include "backend/cpu/matmul/vec_avx512.h"

namespace tokamak::cpu {

template <>
std::span<const GemmTile> gemm_tiles<TileFamily::low_bits, ActivationKind::int16, Isa::avx512>() {
  return kLowBitTiles<Avx512, 2>;
}

}  // namespace tokamak::cpu
