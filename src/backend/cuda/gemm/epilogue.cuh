// The end of a product, as in matvec/: value = dot * scale + bias for each matrix, then GLU(gate, up), then + residual.
// Three ways to memory: one matrix straight from the registers; SwiGLU after an exchange between the two warpgroups of
// a team; other GLUs through shared memory in a loop (they are rare, and their code is long).
#pragma once

#include "backend/cuda/gemm/items.cuh"
#include "backend/cuda/matvec/epilogue.cuh"
#include "backend/cuda/ptx/barrier.cuh"

namespace tokamak::cuda {

// Scale and bias of a thread's rows.
template <int n>
struct GemmRows {
  float scale[2] = {1.0f, 1.0f}, bias[2][n] = {};

  // Rows past the end: none. Parts of a split k: none, they are raw sums.
  __device__ static GemmRows load(const GemmParams& p, int64_t row, int expert) {
    GemmRows out;
    if (p.n_splits > 1) return out;
#pragma unroll
    for (int l = 0; l < 2; ++l) {
      if (p.lanes[l].scale) out.scale[l] = p.lanes[l].scale[expert];
#pragma unroll
      for (int i = 0; i < n; ++i)
        if (p.lanes[l].bias && row + i < p.n_rows) out.bias[l][i] = p.lanes[l].bias[expert * p.n_rows + row + i];
    }
    return out;
  }
  __device__ float value(int lane, int i, float dot) const { return dot * scale[lane] + bias[lane][i]; }
};

// x sigmoid(x) y with the fast exponential and division: about 2^-21.
__device__ inline float fast_swiglu(float x, float y) { return __fdividef(x, 1.0f + __expf(-x)) * y; }

// Where the two rows of a thread go, of one matrix: y, or its part of a split k.
struct PairOutput {
  float* out;
  int64_t stride;
  const float* residual;
  int64_t residual_stride;
  bool both, wide;  // both rows exist; 8-byte accesses work

  __device__ PairOutput(const GemmParams& p, const GemmItem& item, int lane, int64_t row) {
    const bool split = p.n_splits > 1;
    out = (split ? p.partial + (int64_t{item.split} * p.n_lanes + lane) * p.n_cols * p.n_rows : p.y) + row;
    stride = split ? p.n_rows : p.y_stride;
    residual = split || !p.residual ? nullptr : p.residual + row;
    residual_stride = p.residual_stride;
    both = row + 1 < p.n_rows;
    wide = both && reinterpret_cast<uintptr_t>(out) % 8 == 0 && stride % 2 == 0 &&
           reinterpret_cast<uintptr_t>(residual) % 8 == 0 && residual_stride % 2 == 0;
  }
  __device__ float2 rest(int col) const {
    const float* from = residual + col * residual_stride;
    if (wide) return *reinterpret_cast<const float2*>(from);
    return {from[0], both ? from[1] : 0.0f};
  }
  __device__ void store(int col, float first, float second) const {
    float* to = out + col * stride;
    if (wide) {
      *reinterpret_cast<float2*>(to) = make_float2(first, second);
    } else {
      to[0] = first;
      if (both) to[1] = second;
    }
  }
};

// One matrix, or parts of a split k of either.
template <int N, int W>
__device__ inline void store_sums(const GemmParams& p, const GemmItem& item, const Teammate& me,
                                  const float (&sum)[N / 2], const ColumnInfo* columns) {
  if (me.row >= p.n_rows) return;
  const GemmRows<2> rows = GemmRows<2>::load(p, me.row, item.tile.expert);
  const PairOutput output(p, item, me.lane, me.row);
  const int first_col = me.thread % 4 * 2;
  constexpr int kBatch = 2;
#pragma unroll
  for (int j = 0; j < N / 8; j += kBatch) {
    if (8 * j >= item.tile.n_cols) break;
    float2 rest[2 * kBatch] = {};
    if (output.residual)
#pragma unroll
      for (int i = 0; i < 2 * kBatch; ++i) {
        const int col = 8 * (j + i / 2) + first_col + i % 2;
        if (col < item.tile.n_cols) rest[i] = output.rest(columns[col].destination);
      }
#pragma unroll
    for (int i = 0; i < 2 * kBatch; ++i) {
      const int col = 8 * (j + i / 2) + first_col + i % 2, at = 4 * (j + i / 2) + i % 2;
      if (col >= item.tile.n_cols) continue;
      const ColumnInfo info = columns[col];
      output.store(info.destination, rows.value(0, 0, sum[at] * info.factor) + rest[i].x,
                   rows.value(0, 1, sum[at + 2] * info.factor) + rest[i].y);
    }
  }
}

// SwiGLU: the gate's warpgroup finishes the even columns and the up's the odd ones; each gives the other its sums.
template <int N, int W>
__device__ inline void store_swiglu(const GemmParams& p, const GemmItem& item, const Teammate& me,
                                    const float (&sum)[N / 2], float* exchange, const ColumnInfo* columns) {
  const GemmRows<2> rows = GemmRows<2>::load(p, me.row, item.tile.expert);
  const PairOutput output(p, item, 0, me.row);
  constexpr int kTiles = N < 128 ? N / 8 : 16;  // column tiles of a pass
  auto* given = reinterpret_cast<float2*>(exchange) + me.lane * kTiles * 128 + me.thread;
  const auto* taken = reinterpret_cast<const float2*>(exchange) + (1 - me.lane) * kTiles * 128 + me.thread;
#pragma unroll
  for (int first = 0; first < N / 8; first += kTiles) {
    if (8 * first >= item.tile.n_cols) break;
    if (first > 0) ptx::sync_threads(1 + me.team, me.n_threads);
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
      const float* s = sum + 4 * (first + j);
      given[j * 128] = me.lane ? make_float2(s[0], s[2]) : make_float2(s[1], s[3]);
    }
    ptx::sync_threads(1 + me.team, me.n_threads);
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
      const int col = 8 * (first + j) + me.thread % 4 * 2 + me.lane;
      if (col >= item.tile.n_cols || me.row >= p.n_rows) continue;
      const float* s = sum + 4 * (first + j);
      const float2 other = taken[j * 128], mine = me.lane ? make_float2(s[1], s[3]) : make_float2(s[0], s[2]);
      const float2 gate = me.lane ? other : mine, up = me.lane ? mine : other;
      const ColumnInfo info = columns[col];
      const float2 rest = output.residual ? output.rest(info.destination) : float2{};
      output.store(info.destination,
                   fast_swiglu(rows.value(0, 0, gate.x * info.factor), rows.value(1, 0, up.x * info.factor)) + rest.x,
                   fast_swiglu(rows.value(0, 1, gate.y * info.factor), rows.value(1, 1, up.y * info.factor)) + rest.y);
    }
  }
}

// Any GLU.
template <class Shape, int N, int W>
__device__ inline void store_glu(const GemmParams& p, const GemmItem& item, const Teammate& me,
                                 const float (&sum)[N / 2], float* exchange, const ColumnInfo* columns) {
  constexpr int kChunk = Shape::kChunk, kStride = Shape::kChunkStride;
  const int64_t row = me.row - me.thread / 32 * 16 - me.thread % 32 / 4 * 2 + me.thread % 64;
  const GemmRows<1> rows = GemmRows<1>::load(p, row, item.tile.expert);
  float* mine = exchange + me.lane * (kChunk * kStride) + me.thread / 32 * 16 + me.thread % 32 / 4 * 2 +
                me.thread % 4 * 2 * kStride;
#pragma unroll 1
  for (int chunk = 0; chunk < N / kChunk && chunk * kChunk < item.tile.n_cols; ++chunk) {
    if (chunk > 0) ptx::sync_threads(1 + me.team, me.n_threads);
#pragma unroll
    for (int c = 0; c < N / kChunk; ++c)
      if (c == chunk)
#pragma unroll
        for (int i = 0; i < kChunk / 4; ++i) {
          const int at = c * (kChunk / 2) + i / 2 * 4 + i % 2;
          *reinterpret_cast<float2*>(mine + (i / 2 * 8 + i % 2) * kStride) = make_float2(sum[at], sum[at + 2]);
        }
    ptx::sync_threads(1 + me.team, me.n_threads);
    const int n_cols = row < p.n_rows ? min(kChunk, item.tile.n_cols - chunk * kChunk) : 0;
#pragma unroll 1
    for (int c = me.thread / 64 + 2 * me.lane; c < n_cols; c += 4) {
      const ColumnInfo info = columns[chunk * kChunk + c];
      const float* values = exchange + c * kStride + me.thread % 64;
      const float gate = rows.value(0, 0, values[0] * info.factor);
      const float up = rows.value(1, 0, values[kChunk * kStride] * info.factor);
      const float rest = p.residual ? p.residual[info.destination * p.residual_stride + row] : 0.0f;
      p.y[info.destination * p.y_stride + row] = glu_of(p.glu, gate, up, p.alpha, p.limit) + rest;
    }
  }
}

// Sums of a team to memory. factor: of the weights' halves.
template <class Shape, int N, int W>
__device__ inline void store_item(const GemmParams& p, const GemmItem& item, float factor, const float (&sum)[N / 2],
                                  float* exchange, ColumnInfo* columns) {
  const Teammate me = Teammate::of<W>(p, item);
  exchange += (me.team * p.n_lanes) * (Shape::kChunk * Shape::kChunkStride);
  columns += me.team * N;
  for (int c = me.thread + 128 * me.lane; c < item.tile.n_cols; c += me.n_threads) {
    const int x_col = item.tile.first_col + c;
    columns[c] = {factor * p.x_factor[x_col], p.destination ? p.destination[x_col] : x_col};
  }
  ptx::sync_threads(1 + me.team, me.n_threads);
  if (p.n_lanes == 1 || p.n_splits > 1)
    store_sums<N, W>(p, item, me, sum, columns);
  else if (p.glu == static_cast<int>(MatvecGlu::swiglu))
    store_swiglu<N, W>(p, item, me, sum, exchange, columns);
  else
    store_glu<Shape, N, W>(p, item, me, sum, exchange, columns);
  ptx::sync_threads(1 + me.team, me.n_threads);
}

}  // namespace tokamak::cuda
