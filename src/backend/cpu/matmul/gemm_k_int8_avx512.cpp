#include "backend/cpu/matmul/tile_k.h"
#include "backend/cpu/matmul/vec_avx512.h"

namespace tokamak::cpu {

template <>
std::span<const GemmTile> gemm_tiles<TileFamily::k, ActivationKind::int8, Isa::avx512>() {
  return kKTiles<Avx512, 1>;
}

}  // namespace tokamak::cpu
