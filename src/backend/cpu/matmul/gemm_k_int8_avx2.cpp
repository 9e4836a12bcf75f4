#include "backend/cpu/matmul/tile_k.h"
#include "backend/cpu/matmul/vec_avx2.h"

namespace tokamak::cpu {

template <>
std::span<const GemmTile> gemm_tiles<TileFamily::k, ActivationKind::int8, Isa::avx2>() {
  return kKTiles<Avx2, 1>;
}

}  // namespace tokamak::cpu
