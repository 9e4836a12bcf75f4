#include "backend/cpu/matmul/tile_block32.h"
#include "backend/cpu/matmul/vec_avx512.h"

namespace tokamak::cpu {

template <>
std::span<const GemmTile> gemm_tiles<TileFamily::block32, ActivationKind::int8, Isa::avx512>() {
  return kBlock32Tiles<Avx512, 1>;
}

}  // namespace tokamak::cpu
