// Where packed weights lie. A matrix is cut into row blocks of P::kRows rows and slices of 32 units of P::kUnit
// consecutive weights; a tile is one row block of one slice, a unit is what one lane of a warp reads of one row.
//   matrix = [table of the type, P::kTableBytes] row blocks, each: tiles of slice 0, 1, ...
//   tile   = planes, one after the other; plane i holds kPlanes[i].bytes for each kPlanes[i].units units, for all rows
//            of the block together. The last slice of a matrix holds only the units it needs. Tiles are multiples of
//            16 bytes; rows past the end are zeros.
// Planes are ordered by falling alignment so that every access is aligned.
#pragma once

#include <cstdint>

#include "backend/cuda/matvec/bits.h"

namespace tokamak::cuda {

inline constexpr int kSliceUnits = 32;

struct Plane {
  int bytes, units;
};

template <class P>
constexpr int plane_count() {
  return static_cast<int>(sizeof(P::kPlanes) / sizeof(Plane));
}

// Offset of plane i in a tile of n_units units (a multiple of every kPlanes[i].units); i = plane_count: their sum.
template <class P, int i>
TOKAMAK_HD constexpr int plane_offset(int n_units) {
  if constexpr (i == 0) {
    return 0;
  } else {
    constexpr int kBytes = P::kPlanes[i - 1].bytes, kUnits = P::kPlanes[i - 1].units;
    return plane_offset<P, i - 1>(n_units) + kBytes * (n_units / kUnits);
  }
}
template <class P>
TOKAMAK_HD constexpr int tile_bytes(int n_units) {
  return (plane_offset<P, plane_count<P>()>(n_units) + 15) / 16 * 16;
}

// One unit of a tile, and where its entries lie: `place` is the tile's first byte plus unit * P::kStride, kStride the
// size of the entries read most, so that those need no more arithmetic.
// kShared: of a tile in shared memory.
template <bool kShared>
struct UnitIn {
  static constexpr ReadFrom kOnce = kShared ? ReadFrom::shared : ReadFrom::stream,
                            kOften = kShared ? ReadFrom::shared : ReadFrom::memory;
  const uint8_t* place;
  int unit, n_units;
};
using Unit = UnitIn<false>;
template <class P, bool kShared = false>
TOKAMAK_HD UnitIn<kShared> make_unit(const uint8_t* tile, int unit, int n_units) {
  return {tile + unit * P::kStride, unit, n_units};
}

// Planes that hold a T per unit, a T per row and unit, a T per group of units.
template <class P, int i, class T, class U>
TOKAMAK_HD T load_unit(const U& u) {
  static_assert(sizeof(T) == P::kPlanes[i].bytes && P::kPlanes[i].units == 1);
  constexpr int kSize = static_cast<int>(sizeof(T));
  return load_as<T, U::kOnce>(u.place + u.unit * (kSize - P::kStride) + plane_offset<P, i>(u.n_units));
}
template <class P, int i, class T, int kParts = 1, class U>
TOKAMAK_HD T load_row(const U& u, int row, int part = 0) {
  static_assert(sizeof(T) * P::kRows * kParts == P::kPlanes[i].bytes && P::kPlanes[i].units == 1);
  constexpr int kSize = static_cast<int>(sizeof(T));
  return load_as<T, U::kOnce>(u.place + u.unit * (kSize - P::kStride) + plane_offset<P, i>(u.n_units) +
                              (row * kParts + part) * u.n_units * kSize);
}
template <class P, int i, class T, class U>
TOKAMAK_HD T load_group(const U& u) {
  static_assert(sizeof(T) == P::kPlanes[i].bytes);
  constexpr int kUnits = P::kPlanes[i].units, kSize = static_cast<int>(sizeof(T));
  return load_as<T, U::kOften>(u.place + (u.unit / kUnits * kSize - u.unit * P::kStride) +
                               plane_offset<P, i>(u.n_units));
}

}  // namespace tokamak::cuda
