// The kernel: y[c][row] = sum over k of W[row][k] * x[c][k], then the epilogue of matvec/.
//
// A CTA makes a tile of 8 row blocks. k is cut into parts, by k only; a warp takes one part after the other, whose
// weights arrive in stages (stage.cuh). Lane 4g + t of a warp takes row block g of the tile, and of each 128 of k block
// t: so the place of its rows in the row block is known to the compiler, and their scales lie together. Rows 2f and
// 2f + 1 of the row blocks are fragment f of mma.m16n8k16 (gemm/half.h). Sums of parts go to shared memory and are
// added in ascending order: the number of warps, the grid and the other columns do not matter.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/cuda/columns/decode.cuh"
#include "backend/cuda/columns/launchers.h"
#include "backend/cuda/columns/stage.cuh"
#include "backend/cuda/matvec/epilogue.cuh"
#include "backend/cuda/matvec/params.h"

namespace tokamak::cuda {

template <class P>
inline constexpr int kTileRows = kStageBlocks* P::kRows;
template <class P>
inline constexpr int kStageSteps = kStageUnits / (4 * kUnitsPerBlock<P>);  // of 128 k
// Floats between rows of partial sums: no bank twice.
template <int kTiles>
inline constexpr int kPartStride = 8 * kTiles + 2;
template <class P, int kTiles>
inline constexpr int kPartFloats = kTileRows<P>* kPartStride<kTiles>;

// Shared memory: the type's table; a ring of n_ring stages for each warp; sums of each matrix and part.
struct ColumnsSplit {
  Geometry g;
  int n_stages, part_stages, n_parts;  // a part is part_stages stages, the last one maybe fewer
  int n_warps, n_ring;
};

template <int kTiles>
struct Activations {  // of half a step: words of two k each
  uint4 v[kTiles][2];
};
template <class P, int kTiles>
using Sums = float[P::kRows / 2][kTiles][4];

__device__ inline void multiply_add(float (&c)[4], const uint32_t (&a)[2][8], int i, uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0][2 * i]), "r"(a[1][2 * i]), "r"(a[0][2 * i + 1]), "r"(a[1][2 * i + 1]), "r"(b0), "r"(b1));
}

// A warp's way over its stages: those of its parts, of the first matrix and then of the second.
struct StageAt {
  int matrix, part, stage;

  __device__ static StageAt begin(const ColumnsSplit& s, int warp) { return {0, warp, warp * s.part_stages}; }
  __device__ bool is_last_of_part(const ColumnsSplit& s) const {
    return stage + 1 == min((part + 1) * s.part_stages, s.n_stages);
  }
  __device__ void advance(const ColumnsSplit& s, int warp) {
    if (!is_last_of_part(s)) {
      ++stage;
      return;
    }
    part += s.n_warps;
    if (part >= s.n_parts) part = warp, ++matrix;
    stage = part * s.part_stages;
  }
  __device__ int first_unit() const { return stage % (kSliceUnits / kStageUnits) * kStageUnits; }
  __device__ int slice() const { return stage / (kSliceUnits / kStageUnits); }
};

// The weights of a stage on their way to shared memory at `to`.
template <class P>
__device__ inline void copy_stage(const MatvecParams& p, const ColumnsSplit& s, const StageAt& at, int tile,
                                  uint32_t to, int lane) {
  StageSource from;
  from.slice = (at.matrix == 0 ? p.lanes[0] : p.lanes[1]).weights + P::kTableBytes + at.slice() * s.g.tile_bytes;
  from.row_block_bytes = s.g.row_block_bytes;
  from.first_block = tile * kStageBlocks;
  from.last_block = s.g.n_row_blocks - 1;
  from.first = at.first_unit();
  from.n_units = at.slice() + 1 < s.g.n_slices ? kSliceUnits : s.g.last_units;
  from.n = min(kStageUnits, from.n_units - from.first);
  copy_planes<P>(from, to, lane);
}

// A lane's columns, from its place in a step on.
template <int kTiles>
struct LaneColumns {
  const uint8_t* place[kTiles];

  __device__ Activations<kTiles> load(int step, int half) const {
    Activations<kTiles> out;
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      const auto* p = reinterpret_cast<const uint4*>(place[n] + 256 * step + 32 * half);
      out.v[n][0] = p[0], out.v[n][1] = p[1];
    }
    return out;
  }
};

template <class P, int kTiles, int h, class Codes, class Prepared>
__device__ inline void half_step(const Codes& codes, const Prepared& prepared, Lookup lookup,
                                 const Activations<kTiles>& x, Sums<P, kTiles>& sums) {
#pragma unroll
  for (int f = 0; f < P::kRows / 2; ++f) {
    uint32_t a[2][8];
#pragma unroll
    for (int r = 0; r < 2; ++r) columns_halves<P, h>(codes[2 * f + r], prepared, 2 * f + r, lookup, a[r]);
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      multiply_add(sums[f][n], a, 0, x.v[n][0].x, x.v[n][0].y);
      multiply_add(sums[f][n], a, 1, x.v[n][0].z, x.v[n][0].w);
      multiply_add(sums[f][n], a, 2, x.v[n][1].x, x.v[n][1].y);
      multiply_add(sums[f][n], a, 3, x.v[n][1].z, x.v[n][1].w);
    }
  }
}

// The lane's block of step `step` of a stage with n_units units. Blocks past the end are the last one, with activations
// of 0: finite where the row's weights are.
template <class P, int kTiles, class NextX>
__device__ inline void run_step(const uint8_t* block, int step, int quad, int n_units, Lookup lookup,
                                Activations<kTiles>& x, const Activations<kTiles>& second, NextX&& next_x,
                                Sums<P, kTiles>& sums) {
  constexpr int kUnits = kUnitsPerBlock<P>;
  typename P::Codes codes[P::kRows][kUnits];
  typename P::Scales scales;
#pragma unroll
  for (int u = 0; u < kUnits; ++u) {
    const int at = min((4 * step + quad) * kUnits + u, n_units - 1);
    const SharedUnit<kStageUnits> unit{block + at * P::kStride, at};
#pragma unroll
    for (int r = 0; r < P::kRows; ++r) codes[r][u] = P::load_codes(unit, r);
    if (u == 0) scales = P::load_scales(unit);
  }
  const auto prepared = P::prepare(scales);
  half_step<P, kTiles, 0>(codes, prepared, lookup, x, sums);
  x = next_x();
  half_step<P, kTiles, 1>(codes, prepared, lookup, second, sums);
}

// Sums of fragments to a warp's part, and begins them anew.
template <class P, int kTiles>
__device__ inline void put_sums(Sums<P, kTiles>& sums, float* part, int lane) {
  const int group = lane / 4, quad = lane % 4;
#pragma unroll
  for (int f = 0; f < P::kRows / 2; ++f)
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      float* out = part + (group * P::kRows + 2 * f) * kPartStride<kTiles> + 8 * n + 2 * quad;
      float(&c)[4] = sums[f][n];
      *reinterpret_cast<float2*>(out) = {c[0], c[1]};
      *reinterpret_cast<float2*>(out + kPartStride<kTiles>) = {c[2], c[3]};
      c[0] = c[1] = c[2] = c[3] = 0.0f;
    }
}

// The sums of parts in ascending order, then the epilogue: a thread per element, neighbours neighbouring rows.
template <class P, int kTiles>
__device__ inline void finish_tile(const MatvecParams& p, const ColumnsSplit& s, const float* parts, int tile) {
  constexpr int kRows = kTileRows<P>, kPart = kPartFloats<P, kTiles>;
  for (int at = threadIdx.x; at < kRows * p.n_cols; at += blockDim.x) {
    const int r = at % kRows, col = at / kRows;
    const int64_t row = static_cast<int64_t>(tile) * kRows + r;
    if (row >= p.n_rows) continue;
    const RowInputs inputs = load_row_inputs(p, row, 0, col);
    const auto* column = static_cast<const uint8_t*>(p.x) + col * p.x_stride_bytes;
    const float factor = kColumnsFactor<P> * *reinterpret_cast<const float*>(column + p.x_stride_bytes - 16);
    float sum[2] = {};
#pragma unroll
    for (int l = 0; l < 2; ++l) {
      if (l >= p.n_lanes) break;
      const float* from = parts + l * s.n_parts * kPart + r * kPartStride<kTiles> + col;
      sum[l] = from[0];
#pragma unroll 8
      for (int i = 1; i < s.n_parts; ++i) sum[l] += from[i * kPart];
      sum[l] *= factor;
    }
    finish_row(p, sum, inputs, row, col);
  }
}

template <class P, int kTiles>
__device__ __forceinline__ void run_tile(const MatvecParams& p, const ColumnsSplit& s, int tile) {
  extern __shared__ uint4 shared[];
  constexpr int kPart = kPartFloats<P, kTiles>, kSteps = kStageSteps<P>;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, quad = lane % 4;
  uint8_t* ring = reinterpret_cast<uint8_t*>(shared) + P::kTableBytes + warp * s.n_ring * stage_bytes<P>();
  const auto ring_at = static_cast<uint32_t>(__cvta_generic_to_shared(ring));
  StageAt coming = StageAt::begin(s, warp);
  const auto copy_next = [&](int slot) {
    if (coming.matrix < p.n_lanes) {
      copy_stage<P>(p, s, coming, tile, ring_at + slot * stage_bytes<P>(), lane);
      coming.advance(s, warp);
    }
    end_copies();
  };
  for (int slot = 0; slot < s.n_ring; ++slot) copy_next(slot);
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  if constexpr (P::kTableBytes > 0) {
    for (int i = threadIdx.x; i < P::kTableBytes / 16; i += blockDim.x)
      shared[i] = reinterpret_cast<const uint4*>(p.lanes[0].weights)[i];
    __syncthreads();
  }
  asm volatile("griddepcontrol.wait;" ::: "memory");

  const Lookup lookup{reinterpret_cast<const uint32_t*>(shared), threadIdx.x * p.zero};
  float* parts = reinterpret_cast<float*>(reinterpret_cast<uint8_t*>(shared) + P::kTableBytes +
                                          s.n_warps * s.n_ring * stage_bytes<P>());
  LaneColumns<kTiles> columns;
#pragma unroll
  for (int n = 0; n < kTiles; ++n)
    columns.place[n] =
        static_cast<const uint8_t*>(p.x) + min(8 * n + lane / 4, p.n_cols - 1) * p.x_stride_bytes + 64 * quad;
  Sums<P, kTiles> sums = {};
  StageAt now = StageAt::begin(s, warp);
  Activations<kTiles> x = columns.load(now.stage * kSteps, 0);
#pragma unroll 1
  for (int slot = 0; now.matrix < p.n_lanes; slot = slot + 1 == s.n_ring ? 0 : slot + 1) {
    if (s.n_ring == 1)
      wait_for_copies<0>();
    else
      wait_for_copies<1>();
    __syncwarp();
    const int n_units =
        now.slice() + 1 < s.g.n_slices ? kStageUnits : min(kStageUnits, s.g.last_units - now.first_unit());
    const uint8_t* block = ring + slot * stage_bytes<P>() + lane / 4 * stage_block_bytes<P>();
    const int first_step = now.stage * kSteps;
    float* done = now.is_last_of_part(s) ? parts + (now.matrix * s.n_parts + now.part) * kPart : nullptr;
    now.advance(s, warp);
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const Activations<kTiles> second = columns.load(first_step + step, 1);
      const auto next_x = [&] {
        return columns.load(step + 1 == kSteps ? now.stage * kSteps : first_step + step + 1, 0);
      };
      run_step<P, kTiles>(block, step, quad, n_units, lookup, x, second, next_x, sums);
    }
    __syncwarp();
    copy_next(slot);
    if (done) put_sums<P, kTiles>(sums, done, lane);
  }
  __syncthreads();
  finish_tile<P, kTiles>(p, s, parts, tile);
}

// Of a CTA: as many as the registers of a multiprocessor allow.
template <int kTiles>
inline constexpr int kMostWarps = kTiles == 1 ? 28 : 16;

// kTiles: of 8 columns. A CTA belongs to one of the parts.
template <class P, int kTiles>
__global__ void __launch_bounds__(32 * kMostWarps<kTiles>, 1)
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

// The split for n_ctas tiles on the current device: the cut of k into parts depends on k and the type only. No warps:
// shared memory does not suffice.
template <class P, int kTiles>
ColumnsSplit columns_split(const MatvecParams& p, int64_t n_ctas, int& n_bytes) {
  ColumnsSplit s{};
  s.g = geometry_of<P>(p.n_rows, p.k);
  s.n_stages = (s.g.n_units + kStageUnits - 1) / kStageUnits;
  constexpr int kMostParts = 28 * 4 / (P::kRows < 4 ? 4 : P::kRows);
  const int passes = (s.n_stages + kMostParts - 1) / kMostParts;
  s.part_stages = passes;
  s.n_parts = (s.n_stages + passes - 1) / passes;
  const ColumnsDevice device = columns_device();
  // Up to three CTAs at once on a multiprocessor hide each other's beginning and end.
  const int64_t rounds = (n_ctas + device.n_sms - 1) / device.n_sms;
  const int n_resident = static_cast<int>(rounds < 3 ? rounds : 3);
  const int fixed = P::kTableBytes + p.n_lanes * s.n_parts * kPartFloats<P, kTiles> * 4;
  for (int warps = kMostWarps<kTiles> / n_resident; warps > 0; --warps) {
    const int turns = (s.n_parts + warps - 1) / warps;
    s.n_warps = (s.n_parts + turns - 1) / turns;
    s.n_ring = turns * s.part_stages > 1 &&
                       (fixed + 2 * s.n_warps * stage_bytes<P>() + 1024) * n_resident <= device.shared_bytes_of_sm
                   ? 2
                   : 1;
    n_bytes = fixed + s.n_ring * s.n_warps * stage_bytes<P>();
    if (n_bytes <= device.shared_bytes_of_cta) return s;
  }
  s.n_warps = 0;
  return s;
}

template <class P, int kTiles>
cudaError_t launch_tiles(const MatvecParams& p, MatvecParts parts, cudaStream_t stream) {
  unsigned n_ctas = 0;
  for (int i = 0; i < parts.n_parts; ++i) {
    parts.n_ctas[i] = static_cast<int>((parts.part[i].n_rows + kTileRows<P> - 1) / kTileRows<P>);
    n_ctas += static_cast<unsigned>(parts.n_ctas[i]);
  }
  int n_bytes = 0;
  const ColumnsSplit s = columns_split<P, kTiles>(p, n_ctas, n_bytes);
  if (s.n_warps == 0) return cudaErrorInvalidValue;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(n_ctas);
  config.blockDim = dim3(static_cast<unsigned>(32 * s.n_warps));
  config.dynamicSmemBytes = static_cast<size_t>(n_bytes);
  config.stream = stream;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute;
  config.numAttrs = p.overlap ? 1 : 0;
  const cudaError_t error =
      cudaFuncSetAttribute(columns_kernel<P, kTiles>, cudaFuncAttributeMaxDynamicSharedMemorySize, n_bytes);
  if (error != cudaSuccess) return error;
  return cudaLaunchKernelEx(&config, columns_kernel<P, kTiles>, p, parts, s);
}

template <class P>
cudaError_t launch_columns_of(const MatvecParams& p, const MatvecParts& parts, cudaStream_t stream) {
  return p.n_cols <= 8 ? launch_tiles<P, 1>(p, parts, stream) : launch_tiles<P, 2>(p, parts, stream);
}

}  // namespace tokamak::cuda
