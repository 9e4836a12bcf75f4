// Products with many columns on Hopper's tensor cores. y[c][row] = sum over k of W[row][k] * x[c][k], then the
// epilogue.
//
// A CTA has W warpgroups that multiply and one that fetches. A consumer owns 64 rows and N columns: it reads packed
// weights straight from memory, decodes them to binary16 in registers (half.h) and multiplies them with columns that
// the producer brings to shared memory, 64 k at a time (halves.h); while the tensor cores work on one stage the next is
// decoded into the other half of the registers. Weights are loaded D groups of 128 k ahead. CTAs walk over items (row
// tile, column tile, part of k); loads run ahead into the next item.
//
// A row's sum has an order given by k and the split of k, which depend on the shape only: not on grid or device. No
// atomics.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/cuda/gemm/epilogue.cuh"
#include "backend/cuda/overlap.h"
#include "backend/cuda/ptx/arithmetic.cuh"
#include "backend/cuda/ptx/barrier.cuh"
#include "backend/cuda/ptx/copy.cuh"
#include "backend/cuda/ptx/memory.cuh"
#include "backend/cuda/ptx/wgmma.cuh"

namespace tokamak::cuda {

// Stages of columns in shared memory, filled and emptied in a ring.
template <int kStages>
struct Ring {
  uint32_t data, full, empty;
  int slot = 0;
  uint32_t parity = 0;
  __device__ void advance() {
    if (++slot == kStages) slot = 0, parity ^= 1;
  }
};

template <int N, int kStages>
__device__ inline void produce(const GemmParams& p, Ring<kStages> ring, int n_items) {
  for (int index = blockIdx.x; index < n_items; index += gridDim.x) {
    const GemmItem item = item_of<N>(p, index);
    const uint32_t n_bytes = static_cast<uint32_t>(round_up(item.tile.n_cols, kColumnUnit) * kStageBytes);
    const int64_t stage_bytes = int64_t{p.n_padded} * kStageBytes;
    const uint8_t* from = p.x + int64_t{item.tile.first_col} * kStageBytes + 2 * item.begin * stage_bytes;
    for (int stage = 2 * item.begin; stage < 2 * item.end; ++stage, from += stage_bytes) {
      ptx::barrier_wait(ring.empty + 8 * ring.slot, ring.parity ^ 1);
      ptx::barrier_expect(ring.full + 8 * ring.slot, n_bytes);
      ptx::copy_bulk(ring.data + ring.slot * (N * kStageBytes), from, n_bytes, ring.full + 8 * ring.slot);
      ring.advance();
    }
  }
}

// The weights that one thread reads, in the order of items and groups.
template <class P, int N, int W>
struct WeightWalk {
  static constexpr int kGroupsPerSlice = kSliceUnits / kUnitsPerBlock<P> / 4;
  const GemmParams& p;
  int n_items;
  int index;            // of the item
  const uint8_t* tile;  // of the row block, the slice at hand
  int group, left;      // in the slice; of the item

  __device__ void enter(int item_index) {
    index = item_index;
    const GemmItem item = item_of<N>(p, index);
    const int warpgroup = threadIdx.x / 128, shift = p.n_lanes - 1;
    const int row = item.row_tile * rows_per_tile<W>(p) + (warpgroup >> shift) * 64 + pair_row();
    const int slice = item.begin / kGroupsPerSlice;
    tile = row_block_of<P>(p, item, warpgroup & shift, row / P::kRows) + slice * p.g.tile_bytes;
    group = item.begin % kGroupsPerSlice;
    left = item.end - item.begin;
    // The slice's number is not kept: its last group is what counts.
    slices_left = p.g.n_slices - 1 - slice;
    n_units = slices_left == 0 ? p.g.last_units : kSliceUnits;
    next_row = P::kRows == 1 && row + 1 < p.n_rows ? p.g.row_block_bytes : 0;
  }
  int n_units, slices_left;
  uint32_t next_row;
  // Of the thread's first row in the 64 of its warpgroup.
  __device__ static int pair_row() { return threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4 * 2; }
  // Past the last item: its last group again.
  __device__ BlockPair<P> next() {
    const int block = group * 4 + static_cast<int>(threadIdx.x % 4), row = pair_row() % P::kRows;
    BlockPair<P> pair;
    if (n_units == kSliceUnits)
      pair = load_block_pair<P, true>(tile, block, kSliceUnits, row, next_row);
    else
      pair = load_block_pair<P, false>(tile, block, n_units, row, next_row);
    if (left > 1) {
      --left;
      if (++group == kGroupsPerSlice) {
        group = 0;
        tile += p.g.tile_bytes;
        if (--slices_left == 0) n_units = p.g.last_units;
      }
    } else if (index + static_cast<int>(gridDim.x) < n_items) {
      enter(index + gridDim.x);
    }
    return pair;
  }
};

__device__ inline void pin(uint32_t (&a)[2][8]) {
#pragma unroll
  for (int r = 0; r < 2; ++r)
#pragma unroll
    for (int i = 0; i < 8; ++i) ptx::pin(a[r][i]);
}

// One stage: 64 k of the warpgroup's rows times N columns.
template <int N>
__device__ inline void multiply_stage(float (&sum)[N / 2], uint32_t (&a)[2][8], uint32_t columns) {
#if defined(TOKAMAK_HAS_WGMMA)
  pin(a);
  ptx::products_begin();
  const uint64_t b = ptx::rows_operand(columns & 0x3FFFF);  // all that an operand holds of an address
#pragma unroll
  for (int i = 0; i < 4; ++i)
    ptx::multiply_columns<N>(sum, a[0][2 * i], a[1][2 * i], a[0][2 * i + 1], a[1][2 * i + 1], ptx::advanced(b, 32 * i));
  ptx::products_end();
#endif
}

template <class P, int N, int W, int D, int kStages>
__device__ inline void consume(const GemmParams& p, Ring<kStages> ring, int n_items, float* exchange,
                               ColumnInfo* columns, Lookup lookup) {
#if defined(TOKAMAK_HAS_WGMMA)
  using Shape = GemmShape<P, N, W, D>;
  if (static_cast<int>(blockIdx.x) >= n_items) return;
  const int row = WeightWalk<P, N, W>::pair_row() % P::kRows;
  WeightWalk<P, N, W> walk{p, n_items};
  walk.enter(blockIdx.x);
  BlockPair<P> pairs[D + 1];  // of this group and the next ones
#pragma unroll
  for (int i = 0; i <= D; ++i) pairs[i] = walk.next();
  wait_for_previous_kernel();
  uint32_t a[2][2][8];
  block_pair_halves<P, 0>(pairs[0], row, lookup, a[0]);
  int previous = -1;  // slot of the stage before
  const auto release = [&] {
    if (previous >= 0 && threadIdx.x % 32 == 0) ptx::barrier_arrive(ring.empty + 8 * previous);
    previous = ring.slot;
    ring.advance();
  };
#pragma unroll 1
  for (int index = blockIdx.x; index < n_items; index += gridDim.x) {
    float sum[N / 2];
#pragma unroll
    for (int i = 0; i < N / 2; ++i) sum[i] = 0.0f;
#pragma unroll 1
    for (int left = item_of<N>(p, index).n_groups(); left > 0; --left) {
      ptx::barrier_wait(ring.full + 8 * ring.slot, ring.parity);
      multiply_stage<N>(sum, a[0], ring.data + ring.slot * (N * kStageBytes));
      ptx::products_wait<1>();
      release();
      block_pair_halves<P, 1>(pairs[0], row, lookup, a[1]);
#pragma unroll
      for (int i = 0; i < D; ++i) pairs[i] = pairs[i + 1];
      pairs[D] = walk.next();
      ptx::barrier_wait(ring.full + 8 * ring.slot, ring.parity);
      multiply_stage<N>(sum, a[1], ring.data + ring.slot * (N * kStageBytes));
      ptx::products_wait<1>();
      release();
      block_pair_halves<P, 0>(pairs[0], row, lookup, a[0]);
    }
    ptx::products_wait<0>();
    int again = index;  // nothing of the item is kept in registers over the loop
    ptx::pin(again);
    store_item<Shape, N, W>(p, item_of<N>(p, again), kHalfFactor<P>, sum, exchange, columns);
  }
#endif
}

template <class P, int N, int W, int D>
__global__ void __launch_bounds__((W + 1) * 128, 1) gemm_kernel(const __grid_constant__ GemmParams p) {
#if defined(TOKAMAK_HAS_WGMMA)
  using Shape = GemmShape<P, N, W, D>;
  TOKAMAK_DYNAMIC_SHARED(1, uint8_t, shared);
  // Swizzled stages begin at multiples of 1024.
  uint8_t* stages = shared + (1024 - ptx::shared_address(shared) % 1024) % 1024;
  uint8_t* exchange = stages + Shape::kStages * N * kStageBytes;
  uint8_t* columns = exchange + Shape::kExchangeBytes;
  uint8_t* table = columns + Shape::kColumnBytes;
  Ring<Shape::kStages> ring{ptx::shared_address(stages), ptx::shared_address(table + P::kTableBytes),
                            ptx::shared_address(table + P::kTableBytes + 8 * Shape::kStages)};
  allow_next_kernel();
  if (threadIdx.x == 0) {
    for (int i = 0; i < Shape::kStages; ++i) {
      ptx::barrier_init(ring.full + 8 * i, 1);
      ptx::barrier_init(ring.empty + 8 * i, 4 * W);
    }
    ptx::fence_barrier_init();
  }
  if constexpr (P::kTableBytes > 0)
    for (int i = threadIdx.x; i < P::kTableBytes / 16; i += Shape::kThreads)
      reinterpret_cast<uint4*>(table)[i] = reinterpret_cast<const uint4*>(p.lanes[0].weights)[i];
  if (p.tiles) wait_for_previous_kernel();
  const int n_items = count_items(p);
  __syncthreads();
  if (threadIdx.x >= W * 128) {
    ptx::give_registers<Shape::kProducerRegisters>();
    wait_for_previous_kernel();
    if (threadIdx.x == W * 128) produce<N>(p, ring, n_items);
  } else {
    ptx::take_registers<Shape::kConsumerRegisters>();
    consume<P, N, W, D>(p, ring, n_items, reinterpret_cast<float*>(exchange), reinterpret_cast<ColumnInfo*>(columns),
                        Lookup{reinterpret_cast<const uint32_t*>(table), 0});
  }
#endif
}

}  // namespace tokamak::cuda
