// The kernel: y[c][row] = sum over k of W[row][k] * x[c][k], then the epilogue of matvec/.
//
// A CTA makes a tile of rows, its warps each a part of k. Lane 4g + t of a warp reads row block g of the tile, and of
// each 128 of k block t: so all its rows lie beside each other, their place in the row block is known to the compiler,
// and scales are read once. Rows 2f and 2f + 1 of the row blocks are fragment f of mma.m16n8k16 (gemm/half.h). Partial
// sums of the warps go to shared memory and are added in ascending order. The split of k depends on k only.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/cuda/columns/halves.h"
#include "backend/cuda/gemm/half.h"
#include "backend/cuda/matvec/epilogue.cuh"
#include "backend/cuda/matvec/geometry.h"
#include "backend/cuda/matvec/params.h"
#include "backend/cuda/overlap.h"
#include "backend/cuda/ptx/memory.cuh"
#include "backend/cuda/ptx/mma.cuh"

namespace tokamak::cuda {

// Rows of a tile: kSets times 8 row blocks. kDepth: steps (of 128 k) whose weights are in flight.
template <class P>
struct ColumnsTile {
  static constexpr int kUnits = kUnitsPerBlock<P>;
  static constexpr int kSets = P::kQuantized && P::kRows == 2 ? 2 : 1;
  static constexpr int kRowBlocks = 8 * kSets, kRows = kRowBlocks * P::kRows;
  static constexpr int kFragments = kSets * P::kRows / 2;
  static constexpr int kDepth = sizeof(typename P::Codes) * kUnits * P::kRows * kSets > 64 ? 1 : 2;
  static constexpr int kStepsPerSlice = kSliceUnits / kUnits / 4;
};
// Floats between rows of partial sums: no bank twice.
template <int kTiles>
inline constexpr int kPartStride = 8 * kTiles + 2;

struct ColumnsSplit {
  Geometry g;
  int n_warps, n_steps;
};

// One step's weights of a lane.
template <class P>
struct Weights {
  typename P::Codes codes[ColumnsTile<P>::kSets][P::kRows][ColumnsTile<P>::kUnits];
  typename P::Scales scales[ColumnsTile<P>::kSets];
};
template <int kTiles>
struct Activations {  // of half a step: words of two k each
  uint4 v[kTiles][2];
};

__device__ inline void multiply_add(float (&c)[4], const uint32_t (&a)[2][8], int i, uint32_t b0, uint32_t b1) {
  ptx::multiply_f16(c, {a[0][2 * i], a[1][2 * i], a[0][2 * i + 1], a[1][2 * i + 1]}, b0, b1);
}

// What a lane reads: its row blocks of each matrix and its columns.
template <class P, int kTiles>
struct LanePlaces {
  using Tile = ColumnsTile<P>;
  int64_t block[Tile::kSets];  // offsets of row blocks
  const uint8_t* column[kTiles];
  int quad;  // t

  __device__ Unit unit(const ColumnsSplit& s, const uint8_t* matrix, int step, int set, int j) const {
    const int slice = step / Tile::kStepsPerSlice;
    const int n_units = slice + 1 < s.g.n_slices ? kSliceUnits : s.g.last_units;
    const int at = (step % Tile::kStepsPerSlice * 4 + quad) * Tile::kUnits + j;
    return make_unit<P>(matrix + block[set] + static_cast<uint32_t>(slice * s.g.tile_bytes), min(at, n_units - 1),
                        n_units);
  }
  __device__ Activations<kTiles> activations(int step, int half) const {
    Activations<kTiles> out;
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      const auto* p = reinterpret_cast<const uint4*>(column[n] + (4 * step + quad) * 64 + half * 32);
      out.v[n][0] = p[0], out.v[n][1] = p[1];
    }
    return out;
  }
};

// A warp's steps: `n` of each matrix from step `begin` on.
struct Steps {
  const uint8_t* matrices[2];
  int begin, n, n_total;

  __device__ const uint8_t* matrix(int j) const { return j < n ? matrices[0] : matrices[1]; }
  __device__ int step(int j) const { return begin + (j < n ? j : j - n); }
};

template <class P>
__device__ inline void load_rows(const Unit& unit, int j, int set, int row, int n_rows, Weights<P>& w) {
#pragma unroll
  for (int r = 0; r < n_rows; ++r) w.codes[set][row + r][j] = P::load_codes(unit, row + r);
}
template <class P, int kTiles>
__device__ inline void load_weights(const ColumnsSplit& s, const LanePlaces<P, kTiles>& at, const Steps& steps, int j,
                                    Weights<P>& w) {
  using Tile = ColumnsTile<P>;
#pragma unroll
  for (int set = 0; set < Tile::kSets; ++set)
#pragma unroll
    for (int u = 0; u < Tile::kUnits; ++u) {
      const Unit unit = at.unit(s, steps.matrix(j), steps.step(j), set, u);
      load_rows<P>(unit, u, set, 0, P::kRows, w);
      if (u == 0) w.scales[set] = P::load_scales(unit);
    }
}

// Half h of step j: decodes, multiplies, and loads step j + kDepth into the registers whose contents were used last.
template <class P, int kTiles, int h>
__device__ inline void half_step(const ColumnsSplit& s, const LanePlaces<P, kTiles>& at, const Steps& steps, int j,
                                 Lookup lookup, const Activations<kTiles>& x, Weights<P>& w,
                                 float (&sums)[ColumnsTile<P>::kFragments][kTiles][4]) {
  using Tile = ColumnsTile<P>;
  const int next = j + Tile::kDepth;
  const bool more = next < steps.n_total;
#pragma unroll
  for (int set = 0; set < Tile::kSets; ++set) {
    const auto prepared = P::prepare(w.scales[set]);
    constexpr bool kUnitDone = h == 1 || Tile::kUnits == 2;
    const int u = Tile::kUnits == 2 ? h : 0;
    const Unit unit = at.unit(s, steps.matrix(next), steps.step(next), set, u);
    if (h == 1 && more) w.scales[set] = P::load_scales(unit);
#pragma unroll
    for (int r = 0; r < P::kRows; r += 2) {
      uint32_t a[2][8];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if constexpr (P::kQuantized)
          quantized_halves<P, h>(w.codes[set][r + i][0], prepared, r + i, lookup, a[i]);
        else
          plain_halves<P>(w.codes[set][r + i][u], a[i]);
      }
      if (kUnitDone && more) load_rows<P>(unit, u, set, r, 2, w);
      auto& c = sums[(set * P::kRows + r) / 2];
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        multiply_add(c[n], a, 0, x.v[n][0].x, x.v[n][0].y);
        multiply_add(c[n], a, 1, x.v[n][0].z, x.v[n][0].w);
        multiply_add(c[n], a, 2, x.v[n][1].x, x.v[n][1].y);
        multiply_add(c[n], a, 3, x.v[n][1].z, x.v[n][1].w);
      }
    }
  }
}

// Sums of fragments to a warp's part [kRows][kPartStride], which begin anew.
template <class P, int kTiles>
__device__ inline void put_sums(float (&sums)[ColumnsTile<P>::kFragments][kTiles][4], float* part, int lane) {
  const int group = lane / 4, quad = lane % 4;
#pragma unroll
  for (int f = 0; f < ColumnsTile<P>::kFragments; ++f) {
    const int set = 2 * f / P::kRows, row = (set * 8 + group) * P::kRows + 2 * f % P::kRows;
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      float* out = part + row * kPartStride<kTiles> + 8 * n + 2 * quad;
      float(&c)[4] = sums[f][n];
      *reinterpret_cast<float2*>(out) = {c[0], c[1]};
      *reinterpret_cast<float2*>(out + kPartStride<kTiles>) = {c[2], c[3]};
      c[0] = c[1] = c[2] = c[3] = 0.0f;
    }
  }
}

// The sums of warps in ascending order, then the epilogue: a thread per element, neighbours neighbouring rows.
template <class P, int kTiles>
__device__ inline void finish_tile(const MatvecParams& p, const ColumnsSplit& s, const float* parts, int tile) {
  constexpr int kRows = ColumnsTile<P>::kRows, kPart = kRows * kPartStride<kTiles>;
  for (int i = threadIdx.x; i < kRows * p.n_cols; i += blockDim.x) {
    const int r = i % kRows, col = i / kRows;
    const int64_t row = static_cast<int64_t>(tile) * kRows + r;
    if (row >= p.n_rows) continue;
    const RowInputs inputs = load_row_inputs(p, row, 0, col);
    const auto* column = static_cast<const uint8_t*>(p.x) + col * p.x_stride_bytes;
    const float factor = kHalfFactor<P> * *reinterpret_cast<const float*>(column + p.x_stride_bytes - 16);
    float sum[2] = {};
#pragma unroll
    for (int l = 0; l < 2; ++l) {
      if (l >= p.n_lanes) break;
      const float* from = parts + l * s.n_warps * kPart + r * kPartStride<kTiles> + col;
      sum[l] = from[0];
#pragma unroll 8
      for (int w = 1; w < s.n_warps; ++w) sum[l] += from[w * kPart];
      sum[l] *= factor;
    }
    finish_row(p, sum, inputs, row, col);
  }
}

template <class P, int kTiles>
__device__ __forceinline__ void run_tile(const MatvecParams& p, const ColumnsSplit& s, int tile) {
  using Tile = ColumnsTile<P>;
  TOKAMAK_DYNAMIC_SHARED(16, uint4, shared);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  LanePlaces<P, kTiles> at;
  at.quad = lane % 4;
#pragma unroll
  for (int set = 0; set < Tile::kSets; ++set)
    at.block[set] =
        P::kTableBytes + static_cast<int64_t>(min(tile * Tile::kRowBlocks + 8 * set + lane / 4, s.g.n_row_blocks - 1)) *
                             s.g.row_block_bytes;
  Steps steps;
  steps.matrices[0] = p.lanes[0].weights;
  steps.matrices[1] = p.n_lanes == 2 ? p.lanes[1].weights : p.lanes[0].weights;
  steps.begin = s.n_steps * warp / s.n_warps;
  steps.n = s.n_steps * (warp + 1) / s.n_warps - steps.begin;
  steps.n_total = steps.n * p.n_lanes;

  Weights<P> weights[Tile::kDepth];
#pragma unroll
  for (int d = 0; d < Tile::kDepth; ++d)
    if (d < steps.n_total) load_weights<P, kTiles>(s, at, steps, d, weights[d]);
  allow_next_kernel();
  if constexpr (P::kTableBytes > 0) {
    for (int i = threadIdx.x; i < P::kTableBytes / 16; i += blockDim.x)
      shared[i] = reinterpret_cast<const uint4*>(p.lanes[0].weights)[i];
    __syncthreads();
  }
  wait_for_previous_kernel();

  const Lookup lookup{reinterpret_cast<const uint32_t*>(shared), threadIdx.x * p.zero};
  float* parts = reinterpret_cast<float*>(shared) + P::kTableBytes / 4;
  constexpr int kPart = Tile::kRows * kPartStride<kTiles>;
#pragma unroll
  for (int n = 0; n < kTiles; ++n)
    at.column[n] = static_cast<const uint8_t*>(p.x) + min(8 * n + lane / 4, p.n_cols - 1) * p.x_stride_bytes;
  float sums[Tile::kFragments][kTiles][4] = {};
  Activations<kTiles> x;
  if (steps.n_total > 0) x = at.activations(steps.step(0), 0);
#pragma unroll 1
  for (int first = 0; first < steps.n_total; first += Tile::kDepth) {
#pragma unroll
    for (int d = 0; d < Tile::kDepth; ++d) {
      const int j = first + d;
      if (j >= steps.n_total) break;
      const Activations<kTiles> second = at.activations(steps.step(j), 1);
      half_step<P, kTiles, 0>(s, at, steps, j, lookup, x, weights[d], sums);
      if (j + 1 < steps.n_total) x = at.activations(steps.step(j + 1), 0);
      half_step<P, kTiles, 1>(s, at, steps, j, lookup, second, weights[d], sums);
      if (p.n_lanes == 2 && j + 1 == steps.n) put_sums<P, kTiles>(sums, parts + warp * kPart, lane);
    }
  }
  // A warp without steps: zeros for both matrices.
  if (p.n_lanes == 2 && steps.n == 0) put_sums<P, kTiles>(sums, parts + warp * kPart, lane);
  put_sums<P, kTiles>(sums, parts + ((p.n_lanes - 1) * s.n_warps + warp) * kPart, lane);
  __syncthreads();
  finish_tile<P, kTiles>(p, s, parts, tile);
}

// kTiles: of 8 columns. A CTA belongs to one of the parts.
template <class P, int kTiles>
__global__ void __launch_bounds__(512, 1)
    columns_kernel(const __grid_constant__ MatvecParams common, const __grid_constant__ MatvecParts parts,
                   const __grid_constant__ ColumnsSplit split) {
  int i = 0, tile = blockIdx.x;
  while (i + 1 < parts.n_parts && tile >= parts.n_ctas[i]) tile -= parts.n_ctas[i++];
  MatvecParams p = common;
  p.lanes[0] = parts.part[i].lane;
  p.n_rows = parts.part[i].n_rows;
  p.y = parts.part[i].y;
  p.y_stride = parts.part[i].y_stride;
  ColumnsSplit s = split;
  s.g.n_row_blocks = static_cast<int>((p.n_rows + P::kRows - 1) / P::kRows);
  run_tile<P, kTiles>(p, s, tile);
}

// By k and type only: enough steps for a warp that its loads overlap with its arithmetic; sums of 64 rows take room.
template <class P>
int columns_warps(int n_steps) {
  const int warps = n_steps >= 64 ? 16 : n_steps >= 16 ? 8 : 4;
  return P::kRows > 4 && warps > 8 ? 8 : warps;
}

template <class P, int kTiles>
cudaError_t launch_tiles(const MatvecParams& p, MatvecParts parts, cudaStream_t stream) {
  using Tile = ColumnsTile<P>;
  ColumnsSplit s{};
  s.g = geometry_of<P>(p.n_rows, p.k);
  s.n_steps = static_cast<int>((p.k + 127) / 128);
  s.n_warps = columns_warps<P>(s.n_steps);
  LaunchShape shape{.grid = 0, .block = static_cast<unsigned>(32 * s.n_warps), .overlap = p.overlap};
  for (int i = 0; i < parts.n_parts; ++i) {
    parts.n_ctas[i] = static_cast<int>((parts.part[i].n_rows + Tile::kRows - 1) / Tile::kRows);
    shape.grid.x += static_cast<unsigned>(parts.n_ctas[i]);
  }
  shape.shared_bytes =
      static_cast<size_t>(P::kTableBytes + p.n_lanes * s.n_warps * Tile::kRows * kPartStride<kTiles> * 4);
  const auto kernel = columns_kernel<P, kTiles>;
  if (shape.shared_bytes > 48 * 1024) {
    const cudaError_t raised =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shape.shared_bytes));
    if (raised != cudaSuccess) return raised;
  }
  return enqueue(kernel, shape, stream, p, parts, s);
}

template <class P>
cudaError_t launch_columns_of(const MatvecParams& p, const MatvecParts& parts, cudaStream_t stream) {
  return p.n_cols <= 8 ? launch_tiles<P, 1>(p, parts, stream) : launch_tiles<P, 2>(p, parts, stream);
}

}  // namespace tokamak::cuda
