// How a kernel is built, and the parts of its work.
#pragma once

#include "backend/cuda/gemm/half.h"
#include "backend/cuda/gemm/params.h"

namespace tokamak::cuda {

inline constexpr int kStageBytes = 128;  // per column
inline constexpr int kSharedBytes = 227 * 1024;

struct ColumnInfo {
  float factor;     // of its sums
  int destination;  // column of y
};

// How a CTA is built: N columns, W warpgroups that multiply (and one that fetches), D groups of weights in flight.
template <class P, int N, int W, int D>
struct GemmShape {
  static constexpr int kThreads = (W + 1) * 128;
  static constexpr int kRegisters = 65536 / kThreads / 8 * 8;  // at launch
  static constexpr int kProducerRegisters = 24;
  static constexpr int kShare = (kRegisters * (W + 1) - kProducerRegisters) / W / 8 * 8;
  static constexpr int kConsumerRegisters = kShare > 240 ? 240 : kShare;
  static_assert(kConsumerRegisters * W + kProducerRegisters <= kRegisters * (W + 1), "more would hang the kernel");
  // Results that change warps pass through shared memory, kChunk columns at a time; columns kChunkStride floats apart:
  // no bank conflicts.
  static constexpr int kChunk = 64, kChunkStride = 68;
  static constexpr int kExchangeBytes = W * kChunk * kChunkStride * 4;
  static constexpr int kColumnBytes = W * N * static_cast<int>(sizeof(ColumnInfo));  // per team
  static constexpr int kFit =
      (kSharedBytes - 2048 - P::kTableBytes - kExchangeBytes - kColumnBytes) / (N * kStageBytes);
  static constexpr int kStages = kFit > 12 ? 12 : kFit;
  static_assert(kStages >= 4);
  static constexpr int kSharedTotal =
      1024 + kStages * N * kStageBytes + kExchangeBytes + kColumnBytes + P::kTableBytes + 2 * 8 * kStages;
};

// A part of the work: rows of one row tile, columns of one column tile, groups [begin, end) of k. The warpgroups that
// share rows are a team: one, or two (gate and up).
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
  } else {  // row tiles of a strip of column tiles one after the other
    const int area = p.n_row_tiles * p.n_col_tiles, strip = p.n_row_tiles * p.strip;
    item.split = index / area;
    const int in_area = index % area, first_col = in_area / strip * p.strip, in_strip = in_area % strip;
    const int width = min(p.strip, p.n_col_tiles - first_col);
    const int col_tile = first_col + in_strip % width;
    item.row_tile = in_strip / width;
    item.tile = {0, col_tile * N, min(N, p.n_cols - col_tile * N)};
  }
  item.begin = min(item.split * p.split_groups, p.n_groups);
  item.end = min(item.begin + p.split_groups, p.n_groups);
  return item;
}
__device__ inline int count_items(const GemmParams& p) {
  return (p.tiles ? *p.n_tiles : p.n_col_tiles) * p.n_row_tiles * p.n_splits;
}

template <int W>
__device__ inline int rows_per_tile(const GemmParams& p) {
  return (64 * W) >> (p.n_lanes - 1);
}
// Where a row block of an item's expert begins in matrix `lane`: slice 0.
template <class P>
__device__ inline const uint8_t* row_block_of(const GemmParams& p, const GemmItem& item, int lane, int block) {
  return p.lanes[lane].weights + P::kTableBytes + item.tile.expert * p.g.matrix_bytes +
         static_cast<uint64_t>(min(block, p.g.n_row_blocks - 1)) * p.g.row_block_bytes;
}

// The thread's place in its team, and its two rows (2g and 2g + 1 of a warp's 16).
struct Teammate {
  int team, lane, n_threads, thread;  // thread: in its warpgroup
  int64_t row;

  template <int W>
  __device__ static Teammate of(const GemmParams& p, const GemmItem& item) {
    const int shift = p.n_lanes - 1, warpgroup = threadIdx.x / 128, thread = threadIdx.x % 128;
    const int team = warpgroup >> shift;
    return {team, warpgroup & shift, 128 << shift, thread,
            int64_t{item.row_tile} * rows_per_tile<W>(p) + team * 64 + thread / 32 * 16 + thread % 32 / 4 * 2};
  }
};

}  // namespace tokamak::cuda
