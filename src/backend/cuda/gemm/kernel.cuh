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
#include "backend/cuda/gemm/half.h"
#include "backend/cuda/gemm/wgmma.cuh"

namespace tokamak::cuda {

inline constexpr int kGroup = 128;       // k of a group: two stages
inline constexpr int kStageBytes = 128;  // per column
inline constexpr int kSharedBytes = 227 * 1024;

// How a CTA is built. N columns, W consumer warpgroups, D groups of weights in flight.
template <class P, int N, int W, int D>
struct GemmShape {
  static constexpr int kThreads = (W + 1) * 128;
  static constexpr int kRegisters = 65536 / kThreads / 8 * 8;  // at launch
  static constexpr int kProducerRegisters = 24;
  static constexpr int kConsumerRegisters = (kRegisters * (W + 1) - kProducerRegisters) / W / 8 * 8 > 240
                                                ? 240
                                                : (kRegisters*(W + 1) - kProducerRegisters) / W / 8 * 8;
  static_assert(kConsumerRegisters * W + kProducerRegisters <= kRegisters * (W + 1), "more would hang the kernel");
  // Results pass through shared memory, kChunk columns at a time; columns 68 floats apart: no bank conflicts.
  static constexpr int kChunk = N < 64 ? N : 64, kChunkStride = 68;
  static constexpr int kExchangeBytes = W * kChunk * kChunkStride * 4;
  static constexpr int kStages_ = (kSharedBytes - 2048 - P::kTableBytes - kExchangeBytes) / (N * kStageBytes);
  static constexpr int kStages = kStages_ > 12 ? 12 : kStages_;
  static_assert(kStages >= 4);
  static constexpr int kSharedTotal =
      1024 + kStages * N * kStageBytes + kExchangeBytes + P::kTableBytes + 2 * 8 * kStages;
};

// Part of the work: rows of one row tile, columns of one column tile, groups [begin, end) of k.
struct GemmItem {
  GemmTile tile;
  int row_tile, split, begin, end;

  __device__ int n_groups() const { return end - begin; }
};
template <int N>
__device__ inline GemmItem item_of(const GemmParams& p, int index) {
  GemmItem item;
  if (p.tiles) {  // row tiles of a column tile one after the other
    item.tile = p.tiles[index / p.n_row_tiles];
    item.row_tile = index % p.n_row_tiles;
    item.split = 0;
  } else {  // column tiles of a row tile one after the other: its weights are read once
    const int col_tile = index % p.n_col_tiles, rest = index / p.n_col_tiles;
    item.row_tile = rest % p.n_row_tiles;
    item.split = rest / p.n_row_tiles;
    item.tile = {0, col_tile * N, min(N, p.n_cols - col_tile * N)};
  }
  item.begin = static_cast<int>(static_cast<int64_t>(p.n_groups) * item.split / p.n_splits);
  item.end = static_cast<int>(static_cast<int64_t>(p.n_groups) * (item.split + 1) / p.n_splits);
  return item;
}
__device__ inline int count_items(const GemmParams& p) {
  return (p.tiles ? *p.n_tiles : p.n_col_tiles) * p.n_row_tiles * p.n_splits;
}

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
    const uint32_t n_bytes = static_cast<uint32_t>((item.tile.n_cols + 7) / 8 * 8 * kStageBytes);
    const int64_t stage_bytes = int64_t{p.n_padded} * kStageBytes;
    const uint8_t* from = p.x + int64_t{item.tile.first_col} * kStageBytes + 2 * item.begin * stage_bytes;
    for (int stage = 2 * item.begin; stage < 2 * item.end; ++stage, from += stage_bytes) {
      barrier_wait(ring.empty + 8 * ring.slot, ring.parity ^ 1);
      barrier_expect(ring.full + 8 * ring.slot, n_bytes);
      bulk_copy(ring.data + ring.slot * (N * kStageBytes), from, n_bytes, ring.full + 8 * ring.slot);
      ring.advance();
    }
  }
}

// The weights that one thread reads, in the order of items and groups.
template <class P, int N>
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
    const int warpgroup = threadIdx.x / 128, W = blockDim.x / 128 - 1;
    const int row = item.row_tile * (64 * W / p.n_lanes) + warpgroup / p.n_lanes * 64 + pair_row();
    const int block = min(row / P::kRows, p.g.n_row_blocks - 1);
    const int slice = item.begin / kGroupsPerSlice;
    tile = p.lanes[warpgroup % p.n_lanes].weights + P::kTableBytes + item.tile.expert * p.g.matrix_bytes +
           static_cast<uint64_t>(block) * p.g.row_block_bytes + slice * p.g.tile_bytes;
    group = item.begin % kGroupsPerSlice;
    left = item.end - item.begin;
    // The slice's number is not kept: its last group is what counts.
    n_units = slice + 1 == p.g.n_slices ? p.g.last_units : kSliceUnits;
    slices_left = p.g.n_slices - 1 - slice;
  }
  int n_units, slices_left;
  // Of the thread's first row in the 64 of its warpgroup.
  __device__ static int pair_row() { return threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4 * 2; }
  // Past the last item: its last group again.
  __device__ BlockPair<P> next() {
    const BlockPair<P> pair =
        load_block_pair<P>(tile, group * 4 + static_cast<int>(threadIdx.x % 4), n_units, pair_row() % P::kRows);
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
    for (int i = 0; i < 8; ++i) asm volatile("" : "+r"(a[r][i]));
}

// One stage: 64 k of the warpgroup's rows times N columns.
template <int N>
__device__ inline void multiply_stage(float (&sum)[N / 2], uint32_t (&a)[2][8], uint32_t columns) {
#if defined(TOKAMAK_HAS_WGMMA)
  pin(a);
  wgmma_fence();
  const uint64_t b = swizzled_rows(columns);
#pragma unroll
  for (int i = 0; i < 4; ++i) wgmma<N>(sum, a[0][2 * i], a[1][2 * i], a[0][2 * i + 1], a[1][2 * i + 1], b + 2 * i);
  wgmma_commit();
#endif
}

// Results of a warpgroup to memory, by the team of one or two warpgroups (gate and up) that share rows.
template <class Shape, int N, int W>
__device__ inline void store_item(const GemmParams& p, const GemmItem& item, float factor, float (&sum)[N / 2],
                                  float* exchange) {
  const int warpgroup = threadIdx.x / 128, thread = threadIdx.x % 128;
  const int team = warpgroup / p.n_lanes, lane = warpgroup % p.n_lanes;
  const int team_threads = 128 * p.n_lanes;
  constexpr int kLaneFloats = Shape::kChunk * Shape::kChunkStride;
  float* team_values = exchange + team * p.n_lanes * kLaneFloats;
  // What a thread finishes: four rows of every 8th (16th) column.
  const int team_thread = thread + lane * 128, quad_row = team_thread % 16 * 4;
  const int64_t row = int64_t{item.row_tile} * (64 * W / p.n_lanes) + team * 64 + quad_row;
  GemmRow rows[4];
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (row + i < p.n_rows && p.n_splits == 1) rows[i] = load_gemm_row(p, row + i, item.tile.expert);
  const bool whole = row + 4 <= p.n_rows;
#pragma unroll 1
  for (int chunk = 0; chunk < N / Shape::kChunk && chunk * Shape::kChunk < item.tile.n_cols; ++chunk) {
    float* mine = team_values + lane * kLaneFloats + thread / 32 * 16 + thread % 32 / 4 * 2 +
                  thread % 4 * 2 * Shape::kChunkStride;
    if (chunk > 0) sync_threads(1 + team, team_threads);
#pragma unroll
    for (int c = 0; c < N / Shape::kChunk; ++c)
      if (c == chunk)
#pragma unroll
        for (int j = 0; j < Shape::kChunk / 8; ++j)
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            const int at = (c * (Shape::kChunk / 8) + j) * 4 + e;
            *reinterpret_cast<float2*>(mine + (8 * j + e) * Shape::kChunkStride) = make_float2(sum[at], sum[at + 2]);
          }
    sync_threads(1 + team, team_threads);
    const int n_cols = min(Shape::kChunk, item.tile.n_cols - chunk * Shape::kChunk);
#pragma unroll 1
    for (int c = team_thread / 16; c < n_cols; c += team_threads / 16) {
      const int x_col = item.tile.first_col + chunk * Shape::kChunk + c;
      const int64_t col = p.destination ? p.destination[x_col] : x_col;
      const float scale = factor * p.x_factor[x_col];
      const float* values = team_values + c * Shape::kChunkStride + quad_row;
      float gate[4], up[4] = {}, rest[4] = {};
      memcpy(gate, __builtin_assume_aligned(values, 16), 16);
      if (p.n_lanes == 2) memcpy(up, __builtin_assume_aligned(values + kLaneFloats, 16), 16);
      if (p.n_splits > 1) {
        for (int l = 0; l < p.n_lanes; ++l) {
          float* out = p.partial + ((int64_t{item.split} * p.n_lanes + l) * p.n_cols + col) * p.n_rows + row;
#pragma unroll
          for (int i = 0; i < 4; ++i)
            if (row + i < p.n_rows) out[i] = scale * (l ? up[i] : gate[i]);
        }
        continue;
      }
      float* y = p.y + col * p.y_stride + row;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (p.residual && row + i < p.n_rows) rest[i] = p.residual[col * p.residual_stride + row + i];
        gate[i] = finish_value(p, scale * gate[i], scale * up[i], rows[i]) + rest[i];
      }
      if (whole && reinterpret_cast<uintptr_t>(y) % 16 == 0) {
        *reinterpret_cast<float4*>(y) = make_float4(gate[0], gate[1], gate[2], gate[3]);
      } else {
#pragma unroll
        for (int i = 0; i < 4; ++i)
          if (row + i < p.n_rows) y[i] = gate[i];
      }
    }
  }
  sync_threads(1 + team, team_threads);
}

template <class P, int N, int W, int D, int kStages>
__device__ inline void consume(const GemmParams& p, Ring<kStages> ring, int n_items, float* exchange, Lookup lookup) {
#if defined(TOKAMAK_HAS_WGMMA)
  using Shape = GemmShape<P, N, W, D>;
  if (static_cast<int>(blockIdx.x) >= n_items) return;
  const int row = WeightWalk<P, N>::pair_row() % P::kRows;
  WeightWalk<P, N> walk{p, n_items};
  walk.enter(blockIdx.x);
  BlockPair<P> pairs[D + 1];  // of this group and the next ones
#pragma unroll
  for (int i = 0; i <= D; ++i) pairs[i] = walk.next();
  asm volatile("griddepcontrol.wait;" ::: "memory");
  uint32_t a[2][2][8];
  block_pair_halves<P, 0>(pairs[0], row, lookup, a[0]);
  int previous = -1;  // slot of the stage before
  const auto release = [&] {
    if (previous >= 0 && threadIdx.x % 32 == 0) barrier_arrive(ring.empty + 8 * previous);
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
      barrier_wait(ring.full + 8 * ring.slot, ring.parity);
      multiply_stage<N>(sum, a[0], ring.data + ring.slot * (N * kStageBytes));
      wgmma_wait<1>();
      release();
      block_pair_halves<P, 1>(pairs[0], row, lookup, a[1]);
#pragma unroll
      for (int i = 0; i < D; ++i) pairs[i] = pairs[i + 1];
      pairs[D] = walk.next();
      barrier_wait(ring.full + 8 * ring.slot, ring.parity);
      multiply_stage<N>(sum, a[1], ring.data + ring.slot * (N * kStageBytes));
      wgmma_wait<1>();
      release();
      block_pair_halves<P, 0>(pairs[0], row, lookup, a[0]);
    }
    wgmma_wait<0>();
    int again = index;  // nothing of the item is kept in registers over the loop
    asm volatile("" : "+r"(again));
    store_item<Shape, N, W>(p, item_of<N>(p, again), kHalfFactor<P>, sum, exchange);
  }
#endif
}

template <class P, int N, int W, int D>
__global__ void __launch_bounds__((W + 1) * 128, 1) gemm_kernel(const __grid_constant__ GemmParams p) {
#if defined(TOKAMAK_HAS_WGMMA)
  using Shape = GemmShape<P, N, W, D>;
  extern __shared__ uint8_t shared[];
  // Swizzled stages begin at multiples of 1024.
  uint8_t* stages = shared + (1024 - shared_address(shared) % 1024) % 1024;
  uint8_t* exchange = stages + Shape::kStages * N * kStageBytes;
  uint8_t* table = exchange + Shape::kExchangeBytes;
  Ring<Shape::kStages> ring{shared_address(stages), shared_address(table + P::kTableBytes),
                            shared_address(table + P::kTableBytes + 8 * Shape::kStages)};
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  if (threadIdx.x == 0) {
    for (int i = 0; i < Shape::kStages; ++i) {
      barrier_init(ring.full + 8 * i, 1);
      barrier_init(ring.empty + 8 * i, 4 * W);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  if constexpr (P::kTableBytes > 0)
    for (int i = threadIdx.x; i < P::kTableBytes / 16; i += Shape::kThreads)
      reinterpret_cast<uint4*>(table)[i] = reinterpret_cast<const uint4*>(p.lanes[0].weights)[i];
  if (p.tiles) asm volatile("griddepcontrol.wait;" ::: "memory");
  const int n_items = count_items(p);
  __syncthreads();
  if (threadIdx.x >= W * 128) {
    lower_registers<Shape::kProducerRegisters>();
    asm volatile("griddepcontrol.wait;" ::: "memory");
    if (threadIdx.x == W * 128) produce<N>(p, ring, n_items);
  } else {
    raise_registers<Shape::kConsumerRegisters>();
    consume<P, N, W, D>(p, ring, n_items, reinterpret_cast<float*>(exchange),
                        Lookup{reinterpret_cast<const uint32_t*>(table), 0});
  }
#endif
}

}  // namespace tokamak::cuda
