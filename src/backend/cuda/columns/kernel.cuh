// The kernel: y[c][row] = sum over k of W[row][k] * x[c][k], then the epilogue of matvec/.
//
// A block makes one tile of rows after the other. Weights come by way of shared memory, slice by slice of k (ring.cuh),
// activations straight from the L2, a step ahead. Of each slice a warp takes one step of 128 k: lane 4g + t reads row
// block g of the tile and of the step block t, so that its place in the row block is known to the compiler. Rows 2f and
// 2f + 1 of the row blocks are fragment f of mma.m16n8k16 (gemm/half.h). Where a slice has fewer steps than there are
// warps, groups of warps take slices in turn. Partial sums go to other warps, which add them in ascending order while
// the next tile is begun. What a warp adds depends on k and the type only, not on the grid.
#pragma once

#include <algorithm>

#include "backend/cuda/columns/ring.cuh"
#include "backend/cuda/device_attribute.h"
#include "backend/cuda/matvec/epilogue.cuh"
#include "backend/cuda/ptx/mma.cuh"

namespace tokamak::cuda {

inline constexpr int kStepBytes = 2048;  // activations of 8 columns and 128 k
// Warps that finish tiles; one more fetches.
inline constexpr int kFinishingWarps = 3, kColumnsThreads = 32 * (kColumnsWarps + kFinishingWarps + 1);

// Floats between rows of partial sums: no bank twice.
template <int kTiles>
inline constexpr int kPartStride = 8 * kTiles + 2;
template <class P, int kTiles>
inline constexpr int kPartFloats = ColumnsTile<P>::kRows* kPartStride<kTiles>;

// Shared memory: the type's table, barriers of stages and of buffers, buffers of partial sums [matrices][warps],
// stages.
template <class P, int kTiles>
struct ColumnsShared {
  static constexpr int kStageBarriers = P::kTableBytes,
                       kBufferBarriers = kStageBarriers + 2 * 8 * ColumnsTile<P>::kMostStages;
  static constexpr int kParts = kBufferBarriers + 2 * 8 * 2;
  __host__ __device__ static constexpr int buffer_bytes(int n_matrices) {
    return n_matrices * kColumnsWarps * kPartFloats<P, kTiles> * 4;
  }
  __host__ __device__ static constexpr int stages(int n_matrices, int n_buffers) {
    return (kParts + n_buffers * buffer_bytes(n_matrices) + 127) / 128 * 128;
  }
};

template <int kTiles>
struct Activations {  // of half a step: words of two k each
  uint4 v[kTiles][2];

  // step: of the first 8 columns, the lane's place in it; stride: to the next 8.
  __device__ static Activations load(const uint8_t* step, int64_t stride, int half) {
    Activations out;
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      const auto* from = reinterpret_cast<const uint4*>(step + n * stride) + 64 * half;
      out.v[n][0] = from[0], out.v[n][1] = from[32];
    }
    return out;
  }
};

template <class P, int kTiles>
using Sums = float[ColumnsTile<P>::kFragments][kTiles][4];

__device__ inline void multiply_add(float (&c)[4], const uint32_t (&a)[2][8], int i, uint32_t b0, uint32_t b1) {
  ptx::multiply_f16(c, {a[0][2 * i], a[1][2 * i], a[0][2 * i + 1], a[1][2 * i + 1]}, b0, b1);
}

// A lane's blocks of one set of row blocks.
template <class P>
struct StepWeights {
  typename P::Codes codes[P::kRows][kUnitsPerBlock<P>];
  typename P::Scales scales;

  // tile: in shared memory, of n_units units.
  __device__ StepWeights(const uint8_t* tile, int block, int n_units) {
#pragma unroll
    for (int u = 0; u < kUnitsPerBlock<P>; ++u) {
      const auto unit = make_unit<P, true>(tile, min(block * kUnitsPerBlock<P> + u, n_units - 1), n_units);
#pragma unroll
      for (int r = 0; r < P::kRows; ++r) codes[r][u] = P::load_codes(unit, r);
      if (u == 0) scales = P::load_scales(unit);
    }
  }
};
// Half h of a step, of one set.
template <class P, int kTiles, int h, class Prepared>
__device__ inline void half_step(const StepWeights<P>& w, const Prepared& prepared, Lookup lookup,
                                 const Activations<kTiles>& x, float (*sums)[kTiles][4]) {
#pragma unroll
  for (int r = 0; r < P::kRows; r += 2) {
    uint32_t a[2][8];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if constexpr (P::kQuantized)
        quantized_halves<P, h>(w.codes[r + i][0], prepared, r + i, lookup, a[i]);
      else
        plain_halves<P>(w.codes[r + i][h], a[i]);
    }
    auto& c = sums[r / 2];
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      multiply_add(c[n], a, 0, x.v[n][0].x, x.v[n][0].y);
      multiply_add(c[n], a, 1, x.v[n][0].z, x.v[n][0].w);
      multiply_add(c[n], a, 2, x.v[n][1].x, x.v[n][1].y);
      multiply_add(c[n], a, 3, x.v[n][1].z, x.v[n][1].w);
    }
  }
}
// Step `step` of a stage at `stage`, of n_units units. x: of the step; then of the next one, at `next`.
template <class P, int kTiles>
__device__ inline void multiply_step(const uint8_t* stage, int step, int n_units, int lane, Lookup lookup,
                                     Activations<kTiles> (&x)[2], const uint8_t* next, int64_t stride,
                                     Sums<P, kTiles>& sums) {
  using Tile = ColumnsTile<P>;
  constexpr bool kWhole = kTiles == 1;  // there are registers for two steps
  Activations<kTiles> y[2];
  if constexpr (kWhole) {
#pragma unroll
    for (int h = 0; h < 2; ++h) y[h] = Activations<kTiles>::load(next, stride, h);
  }
#pragma unroll
  for (int set = 0; set < Tile::kSets; ++set) {
    const StepWeights<P> w(stage + (8 * set + lane / 4) * Tile::kStride, 4 * step + lane % 4, n_units);
    const auto prepared = P::prepare(w.scales);
    float(*of_set)[kTiles][4] = sums + set * P::kRows / 2;
    half_step<P, kTiles, 0>(w, prepared, lookup, x[0], of_set);
    if (!kWhole && set + 1 == Tile::kSets) x[0] = Activations<kTiles>::load(next, stride, 0);
    half_step<P, kTiles, 1>(w, prepared, lookup, x[1], of_set);
    if (!kWhole && set + 1 == Tile::kSets) x[1] = Activations<kTiles>::load(next, stride, 1);
  }
  if constexpr (kWhole) x[0] = y[0], x[1] = y[1];
}

// Sums of fragments to a warp's part [kRows][kPartStride]; they begin anew.
template <class P, int kTiles>
__device__ inline void put_sums(Sums<P, kTiles>& sums, float* part, int lane) {
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

// What a multiplying warp does. It passes through all stages, so that none is filled anew before all have seen it full.
template <class P, int kTiles>
__device__ inline void multiply_tiles(const MatvecParams& p, const ColumnsSplit& s, RingPlace ring, RingPlace buffers,
                                      const uint8_t* stages, float* parts, Lookup lookup) {
  using Tile = ColumnsTile<P>;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = warp / Tile::kSteps, step = warp % Tile::kSteps;
  Sums<P, kTiles> sums = {};
  const auto* x_lane = static_cast<const uint8_t*>(p.x) + 16 * lane;
  // Of the warp's step of a slice; past the end, of the last step.
  const auto x_at = [&](int slice) { return x_lane + min(slice * Tile::kSteps + step, s.n_steps - 1) * kStepBytes; };
  Activations<kTiles> x[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) x[h] = Activations<kTiles>::load(x_at(group), p.x_stride_bytes, h);
#pragma unroll 1
  for (int tile = blockIdx.x; tile < s.n_tiles; tile += gridDim.x, buffers.advance(1)) {
#pragma unroll 1
    for (int matrix = 0; matrix < p.n_lanes; ++matrix) {
      int turn = group;
#pragma unroll 1
      for (int slice = 0; slice < s.g.n_slices; ++slice, ring.advance(1)) {
        ring.wait_full();
        const bool is_mine = turn == 0;
        turn = is_mine ? Tile::kGroups - 1 : turn - 1;
        if (is_mine) {
          const uint8_t* next = x_at(slice + Tile::kGroups < s.g.n_slices ? slice + Tile::kGroups : group);
          // Steps past the end: activations of the last one, without products.
          const bool is_there = slice * Tile::kSteps + step < s.n_steps;
          if (is_there)
            multiply_step<P, kTiles>(stages + ring.at * Tile::kStageBytes, step,
                                     slice + 1 < s.g.n_slices ? kSliceUnits : s.g.last_units, lane, lookup, x, next,
                                     p.x_stride_bytes, sums);
          else
            for (int h = 0; h < 2; ++h) x[h] = Activations<kTiles>::load(next, p.x_stride_bytes, h);
          ring.give_back();
        } else {
          __syncwarp();
          if (lane == 0) ring.give_back();
        }
      }
      if (matrix == 0) buffers.wait_empty();
      put_sums<P, kTiles>(
          sums, parts + ((buffers.at * p.n_lanes + matrix) * kColumnsWarps + warp) * kPartFloats<P, kTiles>, lane);
    }
    buffers.fill();
  }
}

// What a finishing warp does: of a tile's elements every third 32. Parts are added in ascending order.
template <class P, int kTiles>
__device__ inline void finish_tiles(const MatvecParams& common, const MatvecParts& products, const ColumnsSplit& s,
                                    RingPlace buffers, const float* parts, int warp) {
  constexpr int kRows = ColumnsTile<P>::kRows, kPart = kPartFloats<P, kTiles>;
  const int lane = threadIdx.x % 32;
  const auto* factors =
      reinterpret_cast<const float*>(static_cast<const uint8_t*>(common.x) + kTiles * common.x_stride_bytes);
  const float factor_of_lane = lane < common.n_cols ? kHalfFactor<P> * factors[lane] : 0.0f;
#pragma unroll 1
  for (int tile = blockIdx.x; tile < s.n_tiles; tile += gridDim.x, buffers.advance(1)) {
    const TilePlace at(products, tile);
    MatvecParams p = common;
    p.lanes[0] = products.part[at.product].lane;
    p.n_rows = products.part[at.product].n_rows;
    p.y = products.part[at.product].y;
    p.y_stride = products.part[at.product].y_stride;
    buffers.wait_full();
#pragma unroll 1
    for (int first = 32 * warp; first < kRows * p.n_cols; first += 32 * kFinishingWarps) {
      const int r = (first + lane) % kRows, col = min((first + lane) / kRows, p.n_cols - 1);
      const float factor = __shfl_sync(0xFFFFFFFF, factor_of_lane, col);
      const int64_t row = static_cast<int64_t>(at.tile) * kRows + r;
      if (row >= p.n_rows || first + lane >= kRows * p.n_cols) continue;
      const RowInputs inputs = load_row_inputs(p, row, 0, col);
      float sum[2] = {};
#pragma unroll
      for (int l = 0; l < 2; ++l) {
        if (l >= p.n_lanes) break;
        const float* from =
            parts + (buffers.at * p.n_lanes + l) * kColumnsWarps * kPart + r * kPartStride<kTiles> + col;
        sum[l] = from[0];
#pragma unroll
        for (int w = 1; w < kColumnsWarps; ++w) sum[l] += from[w * kPart];
        sum[l] *= factor;
      }
      finish_row(p, sum, inputs, row, col);
    }
    buffers.give_back();
  }
}

// kTiles: of 8 columns.
template <class P, int kTiles>
__global__ void __launch_bounds__(kColumnsThreads, 1)
    columns_kernel(const __grid_constant__ MatvecParams p, const __grid_constant__ MatvecParts products,
                   const __grid_constant__ ColumnsSplit s) {
  using Shared = ColumnsShared<P, kTiles>;
  using Fetch = Fetcher<P>;
  TOKAMAK_DYNAMIC_SHARED(128, uint8_t, shared);
  const uint32_t barriers = ptx::shared_address(shared + Shared::kStageBarriers),
                 buffer_barriers = ptx::shared_address(shared + Shared::kBufferBarriers);
  const RingPlace ring{barriers, barriers + 8 * ColumnsTile<P>::kMostStages, s.n_stages};
  const RingPlace buffers{buffer_barriers, buffer_barriers + 16, s.n_buffers};
  auto* parts = reinterpret_cast<float*>(shared + Shared::kParts);
  uint8_t* stages = shared + Shared::stages(p.n_lanes, s.n_buffers);
  allow_next_kernel();
  constexpr int kFetchingWarp = kColumnsWarps + kFinishingWarps;
  const int warp = threadIdx.x / 32;
  if (threadIdx.x == 32 * kFetchingWarp) {
    ring.init(Fetch::kFills, ColumnsTile<P>::kGivesBack);
    buffers.init(32 * kColumnsWarps, 32 * kFinishingWarps);
#if __CUDA_ARCH__ >= 900
    ptx::fence_barrier_init();
#endif
  }
  if constexpr (P::kTableBytes > 0)
    for (int i = threadIdx.x; i < P::kTableBytes / 16; i += kColumnsThreads)
      reinterpret_cast<uint4*>(shared)[i] = reinterpret_cast<const uint4*>(products.part[0].lane.weights)[i];
  __syncthreads();
  if (warp == kFetchingWarp)
    return Fetch{p, products, s, ptx::shared_address(stages), static_cast<int>(threadIdx.x % 32)}.run(ring);
  wait_for_previous_kernel();
  if (warp >= kColumnsWarps)
    finish_tiles<P, kTiles>(p, products, s, buffers, parts, warp - kColumnsWarps);
  else
    multiply_tiles<P, kTiles>(p, s, ring, buffers, stages, parts,
                              Lookup{reinterpret_cast<const uint32_t*>(shared), threadIdx.x * p.zero});
}

template <class P, int kTiles>
cudaError_t launch_tiles(const MatvecParams& p, MatvecParts products, cudaStream_t stream) {
  using Shared = ColumnsShared<P, kTiles>;
  using Tile = ColumnsTile<P>;
  ColumnsSplit s{};
  s.g = geometry_of<P>(p.n_rows, p.k);
  s.n_steps = static_cast<int>((p.k + 127) / 128);
  for (int i = 0; i < products.n_parts; ++i) {
    products.n_ctas[i] = static_cast<int>((products.part[i].n_rows + Tile::kRows - 1) / Tile::kRows);
    s.n_tiles += products.n_ctas[i];
  }
  const int most = device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, 48 * 1024);
  const auto stages = [&](int n_buffers) {
    return std::min((most - Shared::stages(p.n_lanes, n_buffers)) / Tile::kStageBytes, Tile::kMostStages);
  };
  s.n_buffers = stages(2) == Tile::kMostStages ? 2 : 1;
  s.n_stages = stages(s.n_buffers);
  if (s.n_stages < 1) return cudaErrorInvalidConfiguration;
  const LaunchShape shape{
      .grid = static_cast<unsigned>(std::min(s.n_tiles, p.n_sms)),
      .block = kColumnsThreads,
      .shared_bytes = static_cast<size_t>(Shared::stages(p.n_lanes, s.n_buffers) + s.n_stages * Tile::kStageBytes),
      .overlap = p.overlap};
  const auto kernel = columns_kernel<P, kTiles>;
  const cudaError_t raised =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shape.shared_bytes));
  return raised == cudaSuccess ? enqueue(kernel, shape, stream, p, products, s) : raised;
}

template <class P>
cudaError_t launch_columns_of(const MatvecParams& p, const MatvecParts& parts, cudaStream_t stream) {
  return p.n_cols <= 8 ? launch_tiles<P, 1>(p, parts, stream) : launch_tiles<P, 2>(p, parts, stream);
}

}  // namespace tokamak::cuda
