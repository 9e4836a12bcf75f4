// Sizes of a packed matrix, and the split of the work: both depend on the type and the shape only.
#pragma once

#include "backend/cuda/matvec/tile.h"

namespace tokamak::cuda {

struct Geometry {
  int64_t matrix_bytes;
  int n_row_blocks;
  uint32_t row_block_bytes;
  int n_units, n_slices, last_units, tile_bytes;  // tile_bytes: of a full slice
};

template <class P>
Geometry geometry_of(int64_t n_rows, int64_t k) {
  Geometry g;
  g.n_units = static_cast<int>((k + P::kUnit - 1) / P::kUnit);
  g.n_slices = (g.n_units + kSliceUnits - 1) / kSliceUnits;
  g.last_units = g.n_units - (g.n_slices - 1) * kSliceUnits;
  g.tile_bytes = tile_bytes<P>(kSliceUnits);
  g.row_block_bytes = static_cast<uint32_t>((g.n_slices - 1) * g.tile_bytes + tile_bytes<P>(g.last_units));
  g.n_row_blocks = static_cast<int>((n_rows + P::kRows - 1) / P::kRows);
  g.matrix_bytes = static_cast<int64_t>(g.n_row_blocks) * g.row_block_bytes;
  return g;
}

// What the launch adds to the parameters. A CTA has blockDim.y groups of blockDim.x / 32 warps, one per slice (or every
// blockDim.x / 32-th); a group has up to blocks_per_group row blocks.
struct Split {
  Geometry g;
  int n_slice_warps, n_groups, blocks_per_group, cta_blocks;
};

}  // namespace tokamak::cuda
