// The way of weights to shared memory: a ring of stages, each a slice of k of all row blocks of a tile as they lie in
// memory, so that long pieces are read. One warp fetches, others multiply.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/cuda/gemm/half.h"
#include "backend/cuda/matvec/geometry.h"
#include "backend/cuda/matvec/params.h"
#include "backend/cuda/overlap.h"
#include "backend/cuda/ptx/barrier.cuh"
#include "backend/cuda/ptx/copy.cuh"
#include "backend/cuda/ptx/memory.cuh"

namespace tokamak::cuda {

inline constexpr int kColumnsWarps = 16;  // that multiply

// Rows of a tile: kSets times 8 row blocks.
template <class P>
struct ColumnsTile {
  static constexpr int kUnits = kUnitsPerBlock<P>;
  static constexpr int kSets = P::kQuantized && P::kRows == 2 ? 2 : 1;
  static constexpr int kRowBlocks = 8 * kSets, kRows = kRowBlocks * P::kRows;
  static constexpr int kFragments = kSets * P::kRows / 2;
  static constexpr int kSteps = kSliceUnits / kUnits / 4;  // of 128 k, in a slice: for as many warps, a group
  static constexpr int kGroups = kColumnsWarps / kSteps;
  // Arrivals that empty a stage: of all lanes that read it, of one lane of each other warp.
  static constexpr int kGivesBack = 32 * kSteps + kColumnsWarps - kSteps;
  // One is worked on by each group, one is on its way. More would delay the activations, which take the same way.
  static constexpr int kMostStages = 2 * kGroups;
  // Between row blocks of a stage: 64 bytes of two neighbours are in different banks.
  static constexpr int kStride = (tile_bytes<P>(kSliceUnits) + 63) / 128 * 128 + 64;
  static constexpr int kStageBytes = kRowBlocks * kStride;
};

struct ColumnsSplit {
  Geometry g;
  int n_steps, n_tiles, n_stages, n_buffers;  // n_buffers: of partial sums
};

// A barrier for each of n places that are filled and emptied in turn, at `full` and `empty` in shared memory.
struct RingPlace {
  uint32_t full, empty;
  int n, at = 0;
  uint32_t parity = 0;

  __device__ void advance(int n_places) {
    for (at += n_places; at >= n; at -= n) parity ^= 1;
  }
  __device__ void wait_full() const { ptx::barrier_wait(full + 8 * at, parity); }
  __device__ void wait_empty() const { ptx::barrier_wait(empty + 8 * at, parity ^ 1); }
  __device__ void fill() const { ptx::barrier_arrive(full + 8 * at); }
  __device__ void give_back() const { ptx::barrier_arrive(empty + 8 * at); }
  // By one thread.
  __device__ void init(uint32_t n_fill, uint32_t n_give_back) const {
    for (int i = 0; i < n; ++i) {
      ptx::barrier_init(full + 8 * i, n_fill);
      ptx::barrier_init(empty + 8 * i, n_give_back);
    }
  }
};

// A tile: in which of the products of the launch, and where there.
struct TilePlace {
  int product, tile;

  __device__ TilePlace(const MatvecParts& products, int of_all) : product(0), tile(of_all) {
    while (product + 1 < products.n_parts && tile >= products.n_ctas[product]) tile -= products.n_ctas[product++];
  }
};

// The block's stages in order: tiles, matrices, slices.
struct StageWalk {
  int tile = blockIdx.x, matrix = 0, slice = 0;

  __device__ bool at_end(const ColumnsSplit& s) const { return tile >= s.n_tiles; }
  __device__ void advance(const MatvecParams& p, const ColumnsSplit& s) {
    if (++slice < s.g.n_slices) return;
    slice = 0;
    if (++matrix < p.n_lanes) return;
    matrix = 0;
    tile += gridDim.x;
  }
};

// What the fetching warp does, lanes side by side.
template <class P>
struct Fetcher {
  using Tile = ColumnsTile<P>;
#if __CUDA_ARCH__ >= 900
  static constexpr uint32_t kFills = 1;  // arrivals that fill a stage, beside its bytes
#else
  static constexpr uint32_t kFills = 32;
#endif
  const MatvecParams& p;
  const MatvecParts& products;
  const ColumnsSplit& s;
  uint32_t stages;
  int lane;

  __device__ void copy(uint32_t to, const uint8_t* from, uint32_t n_bytes, const RingPlace& ring) const {
#if __CUDA_ARCH__ >= 900
    ptx::copy_bulk(to, from, n_bytes, ring.full + 8 * ring.at);
#else
    for (uint32_t at = 0; at < n_bytes; at += 16) ptx::copy_16(to + at, from + at);
#endif
  }
  __device__ void fetch(const StageWalk& at, const RingPlace& ring) const {
    const TilePlace place(products, at.tile);
    const MatvecPart& product = products.part[place.product];
    const int first = place.tile * Tile::kRowBlocks,
              last = static_cast<int>((product.n_rows + P::kRows - 1) / P::kRows) - 1;
    const uint8_t* from = (at.matrix == 0 ? product.lane.weights : p.lanes[1].weights) + P::kTableBytes +
                          static_cast<int64_t>(at.slice) * s.g.tile_bytes;
    const auto n_bytes =
        static_cast<uint32_t>(at.slice + 1 < s.g.n_slices ? tile_bytes<P>(kSliceUnits) : tile_bytes<P>(s.g.last_units));
#if __CUDA_ARCH__ >= 900
    if (lane == 0) ptx::barrier_expect(ring.full + 8 * ring.at, Tile::kRowBlocks * n_bytes);
    __syncwarp();
#endif
    if (lane < Tile::kRowBlocks)
      copy(stages + ring.at * Tile::kStageBytes + lane * Tile::kStride,
           from + static_cast<int64_t>(min(first + lane, last)) * s.g.row_block_bytes, n_bytes, ring);
#if __CUDA_ARCH__ < 900
    ptx::arrive_after_copies(ring.full + 8 * ring.at);
#endif
  }
  __device__ void run(RingPlace ring) const {
    for (StageWalk at; !at.at_end(s); at.advance(p, s), ring.advance(1)) {
      ring.wait_empty();
      fetch(at, ring);
    }
    wait_for_previous_kernel();
  }
};

}  // namespace tokamak::cuda
